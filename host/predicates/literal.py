"""Bounds of a predicate as JSON values, and back."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

from host.errors import PredicateError


def check_bound(name: str, value: object) -> object:
    """The bound itself, or None for an open end (None or an infinity on its open side).

    Raises
    ------
    PredicateError
        If it is no number, duration or None.
    """
    if isinstance(value, bool) or not (
        value is None or isinstance(value, (int, float, decimal.Decimal, dt.timedelta, str)) or hasattr(value, "item")
    ):
        raise PredicateError(f"{name} must be a number, Decimal, timedelta, duration text or None, not {value!r}")
    if hasattr(value, "item"):  # a NumPy scalar
        return check_bound(name, value.item())
    if isinstance(value, (float, decimal.Decimal)):
        if math.isnan(value):
            raise PredicateError(f"{name} is NaN: leave it out (None) for an open end")
        if math.isinf(value):
            if (value < 0) != name.endswith("low"):
                raise PredicateError(f"{name}={value} can match nothing: leave it out (None) for an open end")
            return None
    return value


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
