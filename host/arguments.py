"""Reads conditions and windows as they are written on a command line."""

from __future__ import annotations

import csv
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from host.errors import PredicateError, WindowError
from host.predicates import AnyOf, Band, Compare
from host.windows import Within

COMPARE = re.compile(r"\s*(?P<left>[^<>=!]+?)\s*(?P<op><=|>=|==|!=|<>|=|<|>)\s*(?P<right>[^<>=!]+?)\s*")


def predicate(conditions: tuple[str, ...], left: pa.Schema) -> Band | Compare | AnyOf:
    """The join condition from texts such as "limit,price,-5,5" or "limit < price"; several mean or.

    Parameters
    ----------
    conditions : tuple of str
        At least one.
    left : pyarrow.Schema
        Of the left side, whose key's type decides what kind of number a bound is.

    Raises
    ------
    PredicateError
        A text that is neither.
    """
    predicates = [_condition(text, left) for text in conditions]
    return predicates[0] if len(predicates) == 1 else AnyOf(*predicates)


def _condition(text: str, left: pa.Schema) -> Band | Compare:
    parts = _parts(text)
    if len(parts) == 4:
        column = left.field(parts[0]).type if parts[0] in left.names else None
        return Band(parts[0], parts[1], _bound(parts[2], column), _bound(parts[3], column))
    compare = COMPARE.fullmatch(text)
    if len(parts) == 1 and compare:
        return Compare(compare["left"], compare["op"], compare["right"])
    raise PredicateError(f'--on must be like "limit,price,-5,5" (a band) or "limit < price", not {text!r}')


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
    return float(text)


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
    if len(parts) != 4 or not parts[2] or not parts[3]:
        raise WindowError(f'--within must be like "l_time,r_time,-10 minutes,0", not {text!r}')
    low, high = (int(part) if re.fullmatch(r"[+-]?\d+", part) else part for part in parts[2:])
    return Within(parts[0], parts[1], low, high)


def _parts(text: str) -> list[str]:
    """The fields between commas; a column name with a comma goes in double quotes."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
