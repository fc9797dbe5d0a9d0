"""What a condition makes of its columns: composite keys, codes, tests of rows."""

import datetime as dt
import decimal
import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, Band, Compare, Where
from muntin.host.errors import CapacityError, KeyTypeError, UnsupportedError
from muntin.host.keys import value_codes
from muntin.host.keys.boundary_generator import CompositeGenerator, between
from muntin.host.keys.columns import column_of, column_type, has_column, root_column
from muntin.host.keys.condition import Condition
from muntin.host.keys.key_type import key_types
from muntin.host.keys.value_codes import ValueCodes
from muntin.host.predicates import from_dict

INT32 = [-(2**31), -(2**31) + 1, -1, 0, 1, 7, 2**31 - 2, 2**31 - 1]
BOUNDS = [None, -(2**40), -(2**32), -(2**32) + 1, -3, 0, 5, 2**31, 2**32, 2**40]


@pytest.mark.parametrize(
    "kinds", [("int32", "int32"), ("uint32", "int32"), ("int16", "uint32"), ("float32", "float32")]
)
def test_composite_bounds_stay_within_their_code(kinds):
    """Every end of the values and of a band, for codes beside each other: the same pairs as by two conditions."""
    left, right = (getattr(pa, kind)() for kind in kinds)
    values = {}
    for side, kind in (("left", left), ("right", right)):
        if pa.types.is_floating(kind):
            values[side] = [float("-inf"), -3.4e38, -0.5, 0.0, 1e-45, 2.5, 3.4e38, float("inf")]
        else:
            bits = np.iinfo(kind.to_pandas_dtype())
            shift = 2**31 if kind == pa.uint32() else 0
            values[side] = [v + shift for v in INT32 if bits.min <= v + shift <= bits.max]
    codes = [0, 1, 2, value_codes.MAX_CODES - 2, value_codes.MAX_CODES - 1]
    types = dict(zip(("left", "right"), key_types(left, "l", right, "r"), strict=True))
    for low, high in itertools.product(BOUNDS, BOUNDS):
        if low is not None and high is not None and low > high:
            continue
        predicate = AnyOf(Band("l", "r", low, high), Band("l", "r", 9, 9))
        generator = CompositeGenerator(predicate, types["left"], types["right"])
        keys, rows, both = {}, {}, {}
        for side, kind in types.items():
            encoded, _ = kind.encode(pa.chunked_array([pa.array(values[side], kind.arrow)]))
            rows[side] = at = np.array(list(itertools.product(codes, range(len(encoded)))))
            both[side] = encoded
            keys[side] = generator.keys(at[:, 0], encoded[at[:, 1]])
            assert (np.diff(keys[side]) > 0).all()
        alone = np.stack(
            [generator.values.matches(np.full_like(both["right"], v), both["right"]) for v in both["left"]]
        )
        for side, other in (("left", "right"), ("right", "left")):
            met = np.zeros((len(keys[side]), len(keys[other])), int)
            for bound in generator.bounds(side, keys[side]):
                probes = np.arange(len(keys[side])) if bound.probes is None else bound.probes
                assert (np.diff(bound.lower) >= 0).all()
                assert (np.diff(bound.upper) >= 0).all()
                assert (bound.lower <= bound.upper).all()
                met[probes] += (bound.lower[:, None] <= keys[other]) & (keys[other] <= bound.upper[:, None])
            (code, i), (second, j) = rows[side].T, rows[other].T
            found = alone[np.ix_(i, j)] if side == "left" else alone[np.ix_(j, i)].T
            assert (met == (found & (code[:, None] == second[None, :]))).all(), (side, low, high)


@given(
    st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2), min_size=1),
    st.none() | st.integers(-(2**65), 2**65),
    st.none() | st.integers(-(2**65), 2**65),
)
def test_between_is_exact(pairs, low, high):
    left, right = np.array(pairs, np.int64).T
    due = [(low is None or low <= b - a) and (high is None or b - a <= high) for a, b in pairs]
    assert between(left, right, low, high).tolist() == due


def codes_of(codes: ValueCodes, side: str, first: int, *columns: pa.Array) -> list[int | None]:
    chunked = [pa.chunked_array([column]) for column in columns]
    found, valid = codes.encode(side, chunked, np.arange(first, first + len(columns[0])))
    return [
        int(code) if known else None
        for code, known in zip(found, [True] * len(found) if valid is None else valid, strict=True)
    ]


SPAN = pa.struct({"a": pa.int32(), "b": pa.string()})


