"""Functions of aggregates: their types, values, names, filters and refusals."""

import dataclasses
import datetime as dt
import decimal
import fractions
import statistics
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin import (
    AllOf,
    AnyOf,
    ArgMin,
    Band,
    Compare,
    Count,
    JoinSpec,
    Last,
    Max,
    Mean,
    Quantile,
    Sum,
    Watermark,
    Where,
    WindowJoin,
    Within,
)  # fmt: skip
from muntin.errors import (
    KeyTypeError,
    PredicateError,
    SchemaError,
    SqlError,
    SumOverflowError,
    UnsupportedError,
    WindowError,
)
from muntin.host.keys import kept_types
from muntin.host.spec import HOWS
from tests.conformance.test_payload_types import COLUMNS, REFUSED
from tests.oracles.aggregates import assert_same

INT64 = np.iinfo(np.int64)
BAND = Band("k", "k", -3, 4)


def has_values(function: str, kind: pa.DataType) -> bool:
    """Whether there is such an aggregate of columns of a type, as docs/contract.md has it."""
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
def test_lists_of_more_bytes_than_offsets_of_32_bits_number(at, monkeypatch):
    """A row that was taken never makes a later call fail: texts and bytes of lists have offsets of 64 bits."""
    monkeypatch.setattr(kept_types, "MAX_CHUNK_BYTES", 12)
    texts = [f"text {number:05}" for number in range(5)]
    columns = {
        "texts": pa.array(texts), "bytes": pa.array([text.encode() for text in texts]),
        "structs": pa.array([{"text": text, "number": 3} for text in texts]),
        "listed": pa.array([[text] for text in texts]),
    }  # fmt: skip
    right = pa.table({"k": [1] * 5, "t": [0] * 5, **columns})
    left = pa.table({"k": [1, 2, 1], "t": [0, 0, 0]})
    options = {"on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 0), "form": "aggregate", "at": at}
    with WindowJoin(**options, aggregates=[f"collect({name}) as {name}" for name in columns]) as join:
        join.process(left.slice(0, 0), right)
        got = join.process(left, None)
        got = join.finish() if at == "close" else got
    for name, column in columns.items():
        assert got[name].to_pylist() == [column.to_pylist(), [], column.to_pylist()]
    assert [got.schema.field(name).type.value_type for name in ("texts", "bytes")] == [
        pa.large_string(),
        pa.large_binary(),
    ]


@pytest.mark.parametrize("at", ["arrival", "close"])
def test_closing_rows_and_columns_without_values(at):
    """Left columns of any type come through; a column of type null, as of an empty file, has the other side's type."""
    names = [name for name in COLUMNS if name != "null"]
    left = pa.table({"k": [1] * 4, "t": [0] * 4, **{name: COLUMNS[name] for name in names}, "v": pa.nulls(4)})
    right = pa.table({"k": [1], "t": [0], "v": [7]})
    aggregates = ["count(v)", "sum(v)", "min(v) as least", "avg(v)", "collect(v) as all"]
    options = {"on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 0), "form": "aggregate", "at": at}
    with WindowJoin(**options, aggregates=aggregates, partitions=2) as join:
        got = join.process(left, right)
        if at == "close":
            got = join.finish()
            assert got.select(names).schema.equals(left.select(names).schema)
            assert repr(got.select(names).to_pylist()) == repr(left.select(names).to_pylist())
        met = [{"count(v)": 1, "sum(v)": 7, "least": 7, "avg(v)": 7.0, "all": [7]}] * 4
        none = {"count(v)": 0, "sum(v)": None, "least": None, "avg(v)": None, "all": []}
        if at == "arrival":  # left rows come first, and the right row meets values that are all NULL
            met = [none] * 5
        assert got.select(list(none)).to_pylist() == met
        assert got.schema.field("least").type == pa.int64()
    alone = [pa.table({"k": pa.array([], pa.int64()), "t": pa.array([], pa.int64()), "v": pa.nulls(0)})] * 2
    with WindowJoin(**options | {"at": "arrival"}, aggregates=aggregates) as join:
        kinds = join.process(*alone).schema.types[2:]
    assert kinds == [pa.int64(), pa.float64(), pa.null(), pa.float64(), pa.list_(pa.null())]


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
    spec = dataclasses.replace(spec, left=None, right=None, within=Within("a", "b", "-1 hour", "1 hour"))
    many = [
        Quantile("a", 0.25, within=("-1 minute", dt.timedelta(seconds=5)), prevailing=True),
        Mean("a", weight="b"),
        ArgMin("a", "b"),
        *(Last("a", filter=each) for each in filters),
        "count(1) filter (where b < 2) as n",
    ]
    spec = dataclasses.replace(spec, aggregates=many)
    assert JoinSpec.from_json(spec.to_json()) == spec
    assert [each.output for each in spec.aggregates] == [
        "percentile(a, 0.25) within (-1 minute, 5 seconds) include prevailing",
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


EXACT = decimal.Context(prec=99)
NUMBERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)] + [
    pa.decimal128(*digits) for digits in ((3, 1), (18, 0), (28, 5), (34, 0), (38, 0), (38, 38), (36, -2))
]


def extremes(kind: pa.DataType) -> list:
    """The least and greatest values of a type of numbers, those too that sums of decimals still take."""
    if pa.types.is_decimal(kind):
        digits = sorted({kind.precision, min(kind.precision, 28)})
        tops = [*(10**count - 1 for count in digits), 10 ** (digits[-1] - 1), 1, 0]
        return [decimal.Decimal(sign * top).scaleb(-kind.scale, EXACT) for top in tops for sign in (1, -1)]
    bits = kind.bit_width - (not pa.types.is_unsigned_integer(kind))
    return [(1 << bits) - 1, 0 if pa.types.is_unsigned_integer(kind) else -1 << bits, 1]


def weighed(kind: pa.DataType) -> pa.DataType:
    """A type of weights of which products with values of a type fit 127 bits."""
    return pa.int64() if getattr(kind, "precision", 0) <= 19 else pa.int8()


@settings(max_examples=60)
@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            st.lists(
                st.tuples(st.sampled_from(extremes(kind)), st.sampled_from([*extremes(weighed(kind)), 0, None])),
                min_size=1,
                max_size=5,
            ),
        )
    ),
    st.sampled_from([("arrival", 1), ("arrival", 2), ("close", 1), ("close", 2), ("pairs", 1)]),
)
def test_no_sum_of_rows_that_were_taken_is_beyond_its_type(drawn, of):
    """Values that a result might not hold are refused by their own call, which changes nothing, in its state neither:
    so no call behind it fails."""
    (kind, numbers), (at, partitions) = drawn, of
    on = Compare("k", "=", "k") if at != "pairs" else AllOf(Band("k", "k", -1, 1), Band("k", "k", -2, 0))
    exact = getattr(kind, "precision", 0) <= 36
    aggregates = [Sum("v"), Mean("v"), Sum("v", filter="w > 0", name="some")]
    aggregates += [Mean("v", weight="w")] if exact else []
    options = {
        "on": on, "within": Within("t", "t", 0, 9), "watermark": Watermark(left=0, right=0, lag=0), "form": "aggregate",
        "at": "close" if at == "close" else "arrival", "aggregates": aggregates, "partitions": partitions,
    }  # fmt: skip
    left = pa.table({"k": [1], "t": [1]})
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", kind), ("w", weighed(kind))])
    taken: list[dict] = []
    with tempfile.TemporaryDirectory() as state:
        with WindowJoin(**options, state=state, left_schema=left.schema, right_schema=schema) as join:
            if at == "close":
                join.process(left)
            for value, weight in numbers:
                row = {"k": 1, "t": 5, "v": value, "w": weight}
                right, calls = pa.table({name: [row[name]] for name in row}, schema=schema), join.last_batch
                decimals = pa.types.is_decimal(kind)
                beyond = decimals and abs(value.scaleb(kind.scale, EXACT)) >= 10**28
                if beyond or (decimals and exact and weight is not None and weight < 0):
                    with pytest.raises(
                        SumOverflowError, match=r"column '[vw]' of the right side has [^ ]+\. Nothing of"
                    ):
                        join.process(right=right)
                    assert (join.usable, join.last_batch) == (True, calls)
                else:
                    join.process(right=right)
                    taken.append(row)
        with WindowJoin(**options, state=state, left_schema=left.schema, right_schema=schema) as join:
            if at == "close":  # the row of the first call is due by the watermark alone
                later = {"k": 2, "t": 99, "v": 0, "w": None}
                got = join.process(pa.table({"k": [2], "t": [99]}), pa.Table.from_pylist([later], schema))
            else:
                got = join.process(left)
        assert got.num_rows == 1
        for aggregate in aggregates:
            found = got[aggregate.output][0].as_py()
            assert_same(aggregate, found, taken, {"w > 0": lambda row: row["w"] is not None and row["w"] > 0})


