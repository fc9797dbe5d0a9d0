"""The host's end of the link: what is lost or damaged is asked for again and done once; what stays wrong is named."""

import functools
import time

import numpy as np
import pytest

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.link import DATA_WORDS, FLAG
from muntin.contract.registers import Command, Operation
from muntin.host.errors import (
    DeviceError,
    LinkDamagedError,
    LinkIdentityError,
    LinkLostError,
    LinkPortError,
    LinkRefusedError,
    LinkSilentError,
    MemoryStartError,
    from_wire,
    to_wire,
)
from muntin.host.fpga.driver import KernelDriver
from muntin.host.fpga.link import TRIES, LinkClient, SerialPort
from muntin.host.fpga.memory_check import memory_check, memory_soak
from muntin.host.fpga.serial_board import SerialBoard
from tests.host.fpga.board_model import MEMORY_BYTES, PARAMETERS, TIMINGS, BoardModel, FaultyLine, TerminalBoard

OFFSETS = {register.name: register.offset for register in BISORT.registers()}
DESIGNS = {"bisort": PARAMETERS}


def opened(behind=None, fault=None):
    """A board opened over a line with that fault."""
    line = FaultyLine(behind or BoardModel(), *([fault] if fault else []))
    return SerialBoard(LinkClient(line, patience=0), "ecpix5", DESIGNS)


def once(direction, number, damage):
    """A fault that damages one frame of a direction."""
    return lambda way, count, content: damage(content) if (way, count) == (direction, number) else content


def test_a_board_is_opened_and_its_memory_started():
    behind = BoardModel()
    board = opened(behind)
    assert board.timings == TIMINGS
    assert board.memory_bytes == MEMORY_BYTES
    assert behind.started[:3] == [14, 12, 15]
    assert behind.started[-1] == 1  # the controller has the memory
    assert board.repeated == 0


def test_a_driver_works_over_the_link():
    driver = KernelDriver(opened(), "board:ecpix5")
    driver.write_memory(0, np.arange(200, dtype=np.uint64))
    copy = Command(operation=Operation.COPY, length_a=1600, keys_a=0, keys_out=0x1000)
    driver.run([copy] * 5)
    np.testing.assert_array_equal(driver.read_memory(0x1000, 1600).view(np.uint64), np.arange(200))
    assert driver.counters()["commands"] == 5
    driver.close()


@pytest.mark.parametrize("address", [0, 1, 6, 4 * DATA_WORDS - 3])
@pytest.mark.parametrize("length", [1, 2, 7, 4 * DATA_WORDS + 5])
def test_memory_of_any_length_anywhere(address, length, seed):
    board = opened()
    before = np.random.default_rng(seed).integers(0, 256, address + length + 16, np.uint8)
    board.write_memory(0, before)
    written = np.arange(length, dtype=np.uint8)
    board.write_memory(address, written)
    after = board.read_memory(0, len(before))
    np.testing.assert_array_equal(board.read_memory(address, length), written)
    np.testing.assert_array_equal(after[:address], before[:address])
    np.testing.assert_array_equal(after[address + length :], before[address + length :])


@pytest.mark.parametrize("direction", ["to", "from"])
def test_every_lost_and_every_flipped_byte_is_made_good(direction):
    """A word is pushed to a queue that shows how often it came; each byte of the frame in turn is damaged."""

    def lost(place):
        return lambda content: content[: place % len(content)] + content[place % len(content) + 1 :]

    def flipped(place):
        return lambda content: bytes(byte ^ 0x10 * (at == place % len(content)) for at, byte in enumerate(content))

    for place in range(26):  # more than there are; the session's number, which is random, may be escaped
        for damage in (lost(place), flipped(place)):
            behind = BoardModel()
            client = LinkClient(FaultyLine(behind, once(direction, 1, damage)), patience=0)
            client.open()
            client.push(OFFSETS["QUEUE_PUSH"], [5])
            assert behind.kernel._words == [5], (direction, place)


def test_a_repeated_read_reads_once():
    """Reading CONTROL clears done: it is there for who asks again, too."""
    behind = BoardModel()
    client = LinkClient(FaultyLine(behind, once("from", 1, lambda content: b"")), patience=0)
    client.open()
    behind.kernel.write_register(OFFSETS["CONTROL"], 1)
    assert client.read([OFFSETS["CONTROL"]])[0] & 2
    assert client.repeated == 1
    assert not client.read([OFFSETS["CONTROL"]])[0] & 2


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (lambda way, count, content: b"" if way == "from" else content, LinkSilentError, f"for {TRIES} times"),
        (lambda way, count, content: content[:-3], LinkSilentError, "nothing came back"),
        (lambda way, count, content: content[1:-1] if way == "from" else content, LinkDamagedError, "no answer was"),
        (
            lambda way, count, content: bytes([FLAG, 1, 2, 3, FLAG]),
            LinkDamagedError,
            "check the cable, and what is faulty",
        ),
    ],
)
def test_what_stays_wrong_is_named(fault, error, says):
    with pytest.raises(error, match=says):
        opened(fault=fault)


def test_a_line_that_fails_later_ends_the_device():
    broken = []
    board = opened(fault=lambda way, count, content: b"" if broken else content)
    driver = KernelDriver(board, "board:ecpix5")
    broken.append(True)
    for _ in range(2):
        with pytest.raises(
            LinkSilentError, match=r"device board:ecpix5: the board does not answer \(a faulty line: WRITE"
        ) as said:
            driver.clear_counters()
    assert isinstance(said.value, DeviceError)
    again = from_wire(to_wire(said.value))
    assert (type(again), str(again)) == (LinkSilentError, str(said.value))


