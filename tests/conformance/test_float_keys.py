"""Float keys: bounds are float64 sums as in SQL, NaN matches nothing, the zeros are equal."""

import math

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.small_joins import agree, table

FLOATS = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-300,
    1.0,
    -1.0,
    0.1,
    0.3,
    1e16,
    1e16 + 2,
    1e308,
    -1e308,
    1.7976931348623157e308,
]
FLOATS += [
    math.inf,
    -math.inf,
    math.nan,
    None,
    2.0**53,
    2.0**53 + 2,
    np.nextafter(1.0, 2),
    np.nextafter(1.0, 0),
]
FLOAT_BANDS = [
    (0.0, 0.0),
    (-0.0, 0.0),
    (-5e-324, 5e-324),
    (0.2, 0.2),
    (-1e16, 1e16),
    (1e16, 1e16),
    (1e308, 1e308),
    (1e308, None),
    (None, -1e308),
    (-1.7976931348623157e308, 1.7976931348623157e308),
    (None, None),
    (1.0, 1.0),
    (-1e-17, 1e-17),
    (2.0**53, 2.0**53),
    (-0.1, 0.2),
]


@pytest.mark.parametrize("low_high", FLOAT_BANDS, ids=str)
def test_float_bands(low_high, index, device):
    """Bounds are sums in float64 whichever side probes: they cancel, overflow and round as in SQL."""
    keys = table(FLOATS, pa.float64())
    assert agree(device, ("band", *low_high), [keys, keys], [None, keys], index=index)


@pytest.mark.parametrize("low_high", [(0.1, 0.1), (-0.1, 0.2), (None, 0.1), (1e-46, 1e-46), (-1e39, 1e39)], ids=str)
def test_float32_keys_have_float64_bounds(low_high, index, device):
    values = [0.0, -0.0, 1e-45, -1e-45, 0.1, 0.2, 0.3, 1e38, -1e38, math.inf, -math.inf, math.nan, 16777216.0]
    keys = table(pa.array(np.array(values, np.float32)))
    wide = table(values, pa.float64())
    for one, other in ((keys, keys), (keys, wide), (wide, keys)):
        agree(device, ("band", *low_high), [one, one], [None, other], index=index)


@pytest.mark.parametrize("op", ["<", "<=", "=", "!=", ">=", ">"])
def test_float_compares(op, index, device):
    keys = table(FLOATS, pa.float64())
    assert agree(device, ("compare", op), [keys, keys], [None, keys], index=index)
    union = ("any", [("compare", op), ("band", 0.2, 0.2), ("compare", "=")])
    assert agree(device, union, [keys, keys], [None, keys], index=index)


def test_random_float_bounds_round_the_same_from_both_sides(index, device, seed):
    """Keys on and next to the rounded bound: the sum is l + low in float64, also when the left row probes."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        low, high = np.sort(rng.normal(0, 1, 2) * 10.0 ** rng.integers(-3, 4, 2))
        left = rng.normal(0, 1, 40) * 10.0 ** rng.integers(-8, 9, 40)
        edges = np.concatenate([left + low, left + high])
        right = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        for batches in (
            ([table(left), None], [None, table(right)]),
            ([None, table(left)], [table(right), None]),
        ):
            assert agree(device, ("band", float(low), float(high)), *batches, rows=(500, 500), index=index)


def test_an_infinite_key_meets_an_infinite_key(device):
    keys = table([math.inf, -math.inf, 0.0])
    assert agree(device, ("band", -5, 5), [keys], [keys]) == 3
    # The second band has no value for an infinite key, which must not hide those of the first.
    apart = ("any", [("band", -3, -2), ("band", -0.1, 0, "left")])
    assert agree(device, apart, [keys, None], [None, keys]) == agree(device, apart, [None, keys], [keys, None]) == 2