@given(st.lists(st.tuples(*[st.sampled_from([INT64.min, INT64.max, 1])] * 2), min_size=1, max_size=9))
def test_weighted_means_whose_sums_take_more_than_128_bits(rows):
    numbers, weights = zip(*rows, strict=True)
    right = pa.table({"k": [1] * len(rows), "v": pa.array(numbers, pa.int64()), "w": pa.array(weights, pa.int64())})
    got = muntin.join(pa.table({"k": [1]}), right, "k", form="aggregate", aggregates=Mean("v", weight="w"))
    total = sum(weights)
    due = float(fractions.Fraction(sum(v * w for v, w in rows), total)) if total else None
    assert got.column(1)[0].as_py() == (None if due is None else pytest.approx(due, rel=2**-40))


def test_what_is_refused():
    table = pa.table({"k": [1], "v": ["a"], "time": [1]})
    options = {"on": BAND, "left": 5, "right": 5, "form": "aggregate", "left_schema": table.schema}
    timed = {"left": None, "right": None, "within": Within("time", "time", 0, 5)}
    both = options | {"right_schema": table.schema}
    with pytest.raises(KeyTypeError, match=r"no sum of column 'v' of type string"):
        WindowJoin(**both, aggregates=Sum("v"))
    with pytest.raises(SchemaError, match="no column 'w'"):
        WindowJoin(**both, aggregates=Sum("w"))
    with pytest.raises(SchemaError, match="two columns"):
        WindowJoin(**both, aggregates=[Sum("k"), Max("k").alias("sum(k)")])
    for name in ("side", "row"):
        with pytest.raises(SchemaError, match=f"two columns '{name}'"):
            WindowJoin(**both, aggregates=Count(name=name))
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
    for window in ((0, 6), (-1, None), ("0 seconds", "1 second"), (3, 1)):
        with pytest.raises(WindowError, match=r"beyond the window|duration|above"):
            WindowJoin(**both | timed, aggregates=Last("k", within=window))
    with pytest.raises(WindowError, match="has a window in the time window of the join: give within="):
        WindowJoin(**both, aggregates="last(k) within (0, 1)")
    with pytest.raises(WindowError, match="has a window in the time window of the join: give within="):
        WindowJoin(**both, aggregates="last(k) include prevailing")
    for on in (BAND, AllOf(Compare("k", "=", "k"), Band("time", "time", 0, 9)), Compare("k", "!=", "k")):
        with pytest.raises(
            UnsupportedError, match="prevailing=True takes a condition that compares for equality alone"
        ):
            WindowJoin(**both | timed | {"on": on}, aggregates=Last("k", prevailing=True))
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
    closing = {
        "on": BAND,
        "within": Within("time", "time", 0, 5),
        "form": "aggregate",
        "aggregates": Count(),
        "at": "close",
    }
    with pytest.raises(UnsupportedError, match="could never let a left row go"):
        WindowJoin(**closing, watermark=Watermark(left=3))


def test_aggregates_of_a_join_as_text():
    left = pa.table({"k": [1, 2, 1], "t": [10, 20, 30]})
    right = pa.table({"k": [1, 1, 2, 1], "u": [3, 11, 2, 25], "v": [5.0, 2, None, 7], "w": ["a", "b", "c", "d"]})
    found = muntin.sql(
        "SELECT * FROM l JOIN r ON l.k = r.k AND r.u BETWEEN l.t - 5 AND l.t + 10", l=left, r=right, times=("t", "u"),
        form="aggregate", at="close",
        aggregates=["last(w) include prevailing", "sum(v) within (-1, 5) as s",
                    "collect(w) filter (where v > 1) as list"],
    )  # fmt: skip
    assert found.drop_columns(["k", "t"]).to_pylist() == [
        {"last(w) include prevailing": "b", "s": 2.0, "list": ["b"]},
        {"last(w) include prevailing": "c", "s": None, "list": []},
        {"last(w) include prevailing": "d", "s": None, "list": ["d"]},
    ]
