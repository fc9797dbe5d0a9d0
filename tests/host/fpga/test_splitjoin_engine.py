"""The SplitJoin engine on small boards: whatever a window, a key or a board can do to it."""

import contextlib
import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from muntin import AnyOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.host.call import Batch, Call, OrderedPairs
from muntin.host.devices.device import DeviceInfo
from muntin.host.engine.engine import EngineSpec
from muntin.host.engines import Outer
from muntin.host.errors import CapacityError, DeviceError, IncompleteError, UnsupportedError, from_wire, to_wire
from muntin.host.fpga.device import FpgaDevice
from muntin.host.fpga.splitjoin_engine import SplitJoinEngine
from muntin.host.index import BiSort
from muntin.host.index import NestedLoop as NestedLoopIndex
from muntin.host.spec import JoinSpec
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.conformance.small_joins import BOTTOM, TOP, agree, open_join, pairs_of, table
from tests.oracles.nested_loop import NestedLoop

BUILD = dataclasses.replace(SplitJoinParameters.preset("tiny"), cores=3, rows=8, key_bits=64, time_bits=64)
ONE_BAND = dataclasses.replace(BUILD, bounds=0, time_bits=0)


class Boards(FpgaDevice):
    """A device whose boards are models that a test can get at."""

    def __init__(self, parameters=BUILD, memory=1 << 16, *, boards=None, model=SplitJoinKernelModel):
        self.kernels = []
        super().__init__(DeviceInfo("test", "test", "", memory), {"splitjoin": parameters}, self._make, boards=boards)
        self._bytes, self._model = memory, model

    def _make(self, builds):
        self.kernels.append(self._model(builds["splitjoin"], self._bytes))
        return self.kernels[-1]


PREDICATES = [
    ("band", -1, 2),
    ("compare", "="),
    ("compare", "!="),
    ("compare", "<"),
    ("band", None, -1),
    ("band", 10**20, None),
    ("any", [("band", -3, -2), ("band", 0, 0), ("band", 2, 5)]),
]


@pytest.mark.parametrize("memory", [1 << 9, 1 << 16])
@pytest.mark.parametrize("rows", [(1, 1), (24, 24), (7, 5), (1, 23), (12, 9)])
@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_windows_of_all_lengths(predicate, rows, memory, seed):
    """Calls longer than the windows and shorter, NULL keys in them, and room for few results or for all."""
    rng = np.random.default_rng([seed, *rows])
    sizes = [3, 0, 40, 1, 17]
    calls = [
        [table(pa.array(rng.integers(-6, 6, n), mask=rng.random(n) < 0.3)) for n in rng.permuted(sizes)]
        for _ in range(2)
    ]
    assert agree(Boards(memory=memory), predicate, *calls, rows) > 0 or predicate[1] == 10**20


@pytest.mark.parametrize("order", ["none", "outer"])
@pytest.mark.parametrize("form", ["pairs", "rows", "counts"])
def test_forms_and_orders_of_a_sequence(form, order, seed):
    rng = np.random.default_rng(seed)
    places = rng.permutation(120)
    tables = [table(rng.integers(0, 4, 60), q=pa.array(np.sort(part))) for part in (places[:60], places[60:])]
    with open_join(
        Boards(), AnyOf(Band("k", "k", 0, 0), Band("k", "k", 2, 9)), (10, 13), form=form, order=order, sequence="q"
    ) as join:
        result = join.process(*tables)
    loop = NestedLoop(("any", [("band", 0, 0), ("band", 2, 9)]), "k", "k", rows=(10, 13), sequence="q")
    due = [(pair.left, pair.right) for pair in loop.process(*tables)]
    assert len(due) > 100
    if form == "counts":
        assert sum(result["matches"].to_pylist()) == len(due)
        return
    if form == "pairs":
        found = pairs_of(result)
    else:
        numbers = [{q: at for at, q in enumerate(t["q"].to_pylist())} for t in tables]
        columns = result["q"].to_pylist(), result["q_right"].to_pylist()
        found = [(numbers[0][a], numbers[1][b]) for a, b in zip(*columns, strict=True)]
    assert sorted(found) == sorted(due)
    if order == "outer":
        at = [max(tables[0]["q"][a].as_py(), tables[1]["q"][b].as_py()) for a, b in found]
        assert at == sorted(at)


@pytest.mark.parametrize("step", [1, 2, 7])
def test_calls_of_several_steps(step, monkeypatch, seed):
    """A row's intervals are never in two steps, where their pairs could not be put in order."""
    monkeypatch.setattr("muntin.host.fpga.splitjoin_engine.STEP_ROWS", step)
    rng = np.random.default_rng(seed)
    calls = [[table(rng.integers(-6, 6, 20)) for _ in range(3)] for _ in range(2)]
    union = ("any", [("band", 3, 5), ("band", 0, 0), ("band", -3, -2)])
    assert agree(Boards(), union, *calls, (20, 11)) > 100


