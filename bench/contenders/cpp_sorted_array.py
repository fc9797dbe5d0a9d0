"""The honest peer: a sorted array per stream, in C++, on one core."""

from __future__ import annotations

import ctypes

import numpy as np

from bench.contenders.contender import Contender, Pairs
from bench.contenders.cpp_library import cpp_library
from bench.workloads import Batch, Workload


class CppSortedArray(Contender):
    """``bench/cpp/sorted_array_join.cpp``, compiled with ``-O3 -march=native``: see there how it works.

    Raises
    ------
    Unavailable
        There is no C++ compiler.
    """

    name = "cpp"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._library = cpp_library()
        low, high = workload.band
        rows = 0 if workload.timed else workload.window
        self._join = self._library.saj_new(
            workload.dtype.itemsize, low, high, rows, rows, workload.timed, -workload.window, workload.window
        )
        self._parts = np.zeros(3)

    def load(self, left: Batch, right: Batch) -> None:
        for side, batch in enumerate((left, right)):
            keys, times = _pointers(batch)
            if self._library.saj_load(self._join, side, keys, times, len(batch)) != 0:
                raise MemoryError("the C++ peer ran out of memory or of row numbers")

    def step(self, left: Batch, right: Batch) -> Pairs:
        left_keys, left_times = _pointers(left)
        right_keys, right_times = _pointers(right)
        count = self._library.saj_step(
            self._join,
            left_keys,
            left_times,
            len(left),
            right_keys,
            right_times,
            len(right),
            self._parts.ctypes.data,
        )
        if count < 0:
            raise MemoryError("the C++ peer ran out of memory or of row numbers")
        return Pairs(left=self._pairs(0, count), right=self._pairs(1, count))

    def _pairs(self, side: int, count: int) -> np.ndarray:
        address = self._library.saj_pairs(self._join, side)
        if count == 0:
            return np.empty(0, np.int64)
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (count,))

    def parts(self) -> dict[str, float]:
        return dict(zip(("sort", "probe", "insert"), self._parts.tolist(), strict=True))

    def memory(self) -> dict[str, int]:
        entry = self.workload.dtype.itemsize + 4
        rows = sum(self._library.saj_size(self._join, side) for side in (0, 1))
        return {"used": 2 * entry * rows}  # window and spare

    def close(self) -> None:
        self._library.saj_free(self._join)
        self._join = None


def _pointers(batch: Batch) -> tuple[int, int | None]:
    for array in (batch.keys, batch.times):
        if array is not None and not array.flags.c_contiguous:
            raise ValueError("the C++ peer takes contiguous arrays")
    return batch.keys.ctypes.data, None if batch.times is None else batch.times.ctypes.data
