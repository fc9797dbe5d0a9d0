"""Event times of both sides on one axis of 64-bit integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from host.durations import nanoseconds
from host.errors import KeyTypeError, WindowError
from host.key_type import Family, key_type
from host.windows import Watermark, Within
from host.windows.watermark_tracker import WatermarkTracker

_NANOS_PER_DAY = 86_400 * 1_000_000_000


_FAMILIES = (Family.NUMBER, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_TZ)


def check_time_type(arrow: pa.DataType, column: str) -> None:
    """Raises KeyTypeError if a column of this type holds no event times."""
    kind = key_type(arrow, column)
    if kind.family not in _FAMILIES or pa.types.is_decimal(arrow) or pa.types.is_uint64(arrow):
        raise KeyTypeError(
            f"the time column {column!r} has type {arrow}: use timestamps, dates or integers that fit 64 bits signed"
        )


_BEYOND = 1 << 64  # farther apart than any two times of 64 bits


_INT64 = np.iinfo(np.int64)


def limit_of_times(limit: int) -> int | None:
    """A limit that times of 64 bits are at or below, in 64 bits; None where none is."""
    return None if limit < _INT64.min else min(limit, int(_INT64.max))


def reached_times(times: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest time of 64 bits that lie from `low` to `high`, of any size, after each time; int64,
    shape (n,). The least is above the greatest where there is none."""
    first, last = _shifted(times, low), _shifted(times, high)
    none = (times > _INT64.max - low) | (times < _INT64.min - high)
    if none.any():
        first[none], last[none] = 1, 0
    return first, last


def _shifted(times: np.ndarray, by: int) -> np.ndarray:
    """Times plus a length, clipped to 64 bits."""
    below, above = times < _INT64.min - by, times > _INT64.max - by
    shifted = times + np.int64((by + (1 << 63)) % (1 << 64) - (1 << 63))  # modulo 2**64: exact where it fits
    shifted[below], shifted[above] = _INT64.min, _INT64.max
    return shifted


def _saturated(length: int) -> int:
    """A length that bounds the same differences of times, and is not much longer than any of them."""
    return max(-_BEYOND, min(_BEYOND, length))


