"""Conditions on pairs beside the one that is indexed."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from muntin.host.call import Batch
from muntin.host.engine.window_index import Extent
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import OTHER, SIDES, Side

_INT64 = np.iinfo(np.int64)


class Residual(abc.ABC):
    """A condition that the pairs found by an index must satisfy too."""

    @abc.abstractmethod
    def put(self, side: Side, batch: Batch) -> None:
        """Learns what it must know of the rows of one side, before they probe or are stored."""

    @abc.abstractmethod
    def holds(self, side: Side, probing: Extent, stored: Extent) -> bool | None:
        """Whether it holds for all pairs of some rows of `side` with some rows of the other one (True), for none of
        them (False), or must be asked of each (None)."""

    @abc.abstractmethod
    def keep(self, side: Side, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """For which pairs it holds.

        Parameters
        ----------
        side : str
            Of the rows that probe.
        probing, stored : ndarray of int64, shape (m,)
            Arrival numbers within their streams.

        Returns
        -------
        ndarray of bool, shape (m,)
        """

    @abc.abstractmethod
    def trim(self, side: Side, oldest: int) -> None:
        """Forgets the rows of a side before a number; no pair will hold them."""


class TimeWindow(Residual):
    """``low <= right_time - left_time <= high``.

    Parameters
    ----------
    low, high : int
    shared : bool
        Both sides are one stream, whose times are kept once.
    """

    def __init__(self, low: int, high: int, *, shared: bool = False):
        self._within = {"left": (low, high), "right": (-high, -low)}  # of stored time less probing time
        left = RowColumn()
        self._times = {"left": left, "right": left if shared else RowColumn()}

    @property
    def nbytes(self) -> int:
        """Bytes of the times kept."""
        return sum(times.nbytes for times in {id(times): times for times in self._times.values()}.values())

    def times(self, side: Side, rows: np.ndarray) -> np.ndarray:
        """The times of rows of a side that were put and not trimmed."""
        return self._times[side].get(rows)

    def put(self, side: Side, batch: Batch) -> None:
        assert batch.times is not None
        self._times[side].put(batch.rows, batch.times)

    def holds(self, side: Side, probing: Extent, stored: Extent) -> bool | None:
        low, high = self._within[side]
        if stored.last_time < probing.first_time + low or stored.first_time > probing.last_time + high:
            return False
        if stored.first_time >= probing.last_time + low and stored.last_time <= probing.first_time + high:
            return True
        return None

    def keep(self, side: Side, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        low, high = self._within[side]
        own, other = self._times[side].get(probing), self._times[OTHER[side]].get(stored)
        apart = other - own
        if (((other ^ own) & (apart ^ other)) < 0).any():  # some difference does not fit 64 bits
            apart = other.astype(object) - own.astype(object)
            return ((low <= apart) & (apart <= high)).astype(bool)
        return (max(low, _INT64.min) <= apart) & (apart <= min(high, _INT64.max))

    def trim(self, side: Side, oldest: int) -> None:
        self._times[side].trim(oldest)


class RowColumn:
    """What is known of the stored rows of one side, by row number: a growing column that is cut off at the front.

    Parameters
    ----------
    dtype : dtype
        Of its values: int64 for event times.

    Attributes
    ----------
    end : int
        One past the last row number put.
    """

    def __init__(self, dtype: np.dtype[Any] | type = np.int64) -> None:
        self._base = 0
        self.end = 0
        self._values = np.zeros(1024, dtype)

    @property
    def start(self) -> int:
        """The first row number that is kept."""
        return self._base

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self._values.nbytes

    def put(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Stores values, shape (n,), of ascending row numbers past all earlier ones."""
        if self.end == self._base:
            self._base = self.end = int(rows[0])
        end = int(rows[-1]) + 1
        if end - self._base > len(self._values):
            grown = np.zeros(max(2 * len(self._values), end - self._base), self._values.dtype)
            grown[: self.end - self._base] = self._values[: self.end - self._base]
            self._values = grown
        self._values[rows - self._base] = values
        self.end = end

    def get(self, rows: np.ndarray) -> np.ndarray:
        """The values of rows that were put and not trimmed."""
        return self._values[rows - self._base]

    def trim(self, oldest: int) -> None:
        """Forgets the rows before `oldest`; the space is given back once it is half of all."""
        oldest = min(oldest, self.end)
        useless = oldest - self._base
        if useless <= 0 or (2 * useless < len(self._values) and oldest < self.end):
            return
        kept = self._values[useless : self.end - self._base].copy()
        self._values = np.zeros(max(1024, 2 * len(kept)), kept.dtype)
        self._values[: len(kept)] = kept
        self._base = oldest


class ResidualPart(Residual):
    """A part of a conjunction that does not drive: it is asked of each pair, by the keys of both its rows.

    Parameters
    ----------
    generator : BoundaryGenerator
        Of the part.
    at : int
        Which of `Batch.others` are its keys.
    shared : bool
        Both sides are one stream with the same keys, which are kept once.
    """

    def __init__(self, generator: BoundaryGenerator, at: int, *, shared: bool = False):
        self.generator = generator
        self._at = at
        self.shared = shared
        left = RowColumn(generator.key_types["left"].dtype)
        right = left if shared else RowColumn(generator.key_types["right"].dtype)
        self._keys = {"left": left, "right": right}

    @property
    def nbytes(self) -> int:
        """Bytes of the keys kept."""
        return sum(keys.nbytes for keys in {id(keys): keys for keys in self._keys.values()}.values())

    def keys(self, side: Side, rows: np.ndarray) -> np.ndarray:
        """The keys of rows of a side that were put and not trimmed."""
        return self._keys[side].get(rows)

    def put(self, side: Side, batch: Batch) -> None:
        self._keys[side].put(batch.rows, batch.others[self._at])

    def holds(self, side: Side, probing: Extent, stored: Extent) -> bool | None:
        return None

    def keep(self, side: Side, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        rows = {side: probing, OTHER[side]: stored}
        return self.generator.matches(*(self._keys[of].get(rows[of]) for of in SIDES))

    def trim(self, side: Side, oldest: int) -> None:
        self._keys[side].trim(oldest)
