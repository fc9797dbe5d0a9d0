"""Event times of the stored rows of one side, by row number."""

from __future__ import annotations

import numpy as np


class RowTimes:
    """A growing column of times that is cut off at the front.

    Attributes
    ----------
    end : int
        One past the last row number put.
    """

    def __init__(self) -> None:
        self._base = 0
        self.end = 0
        self._times = np.zeros(1024, np.int64)

    def put(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Stores times, shape (n,), of ascending row numbers past all earlier ones."""
        if self.end == self._base:
            self._base = self.end = int(rows[0])
        end = int(rows[-1]) + 1
        if end - self._base > len(self._times):
            grown = np.zeros(max(2 * len(self._times), end - self._base), np.int64)
            grown[: self.end - self._base] = self._times[: self.end - self._base]
            self._times = grown
        self._times[rows - self._base] = times
        self.end = end

    def get(self, rows: np.ndarray) -> np.ndarray:
        """The times of rows that were put and not trimmed."""
        return self._times[rows - self._base]

    def trim(self, oldest: int) -> None:
        """Forgets the rows before `oldest`; the space is given back once it is half of all."""
        oldest = min(oldest, self.end)
        useless = oldest - self._base
        if useless <= 0 or (2 * useless < len(self._times) and oldest < self.end):
            return
        kept = self._times[useless : self.end - self._base].copy()
        self._times = np.zeros(max(1024, 2 * len(kept)), np.int64)
        self._times[: len(kept)] = kept
        self._base = oldest
