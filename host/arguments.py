"""Reads conditions and windows as they are written on a command line."""

from __future__ import annotations

import csv
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from muntin.host.columns import column_type, has_column
from muntin.host.constants import exact_float
from muntin.host.errors import PredicateError, WindowError
from muntin.host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Predicate, Where, one_sided
from muntin.host.windows import Within

COMPARE = re.compile(r"\s*(?P<left>[^<>=!]+?)\s*(?P<op><=>|<=|>=|==|!=|<>|=|<|>)\s*(?P<right>[^<>=!]+?)\s*")


WHERE = re.compile(
    r"\s*(?P<side>left|right)\.(?P<column>[^<>=!]+?)\s*(?P<op><=>|<=|>=|==|!=|<>|=|<|>)\s*(?P<value>.+?)\s*"
)


def condition(
    conditions: tuple[str, ...],
    wheres: tuple[str, ...],
    left: pa.Schema,
    right: pa.Schema,
    *,
    all_of: bool,
    windowed: bool = False,
) -> tuple[Predicate | AllOf | Where, Within | None]:
    """The join condition from all texts of a command line, and the time window that it bounds.

    Parameters
    ----------
    conditions : tuple of str
        Such as "limit,price,-5,5" (a band), "limit < price" (left and right column) or a condition in SQL.
    wheres : tuple of str
        Such as "left.price > 10" or "right.name = 'x'"; a constant is of its column's type, NULL is NULL.
    left, right : pyarrow.Schema
    all_of : bool
        All `conditions` must hold, rather than one of them.
    windowed : bool
        Another window is given: bounds on times are conditions like others.

    Returns
    -------
    condition, window
        The window is the first pair of timestamps, one of each side, whose difference the texts bound at both ends;
        None where there is none.

    Raises
    ------
    PredicateError, SqlError
        A text that is none of these.
    """
    found = [_condition(text, left, right) for text in conditions]
    predicates = [predicate for predicate, _ in found]
    within = None
    if all_of or len(predicates) == 1:
        pairs = predicates
        at = next((at for at, (_, window) in enumerate(found) if window is not None), None)
        if at is not None and not windowed:
            within = found[at][1]
            others = pairs[:at] + pairs[at + 1 :]
            if _is_just(pairs[at], within) and any(not one_sided(each) for each in others):
                pairs = others
    else:  # TRUE or another is TRUE
        pairs = [AllOf() if AllOf() in predicates else AnyOf(*predicates)]  # type: ignore[arg-type]
    tests = _tests(wheres, left, right)
    return pairs[0] if len(pairs) + len(tests) == 1 else AllOf(*pairs, *tests), within


def _is_just(predicate: Any, within: Within | None) -> bool:
    """Whether a condition says what a time window says, and no more."""
    return (
        within is not None
        and isinstance(predicate, (Band, Compare))
        and (predicate.left, predicate.right) == (within.left_time, within.right_time)
    )


def _tests(wheres: tuple[str, ...], left: pa.Schema, right: pa.Schema) -> list[Where]:
    return [_where(text, {"left": left, "right": right}) for text in wheres]


def _where(text: str, schemas: dict[str, pa.Schema]) -> Where:
    parts = WHERE.fullmatch(text)
    if parts is None:
        raise PredicateError(f'--where must be like "left.price > 10", not {text!r}')
    schema, column, value = schemas[parts["side"]], parts["column"], parts["value"]
    kind = column_type(schema, column) if has_column(schema, column) else pa.string()
    constant: Any = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
    if value.upper() == "NULL":
        constant = None
    elif pa.types.is_boolean(kind) and value.lower() in ("true", "false"):
        constant = value.lower() == "true"
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        constant = _bound(value, kind)
    return Where(parts["side"], column, parts["op"], constant)


