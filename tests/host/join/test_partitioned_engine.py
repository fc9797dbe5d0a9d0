"""Joins in partitions: the same result as in one window, and each partition its share."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, AsOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.aggregates import Count, Max, Mean, Min, Sum
from muntin.host.call import Call
from muntin.host.engine.placement import Planner
from muntin.host.engines import Partitions
from muntin.host.errors import CapacityError, UnsupportedError, WindowError
from muntin.host.index import BiSort, RapTable, SpoJoin, WibTree
from muntin.host.join.range_mirror import RangeMirror

EQUAL = Compare("k", "=", "k")
BAND = Band("a", "a", -3, 4)
CONDITIONS: dict[str, Any] = {
    "integers": EQUAL,
    "units": Compare("k", "=", "small"),
    "decimals": Compare("dollars", "=", "cents"),
    "floats": Compare("f", "=", "half"),
    "text": Compare("x", "=", "x"),
    "null_safe": Compare("x", "<=>", "x"),
    "composite": AllOf(EQUAL, Band("a", "a", -20, 20)),
    "wide": AllOf(EQUAL, Band("t", "t", -19, 19)),
    "residual": AllOf(EQUAL, Band("f", "f", -1.0, 1.0), Compare("a", "!=", "a")),
    "band": BAND,
    "float_band": Band("f", "half", -0.5, 1.0),
    "union": AnyOf(Band("a", "a", -9, -7), Band("a", "a", 20, 21)),
    "bands": AllOf(BAND, Band("k", "k", -2, 2)),
    "unequal": AllOf(Compare("a", "!=", "a"), Band("k", "small", None, 0)),
    "below": Compare("a", "<", "a"),
    "near": Band("t", "t", -9, 9),
}
BY = dict(zip(CONDITIONS, 9 * ["equality"] + 4 * ["ranges"] + 2 * ["subwindows"] + ["ranges"], strict=True))
WINDOWS: dict[str, dict[str, Any]] = {
    "count": {"left": Rows(70), "right": Rows(50)},
    "time": {"within": Within("t", "t", -40, 30), "watermark": Watermark(left=20, right=30, lag=1)},
    "sequence": {"left": Rows(30), "right": Rows(90), "sequence": "s"},
    "none": {},
}
HOWS = ["inner", "left", "right", "full", "left_semi", "left_anti", "right_anti"]


def table(rng: np.random.Generator, call: int, rows: int) -> pa.Table:
    k = np.where(rng.random(rows) < 0.4, 1, rng.integers(-4, 4, rows))  # one value has half of the rows
    a = np.where(rng.random(rows) < 0.3, 50, rng.integers(0, 99, rows))
    return pa.table(
        {
            "k": pa.array(k, pa.int64(), mask=rng.random(rows) < 0.1),
            "small": pa.array(k, pa.int16()),
            "dollars": pa.array([int(v) for v in k], pa.decimal128(9, 0)),
            "cents": pa.array([int(v) for v in k], pa.decimal128(9, 0)).cast(pa.decimal128(12, 2)),
            "f": pa.array(np.where(k == 0, -0.0, k), pa.float64()),
            "half": pa.array(k, pa.float32()),
            "x": pa.array([f"x{v}" for v in k], pa.string(), mask=rng.random(rows) < 0.1),
            "a": pa.array(a, pa.int32(), mask=rng.random(rows) < 0.05),
            "t": call * 15 + rng.integers(-30, 30, rows),
            "s": np.sort(call * 1000 + rng.integers(0, 1000, rows)),
        }
    )


def stream(seed: int, calls: int = 6, most: int = 50) -> list[tuple[pa.Table, pa.Table]]:
    rng = np.random.default_rng(seed)
    return [tuple(table(rng, call, int(rng.integers(0, most))) for _ in range(2)) for call in range(calls)]  # type: ignore[misc]


def results(calls: list[tuple[pa.Table, pa.Table]], *, ordered: bool = False, **options: Any) -> list[list[str]]:
    """What each call gives, and the end."""
    with WindowJoin(**options) as join:
        found = [join.process(*(tables[:1] if join.spec.self_join else tables)) for tables in calls]
        rows = [[str(row) for row in part.to_pylist()] for part in (*found, join.finish())]
        return rows if ordered else [sorted(part) for part in rows]


@pytest.mark.parametrize(("condition", "window"), list(zip(CONDITIONS, itertools.cycle(WINDOWS))))
def test_as_in_one_window(condition: str, window: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS[window]}
    calls = stream(seed)
    due = results(calls, **options, device="numpy")
    assert sum(map(len, due)) > 50
    for partitions, device in ((5, "cpu"), (2, "numpy")):
        given = Partitions(partitions, subwindow_rows=13)
        assert results(calls, **options, partitions=given, device=device) == due
    with WindowJoin(**options, partitions=3) as join:
        for tables in calls:
            join.process(*tables)
        assert join.stats.engine["placement"]["by"] == BY[condition]


@settings(max_examples=12)
@given(
    condition=st.sampled_from(sorted(CONDITIONS)),
    window=st.sampled_from(["count", "sequence", "time"]),
    how=st.sampled_from(HOWS),
    form=st.sampled_from(["rows", "pairs"]),
    by=st.sampled_from(["auto", "ranges", "subwindows"]),
    partitions=st.integers(2, 7),
    subwindow_rows=st.sampled_from([None, 1, 20]),
    order=st.sampled_from(["none", "inner"]),
    seed=st.integers(0, 2**32),
)
@example(  # its keys take 128 bits
    condition="residual", window="count", how="left", form="rows", by="ranges", partitions=3, subwindow_rows=20,
    order="none", seed=0,
)  # fmt: skip
@example(
    condition="wide", window="count", how="inner", form="pairs", by="ranges", partitions=3, subwindow_rows=None,
    order="none", seed=0,
)  # fmt: skip
def test_every_kind_of_join(
    seed: int, partitions: int, by: str, subwindow_rows: int | None, order: str, **options: Any
) -> None:
    condition, window = options.pop("condition"), options.pop("window")
    options |= {"on": CONDITIONS[condition], **WINDOWS[window], "order": order}
    calls, ordered = stream(seed, 4), order == "inner"
    given = Partitions(partitions, by, subwindow_rows)
    due = results(calls, **options, ordered=ordered)
    assert results(calls, **options, partitions=given, ordered=ordered) == due


@settings(max_examples=8)
@given(
    condition=st.sampled_from(["integers", "band", "union", "unequal", "bands"]),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    partitions=st.sampled_from([2, 5]),
    seed=st.integers(0, 2**32),
)
def test_wherever_calls_are_cut(condition: str, sizes: list[int], partitions: int, seed: int) -> None:
    """Rows in one call, or cut in any way: the same pairs, where a sequence says who came first."""
    rng = np.random.default_rng(seed)
    sides = [table(rng, 0, sum(sizes)) for _ in range(2)]
    options = {"on": CONDITIONS[condition], **WINDOWS["sequence"], "form": "pairs"}
    due = sorted(itertools.chain(*results([(sides[0], sides[1])], **options)))
    cuts = np.cumsum([0, *sizes])
    bounds = [sides[0]["s"].to_numpy()[min(cut, sum(sizes) - 1)] if sum(sizes) else 0 for cut in cuts[1:-1]]
    places = [[0, *np.searchsorted(side["s"].to_numpy(), bounds, "left"), len(side)] for side in sides]
    calls = [
        tuple(side.slice(at[n], at[n + 1] - at[n]) for side, at in zip(sides, places, strict=True))
        for n in range(len(sizes))
    ]
    found = results(calls, **options, partitions=Partitions(partitions, subwindow_rows=9))  # type: ignore[arg-type]
    assert sorted(itertools.chain(*found)) == due


@pytest.mark.parametrize("condition", ["integers", "units", "composite", "band", "union", "bands", "below"])
@pytest.mark.parametrize("window", ["count", "time"])
def test_self_joins(condition: str, window: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS[window], "self_join": True, "itself": True}
    if window == "time":
        options["watermark"] = Watermark(left=20, right=20)
    calls = stream(seed)
    due = results(calls, **options)
    for by in ("auto", "subwindows"):
        assert results(calls, **options, partitions=Partitions(3, by, subwindow_rows=11)) == due


@pytest.mark.parametrize("condition", ["integers", "band", "bands", "below"])
def test_counts(condition: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS["time"], "form": "counts"}
    assert results(stream(seed), **options, partitions=4) == results(stream(seed), **options)


@pytest.mark.parametrize(
    "index", [BiSort(buffer_rows=16), RapTable(partitions=4), WibTree(leaf_rows=8), SpoJoin(slide=20)]
)
@pytest.mark.parametrize("window", ["count", "time"])
def test_every_index(index: Any, window: str, seed: int) -> None:
    for condition in ("bands", "unequal"):
        options = {"on": CONDITIONS[condition], **WINDOWS[window]}
        due = results(stream(seed), **options)
        given = Partitions(3, subwindow_rows=17)
        assert results(stream(seed), **options, index=index, partitions=given) == due


AGGREGATES = [Count(), Sum("a"), Min("f"), Max("half"), Mean("k"), Sum("dollars"), Min("cents"), Sum("f")]


@pytest.mark.parametrize("condition", ["integers", "band", "below", "bands", "union"])
@pytest.mark.parametrize("at", ["arrival", "close"])
def test_aggregates(condition: str, at: str, seed: int) -> None:
    if condition == "bands" and at == "close":
        pytest.skip("residual conditions have no at='close'")
    options = {"on": CONDITIONS[condition], "form": "aggregate", "aggregates": AGGREGATES, "at": at}
    for window in ("time",) if at == "close" else ("time", "count"):
        due = results(stream(seed), **options, **WINDOWS[window])
        for by in ("auto", "subwindows"):
            given = Partitions(4, by, subwindow_rows=12)
            assert results(stream(seed), **options, **WINDOWS[window], partitions=given) == due


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of(direction: str, how: str, seed: int) -> None:
    for form, by in (("rows", [("x", "x")]), ("pairs", [("k", "k"), ("x", "x")])):
        on = AsOf("t", "t", direction, tolerance=25, by=by)
        options = {"on": on, "how": how, "watermark": Watermark(left=20, right=20), "form": form}
        due = results(stream(seed), **options)
        assert results(stream(seed), **options, partitions=3) == due
    with WindowJoin(**options, partitions=3) as join:
        for tables in stream(seed):
            join.process(*tables)
        assert len(join.stats.engine["partitions"]) == 3


@pytest.mark.parametrize("condition", ["composite", "band", "unequal"])
@pytest.mark.parametrize("window", ["time", "count"])
def test_another_number_after_a_restart(tmp_path: Path, condition: str, window: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS[window], "how": "full"}
    calls = stream(seed)
    due = results(calls, **options)
    for number, tables in enumerate(calls):
        given = Partitions(1 + number % 3, subwindow_rows=10)
        with WindowJoin(**options, state=tmp_path, partitions=given) as join:
            if number:
                assert sorted(map(str, join.repeat().to_pylist())) == due[number - 1]
            assert sorted(map(str, join.process(*tables).to_pylist())) == due[number]


def test_as_of_in_another_number_after_a_restart(tmp_path: Path, seed: int) -> None:
    options = {"on": AsOf("t", "t", by=[("k", "k")]), "how": "left", "watermark": Watermark(left=20, right=20)}
    calls = stream(seed)
    due = results(calls, **options)
    for number, tables in enumerate(calls):
        with WindowJoin(**options, state=tmp_path, partitions=1 + number % 3) as join:
            assert number == 0 or sorted(map(str, join.repeat().to_pylist())) == due[number - 1]
            assert sorted(map(str, join.process(*tables).to_pylist())) == due[number]


# What each partition does: exact counts


def work(calls: list[tuple[pa.Table, pa.Table]], partitions: Partitions | int, **options: Any) -> list[dict[str, int]]:
    with WindowJoin(form="counts", partitions=partitions, **options) as join:
        for tables in calls:
            join.process(*tables)
        return join.stats.engine["partitions"]


def evenness(parts: list[dict[str, int]], *names: str) -> float:
    """The most of a partition over the mean."""
    each = [sum(part[name] for name in names) for part in parts]
    return max(each) * len(each) / sum(each)


def keys(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    values = {
        "dense": rng.permutation(rows),
        "strided": rng.permutation(rows) * 4096,
        "random": rng.integers(-(1 << 60), 1 << 60, rows),
        "normal": (rng.normal(0, 1, rows) * 1e9).astype(np.int64),
        "half": np.where(np.arange(rows) % 2 == 0, 77, rng.integers(0, 1 << 40, rows)),
    }
    return values[kind]


@pytest.mark.parametrize(
    ("kind", "on"),
    [
        *itertools.product(["dense", "strided", "random", "normal", "half"], [EQUAL, Band("k", "k", -50, 50)]),
        ("half", Compare("k", "!=", "k")),
    ],
)
@pytest.mark.parametrize("shape", ["whole", "calls", "time"])
def test_work_is_even(kind: str, on: Any, shape: str) -> None:
    rows, cut = 12_000, 12_000 if shape == "whole" else 1000
    rng = np.random.default_rng(1)
    sides = [pa.table({"k": keys(kind, rows, rng), "t": np.arange(rows)}) for _ in range(2)]
    calls = [(sides[0].slice(at, cut), sides[1].slice(at, cut)) for at in range(0, rows, cut)]
    window: dict[str, Any] = {"left": Rows(rows // 2), "right": Rows(rows // 2)}
    if shape == "time":
        window = {"within": Within("t", "t", -5000, 5000), "watermark": Watermark(left=100, right=100)}
    for count in (2, 5):
        parts = work(calls, count, on=on, **window)
        for names in (("rows_left", "rows_right"), ("stored_left", "stored_right"), ("probes_left", "probes_right")):
            assert evenness(parts, *names) < 1.2, names
        assert sum(part["rows_left"] for part in parts) == rows  # each stored once


def test_copies_are_what_bands_reach() -> None:
    """Uniform keys: a probe whose band is a tenth of a range wide meets 1.1 ranges on the mean."""
    rows, count = 40_000, 4
    rng = np.random.default_rng(2)
    sides = [pa.table({"k": rng.integers(0, 4_000_000, rows)}) for _ in range(2)]
    window = {"left": Rows(rows), "right": Rows(rows)}
    parts = work([(sides[0], sides[1])], count, on=Band("k", "k", -50_000, 50_000), **window)
    assert sum(part["probes_left"] for part in parts) == 0  # they come before any right row
    probes = sum(part["probes_right"] for part in parts)
    assert probes / rows == pytest.approx(1 + 3 / 4 * 0.1, abs=0.01)
    assert sum(part["copied_bytes"] for part in parts) == (probes - rows) * 24  # key and two arrival numbers
    equal = work([(sides[0], sides[1])], count, on=EQUAL, **window)
    assert sum(part["copied_bytes"] for part in equal) == 0
    assert sum(part["probes_right"] for part in equal) == rows


def test_probes_go_only_where_rows_of_the_other_side_are() -> None:
    right = pa.table({"k": np.arange(300)})
    left = pa.table({"k": np.arange(10)})
    parts = work(
        [(left.slice(0, 0), right), (left, right.slice(0, 0))], Partitions(4, "subwindows", subwindow_rows=100),
        on=Compare("k", "!=", "k"), left=Rows(1000), right=Rows(1000),
    )  # fmt: skip
    assert [part["rows_right"] for part in parts] == [100, 100, 100, 0]
    assert [part["probes_left"] for part in parts] == [10, 10, 10, 0]


def test_subwindows_out_of_sight_are_not_probed() -> None:
    """In time and by arrival."""
    right = pa.table({"k": np.arange(400), "t": np.arange(400)})
    left = pa.table({"k": np.arange(5), "t": np.full(5, 399)})
    shape = {"on": Compare("k", "!=", "k"), "partitions": Partitions(4, "subwindows", subwindow_rows=100)}
    calls = [(left.slice(0, 0), right), (left, right.slice(0, 0))]
    for window in ({"left": Rows(1), "right": Rows(90)}, {"within": Within("t", "t", -50, 0)}):
        assert [part["probes_left"] for part in work(calls, **shape, **window)] == [0, 0, 0, 5]


def test_splitters_hold_for_new_subwindows_only() -> None:
    """Keys move to another range: new rows are spread again, and none that are stored move."""
    rng = np.random.default_rng(3)
    rows = 8000
    calls = []
    for step in range(6):
        low = 0 if step < 3 else 10_000_000
        sides = [pa.table({"k": rng.integers(low, low + 1_000_000, rows)}) for _ in range(2)]
        calls.append((sides[0], sides[1]))
    options: dict[str, Any] = {"on": Band("k", "k", -5, 5), "left": Rows(3 * rows), "right": Rows(3 * rows)}
    with WindowJoin(**options, form="counts", partitions=4) as join:
        due = [part["matches"] for tables in calls for part in join.process(*tables).to_pylist()]
        report = join.stats.engine
    # One subwindow of each side was placed by the old ones.
    assert evenness(report["partitions"], "stored_left", "stored_right") < 1.5
    assert report["placement"]["plans"] >= 2
    with WindowJoin(**options, form="counts") as join:
        assert due == [part["matches"] for tables in calls for part in join.process(*tables).to_pylist()]


def test_rising_keys_go_in_turn() -> None:
    rows = 40_000
    values = pa.table({"k": np.arange(rows)})
    calls = [(values.slice(at, 1000), values.slice(at, 1000)) for at in range(0, rows, 1000)]
    window = {"left": Rows(8000), "right": Rows(8000)}
    parts = work(calls, 4, on=Band("k", "k", -5, 5), **window)
    assert evenness(parts, "stored_left", "stored_right") < 1.5


def test_a_key_that_is_heavy_no_more() -> None:
    planner = Planner(4, even=True)
    rng = np.random.default_rng(4)
    spread = rng.integers(-(1 << 63), (1 << 63) - 1, 8000)
    planner.begin("left", np.where(np.arange(8000) % 2, 5, spread))
    assert planner.plan.heavy.tolist() == [5]
    planner.learn("left", spread, planner.plan)
    assert planner.plan.heavy.tolist() == []


def test_rows_that_do_not_fit_place_nothing() -> None:
    calls = stream(5)
    options = {"on": BAND, **WINDOWS["count"], "left_schema": calls[0][0].schema, "right_schema": calls[0][1].schema}
    due = results(calls, **options)
    with WindowJoin(**options, partitions=Partitions(3, subwindow_rows=7)) as join:
        engine: Any = join._calls.journal.pipeline.engine
        found = []
        for tables in calls:
            last = engine._engines[2]
            kept, last.admit = last.admit, _refuse
            with pytest.raises(CapacityError):
                join.process(*tables)
            last.admit = kept
            found.append(sorted(map(str, join.process(*tables).to_pylist())))
    assert found == due[:-1]


def _refuse(call: Call) -> Call:
    raise CapacityError("no room", 1, 0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": Band("k", "k", -1, 1), "partitions": Partitions(2, "equality")}, UnsupportedError, "has none"),
        ({"partitions": 0}, WindowError, "from 1 to 256, not 0"),
        ({"partitions": True}, WindowError, "from 1 to 256, not True"),
        ({"engine": "shared"}, UnsupportedError, "engine='shared'"),
        ({"form": "ranges", "partitions": Partitions(2, "equality")}, UnsupportedError, "form='ranges'"),
        (
            {"left": None, "right": None, "within": Within("t", "t", 0, 1), "capacity": 9},
            UnsupportedError,
            "capacity=9",
        ),
        ({"on": AsOf("t", "t"), "left": None, "right": None}, UnsupportedError, "by= columns"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"on": EQUAL, "left": Rows(9), "right": Rows(9), "partitions": 2, **options}
    with pytest.raises(error, match=message):
        WindowJoin(**given, **dict.fromkeys(("left_schema", "right_schema"), stream(0)[0][0].schema))


def test_partitions_say_what_they_take() -> None:
    with pytest.raises(WindowError, match="by of Partitions"):
        Partitions(2, by="luck")
    with pytest.raises(WindowError, match="subwindow_rows"):
        Partitions(2, subwindow_rows=0)


@pytest.mark.parametrize("condition", ["band", "union", "below", "integers"])
@pytest.mark.parametrize("window", ["count", "time"])
def test_ranges_for_a_mirror(condition: str, window: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS[window]}
    calls = stream(seed)
    due = results(calls, **options, form="pairs")
    with WindowJoin(**options, form="ranges", partitions=Partitions(3, subwindow_rows=9)) as join:
        mirror = RangeMirror(join.spec, calls[0][0].schema, calls[0][1].schema)
        found = []
        for tables in calls:
            ranges = join.process(*tables)
            found.append(sorted(str(row) for row in mirror.pairs(ranges, *tables).to_pylist()))
    assert found == due[:-1]
