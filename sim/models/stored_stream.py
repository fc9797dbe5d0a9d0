"""Model of what all cores of SplitJoin hold of one stream."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class StoredRows:
    """Rows that were stored one behind the other.

    Attributes
    ----------
    key, key_2 : ndarray of uint64, shape (n,)
    number : ndarray of uint32, shape (n,)
    null : ndarray of bool, shape (n,)
    time : ndarray of uint64, shape (n,)
    """

    key: np.ndarray
    number: np.ndarray
    null: np.ndarray
    time: np.ndarray
    key_2: np.ndarray


class StoredStream:
    """The newest rows of a stream, of which row n is kept by core ``n % cores`` in block ``n // cores``.

    Parameters
    ----------
    cores, rows : int
        How many there are, and how many rows each holds.

    Attributes
    ----------
    arrived : int
        Rows since the windows were emptied.
    oldest : ndarray of int64, shape (cores,)
        In a time window, the first block of each core that was not dropped.
    overflow : bool
        Whether a row was dropped before its time.
    """

    def __init__(self, cores: int, rows: int):
        self._cores, self._rows = cores, rows
        self.arrived = 0
        self.oldest = np.zeros(cores, np.int64)
        self.overflow = False
        self._base = 0  # the first row that is kept here
        self._columns = [np.zeros(0, kind) for kind in (np.uint64, np.uint32, np.bool_, np.uint64, np.uint64)]

    def append(self, rows: StoredRows) -> None:
        """Stores rows; those that were in a window until now stay readable."""
        new = len(rows.key)
        if self.arrived - self._base + new > len(self._columns[0]):
            kept = min(self._cores * self._rows, self.arrived - self._base)
            start = self.arrived - self._base - kept
            for at, column in enumerate(self._columns):
                grown = np.zeros(2 * (kept + new), column.dtype)
                grown[:kept] = column[start : start + kept]
                self._columns[at] = grown
            self._base = self.arrived - kept
        place = self.arrived - self._base
        for column, field in zip(self._columns, dataclasses.fields(rows), strict=True):
            column[place : place + new] = getattr(rows, field.name)
        self.arrived += new

    def between(self, start: int, stop: int) -> StoredRows:
        """The rows from `start` to before `stop`."""
        return StoredRows(*(column[start - self._base : stop - self._base] for column in self._columns))

    # Time windows

    def would_overflow(self) -> bool:
        """Whether some core holds more rows than it has room for."""
        ends = (self.arrived - np.arange(self._cores) + self._cores - 1) // self._cores
        return bool((ends - self.oldest > self._rows).any())

    def make_way(self, row: int) -> None:
        """Drops the oldest row of a core that is full, where it stores this row."""
        block, core = divmod(row, self._cores)
        if block - self.oldest[core] >= self._rows:
            self.overflow = True
            self.oldest[core] += 1

    def drops(self, horizon: int) -> bool:
        """Whether some core's oldest row has an earlier time than this."""
        return bool(self._early(horizon, self.arrived).any())

    def expire(self, horizon: int, arrived: int) -> None:
        """Drops the rows at each core's old end, among the first `arrived`, that have an earlier time than this."""
        while (early := self._early(horizon, arrived)).any():
            self.oldest += early

    def _early(self, horizon: int, arrived: int) -> np.ndarray:
        """Which cores have an oldest row with an earlier time."""
        heads = self.oldest * self._cores + np.arange(self._cores)
        early = (heads < arrived) & (horizon > 0)
        early[early] = self._columns[3][heads[early] - self._base] <= np.uint64(max(horizon - 1, 0))
        return early