def test_another_program_on_the_board():
    behind = BoardModel()
    line = FaultyLine(behind)
    first = LinkClient(line, patience=0)
    first.open()
    LinkClient(line, patience=0).open()
    with pytest.raises(LinkRefusedError, match="another program has opened it"):
        first.read([0])


def test_a_register_that_is_not_there():
    behind = BoardModel()
    behind.read = lambda address: None
    client = LinkClient(FaultyLine(behind), patience=0)
    client.open()
    with pytest.raises(LinkRefusedError, match="READ was not done: the bus answered with an error"):
        client.read([4])


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        ({"board": "another"}, "this is a board 'another', not 'ecpix5'"),
        ({"design": "splitjoin"}, "the board has the design 'splitjoin', not 'bisort'"),
        ({"parameters": Parameters.preset("ecp5")}, "width is 4, not 2"),
    ],
)
def test_a_wrong_bitstream(behind, says):
    with pytest.raises(LinkIdentityError, match=says):
        opened(BoardModel(**behind))


def test_a_description_that_is_none():
    behind = BoardModel()
    behind._description = (8).to_bytes(4, "little") + b"rubbish."
    with pytest.raises(LinkIdentityError, match="no description of a design"):
        opened(behind)
    behind._description = bytes(4)
    with pytest.raises(LinkIdentityError, match="cannot have 0 bytes"):
        opened(behind)


def test_a_lane_that_never_works():
    with pytest.raises(
        MemoryStartError, match="byte lane 1 is read right with none of 4 bitslips and 8 delays"
    ) as told:
        opened(BoardModel(working=((0, 2, 6), (9, 0, 0))))
    _, lane_0, lane_1 = str(told.value).splitlines()
    assert lane_0 == "  lane 0: 0 ..#####.  1 ........  2 ........  3 ........"
    assert lane_1 == "  lane 1: 0 ........  1 ........  2 ........  3 ........"


def test_a_memory_without_delays():
    behind = BoardModel(delays=0)
    board = opened(behind)
    assert board.timings == []
    assert behind.started[-1] == 1  # the controller has it
    read = behind.read_memory
    behind.read_memory = lambda word: read(word) & ~0x400
    with pytest.raises(
        MemoryStartError, match="started, and its byte lanes 1 do not give back what was written: check"
    ):
        opened(behind)


@pytest.mark.parametrize("fault", ["stuck address", "tied addresses", "stuck data"])
def test_a_bad_memory(fault):
    board = opened()

    def place(address):
        if fault == "stuck address":
            return address & ~0x400
        if fault == "tied addresses":
            return address | (address & 0x2000) >> 1
        return address

    def read(address, length):
        raw = np.concatenate([board.read_memory(place(at), 4) for at in range(address, address + length, 4)])
        return raw & (0xF7 if fault == "stuck data" else 0xFF)

    def write(address, content):
        for at, word in enumerate(content):
            board.write_memory(place(address + 4 * at), word.reshape(1))

    assert memory_check(board.write_memory, board.read_memory, MEMORY_BYTES) > 1000
    with pytest.raises(MemoryStartError, match=r"reads 0x[0-9a-f]{8}, and 0x[0-9a-f]{8} was written"):
        memory_check(write, read, MEMORY_BYTES)


@pytest.mark.parametrize("check", [memory_check, functools.partial(memory_soak, hold=0.0)])
def test_a_channel_that_is_another_one(check):
    memory = np.zeros(1 << 18, np.uint8)

    def write(address, content):
        memory[address : address + content.nbytes] = content.view(np.uint8)

    def read(address, length):
        return memory[address : address + length].copy()

    assert check(write, read, 1 << 17, (0, 1 << 17)) == 2 * check(write, read, 1 << 17)
    with pytest.raises(MemoryStartError):
        check(
            lambda at, content: write(at & ~(1 << 17), content),
            lambda at, n: read(at & ~(1 << 17), n),
            1 << 17,
            (0, 1 << 17),
        )


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("one bank", "at 0x700 reads 0x[0-9a-f]{8}, and 0x[0-9a-f]{8} was written: check"),
        ("no refresh", "at 0x8000 reads .* was written and was read right 60 s before; it is refreshed"),
        (None, None),
    ],
)
def test_a_soak_finds(fault, says):
    board = opened()
    assert board.banks == (8, 256)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        if fault == "no refresh":
            row = board.read_memory(0x8000, 64)
            board.write_memory(0x8000, row & 0xDF)

    def read(address, length):
        raw = board.read_memory(address, length)
        return raw & 0xFE if fault == "one bank" and address // 256 % 8 == 7 else raw

    def soak():
        return memory_soak(board.write_memory, read, MEMORY_BYTES, banks=board.banks, hold=60.0, wait=wait)

    if fault is None:
        assert soak() == 2 * 3 * 8 * 64
        assert waited == [60.0, 60.0]
    else:
        with pytest.raises(MemoryStartError, match=says):
            soak()


def test_a_port_that_is_not_there():
    with pytest.raises(LinkPortError, match="/dev/none cannot be opened at 1000000 baud"):
        SerialPort("/dev/none", 1_000_000)


def test_a_cable_that_is_pulled():
    with TerminalBoard(BoardModel()) as terminal:
        board = SerialBoard(LinkClient(SerialPort(terminal.path, 1_000_000)), "ecpix5", DESIGNS)
        with pytest.raises(LinkPortError, match="no other program has it"):
            SerialPort(terminal.path, 1_000_000)
        board.write_memory(0, b"1234")
        began = time.monotonic()
        terminal.unplug()
        with pytest.raises((LinkLostError, LinkSilentError)):
            board.read_memory(0, 4)
        assert time.monotonic() - began < 30
        board.close()
        board.close()
