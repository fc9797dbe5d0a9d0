"""Aggregates that are values of single rows, of any type: the first, the last, that of a greatest value, all."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from muntin.host.aggregates import values
from muntin.host.aggregates.aggregate import Aggregate, Held, Kinds, is_ordered
from muntin.host.errors import KeyTypeError
from muntin.host.keys.kept_types import check_type
from muntin.host.public import public


class OfRow(Aggregate):
    """The value of one row, which the core chooses."""

    @property
    def _asked(self) -> tuple[str, ...]:
        return self.columns[1:]

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        return kinds[str(self.column)]

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return (self.function,)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.chosen_rows(held[self.function], last=self.function == "last")


@public("muntin")
@dataclasses.dataclass(frozen=True)
class First(OfRow):
    """The value, of any type, of the first row by event time, of these the first to arrive, and without event times the
    first to arrive; NULL if it is NULL there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import First, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=First("price"))
    >>> found["first(price)"].to_pylist()
    [3]
    """

    function = "first"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Last(OfRow):
    """The value, of any type, of the last row by event time, of these the last to arrive, and without event times the
    last to arrive; NULL if it is NULL there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Last, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Last("price"))
    >>> found["last(price)"].to_pylist()
    [7]
    """

    function = "last"


class OfExtreme(OfRow):
    by: str = ""
    paths = ("column", "by")

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        by = kinds[self.by]
        return kinds[str(self.column)] if is_ordered(by) or pa.types.is_null(by) else None


@public("muntin")
@dataclasses.dataclass(frozen=True)
class ArgMin(OfExtreme):
    """The value, of any type, of the row with the least value of another column; of several the first to arrive.

    As Spark's ``min_by``: rows where `by` is NULL do not count, NULL in `column` does; NaN is above all other values.

    Parameters
    ----------
    by : str
        A column of numbers, dates, times or durations.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import ArgMin, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=ArgMin("price", "size", name="best"))
    >>> found["best"].to_pylist()
    [3]
    """

    by: str
    function = "arg_min"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class ArgMax(OfExtreme):
    """The value, of any type, of the row with the greatest value of another column; of several the first to arrive.

    As Spark's ``max_by``: rows where `by` is NULL do not count, NULL in `column` does; NaN is above all other values.

    Parameters
    ----------
    by : str
        A column of numbers, dates, times or durations.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import ArgMax, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=ArgMax("price", "size", name="best"))
    >>> found["best"].to_pylist()
    [7]
    """

    by: str
    function = "arg_max"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Collect(OfRow):
    """A list of the values, of any type, that are not NULL, by event time, then by arrival, and without event times by
    arrival; empty where there are none. Texts are large_string and bytes large_binary, so that lists of any size fit.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Collect, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Collect("price"))
    >>> found["collect_list(price)"].to_pylist()
    [[3, 7]]
    """

    function = "collect_list"

    @property
    def _asked(self) -> tuple[str, ...]:
        return self.columns

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        given = kinds[str(self.column)]
        kind = pa.list_(values.listed(given))
        try:
            check_type(kind)
            if kind.value_type != given:
                pa.nulls(1, given).cast(kind.value_type)
        except pa.ArrowException as error:
            raise KeyTypeError(
                f"there are no lists of column {self.column!r} of type {given} in pyarrow "
                f"{pa.__version__} ({error}): cast it to a plain type"
            ) from error
        return kind

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("each",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> Any:
        starts, words = held["each"]
        return starts, words.reshape(-1, 3)[:, 2]