class TimeAxis:
    """Converts time columns, window ends and delays to one unit: the finer of the two columns'.

    Parameters
    ----------
    within : Within
    watermark : Watermark or None
    left, right : pyarrow.DataType
        Types of the two time columns.

    Attributes
    ----------
    low, high : int
        Ends of ``right_time - left_time``, no farther than 2**64 from 0.
    delay : int
        The longer of the watermark's delays, 0 without one.

    Raises
    ------
    KeyTypeError
        If a column is no time or integer, or the two cannot be compared.
    WindowError
        If the window's ends are durations but the columns integers, or the other way round.
    """

    def __init__(self, within: Within, watermark: Watermark | None, left: pa.DataType, right: pa.DataType):
        self._columns = {"left": within.left_time, "right": within.right_time}
        kinds = {"left": key_type(left, within.left_time), "right": key_type(right, within.right_time)}
        check_time_type(left, within.left_time)
        check_time_type(right, within.right_time)
        if kinds["left"].family is not kinds["right"].family:
            raise KeyTypeError(
                f"the time columns {within.left_time!r} ({left}) and {within.right_time!r} ({right}) "
                "cannot be compared: cast one of them"
            )
        self.integers = kinds["left"].family is Family.NUMBER
        family = kinds["left"].family
        self._unit = min(kinds["left"].unit, kinds["right"].unit)
        self._nanos_per_unit = Fraction(_NANOS_PER_DAY) if family is Family.DATE else self._unit
        self._times = {side: int(kind.unit / self._unit) for side, kind in kinds.items()}
        self._open = {"left": within.high is None, "right": within.low is None}  # whose rows stay without end
        self.low, self.high = -_BEYOND, _BEYOND
        if within.low is not None:
            low = self._length(within.low, "low")
            self.low = _saturated(-((-low.numerator) // low.denominator))
        if within.high is not None:
            high = self._length(within.high, "high")
            self.high = _saturated(high.numerator // high.denominator)
        self._watermark = watermark
        self._delays: dict[str, int] = {}
        if watermark is not None:
            for side in ("left", "right"):
                value = getattr(watermark, side)
                if value is not None:
                    exact = self._length(value, f"the {side} delay")
                    self._delays[side] = _saturated(-((-exact.numerator) // exact.denominator))
        self.delay = max(self._delays.values(), default=0)
        self._idle_after = None
        if watermark is not None and watermark.idle_after is not None:
            length = self._length(watermark.idle_after, "idle_after")
            self._idle_after = _saturated(length.numerator // length.denominator)
        # Rows that meet have equal times there: what is past for one side is past for the other.
        both = bool(self._delays) and within.equal_times
        self._judged = ("left", "right") if both else tuple(self._delays)

    def _length(self, value: Any, what: str) -> Fraction:
        if isinstance(value, int):
            if not self.integers and value != 0:
                raise WindowError(
                    f"{what}={value!r} needs a unit, such as '{value} seconds': the columns {self._names()} are times"
                )
            return Fraction(value)
        length = Fraction(nanoseconds(value))
        if self.integers:
            if length:
                raise WindowError(
                    f"{what}={value!r} is a duration, but "
                    f"the time columns {self._names()} are integers: give an integer"
                )
            return length
        return length / self._nanos_per_unit

    @property
    def nanoseconds(self) -> Fraction | None:
        """Of a unit; None where the columns are integers."""
        return None if self.integers else Fraction(self._nanos_per_unit)

    def _names(self) -> str:
        return " and ".join(repr(c) for c in self._columns.values())

    def encode(self, side: str, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """Times as int64, shape (n,), and which of them there are (None: all).

        Raises
        ------
        KeyTypeError
            If a time does not fit the finer unit of the other side.
        """
        valid = pc.is_valid(column).to_numpy() if column.null_count else None
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_date32(kind):
            column = column.cast(pa.int32()).cast(pa.int64())
        elif pa.types.is_date64(kind):
            column = pc.divide(column.cast(pa.int64()), 86_400_000)
        else:
            column = column.cast(pa.int64())
        times = (column.fill_null(0) if valid is not None else column).to_numpy()
        by = self._times[side]
        if by != 1 and len(times):
            top = np.iinfo(np.int64).max // by
            wrong = (times > top) | (times < -top)
            if wrong.any():
                raise KeyTypeError(
                    f"time {times[wrong][0]} of column {self._columns[side]!r} "
                    "does not fit the unit of the other side's times: cast both to one unit"
                )
            times = times * by
        return times, valid

    def tracker(self) -> WatermarkTracker | None:
        """A tracker of the watermark, or None without one."""
        if self._watermark is None:
            return None
        tick, initial = 1, self._watermark.initial
        if not self.integers:
            per_milli = Fraction(1_000_000) / self._nanos_per_unit
            tick = max(int(per_milli), 1)
            if initial is not None:
                initial = int(initial * per_milli // 1)
        return WatermarkTracker(self._watermark, self._delays, tick, initial, self._judged, self._idle_after)

    def useless(self, tracker: WatermarkTracker | None) -> dict[str, int | None]:
        """The greatest time of each side whose rows no later row can match, in 64 bits; None: there is none.

        A later row of the other side is past the watermark in force, if its rows can be late at all.
        """
        limits: dict[str, int | None] = {"left": None, "right": None}
        if tracker is not None and tracker.in_force is not None:
            # watermark < right_time <= left_time + high; watermark < left_time <= right_time - low
            if "right" in self._judged and not self._open["left"]:
                limits["left"] = limit_of_times(tracker.in_force - self.high)
            if "left" in self._judged and not self._open["right"]:
                limits["right"] = limit_of_times(tracker.in_force + self.low)
        return limits
