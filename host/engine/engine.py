"""What the operator asks of an engine."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator

import numpy as np

from host.engine.batch import Batch, Counts, OrderedPairs, Pairs
from host.errors import CapacityError

SIDES = ("left", "right")
OTHER = {"left": "right", "right": "left"}


@dataclasses.dataclass(frozen=True)
class EngineSpec:
    """What an engine must know of a query.

    Attributes
    ----------
    counts : dict of str to int, or None
        Rows of the window of each side, for count windows.
    within : tuple of int, or None
        ``(low, high)`` of ``right_time - left_time``, for time windows.
    delay : int
        How far a row may come after a newer one, as far as known.
    capacity : int or None
        Rows kept per side at most, for time windows.
    order : str
        Of the pairs, as `JoinSpec` has it. An engine that cannot put them in order gives `Pairs`, and the operator
        sorts them.
    """

    counts: dict[str, int] | None
    within: tuple[int, int] | None
    delay: int = 0
    capacity: int | None = None
    order: str = "none"


def beyond_capacity(side: str, rows: int, capacity: int) -> CapacityError:
    """The error of a time window that would hold more rows than declared."""
    return CapacityError(
        f"the {side} window would hold {rows} rows, above the declared capacity of {capacity}: "
        "raise the capacity, shorten the window or give a watermark",
        rows,
        capacity,
    )


class Engine(abc.ABC):
    """Turns sequenced batches of encoded keys into row-number pairs, on one device, for one join.

    Attributes
    ----------
    spec : EngineSpec
    seconds : dict of str to float
        Time per step.
    probed_runs : int
        Runs probed, summed over probe commands; 0 where there are no runs.
    """

    spec: EngineSpec
    seconds: dict[str, float]
    probed_runs: int = 0

    @property
    @abc.abstractmethod
    def device_bytes(self) -> int:
        """Device memory taken by both windows."""

    @abc.abstractmethod
    def stored_rows(self, side: str) -> int:
        """Rows of a side that lie on the device."""

    @abc.abstractmethod
    def oldest_row(self, side: str) -> int | None:
        """The oldest row number of a side on the device, or None. For time windows."""

    @abc.abstractmethod
    def make_room(self, new_rows: dict[str, int]) -> None:
        """Makes sure that a call's rows fit, before anything is applied.

        Raises
        ------
        CapacityError
            If they do not.
        """

    @abc.abstractmethod
    def process(
        self,
        batches: dict[str, Batch],
        opposite: dict[str, np.ndarray],
        arrived: dict[str, int],
        *,
        counting: bool = False,
    ) -> Iterator[Pairs | OrderedPairs | Counts]:
        """Joins and stores the rows of one call.

        Parameters
        ----------
        batches : dict of str to Batch
            One for each side.
        opposite : dict of str to ndarray of int64
            For every row of the call, whether joined or not, how many rows of the other stream arrived before it.
        arrived : dict of str to int
            Rows of each stream after this call, whether joined or not.
        counting : bool
            Count the pairs instead.

        Yields
        ------
        Pairs or OrderedPairs, or Counts when counting
            The former in no particular order. All must be taken.

        Raises
        ------
        IncompleteError
            After the last of them, if the device lost some.
        """

    @abc.abstractmethod
    def expire_times(self, last_useless: dict[str, int | None]) -> None:
        """Drops rows with a time at or before a limit (None: none), or some of them: whole runs, or the oldest."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the device holds. Idempotent."""
