"""The condition and the time axis of an as-of join."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from host.columns import column_of, column_type
from host.durations import nanoseconds
from host.errors import KeyTypeError, PredicateError
from host.float_order import decode_float, encode_float
from host.join.boundary_generator import CODE_TYPE, BoundaryGenerator
from host.join.condition import Condition, Filter, both
from host.join.value_codes import ValueCodes, comparable_type, comparable_values, has_codes
from host.key_type import NANOS_PER_DAY, Family, KeyType, key_types
from host.predicates import AsOf, Compare
from host.predicates.literal import float_bound, is_duration
from host.time_axis import check_time_type, limit_of_times
from host.windows import Watermark
from host.windows.watermark_tracker import WatermarkTracker

_INT64 = np.iinfo(np.int64)
_TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_TZ, Family.DURATION, Family.TIME)


class AsOfCondition(Condition):
    """The `by` columns of an as-of join: one word of 64 bits for the values of a row, the same where all are equal.

    One column of the same plain type on both sides is its own word; otherwise each distinct value has a code.

    Parameters
    ----------
    on : AsOf
    left, right : pyarrow.Schema

    Raises
    ------
    SchemaError
        If a column is missing.
    KeyTypeError
        If the types of a pair have no common equality.
    """

    def __init__(self, on: AsOf, left: pa.Schema, right: pa.Schema):
        self._on = on
        self._filters = [Filter(part, {"left": left, "right": right}) for part in on.where]
        self.residuals = []
        self.one_column = False
        self.generator = BoundaryGenerator(Compare(on.left_time, "=", on.right_time), CODE_TYPE, CODE_TYPE)
        self.codes = None
        self._zeros = np.zeros(0, np.int64)  # the words of rows, where there is nothing to be equal in
        self._plain: KeyType | None = None
        kinds = [(column_type(left, a), a, column_type(right, b), b) for a, b in on.by]
        if len(kinds) == 1 and not has_codes(kinds[0][0]) and not has_codes(kinds[0][2]):
            a, b = key_types(comparable_type(kinds[0][0]), kinds[0][1], comparable_type(kinds[0][2]), kinds[0][3])
            if a == b and a.family is not Family.FLOAT:
                self._plain = a
        if kinds and self._plain is None:
            self.codes = ValueCodes([(*kind, False) for kind in kinds])

    def encode(
        self, side: str, table: pa.Table, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, tuple[np.ndarray, ...]]:
        passing = self._passing(side, table)
        columns = [column_of(table, name) for name in self._on.names(side)]
        if self._plain is not None:
            try:
                keys, valid = self._plain.encode(comparable_values(columns[0]))
            except KeyTypeError as error:
                raise KeyTypeError(f"column {self._on.names(side)[0]!r} of the {side} side: {error}") from error
            return keys.astype(np.int64, copy=False), both(passing, valid), ()
        if self.codes is not None:
            keys, valid = self.codes.encode(side, columns, rows)
            return keys, both(passing, valid), ()
        if len(table) > len(self._zeros):
            self._zeros = np.zeros(len(table), np.int64)
        return self._zeros[: len(table)], passing, ()

    def forget(self, oldest: dict[str, int]) -> None:
        pass  # rows of any age may be held: `keep` is told which words are

    def keep(self, words: np.ndarray) -> None:
        """Gives back the codes of all words, int64, but these."""
        if self.codes is not None:
            self.codes.keep(words)

    @property
    def words(self) -> int:
        """Words that have a code; 0 where they need none."""
        return 0 if self.codes is None else len(self.codes)

    def explain(self, *, indexed: bool = False, driver: int = 0) -> list[str]:
        names = " and ".join(f"left.{a} = right.{b}" for a, b in self._on.by)
        how = "" if self.codes is None else ", by a code for each distinct value"
        return [f"driver:    {names or 'time alone'}{how}, then rows in order of time", *self._row_tests()]


class AsOfAxis:
    """Times of both sides as 64-bit integers, for as-of joins.

    Parameters
    ----------
    on : AsOf
    watermark : Watermark or None
    left, right : pyarrow.DataType
        Types of the two time columns.

    Attributes
    ----------
    floats : bool
        Times are encoded float64.
    tolerance : int, float or None
        In the unit of the times, rounded down; a float where they are floats. None: any distance.
    low, high, delay : int
        As of `TimeAxis`.

    Raises
    ------
    KeyTypeError
        If a column holds no times, or the two cannot be compared exactly.
    PredicateError, WindowError
        If the tolerance or a delay does not fit the columns.
    """

    low = high = 0

    def __init__(self, on: AsOf, watermark: Watermark | None, left: pa.DataType, right: pa.DataType):
        self._on, self._watermark = on, watermark
        if watermark is not None:
            check_time_type(left, on.left_time)
            check_time_type(right, on.right_time)
        a, b = key_types(left, on.left_time, right, on.right_time)
        self._kinds = {"left": a, "right": b}
        self.floats = a.family is Family.FLOAT
        self.integers = a.family not in _TIMES
        self._unit = min(a.unit, b.unit)
        self._nanos_per_unit = Fraction(NANOS_PER_DAY) if a.family is Family.DATE else self._unit
        self._times = {side: int(kind.unit / self._unit) for side, kind in self._kinds.items()}
        self._shifted = a.arrow == b.arrow and pa.types.is_uint64(a.arrow)  # both keep the encoding of uint64
        self.tolerance = self._tolerance()
        self._delays: dict[str, int] = {}
        for side in ("left", "right"):
            if watermark is not None and (value := getattr(watermark, side)) is not None:
                exact = self._length(value, f"the {side} delay")
                self._delays[side] = min(-((-exact.numerator) // exact.denominator), 1 << 64)
        self.delay = max(self._delays.values(), default=0)
        self._idle_after = None
        if watermark is not None and watermark.idle_after is not None:
            length = self._length(watermark.idle_after, "idle_after")
            self._idle_after = min(length.numerator // length.denominator, 1 << 64)

    def _tolerance(self) -> int | float | None:
        value = self._on.tolerance
        if value is None:
            return None
        if self.floats:
            return float_bound(f"the times {self._names()}", value)
        length = self._length(value, "tolerance")
        return None if length >= 1 << 64 else length.numerator // length.denominator

    def _length(self, value: Any, what: str) -> Fraction:
        if not is_duration(value):
            if not self.integers and value != 0:
                raise PredicateError(
                    f"{what}={value!r} needs a unit, such as '{value} seconds': the columns {self._names()} are times"
                )
            return Fraction(str(value) if isinstance(value, float) else value) / (self._unit if self.integers else 1)
        length = Fraction(nanoseconds(value))
        if self.integers and length:
            raise PredicateError(
                f"{what}={value!r} is a duration, but the columns {self._names()} are numbers: give a number"
            )
        return length / self._nanos_per_unit

    def _names(self) -> str:
        return f"{self._on.left_time!r} and {self._on.right_time!r}"

    @property
    def nanoseconds(self) -> Fraction | None:
        """Of a unit; None where the columns are numbers."""
        return None if self.integers else Fraction(self._nanos_per_unit)

    def encode(self, side: str, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """Times as int64, shape (n,), and which of them there are (None: all).

        Raises
        ------
        KeyTypeError
            If a time does not fit 64 bits in the finer unit of the two sides.
        """
        kind = self._kinds[side]
        name = self._on.time(side)
        try:
            keys, valid = kind.encode(column)
        except KeyTypeError as error:
            raise KeyTypeError(f"column {name!r} of the {side} side: {error}") from error
        if self.floats:
            times = encode_float(decode_float(keys).astype(np.float64)) if keys.dtype == np.int32 else keys
        else:
            times = keys.astype(np.int64, copy=False)
        if valid is not None:
            times = np.where(valid, times, 0)
        if self.floats:
            return times, valid
        wrong = np.zeros(0, np.bool_)
        if kind.bits == 64 and kind.offset and not self._shifted:  # uint64 beside another type
            wrong = times >= 0
            times = times ^ _INT64.min
        elif kind.offset and not self._shifted:
            times = times + kind.offset
        by = self._times[side]
        if by != 1:
            top = _INT64.max // by
            wrong = (times > top) | (times < -top)
            times = times * by
        if valid is not None and len(wrong):
            wrong &= valid
        if wrong.any():
            raise KeyTypeError(
                f"time {column[int(np.argmax(wrong))].as_py()} of column {name!r} of the {side} side does not fit 64 "
                "bits in the unit of the other side's times: cast both to one type"
            )
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
        return WatermarkTracker(self._watermark, self._delays, tick, initial, tuple(self._delays), self._idle_after)

    def useless(self, tracker: WatermarkTracker | None) -> dict[str, int | None]:
        """For rows of a side: the time that all rows of the other side to come are past."""
        limits: dict[str, int | None] = {"left": None, "right": None}
        if tracker is not None and (reached := tracker.in_force) is not None:
            for side, other in (("left", "right"), ("right", "left")):
                if other in self._delays:
                    limits[side] = limit_of_times(reached)
        return limits
