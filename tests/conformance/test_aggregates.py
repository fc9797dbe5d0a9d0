"""Aggregates of what rows match, against a nested loop, DuckDB and pandas."""

import contextlib
import dataclasses
import datetime as dt
import decimal
import math

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin import (
    AllOf,
    AnyOf,
    ArgMax,
    ArgMin,
    Band,
    Collect,
    Compare,
    Count,
    First,
    JoinSpec,
    Last,
    Max,
    Mean,
    Min,
    Partitions,
    Quantile,
    Rows,
    StdDev,
    Sum,
    Var,
    Watermark,
    Where,
    WindowJoin,
    Within,
)
from muntin.errors import (
    KeyTypeError,
    PredicateError,
    UnsupportedError,
)  # fmt: skip
from tests.conformance.keys import KEYS, WIDE_KEYS, KeyCase
from tests.conformance.predicates import PREDICATES, for_host, in_units
from tests.oracles.aggregates import assert_same, numbered
from tests.oracles.nested_loop import NestedLoop

SIDES = ("left", "right")
BAND = Band("k", "k", -3, 4)
AGGREGATES = [
    Count(), *(kind(column) for column in "iufde" for kind in (Count, Sum, Min, Max, Mean)), Min("t"), Max("t"),
    Min("h"), First("w"), Last("f"), First("d", filter="u > 30000"), Last("w", filter="w = 'a' or w = 'b'"),
    ArgMin("w", "f"), ArgMax("i", "e"), ArgMin("t", "u", filter="f < 0 and u <= 60000"), ArgMax("d", "t"),
    Var("f"), Var("i"), StdDev("d"), StdDev("h", filter="u > 30000"), Mean("d", weight="u"), Mean("f", weight="i"),
    Mean("u", weight="d"), Mean("h", weight="e"), Sum("i", filter="u > 30000"), Count(filter="f < 0 and u <= 60000"),
    Quantile("f", 0.25), Quantile("e", 0.5), Quantile("u", 0.9, filter="u > 30000"), Collect("w"), Collect("t"),
    Collect("f", filter="w = 'a' or w = 'b'"),
]  # fmt: skip


def with_windows(low: int, high: int) -> list:
    """All aggregates, and some in windows of their own in that of the join."""
    middle = (max(low, high - 12) + high) // 2
    return [
        *AGGREGATES, Sum("i", within=(middle, None), name="later"), Last("w", within=(None, middle)),
        Count(within=(middle, middle)), Collect("t", within=(middle, high), filter="u > 30000"),
        Max("f", within=(None, middle)),
    ]  # fmt: skip


FILTERS = {
    "u > 30000": lambda row: row["u"] is not None and row["u"] > 30_000,
    "w = 'a' or w = 'b'": lambda row: row["w"] in ("a", "b"),
    "f < 0 and u <= 60000": lambda row: None not in (row["f"], row["u"]) and row["f"] < 0 and row["u"] <= 60_000,
}
SCHEMA = pa.schema(
    [
        ("k", pa.int64()), ("s", pa.int64()), ("time", pa.int64()), ("i", pa.int64()), ("u", pa.uint16()),
        ("f", pa.float64()), ("d", pa.decimal128(12, 2)), ("e", pa.decimal128(30, 3)), ("t", pa.timestamp("us")),
        ("h", pa.float32()), ("w", pa.string()),
    ]
)  # fmt: skip


def rows(rng: np.random.Generator, count: int, start: int = 0, *, keys: int = 30, jitter: int = 4) -> pa.Table:
    """Random rows with NULLs in every value and some keys, NaN, infinities and large values, times about in order."""
    null = lambda values, share=0.15: [None if rng.random() < share else value for value in values]  # noqa: E731
    floats = rng.choice(
        [0.1, -2.5, 1e16, -1e16, 3.0, math.nan, math.inf], count, p=[0.3, 0.3, 0.1, 0.1, 0.16, 0.02, 0.02]
    )
    times = start + np.arange(count) // 3 + rng.integers(-jitter, jitter + 1, count)
    wide = [decimal.Decimal(int(v)).scaleb(15) / 7 for v in rng.integers(-(10**9), 10**9, count)]
    columns = {
        "k": null(rng.integers(0, keys, count).tolist(), 0.05),
        "s": (100 * start + np.arange(count)).tolist(),
        "time": null(times.tolist(), 0.03),
        "i": null(rng.integers(-(1 << 55), 1 << 55, count).tolist()),
        "u": null(rng.integers(0, 1 << 16, count).tolist()),
        "f": null(floats.tolist()),
        "d": null([decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**11), 10**11, count)]),
        "e": null([v.quantize(decimal.Decimal("0.001")) for v in wide]),
        "t": null(
            [dt.datetime(2020, 1, 1) + dt.timedelta(microseconds=int(v)) for v in rng.integers(0, 10**14, count)]
        ),
        "h": null(rng.normal(size=count).astype(np.float32).tolist()),
        "w": null(rng.choice(["a", "b", "cc", ""], count).tolist()),
    }
    return pa.table(columns, SCHEMA)


