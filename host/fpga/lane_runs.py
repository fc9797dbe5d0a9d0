"""Runs of a lane of a BI-Sort kernel: where they are, ranges of them, and places on chip for their indexes."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Collection, Hashable

import numpy as np

from muntin.contract.registers import RUN_PLACES
from muntin.host.memory import Arena


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


class IndexSlots:
    """Places on chip for the indexes of runs; where there is no room, those that were used longest ago go.

    Parameters
    ----------
    entries : int
        There is room for, all indexes together.
    """

    def __init__(self, entries: int):
        self._arena = Arena(entries, 1)
        self._places = list(reversed(range(RUN_PLACES)))  # that are free
        # Place, start and entries of each; used last comes last.
        self._slots: OrderedDict[Hashable, tuple[int, int, int]] = OrderedDict()

    def place(self, run: Hashable, entries: int, keep: Collection[Hashable] = ()) -> tuple[int, int, bool] | None:
        """Where the index of a run stands, or is to be put.

        Parameters
        ----------
        run : Hashable
        entries : int
            Of its index, at most those there is room for.
        keep : collection of Hashable
            Runs whose indexes stay.

        Returns
        -------
        place : int
        start : int
            Its first entry.
        there : bool
            Whether it stands there already.

        None where there is room for it only without one of those to keep.
        """
        if run in self._slots:
            self._slots.move_to_end(run)
            return *self._slots[run][:2], True
        while not self._places or (start := self._arena.take(entries)) is None:
            oldest = next((other for other in self._slots if other not in keep), None)
            if oldest is None:
                return None
            self.forget(oldest)
        place = self._places.pop()
        self._slots[run] = place, start, entries
        return place, start, False

    def forget(self, run: Hashable) -> None:
        """Takes the place of a run's index back, if it has one."""
        if run in self._slots:
            place, start, entries = self._slots.pop(run)
            self._arena.give(start, entries)
            self._places.append(place)
