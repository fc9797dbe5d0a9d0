"""Durations as people write them: "10 minutes", "-1 hour 30 minutes", "PT10M", timedelta."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

from muntin.host.errors import MuntinError, PredicateError, WindowError
from muntin.host.keys.constants import Moment, plain
from muntin.host.keys.key_type import Family

NANOSECONDS = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60 * 1_000_000_000,
    "hour": 3_600 * 1_000_000_000,
    "day": 86_400 * 1_000_000_000,
    "week": 7 * 86_400 * 1_000_000_000,
}
_SHORT = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second",
          "m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week"}  # fmt: skip
_TERM = re.compile(r"\s*([+-]?)\s*(\d+)(?:\.(\d+))?\s*([a-z]+)", re.IGNORECASE)
_ISO = re.compile(r"([+-]?)P(?=\S)([\d.WD]*)(?:T([\d.HMS]+))?", re.IGNORECASE)


def nanoseconds(duration: object) -> int:
    """The length of a duration in nanoseconds, exactly.

    Parameters
    ----------
    duration : str or datetime.timedelta
        Such as ``"10 minutes"``, ``"-1 hour 30 minutes"``, ``"0"``, or in ISO 8601 ``"PT1H30M"``. A sign before the
        first term holds for all terms that carry none of their own, so ``"-1 hour 30 minutes"`` is minus ninety
        minutes. Or the duration of another library, as `length` takes it.

    Raises
    ------
    WindowError
        If it cannot be read, or is finer than a nanosecond.
    """
    duration = length("a duration", duration, WindowError)
    if isinstance(duration, dt.timedelta):
        return ((duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds) * 1_000
    if not isinstance(duration, str):
        raise WindowError(f"a duration must be text such as '10 minutes' or a timedelta, not {duration!r}")
    text = duration.strip()
    if re.fullmatch(r"[+-]?0+", text):
        return 0
    if iso := _ISO.fullmatch(text):
        days, times = (re.sub("([a-z])", r"\1 ", part or "", flags=re.IGNORECASE) for part in iso.groups()[1:])
        text = f"{iso[1]}{days}{times}"
    text = re.sub(r"^([+-]?)\s*interval\s+", r"\1", text, flags=re.IGNORECASE)
    total, at, sign = 0, 0, 1
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            break
        mark, whole, part, word = term.groups()
        unit = NANOSECONDS.get(_SHORT.get(word.lower(), word.lower().removesuffix("s")))
        if unit is None:
            raise WindowError(f"{word!r} in the duration {duration!r} is no unit: use {', '.join(NANOSECONDS)}")
        if mark:
            sign = -1 if mark == "-" else 1
        digits = part or ""
        scaled = int(whole + digits) * unit
        if scaled % 10 ** len(digits):
            raise WindowError(f"the duration {duration!r} is finer than a nanosecond")
        total += sign * scaled // 10 ** len(digits)
        at = term.end()
    if not text or text[at:].strip():
        raise WindowError(
            f"the duration {duration!r} cannot be read: write it like '10 minutes' or '-1 hour 30 minutes'"
        )
    return total


def length(name: str, value: Any, error: type[MuntinError] = PredicateError) -> Any:
    """A bound, delay or tolerance as `plain` gives it, durations that `timedelta` does not hold as text.

    Raises
    ------
    MuntinError
        `error`: a duration finer than a nanosecond, or NULL of some library; and what `plain` raises.
    """
    found = plain(name, value, error)
    if found is None and value is not None:
        raise error(f"{name} is {value!r}: leave it out (None) where there is none")
    if not isinstance(found, Moment) or found.family is not Family.DURATION:
        return found
    if found.nanoseconds.denominator != 1:
        raise error(f"{name}={value!r} is finer than a nanosecond")
    return duration_text(found.nanoseconds)


def duration_text(exact: Fraction) -> Any:
    """Nanoseconds as a duration in the largest unit that they are a whole number of; 0 as an integer."""
    if not exact:
        return 0
    if exact.denominator != 1:
        raise PredicateError(f"a duration of {exact} ns is finer than a nanosecond")
    unit = max((u for u in NANOSECONDS if u != "week" and exact % NANOSECONDS[u] == 0), key=NANOSECONDS.__getitem__)
    count = exact.numerator // NANOSECONDS[unit]
    return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
