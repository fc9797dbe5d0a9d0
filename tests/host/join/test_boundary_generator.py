"""Bounds against the predicate itself, for every stored key and every probe."""

import math
import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AnyOf, Band, Compare
from muntin.host.errors import PredicateError
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.key_type import key_types

PAIRS = [
    (pa.int32(), pa.int32()),
    (pa.int8(), pa.int64()),
    (pa.uint64(), pa.int64()),
    (pa.uint64(), pa.uint64()),
    (pa.uint32(), pa.int16()),
    (pa.float64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.float64(), pa.float32()),
    (pa.float32(), pa.float32()),
    (pa.int32(), pa.float64()),
]


def values_of(kind):
    if pa.types.is_floating(kind):
        edges = [0.0, -0.0, 1.0, 1e-40, -1e-45, 1e30, math.inf, -math.inf]
        return st.one_of(st.sampled_from(edges), st.floats(width=kind.bit_width, allow_nan=False))
    half = 1 << (kind.bit_width - 1)
    low, high = (-half, half - 1) if pa.types.is_signed_integer(kind) else (0, 2 * half - 1)
    return st.one_of(
        st.sampled_from([low, low + 1, high - 1, high]), st.integers(max(low, -9), 9), st.integers(low, high)
    )


def bands(floating):
    if floating:
        ends = st.one_of(st.none(), st.floats(-10, 10), st.floats(allow_nan=False, allow_infinity=False))
    else:
        ends = st.one_of(st.none(), st.integers(-9, 9), st.integers(-(2**66), 2**66))
    ordered = st.tuples(ends, ends).map(lambda e: sorted(e) if None not in e else list(e))
    closed = st.sampled_from(["both", "left", "right", "neither"])
    band = st.tuples(ordered, closed).map(
        lambda drawn: Band("l", "r", *drawn[0], closed="both" if drawn[0][0] == drawn[0][1] else drawn[1])
    )
    return st.one_of(band, st.sampled_from(["=", "<", "<=", ">", ">=", "!="]).map(lambda op: Compare("l", op, "r")))


def holds(predicate, left, right):
    if isinstance(predicate, AnyOf):
        return any(holds(part, left, right) for part in predicate.parts)
    if isinstance(predicate, Compare):
        return {
            "=": left == right, "<": left < right, "<=": left <= right,
            ">": left > right, ">=": left >= right, "!=": left != right,
        }[predicate.op]  # fmt: skip
    above = operator.le if predicate.closed in ("both", "left") else operator.lt
    below = operator.le if predicate.closed in ("both", "right") else operator.lt
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        low = predicate.low is None or above(left + float(predicate.low), right)
        return low and (predicate.high is None or below(right, left + float(predicate.high)))
    return (predicate.low is None or above(predicate.low, right - left)) and (
        predicate.high is None or below(right - left, predicate.high)
    )


@pytest.mark.parametrize("types", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bounds_hold_what_the_predicate_holds(types, data):
    columns = [pa.array(data.draw(st.lists(values_of(t), min_size=1, max_size=12)), t) for t in types]
    predicate = data.draw(bands(any(pa.types.is_floating(t) for t in types)))
    if data.draw(st.booleans()):
        predicate = AnyOf(predicate, data.draw(bands(any(pa.types.is_floating(t) for t in types))))
    left, right = key_types(types[0], "l", types[1], "r")
    generator = BoundaryGenerator(predicate, left, right)
    values = {"left": columns[0].to_pylist(), "right": columns[1].to_pylist()}
    codes = {
        side: kind.encode(pa.chunked_array([c]))[0]
        for side, kind, c in zip(values, (left, right), columns, strict=True)
    }
    for side, other in (("left", "right"), ("right", "left")):
        order = np.argsort(codes[side], kind="stable")
        met = np.zeros((len(order), len(codes[other])), int)
        for bound in generator.bounds(side, codes[side][order]):
            assert bound.lower.dtype == bound.upper.dtype == generator.key_types[other].dtype
            assert (np.diff(bound.lower.astype(object)) >= 0).all()
            assert (np.diff(bound.upper.astype(object)) >= 0).all()
            assert (bound.lower <= bound.upper).all()
            probes = np.arange(len(order)) if bound.probes is None else bound.probes
            for p, low, high in zip(probes, bound.lower, bound.upper, strict=True):
                met[order[p]] += (low <= codes[other]) & (codes[other] <= high)
        for i, mine in enumerate(values[side]):
            for j, theirs in enumerate(values[other]):
                pair = (mine, theirs) if side == "left" else (theirs, mine)
                assert met[i, j] == holds(predicate, *pair), (side, pair, predicate)


def test_a_bound_must_suit_the_type():
    times = key_types(pa.timestamp("us"), "l", pa.timestamp("us"), "r")
    with pytest.raises(PredicateError, match="unit"):
        BoundaryGenerator(Band("l", "r", -5, 5), *times)
    numbers = key_types(pa.int32(), "l", pa.int32(), "r")
    with pytest.raises(PredicateError, match="numbers"):
        BoundaryGenerator(Band("l", "r", "-5 minutes", 0), *numbers)


@pytest.mark.parametrize(
    ("predicate", "kinds", "band"),
    [
        (Band("l", "r", -2, 5), (pa.int32(), pa.int64()), (-2, 5, False)),
        (Band("l", "r", None, 5), (pa.int64(), pa.int64()), (None, 5, False)),
        (Compare("l", "<", "r"), (pa.int64(), pa.int64()), (1, None, False)),
        (Compare("l", "!=", "r"), (pa.int64(), pa.int64()), (0, 0, True)),
        (Compare("l", "=", "r"), (pa.uint32(), pa.int32()), (1 << 31, 1 << 31, False)),
        (Band("l", "r", 0.2, 0.8), (pa.int64(), pa.int64()), (1, 0, False)),
        (AnyOf(Band("l", "r", None, 2), Band("l", "r", 2, 7)), (pa.int64(), pa.int64()), (None, 7, False)),
        (AnyOf(Band("l", "r", None, -3), Band("l", "r", 7, None)), (pa.int64(), pa.int64()), (-2, 6, True)),
        (AnyOf(Band("l", "r", 0, 0), Band("l", "r", 7, None)), (pa.int64(), pa.int64()), None),
        (AnyOf(Band("l", "r", 0, 0), Band("l", "r", 2, 2), Band("l", "r", 4, 4)), (pa.int64(), pa.int64()), None),
        (Band("l", "r", 0, 1), (pa.float64(), pa.float64()), None),
        (Band("l", "r", "0", "1 s"), (pa.timestamp("s"), pa.timestamp("ms")), None),
    ],
)
def test_one_band_for_all(predicate, kinds, band):
    left, right = key_types(kinds[0], "l", kinds[1], "r")
    assert BoundaryGenerator(predicate, left, right).constant_band() == band
