"""Runs on the lanes of a board, and what is found in them."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class FoundRanges:
    """Where some probes, one behind the other, start and stop in one run, or in a lane's part of it.

    Attributes
    ----------
    number : int
        Of the run, among those that were probed.
    run : LaneRun
    first : int
        The first of the probes; those that are not here find nothing.
    starts, stops : ndarray of uint32, shape (m,)
        Positions.
    """

    number: int
    run: LaneRun
    first: int
    starts: np.ndarray
    stops: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Positions of each probe, int64."""
        return self.stops.astype(np.int64) - self.starts

    @property
    def probes(self) -> slice:
        """Which probes these are."""
        return slice(self.first, self.first + len(self.starts))


@dataclasses.dataclass(eq=False)
class LaneRun:
    """A run in the memory of one lane, or its part there.

    Attributes
    ----------
    lane : int
    length : int
        Rows, at least 1.
    granules : int
        Size of its place in memory; 0 where that is the insertion buffer.
    channel, start : int
        Where that is: the channel, and the granule there.
    """

    lane: int
    length: int
    granules: int = 0
    channel: int = 0
    start: int = 0


@dataclasses.dataclass(eq=False)
class BoardRun:
    """A run on a board: what each lane holds of it.

    Attributes
    ----------
    length : int
        Rows.
    parts : list of LaneRun or None, one for each lane
        None where the run has no key of the lane's range.
    """

    length: int
    parts: list[LaneRun | None]


class KeyCut:
    """Cuts all keys into one range for each lane: lane n has those from ``keys[n - 1]`` to below ``keys[n]``.

    Which keys cut decides how evenly rows are spread over the lanes, and nothing else: every key lies in one range,
    and a lane is asked for all that it may have. A range may be empty, and all rows may lie in one.

    Parameters
    ----------
    keys : ndarray, shape (lanes - 1,)
        Ascending.
    """

    def __init__(self, keys: np.ndarray):
        self.keys = keys

    @classmethod
    def of(cls, keys: np.ndarray, lanes: int) -> KeyCut:
        """Ranges that hold about as many rows each, if all rows are like these: ascending keys, shape (n,), n >= 1."""
        return cls(keys[np.arange(1, lanes) * len(keys) // lanes].copy())

    @property
    def lanes(self) -> int:
        """How many ranges there are."""
        return len(self.keys) + 1

    def rows(self, keys: np.ndarray) -> list[slice]:
        """Which of some rows lie in each range, by their ascending keys."""
        ends = np.searchsorted(keys, self.keys, "left").tolist()
        return [slice(*both) for both in zip([0, *ends], [*ends, len(keys)], strict=True)]

    def probes(self, lower: np.ndarray, upper: np.ndarray) -> list[slice]:
        """Which of some probes may find a row in each range: those with ``lower <= key <= upper`` for any key in it.

        Both bounds ascend, and ``lower <= upper``.
        """
        starts = [0, *np.searchsorted(upper, self.keys, "left").tolist()]
        stops = [*np.searchsorted(lower, self.keys, "left").tolist(), len(lower)]
        return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