@pytest.mark.parametrize("parameters", [BUILD, ONE_BAND])
def test_keys_at_the_ends_of_64_bits(parameters):
    keys = table([TOP, BOTTOM, -1, 0, 1, TOP - 1, BOTTOM + 1, None])
    for predicate in (
        ("band", 0, 1),
        ("band", None, TOP),
        ("band", TOP, None),
        ("band", 2**64 - 1, 2**64 + 5),
        ("band", 2**64, None),
        ("band", -(2**70), -(2**64) + 1),
        ("compare", "!="),
        ("compare", ">"),
    ):
        agree(Boards(parameters), predicate, [keys, keys], [keys, keys], (20, 9))


def test_keys_of_two_widths(seed):
    rng = np.random.default_rng(seed)
    left = table([-(2**31), 2**31 - 1, *rng.integers(-9, 9, 10).tolist()], pa.int32())
    right = table([-(2**31) - 1, 2**31, TOP, BOTTOM, *rng.integers(-9, 9, 10).tolist()], pa.int64())
    for parameters in (BUILD, ONE_BAND):
        for predicate in (("band", -1, 1), ("compare", "<="), ("compare", "!=")):
            assert agree(Boards(parameters), predicate, [left, left], [right, right], (20, 20))


def test_keys_of_32_bits_on_a_build_of_32_bits(seed):
    rng = np.random.default_rng(seed)
    device = Boards(dataclasses.replace(BUILD, key_bits=32))
    keys = [table([-(2**31), 2**31 - 1, *rng.integers(-9, 9, 10).tolist()], pa.int32()) for _ in range(4)]
    assert agree(device, ("any", [("band", -2, -1), ("band", 1, 2)]), keys[:2], keys[2:], (20, 20))
    floats = [pa.table({"k": pa.array(np.round(rng.normal(0, 1, 12), 1).astype(np.float32))}) for _ in range(4)]
    assert agree(device, ("band", -0.3, 0.1), floats[:2], floats[2:], (20, 20))


@pytest.mark.parametrize("first", [2**31 - 20, 2**32 - 20, 2**40])
@pytest.mark.parametrize("order", ["none", "outer", "inner"])
def test_more_rows_than_the_device_has_numbers_for(first, order):
    """Arrival numbers beyond what comes back of them."""
    device = Boards()
    spec = JoinSpec(on=Compare("k", "=", "k"), left=Rows(7), right=Rows(24))
    generator = spec.condition(pa.schema({"k": pa.int64()}), pa.schema({"k": pa.int64()})).generator
    engine = SplitJoinEngine(
        device, EngineSpec({"left": 7, "right": 24}, None, order=order), generator, {"left": 64, "right": 64},
    )  # fmt: skip
    expected, found = [], []
    for call in range(10):
        rows = first + 8 * call + np.arange(8)
        other_position = {"left": np.full(8, first + 8 * call), "right": np.full(8, first + 8 * (call + 1))}
        batches = {side: Batch(np.zeros(8, np.int64), rows, other_position[side]) for side in ("left", "right")}
        arrived = dict.fromkeys(("left", "right"), first + 8 * (call + 1))
        for pairs in engine.run(Call(batches=batches, other_position=other_position, arrived=arrived)):
            assert isinstance(pairs, OrderedPairs)
            found += zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
        for row in rows.tolist():
            expected += [(row, other) for other in range(max(first, first + 8 * call - 24), first + 8 * call)]
        for row in rows.tolist():
            expected += [(other, row) for other in range(max(first, int(rows[-1]) + 1 - 7), int(rows[-1]) + 1)]
    engine.close()
    if order != "inner":
        found.sort()
        expected.sort()
    assert found == expected


# Time windows


def timed(device, calls, low, high, capacity=None, delays=(None, None)):
    """Joins calls of times, a side each, and compares with the nested loop; the join, still open."""
    loop = NestedLoop(("band", None, None), "k", "k", within=("t", "t", low, high), delays=delays)
    more = {} if delays == (None, None) else {"watermark": Watermark(left=delays[0], right=delays[1], lag=0)}
    if capacity:
        more["capacity"] = capacity
    join = open_join(device, Band("k", "k"), None, within=Within("t", "t", low, high), **more)
    for call in calls:
        tables = [table([0] * len(times), pa.int64(), t=pa.array(times, pa.int64())) for times in call]
        assert pairs_of(join.process(*tables)) == [(p.left, p.right) for p in loop.process(*tables)]
    return join, loop


