"""Aggregates of the rows that a row matches: what ``form="aggregate"`` gives."""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.host import aggregate_values as values
from muntin.host.durations import duration_text, nanoseconds
from muntin.host.errors import KeyTypeError, PredicateError, WindowError
from muntin.host.join.condition import in_words, parts_of
from muntin.host.join.kept_types import check_type
from muntin.host.predicates import AllOf, AnyOf, Where, from_dict, one_sided
from muntin.host.public import public
from muntin.host.windows import Within

Kinds = dict[str, pa.DataType]  # of the columns of one side
Held = dict[str, Any]  # what the core gives, by the names of `aggregate_values.CORE`


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
            if not plain or not all(map(one_sided, parts_of(self.filter))):
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
        """What is kept of each row, by the names of `aggregate_values.CORE`."""

    @abc.abstractmethod
    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        """The column of the result; rows for `_rows`."""

    def _ends(self, kinds: Kinds) -> dict[str, tuple[int, int, str]]:
        """The least and greatest values, without their point, of columns whose values must lie within, so that no
        result is beyond its type; and why."""
        return {}


def _within(path: str, kind: pa.DataType, limit: Callable[[pa.DataType], int]) -> dict[str, tuple[int, int, str]]:
    if not pa.types.is_decimal(kind):
        return {}
    most = limit(kind)
    return {path: (-most, most, f"only those of at most {len(str(most))} digits are sure to fit it")}


def _number(kind: pa.DataType) -> bool:
    decimal = pa.types.is_decimal(kind) and kind.precision <= values.MOST_DIGITS
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or decimal


def _ordered(kind: pa.DataType) -> bool:
    types = pa.types
    moment = types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind)
    return _number(kind) or moment


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Count(Aggregate):
    """How many rows match, int64; of a column, how many of them are not NULL there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Count, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Count("price"))
    >>> found["count(price)"].to_pylist()
    [2]
    """

    column: str | None = None
    function = "count"
    _optional = ("name", "column")

    @property
    def _call(self) -> str:
        return f"count({1 if self.column is None else self.column})"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        return pa.int64()

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return pa.array(held["some"])


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of the values that are not NULL; NULL where there are none.

    Exact for integers, which give int64, those of 64 bits decimals of 38 digits, and for decimals of p digits, which
    give decimals of p + 10, 38 at most: these hold every sum. So of decimals of more than 28 digits values of more are
    refused, as `SumOverflowError`, by the call that has them. Floats give float64, off by at most 2**-51 of the sum of
    the absolute values that are added.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Sum, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Sum("price"))
    >>> found["sum(price)"].to_pylist()
    [Decimal('10')]
    """

    function = "sum"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and _number(kind)):
            return values.sum_type(kind)
        return pa.float64() if pa.types.is_floating(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some", *values.sum_folds(kinds[str(self.column)]))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.sums(out, held)

    def _ends(self, kinds: Kinds) -> dict[str, tuple[int, int, str]]:
        return _within(str(self.column), kinds[str(self.column)], values.sum_limit)


class _Extreme(Aggregate):
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return kind if _ordered(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        wide = values.is_wide(kinds[str(self.column)]) and not pa.types.is_uint64(kinds[str(self.column)])
        return ("some", self.function + ("_wide" if wide else ""))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        codes = held[self._folds(kinds)[1]]
        return values.extremes(~codes if self.function == "max" else codes, kinds[str(self.column)], held["some"] > 0)


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Min(_Extreme):
    """The least value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Min, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Min("price"))
    >>> found["min(price)"].to_pylist()
    [3]
    """

    function = "min"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Max(_Extreme):
    """The greatest value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Max, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Max("price"))
    >>> found["max(price)"].to_pylist()
    [7]
    """

    function = "max"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of the values that are not NULL; NULL where there are none.

    float64: the sum, rounded, by their number; decimals of p digits, s of them behind the point, give p + 4 and s + 4,
    38 at most, rounded half up.

    Parameters
    ----------
    weight : str, optional
        A column of numbers: each value counts so many times, as in a volume-weighted average price. Rows whose weight
        is NULL do not count; where weights add up to 0 the mean is NULL. Products of integers and decimals are exact,
        so they must fit 127 bits; of floats the sum of products is off by at most 2**-50 of that of their absolute
        values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Mean, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Mean("price"))
    >>> found["avg(price)"].to_pylist()
    [5.0]
    """

    weight: str | None = dataclasses.field(default=None, kw_only=True)
    paths = ("column", "weight")
    _optional = ("name", "weight")

    @property
    def function(self) -> str:  # type: ignore[override]
        return "avg" if self.weight is None else "weighted_avg"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        if not all(_number(kind) or pa.types.is_null(kind) for kind in kinds.values()):
            return None
        kind = kinds[str(self.column)]
        if any(map(pa.types.is_floating, kinds.values())) or not pa.types.is_decimal(kind):
            return pa.float64()
        return values.mean_type(kind)

    def _check(self, kinds: Kinds) -> None:
        given = [kinds[path] for path in self.columns]
        if self.weight is not None and values.is_exact(given) and not values.product_fits(*given):
            raise KeyTypeError(
                f"{self.output!r} takes products of {given[0]} and {given[1]}, which may not fit 127 bits: cast column "
                f"{self.column!r} or {self.weight!r} to fewer digits, or to double"
            )

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        given = [kinds[path] for path in self.columns]
        if self.weight is None:
            return ("some", *values.sum_folds(given[0]))
        return ("some", *(values.EXACT_PRODUCT if values.is_exact(given) else values.PRODUCT))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.means(kinds[str(self.column)], out, held)

    def _ends(self, kinds: Kinds) -> dict[str, tuple[int, int, str]]:
        if any(map(pa.types.is_floating, kinds.values())):
            return {}
        ends = _within(str(self.column), kinds[str(self.column)], lambda kind: 10**kind.precision - 1)
        if ends and self.weight is not None:
            ends[self.weight] = (
                0,
                (1 << 127) - 1,
                "weights of decimals must not be below 0, as their mean may not fit it",
            )
        return ends


