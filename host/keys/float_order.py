"""IEEE floats as integers of the same width in the same order."""

from __future__ import annotations

import numpy as np


def encode_float(values: np.ndarray) -> np.ndarray:
    """Order-preserving integers: float32 to int32, float64 to int64, shape kept; -0.0 and 0.0 get one code.

    NaN has no place in the order; its code is meaningless.
    """
    integers = np.int32 if values.dtype == np.float32 else np.int64
    bits = (values + values.dtype.type(0)).view(integers)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> (bits.itemsize * 8 - 1)) & np.iinfo(integers).max)


def decode_float(codes: np.ndarray) -> np.ndarray:
    """The inverse of `encode_float`; code -1, which no encoded value has, is -0.0."""
    bits = codes ^ ((codes >> (codes.itemsize * 8 - 1)) & np.iinfo(codes.dtype).max)
    return bits.view(np.float32 if codes.dtype == np.int32 else np.float64)
