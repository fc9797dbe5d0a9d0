"""Aggregates as exact numbers, a row at a time."""

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from muntin import ArgMax, ArgMin, Collect, Count, First, Last, Max, Mean, Min, Quantile, StdDev, Sum, Var

NUMBER = "#"  # of the column of arrival numbers in what a row has met


def numbered(rows: list[dict], first: int) -> list[dict]:
    """Rows with the numbers of their arrival."""
    return [{**row, NUMBER: first + at} for at, row in enumerate(rows)]


def _place(value: object) -> tuple:
    return isinstance(value, float) and math.isnan(value), value


def passing(
    aggregate: object, met: list[dict], filters: dict[str, Callable[[dict], bool]], time: str | None, own: tuple | None
) -> list[dict]:
    """The rows that a filter and a window leave, in the order of their arrival."""
    if aggregate.within is not None:
        side, at = own
        low, high = aggregate.within
        apart = lambda row: row[time] - at if side == "left" else at - row[time]  # noqa: E731
        met = [row for row in met if (low is None or low <= apart(row)) and (high is None or apart(row) <= high)]
    of = met if aggregate.filter is None else [row for row in met if filters[aggregate.filter](row)]
    return sorted(of, key=lambda row: row.get(NUMBER, 0))


def expected(aggregate: object, met: list[dict], time: str | None) -> object:
    """One aggregate of these rows, exact."""
    if aggregate.column is None:
        return len(met)
    if isinstance(aggregate, (First, Last, Collect)):
        met = sorted(met, key=lambda row: 0 if time is None else row[time])
        if isinstance(aggregate, Collect):
            return [value for row in met if (value := row[aggregate.column]) is not None]
        return met[0 if isinstance(aggregate, First) else -1][aggregate.column] if met else None
    if isinstance(aggregate, (ArgMin, ArgMax)):
        met = [row for row in met if row[aggregate.by] is not None]
        choose = min if isinstance(aggregate, ArgMin) else max
        return choose(met, key=lambda row: _place(row[aggregate.by]))[aggregate.column] if met else None
    values = [row[aggregate.column] for row in met if row[aggregate.column] is not None]
    if isinstance(aggregate, Count):
        return len(values)
    if isinstance(aggregate, (Min, Max)):
        return (min if isinstance(aggregate, Min) else max)(values, key=_place) if values else None
    if isinstance(aggregate, Quantile):
        if not values:
            return None
        place = (len(values) - 1) * aggregate.q
        low, high = (sorted(values, key=_place)[at] for at in (math.floor(place), math.ceil(place)))
        if place == math.floor(place):
            return low if isinstance(low, float) else Fraction(low)
        if not (math.isfinite(low) and math.isfinite(high)):
            return (1 - place % 1) * float(low) + place % 1 * float(high)
        return Fraction(low) + (Fraction(high) - Fraction(low)) * (Fraction(place) - math.floor(place))
    weights = [1] * len(values)
    if isinstance(aggregate, Mean) and aggregate.weight is not None:
        given = [(row[aggregate.column], row[aggregate.weight]) for row in met]
        both = [pair for pair in given if None not in pair]
        values, weights = [value for value, _ in both], [weight for _, weight in both]
    finite = all(not isinstance(value, float) or math.isfinite(value) for value in (*values, *weights))
    if isinstance(aggregate, (Var, StdDev)):
        if len(values) < 2:
            return None
        if not finite:
            return math.nan
        values = [Fraction(value) for value in values]
        mean = sum(values) / len(values)
        return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    if not values:
        return None
    if not finite:
        with np.errstate(invalid="ignore"):
            total = np.sum(np.array(values, np.float64) * np.array(weights, np.float64))
            return float(total / (1 if isinstance(aggregate, Sum) else np.sum(np.array(weights, np.float64))))
    total = sum(Fraction(value) * Fraction(weight) for value, weight in zip(values, weights, strict=True))
    count = sum(map(Fraction, weights))
    return total if isinstance(aggregate, Sum) else total / count if count else None


def _error(aggregate: object, met: list[dict], want: Fraction) -> Fraction:
    """How far float64 may be off."""
    if isinstance(aggregate, Quantile):
        given = [row[aggregate.column] for row in met if row[aggregate.column] is not None]
        return max(abs(Fraction(value)) for value in given if math.isfinite(value)) * Fraction(2) ** -50
    weight = getattr(aggregate, "weight", None)
    rows = [row for row in met if row[aggregate.column] is not None and (weight is None or row[weight] is not None)]
    values = [Fraction(row[aggregate.column]) for row in rows]
    if isinstance(aggregate, (Var, StdDev)):
        squares = sum(value**2 for value in values) / (len(values) - 1)
        plain = all(isinstance(row[aggregate.column], float) for row in rows)  # others may have more than 53 bits
        return abs(want) * Fraction(2) ** -50 + squares * Fraction(2) ** (-104 if plain else -50) * len(values) ** 2
    if weight is not None:
        weights = [Fraction(row[weight]) for row in rows]
        products = sum(abs(value * w) for value, w in zip(values, weights, strict=True))
        return (products + abs(want) * sum(map(abs, weights))) / abs(sum(weights)) * Fraction(2) ** -49
    scale = sum(map(abs, values)) / (1 if isinstance(aggregate, Sum) else len(values))
    return scale * Fraction(2) ** -51


def assert_same(
    aggregate: object, got: object, met: list[dict], filters: dict[str, Callable[[dict], bool]] | None = None,
    time: str | None = None, own: tuple | None = None,
) -> None:  # fmt: skip
    """Checks one aggregate of the rows that a row has met; `time` is the column of event times, if there are any; `own`
    the row's side and time."""
    met = passing(aggregate, met, filters or {}, time, own)
    want = expected(aggregate, met, time)
    told = f"{aggregate.output} of {[row[aggregate.column] for row in met] if aggregate.column else len(met)}: {got}"
    if want is None or got is None:
        assert got is want is None, told
    elif isinstance(aggregate, (First, Last, ArgMin, ArgMax, Collect)):
        assert repr(got) == repr(want), told
    elif isinstance(want, Fraction) and isinstance(got, float):
        found = Fraction(got) ** 2 if isinstance(aggregate, StdDev) else Fraction(got)
        assert abs(found - want) <= _error(aggregate, met, want), told
    elif isinstance(aggregate, Mean) and isinstance(got, decimal.Decimal):
        digits = 10 ** -got.as_tuple().exponent
        half_up = math.floor(abs(want) * digits + Fraction(1, 2))
        assert Fraction(got) * digits == (half_up if want >= 0 else -half_up), told
    elif isinstance(want, float) and math.isnan(want):
        assert math.isnan(got), told
    else:
        assert Fraction(got) == want if isinstance(want, Fraction) else got == want, told