def check(
    on: object, predicate: tuple, calls: list, *, sequence: bool = False, seen: str = "k", **window: object
) -> int:
    """Runs calls through the operator and the nested loop; how many pairs there were."""
    own, loop = dict(window), {}
    if "rows" in window:
        left, right = own.pop("rows")
        loop["rows"] = (left, right)
        own |= {"left": Rows(left), "right": Rows(right)}
    else:
        low, high = own.pop("within")
        loop["within"] = ("time", "time", low, high)
        own["within"] = Within("time", "time", low, high)
        if "delay" in own:
            delay = own.pop("delay")
            loop |= {"delays": (delay, delay), "lag": 0}
            own["watermark"] = Watermark(delay, delay, lag=0)
    own |= {"sequence": "s" if sequence else None}
    aggregates = AGGREGATES if "rows" in window else with_windows(*window["within"])
    alone = {name: window[name] for name in ("self_join", "itself") if name in window}
    oracle = NestedLoop(predicate, "k", seen, sequence=own["sequence"], **loop, **alone)
    join = WindowJoin(on=on, form="aggregate", aggregates=aggregates, **own)
    history: dict[str, list[dict]] = {"left": [], "right": []}
    pairs = 0
    for left, right in calls:
        got = join.process(left) if right is None else join.process(left, right)
        for side, table in (("left", left), ("right", left if right is None else right)):
            new = (table.sort_by("s") if sequence else table).to_pylist()
            history[side] += numbered(new, len(history[side]))
        met: dict[tuple[str, int], list[dict]] = {}
        for pair in oracle.process(left, right):
            mine, other = (pair.left, pair.right) if pair.side == "left" else (pair.right, pair.left)
            met.setdefault((pair.side, mine), []).append(history["right" if pair.side == "left" else "left"][other])
            pairs += 1
        assert len(got) == len(left) + len(left if right is None else right)
        for row in got.to_pylist():
            of = met.pop((row["side"], row["row"]), [])
            this = row["side"], history[row["side"]][row["row"]]["time"]
            for aggregate in aggregates:
                assert_same(aggregate, row[aggregate.output], of, FILTERS, None if "rows" in window else "time", this)
        assert not met
    assert join.stats.matches == pairs
    return pairs


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("window", [(7, 40), (60, 25), (500, 500)])
def test_count_windows(window, sequence):
    rng = np.random.default_rng(sum(window))
    calls = [(rows(rng, n, s), rows(rng, m, s)) for s, n, m in [(0, 70, 90), (100, 0, 60), (200, 64, 1), (300, 65, 65)]]
    assert check(BAND, ("band", -3, 4), calls, rows=window, sequence=sequence) > 100


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize(("low", "high", "delay"), [(-5, 5, None), (-(1 << 62), 3, None), (2, 12, 6), (-9, 0, 3)])
def test_time_windows(low, high, delay, sequence):
    rng = np.random.default_rng(8)
    calls = [(rows(rng, n, s), rows(rng, m, s)) for s, n, m in [(0, 60, 80), (30, 0, 60), (45, 64, 1), (60, 50, 50)]]
    window = {"within": (low, high)} | ({} if delay is None else {"delay": delay})
    assert check(BAND, ("band", -3, 4), calls, **window, sequence=sequence) > 60


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("window", [{"rows": (30, 55)}, {"within": (-4, 9)}])
def test_self_joins(window, itself):
    rng = np.random.default_rng(9)
    calls = [(rows(rng, 80, s), None) for s in (0, 30, 60)]
    check(BAND, ("band", -3, 4), calls, **window, self_join=True, itself=itself)
    residual = AllOf(Band("k", "k", -3, 4), Band("k", "k", -1, 9))  # made of pairs
    check(residual, ("band", -1, 4), calls, **window, self_join=True, itself=itself)


