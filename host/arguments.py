"""Reads conditions, windows and lists of names as they are written on a command line."""

from __future__ import annotations

import csv
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from muntin.host.errors import PredicateError, SchemaError, SqlError, WindowError
from muntin.host.predicates import AllOf, AsOf, one_sided
from muntin.host.windows import Within


def condition(
    texts: tuple[str, ...], wheres: tuple[str, ...], left: pa.Schema, right: pa.Schema, *, windowed: bool = False
) -> tuple[Any, Within | None]:
    """The join condition from all texts of a command line, and the time window that it bounds.

    Parameters
    ----------
    texts : tuple of str
        Conditions in SQL, which must all hold; or names that both sides have, which are equal.
    wheres : tuple of str
        Conditions in SQL about one side alone.
    left, right : pyarrow.Schema
    windowed : bool
        Another window is given: bounds on times are conditions like others.

    Returns
    -------
    condition, window
        As of `JoinSpec`. The window is the first pair of timestamps, one of each side, whose difference the texts bound
        at both ends; None where there is none.

    Raises
    ------
    PredicateError, SqlError
        A text that is none of these.
    """
    tests = _tests(wheres, left, right)
    named = [text for text in texts if is_name(text, left, right)]
    if named:
        if len(named) < len(texts) or tests:
            example = f"left.{named[0]} = right.{named[0]}"
            raise PredicateError(f"--on {named[0]} is a name, and stands beside conditions: write {example!r} for it")
        return named, None
    from muntin.host.sql import parse_windowed

    parts = [_parsed("--on", text, left, right) for text in texts]
    on = parts[0] if len(parts) + len(tests) == 1 else AllOf(*parts, *tests)
    if windowed:
        return on, None
    # Together: one text may bound one end of the window, and another one the other.
    on, within = parse_windowed(" AND ".join(f"({text}\n)" for text in texts), left, right)
    return AllOf(on, *tests) if tests else on, within


def is_name(text: str, left: pa.Schema, right: pa.Schema) -> bool:
    """Whether a text is the name of a column that both sides have. Raises SchemaError where one alone has it."""
    there = [schema for schema in (left, right) if text in schema.names]
    if len(there) == 1 and not pa.types.is_boolean(there[0].field(text).type):  # of truth values it is a condition
        side, schema = ("left", left) if there[0] is right else ("right", right)
        raise SchemaError(f"the {side} side has no column {text!r}, of on=: it has {', '.join(schema.names)}")
    return len(there) == 2


def _tests(wheres: tuple[str, ...], left: pa.Schema, right: pa.Schema) -> list[Any]:
    """The parts about one side alone. Raises PredicateError."""
    found: list[Any] = []
    for text in wheres:
        parts = AllOf(_parsed("--where", text, left, right)).parts
        if not all(map(one_sided, parts)):
            raise PredicateError(
                f"--where takes parts about one side alone, and {text!r} compares both: give it by --on"
            )
        found += parts
    return found


def _parsed(option: str, text: str, left: pa.Schema, right: pa.Schema) -> Any:
    """A condition in SQL; errors name the option, and the place in its text."""
    from muntin.host.sql import parse_condition

    try:
        return parse_condition(text, left, right)
    except SqlError as error:
        raise SqlError(f"{option} {text!r}, {error}", error.line, error.column) from error


def _distance(text: str) -> Any:
    """A number, exactly, or a duration as text."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return int(number) if re.fullmatch(r"[+-]?\d+", text) else number


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
    distance = None if tolerance is None else _distance(tolerance)
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
    low, high = (_distance(part) if part else None for part in parts[2:])
    return Within(parts[0], parts[1], low, high)


def names(text: str | None) -> list[str] | None:
    """The names in a text such as "id,price_right"; None from None."""
    return None if text is None else [name for name in _parts(text) if name]


def _parts(text: str) -> list[str]:
    """The fields between commas; a column name with a comma goes in double quotes."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
