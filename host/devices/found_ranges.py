"""What a probe command found in one run."""

from __future__ import annotations

import dataclasses

import numpy as np

from muntin.host.devices.lane_run import LaneRun


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
