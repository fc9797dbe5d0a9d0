"""Errors of values say which rows have them: without those the same call is taken."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, AsOf, Band, Compare, Rows, Sum, Where, WindowJoin, Within
from muntin.errors import KeyTypeError, MuntinError, OrderError, SchemaError, SumOverflowError

WIDE = Decimal(10) ** 25
DECIMAL = pa.decimal128(30, 2)
COUNTED: dict[str, Any] = {"left": Rows(99), "right": Rows(99)}
FAR = dt.datetime(9000, 1, 1)
NEAR = dt.datetime(2026, 1, 1)


def decimals(name: str, *values: Decimal | None) -> pa.Table:
    return pa.table({name: pa.array(values, DECIMAL), "n": np.arange(len(values))})


def numbers(name: str, *values: int | None, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({name: pa.array(values, kind or pa.int64()), "n": np.arange(len(values))})


ONES = (Decimal(1), WIDE, None, Decimal(2), -WIDE)
STRICT = pa.schema([pa.field("b", pa.int64(), False), ("n", pa.int64())])
#: What a join is of, its rows, its error and where the rows at fault are.
CASES: dict[str, tuple[dict[str, Any], pa.Table, pa.Table, type[MuntinError], str, str, tuple[int, ...]]] = {
    "a key": (
        {**COUNTED, "on": Compare("a", "<=", "b")}, decimals("a", *ONES), decimals("b", *ONES[2:4]), KeyTypeError,
        "column 'a' of the left side", "left", (1, 4),
    ),
    "an equality": (
        {**COUNTED, "on": AllOf(Compare("n", "=", "n"), Compare("a", "=", "b"))}, decimals("a", *ONES[2:4]),
        decimals("b", *ONES), KeyTypeError, "column 'b' of the right side", "right", (1, 4),
    ),
    "a test of rows": (
        {**COUNTED, "on": AllOf(Compare("n", "=", "n"), Where("right", "b", ">", 0))}, decimals("a", *ONES),
        decimals("b", *ONES), KeyTypeError, "column 'b' of the right side", "right", (1, 4),
    ),
    "an as-of join": (
        {"on": AsOf("n", "n", by=[("a", "b")])}, decimals("a", *ONES), decimals("b", *ONES[2:4]), KeyTypeError,
        "column 'a' of the left side", "left", (1, 4),
    ),
    "a time": (
        {"on": Compare("n", "=", "n"), "within": Within("t", "u", "0 s", "1 s")},
        pa.table({"t": pa.array([NEAR, FAR, None, FAR], pa.timestamp("s")), "n": [0, 1, 2, 3]}),
        pa.table({"u": pa.array([NEAR], pa.timestamp("ns")), "n": [0]}), KeyTypeError,
        "column 't' of the left side does not fit 64 bits", "left", (1, 3),
    ),
    "no sequence": (
        {**COUNTED, "on": Band("n", "n", 0, 0), "sequence": "s"}, numbers("s", 1, None, 3, None), numbers("s", 1),
        OrderError, "row 1 of the left batch has no value", "left", (1, 3),
    ),
    "a sequence that goes back": (
        {**COUNTED, "on": Band("n", "n", 0, 0), "sequence": "s"}, numbers("s", 3), numbers("s", 9, -7, 4, -8),
        OrderError, "sequence value -8 in column 's' of the right side", "right", (1, 3),
    ),
    "a sequence beyond its unit": (
        {**COUNTED, "on": Band("n", "n", 0, 0), "sequence": "s"},
        pa.table({"s": pa.array([NEAR, FAR], pa.timestamp("s")), "n": [0, 1]}),
        pa.table({"s": pa.array([NEAR], pa.timestamp("ns")), "n": [0]}), OrderError, "does not fit the unit",
        "left", (1,),
    ),
    "rows that a sequence puts in order": (
        {**COUNTED, "on": Compare("a", "<=", "b"), "sequence": "n"},
        decimals("a", *ONES).take([4, 3, 1, 0, 2]), decimals("b", *ONES[2:4]), KeyTypeError,
        f"column 'a' of the left side: .* does not fit 64 bits, {WIDE}.00: ", "left", (0, 2),
    ),
    "a NULL that may not be": (
        {**COUNTED, "on": Compare("n", "=", "n"), "right_schema": STRICT}, numbers("a", 1),
        numbers("b", 1, None, 2, None), SchemaError, "column 'b' of the right batch has NULL", "right", (1, 3),
    ),
    "a self join": (
        {"left": Rows(9), "right": Rows(9), "on": Compare("n", "<=", "a"), "self_join": True},
        decimals("a", *ONES), numbers("x"), KeyTypeError, "column 'a' of the right side", "left", (1, 4),
    ),
    "a sum": (
        {**COUNTED, "on": Compare("n", "<=", "n"), "form": "aggregate", "aggregates": Sum("a")},
        numbers("x", 1, 2),
        pa.table({"a": pa.array([1, 10**35, None, -(10**35)], pa.decimal128(38, 2)), "n": range(4)}),
        SumOverflowError, "may not fit|has", "right", (1, 3),
    ),
    "a sum of rows that a sequence puts in order": (
        {**COUNTED, "on": Compare("n", "<=", "n"), "form": "aggregate", "aggregates": Sum("a"), "sequence": "s"},
        numbers("s", 1, 2),
        pa.table(
            {"a": pa.array([10**35, 1, -(10**35)], pa.decimal128(38, 2)), "n": [None, 4, 5], "s": [9, 5, 7]},
            schema=pa.schema([("a", pa.decimal128(38, 2)), ("n", pa.int64()), ("s", pa.int64())]),
        ),
        SumOverflowError, "may not fit|has", "right", (2,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_names_its_rows_and_the_others_are_taken(case: str) -> None:
    options, left, right, error, said, side, rows = CASES[case]
    own = {"left_schema": left.schema, "right_schema": right.schema, **options}
    if own.get("self_join"):
        own["right_schema"] = None
    with WindowJoin(**own) as join:
        given = {"left": left, "right": None if own.get("self_join") else right}
        if case == "a sequence that goes back":
            join.process(left, None)
        for _ in range(2):  # nothing has changed
            with pytest.raises(error, match=said) as caught:
                join.process(**given)
            assert (caught.value.side, caught.value.rows) == (side, rows)
            assert f"column '{caught.value.field}'" in str(caught.value)
            assert join.last_batch == (0 if case == "a sequence that goes back" else -1)
        given[side] = given[side].filter(pa.array(~np.isin(np.arange(len(given[side])), rows)))
        join.process(**given)


def test_errors_that_are_of_no_rows_name_none() -> None:
    with WindowJoin(on=Compare("n", "=", "n"), **COUNTED) as join:
        join.process(numbers("a", 1), numbers("b", 1))
        with pytest.raises(SchemaError) as caught:
            join.process(numbers("c", 1))
    assert (caught.value.side, caught.value.rows) == (None, ())
