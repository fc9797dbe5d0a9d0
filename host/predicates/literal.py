"""Bounds of a predicate as JSON values, and back."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

from muntin.host.errors import PredicateError
from muntin.host.keys.constants import exact_float
from muntin.host.keys.durations import length, nanoseconds


def check_bound(name: str, value: object) -> object:
    """The bound itself as `muntin.host.keys.durations.length` gives it, or None for an open end (None or an infinity
    on its open side).

    Raises
    ------
    PredicateError
        If it is no number, duration or None.
    """
    value = length(name, value)
    if isinstance(value, bool) or not (
        value is None or isinstance(value, (int, float, decimal.Decimal, dt.timedelta, str))
    ):
        raise PredicateError(f"{name} must be a number, Decimal, timedelta, duration text or None, not {value!r}")
    if isinstance(value, (float, decimal.Decimal)):
        if math.isnan(value):
            raise PredicateError(f"{name} is NaN: leave it out (None) for an open end")
        if math.isinf(value):
            if (value < 0) != name.endswith("low"):
                raise PredicateError(f"{name}={value} can match nothing: leave it out (None) for an open end")
            return None
    return value


def is_duration(bound: object) -> bool:
    """Whether a bound is a duration, rather than a number."""
    return isinstance(bound, (str, dt.timedelta))


def comparable(bound: Any) -> Any:
    """A bound as a number: of a duration, its nanoseconds. Raises WindowError."""
    return nanoseconds(bound) if is_duration(bound) else bound


def float_bound(what: str, bound: Any) -> float:
    """A bound on floating-point keys. Raises PredicateError if it is a duration, or would be rounded."""
    if is_duration(bound):
        raise PredicateError(f"{what} are numbers: give {bound!r} as a number")
    number = exact_float(bound)
    if number is None:
        raise PredicateError(f"{what} are floating-point numbers, and {bound!r} does not fit float64: round it")
    return number


def bound_to_json(value: object) -> Any:
    """A JSON value that `bound_from_json` reads back to an equal bound."""
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.timedelta):
        return {"microseconds": (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value


def bound_from_json(value: Any) -> object:
    """The inverse of `bound_to_json`."""
    if isinstance(value, dict):
        if "decimal" in value:
            return decimal.Decimal(value["decimal"])
        if "microseconds" in value:
            return dt.timedelta(microseconds=value["microseconds"])
        return float.fromhex(value["float"])
    return value
