"""The driver: commands through a queue, and every way a board can fail it."""

import dataclasses

import numpy as np
import pytest

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import Command, ErrorCode, Operation, parameter_hash
from muntin.host.errors import DeviceError, KernelError, from_wire, to_wire
from muntin.host.fpga.driver import KernelDriver
from muntin.sim.models.kernel import KernelModel
from muntin.sim.models.kernel_shell import LanedModel

TINY = Parameters.preset("tiny")
OFFSETS = {register.name: register.offset for register in BISORT.registers()}


class Board(KernelModel):
    """A board on which registers can be made to read something else, and calls to fail."""

    def __init__(self, parameters=TINY):
        self.instead = {}
        self.broken = {}
        super().__init__(parameters, 1 << 16)

    def read_register(self, offset):
        self._fails("read_registers")
        value = super().read_register(offset)
        return self.instead.get(offset, value)

    def _fails(self, name):
        if name in self.broken:
            raise self.broken[name]

    def wait(self):
        self._fails("wait")
        super().wait()

    def write_memory(self, address, content):
        self._fails("write_memory")
        super().write_memory(address, content)

    def push_words(self, offset, words):
        self._fails("push_words")
        super().push_words(offset, words)


def copy(at=0, to=0x1000, length=8):
    return Command(operation=Operation.COPY, length_a=length, keys_a=at, keys_out=to)


@pytest.fixture
def board():
    return Board()


def test_more_commands_than_the_queue_takes(board):
    driver = KernelDriver(board, "test")
    driver.write_memory(0, np.arange(100, dtype=np.uint64))
    driver.run([copy(8 * at, 0x1000 + 8 * at) for at in range(100)])
    np.testing.assert_array_equal(driver.read_memory(0x1000, 800).view(np.uint64), np.arange(100))
    counters = driver.counters()
    assert (counters["commands"], counters["read_beats"], counters["write_beats"]) == (100, 100, 100)
    driver.clear_counters()
    assert not any(driver.counters().values())
    driver.run([])


def test_tags_start_anew(board):
    driver = KernelDriver(board, "test")
    driver._tags = [0xFFFE]
    driver.run([copy()] * 4)
    driver.run([copy()])
    with pytest.raises(KernelError, match="COPY"):
        driver.run([copy(), copy(length=0)])


def test_an_error_names_what_failed_and_stays(board):
    driver = KernelDriver(board, "test")
    commands = [copy(), Command(operation=Operation.MERGE, length_a=1, length_b=1, keys_b=4), copy()]
    with pytest.raises(KernelError, match="device test: the kernel failed in MERGE at address 0x4: an address is not"):
        driver.run(commands)
    assert driver.parameters is TINY
    for again in (lambda: driver.run([copy()]), driver.counters, lambda: driver.write_memory(0, b"x")):
        with pytest.raises(KernelError, match="MERGE at address 0x4"):
            again()


@pytest.mark.parametrize(
    ("code", "says"),
    [(code, "") for code in ErrorCode if code]
    + [(ErrorCode.DECODE_ERROR, "memory_bytes"), (ErrorCode.TIMEOUT, "clock"), (200, "error code 200")],
)
def test_every_code_is_reported(board, code, says):
    driver = KernelDriver(board, "test")
    board.instead = {OFFSETS["ERROR_CODE"]: code, OFFSETS["ERROR_COMMAND"]: 1, OFFSETS["ERROR_ADDRESS_HIGH"]: 1}
    with pytest.raises(KernelError, match="open it again") as failed:
        driver.run([copy(), Command(operation=Operation.PROBE)])
    assert "in PROBE at address 0x100000000" in str(failed.value)
    assert says in str(failed.value)
    returned = from_wire(to_wire(failed.value))
    assert type(returned) is KernelError
    assert str(returned) == str(failed.value)


def test_another_kernel(board):
    board.instead = {OFFSETS["BUILD_ID"]: 0xFFFFFFFF}
    with pytest.raises(DeviceError, match="BUILD_ID reads 0xffffffff, not 0x4d554c31"):
        KernelDriver(board, "test")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"key_bits": 64}, "key_words is 1, not 2"),
        ({"partition_log2": 5, "index_rows": 32}, "partition_log2 is 4, not 5; index_log2 is 6, not 5"),
        ({"channels": 2}, "channels_log2 is 0, not 1"),
        ({"buffer_rows": 256}, "buffer_rows is 8, not 127"),
    ],
)
def test_another_build(board, change, says):
    board.parameters = dataclasses.replace(TINY, **change)
    with pytest.raises(DeviceError, match="built with other parameters") as refused:
        KernelDriver(_as_built(board, TINY), "test")
    assert says in str(refused.value)