class _Spread(Aggregate):
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return pa.float64() if _number(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some", "moments")

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        spread = values.variances(kinds[str(self.column)], held["some"], held["moments"])
        spread = np.sqrt(spread) if self.function == "stddev_samp" else spread
        return pa.array(spread, out, mask=held["some"] < 2)


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Var(_Spread):
    """The sample variance of the values that are not NULL, float64; NULL of fewer than two.

    Of n values it is off by at most 2**-50 of itself and 2**-104 * n**2 of the sum of their squares over n - 1.
    Integers and decimals of more than 53 bits are rounded to float64 before. It is NaN where a value is NaN or
    infinite, or where squares do not fit float64.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Var, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Var("price"))
    >>> found["var_samp(price)"].to_pylist()
    [8.0]
    """

    function = "var_samp"


@public("muntin")
@dataclasses.dataclass(frozen=True)
class StdDev(_Spread):
    """The sample standard deviation of the values that are not NULL, float64: the square root of `Var`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import StdDev, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=StdDev("price", name="spread"))
    >>> found["spread"].to_pylist()
    [2.8284271247461903]
    """

    function = "stddev_samp"


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


class _OfExtreme(OfRow):
    by: str = ""
    paths = ("column", "by")

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        by = kinds[self.by]
        return kinds[str(self.column)] if _ordered(by) or pa.types.is_null(by) else None


@public("muntin")
@dataclasses.dataclass(frozen=True)
class ArgMin(_OfExtreme):
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
class ArgMax(_OfExtreme):
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
class Quantile(Aggregate):
    """The value below which a share of the values that are not NULL lie, float64; NULL where there are none.

    Exact, between two values by linear interpolation, as Spark's ``percentile`` and DuckDB's ``quantile_cont``. NaN is
    above all other values.

    Parameters
    ----------
    q : float
        The share, from 0 to 1: 0.5 for the median.

    Raises
    ------
    PredicateError
        If it is no such number, too.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Quantile, join
    >>> bids = pa.table({"venue": ["x"]})
    >>> asks = pa.table({"venue": ["x", "x", "y"], "price": [3, 7, 9], "size": [1, 3, 1]})
    >>> found = join(bids, asks, "venue", form="aggregate", aggregates=Quantile("price", 0.5, name="median"))
    >>> found["median"].to_pylist()
    [5.0]
    """

    q: float
    function = "percentile"
    _more = ("q",)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = isinstance(self.q, (int, float)) and not isinstance(self.q, bool)
        if not plain or not 0 <= self.q <= 1:
            raise PredicateError(f"q of Quantile must be a number from 0 to 1, not {self.q!r}")

    @property
    def _call(self) -> str:
        return f"{self.function}({self.column}, {self.q})"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return pa.float64() if _number(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("each_value",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.quantiles(self.q, kinds[str(self.column)], *held["each_value"])


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Collect(OfRow):
    """A list of the values, of any type, that are not NULL, by event time, then by arrival, and without event times by
    arrival; empty where there are none.

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
        kind = pa.list_(kinds[str(self.column)])
        try:
            check_type(kind)
        except pa.ArrowException as error:
            raise KeyTypeError(
                f"there are no lists of column {self.column!r} of type {kinds[str(self.column)]} in pyarrow "
                f"{pa.__version__} ({error}): cast it to a plain type"
            ) from error
        return kind

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("each",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> Any:
        starts, words = held["each"]
        return starts, words.reshape(-1, 3)[:, 2]


#: The functions: of texts and of what `Aggregate.to_dict` gives.
_KINDS: dict[str, type[Aggregate]] = {
    "count": Count, "sum": Sum, "min": Min, "max": Max, "avg": Mean, "mean": Mean, "weighted_avg": Mean, "vwap": Mean,
    "var_samp": Var, "variance": Var, "var": Var, "stddev_samp": StdDev, "stddev": StdDev, "first": First,
    "last": Last, "arg_min": ArgMin, "min_by": ArgMin, "arg_max": ArgMax, "max_by": ArgMax, "percentile": Quantile,
    "quantile": Quantile, "collect_list": Collect, "collect": Collect,
}  # fmt: skip
_TEXT = re.compile(
    r"\s*(\w+)\s*\(\s*([^()]*?)\s*\)\s*(?:filter\s*\(\s*where\s+(.*?)\)\s*)?"
    r"(?:within\s*\(([^(),]*),([^(),]*)\)\s*)?((?<=[\s)])include\s+prevailing\b\s*)?(?:(?<=[\s)])as\s+(\S+)\s*)?",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"-?[0-9.]*[0-9]")


def aggregate_from_dict(data: dict[str, Any]) -> Aggregate:
    """What `Aggregate.to_dict` gave. Raises KeyError, TypeError for anything else."""
    more = dict(data)
    kind = _KINDS[more.pop("function")]
    if isinstance(more.get("filter"), dict):
        more["filter"] = from_dict(more["filter"])
    return kind(**more)


def open_aggregates(given: Any) -> tuple[Aggregate, ...]:
    """Aggregates, or their text such as ``"sum(price)"``, ``"count(*)"``, ``"avg(price) as mean"``, ``"arg_max(venue,
    price)"`` or ``"sum(size) filter (where venue = 'X')"``.

    Raises
    ------
    PredicateError
        If one is neither.
    """
    if isinstance(given, (str, Aggregate)):
        given = (given,)
    return tuple(each if isinstance(each, Aggregate) else _parsed(each) for each in given)


def _arguments(function: str, kind: type[Aggregate]) -> list[str]:
    """What the text of a function has in its brackets."""
    weighed = function in ("weighted_avg", "vwap")
    return [what for what in (*kind.paths, *kind._more) if what != "weight" or weighed]


def _parsed(text: Any) -> Aggregate:
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    function = found[1].lower() if found else ""
    kind = _KINDS.get("quantile" if function == "median" else function)
    if found is not None and kind is not None:
        given = [each.strip() for each in found[2].split(",")]
        if kind is Count and given[0] in ("", "*", "1"):
            given = []
        elif function == "median":
            given.append("0.5")
        names = _arguments(function, kind)
        whole = len(given) == len(names) or (kind is Count and not given)
        if whole and all(
            each not in ("", "*", "1") or what in kind._more for each, what in zip(given, names, strict=False)
        ):
            options: dict[str, Any] = dict(zip(names, given, strict=False))
            if all(_NUMBER.fullmatch(options[what]) for what in kind._more):
                options |= {what: float(options[what]) for what in kind._more}
                within = None if found[4] is None else tuple(_end(each) for each in found.groups()[3:5])
                options |= {"within": within, "prevailing": found[6] is not None}
                return kind(**options, filter=found[3] and found[3].strip(), name=found[7])
    raise PredicateError(
        f"{text!r} is no aggregate: use count(*), count(column), {', '.join(_forms())}; behind it 'filter (where "
        "condition)' for some rows alone, 'within (low, high)' for a window of its own, 'include prevailing' for the "
        "row before it too, 'as name' where it is to have another name"
    )


def _end(text: str) -> Any:
    """An end of a window, by its text."""
    text = text.strip().strip("'")
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text or None


def _forms() -> list[str]:
    """A text of each function, without other names for the same."""
    told: dict[tuple[Any, ...], str] = {}
    for function, kind in _KINDS.items():
        arguments = _arguments(function, kind)
        told.setdefault((kind, *arguments), f"{function}({', '.join(arguments)})")
    return [*list(told.values())[1:], "median(column)"]


def result_type(aggregate: Aggregate, kinds: Kinds) -> pa.DataType:
    """The type of an aggregate of columns of these types.

    Raises
    ------
    KeyTypeError
        If there is none.
    """
    kind = aggregate._type(kinds)
    if kind is None:
        told = " and ".join(f"column {path!r} of type {kinds[path]}" for path in aggregate.columns)
        raise KeyTypeError(
            f"there is no {aggregate.function} of {told}: use integers, floats, decimals of at most 38 digits"
            + (", dates or timestamps" if isinstance(aggregate, (_Extreme, _OfExtreme)) else "")
        )
    if isinstance(aggregate, Mean):
        aggregate._check(kinds)
    return kind
