"""Aggregates as exact numbers, a row at a time."""

import decimal
import math
from fractions import Fraction

import numpy as np

from muntin import Count, Max, Mean, Min, Sum


def expected(aggregate: object, met: list[dict]) -> object:
    """One aggregate of these rows, exact."""
    if aggregate.column is None:
        return len(met)
    values = [row[aggregate.column] for row in met if row[aggregate.column] is not None]
    if isinstance(aggregate, Count):
        return len(values)
    if not values:
        return None
    if isinstance(aggregate, (Min, Max)):
        choose = min if isinstance(aggregate, Min) else max
        return choose(values, key=lambda v: (isinstance(v, float) and math.isnan(v), v))
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return float(np.sum(np.array(values)))
    total = sum(Fraction(value) for value in values)
    return total if isinstance(aggregate, Sum) else total / len(values)


def assert_same(aggregate: object, got: object, met: list[dict]) -> None:
    want = expected(aggregate, met)
    told = f"{aggregate.output} of {[row[aggregate.column] for row in met] if aggregate.column else len(met)}"
    if want is None or got is None:
        assert got is want is None, told
    elif isinstance(want, Fraction) and isinstance(got, float):
        values = [abs(Fraction(row[aggregate.column])) for row in met if row[aggregate.column] is not None]
        scale = sum(values) / (1 if isinstance(aggregate, Sum) else len(values))
        assert abs(Fraction(got) - want) <= scale * Fraction(2) ** -51, told
    elif isinstance(aggregate, Mean) and isinstance(got, decimal.Decimal):
        digits = 10 ** -got.as_tuple().exponent
        half_up = math.floor(abs(want) * digits + Fraction(1, 2))
        assert Fraction(got) * digits == (half_up if want >= 0 else -half_up), told
    elif isinstance(want, float) and math.isnan(want):
        assert math.isnan(got), told
    else:
        assert Fraction(got) == want if isinstance(want, Fraction) else got == want, told