@pytest.mark.parametrize("partitions", [2, 5])
def test_a_row_alone_meets_itself_in_partitions(partitions):
    spec = {"on": Band("a", "b", -1, None), "self_join": True, "itself": True}
    with WindowJoin(**spec, form="aggregate", aggregates="count(*) as n", partitions=partitions) as join:
        assert join.process(pa.table({"a": [1], "b": [5]}))["n"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("on", "predicate"),
    [
        (Compare("k", "!=", "k"), ("compare", "!=")),
        (AnyOf(Band("k", "k", -2, 0), Band("k", "k", 5, 9)), ("any", [("band", -2, 0), ("band", 5, 9)])),
        (Compare("k", "<", "k"), ("compare", "<")),
    ],
)
def test_conditions(on, predicate):
    rng = np.random.default_rng(10)
    check(on, predicate, [(rows(rng, 40, s), rows(rng, 40, s)) for s in (0, 50, 100)], rows=(50, 50))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_windows_and_batches(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))
    sizes = data.draw(st.lists(st.tuples(st.integers(0, 45), st.integers(0, 45)), min_size=1, max_size=4))
    calls = [(rows(rng, n, 50 * at, keys=9), rows(rng, m, 50 * at, keys=9)) for at, (n, m) in enumerate(sizes)]
    if data.draw(st.booleans()):
        window = {"rows": (data.draw(st.integers(1, 80)), data.draw(st.integers(1, 80)))}
    else:
        low = data.draw(st.integers(-9, 9))
        window = {"within": (low, low + data.draw(st.integers(0, 30)))}
    check(BAND, ("band", -3, 4), calls, **window, sequence=data.draw(st.booleans()))


def test_residual_conditions_give_the_same_from_pairs():
    rng = np.random.default_rng(11)
    on = AllOf(Band("k", "k", -3, 4), Band("u", "u", -20_000, 20_000))
    aggregates = [Count(), Sum("i"), Mean("d"), Max("e"), Count("f"), Sum("e"), Min("t")]
    options = {"on": on, "left": Rows(60), "right": Rows(45)}
    join = WindowJoin(**options, form="aggregate", aggregates=aggregates)
    pairs = WindowJoin(**options, form="pairs")
    history: dict[str, list[dict]] = {"left": [], "right": []}
    for start in (0, 100, 200):
        tables = rows(rng, 70, start), rows(rng, 80, start)
        first = {side: len(held) for side, held in history.items()}
        for side, table in zip(history, tables, strict=True):
            history[side] += table.to_pylist()
        met: dict[tuple[str, int], list[dict]] = {}
        for pair in pairs.process(*tables).to_pylist():
            left, right = pair["left_row"], pair["right_row"]
            late = right >= first["right"]  # left rows of a call come before its right rows
            met.setdefault(("right", right) if late else ("left", left), []).append(
                history["left"][left] if late else history["right"][right]
            )
        for row in join.process(*tables).to_pylist():
            for aggregate in aggregates:
                assert_same(aggregate, row[aggregate.output], met.get((row["side"], row["row"]), []))
    assert "from pairs" in join.explain()
    assert "from ranges of sorted runs" in JoinSpec(
        **options | {"on": BAND}, form="aggregate", aggregates="count(*)"
    ).explain(SCHEMA, SCHEMA)


@pytest.mark.parametrize("itself", [False, True])
def test_left_rows_whose_windows_are_over(itself):
    rng = np.random.default_rng(12)
    options = {"self_join": True, "itself": True} if itself else {}
    low, high, delay = -6, 5, 4
    watermark = Watermark(delay, delay, lag=0)
    within = Within("time", "time", low, high)
    aggregates = with_windows(low, high)
    join = WindowJoin(
        on=BAND, within=within, watermark=watermark, form="aggregate", aggregates=aggregates, at="close", **options
    )
    oracle = NestedLoop(("band", -3, 4), "k", "k", within=("time", "time", low, high), delays=(delay, delay), **options)
    left, right, out = [], [], set()
    met: dict[int, list[dict]] = {}
    for start in (0, 20, 40, 40, 70):
        a, b = rows(rng, 60, start), rows(rng, 50, start)
        b = a if itself else b
        left, right = left + a.to_pylist(), right + numbered(b.to_pylist(), len(right))
        got = join.process(a) if itself else join.process(a, b)
        for pair in oracle.process(a, None if itself else b):
            met.setdefault(pair.left, []).append(right[pair.right])
        stored = oracle.streams["left"].rows
        due = [r.number for r in stored if not r.late and r.number not in out and oracle._alone("left", r)]
        out.update(due)
        closed(got, due, left, met, aggregates)
    rest = [r.number for r in oracle.streams["left"].rows if not r.late and r.number not in out]
    assert len(out) > 100
    assert rest
    closed(join.finish(), rest, left, met, aggregates)


