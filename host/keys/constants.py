"""Constants of any library (datetime, NumPy, pandas, Arrow) as plain Python values, exactly."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import operator
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.errors import MuntinError, PredicateError
from muntin.host.keys.key_type import NANOS_PER, NANOS_PER_DAY, Family

_PLAIN = (type(None), bool, int, float, Decimal, str, bytes, dt.date, dt.datetime, dt.time, dt.timedelta)
_BASES: tuple[type, ...] = (int, float, Decimal, str, bytes)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_SECOND = 1_000_000_000
#: Nanoseconds of NumPy's units. Months and years have no fixed length.
_UNITS = {name: Fraction(length) for name, length in NANOS_PER.items()} | {
    "W": Fraction(7 * NANOS_PER_DAY), "D": Fraction(NANOS_PER_DAY), "h": Fraction(3600 * _SECOND),
    "m": Fraction(60 * _SECOND), "ps": Fraction(1, 10**3), "fs": Fraction(1, 10**6), "as": Fraction(1, 10**9),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Moment:
    """A time that the classes of `datetime` do not hold: finer than a microsecond, or beyond their years.

    Attributes
    ----------
    family : Family
        Of times.
    nanoseconds : Fraction
        Since 1970 (in UTC, with a time zone) or midnight, or of a duration.
    """

    family: Family
    nanoseconds: Fraction

    def __repr__(self) -> str:
        if self.family is Family.DURATION:
            return f"{self.nanoseconds} ns"
        seconds, rest = divmod(self.nanoseconds, _SECOND)
        text = str(np.datetime64(int(seconds), "s"))
        if self.family is Family.DATE:
            return text[: text.index("T")]
        if rest:
            text += f"{Decimal(rest.numerator) / rest.denominator / _SECOND:f}".removeprefix("0")
        zone = "Z" if self.family is Family.TIMESTAMP_TZ else ""
        return text[text.index("T") + 1 :] if self.family is Family.TIME else text + zone


def plain(name: str, value: Any, error: type[MuntinError] = PredicateError) -> Any:
    """The same value as one of None, bool, int, float, Decimal, str, bytes, date, datetime, time and timedelta.

    Times that these do not hold are a `Moment`. NULL and NaT of any library are None. What is none of these comes back
    as it is.

    Parameters
    ----------
    name : str
        What the value is, for errors.
    value : object
    error : type of MuntinError

    Raises
    ------
    MuntinError
        `error`: there is no such value that is exactly the same.
    """
    if type(value) in _PLAIN or isinstance(value, Moment):
        return Decimal("NaN") if isinstance(value, Decimal) and value.is_snan() else value  # that raises nothing
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, pa.Scalar):
        return _of_arrow(name, value, error)
    if (stamp := getattr(value, "asm8", None)) is not None:  # of pandas
        found = plain(name, stamp, error)
        if getattr(value, "tzinfo", None) is None:
            return found
        exact = isinstance(found, Moment)
        return Moment(Family.TIMESTAMP_TZ, found.nanoseconds) if exact else value.to_pydatetime()
    if isinstance(value, np.generic):
        return _of_numpy(name, value, error)
    if isinstance(value, dt.datetime):
        return dt.datetime.combine(value.date(), value.timetz())
    if isinstance(value, dt.date):
        return dt.date(value.year, value.month, value.day)
    if isinstance(value, dt.time):
        return dt.time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)
    if isinstance(value, dt.timedelta):
        return dt.timedelta(value.days, value.seconds, value.microseconds)
    for base in _BASES:
        if isinstance(value, base):
            return base.__str__(value) if base is str else base(value)
    if (number := whole_number(value)) is not None:
        return number
    inner = value.item() if callable(getattr(value, "item", None)) and getattr(value, "ndim", 0) == 0 else value
    return inner if type(inner) in _PLAIN else value


def _of_arrow(name: str, value: pa.Scalar, error: type[MuntinError]) -> Any:
    kind, types = value.type, pa.types
    if not value.is_valid:
        return None
    if types.is_dictionary(kind):
        return _of_arrow(name, value.value, error)
    if types.is_date(kind):
        return _simple(Moment(Family.DATE, NANOS_PER_DAY * Fraction(value.cast(pa.date32()).value)))
    if types.is_temporal(kind) and not types.is_interval(kind):
        zoned = Family.TIMESTAMP if getattr(kind, "tz", None) is None else Family.TIMESTAMP_TZ
        family = Family.DURATION if types.is_duration(kind) else Family.TIME if types.is_time(kind) else zoned
        return _simple(Moment(family, Fraction(value.value) * NANOS_PER[kind.unit]))
    inner = value.as_py()
    return plain(name, inner, error) if types.is_primitive(kind) or isinstance(inner, _PLAIN) else value


def _of_numpy(name: str, value: Any, error: type[MuntinError]) -> Any:
    kind = value.dtype.kind
    if kind == "f":
        number = float(value)
        if number != value and not np.isnan(value):
            raise error(f"{name}={value!r} does not fit float64: round it, or give a Decimal")
        return number
    if kind not in "Mm":
        inner = value.item()
        return inner if type(inner) in _PLAIN else value
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64))
    if kind == "m":
        if unit not in _UNITS:
            why = "has no unit" if unit == "generic" else "is in months, which have no fixed length"
            raise error(f"{name}={value!r} {why}: give a duration such as '30 days'")
        return _simple(Moment(Family.DURATION, ticks * count * _UNITS[unit]))
    family = Family.DATE if unit in ("Y", "M", "W", "D") else Family.TIMESTAMP
    if unit in ("Y", "M"):
        days = value.astype("datetime64[D]")
        if days.astype(value.dtype) != value:
            raise error(f"{name}={value!r} lies too far from 1970: give a nearer date")
        ticks, count, unit = int(days.astype(np.int64)), 1, "D"
    return _simple(Moment(family, ticks * count * _UNITS[unit]))


def _simple(moment: Moment) -> Any:
    """A moment as a class of `datetime` that holds it; itself, if none does."""
    family, (micros, rest) = moment.family, divmod(moment.nanoseconds, 1000)
    if rest:
        return moment
    try:
        length = micros * _MICROSECOND
        if family is Family.DURATION:
            return length
        time = _EPOCH + length
    except OverflowError:
        return moment
    if family is Family.DATE:
        return time.date()
    return time.time() if family is Family.TIME else time.replace(tzinfo=dt.UTC if _zoned(family) else None)


def _zoned(family: Family) -> bool:
    return family is Family.TIMESTAMP_TZ


def moment(value: Any) -> Moment | None:
    """A plain value as a moment; None where it is no time."""
    if isinstance(value, Moment):
        return value
    if isinstance(value, dt.datetime):
        zoned = value.tzinfo is not None
        length = value - (_EPOCH.replace(tzinfo=dt.UTC) if zoned else _EPOCH)
        return Moment(Family.TIMESTAMP_TZ if zoned else Family.TIMESTAMP, _nanoseconds(length))
    if isinstance(value, dt.date):
        return Moment(Family.DATE, _nanoseconds(dt.datetime.combine(value, dt.time()) - _EPOCH))
    if isinstance(value, dt.time) and value.tzinfo is None:
        return Moment(Family.TIME, _nanoseconds(dt.datetime.combine(_EPOCH, value) - _EPOCH))
    if isinstance(value, dt.timedelta):
        return Moment(Family.DURATION, _nanoseconds(value))
    return None


def _nanoseconds(length: dt.timedelta) -> Fraction:
    return Fraction(length // _MICROSECOND * 1000)


_FINE = re.compile(r"((?:.*[T ])?\d\d:?\d\d:?\d\d)[.,](\d+)(|Z|[+-][\d:]+)", re.IGNORECASE)


def read_moment(text: str, family: Family) -> Any:
    """A date, timestamp or time of day from its ISO 8601 text, as `plain` gives it: any number of digits, exactly.

    Parameters
    ----------
    text : str
    family : Family
        ``Family.TIME``, or any other for a date or a timestamp, with a time zone where the text has one.

    Raises
    ------
    ValueError
        If it is no such text.
    """
    text = text.strip()
    fine = _FINE.fullmatch(text)
    if fine is None and re.search("[.,]", text):
        raise ValueError(f"{text!r} is no ISO 8601 text")
    whole_text = text if fine is None else fine[1] + fine[3]
    if family is Family.TIME:
        value: Any = dt.time.fromisoformat(whole_text)
    else:
        value = dt.datetime.fromisoformat(whole_text)
        if re.fullmatch(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d-?\d?", text):
            value = value.date()
    found = moment(value)
    if found is None:
        raise ValueError(f"{text!r} is a time of day with a time zone")
    if fine is None or not int(fine[2]):
        return value
    exact = Moment(found.family, found.nanoseconds + Fraction(int(fine[2]) * _SECOND, 10 ** len(fine[2])))
    if exact.nanoseconds % 1000:
        return exact
    return value.replace(microsecond=int(exact.nanoseconds // 1000 % 1_000_000))


def whole_number(value: Any) -> int | None:
    """A number of any class of integers, but no truth value; None for anything else."""
    try:
        return None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        return None


def exact_float(value: int | float | Decimal | Fraction) -> float | None:
    """The float64 that is just this number, or is written like it (0.1); None where it would be rounded."""
    try:
        near = float(value)
    except OverflowError:
        return None
    same = near == value or (math.isfinite(near) and Fraction(repr(near)) == value)
    return near if same else None
