"""The condition and the time axis of an as-of join."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from muntin.host.errors import PredicateError
from muntin.host.keys.boundary_generator import CODE_TYPE, BoundaryGenerator
from muntin.host.keys.columns import column_of, column_type
from muntin.host.keys.condition import Condition, Filter, both
from muntin.host.keys.key_type import Family, KeyType, key_types, of_column
from muntin.host.keys.value_codes import ValueCodes, comparable_type, comparable_values, has_codes
from muntin.host.predicates import AsOf, Compare
from muntin.host.predicates.literal import float_bound
from muntin.host.sides import OTHER, Side, Sides
from muntin.host.windows import Watermark
from muntin.host.windows.time_axis import Axis, check_time_type, limit_of_times, saturated
from muntin.host.windows.watermark_tracker import WatermarkTracker


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
        self, side: Side, table: pa.Table, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, tuple[np.ndarray, ...]]:
        passing = self._passing(side, table)
        columns = [column_of(table, name) for name in self._on.names(side)]
        if self._plain is not None:
            with of_column(self._on.names(side)[0], side):
                keys, valid = self._plain.encode(comparable_values(columns[0]))
            return keys.astype(np.int64, copy=False), both(passing, valid), ()
        if self.codes is not None:
            keys, valid = self.codes.encode(side, columns, rows)
            return keys, both(passing, valid), ()
        if len(table) > len(self._zeros):
            self._zeros = np.zeros(len(table), np.int64)
        return self._zeros[: len(table)], passing, ()

    def forget(self, oldest: Sides[int]) -> None:
        pass  # rows of any age may be held: `keep` gets the words that are

    def keep(self, words: np.ndarray) -> None:
        """Gives back the codes of all words, int64, but these."""
        if self.codes is not None:
            self.codes.keep(words)

    @property
    def words(self) -> int:
        """Words that have a code; 0 where they need none."""
        return 0 if self.codes is None else len(self.codes)

    def explain(self, *, indexed: bool = False, beside: Collection[int] = (), driver: int = 0) -> list[str]:
        names = " and ".join(f"left.{a} = right.{b}" for a, b in self._on.by)
        how = "" if self.codes is None else ", by a code for each distinct value"
        return [f"driver:    {names or 'time alone'}{how}, then rows in order of time", *self._row_tests()]


class AsOfAxis(Axis):
    """The axis of an as-of join, whose times may be floats, decimals and durations too.

    Parameters
    ----------
    on : AsOf
    watermark : Watermark or None
    left, right : pyarrow.DataType
        Types of the two time columns.

    Attributes
    ----------
    tolerance : int, float or None
        In the unit of the times, rounded down; a float where they are floats. None: any distance.
    low, high : int
        As of `TimeAxis`.

    Raises
    ------
    KeyTypeError
        If a column holds no times, or the two cannot be compared exactly.
    PredicateError, WindowError
        If the tolerance or a delay does not fit the columns.
    """

    error = PredicateError
    low = high = 0

    def __init__(self, on: AsOf, watermark: Watermark | None, left: pa.DataType, right: pa.DataType):
        if watermark is not None:
            check_time_type(left, on.left_time)
            check_time_type(right, on.right_time)
        super().__init__({"left": on.left_time, "right": on.right_time}, (left, right), watermark)
        self.tolerance: int | float | None = None
        if on.tolerance is not None and self.floats:
            self.tolerance = float_bound(f"the times {self._names()}", on.tolerance)
        elif on.tolerance is not None:
            length = self._length(on.tolerance, "tolerance")
            self.tolerance = None if length >= 1 << 64 else saturated(length)

    def expiry(self, tracker: WatermarkTracker | None) -> Sides[int | None]:
        """For rows of a side: the time that all rows of the other side to come are past."""
        limits: Sides[int | None] = {"left": None, "right": None}
        if tracker is not None and (reached := tracker.in_force) is not None:
            for side, other in OTHER.items():
                if other in self._delays:
                    limits[side] = limit_of_times(reached)
        return limits
