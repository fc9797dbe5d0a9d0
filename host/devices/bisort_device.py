"""Boards with a BI-Sort kernel, as a device."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np

from muntin.host.devices.bisort_board import BisortBoard
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import SOME_RUNS, DeviceInfo, Limits, Probe, Room, Run, RunStore
from muntin.host.devices.lane_commands import BoardRun, FoundRanges, KeyCut
from muntin.host.devices.ranges import Ranges
from muntin.host.devices.run_device import RunDevice
from muntin.host.errors import CapacityError, DeviceError

SCRATCH_BYTES = 1 << 23  # takes the bounds of 32 K probes, and 786 K pairs


class BisortDevice(RunDevice):
    """A board that carries out the commands of a run store with a BI-Sort kernel.

    A kernel is built for one width of keys. The board is asked for when the first store of that width is opened; both
    widths together take no more memory than one board has.

    The lanes of a kernel make it faster, not larger: all rows may have keys of one lane, so stores take no more memory
    than one lane has.

    Parameters
    ----------
    info : DeviceInfo
        Its memory_bytes is what stores may take together: the memory of one lane, less `scratch_bytes`.
    link_for : callable
        Gives the way to a board whose kernel has keys of 32 or 64 bits. It raises DeviceError if there is none.
    scratch_bytes : int
        Memory of each lane that is kept for inputs and results of commands. Less means more commands for large batches.
    """

    def __init__(self, info: DeviceInfo, link_for: Callable[[int], BoardLink], *, scratch_bytes: int = SCRATCH_BYTES):
        super().__init__(info, info.memory_bytes)
        self._link_for = link_for
        self._scratch_bytes = scratch_bytes
        self._boards: dict[int, BisortBoard] = {}
        self._links: dict[int, BoardLink] = {}
        self._opening = threading.Lock()

    def board(self, key_bits: int) -> BisortBoard:
        """The board whose kernel has keys of this width, opened once.

        Raises
        ------
        DeviceError
            If there is none, or it is not what it should be.
        """
        with self._opening:
            if key_bits not in self._boards:
                link = self._link_for(key_bits)
                try:
                    self._boards[key_bits] = self._checked(link, key_bits)
                    self._links[key_bits] = link
                except DeviceError:
                    link.close()
                    raise
            return self._boards[key_bits]

    def link(self, key_bits: int) -> BoardLink:
        """The way to the board of `board`, which see: for tests of its memory, while no store is open."""
        self.board(key_bits)
        return self._links[key_bits]

    def _checked(self, link: BoardLink, key_bits: int) -> BisortBoard:
        if link.parameters.key_bits != key_bits:
            raise DeviceError(
                f"device {self.info.name}: asked for a kernel with keys of {key_bits} bits, and got one of "
                f"{link.parameters.key_bits}"
            )
        lane_bytes = link.memory_bytes // link.parameters.lanes
        if lane_bytes < self.memory_bytes + self._scratch_bytes:
            raise DeviceError(
                f"device {self.info.name}: the board has {lane_bytes:,} bytes of memory a lane, not "
                f"{self.memory_bytes + self._scratch_bytes:,}"
            )
        return BisortBoard(link, self.info.name, self._scratch_bytes)

    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> BisortStore:
        return BisortStore(self, self.board(key_bits), rows, what, runs)

    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Room:
        board = self.board(key_bits)
        return Room(_granules(board, rows, runs) * board.granule_bytes, board.parameters.run_rows)

    def close(self) -> None:
        with self._opening:
            for board in self._boards.values():
                board.close()
            self._boards.clear()


class BisortStore(RunStore):
    """See `RunStore`. Rows in an insertion buffer count as if they lay in memory.

    Where the kernel has several lanes, the first rows of an empty store say where their ranges of keys meet.
    """

    def __init__(self, device: BisortDevice, board: BisortBoard, rows: int, what: str, runs: int):
        self.key_bits = board.parameters.key_bits
        self.granule = board.granule_rows
        self.most_run_rows = board.parameters.run_rows
        self._device = device
        self._board = board
        self._what = what
        self._most_runs = runs
        self._used = 0  # granules
        self._runs: set[BoardRun] = set()
        self._cut = KeyCut(np.zeros(board.parameters.lanes - 1, self.key_dtype))  # of all runs
        self._ticket = device.reserve(0, what)
        self._free = weakref.finalize(self, _give_back, device, self._ticket, board, self._runs)
        self.grow(rows)

    def grow(self, rows: int) -> None:
        size = _granules(self._board, rows, self._most_runs)
        nbytes = size * self._board.granule_bytes
        self._device.reserve(nbytes, self._what, self._ticket)
        self._size, self.nbytes, self.capacity_rows = size, nbytes, rows

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
        candidates = sum(int(part.lengths.sum()) for part in found)
        return Probe(len(lower), runs, candidates, found)

    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        low = np.uint32(base & 0xFFFFFFFF)
        for probes, rows in self._board.gather(list(_ranges(probe, limits))):
            yield numbers[probes], base + (rows - low).astype(np.int64)

    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        found: list[FoundRanges] = probe.handle
        checked = np.zeros(len(probe.runs), bool) if limits is None else limits.runs
        total = np.zeros(probe.probes, np.int64)
        for part in found:
            if not checked[part.number]:
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


def _give_back(device: BisortDevice, ticket: int, board: BisortBoard, runs: set[BoardRun]) -> None:
    """Frees what a store has; it refers to the store by nothing."""
    board.leave(runs)
    runs.clear()
    device.release(ticket)


def _granules(board: BisortBoard, rows: int, runs: int) -> int:
    """Granules of a store: each run may be padded to one."""
    return board.granules(rows) + max(runs, rows // board.granule_rows // 64)


def _ranges(probe: Probe, limits: Limits | None) -> Iterator[Ranges]:
    """What a probe has found in each run."""
    found: list[FoundRanges] = probe.handle
    for part in found:
        some = np.flatnonzero(part.lengths)
        if not len(some):
            continue
        probes = some + part.first
        checked = None
        if limits is not None and limits.runs[part.number]:
            checked = np.stack([limits.first[probes], limits.span[probes]], axis=1)
        starts, stops = (ends[some].astype(np.int64) for ends in (part.starts, part.stops))
        yield Ranges(part.run, probes, starts, stops, checked)
