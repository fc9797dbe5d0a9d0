"""Event times of both sides on one axis of 64-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.host.errors import KeyTypeError, MuntinError, WindowError
from muntin.host.keys.durations import nanoseconds
from muntin.host.keys.key_type import NANOS_PER_DAY, Family, decode_float, encode_float, key_type, key_types, of_column
from muntin.host.predicates.literal import is_duration
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.windows import Watermark, Within
from muntin.host.windows.watermark_tracker import WatermarkTracker


def check_time_type(arrow: pa.DataType, column: str) -> None:
    """Raises KeyTypeError if a column of this type holds no event times."""
    if key_type(arrow, column).family is Family.FLOAT or pa.types.is_decimal(arrow):
        raise KeyTypeError(
            f"the time column {column!r} has type {arrow}: use timestamps, dates, times of day, durations or integers"
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


def saturated(length: Fraction, *, up: bool = False) -> int:
    """A length in whole units, rounded down or `up`, that bounds the same differences of times, and is not much longer
    than any of them."""
    whole = -(-length.numerator // length.denominator) if up else length.numerator // length.denominator
    return max(-_BEYOND, min(_BEYOND, whole))


class Axis:
    """Converts time columns and delays to one unit: the finer of the two columns'.

    Parameters
    ----------
    columns : dict of str to str
        The time column of each side.
    types : sequence of pyarrow.DataType
        Those of the left and the right one.
    watermark : Watermark or None

    Attributes
    ----------
    floats : bool
        Times are encoded float64.
    integers : bool
        Lengths are numbers, no durations.
    offset : int
        What is taken off each time: 2**63 where a side has uint64 and neither has signed integers, else 0.
    delay : int
        The longer of the watermark's delays, 0 without one.

    Raises
    ------
    KeyTypeError
        If a column holds no times, or the two cannot be compared exactly.
    MuntinError
        `error`, if a delay does not fit the columns.
    """

    error: ClassVar[type[MuntinError]] = WindowError

    def __init__(self, columns: dict[str, str], types: Sequence[pa.DataType], watermark: Watermark | None):
        self._columns, self._watermark = columns, watermark
        left, right = types
        kinds = key_types(left, columns["left"], right, columns["right"])
        self._kinds = dict(zip(("left", "right"), kinds, strict=True))
        family = kinds[0].family
        self.floats = family is Family.FLOAT
        self.integers = family in (Family.NUMBER, Family.FLOAT)
        self._unit = min(kind.unit for kind in kinds)
        self._nanos_per_unit = Fraction(NANOS_PER_DAY) if family is Family.DATE else self._unit
        self._times = {side: int(kind.unit / self._unit) for side, kind in self._kinds.items()}
        compared = [kind.arrow for kind in kinds]
        unsigned = all(pa.types.is_unsigned_integer(kind) for kind in compared)
        self.offset = 1 << 63 if unsigned and any(map(pa.types.is_uint64, compared)) else 0
        self._delays: Sides[int] = {}
        self._idle_after = None
        if watermark is not None:
            for side in SIDES:
                if (value := getattr(watermark, side)) is not None:
                    self._delays[side] = saturated(self._length(value, f"the {side} delay"), up=True)
            if watermark.idle_after is not None:
                self._idle_after = saturated(self._length(watermark.idle_after, "idle_after"))
        self.delay = max(self._delays.values(), default=0)
        self._judged = tuple(self._delays)

    def _length(self, value: Any, what: str) -> Fraction:
        """A length in units of the axis."""
        if not is_duration(value):
            if not self.integers and value != 0 and self._kinds["left"].family is not Family.NONE:
                raise self.error(
                    f"{what}={value!r} needs a unit, such as '{value} seconds': the columns {self._names()} are times"
                )
            return Fraction(str(value) if isinstance(value, float) else value) / (self._unit if self.integers else 1)
        length = Fraction(nanoseconds(value))
        if self.integers and length:
            raise self.error(
                f"{what}={value!r} is a duration, but the columns {self._names()} are numbers: give a number"
            )
        return length / self._nanos_per_unit

    @property
    def nanoseconds(self) -> Fraction | None:
        """Of a unit; None where the columns are numbers."""
        return None if self.integers else Fraction(self._nanos_per_unit)

    def _names(self) -> str:
        return " and ".join(repr(c) for c in self._columns.values())

    def encode(self, side: Side, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """Times as int64, shape (n,), and which of them there are (None: all).

        Raises
        ------
        KeyTypeError
            If a time does not fit 64 bits in the finer unit of the two sides.
        """
        kind, name = self._kinds[side], self._columns[side]
        with of_column(name, side):
            keys, valid = kind.encode(column)
        times = (
            encode_float(decode_float(keys).astype(np.float64)) if self.floats else keys.astype(np.int64, copy=False)
        )
        if valid is not None:
            times = np.where(valid, times, 0)
        if self.floats:
            return times, valid
        by, shift = self._times[side], kind.offset - self.offset
        least, greatest = -(-int(_INT64.min) // by) - shift, int(_INT64.max) // by - shift
        if len(times) and (least > _INT64.min or greatest < _INT64.max):
            wrong = (times < max(least, _INT64.min)) | (times > min(greatest, _INT64.max))
            wrong = wrong if valid is None else wrong & valid
            if wrong.any():
                raise KeyTypeError(
                    f"time {int(times[np.argmax(wrong)]) + kind.offset} of column {name!r} of the {side} side does not "
                    "fit 64 bits in the unit of the other side's times: cast both to one type"
                ).of_rows(side, np.flatnonzero(wrong), name)
        with np.errstate(over="ignore"):  # what is not valid may wrap
            times = (times.view(np.uint64) + np.uint64(shift % _BEYOND)).view(np.int64) if shift else times
            return times * by if by != 1 else times, valid

    def tracker(self) -> WatermarkTracker | None:
        """A tracker of the watermark, or None without one."""
        if self._watermark is None:
            return None
        tick, initial = 1, self._watermark.initial
        if not self.integers:
            per_milli = Fraction(1_000_000) / self._nanos_per_unit
            tick = max(int(per_milli), 1)
            initial = None if initial is None else int(initial * per_milli // 1)
        initial = None if initial is None else initial - self.offset
        return WatermarkTracker(self._watermark, self._delays, tick, initial, self._judged, self._idle_after)


class TimeAxis(Axis):
    """The axis of a time window.

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

    Raises
    ------
    KeyTypeError
        If a column is no time or integer, or the two cannot be compared.
    WindowError
        If the window's ends are durations but the columns integers, or the other way round.
    """

    def __init__(self, within: Within, watermark: Watermark | None, left: pa.DataType, right: pa.DataType):
        check_time_type(left, within.left_time)
        check_time_type(right, within.right_time)
        super().__init__({"left": within.left_time, "right": within.right_time}, (left, right), watermark)
        self._open = {"left": within.high is None, "right": within.low is None}  # whose rows stay without end
        self.low = -_BEYOND if within.low is None else saturated(self._length(within.low, "low"), up=True)
        self.high = _BEYOND if within.high is None else saturated(self._length(within.high, "high"))
        # Rows that meet have equal times there: what is past for one side is past for the other.
        if self._delays and within.equal_times:
            self._judged = ("left", "right")

    def expiry(self, tracker: WatermarkTracker | None) -> Sides[int | None]:
        """The greatest time of each side whose rows no later row can match, in 64 bits; None: there is none.

        A later row of the other side is past the watermark in force, if its rows can be late at all.
        """
        limits: Sides[int | None] = {"left": None, "right": None}
        if tracker is not None and tracker.in_force is not None:
            # watermark < right_time <= left_time + high; watermark < left_time <= right_time - low
            if "right" in self._judged and not self._open["left"]:
                limits["left"] = limit_of_times(tracker.in_force - self.high)
            if "left" in self._judged and not self._open["right"]:
                limits["right"] = limit_of_times(tracker.in_force + self.low)
        return limits
