"""A board with a BI-Sort kernel: runs spread over its lanes, what all lanes do together, and the stores on it."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from muntin.host.devices.device import Device
from muntin.host.engine.run_store import Limits, Probe, Reservation, Run, RunStore
from muntin.host.errors import CapacityError
from muntin.host.fpga.bisort_lane import BisortLane, Steps
from muntin.host.fpga.driver import BoardLink, KernelDriver
from muntin.host.fpga.lane_runs import LaneRun, Ranges

SCRATCH_BYTES = 1 << 23  # takes the bounds of 32 K probes, and 786 K pairs

_T = TypeVar("_T")
Pieces = list[tuple[np.ndarray, np.ndarray]]


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
    link : BoardLink
        As given: for tests of the memory, while no store is on the board.
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

    def __init__(self, link: BoardLink, name: str, scratch_bytes: int = SCRATCH_BYTES):
        self.link = link
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

    def room(self, rows: int, runs: int) -> Reservation:
        """What a store takes: each run may be padded to a granule."""
        granules = self.granules(rows) + max(runs, rows // self.granule_rows // 64)
        return Reservation(granules * self.granule_bytes, self.parameters.run_rows)

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

    def _asked(
        self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray, cut: KeyCut
    ) -> dict[int, tuple[slice, dict[int, LaneRun]]]:
        """The lanes that may have something for some probes: which probes, and what they hold of the runs."""
        asked: dict[int, tuple[slice, dict[int, LaneRun]]] = {}
        for lane, probes in enumerate(cut.probes(lower, upper)):
            parts = {number: part for number, run in enumerate(runs) if (part := run.parts[lane]) is not None}
            if parts and probes.stop > probes.start:
                asked[lane] = probes, parts
        return asked

    def probe(
        self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray, cut: KeyCut
    ) -> list[tuple[int, Ranges]]:
        """Where in each run the keys with ``lower <= key <= upper`` start and stop.

        A lane is asked only for the probes that reach into its range of keys.

        Parameters
        ----------
        runs : list of BoardRun
            Cut as `cut` says.
        lower, upper : ndarray, shape (n,)
            Ascending, of the type of the keys, n >= 1, ``lower <= upper``.
        cut : KeyCut

        Returns
        -------
        list of (int, Ranges)
            The number of a run, and what was found in one lane's part of it; where nothing was, there is none.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        asked = self._asked(runs, lower, upper, cut)
        with self._lock:
            answers = self._together(
                {
                    lane: self.lanes[lane].probe(list(parts.values()), lower[probes], upper[probes])
                    for lane, (probes, parts) in asked.items()
                }
            )
        return [
            (number, Ranges(part, found[:, 0] + np.int64(probes.start), *found[:, 1:].astype(np.int64).T))
            for lane, (probes, parts) in asked.items()
            for (number, part), found in zip(parts.items(), answers[lane], strict=True)
            if len(found)
        ]

    def pairs(
        self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray, cut: KeyCut, limits: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What `probe` and then `gather` give, without a range in between.

        Parameters
        ----------
        runs, lower, upper, cut
            As of `probe`.
        limits : ndarray of uint32, shape (n, 2), or None
            First row and span for each probe, in all runs.

        Yields
        ------
        probes, rows : ndarray of uint32, shape (m,)

        Raises
        ------
        DeviceError
            If the board fails.
        """
        asked = self._asked(runs, lower, upper, cut)
        waiting = {lane: probes for lane, (probes, _) in asked.items()}
        while waiting:
            with self._lock:
                done = self._together(
                    {
                        lane: self.lanes[lane].pairs(
                            list(asked[lane][1].values()),
                            lower[probes],
                            upper[probes],
                            None if limits is None else limits[probes],
                        )
                        for lane, probes in waiting.items()
                    }
                )
            for lane, (count, pieces) in done.items():
                first, stop = waiting[lane].start, waiting[lane].stop
                waiting[lane] = slice(first + count, stop)
                if first + count == stop:
                    del waiting[lane]
                for which, rows in pieces:
                    yield which + np.uint32(first), rows

    def counts(
        self,
        runs: list[BoardRun],
        lower: np.ndarray,
        upper: np.ndarray,
        cut: KeyCut,
        limits: tuple[np.ndarray, np.ndarray] | None,
    ) -> np.ndarray:
        """How many rows each probe meets, int64, shape (n,).

        Parameters
        ----------
        runs, lower, upper, cut
            As of `probe`.
        limits : (ndarray of uint32, shape (n, 2), ndarray of bool, one for each run), or None
            First row and span for each probe, and the runs in which they hold.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        asked = self._asked(runs, lower, upper, cut)
        total = np.zeros(len(lower), np.int64)
        with self._lock:
            found = self._together(
                {
                    lane: self.lanes[lane].probe_counts(
                        list(parts.values()),
                        lower[probes],
                        upper[probes],
                        None if limits is None else (limits[0][probes], limits[1][list(parts)]),
                    )
                    for lane, (probes, parts) in asked.items()
                }
            )
        for lane, counts in found.items():
            total[asked[lane][0]] += counts
        return total

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


class BisortStore(RunStore):
    """See `RunStore`. Rows in an insertion buffer count as if they lay in memory.

    Where the kernel has several lanes, the first rows of an empty store say where their ranges of keys meet.
    """

    def __init__(self, device: Device, board: BisortBoard, rows: int, what: str, runs: int):
        self.key_bits = board.parameters.key_bits
        self.granule = board.granule_rows
        self.max_run_rows = board.parameters.run_rows
        self._device = device
        self._board = board
        self._what = what
        self._max_runs = runs
        self._used = 0  # granules
        self._runs: set[BoardRun] = set()
        self._cut = KeyCut(np.zeros(board.parameters.lanes - 1, self.key_dtype))  # of all runs
        self._ticket = device.reserve(0, what)
        self._free = weakref.finalize(self, _give_back, device, self._ticket, board, self._runs)
        self.grow(rows)

    def grow(self, rows: int) -> None:
        nbytes = self._board.room(rows, self._max_runs).nbytes
        self._device.reserve(nbytes, self._what, self._ticket)
        self._size, self.nbytes, self.capacity_rows = nbytes // self._board.granule_bytes, nbytes, rows

    def _take(self, rows: int) -> None:
        """Counts the granules of a run that will be made. Raises CapacityError."""
        needed = self._board.granules(rows)
        if self._used + needed > self._size:
            free = (self._size - self._used) * self.granule
            raise CapacityError(
                f"{self._what} has {free} rows free on device {self._device.info.name} and needs {rows} more",
                rows,
                free,
            )
        self._used += needed

    def _made(self, make: Callable[[], BoardRun], rows: int) -> Run:
        """A run of so many rows, counted before it is made."""
        self._take(rows)
        try:
            run = make()
        except Exception:
            self._used -= self._board.granules(rows)
            raise
        self._runs.add(run)
        return Run(rows, run)

    def load(self, keys: np.ndarray, rows: np.ndarray) -> Run:
        if not self._runs:
            self._cut = KeyCut.of(keys, self._cut.lanes)
        return self._made(lambda: self._board.load(keys, rows, self._cut), len(keys))

    def merge(self, older: Run, newer: Run) -> Run:
        merged = self._made(lambda: self._board.merge(older.handle, newer.handle), older.length + newer.length)
        for run in (older, newer):
            self._forget(run)
        return merged

    def drop(self, run: Run) -> None:
        self._board.drop(run.handle)
        self._forget(run)

    def _forget(self, run: Run) -> None:
        self._runs.remove(run.handle)
        self._used -= self._board.granules(run.length)
        run.handle = None

    def probe(self, runs: list[Run], lower: np.ndarray, upper: np.ndarray) -> Probe:
        found = self._board.probe([run.handle for run in runs], lower, upper, self._cut)
        candidates = sum(int(part.lengths.sum()) for _, part in found)
        return Probe(len(lower), runs, candidates, found)

    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        low = np.uint32(base & 0xFFFFFFFF)
        for probes, rows in self._board.gather(list(_ranges(probe, limits))):
            yield numbers[probes], base + (rows - low).astype(np.int64)

    def probe_pairs(
        self,
        runs: list[Run],
        lower: np.ndarray,
        upper: np.ndarray,
        numbers: np.ndarray,
        base: int,
        limits: Limits | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        checked = None if limits is None else np.stack([limits.first, limits.span], axis=1)
        low = np.uint32(base & 0xFFFFFFFF)
        handles = [run.handle for run in runs]
        for probes, rows in self._board.pairs(handles, lower, upper, self._cut, checked):
            yield numbers[probes], base + (rows - low).astype(np.int64)

    def probe_counts(
        self, runs: list[Run], lower: np.ndarray, upper: np.ndarray, limits: Limits | None = None
    ) -> np.ndarray:
        checked = None if limits is None else (np.stack([limits.first, limits.span], axis=1), limits.runs)
        return self._board.counts([run.handle for run in runs], lower, upper, self._cut, checked)

    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        found: list[tuple[int, Ranges]] = probe.handle
        checked = np.zeros(len(probe.runs), bool) if limits is None else limits.runs
        total = np.zeros(probe.probes, np.int64)
        for number, part in found:
            if not checked[number]:
                total[part.probes] += part.lengths
        if checked.any():
            ranges = [ranges for ranges in _ranges(probe, limits) if ranges.limits is not None]
            for probes, counts in self._board.count(ranges):
                total[probes] += counts
        return total

    def close(self) -> None:
        self._free()
        self._board.collect()
        self._used = self.nbytes = 0


def _give_back(device: Device, ticket: int, board: BisortBoard, runs: set[BoardRun]) -> None:
    """Frees what a store has; it refers to the store by nothing."""
    board.leave(runs)
    runs.clear()
    device.release(ticket)


def _ranges(probe: Probe, limits: Limits | None) -> Iterator[Ranges]:
    """What a probe has found in each run."""
    found: list[tuple[int, Ranges]] = probe.handle
    for number, part in found:
        if limits is not None and limits.runs[number]:
            checked = np.stack([limits.first[part.probes], limits.span[part.probes]], axis=1)
            part = dataclasses.replace(part, limits=checked)
        yield part