def closed(got: pa.Table, due: list[int], left: list[dict], met: dict[int, list[dict]], aggregates: list) -> None:
    """Checks the columns of the left rows and the aggregates of all that they have met."""
    assert got.num_rows == len(due)
    for number, row in zip(due, got.to_pylist(), strict=True):
        assert {name: repr(row[name]) for name in left[number]} == {n: repr(v) for n, v in left[number].items()}
        for aggregate in aggregates:
            this = "left", left[number]["time"]
            assert_same(aggregate, row[aggregate.output], met.get(number, []), FILTERS, "time", this)


KEY_CASES = {
    case.name: case
    for case in (
        *KEYS, *WIDE_KEYS,
        KeyCase("decimal32", pa.decimal32(7, 2), pa.decimal32(7, 2), decimal.Decimal("0.01")),
        KeyCase("decimal256", pa.decimal256(40, 2), pa.decimal64(12, 2), decimal.Decimal("0.01")),
        KeyCase("duration", pa.duration("ms"), pa.duration("us"), dt.timedelta(milliseconds=1), (1, 1000)),
        KeyCase("time32", pa.time32("ms"), pa.time32("ms"), dt.timedelta(milliseconds=1)),
        KeyCase("time64", pa.time64("us"), pa.time64("us"), dt.timedelta(microseconds=1)),
        KeyCase("float16", pa.float16(), pa.float16(), 0.25, (0.25, 0.25)),
        KeyCase("float16-float64", pa.float16(), pa.float64(), 0.5, (0.5, 0.25)),
    )
}  # fmt: skip


def conditions(shape: str, range_part: object, predicate: tuple) -> tuple[object, tuple]:
    """A condition on the columns k, name and u, as the operator and as the nested loop take it."""
    ranged, equal = ("pair", 0, 0, predicate), ("pair", 1, 1, ("compare", "="))
    shapes = {
        "range": (range_part, [ranged]),
        "equality": (AllOf(range_part, Compare("name", "=", "name")), [ranged, equal]),
        "null-safe": (AllOf(Compare("name", "<=>", "name"), range_part), [("same", 1, 1), ranged]),
        "one side": (AllOf(range_part, Where("right", "u", "<", 40_000)),
                     [ranged, ("where", "right", 2, lambda value: value < 40_000)]),
        "residual": (AllOf(range_part, Band("u", "u", -20_000, 30_000)),
                     [ranged, ("pair", 2, 2, ("band", -20_000, 30_000))]),
    }  # fmt: skip
    on, parts = shapes[shape]
    return on, ("all", parts)


