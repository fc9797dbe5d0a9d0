"""A board with a BI-Sort kernel: runs spread over its lanes, and what all lanes do together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from muntin.host.devices.bisort_lane import BisortLane, Steps
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.kernel_driver import KernelDriver
from muntin.host.devices.lane_commands import BoardRun, FoundRanges, KeyCut, LaneRun
from muntin.host.devices.ranges import Ranges
from muntin.host.errors import CapacityError

_T = TypeVar("_T")
Pieces = list[tuple[np.ndarray, np.ndarray]]


class BisortBoard:
    """A board with one kernel. All stores on it share the memories and the insertion buffers of its lanes.

    The rows of a run lie on the lanes into whose ranges their keys fall, and every lane does its part of a command at
    the same time as the others. Only runs that were cut at the same keys can be merged, or probed together.

    Any thread may call; a call is done when its results are there.

    Parameters
    ----------
    link : BoardLink
    name : str
        Of the device, for messages.
    scratch_bytes : int
        Of each lane, as of `BisortLane`.

    Attributes
    ----------
    parameters : Parameters
    lanes : list of BisortLane
    granule_rows : int
        Rows of a granule.
    granule_bytes : int
        Bytes of a granule, index included.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel than the link says, or too little memory.
    """

    def __init__(self, link: BoardLink, name: str, scratch_bytes: int):
        self._driver = KernelDriver(link, name)
        self._lock = threading.RLock()
        self._left: deque[BoardRun] = deque()
        self.parameters = self._driver.parameters
        self.lanes = [BisortLane(self._driver, lane, name, scratch_bytes) for lane in range(self.parameters.lanes)]
        self.granule_rows = self.lanes[0].granule_rows
        self.granule_bytes = self.lanes[0].granule_bytes

    def granules(self, rows: int) -> int:
        """The most granules that a run of so many rows takes on any one lane."""
        return self.lanes[0].granules(rows)

    def close(self) -> None:
        """Gives the board back, once nobody is using it. Idempotent."""
        with self._lock:
            self._driver.close()

    def counters(self, lane: int = 0) -> dict[str, int]:
        """See `KernelDriver.counters`."""
        with self._lock:
            return self._driver.counters(lane)

    def _together(self, work: Mapping[int, Steps[_T]]) -> dict[int, _T]:
        """Takes the steps of several lanes, each of all of them at the same time; their results."""
        results: dict[int, _T] = {}
        left = dict(work)
        while left:
            commands = {}
            for lane, steps in list(left.items()):
                try:
                    commands[lane] = next(steps)
                except StopIteration as end:
                    results[lane] = end.value
                    del left[lane]
            self._driver.run_lanes(commands)
        return results

    def _placed(self, places: Mapping[int, Callable[[], LaneRun]]) -> dict[int, LaneRun]:
        """Places on several lanes, or none of them where one raises CapacityError."""
        self.collect()
        found: dict[int, LaneRun] = {}
        try:
            for lane, place in places.items():
                found[lane] = place()
        except CapacityError:
            for lane, run in found.items():
                self.lanes[lane].leave(run)
            raise
        return found

    # Runs

    def load(self, keys: np.ndarray, rows: np.ndarray, cut: KeyCut) -> BoardRun:
        """Stores ascending keys (int32 or int64), shape (n,), n >= 1, with their row numbers (uint32).

        Raises
        ------
        CapacityError
            If what a lane would hold of it is longer than the index on chip covers, or has no place there; nothing
            changes.
        DeviceError
            If the board fails.
        """
        own = {lane: part for lane, part in enumerate(cut.rows(keys)) if part.stop > part.start}
        with self._lock:
            placed = self._placed(
                {lane: partial(self.lanes[lane].place, part.stop - part.start) for lane, part in own.items()}
            )
            self._together(
                {lane: self.lanes[lane].load(placed[lane], keys[part], rows[part]) for lane, part in own.items()}
            )
            return self._run(len(keys), placed)

    def _run(self, length: int, parts: Mapping[int, LaneRun]) -> BoardRun:
        return BoardRun(length, [parts.get(lane) for lane in range(len(self.lanes))])

    def merge(self, older: BoardRun, newer: BoardRun) -> BoardRun:
        """Merges two runs into one and frees both. Raises as `load` does, and then both stay."""
        both: dict[int, tuple[LaneRun, LaneRun]] = {}
        parts: dict[int, LaneRun] = {}
        for lane, (a, b) in enumerate(zip(older.parts, newer.parts, strict=True)):
            if a is not None and b is not None:
                both[lane] = a, b
            elif (alone := a or b) is not None:
                parts[lane] = alone  # which becomes the merged run's as it is
        with self._lock:
            placed = self._placed({lane: partial(self.lanes[lane].place_merged, *pair) for lane, pair in both.items()})
            self._together({lane: self.lanes[lane].merge(placed[lane], *pair) for lane, pair in both.items()})
            return self._run(older.length + newer.length, parts | placed)

    def drop(self, run: BoardRun) -> None:
        """Frees a run."""
        with self._lock:
            for lane, part in zip(self.lanes, run.parts, strict=True):
                if part is not None:
                    lane.leave(part)

    def leave(self, runs: Iterable[BoardRun]) -> None:
        """Gives runs up, which `collect` frees. Takes no lock, as a finalizer calls it at any point."""
        self._left.extend(runs)

    def collect(self) -> None:
        """Frees the runs that were given up, as is done before any run is placed."""
        with self._lock:
            while self._left:
                self.drop(self._left.popleft())

    # Probing

    def probe(self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray, cut: KeyCut) -> list[FoundRanges]:
        """Where in each run the keys with ``lower <= key <= upper`` start and stop.

        A lane is asked only for the probes that reach into its range of keys.

        Parameters
        ----------
        runs : list of BoardRun
            Cut as `cut` says.
        lower, upper : ndarray, shape (n,)
            Ascending, of the type of the keys, n >= 1, ``lower <= upper``.
        cut : KeyCut

        Raises
        ------
        DeviceError
            If the board fails.
        """
        asked: dict[int, tuple[slice, dict[int, LaneRun]]] = {}
        for lane, probes in enumerate(cut.probes(lower, upper)):
            parts = {number: part for number, run in enumerate(runs) if (part := run.parts[lane]) is not None}
            if parts and probes.stop > probes.start:
                asked[lane] = probes, parts
        with self._lock:
            answers = self._together(
                {
                    lane: self.lanes[lane].probe(list(parts.values()), lower[probes], upper[probes])
                    for lane, (probes, parts) in asked.items()
                }
            )
        return [
            FoundRanges(number, part, probes.start, starts, stops)
            for lane, (probes, parts) in asked.items()
            for (number, part), starts, stops in zip(parts.items(), *answers[lane], strict=True)
        ]

    def gather(self, ranges: list[Ranges]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The row numbers at positions of runs.

        Yields
        ------
        probes, rows : ndarray of uint32, shape (m,)
            The probe and the row number of each position that lies within the limits.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        return self._in_batches(ranges, BisortLane.gathers, BisortLane.gather)

    def count(self, ranges: list[Ranges]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """How many positions of each range lie within its limits.

        Yields
        ------
        probes, counts : ndarray, int64 and uint32, shape (m,)
            No probe stands twice in one block.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        return self._in_batches(ranges, BisortLane.counts, BisortLane.count)

    def _in_batches(
        self,
        ranges: list[Ranges],
        batches: Callable[[BisortLane, list[Ranges]], Iterator[list[Ranges]]],
        work: Callable[[BisortLane, list[Ranges]], Steps[Pieces]],
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Does work on the ranges of all lanes, one batch of each lane at a time."""
        waiting = {
            lane: batches(lane, [part for part in ranges if part.run.lane == lane.number]) for lane in self.lanes
        }
        while waiting:
            steps = {}
            for lane, left in list(waiting.items()):
                batch = next(left, None)
                if batch is None:
                    del waiting[lane]
                else:
                    steps[lane.number] = work(lane, batch)
            with self._lock:
                done = self._together(steps)
            for pieces in done.values():
                yield from pieces
