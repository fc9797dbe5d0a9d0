"""Outer, semi and anti joins over devices, windows, forms, orders and batchings, against the nested loop."""

import itertools
from collections import Counter

import duckdb
import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from muntin import Band, JoinSpec, Rows, Watermark, WindowJoin, Within
from muntin.host import errors
from tests.conformance.check import host_arguments, oracle, row_numbers
from tests.conformance.devices import DeviceCase
from tests.conformance.keys import KEYS
from tests.conformance.pairwise import pairwise
from tests.conformance.predicates import PREDICATES, for_host
from tests.conformance.small_joins import pairs_of, table
from tests.conformance.streams import CUTS, SEQUENCES, Streams, make_streams
from tests.conformance.test_batching import cut, cuts, events, sequenced
from tests.conformance.test_contract import name_of
from tests.conformance.test_self_joins import WINDOWS as SELF_WINDOWS
from tests.conformance.test_self_joins import both, stream
from tests.conformance.windows import INTEGERS, MILLIS, WINDOWS, WindowCase
from tests.conftest import SEED
from tests.oracles.nested_loop import NestedLoop

HOWS = ["left", "right", "full", "left_semi", "left_anti", "right_anti"]
OUTER = {"left": ["left"], "left_anti": ["left"], "right": ["right"], "full": ["left", "right"], "left_semi": []}
OUTER["right_anti"] = ["right"]
HOW_WINDOWS = {name: case for name, case in WINDOWS.items() if name not in ("within-ahead", "within-units")} | {
    "within-equal-left": WindowCase(low=0, high=0, time=INTEGERS, delays=(2, None)),
    "within-equal-right": WindowCase(low=0, high=0, time=MILLIS, delays=(None, 1), lag=1),
}
AXES = {
    "how": HOWS,
    "window": list(HOW_WINDOWS),
    "predicate": [
        "band-asymmetric",
        "band-open-low",
        "compare-equal",
        "compare-not-equal",
        "any-disjoint",
        "band-zero",
    ],
    "form": ["rows", "pairs"],
    "order": ["none", "outer", "inner"],
    "key": ["int32", "int64", "float64", "timestamp-us"],
    "shape": ["random", "nulls", "extremes"],
    "sequence": list(SEQUENCES),
    "cut": list(CUTS),
}
ALL_KEYS = {key.name: key for key in KEYS}


def endless(how: str, window: WindowCase) -> bool:
    """Whether unmatched rows could never come out: nothing says when rows of the other side are past."""
    left, right = (delay is not None for delay in window.delays)
    if not (left or right) or (window.low, window.high) == (0, 0):
        return False
    return any(not {"left": right, "right": left}[side] for side in OUTER[how])


def check_how(join: WindowJoin, loop: NestedLoop, streams: Streams, form: str, order: str) -> int:
    """Compares every call, and the end of the streams; the number of rows that came out."""
    total = 0
    for left, right in streams.calls:
        pairs = loop.process(left, right)
        due = loop.results(pairs)
        found = row_numbers(join.process(left, right), streams, form, 0, loop.how in ("left_semi", "left_anti"))
        paired = sum(None not in row for row in due) if loop.how != "left_semi" else len(due)
        assert Counter(found) == Counter(due)
        assert found[paired:] == due[paired:], "rows without a partner come last, in arrival order"
        places = streams.positions
        probing = {}  # of the first pair of each row
        for pair in pairs:
            key = (pair.left, None) if loop.how == "left_semi" else (pair.left, pair.right)
            probing.setdefault(key, max(places["left"][pair.left], places["right"][pair.right]))
        if order != "none":
            at = [probing[row] for row in found[:paired]]
            assert at == sorted(at)
        if order == "inner":
            assert found == due
        total += len(due)
        for side in ("left", "right"):
            tracked = side in OUTER[loop.how] or (loop.how == "left_semi" and side == "left")
            assert getattr(join.stats, f"waiting_{side}") == (loop.waiting(side) if tracked else 0)
    due = loop.finish()
    assert row_numbers(join.finish(), streams, form, 0, loop.how in ("left_semi", "left_anti")) == due
    assert join.finish().num_rows == 0
    assert (join.stats.waiting_left, join.stats.waiting_right) == (0, 0)
    return total + len(due)