@settings(max_examples=20, deadline=None)
@given(
    key=st.sampled_from(sorted(KEY_CASES)),
    predicate=st.sampled_from(sorted(PREDICATES)),
    condition=st.sampled_from(["range", "equality", "null-safe", "one side", "residual"]),
    at=st.sampled_from(["arrival", "close"]),
    window=st.sampled_from(["rows", "time", "watermark"]),
    sequence=st.booleans(),
    partitions=st.sampled_from([1, 3]),
    keys=st.sampled_from(["random", "nulls", "mixed"]),
    seed=st.integers(0, 1 << 20),
)
@example("float32", "compare-less", "range", "close", "time", False, 1, "random", 0)
@example("float16", "compare-equal", "range", "close", "watermark", True, 3, "nulls", 1)
@example("int64", "compare-not-equal", "equality", "close", "watermark", False, 1, "mixed", 2)
@example("timestamp-ns", "any-disjoint", "equality", "close", "time", False, 3, "random", 3)
@example("uint64-int64", "band-asymmetric", "null-safe", "arrival", "watermark", True, 1, "mixed", 4)
def test_any_key_type_and_condition(key, predicate, condition, at, window, sequence, partitions, keys, seed):
    case, rng = KEY_CASES[key], np.random.default_rng(seed)
    if "float16" in key and keys == "mixed":
        keys = "nulls"  # the greatest float32 values do not fit
    part = in_units(PREDICATES[predicate], case)
    on, due_on = conditions(condition, for_host(part, "k", "k"), part)
    options, loop, aggregates = {"sequence": "s"} if sequence else {}, {}, AGGREGATES
    if window == "rows" and at == "arrival":
        options |= {"left": Rows(25), "right": Rows(40)}
        loop["rows"] = (25, 40)
    else:
        options["within"] = Within("time", "time", -6, 9)
        loop["within"] = ("time", "time", -6, 9)
        aggregates = with_windows(-6, 9)
        if window == "watermark":
            options["watermark"] = Watermark(3, 3, lag=0)
            loop["delays"] = (3, 3)
    names = ["k", "name", "u"]
    oracle = NestedLoop(due_on, names, names, sequence=options.get("sequence"), **loop)

    def table(side: str, start: int) -> pa.Table:
        count = int(rng.integers(0, 25))
        words = pa.array(rng.choice(["a", "b", None], count, p=[0.5, 0.4, 0.1]).tolist(), pa.string())
        plain = rows(rng, count, start).append_column("name", words)
        return plain.set_column(0, "k", case.keys(side, keys, count, rng))

    calls = [(table("left", start), table("right", start)) for start in (0, 8, 20)]
    schemas = {"left_schema": calls[0][0].schema, "right_schema": calls[0][1].schema}
    with contextlib.ExitStack() as joined:
        try:
            pairs = joined.enter_context(WindowJoin(on=on, form="pairs", **options, **schemas))
        except (KeyTypeError, PredicateError) as error:  # for this condition, in every form
            with pytest.raises(type(error)):
                WindowJoin(on=on, form="aggregate", aggregates=AGGREGATES, at=at, **options, **schemas)
            return
        if condition == "residual" and at == "close":
            with pytest.raises(UnsupportedError, match="leaves residual"):
                WindowJoin(on=on, form="aggregate", aggregates=AGGREGATES, at=at, **options, **schemas)
            return
        join = joined.enter_context(
            WindowJoin(
                on=on, form="aggregate", aggregates=aggregates, at=at, partitions=partitions, **options, **schemas
            )
        )
        history: dict[str, list[dict]] = {"left": [], "right": []}
        met: dict[tuple[str, int], list[dict]] = {}
        closed_rows = []
        for tables in calls:
            try:
                pairs.process(*tables)
            except KeyTypeError:
                with pytest.raises(KeyTypeError):
                    join.process(*tables)
                return
            got = join.process(*tables)
            for side, each in zip(history, tables, strict=True):
                new = (each.sort_by("s") if sequence else each).drop_columns("k").to_pylist()
                history[side] += numbered(new, len(history[side]))
            for pair in oracle.process(*tables):
                side = "left" if at == "close" else pair.side
                mine, other = (pair.left, pair.right) if side == "left" else (pair.right, pair.left)
                met.setdefault((side, mine), []).append(history["right" if side == "left" else "left"][other])
            if at == "close":
                closed_rows += got.drop_columns("k").to_pylist()
                continue
            assert len(got) == sum(map(len, tables))
            for row in got.to_pylist():
                of = met.pop((row["side"], row["row"]), [])
                this = row["side"], history[row["side"]][row["row"]]["time"]
                for aggregate in aggregates:
                    assert_same(aggregate, row[aggregate.output], of, FILTERS, loop.get("within", (None,))[0], this)
            assert not met
        if at == "close":
            closed_rows += join.finish().drop_columns("k").to_pylist()
            by_row = {row["s"]: row for row in closed_rows}
            due = [row.number for row in oracle.streams["left"].rows if not row.late]
            assert len(closed_rows) == len(by_row) == len(due)
            for number in due:
                row = by_row[history["left"][number]["s"]]
                assert row["name"] == history["left"][number]["name"]
                this = "left", history["left"][number]["time"]
                for aggregate in aggregates:
                    assert_same(aggregate, row[aggregate.output], met.get(("left", number), []), FILTERS, "time", this)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.decimal128(9, 1)], ids=str)
@pytest.mark.parametrize("partitions", [1, 2])
def test_few_keys_of_closing_rows(kind, partitions):
    values = pa.array([-2, -1, 0, 1, 2], pa.int8()).cast(pa.float32()).cast(kind)
    left, right = pa.table({"a": values, "t": [0] * 5}), pa.table({"b": values, "u": [0] * 5})
    for op, due in (("<", [4, 3, 2, 1, 0]), (">=", [1, 2, 3, 4, 5]), ("=", [1] * 5), ("!=", [4] * 5)):
        options = {"within": Within("t", "u", -1, 1), "form": "aggregate", "at": "close", "aggregates": "count(*) as n"}
        with WindowJoin(on=Compare("a", op, "b"), **options, partitions=partitions) as join:
            assert join.process(left, right).num_rows == 0
            assert join.finish()["n"].to_pylist() == due