def _condition(text: str, left: pa.Schema, right: pa.Schema) -> tuple[Predicate | AllOf | Where, Within | None]:
    """The condition of a text such as "limit,price,-5,5", "limit < price" or one in SQL; and its time window."""
    parts = _parts(text)
    if len(parts) == 4:
        column = left.field(parts[0]).type if parts[0] in left.names else None
        band = Band(parts[0], parts[1], _bound(parts[2], column), _bound(parts[3], column))
        return band, _window(band.left, band.right, band.low, band.high, left, right)
    compare = COMPARE.fullmatch(text)
    if len(parts) == 1 and compare and has_column(left, compare["left"]) and has_column(right, compare["right"]):
        made = Compare(compare["left"], compare["op"], compare["right"])
        return made, _window(made.left, made.right, 0, 0, left, right) if made.op == "=" else None
    if len(parts) > 1 and "(" not in text:
        raise PredicateError(f'--on must be like "limit,price,-5,5" (a band), "limit < price" or SQL, not {text!r}')
    from muntin.host.sql import parse_windowed

    return parse_windowed(text, left, right)


def _window(l_time: str, r_time: str, low: Any, high: Any, left: pa.Schema, right: pa.Schema) -> Within | None:
    """The time window of a band, where it is one of timestamps with two ends."""
    sides = ((left, l_time), (right, r_time))
    if low is None or high is None or not all(has_column(*side) for side in sides):
        return None
    return Within(l_time, r_time, low, high) if all(pa.types.is_timestamp(column_type(*s)) for s in sides) else None


def _bound(text: str, column: pa.DataType | None) -> Any:
    """A bound in the kind of number that fits the key: None for open, a duration as text."""
    if not text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if column is not None and pa.types.is_decimal(column):
        return number
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if not number.is_finite():
        return float(text)
    near = exact_float(number)
    return number if near is None else near


def as_of(
    times: str, left: pa.Schema, right: pa.Schema, *, direction: str, tolerance: str | None, by: tuple[str, ...],
    exact: bool, wheres: tuple[str, ...] = (),
) -> AsOf:  # fmt: skip
    """The as-of condition from the texts of a command line.

    Parameters
    ----------
    times : str
        Such as "bid_time,ask_time": the time column of each side.
    left, right : pyarrow.Schema
    direction : str
        As of `AsOf`.
    tolerance : str or None
        A duration, or for numbers a number.
    by : tuple of str
        Such as "venue", or "venue,market" where the right side has another name for it.
    exact : bool
        As of `AsOf`.
    wheres : tuple of str
        As of `condition`.

    Raises
    ------
    PredicateError
        A text that is none of these.
    """
    parts = _parts(times)
    if len(parts) != 2:
        raise PredicateError(f'--as-of must be like "bid_time,ask_time", not {times!r}')
    pairs = [tuple(_parts(text)) for text in by]
    for pair, text in zip(pairs, by, strict=True):
        if len(pair) not in (1, 2):
            raise PredicateError(f'--by must be like "venue" or "venue,market" (left and right column), not {text!r}')
    kind = column_type(left, parts[0]) if has_column(left, parts[0]) else None
    distance = None if tolerance is None else _bound(tolerance, kind)
    columns = [pair[0] if len(pair) == 1 else pair for pair in pairs]
    return AsOf(parts[0], parts[1], direction, distance, columns, exact, _tests(wheres, left, right))


def within(text: str | None) -> Within | None:
    """The time window from a text such as "l_time,r_time,-10 minutes,0"; None from None.

    Raises
    ------
    WindowError
        Another text.
    """
    if text is None:
        return None
    parts = _parts(text)
    if len(parts) != 4:
        raise WindowError(f'--within must be like "l_time,r_time,-10 minutes,0", not {text!r}')
    low, high = (int(part) if re.fullmatch(r"[+-]?\d+", part) else part or None for part in parts[2:])
    return Within(parts[0], parts[1], low, high)


def names(text: str | None) -> list[str] | None:
    """The names in a text such as "id,price_right"; None from None."""
    return None if text is None else [name for name in _parts(text) if name]


def _parts(text: str) -> list[str]:
    """The fields between commas; a column name with a comma goes in double quotes."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
