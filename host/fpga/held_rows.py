"""What the cores of a SplitJoin kernel hold of one stream in a time window."""

from __future__ import annotations

import numpy as np


class HeldRows:
    """A mirror of one stream's rows, as far as the kernel has not dropped them.

    Row n of those that were added is held by core ``n % cores``. A core drops rows at its old end alone: a row that may
    still match keeps all those behind it in its core.

    Parameters
    ----------
    cores, rows : int
        How many cores there are, and how many rows of a stream each has room for.

    Attributes
    ----------
    end : int
        Rows added.
    """

    def __init__(self, cores: int, rows: int):
        self._cores, self._rows = cores, rows
        self.end = 0
        self._base = 0
        self._oldest = np.arange(cores)  # of each core, the oldest row that it holds, or the next it will
        self._columns = [np.zeros(1024, kind) for kind in (np.int64, np.uint64)]  # arrival numbers, times

    def __len__(self) -> int:
        return int(self._held(0).sum())

    def _held(self, more: int) -> np.ndarray:
        """Rows of each core once so many are added."""
        cores = self._cores
        return -((self._oldest - self.end - more) // cores)

    def fullest(self, more: int) -> int:
        """Rows of the core that holds the most, once so many are added."""
        return int(self._held(more).max())

    @property
    def oldest_row(self) -> int | None:
        """The least arrival number that is held."""
        heads = self._oldest[self._oldest < self.end]
        return int(self._columns[0][heads - self._base].min()) if len(heads) else None

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Adds rows by arrival number, int64, and unsigned time, uint64; there must be room."""
        new = len(rows)
        if self.end - self._base + new > len(self._columns[0]):
            start = min(int(self._oldest.min()), self.end)
            kept = self.end - start
            for at, column in enumerate(self._columns):
                grown = np.zeros(max(1024, 2 * (kept + new)), column.dtype)
                grown[:kept] = column[start - self._base : self.end - self._base]
                self._columns[at] = grown
            self._base = start
        place = self.end - self._base
        for column, values in zip(self._columns, (rows, times), strict=True):
            column[place : place + new] = values
        self.end += new

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Arrival numbers of rows that were held since the last that was added."""
        return self._columns[0][numbers - self._base]

    def drop(self, horizon: int) -> bool:
        """Drops the oldest rows of each core that have an earlier time than this; whether there were any."""
        dropped = False
        while True:
            early = self._oldest < self.end
            times = self._columns[1][self._oldest[early] - self._base]
            early[early] = times <= np.uint64(horizon - 1) if horizon > 0 else False
            if not early.any():
                return dropped
            self._oldest[early] += self._cores
            dropped = True