@pytest.mark.parametrize("by", ["auto", "ranges"])
@pytest.mark.parametrize("on", [Compare("a", "=", "b"), AllOf(Compare("k", "=", "k"), Band("a", "b", -4, 4))], ids=str)
def test_closing_rows_after_restarts(on, by, tmp_path, seed):
    """Another process goes on from the state in every call, with another number of partitions."""
    rng = np.random.default_rng(seed)

    def table(side, call):
        count = int(rng.integers(0, 30))
        key = pa.array(rng.integers(0, 9, count), mask=rng.random(count) < 0.1)
        times = 20 * call + rng.integers(0, 35, count)
        return pa.table({side: key, "k": rng.integers(0, 3, count), "t": times, "v": rng.random(count) - 0.5})

    calls = [(table("a", call), table("b", call)) for call in range(7)]
    options = {
        "on": on, "within": Within("t", "t", -15, 10), "watermark": Watermark(5, 5, lag=1), "form": "aggregate",
        "at": "close",
        "aggregates": [Count(), Sum("v"), Max("t"), Last("v"), ArgMin("t", "v"), StdDev("v"), Collect("v")],
        "left_schema": calls[0][0].schema, "right_schema": calls[0][1].schema,
    }  # fmt: skip
    rows = lambda given: [tuple(row.values()) for row in given.to_pylist()]  # noqa: E731
    with WindowJoin(**options) as join:
        due = [rows(join.process(*tables)) for tables in calls]
        end = rows(join.finish())
    assert sum(map(bool, due)) > 3
    for number, tables in enumerate(calls):
        with WindowJoin(**options, state=tmp_path, partitions=Partitions(1 + number % 3, by=by)) as join:
            if number:
                assert rows(join.repeat()) == due[number - 1]
            assert rows(join.process(*tables)) == due[number]
    with WindowJoin(**options, state=tmp_path) as join:
        assert rows(join.finish()) == end


def test_many_rows_as_duckdb_and_pandas_have_them():
    rng = np.random.default_rng(13)
    count, window = 10_000, 7_000
    side = lambda: pa.table(  # noqa: E731
        {"k": rng.integers(0, 2000, count), "v": rng.integers(-1000, 1000, count), "f": rng.normal(size=count),
         "w": rng.integers(1, 9, count)}
    )  # fmt: skip
    left, right = side(), side()
    aggregates = [
        Count(), Sum("v"), Min("v"), Max("f"), Mean("f"), Sum("f"), Var("f"), StdDev("v"), Quantile("v", 0.3),
        First("v"), Last("f"), ArgMin("v", "f"), ArgMax("f", "v"), Mean("f", weight="w"), Sum("v", filter="f > 0"),
    ]  # fmt: skip
    join = WindowJoin(on=BAND, left=window, right=window, form="aggregate", aggregates=aggregates)
    parts = [join.process(left.slice(at, 2048), right.slice(at, 2048)) for at in range(0, count, 2048)]
    got = pa.concat_tables(parts).filter(pa.compute.equal(pa.concat_tables(parts)["side"], "left")).to_pandas()
    call = np.arange(count) // 2048
    left = left.append_column("row", pa.array(np.arange(count))).append_column("before", pa.array(call * 2048))
    right = right.append_column("row", pa.array(np.arange(count)))
    query = (
        "SELECT l.row, count(r.k), sum(r.v), min(r.v), max(r.f), avg(r.f), sum(r.f), var_samp(r.f), "
        "stddev_samp(r.v), quantile_cont(r.v, 0.3), first(r.v ORDER BY r.row), last(r.f ORDER BY r.row), "
        "arg_min(r.v, r.f ORDER BY r.row), arg_max(r.f, r.v ORDER BY r.row), sum(r.f * r.w) / sum(r.w), "
        "sum(r.v) FILTER (r.f > 0) FROM l LEFT JOIN r ON "
        "r.k BETWEEN l.k - 3 AND l.k + 4 AND r.row < l.before AND r.row >= l.before - $n GROUP BY l.row ORDER BY l.row"
    )
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        want = connection.execute(query, {"n": window}).df()
    want.columns = ["row", *(aggregate.output for aggregate in aggregates)]
    assert want["count(1)"].sum() > 100_000
    pd.testing.assert_frame_equal(got.drop(columns="side"), want, check_dtype=False, rtol=1e-12, atol=1e-10)
    # The last left row from its window alone.
    last = right.slice(call[-1] * 2048 - window, window).to_pandas()
    key = left["k"][-1].as_py()
    own = last[last["k"].between(key - 3, key + 4)]
    assert (len(own), own["v"].sum(), own["v"].min()) == tuple(got.iloc[-1][["count(1)", "sum(v)", "min(v)"]])


