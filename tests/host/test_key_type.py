import decimal

import numpy as np
import pyarrow as pa
import pytest

from muntin.host.errors import KeyTypeError
from muntin.host.keys.key_type import key_type, key_types

EDGES = [
    (pa.int8(), [-128, 0, 127]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.uint8(), [0, 255]),
    (pa.uint32(), [0, 2**31, 2**32 - 1]),
    (pa.uint64(), [0, 2**63, 2**64 - 1]),
    (pa.float16(), np.array([-1, 0, 0.5], np.float16)),
    (pa.float32(), [-3.4e38, -1e-45, 0.0, 1e-45, 3.4e38]),
    (pa.float64(), [float("-inf"), -1.0, 0.0, float("inf")]),
    (pa.date32(), [-(2**31), 0, 2**31 - 1]),
    (pa.timestamp("us"), [-(2**63), 0, 2**63 - 1]),
    (pa.decimal128(18, 2), [decimal.Decimal("-9999999999999999.99"), decimal.Decimal("0.01")]),
]


@pytest.mark.parametrize(("arrow", "values"), EDGES, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
@pytest.mark.parametrize("offset", [0, 2])
def test_codes_ascend_inside_the_domain(arrow, values, offset):
    first = pa.array(values, arrow)
    padded = pa.concat_arrays([first.slice(0, 1)] * offset + [first]).slice(offset)
    kind = key_type(arrow, "k")
    codes, valid = kind.encode(pa.chunked_array([padded]))
    assert valid is None
    assert codes.dtype == kind.dtype
    wide = [int(c) for c in codes]
    assert wide == sorted(set(wide))
    assert kind.minimum <= wide[0] and wide[-1] <= kind.maximum  # noqa: PT018


def test_null_and_nan_are_no_values():
    codes, valid = key_type(pa.float32(), "k").encode(
        pa.chunked_array([[1.0, None], [float("nan"), 2.0]], pa.float32())
    )
    assert len(codes) == 4
    assert valid.tolist() == [True, False, False, True]


def test_decimal_beyond_64_bits_is_named():
    column = pa.chunked_array([[decimal.Decimal(1), decimal.Decimal(2**63)]], pa.decimal128(38, 0))
    with pytest.raises(KeyTypeError, match="9223372036854775808") as error:
        key_type(column.type, "k").encode(column)
    assert error.value.rows == (1,)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.date32()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.string()),
        (pa.decimal128(9, 2), pa.float64()),
    ],
)
def test_what_cannot_be_compared_exactly(left, right):
    with pytest.raises(KeyTypeError, match="'a'"):
        key_types(left, "a", right, "b")