def test_a_time_window_at_capacity():
    with timed(Boards(), [([5] * 24, [5] * 24)], -1, 1)[0] as join:
        assert join.stats.window_left == 24
        with pytest.raises(CapacityError, match=r"left window would hold 25 rows.*capacity is 24 rows.*8 in each of 3"):
            join.process(table([0], t=[9]), None)
        assert join.process(None, table([], pa.int64(), t=pa.array([], pa.int64()))).num_rows == 0


def test_the_watermark_empties_the_cores():
    calls = [([10 * n + 1] * 7, [10 * n] * 7) for n in range(30)]
    with timed(Boards(), calls, -2, 3, delays=(5, 5))[0] as join:
        assert join.stats.window_left + join.stats.window_right < 48


def test_a_row_that_may_still_match_keeps_its_core_full():
    """Cores drop rows in their order of arrival: a row of a far time holds up the ones behind it in its core."""
    calls = [([10**6, *[0] * 8], [10**6])] + [([10 * n] * 3, [10 * n]) for n in range(1, 6)]
    join, loop = timed(Boards(), calls, 0, 0, delays=(10**7, 10**7))
    # The first row of core 0 stays for long, and with it all others there.
    with join, pytest.raises(CapacityError, match="one core"):
        join.process(table([0] * 15, t=[10**6] * 15), None)
    assert loop is not None


@pytest.mark.parametrize("bounds", [(3, 9), (-9, -3), (TOP, TOP), (BOTTOM, -1), (1, 2**63), (2**64 - 1, 2**65)])
def test_time_windows_that_lie_apart(bounds):
    edge = [BOTTOM, BOTTOM + 4, -1, 0, 4, TOP - 4, TOP]
    timed(Boards(), [(edge, []), ([], edge), (edge[::-1], edge)], *bounds)[0].close()


def test_late_rows_and_rows_without_a_time(seed):
    rng = np.random.default_rng(seed)
    calls = [
        [[None if rng.random() < 0.1 else int(at) for at in call * 10 + rng.integers(-25, 10, 5)] for _ in range(2)]
        for call in range(40)
    ]
    join, loop = timed(Boards(), calls, -8, 5, delays=(6, 9))
    with join:
        assert join.stats.late_left == loop.streams["left"].late > 0
        assert join.stats.unmatchable_left > 0


# What is refused


def test_a_window_beyond_the_capacity():
    device = Boards()
    for left, right, side in ((25, 1, "left"), (24, 10**6, "right")):
        with pytest.raises(
            CapacityError, match=f"{side} window of .* capacity is 24 rows a window, 8 in each of 3"
        ) as no:
            agree(device, ("compare", "="), [table([1])], [table([1])], (left, right))
        assert (no.value.needed, no.value.available) == (max(left, right), 24)
    assert device.kernels == []  # before a board is compiled


@pytest.mark.parametrize(
    ("parameters", "on", "kinds", "says"),
    [
        (ONE_BAND, Band("k", "k", 0, 1), (pa.float64(), pa.float64()), "floating-point keys.*bounds=1"),
        (ONE_BAND, Band("k", "k", "0", "1 s"), (pa.timestamp("s"), pa.timestamp("ms")), "two units.*bounds=1"),
        (ONE_BAND, AnyOf(Band("k", "k", 0, 0), Band("k", "k", 2, 2)), (pa.int64(), pa.int64()), "union.*bounds=1"),
        (dataclasses.replace(BUILD, key_bits=32), Band("k", "k", 0, 1), (pa.int32(), pa.int64()), "key_bits=64"),
    ],
)
def test_what_takes_another_build(parameters, on, kinds, says):
    schemas = [pa.schema({"k": kind}) for kind in kinds]
    with pytest.raises(UnsupportedError, match=says):
        WindowJoin(
            on=on, left=Rows(1), right=Rows(1), device=Boards(parameters),
            left_schema=schemas[0], right_schema=schemas[1],
        )  # fmt: skip


def test_time_windows_take_another_build():
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    with pytest.raises(UnsupportedError, match=r"time windows.*time_bits=64"):
        WindowJoin(
            on=Compare("k", "=", "k"), within=Within("t", "t", 0, 1), device=Boards(ONE_BAND),
            left_schema=schema, right_schema=schema,
        )  # fmt: skip


def test_it_has_one_index():
    for index in ("bisort", BiSort()):
        with pytest.raises(UnsupportedError, match="device test has no index 'bisort': it has nested_loop"):
            open_join(Boards(), Compare("k", "=", "k"), (3, 3), index=index)
    with open_join(Boards(), Compare("k", "=", "k"), (3, 3), index=NestedLoopIndex()) as join:
        assert join.process(table([1]), table([1])).num_rows == 1


