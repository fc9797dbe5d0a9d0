"""Ranges of a run, as probes find them."""

from __future__ import annotations

import dataclasses

import numpy as np

from muntin.host.devices.lane_commands import LaneRun


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Ranges of one run, none of them empty, with what each probe that has one may meet.

    Attributes
    ----------
    run : LaneRun
    probes : ndarray of int64, shape (m,)
        The probe of each, ascending.
    starts, stops : ndarray of int64, shape (m,)
        Positions in the run.
    limits : ndarray of uint32, shape (m, 2), or None
        First row and span of each.
    """

    run: LaneRun
    probes: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    limits: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.probes)

    @property
    def lengths(self) -> np.ndarray:
        """Positions in each, int64."""
        return self.stops - self.starts

    def part(self, first: int, last: int) -> Ranges:
        """Those from `first` to before `last`."""
        limits = None if self.limits is None else self.limits[first:last]
        return Ranges(self.run, self.probes[first:last], self.starts[first:last], self.stops[first:last], limits)

    def cut(self, most: int) -> Ranges:
        """The same positions in ranges of at most so many."""
        lengths = self.lengths
        if not len(lengths) or lengths.max() <= most:
            return self
        pieces = -(-lengths // most)
        which = np.repeat(np.arange(len(self)), pieces)
        number = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = self.starts[which] + number * most
        stops = np.minimum(starts + most, self.stops[which])
        return Ranges(self.run, self.probes[which], starts, stops, None if self.limits is None else self.limits[which])
