"""A store of sorted runs on a device: what `sorted_runs` keeps a window in.

The window's index schedules `merge`, `probe`, `gather` (or `count`) and `drop` on it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

SOME_RUNS = 128  # that a store is opened for if nobody says


@dataclasses.dataclass
class Run:
    """A sorted run on a device; its owner is the store that made it.

    Attributes
    ----------
    length : int
        Rows, at least 1.
    handle : object
        The store's own.
    """

    length: int
    handle: Any


@dataclasses.dataclass(frozen=True)
class Reservation:
    """What a `RunStore` takes when it is opened, known without opening it.

    Attributes
    ----------
    nbytes : int
        Device memory.
    max_run_rows : int or None
        As of `RunStore`.
    """

    nbytes: int
    max_run_rows: int | None = None

    def close(self) -> None:
        """Does nothing: nothing was taken."""


@dataclasses.dataclass
class Limits:
    """Which stored rows each probe may meet: ``first <= row < first + span``, row numbers modulo 2**32.

    Attributes
    ----------
    first, span : ndarray of uint32, shape (n,)
    runs : ndarray of bool, shape (number of probed runs,)
        The runs that need the check; the others lie inside the limits of every probe.
    """

    first: np.ndarray
    span: np.ndarray
    runs: np.ndarray


@dataclasses.dataclass
class Probe:
    """The answer to a probe command, kept on the device until it is gathered or counted.

    Attributes
    ----------
    probes : int
        Number n of probes.
    runs : list of Run
    candidates : int
        Pairs before any limits.
    handle : object
        The store's own.
    """

    probes: int
    runs: list[Run]
    candidates: int
    handle: Any


class RunStore(abc.ABC):
    """Sorted runs of one side of one join.

    Keys have one width; row numbers are the low 32 bits of the rows' arrival numbers. Within a run, equal keys
    stand in no particular order.

    Attributes
    ----------
    key_bits : int
        32 or 64.
    granule : int
        Every run takes room for a multiple of this many rows.
    capacity_rows : int
        Rows that all runs together may hold, the output of a merge included. There is room beside them to round up as
        many runs as the store was opened for; what more runs are padded with counts as rows.
    nbytes : int
        Device memory taken, all of it from the start or from the last `grow`.
    max_run_rows : int or None
        Rows of the longest run it can make; None for any number.
    """

    key_bits: int
    granule: int = 1
    max_run_rows: int | None = None
    capacity_rows: int
    nbytes: int

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """int32 or int64."""
        return np.dtype(np.int32 if self.key_bits == 32 else np.int64)

    @abc.abstractmethod
    def grow(self, rows: int) -> None:
        """Makes room for `rows` rows in all, runs kept. Raises CapacityError, and changes nothing, if it cannot."""

    @abc.abstractmethod
    def load(self, keys: np.ndarray, rows: np.ndarray) -> Run:
        """Stores ascending keys, shape (n,), n >= 1, with their row numbers (uint32) as a run."""

    @abc.abstractmethod
    def merge(self, older: Run, newer: Run) -> Run:
        """Merges two runs into one and frees both."""

    @abc.abstractmethod
    def drop(self, run: Run) -> None:
        """Frees a run."""

    @abc.abstractmethod
    def probe(self, runs: list[Run], lower: np.ndarray, upper: np.ndarray) -> Probe:
        """Finds, for each probe and run, the range of keys with ``lower <= key <= upper``.

        Both bounds ascend, shape (n,), n >= 1, of `key_dtype`, and ``lower <= upper``.
        """

    @abc.abstractmethod
    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs of a probe, in blocks.

        Parameters
        ----------
        probe : Probe
            The latest of this store.
        numbers : ndarray of int64, shape (n,)
            Arrival number of each probing row.
        base : int
            An arrival number at or before all rows of the probed runs, and less than 2**32 before any.
        limits : Limits, optional

        Yields
        ------
        probing, stored : ndarray of int64, shape (m,)
            Arrival numbers of the two rows of each pair.
        """

    @abc.abstractmethod
    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        """Pairs of each probe, int64, shape (n,)."""

    def probe_pairs(
        self,
        runs: list[Run],
        lower: np.ndarray,
        upper: np.ndarray,
        numbers: np.ndarray,
        base: int,
        limits: Limits | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs of probes, as by `probe` and then `gather`; for stores that need no ranges in between."""
        probe = self.probe(runs, lower, upper)
        return self.gather(probe, numbers, base, limits) if probe.candidates else iter(())

    def probe_counts(
        self, runs: list[Run], lower: np.ndarray, upper: np.ndarray, limits: Limits | None = None
    ) -> np.ndarray:
        """Pairs of each probe, as by `probe` and then `count`; for stores that need no ranges in between."""
        return self.count(self.probe(runs, lower, upper), limits)

    @abc.abstractmethod
    def close(self) -> None:
        """Frees everything, once the commands under way have ended. Idempotent; done also when the store is dropped."""
