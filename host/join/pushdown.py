"""What of a join's condition can be tested, and which columns are needed, before rows reach the join."""

from __future__ import annotations

import functools
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from muntin.host.keys.constants import moment
from muntin.host.keys.key_type import NANOS_PER_DAY, Family
from muntin.host.predicates import AnyOf, Where
from muntin.host.sides import Side
from muntin.host.spec import JoinSpec

_OPERATORS = {
    "=": operator.eq, "<=>": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def tested_early(spec: JoinSpec, side: Side, schema: pa.Schema) -> tuple[list[Where | AnyOf], Any]:
    """The parts about one side that rows can be tested by before they reach the join, and Arrow's expression of them.

    Only where a row that fails them changes nothing: one that is counted, numbered, reported as unmatched, moves a
    watermark, stands in a count window, or has the other role of a self join too, has to reach it; and Arrow can
    filter columns of such types. The join tests them again, so an expression may let too many rows pass.

    Returns
    -------
    parts, expression
        None where there are no parts.
    """
    counted = spec.left is not None or spec.right is not None or spec.sequence is not None
    if spec.form != "rows" or counted or spec.watermark is not None or spec.self_join or side in spec.unmatched:
        return [], None
    found = [(part, _expression(part, side, schema)) for part in spec.on.conjuncts]
    tested = [(part, each) for part, each in found if each is not None]
    if not tested:
        return [], None
    expression: Any = functools.reduce(operator.and_, (each for _, each in tested))
    if not _applies(expression, schema):
        return [], None
    return [part for part, _ in tested], expression  # type: ignore[misc]


def _applies(expression: Any, schema: pa.Schema) -> bool:
    """Whether Arrow can filter rows of these types by it: it has no kernels for some, such as views."""
    some = pa.table([pa.nulls(2, kind) for kind in schema.types], schema=schema.remove_metadata())
    try:
        pyarrow.dataset.dataset(some).to_table(filter=expression)
    except pa.ArrowNotImplementedError:
        return False
    return True


def needed(spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> dict[str, list[str]]:
    """The columns of each side that have to be read: those that the join needs, and those whose being there decides the
    name of a column of the result, or the side of one that is aggregated."""
    kept = {side: set(spec.kept_columns(side, left, right)) for side in ("left", "right")}
    if not spec.left_alone:
        kept["left"] |= kept["right"] & set(left.names)
    if spec.aggregates:
        kept["right"] |= kept["left"] & set(right.names)
    schemas = {"left": left, "right": right}
    return {side: [name for name in schema.names if name in kept[side]] for side, schema in schemas.items()}


def _expression(part: Any, side: Side, schema: pa.Schema) -> Any:
    """Arrow's expression of a part; None where Arrow has none that is sure to let all rows pass that satisfy it."""
    if isinstance(part, AnyOf) and part.parts:
        found = [_expression(each, side, schema) for each in part.parts]
        return None if any(each is None for each in found) else functools.reduce(operator.or_, found)
    if not isinstance(part, Where) or part.side != side or part.column not in schema.names:
        return None
    kind = schema.field(part.column).type
    if isinstance(kind, pa.BaseExtensionType):  # Parquet's least and greatest values cannot be compared as such
        return None
    column = pyarrow.dataset.field(part.column)
    if part.value is None:
        return column.is_null() if part.op == "<=>" else column.is_valid()
    constant = _constant(part.value, kind)
    if constant is None or part.op not in _OPERATORS:
        return None
    return _OPERATORS[part.op](column, constant)


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _time(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    when = moment(value)
    families: tuple[Family, ...]
    if pa.types.is_date32(kind):
        families, unit = (Family.DATE,), NANOS_PER_DAY
    elif pa.types.is_timestamp(kind):
        families = (Family.TIMESTAMP_TZ,) if kind.tz is not None else (Family.TIMESTAMP, Family.DATE)
        unit = _NANOSECONDS[kind.unit]
    else:
        return None
    if when is None or when.family not in families or (when.nanoseconds / unit).denominator != 1:
        return None
    return pa.scalar(int(when.nanoseconds / unit), pa.int32() if unit == NANOS_PER_DAY else pa.int64()).cast(kind)


def _constant(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """The same value in a column's type; None where it has none."""
    types = pa.types
    try:
        if types.is_boolean(kind):
            return pa.scalar(value, kind) if isinstance(value, bool) else None
        if types.is_string(kind) or types.is_large_string(kind):
            return pa.scalar(value, kind) if isinstance(value, str) else None
        if types.is_timestamp(kind) or types.is_date(kind):
            return _time(value, kind)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        if types.is_integer(kind):
            return pa.scalar(int(value), kind) if int(value) == value else None
        if types.is_floating(kind):
            made = pa.scalar(float(value), pa.float64()).cast(kind)
            return made if made.as_py() == value else None
        if types.is_decimal(kind):
            made = pa.scalar(Decimal(value), kind)
            return made if made.as_py() == value else None
    except (pa.ArrowException, OverflowError, ValueError, ArithmeticError):
        return None
    return None
