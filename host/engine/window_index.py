"""What the index engine asks of one side's window."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from muntin.host.call import Batch, Counts, Pairs
from muntin.host.sides import Side


@dataclasses.dataclass(frozen=True)
class Extent:
    """Least and greatest row number and time of some rows, all included; times are 0 for count windows."""

    first_row: int
    last_row: int
    first_time: int = 0
    last_time: int = 0

    @classmethod
    def of(cls, batch: Batch) -> Extent:
        """The extent of a batch of at least one row."""
        rows = int(batch.rows.min()), int(batch.rows.max())
        if batch.times is None:
            return cls(*rows)
        return cls(*rows, int(batch.times.min()), int(batch.times.max()))

    def union(self, other: Extent) -> Extent:
        """The extent of the rows of both."""
        return Extent(
            min(self.first_row, other.first_row),
            max(self.last_row, other.last_row),
            min(self.first_time, other.first_time),
            max(self.last_time, other.last_time),
        )


@dataclasses.dataclass
class Probes:
    """Rows of one side that probe the other side's window.

    Attributes
    ----------
    side : str
        Where the rows come from.
    lower, upper : ndarray, shape (n,), of the window's key dtype
        Closed intervals of keys, each ascending, ``lower <= upper``.
    rows : ndarray of int64, shape (n,)
        Arrival numbers.
    other_position : ndarray of int64, shape (n,)
        Each may meet the stored rows before this number.
    count : int or None
        And of those only the last so many; None for all.
    """

    side: Side
    lower: np.ndarray
    upper: np.ndarray
    rows: np.ndarray
    other_position: np.ndarray
    count: int | None


Holds = Callable[[Extent], bool | None]
"""Whether all residual conditions hold for the probing rows with all rows of an extent (True), with none of them
(False), or with some, so that each pair has to be looked at (None)."""


class WindowIndex(abc.ABC):
    """One side's window: finds rows by key from when they are inserted until they expire.

    Attributes
    ----------
    seconds : dict of str to float
        Time per step.
    probed_runs : int
        Runs probed, summed over probe commands; 0 where there are no runs.
    """

    seconds: dict[str, float]
    probed_runs: int = 0

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Memory of the device that it takes."""

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Rows stored."""

    @property
    @abc.abstractmethod
    def oldest_row(self) -> int | None:
        """The least row number stored, or None."""

    @abc.abstractmethod
    def make_room(self, new_rows: int) -> None:
        """Makes sure that so many rows fit. Raises CapacityError, and changes nothing, if they do not."""

    @abc.abstractmethod
    def insert(self, batch: Batch) -> list[Batch]:
        """Stores rows, which can be probed from now on.

        Returns
        -------
        list of Batch
            The same rows in one or several parts, each in the order of its keys: what probes the other window.
        """

    @abc.abstractmethod
    def probe(self, probes: Probes, holds: Holds, *, counting: bool) -> Iterator[tuple[Pairs | Counts, bool]]:
        """The pairs of some probes, in blocks and in no particular order.

        Yields
        ------
        found : Pairs, or Counts when counting
            Pairs when counting too, where the residual conditions have to be looked at.
        sure : bool
            The residual conditions hold for all of them; always for `Counts`.
        """

    @abc.abstractmethod
    def settle(self) -> None:
        """Tidies up after the rows that were inserted have probed: merges."""

    @abc.abstractmethod
    def expire_rows(self, before: int) -> None:
        """Drops rows before a number, as far as that is cheap: whole runs, or the oldest."""

    @abc.abstractmethod
    def expire_times(self, through: int) -> None:
        """Drops rows with a time at or before a limit, as far as that is cheap."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the device holds. Idempotent."""
