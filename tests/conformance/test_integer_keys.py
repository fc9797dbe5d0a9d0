"""Integers and decimals never wrap and never round; bounds beyond them saturate."""

from decimal import Decimal

import pyarrow as pa
import pytest

from muntin import Band
from muntin.host import errors
from tests.conformance.small_joins import BOTTOM, TOP, agree, open_join, table

LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (BOTTOM, TOP),
    "uint64": (0, 2**64 - 1),
}
FAR = [
    (-1, 1),
    (-(2**7), 2**7),
    (2**31, 2**32),
    (-(2**32), -(2**31)),
    (TOP, None),
    (None, BOTTOM),
    (2**63, 2**64 - 1),
    (2**64 - 1, 2**64 - 1),
    (-(2**64) + 1, -(2**63)),
    (-(2**64), 2**64),
    (2**64, None),
    (None, -(2**64)),
    (-(2**70), 2**70),
    (2**70, 2**71),
]


@pytest.mark.parametrize("low_high", FAR, ids=str)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int64", "int64"),
        ("uint64", "uint64"),
        ("uint64", "int64"),
        ("int64", "uint64"),
        ("int32", "int32"),
        ("uint32", "int32"),
        ("int8", "int64"),
        ("uint32", "uint32"),
    ],
)
def test_bounds_beyond_the_keys_saturate(one, other, low_high, index, device_case, device):
    if max(getattr(pa, one)().bit_width, getattr(pa, other)().bit_width) > device_case.key_bits:
        pytest.skip(f"device {device_case.name}: keys of at most {device_case.key_bits} bits")

    def keys(kind):
        low, high = LIMITS[kind]
        middle = (low + high) // 2
        values = [low, low + 1, low + 2, middle - 1, middle, middle + 1, high - 2, high - 1, high]
        return table(sorted({*values, 0, 1}), getattr(pa, kind)())

    agree(device, ("band", *low_high), [None, keys(one)], [keys(other), keys(other)], index=index)


@pytest.mark.parametrize("low_high", [(-1, 1), (2**63, 2**64 - 1), (-(2**64) + 1, -(2**63)), (None, 2**64)], ids=str)
@pytest.mark.parametrize("one", LIMITS)
@pytest.mark.parametrize("other", ["int8", "uint64", "int64"])
def test_sums_do_not_wrap(one, other, low_high, device_case, device):
    if max(getattr(pa, kind)().bit_width for kind in (one, other)) > device_case.key_bits:
        pytest.skip(f"device {device_case.name}: keys of at most {device_case.key_bits} bits")
    left, right = (table([*LIMITS[kind], 0, 1, LIMITS[kind][1] - 1], getattr(pa, kind)()) for kind in (one, other))
    agree(device, ("sum", *low_high), [None, left], [right, right])


@pytest.mark.parametrize("op", ["<", "<=", "=", "!=", ">=", ">"])
def test_compare_at_the_limits(op, index, device):
    keys = table([BOTTOM, BOTTOM + 1, -1, 0, 1, TOP - 1, TOP])
    assert agree(device, ("compare", op), [keys, keys], [keys, None], index=index)


def test_unions_at_the_limits(index, device):
    keys = table([BOTTOM, BOTTOM + 1, -1, 0, 1, TOP - 1, TOP])
    union = ("any", [("band", None, -(2**63)), ("band", 2**63, None), ("band", 0, 0), ("band", -1, 2**64)])
    assert agree(device, union, [keys, keys], [keys, None], index=index)


def test_fractional_bounds_on_whole_keys(index, device):
    keys = table(list(range(-4, 5)))
    for low, high in ((-0.5, 0.5), (0.5, 1.5), (-1.5, None), (None, Decimal("2.000001"))):
        assert agree(device, ("band", low, high), [keys], [keys], index=index)
    # No whole number lies between.
    assert agree(device, ("band", 0.25, 0.75), [keys], [keys], index=index) == 0


def test_decimal_bounds_finer_than_the_keys(index, device):
    keys = table([Decimal(i) / 100 for i in range(-9, 10)], pa.decimal128(12, 2))
    for low, high in (("0.005", "0.015"), ("-0.015", "0.005"), ("0.0199999", None), (None, "-0.0000001")):
        bounds = [bound and Decimal(bound) for bound in (low, high)]
        assert agree(device, ("band", *bounds), [keys], [keys], index=index)


def test_decimals_at_the_limits(index, device):
    top = Decimal(10**18 - 1)
    keys = table([top, -top, Decimal(0), top - 1, 1 - top], pa.decimal128(18, 0))
    for low, high in ((0, 0), (-1, 1), (2 * 10**18 - 2, None), (None, -(10**18)), (10**18, 10**19)):
        agree(device, ("band", low, high), [keys], [keys], index=index)


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(50, 2)], ids=str)
def test_wide_decimals_whose_values_fit(kind, device):
    """A type with more digits than 64 bits hold is refused, or each value that does not fit."""
    keys = table([Decimal("1.01"), Decimal("-3.00"), None, Decimal("92233720368547758.07")], kind)
    predicate = ("band", Decimal("-0.01"), Decimal("4.01"))
    try:
        assert agree(device, predicate, [keys], [keys])
    except errors.KeyTypeError as error:
        assert "k" in str(error)  # noqa: PT017
    with (
        pytest.raises(errors.KeyTypeError, match=r"\bk\b"),
        open_join(device, Band("k", "k", *predicate[1:])) as join,
    ):
        join.process(keys, table([Decimal("92233720368547758.08")], kind))


def test_a_float_bound_on_integer_keys_is_its_exact_value(device):
    left, right = [table([-100])], [table([2**63 - 10, 2**63 - 101, 2**63 - 100])]
    assert agree(device, ("band", None, 2.0**63), left, right) == 2