def test_a_board_serves_one_join_at_a_time():
    device = Boards(boards=1)
    one = open_join(device, Compare("k", "=", "k"), (3, 3))
    one.process(table([1]), table([1]))
    other = open_join(device, Compare("k", "=", "k"), (3, 3))
    with pytest.raises(DeviceError, match="serves one join at a time"):
        other.process(table([1]), table([1]))
    one.close()
    assert pairs_of(other.process(table([1]), table([1]))) == [(0, 0)]


# What goes wrong


def test_a_core_that_stops_answering():
    device = Boards()
    same = table([5] * 20)
    join = open_join(device, Compare("k", "=", "k"), (20, 20), form="rows")
    whole = join.process(same.append_column("n", pa.array(range(20))), same.append_column("n", pa.array(range(20))))
    device.kernels[0].frozen.add(1)
    more = same.append_column("n", pa.array(range(20, 40)))
    with pytest.raises(IncompleteError, match="join core 1 stopped answering") as broken:
        join.process(more, None)
    partial = broken.value.partial
    assert broken.value.core == 1
    assert partial.schema.metadata == {b"muntin.incomplete": b"core 1"}
    assert partial.schema.remove_metadata() == whole.schema
    assert set(partial["n"].to_pylist()) == set(range(20, 40))
    assert set(partial["n_right"].to_pylist()) == {at for at in range(20) if at % 3 != 1}
    assert partial.num_rows == 20 * 13
    with pytest.raises(DeviceError, match="no longer usable"):
        join.process(more, None)
    returned = from_wire(to_wire(broken.value))
    assert type(returned) is IncompleteError
    assert (str(returned), returned.core, returned.partial) == (str(broken.value), 1, None)


def test_what_is_left_where_a_kernel_does_not_recover(monkeypatch):
    """An error that only a reset clears: what was read by then is still delivered."""
    device = Boards(memory=1 << 9)
    join = open_join(device, Compare("k", "=", "k"), (20, 20), order="outer")
    join.process(table([5] * 20), table([5]))
    kernel = device.kernels[0]
    kernel.frozen.add(1)
    write = kernel.write_register
    code = next(o for o, register in kernel._registers.items() if register.name == "ERROR_CODE")
    monkeypatch.setattr(
        kernel, "write_register", lambda offset, value: None if offset == code else write(offset, value)
    )
    with pytest.raises(IncompleteError) as broken:
        join.process(None, table([5] * 20))
    assert 0 < broken.value.partial.num_rows < 20 * 13


class Shuffled(SplitJoinKernelModel):
    """Swaps two results."""

    swap = (0, 0)

    def _join(self, c):
        super()._join(c)
        results = self.memory[c.keys_out : c.keys_out + 8 * c.length_b].view(np.uint64)
        results[list(self.swap)] = results[list(self.swap[::-1])]

    _OPERATIONS = SplitJoinKernelModel._OPERATIONS | {8: _join}


@pytest.mark.parametrize(
    ("order", "swap", "says"),
    [
        ("outer", (0, -1), "came to an end"),
        ("outer", (4, 5), "turn"),
        (Outer(every=2), (4, 5), "turn"),
        (Outer(every=4), (0, -1), "came to an end"),
        ("inner", (2, 6), "turn"),
        ("inner", (0, 2), "stored"),
    ],
)
def test_order_that_is_not_kept_is_noticed(order, swap, says):
    device = Boards(model=Shuffled)
    join = open_join(device, Compare("k", "=", "k"), (20, 20), order=order)
    join.process(table([5] * 4), table([9]))
    # Four pairs for each of two rows, and punctuation: the rows are the sixth and the seventh.
    results = 8 + {"outer": 2, "inner": 4, Outer(every=2): 2, Outer(every=4): 1}[order]
    device.kernels[0].swap = tuple(at % results for at in swap)
    with pytest.raises(DeviceError, match=says):
        join.process(None, table([5] * 2))


@pytest.mark.parametrize(("every", "noticed"), [(1, True), (2, False), (3, False), (5, True)])
def test_order_over_both_streams_that_is_not_kept_is_noticed(every, noticed):
    """The last result of a left row comes behind the first one of the right row that arrived next."""
    device = Boards(model=Shuffled)
    join = open_join(device, Compare("k", "=", "k"), (20, 20), order=Outer(every=every), form="pairs")
    join.process(table([5] * 3), table([9]))
    device.kernels[0].swap = (0, 1)  # of row 4, a left one, and of row 5
    with pytest.raises(DeviceError, match="turn") if noticed else contextlib.nullcontext():
        assert join.process(table([6]), table([5])).num_rows == 3


def test_an_overflow_that_was_not_foreseen(monkeypatch):
    device = Boards()
    with timed(device, [([5], [5])], -1, 1)[0] as join:
        device.kernels[0]._streams[0].overflow = True
        with pytest.raises(DeviceError, match="overflowed that was thought to have room"):
            join.process(table([0], t=[5]), None)
