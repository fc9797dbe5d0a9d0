"""Aggregates of the values of a column: what ``form="aggregate"`` gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from muntin.host.aggregates import values
from muntin.host.aggregates.aggregate import Aggregate, Held, Kinds, is_number, is_ordered
from muntin.host.errors import KeyTypeError, PredicateError
from muntin.host.public import public


def _within(path: str, kind: pa.DataType, limit: Callable[[pa.DataType], int]) -> dict[str, tuple[int, int, str]]:
    if not pa.types.is_decimal(kind):
        return {}
    most = limit(kind)
    return {path: (-most, most, f"only those of at most {len(str(most))} digits are sure to fit it")}


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
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and is_number(kind)):
            return values.sum_type(kind)
        return pa.float64() if pa.types.is_floating(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some", *values.sum_folds(kinds[str(self.column)]))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.sums(out, held)

    def _ends(self, kinds: Kinds) -> dict[str, tuple[int, int, str]]:
        return _within(str(self.column), kinds[str(self.column)], values.sum_limit)


class Extreme(Aggregate):
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return kind if is_ordered(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        wide = values.is_wide(kinds[str(self.column)]) and not pa.types.is_uint64(kinds[str(self.column)])
        return ("some", self.function + ("_wide" if wide else ""))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        codes = held[self._folds(kinds)[1]]
        return values.extremes(~codes if self.function == "max" else codes, kinds[str(self.column)], held["some"] > 0)


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Min(Extreme):
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
class Max(Extreme):
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
        if not all(is_number(kind) or pa.types.is_null(kind) for kind in kinds.values()):
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
        return pa.float64() if is_number(kind) or pa.types.is_null(kind) else None

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
        return pa.float64() if is_number(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("each_value",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.quantiles(self.q, kinds[str(self.column)], *held["each_value"])