def test_state_goes_on(tmp_path):
    rng = np.random.default_rng(14)
    options = {
        "on": BAND, "within": Within("time", "time", -5, 5), "watermark": Watermark(6, 6, lag=0), "form": "aggregate",
        "aggregates": with_windows(-5, 5),
    }  # fmt: skip
    whole = WindowJoin(**options)
    for start in (0, 20, 40, 60):
        tables = rows(rng, 50, start), rows(rng, 50, start)
        want = whole.process(*tables)
        with WindowJoin(**options, state=tmp_path) as join:
            assert repr(join.process(*tables).to_pylist()) == repr(want.to_pylist())


@pytest.mark.parametrize("at", ["arrival", "close"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_and_files_of_narrow_windows_go(at, partitions, tmp_path):
    """A run that is never whole beyond its window, as it is merged with newer ones, keeps no older row alive."""
    options = {
        "on": Compare("k", "=", "k"), "within": Within("time", "time", -2, 2), "watermark": Watermark(1, 1),
        "form": "aggregate", "at": at, "aggregates": "last(v)", "partitions": partitions,
    }  # fmt: skip
    calls, held = [], []
    with WindowJoin(**options, state=tmp_path) as join:
        for number in range(120):
            table = pa.table({"k": [1, 2] * 5, "time": [10 * number] * 10, "v": range(10)})
            join.process(table, table)
            calls.append(join.stats.state_calls)
            held.append(join.stats.row_bytes)
    assert max(calls) < 60, calls
    assert max(held) < 60 * held[0], held


PREVAILING = [
    Count(prevailing=True, name="all"), Sum("i", prevailing=True, name="sum"), Count(name="plain"),
    Last("w", within=(0, 2), prevailing=True, name="last"),
    First("t", prevailing=True, filter="u > 30000", name="first"),
    Collect("f", within=(-1, -1), prevailing=True, name="list"),
    Max("h", within=(None, 0), prevailing=True, name="max"),
    Quantile("d", 0.5, prevailing=True, name="middle"), StdDev("f", within=(3, None), prevailing=True, name="spread"),
    Last("w", within=(5, 6), name="late"), ArgMin("w", "u", prevailing=True, name="least"),
]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    at=st.sampled_from(["arrival", "close"]),
    delay=st.sampled_from([None, 3]),
    sequence=st.booleans(),
    restarts=st.booleans(),
    wide=st.booleans(),
    itself=st.booleans(),
    partitions=st.sampled_from(
        [1, Partitions(3), Partitions(2, by="subwindows", subwindow_rows=9), Partitions(2, "ranges")]
    ),
    seed=st.integers(0, 1 << 20),
)
@example("close", 3, False, True, False, False, 3, 0)
@example("arrival", 3, True, True, True, False, 1, 1)
@example("close", 3, True, False, False, True, 1, 2)
@example("arrival", 3, False, False, False, False, Partitions(2, by="subwindows", subwindow_rows=9), 3)
@example("close", 3, False, False, False, False, Partitions(2, by="subwindows", subwindow_rows=9), 4)
def test_prevailing_rows(tmp_path_factory, at, delay, sequence, restarts, wide, itself, partitions, seed):
    rng, (low, high) = np.random.default_rng(seed), (-4, 6)
    on = AllOf(Compare("k", "=", "k"), Compare("w", "<=>", "w")) if wide else Compare("k", "=", "k")
    options = {"on": on, "within": Within("time", "time", low, high), "form": "aggregate", "aggregates": PREVAILING}
    options |= {"at": at, "sequence": "s" if sequence else None}
    loop = {"within": ("time", "time", low, high), "sequence": options["sequence"]}
    if delay is not None:
        options["watermark"] = Watermark(delay, delay, lag=0)
        loop["delays"] = (delay, delay)
    alone = {"self_join": True, "itself": True} if itself else {}
    oracle = NestedLoop(("compare", "="), "k", "k", **loop, **alone)
    options |= alone | {"left_schema": SCHEMA, "right_schema": SCHEMA}
    state = tmp_path_factory.mktemp("state") if restarts else None
    join = WindowJoin(**options, state=state, partitions=partitions)
    history: dict[str, list[dict]] = {"left": [], "right": []}
    due: list[tuple[str, dict, list[dict]]] = []
    got: list[dict] = []
    for start in np.cumsum(rng.integers(1, 25, 6)).tolist():
        tables = [rows(rng, int(rng.integers(0, 40)), start, keys=5) for _ in range(1 if itself else 2)]
        oracle.process(*tables, *([None] if itself else []))
        got += join.process(*tables).to_pylist()
        new = {}
        for side, table in zip(history, tables * (1 + itself), strict=True):
            own = numbered((table.sort_by("s") if sequence else table).to_pylist(), len(history[side]))
            new[side] = own
            history[side] = history[side] + own
        for side in SIDES if at == "arrival" else ():
            other, before = "right" if side == "left" else "left", 0
            before = len(history[other]) - len(new[other])
            for row in new[side]:
                if itself:
                    seen = row["#"] + (side == "right")
                elif sequence:
                    first = [each["s"] < row["s"] + (side == "right") for each in new[other]]
                    seen = before + sum(first)
                else:
                    seen = len(history[other]) if side == "right" else before
                due.append((side, row, history[other][:seen]))
        if restarts:
            join.close()
            join = WindowJoin(**options, state=state, partitions=partitions)
    if at == "close":
        got += join.finish().to_pylist()
    join.close()
    accepted = {
        side: {row.number for row in oracle.streams["left" if itself else side].rows if not row.late} for side in SIDES
    }
    if at == "close":
        due = [("left", row, history["right"]) for row in history["left"] if row["#"] in accepted["left"]]
        got.sort(key=lambda row: row["s"])
        due.sort(key=lambda each: each[1]["s"])
    else:
        got.sort(key=lambda row: (row["side"], row["row"]))
        due.sort(key=lambda each: (each[0], each[1]["#"]))
    names = ("k", "w") if wide else ("k",)
    assert len(got) == len(due)
    for (side, row, seen), found in zip(due, got, strict=True):
        other = "right" if side == "left" else "left"
        fits = row["time"] is not None and row["k"] is not None and row["#"] in accepted[side]
        seen = [
            each
            for each in (seen if fits else ())
            if all(each[name] == row[name] for name in names) and each["time"] is not None
            if each["#"] in accepted[other]
        ]
        for aggregate in PREVAILING:
            ends = aggregate.within or (None, None)
            least, most = (end if own is None else own for own, end in zip(ends, (low, high), strict=True))
            apart = lambda each: (each["time"] - row["time"]) * (1 if side == "left" else -1)  # noqa: B023, E731
            met = [each for each in seen if least <= apart(each) <= most]
            early = [each for each in seen if (apart(each) < least if side == "left" else apart(each) > most)]
            if aggregate.prevailing and early:
                met.append(max(early, key=lambda each: (each["time"], each["#"])))
            plain = dataclasses.replace(aggregate, within=None, prevailing=False)
            assert_same(plain, found[aggregate.output], met, FILTERS, "time")


@pytest.mark.parametrize("restarts", [False, True])
def test_prevailing_rows_outlive_their_windows_one_for_each_value(restarts, tmp_path):
    """As pandas' as-of join has them, in bounded memory."""
    rng, calls, count = np.random.default_rng(15), 8, 3000
    lefts, rights = [], []
    for call in range(calls):
        keys = rng.integers(0, 40, (2, count)) if call else np.arange(2 * count).reshape(2, count) % 400
        keys[0, :200] = rng.integers(0, 400, 200)  # most of these have no newer row on the right
        times = np.sort(call * 1000 + rng.integers(0, 1000, (2, count)), axis=1)
        values = pa.array([f"{value:x}" for value in rng.integers(0, 1 << 40, count)])
        lefts.append(pa.table({"k": keys[0], "t": times[0], "row": np.arange(count) + call * count}))
        rights.append(pa.table({"k": keys[1], "u": times[1], "v": values}))
    options = {
        "on": Compare("k", "=", "k"), "within": Within("t", "u", -20, 0), "watermark": Watermark(0, 0, lag=1),
        "at": "close", "form": "aggregate",
        "aggregates": [Last("v", prevailing=True, name="at"), Last("v", within=(0, 0), prevailing=True)],
        "left_schema": lefts[0].schema, "right_schema": rights[0].schema, "state": tmp_path if restarts else None,
    }  # fmt: skip
    join, parts = WindowJoin(**options), []
    for tables in zip(lefts, rights, strict=True):
        parts.append(join.process(*tables))
        if restarts:
            join.close()
            join = WindowJoin(**options)
    logs = join._calls.journal.pipeline.logs
    kept = logs["right"].rows if logs else 0  # where it was opened again, nothing is loaded yet
    parts.append(join.finish())
    held = join.stats.index["right"]["prevailing"]
    join.close()
    assert 360 < held <= 400
    assert kept < 5 * count
    got = pa.concat_tables(parts).to_pandas().sort_values("row")
    left, right = (pa.concat_tables(tables).to_pandas() for tables in (lefts, rights))
    want = pd.merge_asof(left, right.rename(columns={"u": "t"}), on="t", by="k").sort_values("row")["v"]
    assert want.notna().sum() > 20_000
    for column in got.columns[3:]:
        assert [value or None for value in got[column]] == [None if value != value else value for value in want]
