"""Aggregates of what rows match, against a nested loop, DuckDB and pandas."""

import contextlib
import dataclasses
import datetime as dt
import decimal
import math
import statistics

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
    SchemaError,
    SqlError,
    SumOverflowError,
    UnsupportedError,
    WindowError,
)  # fmt: skip
from muntin.host.spec import HOWS
from tests.conformance.keys import KEYS, WIDE_KEYS, KeyCase
from tests.conformance.predicates import PREDICATES, for_host, in_units
from tests.conformance.test_payload_types import COLUMNS, REFUSED
from tests.oracles.aggregates import assert_same, numbered
from tests.oracles.nested_loop import NestedLoop

INT64 = np.iinfo(np.int64)
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
    alone = {name: window[name] for name in ("self_join", "itself") if name in window}
    oracle = NestedLoop(predicate, "k", seen, sequence=own["sequence"], **loop, **alone)
    join = WindowJoin(on=on, form="aggregate", aggregates=AGGREGATES, **own)
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
            for aggregate in AGGREGATES:
                assert_same(aggregate, row[aggregate.output], of, FILTERS, None if "rows" in window else "time")
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


@settings(max_examples=25, deadline=None)
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
    join = WindowJoin(
        on=BAND, within=within, watermark=watermark, form="aggregate", aggregates=AGGREGATES, at="close", **options
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
        closed(got, due, left, met)
    rest = [r.number for r in oracle.streams["left"].rows if not r.late and r.number not in out]
    assert len(out) > 100
    assert rest
    closed(join.finish(), rest, left, met)


def closed(got: pa.Table, due: list[int], left: list[dict], met: dict[int, list[dict]]) -> None:
    """Checks the columns of the left rows and the aggregates of all that they have met."""
    assert got.num_rows == len(due)
    for number, row in zip(due, got.to_pylist(), strict=True):
        assert {name: repr(row[name]) for name in left[number]} == {n: repr(v) for n, v in left[number].items()}
        for aggregate in AGGREGATES:
            assert_same(aggregate, row[aggregate.output], met.get(number, []), FILTERS, "time")


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


@settings(max_examples=30, deadline=None)
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
    options, loop = {"sequence": "s"} if sequence else {}, {}
    if window == "rows" and at == "arrival":
        options |= {"left": Rows(25), "right": Rows(40)}
        loop["rows"] = (25, 40)
    else:
        options["within"] = Within("time", "time", -6, 9)
        loop["within"] = ("time", "time", -6, 9)
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
                on=on, form="aggregate", aggregates=AGGREGATES, at=at, partitions=partitions, **options, **schemas
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
                for aggregate in AGGREGATES:
                    assert_same(aggregate, row[aggregate.output], of, FILTERS, loop.get("within", (None,))[0])
            assert not met
        if at == "close":
            closed_rows += join.finish().drop_columns("k").to_pylist()
            by_row = {row["s"]: row for row in closed_rows}
            due = [row.number for row in oracle.streams["left"].rows if not row.late]
            assert len(closed_rows) == len(by_row) == len(due)
            for number in due:
                row = by_row[history["left"][number]["s"]]
                assert row["name"] == history["left"][number]["name"]
                for aggregate in AGGREGATES:
                    assert_same(aggregate, row[aggregate.output], met.get(("left", number), []), FILTERS, "time")


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


@pytest.mark.parametrize("on", [Compare("a", "=", "b"), AllOf(Compare("k", "=", "k"), Band("a", "b", -4, 4))], ids=str)
def test_closing_rows_after_restarts(on, tmp_path, seed):
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
        with WindowJoin(**options, state=tmp_path, partitions=1 + number % 3) as join:
            if number:
                assert rows(join.repeat()) == due[number - 1]
            assert rows(join.process(*tables)) == due[number]
    with WindowJoin(**options, state=tmp_path) as join:
        assert rows(join.finish()) == end


def has_values(function: str, kind: pa.DataType) -> bool:
    """Whether there is such an aggregate of columns of a type, as the guide has it."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    number |= pa.types.is_decimal(kind) and kind.precision <= 38
    moment = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    special = {"min": number or moment, "max": number or moment}
    return pa.types.is_null(kind) or {**dict.fromkeys(("count", "first", "last"), True), **special}.get(
        function, number
    )


VALUES = {
    **COLUMNS, **REFUSED,
    "dictionary with NULL": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int8()), pa.array(["a", None])),
    "narrow decimal256": pa.array([decimal.Decimal(n) for n in (1, -2, 0, 3)], pa.decimal256(20, 2)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("at", "on", "partitions"),
    [
        ("arrival", Compare("k", "=", "k2"), 2),
        ("arrival", AllOf(Band("k", "k2", -1, 1), Band("k", "k2", -2, 0)), 1),
        ("close", Compare("k", "=", "k2"), 1),
        ("close", AllOf(Compare("k", "=", "k2"), Compare("k", "<=", "k2")), 2),
    ],
)
def test_every_type_and_function(at, on, partitions):
    left = pa.table({"k": [1, 1], "t": [0, 0]})
    options = {"on": on, "within": Within("t", "t2", -1, 1), "form": "aggregate", "at": at, "partitions": partitions}
    for name, column in VALUES.items():
        right = pa.table({"k2": [1] * 4, "t2": [0] * 4, "v": column, "by": pa.array([3, 1, 1, 2], pa.int8())})
        schemas = {"left_schema": left.schema, "right_schema": right.schema}
        if name in REFUSED:
            with pytest.raises(SchemaError, match="column 'v' of the right side has type"):
                WindowJoin(**options, aggregates="count(v)", **schemas)
            continue
        there = [value for value in column.to_pylist() if value is not None]
        functions = []
        for function in ("count", "sum", "min", "max", "avg", "var_samp", "first", "last"):
            if has_values(function, column.type):
                functions.append(function)
            else:
                with pytest.raises(KeyTypeError, match=f"no {function} of column 'v' of type"):
                    WindowJoin(**options, aggregates=f"{function}(v)", **schemas)
        chosen = ["arg_min(v, by)", "arg_max(v, by)"]
        weighed = "sum" in functions and getattr(column.type, "precision", 0) <= 36
        chosen += ["weighted_avg(v, by)"] if weighed else []
        given = [*(f"{function}(v)" for function in functions), *chosen]
        with WindowJoin(**options, aggregates=given, **schemas) as join:
            join.process(left.slice(0, 0), right.slice(3, 1))
            join.process(left.slice(0, 0), right.slice(0, 3))
            got = join.process(left)
            got = join.finish() if at == "close" else got
        values = column.to_pylist()
        rows = {"first(v)": 3, "last(v)": 2, "arg_min(v, by)": 1, "arg_max(v, by)": 0}
        for told, at_row in rows.items():  # the fourth row comes first
            assert repr(got[told].to_pylist()) == repr([values[at_row]] * 2), (name, told)
        due = {"count": len(there), **dict.fromkeys(("sum", "min", "max", "avg", "var_samp"))}
        if there and "min" in functions:
            due |= {"min": min(there), "max": max(there)}
        if there and "sum" in functions:
            due |= {"sum": sum(there), "avg": sum(there) / len(there)}
            pairs = [
                (value, by) for value, by in zip(values, right["by"].to_pylist(), strict=True) if value is not None
            ]
            mean = sum(value * by for value, by in pairs) / sum(by for _, by in pairs)
            if weighed:
                assert [float(each) for each in got["weighted_avg(v, by)"].to_pylist()] == pytest.approx(
                    [float(mean)] * 2
                )
            due |= {"var_samp": statistics.variance(map(float, there)) if len(there) > 1 else None}
        for function in functions:
            if function in ("first", "last"):
                continue
            if function == "var_samp":
                assert got["var_samp(v)"].to_pylist() == pytest.approx([due[function]] * 2), name
                continue
            assert got[f"{function}(v)"].to_pylist() == [due[function]] * 2, (name, function)


@pytest.mark.parametrize("at", ["arrival", "close"])
def test_closing_rows_and_columns_without_values(at):
    """Left columns of any type come through; a column of type null, as of an empty file, has the other side's type."""
    names = [name for name in COLUMNS if name != "null"]
    left = pa.table({"k": [1] * 4, "t": [0] * 4, **{name: COLUMNS[name] for name in names}, "v": pa.nulls(4)})
    right = pa.table({"k": [1], "t": [0], "v": [7]})
    aggregates = ["count(v)", "sum(v)", "min(v) as least", "avg(v)"]
    options = {"on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 0), "form": "aggregate", "at": at}
    with WindowJoin(**options, aggregates=aggregates, partitions=2) as join:
        got = join.process(left, right)
        if at == "close":
            got = join.finish()
            assert got.select(names).schema.equals(left.select(names).schema)
            assert repr(got.select(names).to_pylist()) == repr(left.select(names).to_pylist())
        met = [{"count(v)": 1, "sum(v)": 7, "least": 7, "avg(v)": 7.0}] * 4
        none = {"count(v)": 0, "sum(v)": None, "least": None, "avg(v)": None}
        if at == "arrival":  # left rows come first, and the right row meets values that are all NULL
            met = [none] * 5
        assert got.select(["count(v)", "sum(v)", "least", "avg(v)"]).to_pylist() == met
        assert got.schema.field("least").type == pa.int64()
    alone = [pa.table({"k": pa.array([], pa.int64()), "t": pa.array([], pa.int64()), "v": pa.nulls(0)})] * 2
    with WindowJoin(**options | {"at": "arrival"}, aggregates=aggregates) as join:
        kinds = join.process(*alone).schema.types[2:]
    assert kinds == [pa.int64(), pa.float64(), pa.null(), pa.float64()]


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


def test_names_types_and_columns_of_one_side():
    left = pa.table({"k": [1], "a": pa.array([7], pa.int8())})
    right = pa.table(
        {"k": [1], "q": pa.array([{"p": decimal.Decimal("1.25")}], pa.struct([("p", pa.decimal128(10, 2))]))}
    )
    join = WindowJoin(
        on=Compare("k", "=", "k"), left=5, right=5, form="aggregate",
        aggregates=["sum(a)", "AVG( q.p ) as mean", "count(1)", "count(a)", Max("q.p").alias("top")],
    )  # fmt: skip
    got = join.process(left, right)
    assert got.schema.names == ["side", "row", "sum(a)", "mean", "count(1)", "count(a)", "top"]
    assert [str(kind) for kind in got.schema.types[2:]] == [
        "int64", "decimal128(14, 6)", "int64", "int64", "decimal128(10, 2)"
    ]  # fmt: skip
    assert got.to_pylist() == [
        {"side": "left", "row": 0, "sum(a)": None, "mean": None, "count(1)": 0, "count(a)": None, "top": None},
        {"side": "right", "row": 0, "sum(a)": 7, "mean": None, "count(1)": 1, "count(a)": 1, "top": None},
    ]
    spec = join.spec
    assert JoinSpec.from_json(spec.to_json()) == spec
    filters = [
        "b > 1 and c = 'x'",
        Where("right", "c", "=", "x"),
        AnyOf(Where("left", "b", "<", 1), Where("left", "b", "=", 3)),
    ]
    many = [
        Mean("a", weight="b"),
        ArgMin("a", "b"),
        *(Last("a", filter=each) for each in filters),
        "count(1) filter (where b < 2) as n",
    ]
    spec = dataclasses.replace(spec, aggregates=many)
    assert JoinSpec.from_json(spec.to_json()) == spec
    assert [each.output for each in spec.aggregates] == [
        "weighted_avg(a, b)", "arg_min(a, b)", "last(a) filter (where b > 1 and c = 'x')",
        "last(a) filter (where right.c = 'x')", "last(a) filter (where (left.b < 1 or left.b = 3))", "n",
    ]  # fmt: skip


def test_a_filter_is_of_the_side_that_has_its_columns():
    left, right = (
        pa.table({"k": [1, 1], "v": [1, 2], "a": ["x", "y"]}),
        pa.table({"k": [1, 1], "v": [5, None], "b": [3, 4]}),
    )
    aggregates = [
        "count(*) filter (where a = 'x') as texts", "sum(v) filter (where b >= 3) as numbers",
        "count(v) filter (where k = 1) as both",
        Count(filter=Where("left", "v", ">", 1), name="left"),
        "last(v) filter (where right.v > 0 or right.v < 0) as last",
    ]  # fmt: skip
    options = {"on": Compare("k", "=", "k"), "left": 5, "right": 5, "form": "aggregate", "aggregates": aggregates}
    with WindowJoin(**options) as join:
        first, second = join.process(left, right.slice(0, 1)), join.process(left.slice(0, 1), right.slice(1))
    none = {"texts": None, "numbers": None, "both": 0, "left": None, "last": None}
    rows = [{name: row[name] for name in none} for row in (*first.to_pylist(), *second.to_pylist())]
    assert rows == [
        {**none, "numbers": None}, {**none, "numbers": None},
        {"texts": 1, "numbers": None, "both": 2, "left": 1, "last": None},
        {"texts": None, "numbers": 5, "both": 1, "left": None, "last": 5},
        {"texts": 2, "numbers": None, "both": 3, "left": 1, "last": None},
    ]  # fmt: skip


def test_sums_that_do_not_fit_are_errors():
    def summed(kind: pa.DataType, values: list, function: str = "sum") -> object:
        table = pa.table({"k": [0] * len(values), "v": pa.array(values, kind)})
        with WindowJoin(on=BAND, left=9, right=9, form="aggregate", aggregates=f"{function}(v)") as join:
            return join.process(table, table.slice(0, 1))[f"{function}(v)"][-1].as_py()

    assert summed(pa.int64(), [INT64.max, 1, -1]) == INT64.max
    assert summed(pa.int64(), [INT64.min, 5, -5]) == INT64.min
    assert summed(pa.uint64(), [2**64 - 2, 1]) == 2**64 - 1
    nines = decimal.Decimal(10**38 - 1)
    assert summed(pa.decimal128(38, 0), [nines, nines.copy_negate(), nines]) == nines
    assert summed(pa.int64(), [INT64.max] * 3, "avg") == float(INT64.max)
    for kind, values in (
        (pa.int64(), [INT64.max, 1]), (pa.int64(), [INT64.min, -1]), (pa.uint64(), [2**64 - 1, 1]),
        (pa.decimal128(38, 0), [nines, decimal.Decimal(1)]), (pa.decimal128(38, 0), [nines] * 3),
    ):  # fmt: skip
        with pytest.raises(SumOverflowError, match=r"sum\(v\) does not fit"):
            summed(kind, values)


def test_what_is_refused():
    table = pa.table({"k": [1], "v": ["a"], "time": [1]})
    options = {"on": BAND, "left": 5, "right": 5, "form": "aggregate", "left_schema": table.schema}
    both = options | {"right_schema": table.schema}
    with pytest.raises(KeyTypeError, match=r"no sum of column 'v' of type string"):
        WindowJoin(**both, aggregates=Sum("v"))
    with pytest.raises(SchemaError, match="no column 'w'"):
        WindowJoin(**both, aggregates=Sum("w"))
    with pytest.raises(SchemaError, match="two columns"):
        WindowJoin(**both, aggregates=[Sum("k"), Max("k").alias("sum(k)")])
    with pytest.raises(PredicateError, match="no aggregate"):
        WindowJoin(**both, aggregates="mode(k)")
    for text in (
        "arg_min(k)",
        "sum(k, v)",
        "avg(*)",
        "sum(k) filter (v = 'a')",
        "first()",
        "median(k, 1)",
        "percentile(k, x)",
    ):
        with pytest.raises(PredicateError, match=r"no aggregate: use count.*arg_max.column, by"):
            WindowJoin(**both, aggregates=text)
    with pytest.raises(PredicateError, match="q of Quantile must be a number from 0 to 1"):
        WindowJoin(**both, aggregates="percentile(k, 50)")
    with pytest.raises(KeyTypeError, match=r"no arg_min of column 'k' of type int64 and column 'v' of type string"):
        WindowJoin(**both, aggregates="arg_min(k, v)")
    with pytest.raises(SchemaError, match=r"no column 'w', of 'arg_max\(k, w\)'"):
        WindowJoin(**both, aggregates="arg_max(k, w)")
    with pytest.raises(SqlError, match="'w'"):
        WindowJoin(**both, aggregates="sum(k) filter (where w > 1)")
    with pytest.raises(SqlError, match=r"one side"):
        WindowJoin(**both, aggregates="sum(k) filter (where k > time)")
    with pytest.raises(PredicateError, match="filter of Sum must be a text"):
        Sum("k", filter=Compare("k", "=", "v"))
    wide = pa.schema([("k", pa.int64()), ("d", pa.decimal128(30, 2))])
    with pytest.raises(KeyTypeError, match="may not fit 127 bits: cast column 'd' or 'k' to fewer digits"):
        WindowJoin(**options | {"left_schema": wide, "right_schema": wide}, aggregates=Mean("d", weight="k"))
    with pytest.raises(PredicateError, match="there is none"):
        WindowJoin(**both)
    with pytest.raises(PredicateError, match="belong to form='aggregate'"):
        WindowJoin(**both | {"form": "rows"}, aggregates=Count())
    with pytest.raises(UnsupportedError, match="device 'cpu'"):
        WindowJoin(**both, aggregates=Count(), device="numpy")
    for how in HOWS[1:]:
        with pytest.raises(UnsupportedError, match="inner joins"):
            WindowJoin(**both, aggregates=Count(), how=how)
    with pytest.raises(WindowError, match="belongs to a time window"):
        WindowJoin(**both, aggregates=Count(), at="close")
    timed = {
        "on": BAND,
        "within": Within("time", "time", 0, 5),
        "form": "aggregate",
        "aggregates": Count(),
        "at": "close",
    }
    with pytest.raises(UnsupportedError, match="could never let a left row go"):
        WindowJoin(**timed, watermark=Watermark(left=3))


def test_state_goes_on(tmp_path):
    rng = np.random.default_rng(14)
    options = {
        "on": BAND, "within": Within("time", "time", -5, 5), "watermark": Watermark(6, 6, lag=0), "form": "aggregate",
        "aggregates": AGGREGATES,
    }  # fmt: skip
    whole = WindowJoin(**options)
    for start in (0, 20, 40, 60):
        tables = rows(rng, 50, start), rows(rng, 50, start)
        want = whole.process(*tables)
        with WindowJoin(**options, state=tmp_path) as join:
            assert repr(join.process(*tables).to_pylist()) == repr(want.to_pylist())
