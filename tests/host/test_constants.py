"""Constants of every class and text, in every place that takes one: exact, or refused by name."""

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from muntin import AllOf, AsOf, Band, Compare, JoinSpec, Rows, Watermark, Where, WindowJoin, Within, sql
from muntin.host.arguments import condition
from muntin.host.engines import Inner, Outer, Partitions, SplitJoin
from muntin.host.errors import MuntinError, PredicateError, WindowError
from muntin.host.index import BiSort, Slices
from muntin.host.join.collector import Collector
from muntin.host.join.range_index import open_window_index
from muntin.host.keys.constants import exact_float, whole_number
from muntin.host.keys.durations import nanoseconds
from muntin.host.predicates import from_dict

NANOS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}
#: Of a length in nanoseconds, how each library writes it; None where its class does not hold it.
LENGTHS = {
    "timedelta": lambda n: dt.timedelta(microseconds=n // 1000) if n % 1000 == 0 else None,
    "pandas": lambda n: pd.Timedelta(n, "ns"),
    "pandas-s": lambda n: pd.Timedelta(n // 10**9, "s").as_unit("s") if n % 10**9 == 0 else None,
    "numpy-ns": lambda n: np.timedelta64(n, "ns"),
    "numpy-array": lambda n: np.array(n, "m8[ns]"),
    "numpy-us": lambda n: np.timedelta64(n // 1000, "us") if n % 1000 == 0 else None,
    "numpy-25us": lambda n: np.timedelta64(n // 25_000, (25, "us")) if n % 25_000 == 0 else None,
    "numpy-ps": lambda n: np.timedelta64(n * 1000, "ps"),
    "arrow-ns": lambda n: pa.scalar(n, pa.duration("ns")),
    "arrow-ms": lambda n: pa.scalar(n // 10**6, pa.duration("ms")) if n % 10**6 == 0 else None,
    "text": lambda n: f"{n} ns",
    "text-us": lambda n: f"{'-' if n < 0 else ''}{abs(n) // 1000}.{abs(n) % 1000:03d} microseconds",
    "iso": lambda n: f"{'-' if n < 0 else ''}PT{abs(n) // 10**9}.{abs(n) % 10**9:09d}S",
}
lengths = st.sampled_from([1, 1000, 25_000, 10**6, 10**9]).flatmap(
    lambda unit: st.integers(-(10**15) // unit, 10**15 // unit).map(lambda n: n * unit)
)


@settings(max_examples=60)
@given(length=lengths, kind=st.sampled_from(list(LENGTHS)))
@example(length=1499, kind="pandas")
def test_lengths_of_every_class_in_every_place(length, kind):
    value, far = LENGTHS[kind](length), abs(length)
    assume(value is not None)
    assert nanoseconds(value) == length
    away = LENGTHS[kind](far)
    band = Band("t", "u", high=value)
    kept = [
        (length, band.high),
        (length, Within("t", "u", None, value).high),
        (far, AsOf("t", "u", tolerance=away).tolerance),
        (far, Watermark(left=away).left),
        (far, Watermark(left=0, right=0, idle_after=away).idle_after),
        (max(far, 1), Slices(stride=LENGTHS[kind](far) if far else "1 ns").stride),
        (length, Partitions(2, width=value).width),
    ]
    for due, found in kept:
        assert nanoseconds(found if found != 0 else "0") == due
    assert from_dict(json.loads(json.dumps(band.to_dict()))) == band
    assert Collector(max_delay=away)._delay == far
    spec = JoinSpec(on=Band("t", "u"), within=Within("t", "u", None, value), watermark=Watermark(left=away))
    assert JoinSpec.from_json(spec.to_json()) == spec
    times = pa.table({"u": pa.array([length - 1, length, length + 1], pa.timestamp("ns"))})
    zero = pa.table({"t": pa.array([0], pa.timestamp("ns"))})
    with WindowJoin(on=band, left=Rows(9), right=Rows(9), form="pairs") as join:
        assert join.process(zero, times)["right_row"].to_pylist() == [0, 1]
    with WindowJoin(on=Band("t", "u"), within=Within("t", "u", value, None), form="pairs") as join:
        assert join.process(zero, times)["right_row"].to_pylist() == [1, 2]
    both = pa.table({"t": pa.array([-far, -far - 1], pa.timestamp("ns"))})
    with WindowJoin(on=AsOf("u", "t", tolerance=away), form="pairs") as join:
        join.process(zero.rename_columns(["u"]), both)
        assert join.finish()["right_row"].to_pylist() == [0]
    if far:
        moved = pa.table({"d": pa.array([length - 1, length], pa.duration("ns"))})
        assert passed(moved, "d", value) == [1]


@pytest.mark.parametrize(
    "value",
    [
        *(np.timedelta64(1, "M"), np.timedelta64(5), np.timedelta64("NaT", "ns"), np.timedelta64(1, "ps"), pd.NaT),
        *(pa.scalar(None, pa.duration("ns")), pa.scalar((1, 0, 0), pa.month_day_nano_interval())),
        *("P1M", "PT0.1234567891S"),
        *(np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01"), True, np.True_, float("nan"), Decimal("sNaN")),
        *([1], np.array([1]), pd.NA),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_length_is_refused(value):
    for place in (
        lambda v: JoinSpec(on=Band("t", "u", high=v), left=1, right=1),
        lambda v: Within("t", "u", 0, v),
        lambda v: AsOf("t", "u", tolerance=v),
        lambda v: Watermark(left=v),
        lambda v: Slices(stride=v),
        lambda v: Partitions(2, width=v),
        lambda v: Collector(max_delay=v),
    ):
        with pytest.raises(MuntinError):
            place(value) if not isinstance(value, str) else nanoseconds(value)


def passed(table: pa.Table, column: str, value: object, op: str = "=") -> list[int]:
    """The rows that satisfy ``column OP value``, through `Where` and its JSON form."""
    where = Where("left", column, op, value)
    assert from_dict(json.loads(json.dumps(where.to_dict()))) == where
    one = table.append_column("one", pa.array([1] * len(table)))
    with WindowJoin(on=AllOf(Compare("one", "=", "one"), where), left=Rows(99), right=Rows(1), form="pairs") as join:
        return join.process(one, one.slice(0, 1))["left_row"].to_pylist()


EPOCH = dt.datetime(1970, 1, 1)
#: Of nanoseconds since 1970, how each library writes the timestamp.
STAMPS = {
    "datetime": lambda n: EPOCH + dt.timedelta(microseconds=n // 1000) if n % 1000 == 0 else None,
    "pandas": lambda n: pd.Timestamp(n),
    "numpy-ns": lambda n: np.datetime64(n, "ns"),
    "numpy-ps": lambda n: np.datetime64(n * 1000, "ps") if abs(n) < 2**52 else None,
    "numpy-s": lambda n: np.datetime64(n // 10**9, "s") if n % 10**9 == 0 else None,
    "arrow": lambda n: pa.scalar(n, pa.timestamp("ns")),
    "arrow-us": lambda n: pa.scalar(n // 1000, pa.timestamp("us")) if n % 1000 == 0 else None,
    "text": lambda n: str(np.datetime64(n, "ns")),
    "text-zeros": lambda n: str(np.datetime64(n, "ns")).replace("T", " ") + "000",
}


@settings(max_examples=60)
@given(
    stamp=st.sampled_from([1, 1000, 10**9, 86_400 * 10**9]).flatmap(
        lambda unit: st.integers(-(10**18) // unit, 10**18 // unit).map(lambda n: n * unit)
    ),
    kind=st.sampled_from(list(STAMPS)),
    op=st.sampled_from(["=", "<", ">=", "!="]),
    unit=st.sampled_from(["ns", "s", "date32"]),
)
@example(stamp=1700, kind="pandas", op="=", unit="ns")
def test_timestamps_of_every_class(stamp, kind, op, unit):
    value = STAMPS[kind](stamp)
    assume(value is not None)
    step = 86_400 * 10**9 if unit == "date32" else NANOS[unit]
    ticks = [stamp // step + away for away in (-1, 0, 1)]
    if unit == "date32":
        column = pa.array(ticks, pa.int32()).cast(pa.date32())
    else:
        column = pa.array(ticks, pa.timestamp(unit))
    compare = {"=": "__eq__", "<": "__lt__", ">=": "__ge__", "!=": "__ne__"}[op]
    due = [at for at, tick in enumerate(ticks) if getattr(tick * step, compare)(stamp)]
    assert passed(pa.table({"t": column}), "t", value, op) == due
    if kind.startswith("text"):
        right = pa.table({"i": [0, 1, 2]})
        left = pa.table({"t": column, "i": [0, 1, 2]})
        text = f"SELECT l.i FROM l JOIN r ON l.i = r.i AND l.t {op} TIMESTAMP '{value}'"
        assert sorted(sql(text, l=left, r=right)["i"].to_pylist()) == due
        found, _ = condition(("left.i = right.i",), (f"left.t {op} '{value}'",), left.schema, right.schema)
        (test,) = found.parts[1:]
        assert passed(left, "t", test.value, op) == due


@settings(max_examples=40)
@given(day=st.integers(0, 86_400 * 10**9 - 1), op=st.sampled_from(["=", "<"]), kind=st.sampled_from(["text", "arrow"]))
@example(day=1700, op="=", kind="text")
def test_times_of_day(day, op, kind):
    value = str(np.datetime64(day, "ns"))[11:] if kind == "text" else pa.scalar(day, pa.time64("ns"))
    ticks = [max(day - 1, 0), day, min(day + 1, 86_400 * 10**9 - 1)]
    table = pa.table({"t": pa.array(ticks, pa.time64("ns")), "i": [0, 1, 2]})
    due = [at for at, tick in enumerate(ticks) if (tick == day if op == "=" else tick < day)]
    assert passed(table, "t", value, op) == due
    if kind == "text":
        found = sql(
            f"SELECT l.i FROM l JOIN r ON l.i = r.i AND l.t {op} TIME '{value}'", l=table, r=table.select(["i"])
        )
        assert sorted(found["i"].to_pylist()) == due


def test_zones_and_far_years():
    zoned = pa.table({"t": pa.array([1001], pa.timestamp("ns", "UTC")), "u": pa.array([10**12], pa.timestamp("s"))})
    for value in (
        pd.Timestamp(1001, tz="Europe/Berlin"),
        "1970-01-01T01:00:00.000001001+01:00",
        pa.scalar(1001, pa.timestamp("ns", "Europe/Berlin")),
    ):
        assert passed(zoned, "t", value) == [0]
    for value in (pa.scalar(10**12, pa.timestamp("s")), np.datetime64(10**12, "s")):  # of the year 33,658
        assert passed(zoned, "u", value) == [0]
        assert passed(zoned, "u", value, "<") == []
    for column, value in (("t", dt.date(1970, 1, 1)), ("t", np.datetime64(0, "s")), ("u", pd.Timestamp(0, tz="UTC"))):
        with pytest.raises(PredicateError, match="time zone"):
            passed(zoned, column, value)


@settings(max_examples=80)
@given(
    number=st.integers(-(2**66), 2**66)
    | st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-9, max_value=9)
    | st.floats(allow_nan=False, allow_infinity=False)
)
@example(number=2**53 + 1)
@example(number=Decimal("0.1"))
@example(number=Decimal("0.10000000000000000001"))
def test_numbers_on_floating_point_columns_are_not_rounded(number):
    exact = exact_float(number)
    if exact is not None and math.isfinite(exact):
        assert Fraction(exact) == Fraction(number) or Fraction(repr(exact)) == Fraction(number)
    table = pa.table({"x": [float(number)], "y": [float(number)]})
    if exact is None:
        for on in (AllOf(Compare("x", "=", "y"), Where("left", "x", "=", number)), Band("x", "y", high=number)):
            with pytest.raises(PredicateError, match="float64"):
                JoinSpec(on=on, left=1, right=1).output_schema(table.schema, table.schema)
        if number > 0:
            with pytest.raises(PredicateError, match="float64"):
                JoinSpec(on=AsOf("x", "y", tolerance=number)).output_schema(table.schema, table.schema)
    else:
        assert passed(table, "x", number) == [0]


@pytest.mark.parametrize("text", ["9007199254740993.0", "1e3", "-0.5", "0.10000000000000000001"])
def test_numbers_of_a_command_line_are_exact(text):
    schema = pa.schema({"a": pa.int64()})
    band, _ = condition((f"right.a BETWEEN left.a + {text} AND left.a + 1e30",), (), schema, schema)
    assert isinstance(band, Band)
    assert Fraction(str(band.low)) == Fraction(text)
    where = condition(("left.a = right.a",), (f"left.a >= {text}",), schema, schema)[0].parts[1]
    assert Fraction(str(where.value)) == Fraction(text)


@pytest.mark.parametrize("value", [np.int64(4), np.uint8(4), pa.scalar(4).as_py(), np.array(4)], ids=repr)
def test_whole_numbers_of_every_class(value):
    window = open_window_index(span=value)
    assert window.rows == 0
    spec = JoinSpec(
        on=Band("a", "b"), within=Within("t", "t", value, value), capacity=value, order=Inner(every=value),
        index=BiSort(buffer_rows=value), engine=SplitJoin(cores=value),
        watermark=Watermark(left=value, right=value, lag=value, initial=value, idle_after=value),
    )  # fmt: skip
    assert JoinSpec.from_json(spec.to_json()) == spec
    assert JoinSpec(on=Band("a", "b"), left=value, right=Rows(value), order=Outer(every=value)).left == Rows(4)
    assert Partitions(value, subwindow_rows=value) == Partitions(4, subwindow_rows=4)
    rows = pa.table({"a": [1, 2], "b": [1, 2]})
    with WindowJoin(
        on=Band("a", "b"), left=value, right=value, threads=value, partitions=value, max_rows=value
    ) as join:  # fmt: skip
        assert sum(map(len, join.process_blocks(rows, rows, block_bytes=value))) == 4


@pytest.mark.parametrize("value", [True, np.True_, 4.0, np.float64(4), "4", Decimal(4)], ids=repr)
def test_what_is_no_whole_number_is_refused(value):
    assert whole_number(value) is None
    for place in (
        lambda v: JoinSpec(on=Band("a", "b"), within=Within("t", "t", 0, 0), capacity=v),
        lambda v: Rows(v),
        lambda v: JoinSpec(on=Band("a", "b"), left=v, right=1),
        lambda v: Watermark(left=0, lag=v),
        lambda v: Outer(every=v),
        lambda v: Inner(every=v),
        lambda v: Partitions(v),
        lambda v: SplitJoin(cores=v),
        lambda v: BiSort(buffer_rows=v),
        lambda v: Collector(max_rows=v),
        lambda v: open_window_index(span=v),
    ):
        with pytest.raises((WindowError, PredicateError)):
            place(value)


def test_dates_beside_timestamps_as_duckdb_has_them():
    rng = np.random.default_rng(7)
    days = pa.array([None if rng.random() < 0.1 else int(v) for v in rng.integers(-30, 30, 80)], pa.int32())
    hours = pa.array([None if rng.random() < 0.1 else int(v) * 10**6 * 3600 for v in rng.integers(-700, 700, 90)])
    left = pa.table({"d": days.cast(pa.date32()), "i": range(80)})
    right = pa.table({"t": hours.cast(pa.timestamp("us")), "j": range(90)})
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        for on, text in (
            (Compare("d", "=", "t"), "l.d = r.t"),
            (Compare("d", "<=>", "t"), "l.d IS NOT DISTINCT FROM r.t"),
            (Compare("d", "is distinct from", "t"), "l.d IS DISTINCT FROM r.t"),
            (
                Band("d", "t", "-36 hours", dt.timedelta(days=1)),
                "r.t BETWEEN l.d - INTERVAL 36 HOURS AND l.d + INTERVAL 1 DAY",
            ),
            (Compare("d", ">", "t"), "l.d > r.t"),
        ):  # fmt: skip
            due = connection.execute(f"SELECT i, j FROM l JOIN r ON {text} ORDER BY ALL").fetchall()
            for options in ({"on": on}, {"on": text.replace("l.", "left.").replace("r.", "right.")}):
                schemas = {"left_schema": left.schema, "right_schema": right.schema}
                with WindowJoin(**options, **schemas, left=Rows(99), right=Rows(99)) as join:
                    result = join.process(left, right)
                assert sorted(zip(result["i"].to_pylist(), result["j"].to_pylist(), strict=True)) == due
        due = connection.execute("SELECT i, j FROM l ASOF JOIN r ON l.d >= r.t ORDER BY ALL").fetchall()
        with WindowJoin(on=AsOf("d", "t")) as join:
            join.process(left, right)
            result = join.finish()
        best = dict(zip(right["j"].to_pylist(), right["t"].to_pylist(), strict=True))
        found = sorted(zip(result["i"].to_pylist(), result["j"].to_pylist(), strict=True))
        assert [(i, best[j]) for i, j in found] == [(i, best[j]) for i, j in due]
    zoned = right.set_column(0, "t", right["t"].cast(pa.timestamp("us", "UTC")))
    for on in (
        {"on": Band("d", "t")},
        {"on": AsOf("d", "t")},
        {"on": Band("i", "j"), "within": Within("d", "t", "0", "0")},
    ):
        with pytest.raises(MuntinError, match="no time zone"):
            JoinSpec(**on).output_schema(left.schema, zoned.schema)