@pytest.mark.parametrize(
    ("left", "right", "null_safe", "same"),
    [
        (pa.array(["x", None, "y"]), pa.array(["y", "x", None], pa.large_string()), False, {(0, 1), (2, 0)}),
        (pa.array(["x", None, "y"]), pa.array(["y", "x", None], pa.string_view()), True, {(0, 1), (2, 0), (1, 2)}),
        (pa.array(["x", "y", None]).dictionary_encode(), pa.array(["y", None]), True, {(1, 0), (2, 1)}),
        (pa.array([b"ab", b"b"]), pa.array([b"ab", b"cd"], pa.binary(2)), False, {(0, 0)}),
        (pa.array([True, None]), pa.array([False, True, None]), True, {(0, 1), (1, 2)}),
        (pa.array([1, None, -1], pa.int64()), pa.array([2**64 - 1, 1], pa.uint64()), False, {(0, 1)}),
        (pa.array([1, 2], pa.timestamp("s")), pa.array([2000, 1], pa.timestamp("ms")), True, {(1, 0)}),
        (
            pa.array([0.0, float("nan"), None, 1.5], pa.float32()), pa.array([-0.0, float("nan"), 1.5, None]), True,
            {(0, 0), (3, 2), (2, 3)},
        ),
        (
            pa.array([decimal.Decimal("1.50"), None], pa.decimal128(5, 2)),
            pa.array([decimal.Decimal("1.5")], pa.decimal128(9, 1)), False, {(0, 0)},
        ),
        (
            pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 1, "b": None}], SPAN),
            pa.array([{"a": 1, "b": None}, {"a": None, "b": None}, None, {"a": 1, "b": "x"}], SPAN), True,
            {(0, 3), (1, 2), (2, 1), (3, 0)},
        ),
        (
            pa.array([{"a": 1, "b": "x"}, None, {"a": 1, "b": None}], SPAN),
            pa.array([{"a": 1, "b": None}, None, {"a": 1, "b": "x"}], SPAN), False, {(0, 2)},
        ),
    ],
)  # fmt: skip
def test_equal_values_have_equal_codes(left, right, null_safe, same):
    codes = ValueCodes([(left.type, "l", right.type, "r", null_safe)])
    one, other = codes_of(codes, "left", 0, left), codes_of(codes, "right", 0, right)
    pairs = itertools.product(range(len(one)), range(len(other)))
    assert {(i, j) for i, j in pairs if one[i] is not None and one[i] == other[j]} == same


def test_no_rows_and_nulls_alone_have_codes():
    for kind in (pa.string(), pa.int64(), SPAN):
        for null_safe in (False, True):
            codes = ValueCodes([(kind, "l", kind, "r", null_safe)])
            assert codes_of(codes, "left", 0, pa.array([], kind)) == []
            assert codes_of(codes, "left", 0, pa.nulls(2, kind)) == ([0, 0] if null_safe else [None, None])


def test_codes_are_given_back_and_never_too_early():
    """A code changes its value only when no row of either window has it."""
    codes = ValueCodes([(pa.string(), "l", pa.string(), "r", False)])
    rng = np.random.default_rng(0)
    held = {"left": [], "right": []}  # (row, text, code)
    for call in range(60):
        for side in held:
            first = 500 * call
            texts = [f"{call // 3}-{n}" for n in rng.integers(0, 900, 500)]
            found = codes_of(codes, side, first, pa.array(texts))
            held[side] += zip(range(first, first + 500), texts, found, strict=True)
        oldest = {"left": 500 * (call + 1) - 1700, "right": 500 * (call + 1) - 200}
        codes.forget(oldest)
        held = {side: [row for row in rows if row[0] >= oldest[side]] for side, rows in held.items()}
        by_code = {}
        for _, text, code in itertools.chain(*held.values()):
            assert by_code.setdefault(code, text) == text
        assert len(set(by_code.values())) == len(by_code)
    assert len(codes._values) < 6000


def test_too_many_different_values(monkeypatch):
    monkeypatch.setattr(value_codes, "MAX_CODES", 3)
    codes = ValueCodes([(pa.int64(), "l", pa.int64(), "r", True)])
    codes_of(codes, "left", 0, pa.array([1, 2, 1, 3]))
    with pytest.raises(CapacityError, match="different values"):
        codes_of(codes, "right", 0, pa.array([3, 4]))


