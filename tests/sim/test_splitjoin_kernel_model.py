"""The model of the SplitJoin kernel, driven as a board is: against the model that takes row by row, and its limits."""

import dataclasses
import random
import types
from collections import Counter

import numpy as np
import pytest

from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SPLITJOIN, JoinSettings, Order, SplitJoinParameters, row_words
from muntin.contract.registers import Command, Operation
from muntin.host.errors import DeviceError, KernelError
from muntin.host.fpga.driver import KernelDriver
from muntin.host.fpga.splitjoin import JoinRows, SplitJoinBoard
from muntin.sim.models.splitjoin import JoinResult, JoinRow, SplitJoin
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.hw.benches.join_cases import cases
from tests.hw.benches.order_monitor import check_order

TINY = SplitJoinParameters.preset("tiny")
OFFSETS = {register.name: register.offset for register in SPLITJOIN.registers()}


def rows_of(rows: list[JoinRow]) -> JoinRows:
    made = JoinRows.zeros(len(rows), 2)
    names = ("side", "null", "mark", "again", "more", "key", "lower", "upper", "time", "key_2", "lower_2", "upper_2")
    for name in names:
        getattr(made, name)[:] = [getattr(row, name) for row in rows]
    made.number[:] = [row.row for row in rows]
    return made


def results_of(raw: np.ndarray) -> list[tuple[int, JoinResult]]:
    made = []
    for one, other in raw.tolist():
        result = JoinResult(one & 0x7FFFFFFF, other & 0x7FFFFFFF)
        if other >> 31:
            result = JoinResult(one & 0x7FFFFFFF, None, bool(other & 1))
        made.append((one >> 31, result))
    return made


@pytest.mark.parametrize("memory", [160, 1 << 12, 1 << 20])
@pytest.mark.parametrize(("cores", "columns"), [(1, 1), (3, 1), (8, 1), (3, 2)])
def test_as_the_model_that_takes_row_by_row(cores, columns, memory, seed):
    """All orders, windows and predicates, with room for a handful of results, for some hundreds, and for all."""
    p = dataclasses.replace(TINY, cores=cores, rows=4, columns=columns)
    overflown = 0
    rng = random.Random(f"{seed} {cores} {memory}")
    size = {name: getattr(p, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}
    for case in cases(rng, **size, count=60, length=80):
        kernel = SplitJoinKernelModel(p, memory * columns)
        board = SplitJoinBoard(kernel, "test")
        board.configure(case.settings)
        joined = board.join(rows_of(case.rows))
        model = SplitJoin(case.settings, cores=cores, rows=p.rows)
        expected = [(side, result) for side, results in enumerate(model.take(case.rows)) for result in results]
        found = results_of(joined.results)
        assert Counter(found) == Counter(expected)
        check_order(case.rows, case.settings, found, cores=cores)
        assert joined.overflow == model.overflow
        overflown += model.overflow
    assert overflown > 0


@pytest.mark.parametrize("bits", [(32, 32), (64, 64), (64, 0)])
@pytest.mark.parametrize("data_bits", [128, 256, 512])
@pytest.mark.parametrize("columns", [1, 2])
def test_every_width(bits, data_bits, columns, seed):
    """Rows that take a part of a beat, one beat or several."""
    p = dataclasses.replace(TINY, key_bits=bits[0], time_bits=bits[1], data_bits=data_bits, columns=columns)
    rng = random.Random(f"{seed} {bits} {data_bits}" + " two columns" * (columns - 1))
    size = {name: getattr(p, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}
    for case in cases(rng, **size, count=6):
        kernel = SplitJoinKernelModel(p, 1 << 10)
        board = SplitJoinBoard(kernel, "test")
        board.configure(case.settings)
        model = SplitJoin(case.settings, cores=p.cores, rows=p.rows)
        left, right = model.take(case.rows)
        found = results_of(board.join(rows_of(case.rows)).results)
        assert Counter(found) == Counter([(0, r) for r in left] + [(1, r) for r in right])
        assert board.counters()["rows_in"] == len(case.rows)
        assert board.counters()["rows_out"] == len(found)


def equal_rows(count: int) -> JoinRows:
    """So many rows of each side in turn, all of one key."""
    rows = JoinRows.zeros(2 * count)
    rows.side[1::2] = 1
    rows.number[:] = np.arange(2 * count) // 2
    return rows


def test_a_core_that_stops_answering_is_named_and_the_others_go_on():
    p = dataclasses.replace(TINY, cores=3, rows=8)
    found = {}
    for frozen in (None, 2):
        kernel = SplitJoinKernelModel(p, 1 << 10)
        board = SplitJoinBoard(kernel, "test")
        board.configure(JoinSettings(windows=(24, 24), order=Order.OUTER))
        first = board.join(equal_rows(10))
        assert first.dead_core is None
        if frozen is not None:
            kernel.frozen.add(frozen)
        again = equal_rows(30).take(slice(20, None))
        second = board.join(again)
        assert second.dead_core == frozen
        found[frozen] = results_of(second.results)
    stars = [item for item in found[None] if item[1].row is None]
    assert [item for item in found[2] if item[1].row is None] == stars
    assert found[2] == [item for item in found[None] if item[1].row is None or item[1].row % 3 != 2]


def test_without_a_timeout_a_dead_core_holds_everything():
    kernel = SplitJoinKernelModel(TINY, 1 << 12)
    board = SplitJoinBoard(kernel, "test")
    board.configure(JoinSettings(windows=(9, 9), order=Order.NONE, core_timeout_cycles=0))
    kernel.frozen.add(0)
    with pytest.raises(DeviceError, match="does not answer"):
        board.join(equal_rows(3))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"length_b": 0}, "has no rows"),
        ({"keys_a": 4}, "address 0x4: an address is not a multiple"),
        ({"keys_out": 8}, "address 0x8: an address is not a multiple"),
        ({"keys_out": 1 << 12}, "there is no memory"),
        ({"length_a": 1 << 20}, "there is no memory"),
        ({"operation": Operation.MERGE}, "none that this build has"),
    ],
)
def test_commands_that_fail(changes, says):
    driver = KernelDriver(SplitJoinKernelModel(TINY, 1 << 12), "test")
    fields = {"operation": Operation.JOIN, "length_a": 1, "length_b": 2, "keys_out": 512, "rows_out": 256} | changes
    with pytest.raises(KernelError, match=says):
        driver.run([Command(**fields)])


def test_another_kernel_is_refused():
    kernel = SplitJoinKernelModel(TINY, 1 << 12)
    link = types.SimpleNamespace(
        parameters=Parameters.preset("tiny"),
        memory_bytes=kernel.memory_bytes,
        reset=kernel.reset,
        read_registers=kernel.read_registers,
    )
    with pytest.raises(DeviceError, match="BUILD_ID reads 0x4d554c53, not 0x4d554c31: load a BI-Sort kernel"):
        KernelDriver(link, "test")


def test_too_little_memory_is_refused():
    with pytest.raises(DeviceError, match="are too few for rows of"):
        SplitJoinBoard(SplitJoinKernelModel(TINY, 4 * row_words(TINY)), "test")
