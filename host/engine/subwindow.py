"""Subwindows: a window is a ring of them, cut by count or by time.

Source: PanJoin, section III-A and III-G.
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
from collections.abc import Iterator

import numpy as np

from host.devices.device import Run
from host.engine.batch import Batch

# A large count window is cut into few subwindows, as each is one more run to probe in slow memory; a small one into
# more, as a merge needs room for one more subwindow, and the fixed scratch memory of a device weighs more there.
SUBWINDOWS = 2
SMALL_SUBWINDOWS = 3
LARGE_ROWS = 1 << 22
LEAST_ROWS = 1024  # of a subwindow cut by count, or as many as the window has
# And not fewer than this even of a window of one row: each subwindow of a batch is a run to load, to probe and to pad,
# and what lies in it beside the window costs a comparison of row numbers where its key matches.
FEWEST_ROWS = 256
SLICES = 8  # a time window is cut into this many
SPARSE_ROWS = 512  # neighbouring slices with so few rows become one
GROUP_ROWS = 8192  # a batch that spans many slices opens none with fewer rows than this


@dataclasses.dataclass
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
        return Extent(
            min(self.first_row, other.first_row),
            max(self.last_row, other.last_row),
            min(self.first_time, other.first_time),
            max(self.last_time, other.last_time),
        )


@dataclasses.dataclass
class StoredRun:
    """A run on the device and the extent of its rows."""

    run: Run
    extent: Extent


@dataclasses.dataclass
class Subwindow:
    """Rows that expire together.

    Attributes
    ----------
    start, stop : int
        Row numbers (count) or times (time) that belong here, `stop` excluded.
    runs : list of StoredRun
        Oldest first.
    closed : bool
        Its runs were merged into one, as it takes no more rows as a rule.
    """

    start: int
    stop: int
    runs: list[StoredRun] = dataclasses.field(default_factory=list)
    closed: bool = False


class SubwindowRing(abc.ABC):
    """The subwindows of one side, oldest first."""

    def __init__(self) -> None:
        self.subwindows: list[Subwindow] = []

    @abc.abstractmethod
    def cut(self, batch: Batch) -> list[tuple[Subwindow, Batch]]:
        """Splits a batch by subwindow, opening new ones for it; the order of rows within a part is kept."""

    @abc.abstractmethod
    def full(self, subwindow: Subwindow) -> bool:
        """Whether a subwindow has its rows, so that its runs can become one."""

    def most_parts(self, rows: int) -> int:
        """The most parts that `cut` can make of so many rows."""
        return rows

    def sparse(self) -> Iterator[tuple[Subwindow, Subwindow]]:
        """Neighbours, both closed, that had better be one; each pair is joined before the next is asked for."""
        return iter(())

    def runs(self) -> list[StoredRun]:
        """All runs."""
        return [run for subwindow in self.subwindows for run in subwindow.runs]


class CountRing(SubwindowRing):
    """Subwindows of equally many rows.

    Parameters
    ----------
    count : int
        Rows of the window.
    """

    def __init__(self, count: int):
        super().__init__()
        self.count = count
        pieces = SUBWINDOWS if count >= LARGE_ROWS else SMALL_SUBWINDOWS
        self.subwindow_rows = max(-(-count // pieces), min(count, LEAST_ROWS), FEWEST_ROWS)
        self.arrived = 0

    def cut(self, batch: Batch) -> list[tuple[Subwindow, Batch]]:
        parts: list[tuple[Subwindow, Batch]] = []
        size = self.subwindow_rows
        numbers = batch.rows // size
        if not len(numbers):
            return parts
        first, last = int(numbers.min()), int(numbers.max())
        for number in range(first, last + 1):
            start = number * size
            if not self.subwindows or self.subwindows[-1].start < start:
                self.subwindows.append(Subwindow(start, start + size))
            subwindow = next(s for s in reversed(self.subwindows) if s.start == start)
            part = batch if first == last else batch.take(numbers == number)
            if len(part):
                parts.append((subwindow, part))
        return parts

    def most_parts(self, rows: int) -> int:
        return min(rows, rows // self.subwindow_rows + 2)

    def full(self, subwindow: Subwindow) -> bool:
        return self.arrived >= subwindow.stop


class TimeRing(SubwindowRing):
    """Subwindows that each hold a slice of time.

    A slice is a whole number of widths; a batch that spans much time at few rows opens wider slices.

    Parameters
    ----------
    width : int
        In the unit of the times.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def cut(self, batch: Batch) -> list[tuple[Subwindow, Batch]]:
        times = batch.times
        assert times is not None
        if not len(times):
            return []
        self._open(times)
        starts = [s.start for s in self.subwindows]
        first = bisect.bisect_right(starts, int(times.min())) - 1
        last = bisect.bisect_right(starts, int(times.max())) - 1
        if first == last:
            return [(self.subwindows[first], batch)]
        place = np.searchsorted(np.array(starts, dtype=np.int64), times, "right") - 1
        parts = []
        for at in range(first, last + 1):
            chosen = np.flatnonzero(place == at)
            if len(chosen):
                parts.append((self.subwindows[at], batch.take(chosen)))
        return parts

    def _open(self, times: np.ndarray) -> None:
        """Opens slices so that every time has one."""
        starts = np.array([s.start for s in self.subwindows], dtype=np.int64)
        stops = np.array([s.stop for s in self.subwindows], dtype=object)
        if len(starts):
            place = np.searchsorted(starts, times, "right") - 1
            # A time lies in the slice before it unless it is past that one's stop (object: stops may pass 64 bits).
            last = np.array([min(int(s) - 1, (1 << 63) - 1) for s in stops], dtype=np.int64)
            homeless = times[(place < 0) | (times > last[np.maximum(place, 0)])]
        else:
            homeless = times
        if not len(homeless):
            return
        numbers, counts = np.unique(homeless // self.width, return_counts=True)
        group_first, group_rows = None, 0
        opened: list[tuple[int, int]] = []
        taken = [(s.start, s.stop) for s in self.subwindows]
        for at, (number, rows) in enumerate(zip(numbers.tolist(), counts.tolist(), strict=True)):
            if group_first is None:
                group_first, group_rows = number, 0
            group_rows += rows
            next_number = int(numbers[at + 1]) if at + 1 < len(numbers) else None
            start, stop = group_first * self.width, (number + 1) * self.width
            wider = None if next_number is None else (next_number + 1) * self.width
            blocked = wider is not None and any(a < wider and b > start for a, b in taken)
            if group_rows >= GROUP_ROWS or next_number is None or blocked:
                opened.append((max(start, -(1 << 63)), stop))
                group_first = None
        self.subwindows.extend(Subwindow(start, stop) for start, stop in opened)
        self.subwindows.sort(key=lambda s: s.start)

    def most_parts(self, rows: int) -> int:
        # Old slices, and new ones, each of which has its rows, lies before an old one, or is the last.
        return min(rows, 2 * len(self.subwindows) + rows // GROUP_ROWS + 2)

    def sparse(self) -> Iterator[tuple[Subwindow, Subwindow]]:
        # Where time passes with few rows, slices would outnumber them.
        at = len(self.subwindows) - 1
        while at > 0:
            elder, newer = self.subwindows[at - 1 : at + 1]
            rows = sum(run.run.length for s in (elder, newer) for run in s.runs)
            if elder.closed and newer.closed and rows <= SPARSE_ROWS:
                yield elder, newer
            at -= 1

    def full(self, subwindow: Subwindow) -> bool:
        # Once a later slice has rows, this one gets but stragglers.
        return self.subwindows[-1].start >= subwindow.stop