def run(case: dict, device_case: DeviceCase, device: object, rng: np.random.Generator) -> None:
    key, window, how = ALL_KEYS[case["key"]], HOW_WINDOWS[case["window"]], case["how"]
    if reason := device_case.may_refuse("auto", case["form"], window, key):
        pytest.skip(f"device {device_case.name}: {reason}")
    predicate, is_sequenced = PREDICATES[case["predicate"]], case["sequence"] != "none"
    streams = make_streams(key, case["shape"], window, case["sequence"], case["cut"], 40, rng)
    arguments = host_arguments(predicate, key, window, is_sequenced) | {
        name: case[name] for name in ("how", "form", "order")
    }
    arguments |= {"device": device, "left_schema": streams.left.schema, "right_schema": streams.right.schema}
    if endless(how, window):
        with pytest.raises(errors.UnsupportedError, match=how):
            WindowJoin(**arguments)
        return
    with WindowJoin(**arguments) as join:
        check_how(join, oracle(predicate, key, window, is_sequenced, how), streams, case["form"], case["order"])


SAMPLE = pairwise(AXES, SEED)


@pytest.mark.parametrize("case", SAMPLE, ids=name_of)
def test_sample(case, device_case, device, seed):
    run(case, device_case, device, np.random.default_rng([seed, SAMPLE.index(case)]))


@pytest.mark.full
@pytest.mark.parametrize("order", AXES["order"])
@pytest.mark.parametrize("window", AXES["window"])
@pytest.mark.parametrize("how", HOWS)
def test_full(how, window, order, device_case, device, seed):
    rng = np.random.default_rng([seed, *f"{how}{window}{order}".encode()])
    for _ in range(5):
        drawn = {axis: values[rng.integers(len(values))] for axis, values in AXES.items()}
        run(drawn | {"how": how, "window": window, "order": order}, device_case, device, rng)


@pytest.mark.parametrize("window", [(1, 1), (4, 9), (16, 3)], ids=str)
@hypothesis.seed(SEED)
@hypothesis.settings(max_examples=25, deadline=None, print_blob=True, database=None)
@hypothesis.given(raw=events, one=cuts, other=cuts, how=st.sampled_from(HOWS))
def test_cuts_do_not_matter(window, device_case, device, raw, one, other, how):
    """The union of all calls is the same however the streams are cut."""
    rows = sequenced(raw)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("q", pa.int64())])
    loop = NestedLoop(("band", -2, 3), "k", "k", sequence="q", rows=window, how=how)
    due = Counter(row for call in cut(rows, []) for row in loop.results(loop.process(*call)))
    due += Counter(loop.finish())
    for at in (one, other):
        with WindowJoin(
            on=Band("k", "k", -2, 3), left=window[0], right=window[1], sequence="q", form="pairs", how=how,
            device=device, left_schema=schema, right_schema=schema,
        ) as join:  # fmt: skip
            results = [*(join.process(*call) for call in cut(rows, at)), join.finish()]
        found = pa.concat_tables(results)
        right = found["right_row"].to_pylist() if how[:5] != "left_" else [None] * len(found)
        assert Counter(zip(found["left_row"].to_pylist(), right, strict=True)) == due


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("window", ["rows", "rows-back", "within", "within-late"])
@pytest.mark.parametrize("how", HOWS)
def test_self_joins(how, window, itself, device, seed):
    """Each row in both roles, with bits of their own."""
    rng = np.random.default_rng([seed, len(window), itself])
    arguments, loop = both(("band", 1, 2), SELF_WINDOWS[window], itself=itself, sequence="q")
    loop.how = how
    calls = stream(rng)
    with WindowJoin(
        **arguments, how=how, form="pairs", order="inner", device=device, left_schema=calls[0].schema
    ) as join:
        found = [all_rows(join.process(call)) for call in calls] + [all_rows(join.finish())]
    due = [loop.results(loop.process(call, None)) for call in calls] + [loop.finish()]
    assert found == due
    assert sum(map(len, due)) > 20


def all_rows(result: pa.Table) -> list[tuple]:
    """Left and right row numbers of a result in the form pairs; None for the right ones where there are none."""
    if result.num_columns == 2:
        return pairs_of(result)
    return [(row, None) for row in result["left_row"].to_pylist()]


