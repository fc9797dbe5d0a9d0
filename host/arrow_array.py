"""NumPy arrays in Arrow's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def empty_array(length: int, dtype: Any) -> np.ndarray:
    """An uninitialised array, shape (length,), that Arrow's memory pool holds.

    The pool keeps the pages of what was freed, so that arrays as large as a result need not be faulted in again for
    every call; for results of tens of megabytes that is most of the time.
    """
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(length * kind.itemsize), kind)