MOMENT = dt.datetime(2020, 2, 3, 4, 5, 6)
WHERES = [
    (
        pa.array([1, 2, None, 3]),
        2,
        {"=": [1], "<": [0], "<=": [0, 1], ">": [3], ">=": [1, 3], "!=": [0, 3], "<=>": [1]},
    ),
    (pa.array([1, 2, None, 3]), 2.5, {"=": [], "<": [0, 1], ">": [3], "!=": [0, 1, 3], ">=": [3]}),
    (pa.array([-128, 127], pa.int8()), 10**30, {"<": [0, 1], ">=": [], "!=": [0, 1], "=": []}),
    (pa.array([-128, 127], pa.int8()), float("-inf"), {"<": [], ">=": [0, 1], "=": []}),
    (pa.array([0, 2**64 - 1], pa.uint64()), 2**64 - 1, {"=": [1], "<": [0], ">=": [1]}),
    (pa.array([0.1, float("nan"), None, -0.0]), 0.0, {"=": [3], ">": [0], "!=": [0], "<=": [3]}),
    (pa.array([0.1], pa.float32()), 0.1, {"=": [], ">": [0]}),
    (pa.array([decimal.Decimal("0.10")]), decimal.Decimal("0.1"), {"=": [0], "<": []}),
    (pa.array(["a", "ab", None, "b"]), "ab", {"=": [1], "<": [0], ">": [3], "!=": [0, 3]}),
    (pa.array(["a", "b"]).dictionary_encode(), "b", {"=": [1], "<": [0]}),
    (pa.array([b"a", None]), b"a", {"=": [0], "!=": []}),
    (pa.array([True, False, None]), True, {"=": [0], "!=": [1], "<": [1]}),
    (pa.array([MOMENT, None]), MOMENT, {"=": [0], "<": []}),
    (pa.array([MOMENT], pa.timestamp("s")), "2020-02-03T04:05:06.000000001", {"=": [], "<": [0]}),
    (pa.array([MOMENT], pa.timestamp("us", "UTC")), MOMENT.replace(tzinfo=dt.UTC), {"=": [0], ">": []}),
    (pa.array([MOMENT.date()]), MOMENT.date(), {"=": [0]}),
    (pa.array([MOMENT.date()]), MOMENT, {"=": [], "<": [0]}),
    (pa.array([MOMENT]), MOMENT.date(), {"=": [], ">": [0]}),
    (pa.array([MOMENT.date()], pa.date64()), "2020-02-04", {"<": [0]}),
    (pa.array([MOMENT.time()]), dt.time(4, 5, 6), {"=": [0], "<": []}),
    (pa.array([dt.timedelta(minutes=2)]), "1 minute", {">": [0], "=": []}),
    (pa.array([1, None]), None, {"<=>": [1], "is distinct from": [0]}),
    (pa.array([1.0, None, math.nan]), None, {"<=>": [1], "is distinct from": [0, 2]}),
    (pa.array([1.0, None, math.nan, 2.0]), 1, {"is distinct from": [1, 2, 3]}),
    (pa.array(["x", None, "y"]), "x", {"is distinct from": [1, 2]}),
    (pa.array([b"x", None]), b"x", {"is distinct from": [1], "=": [0]}),
]


@pytest.mark.parametrize(
    "on",
    [
        Band("a", "b", -1, 2),
        Band("a", "b", None, 2, sum=True),
        AnyOf(Band("a", "b", 1, 2, sum=True), Band("a", "b", 5, None, sum=True)),
        Compare("a", "is distinct from", "b"),
    ],
)
def test_conditions_as_json(on):
    assert from_dict(json.loads(json.dumps(on.to_dict()))) == on


def test_sums_that_are_refused():
    with pytest.raises(UnsupportedError, match="several pairs of columns"):
        AnyOf(Band("a", "b", 1, 2), Band("a", "b", 1, 2, sum=True))
    for kind, why in {pa.float32(): "rounded", pa.date32(): "a date has no sum", pa.time64("us"): "has no sum"}.items():
        schema = pa.schema({"a": kind})
        with pytest.raises(KeyTypeError, match=why):
            Condition(Band("a", "a", 0, 0, sum=True), schema, schema)


@pytest.mark.parametrize(("column", "value", "due"), WHERES, ids=lambda v: str(v)[:30].replace("\n", ""))
def test_rows_that_pass_a_test(column, value, due):
    table = pa.table({"k": pa.nulls(len(column), pa.int64()).fill_null(1), "c": column})
    for op, rows in due.items():
        where = Where("left", "c", op, value)
        assert from_dict(where.to_dict()) == where
        condition = Condition(AllOf(Band("k", "k", 0, 0), where), table.schema, table.schema)
        _, valid, _ = condition.encode("left", table, np.arange(len(column)))
        assert np.flatnonzero(valid).tolist() == rows, op
        assert condition.encode("right", table, np.arange(len(column)))[1] is None


def test_paths_into_structs():
    inner = pa.struct({"c.d": pa.int8()})
    table = pa.table(
        {
            "a.b": pa.array([1, 2]),
            "a": pa.array([{"b": "no", "c": {"c.d": 5}}, None], pa.struct({"b": pa.string(), "c": inner})),
        }
    )
    assert column_of(table, "a.b").to_pylist() == [1, 2]  # a column of that name goes first
    assert column_of(table, "a.c").to_pylist() == [{"c.d": 5}, None]
    assert column_type(table.schema, "a.c") == inner
    assert root_column(table.schema, "a.c") == "a"
    assert not any(has_column(table.schema, path) for path in ("a.x", "b", "a.c.c", "a.b.c"))