SQL = {
    "left": "SELECT l.i, r.i FROM l LEFT JOIN r ON {on}",
    "right": "SELECT l.i, r.i FROM l RIGHT JOIN r ON {on}",
    "full": "SELECT l.i, r.i FROM l FULL JOIN r ON {on}",
    "left_semi": "SELECT l.i, NULL FROM l SEMI JOIN r ON {on}",
    "left_anti": "SELECT l.i, NULL FROM l ANTI JOIN r ON {on}",
    "right_anti": "SELECT NULL, r.i FROM r ANTI JOIN l ON {on}",
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("window", ["rows", "within"])
def test_against_duckdb(how, window, device_case, device, seed):
    """Windows that hold all rows, and time windows at the end of bounded input: the joins of SQL."""
    rng = np.random.default_rng([seed, len(window)])
    count = 3000
    sides = []
    for size in (count, count + 500):
        keys = pa.array(rng.integers(0, 4000, size), mask=rng.random(size) < 0.05)
        times = pa.array(rng.permutation(size) // 3, mask=rng.random(size) < 0.05)
        sides.append(table(keys, t=times, i=np.arange(size)))
    left, right = sides
    on = "l.k = r.k"
    kind = {"left": Rows(8000), "right": Rows(8000)}
    if window == "within":
        on, kind = "l.k = r.k AND r.t - l.t BETWEEN -300 AND 200", {"within": Within("t", "t", -300, 200)}
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        due = Counter(connection.execute(SQL[how].format(on=on)).fetchall())
    with WindowJoin(
        on=Band("k", "k", 0, 0), form="pairs", how=how, device=device, left_schema=left.schema,
        right_schema=right.schema, **kind,
    ) as join:  # fmt: skip
        results = [join.process(left.slice(at, 700), right.slice(at, 700)) for at in range(0, count + 500, 700)]
        found = [row for result in [*results, join.finish()] for row in all_rows(result)]
    assert Counter(found) == due
    assert len(due) > 500


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("window", ["rows", "within"])
@pytest.mark.parametrize("calls", [100, pytest.param(300, marks=pytest.mark.full)])
def test_state_is_bounded(calls, how, window, device, seed):
    """However long the streams, no more waits than the windows and the delay leave, and no more rows are kept."""
    rng = np.random.default_rng(seed)
    if window == "rows":
        kind = {"left": Rows(100), "right": Rows(150)}
    else:
        kind = {"within": Within("t", "t", -20, 30), "watermark": Watermark(left=10, right=10, lag=0)}
    most, came = {"waiting_left": 0, "waiting_right": 0, "row_bytes": 0}, 0
    with WindowJoin(on=Band("k", "k", 0, 0), how=how, device=device, **kind) as join:
        for call in range(calls):
            sides = [
                table(rng.integers(0, 200, 40), t=call * 20 + rng.integers(-9, 10, 40), note=["x" * 50] * 40)
                for _ in range(2)
            ]
            came += join.process(*sides).num_rows
            most = {name: max(value, getattr(join.stats, name)) for name, value in most.items()}
    assert came > calls
    assert most["waiting_left"] <= (100 if window == "rows" else 200)
    assert most["waiting_right"] <= (150 if window == "rows" else 200)
    assert (most["waiting_left"] > 0) == (how not in ("right", "right_anti"))
    assert most["row_bytes"] < 250_000  # all rows together have 0.6 MB, or 1.7


def test_a_row_that_waits_is_kept_longer_than_the_index_keeps_it(device):
    """A left row that lies far back in its block, behind rows that have gone."""
    on, kind = Band("k", "k", 0, 0), {"within": Within("t", "t", 0, 5), "watermark": Watermark(left=0, right=0, lag=0)}
    with WindowJoin(on=on, how="left", device=device, **kind) as join:
        join.process(table([1], t=[1000], note=["far"]), table([], pa.int64(), t=pa.array([], pa.int64())))
        for time in range(0, 900, 10):
            found = join.process(table([2], t=[time], note=["near"]), table([3], t=[time]))
            assert found["note"].to_pylist() == (["near"] if time else [])
        assert join.stats.waiting_left == 2
        assert join.finish()["note"].to_pylist() == ["far", "near"]


def test_equal_times_with_one_delay():
    """It holds for both sides: rows of the side without one are late, too, and its unmatched rows can go."""
    with WindowJoin(
        on=Band("k", "k", 0, 0), within=Within("t", "t", 0, 0), watermark=Watermark(left=2, lag=0), how="full",
        form="pairs", device="numpy",
    ) as join:  # fmt: skip
        assert pairs_of(join.process(table([1, 1], t=[5, 9]), table([1], t=[6]))) == [(0, None), (None, 0)]
        assert pairs_of(join.process(table([1], t=[11]), table([1, 1], t=[7, 9]))) == [(1, 2)]
        assert (join.stats.late_left, join.stats.late_right) == (0, 1)


def test_spellings():
    spellings = {
        "inner": ["inner", "INNER"],
        "left": ["left", "leftouter", "left_outer", "LEFT"],
        "right": ["right", "rightouter", "right_outer"],
        "full": ["full", "outer", "fullouter", "full_outer"],
        "left_semi": ["semi", "leftsemi", "left_semi"],
        "left_anti": ["anti", "leftanti", "left_anti"],
        "right_anti": ["right_anti", "rightanti"],
    }
    for how, names in spellings.items():
        for name in names:
            spec = JoinSpec(on=Band("a", "b", 0, 0), left=1, right=1, how=name)
            assert spec.how == how
            assert JoinSpec.from_json(spec.to_json()) == spec
    for name in ("sideways", "right_semi", ""):
        with pytest.raises(errors.PredicateError, match="left_semi"):
            JoinSpec(on=Band("a", "b", 0, 0), left=1, right=1, how=name)


def test_what_is_refused():
    arguments = {"on": for_host(("band", 0, 0), "k", "k"), "device": "numpy"}
    for how in HOWS:
        with pytest.raises(errors.UnsupportedError, match=f"form='counts' is for inner joins, not for how='{how}'"):
            WindowJoin(**arguments, left=1, right=1, form="counts", how=how)
    within = Within("t", "u", 0, 5)
    for how, delay, side, column in [
        ("left", {"left": 1}, "left", "u"),
        ("left_anti", {"left": 1}, "left", "u"),
        ("right", {"right": 1}, "right", "t"),
        ("full", {"left": 1}, "left", "u"),
        ("full", {"right": 1}, "right", "t"),
    ]:
        with pytest.raises(
            errors.UnsupportedError, match=f"how='{how}' could never let an unmatched {side}.*'{column}'"
        ):
            WindowJoin(**arguments, within=within, watermark=Watermark(**delay), how=how)
    for how, delay in (("left", "right"), ("right", "left"), ("left_semi", "left")):
        WindowJoin(**arguments, within=within, watermark=Watermark(**{delay: 1}), how=how).close()


def test_after_the_end(device):
    with WindowJoin(on=Band("k", "k", 0, 0), left=2, right=2, how="left", device=device) as join:
        with pytest.raises(errors.SchemaError, match="not known yet"):
            join.finish()
        assert join.process(table([1]), table([2])).num_rows == 0
        assert join.finish().to_pylist() == [{"k": 1, "k_right": None}]
        with pytest.raises(errors.UnsupportedError, match=r"ended by finish\(\)"):
            join.process(table([1]))
        assert join.finish().num_rows == 0
    with pytest.raises(errors.DeviceError, match="closed"):
        join.finish()


@pytest.mark.parametrize("form", ["rows", "pairs", "counts"])
def test_the_end_of_an_inner_join(form):
    with WindowJoin(on=Band("k", "k", 0, 0), left=2, right=2, form=form, device="numpy") as join:
        schema = join.process(table([1]), table([1])).schema
        assert join.finish().schema == schema
        assert join.finish().num_rows == 0


def test_columns_that_may_be_missing():
    left, right = (pa.schema([pa.field(name, pa.int64(), nullable=False)]) for name in "ab")
    nullable = {}
    for how in ["inner", *HOWS]:
        schema = JoinSpec(on=Band("a", "b", 0, 0), left=1, right=1, how=how).output_schema(left, right)
        nullable[how] = [field.nullable for field in schema]
    assert nullable == {
        "inner": [False, False],
        "left": [False, True],
        "right": [True, False],
        "full": [True, True],
        "right_anti": [True, False],
        "left_semi": [False],
        "left_anti": [False],
    }


@pytest.mark.parametrize("how", ["full", "left_anti"])
def test_rows_of_many_calls(how, device, seed):
    """The runs of times are cut and merged as rows come and go, whatever their sizes."""
    rng = np.random.default_rng(seed)
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -50, 80), delays=(30, 0), how=how)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    with WindowJoin(
        on=Band("k", "k", 0, 0), within=Within("t", "t", -50, 80), watermark=Watermark(left=30, right=0, lag=0),
        how=how, form="pairs", order="inner", device=device, left_schema=schema, right_schema=schema,
    ) as join:  # fmt: skip
        for call, size in zip(range(60), itertools.cycle([1, 0, 3, 40, 2, 9]), strict=False):
            sides = [table(rng.integers(0, 25, size), t=call * 12 + rng.integers(-35, 36, size)) for _ in range(2)]
            assert all_rows(join.process(*sides)) == loop.results(loop.process(*sides))
        assert all_rows(join.finish()) == loop.finish()
