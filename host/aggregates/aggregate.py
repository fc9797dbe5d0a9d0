"""What an aggregate of the rows that a row matches is, as data."""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
from fractions import Fraction
from typing import Any, ClassVar

import pyarrow as pa

from muntin.host.aggregates import values
from muntin.host.errors import PredicateError, WindowError
from muntin.host.keys.condition import in_words
from muntin.host.keys.durations import duration_text, nanoseconds
from muntin.host.predicates import AllOf, AnyOf, Where, one_sided
from muntin.host.public import public
from muntin.host.windows import Within

Kinds = dict[str, pa.DataType]  # of the columns of one side


Held = dict[str, Any]  # what the core gives, by the names of `values.CORE`


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Aggregate(abc.ABC):
    """One value made of a column of all rows of the other side that a row matches.

    Parameters
    ----------
    column : str
        A column, or a field of a struct (``"quote.price"``), of the other side.
    name : str, optional
        Of the column in the result; as Spark has it by default, such as ``"sum(price)"``.
    filter : str, Where, AnyOf or AllOf, optional
        Which of the rows count, by columns of the same side: ``"size > 5 AND venue = 'X'"``, or parts about one side.
    within : (low, high), optional
        The rows whose time lies so far from that of the row, as right less left time, as of `Within`: a window in that
        of the join, for joins with a time window. None for an end is that of the join.
    prevailing : bool
        The newest row before that window, or the join's, counts as in it, as in kdb's ``wj``: by event time, then by
        arrival, of those equal in all columns that the condition compares. For time windows whose condition compares
        for equality alone. That row is kept until a newer one takes its place, one for each value.

    Raises
    ------
    PredicateError
        If one is no text, or the filter compares the two sides.
    WindowError
        If the window cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=["sum(price)", "count(*)"])
    >>> found["sum(price)"].to_pylist()
    [Decimal('10')]
    """

    column: str | None
    name: str | None = dataclasses.field(default=None, kw_only=True)
    filter: Any = dataclasses.field(default=None, kw_only=True)
    within: Any = dataclasses.field(default=None, kw_only=True)
    prevailing: bool = dataclasses.field(default=False, kw_only=True)
    function: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ("column",)  # fields that name columns
    _more: ClassVar[tuple[str, ...]] = ()  # numbers that a text has behind them

    def __post_init__(self) -> None:
        for what in (*self.paths, "name"):
            value = getattr(self, what)
            optional = what in self._optional
            if not (isinstance(value, str) and value) and not (optional and value is None):
                raise PredicateError(f"{what} of {type(self).__name__} must be the name of a column, not {value!r}")
        if not (self.filter is None or isinstance(self.filter, str)):
            plain = isinstance(self.filter, (Where, AnyOf, AllOf))
            if not plain or not all(map(one_sided, self.filter.conjuncts)):
                raise PredicateError(
                    f"filter of {type(self).__name__} must be a text, or Where(...) and AnyOf and AllOf of these, not "
                    f"{self.filter!r}"
                )
        if not isinstance(self.prevailing, bool):
            raise PredicateError(f"prevailing of {type(self).__name__} must be True or False, not {self.prevailing!r}")
        if self.within is not None:
            if not isinstance(self.within, (tuple, list)) or len(self.within) != 2:
                raise WindowError(f"within of {type(self).__name__} must be (low, high), not {self.within!r}")
            ends = Within("left", "right", *self.within)  # reads them
            low, high = (
                duration_text(Fraction(nanoseconds(e))) if isinstance(e, dt.timedelta) else e
                for e in (ends.low, ends.high)
            )
            object.__setattr__(self, "within", (low, high))

    _optional: ClassVar[tuple[str, ...]] = ("name",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is made of, those of the filter aside."""
        return tuple(path for what in self.paths if (path := getattr(self, what)) is not None)

    @property
    def _asked(self) -> tuple[str, ...]:
        """Those of them that must have a value for a row to count."""
        return self.columns

    @property
    def output(self) -> str:
        """The name of the column in the result."""
        if self.name:
            return self.name
        told = "" if self.filter is None else self.filter if isinstance(self.filter, str) else in_words(self.filter)
        inside = (
            "" if self.within is None else f" within ({', '.join('' if e is None else str(e) for e in self.within)})"
        )
        return f"{self._call}{told and f' filter (where {told})'}{inside}{' include prevailing' * self.prevailing}"

    @property
    def _call(self) -> str:
        return f"{self.function}({', '.join(self.columns)})"

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `aggregate_from_dict`."""
        given: dict[str, Any] = {"function": self.function, "column": self.column, "name": self.name}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and value is not False and field.name not in given:
                plain = isinstance(value, (str, int, float, tuple))
                given[field.name] = value if plain else value.to_dict()
        return given

    # Of columns of these types, all there

    @abc.abstractmethod
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        """Of the result; None: there is no such aggregate."""

    @abc.abstractmethod
    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        """What is kept of each row, by the names of `values.CORE`."""

    @abc.abstractmethod
    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        """The column of the result; rows for `_rows`."""

    def _ends(self, kinds: Kinds) -> dict[str, tuple[int, int, str]]:
        """The least and greatest values, without their point, of columns whose values must lie within, so that no
        result is beyond its type; and why."""
        return {}


def is_number(kind: pa.DataType) -> bool:
    decimal = pa.types.is_decimal(kind) and kind.precision <= values.MAX_DIGITS
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or decimal


def is_ordered(kind: pa.DataType) -> bool:
    types = pa.types
    moment = types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind)
    return is_number(kind) or moment