def test_other_tables(board):
    board.instead = {OFFSETS["LAYOUT_HASH"]: 0x12345678}
    with pytest.raises(DeviceError, match=f"LAYOUT_HASH reads 0x12345678, not {BISORT.layout_hash():#010x}"):
        KernelDriver(board, "test")


def test_a_parameter_that_is_not_shown(board):
    as_built = parameter_hash(TINY)
    board.parameters = dataclasses.replace(TINY, turn_bytes=1024)
    board.instead = {OFFSETS["PARAMETER_HASH"]: as_built}
    with pytest.raises(DeviceError, match=f"PARAMETER_HASH reads {as_built:#010x}, not") as refused:
        KernelDriver(board, "test")
    assert f"{parameter_hash(board.parameters):#010x}" in str(refused.value)


def _as_built(board, parameters):
    """The board, whose BUILD_PARAMETERS stays that of other parameters."""
    board.instead = {OFFSETS["BUILD_PARAMETERS"]: Board(parameters).read_register(OFFSETS["BUILD_PARAMETERS"])}
    return board


def test_no_room_in_the_queue(board):
    board.instead = {OFFSETS["QUEUE_STATUS"]: 0}
    with pytest.raises(DeviceError, match="no room"):
        KernelDriver(board, "test")


@pytest.mark.parametrize("call", ["wait", "push_words", "read_registers"])
@pytest.mark.parametrize("error", [TimeoutError("20 seconds"), ConnectionResetError("cable")])
def test_a_board_that_does_not_answer(board, call, error):
    driver = KernelDriver(board, "test")
    board.broken = {call: error}
    with pytest.raises(DeviceError, match=f"does not answer \\({error}\\)") as failed:
        driver.run([copy()])
    assert failed.value.__cause__ is error
    board.broken = {}
    with pytest.raises(DeviceError, match="does not answer"):
        driver.read_memory(0, 1)


@pytest.mark.parametrize("call", ["wait", "push_words"])
def test_an_interrupted_command_is_the_last_one(board, call):
    driver = KernelDriver(board, "test")
    board.broken = {call: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        driver.run([copy()])
    board.broken = {}
    for use in (lambda: driver.run([copy()]), lambda: driver.read_memory(0, 1), driver.counters):
        with pytest.raises(DeviceError, match="a command was interrupted"):
            use()


def test_nothing_can_be_asked_of_a_closed_board(board):
    driver = KernelDriver(board, "test")
    driver.close()
    driver.close()
    with pytest.raises(DeviceError, match="device test was closed"):
        driver.run([copy()])


def test_done_too_early(board):
    driver = KernelDriver(board, "test")
    board.instead = {OFFSETS["COMPLETED_TAG"]: 5}
    with pytest.raises(DeviceError, match="done after command 5, and command 0 was the last"):
        driver.run([copy()])


# Lanes


@pytest.fixture
def laned():
    return LanedModel(dataclasses.replace(TINY, lanes=4), 1 << 18, lambda parameters, _: Board(parameters))


def test_lanes_have_queues_and_memories_of_their_own(laned):
    driver = KernelDriver(laned, "test")
    assert driver.lane_bytes == 1 << 16
    for lane in range(4):
        driver.write_memory(0, np.arange(100 * lane, 100 * lane + 100, dtype=np.uint64), lane)
    counts = {0: 3, 1: 100, 3: 5}
    driver.run_lanes({lane: [copy(8 * at, 0x1000 + 8 * at) for at in range(count)] for lane, count in counts.items()})
    for lane in range(4):
        copied = driver.read_memory(0x1000, 800, lane).view(np.uint64)
        count = counts.get(lane, 0)
        np.testing.assert_array_equal(copied[:count], np.arange(100 * lane, 100 * lane + count))
        assert not copied[count:].any()
        assert driver.counters(lane)["commands"] == count
    driver.clear_counters()
    assert not any(driver.counters(lane)["commands"] for lane in range(4))
    driver.run([copy(0, 0x2000)], 2)
    assert driver.counters(2)["commands"] == 1


def test_an_error_names_its_lane(laned):
    driver = KernelDriver(laned, "test")
    driver.run([copy()], 3)
    with pytest.raises(KernelError, match="the kernel failed in COPY at address 0x4 of lane 3: an address is not"):
        driver.run_lanes({1: [copy()], 3: [copy(), copy(at=4), copy()]})
    with pytest.raises(KernelError, match="lane 3"):
        driver.run([copy()], 1)
