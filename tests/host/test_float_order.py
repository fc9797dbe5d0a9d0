import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.host.keys.key_type import decode_float, encode_float


@pytest.mark.parametrize("width", [32, 64])
@given(data=st.data())
def test_order_and_round_trip(width, data):
    floats = st.floats(width=width, allow_nan=False)
    a, b = (np.array([data.draw(floats)], f"f{width // 8}") for _ in range(2))
    code_a, code_b = encode_float(a), encode_float(b)
    assert code_a.dtype.itemsize == width // 8
    assert (code_a[0] < code_b[0]) == (a[0] < b[0])
    assert (code_a[0] == code_b[0]) == (a[0] == b[0])  # -0.0 and 0.0 too
    assert decode_float(code_a)[0] == a[0]
