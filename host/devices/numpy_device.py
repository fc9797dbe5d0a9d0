"""The plain device, in NumPy: the reference for all others."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np

from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.run_device import RunDevice
from muntin.host.engine.run_store import SOME_RUNS, Limits, Probe, Reservation, Run, RunStore
from muntin.host.errors import CapacityError, DeviceError
from muntin.host.memory import usable_memory

BLOCK_PAIRS = 1 << 22  # pairs gathered at a time


class NumpyDevice(RunDevice):
    """Runs as NumPy arrays in this process's memory.

    Parameters
    ----------
    memory_bytes : int or None
        Memory that stores may take; half the machine's by default.
    """

    in_process = True

    def __init__(self, memory_bytes: int | None = None):
        memory = usable_memory() if memory_bytes is None else memory_bytes
        super().__init__(DeviceInfo("numpy", "numpy", f"NumPy {np.__version__} on one core", memory), memory)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """This device is always there."""
        return [cls().info]

    @classmethod
    def open(cls, which: str = "") -> NumpyDevice:
        """Opens it. Raises DeviceError if a name is given: there is but one."""
        if which:
            raise DeviceError(f"there is no device 'numpy:{which}': the NumPy device is named 'numpy'")
        return cls()

    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> NumpyStore:
        return NumpyStore(self, key_bits, rows, what)

    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Reservation:
        return Reservation(rows * (key_bits // 8 + 4))


class NumpyStore(RunStore):
    """See `RunStore`."""

    def __init__(self, device: NumpyDevice, key_bits: int, rows: int, what: str):
        self.key_bits = key_bits
        self._device = device
        self._what = what
        self.nbytes = device.room(key_bits=key_bits, rows=rows, what=what).nbytes
        self._ticket = device.reserve(self.nbytes, what)
        self._free = weakref.finalize(self, device.release, self._ticket)
        self.capacity_rows = rows
        self._used_rows = 0

    def grow(self, rows: int) -> None:
        nbytes = self._device.room(key_bits=self.key_bits, rows=rows, what=self._what).nbytes
        self._device.reserve(nbytes, self._what, self._ticket)
        self.capacity_rows, self.nbytes = rows, nbytes

    def _take(self, rows: int) -> None:
        if self._used_rows + rows > self.capacity_rows:
            raise CapacityError(
                f"{self._what} has room for {self.capacity_rows} rows and would need {self._used_rows + rows}",
                self._used_rows + rows,
                self.capacity_rows,
            )
        self._used_rows += rows

    def load(self, keys: np.ndarray, rows: np.ndarray) -> Run:
        self._take(len(keys))
        return Run(len(keys), (keys.astype(self.key_dtype), rows.astype(np.uint32)))

    def merge(self, older: Run, newer: Run) -> Run:
        self._take(older.length + newer.length)
        keys = np.concatenate([older.handle[0], newer.handle[0]])
        order = np.argsort(keys, kind="stable")
        merged = Run(len(keys), (keys[order], np.concatenate([older.handle[1], newer.handle[1]])[order]))
        self.drop(older)
        self.drop(newer)
        return merged

    def drop(self, run: Run) -> None:
        self._used_rows -= run.length
        run.handle = None

    def probe(self, runs: list[Run], lower: np.ndarray, upper: np.ndarray) -> Probe:
        starts = np.stack([np.searchsorted(run.handle[0], lower, "left") for run in runs], axis=1)
        stops = np.stack([np.searchsorted(run.handle[0], upper, "right") for run in runs], axis=1)
        counts = stops - starts
        return Probe(len(lower), runs, int(counts.sum()), (starts, counts))

    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for which, rows in self._candidates(probe, limits):
            yield numbers[which], base + (rows - np.uint32(base & 0xFFFFFFFF)).astype(np.int64)

    def _candidates(self, probe: Probe, limits: Limits | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Index of the probe and row number, both uint32, in blocks."""
        starts, counts = probe.handle
        ends = np.cumsum(counts.sum(axis=1))
        first = 0
        while first < probe.probes:
            done = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, done + BLOCK_PAIRS, "right")), first + 1)
            part = slice(first, last)
            for at, run in enumerate(probe.runs):
                which, position = _ranges(starts[part, at], counts[part, at])
                if not len(which):
                    continue
                which = (which + first).astype(np.uint32)
                rows = run.handle[1][position]
                if limits is not None and limits.runs[at]:
                    inside = rows - limits.first[which] < limits.span[which]
                    which, rows = which[inside], rows[inside]
                if len(which):
                    yield which, rows
            first = last

    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        if limits is None:
            return probe.handle[1].sum(axis=1)
        total = np.zeros(probe.probes, np.int64)
        for which, _ in self._candidates(probe, limits):
            total += np.bincount(which, minlength=probe.probes)
        return total

    def close(self) -> None:
        self._free()


def _ranges(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of the range and the position of every element of ranges given by start and length."""
    which = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) - np.repeat(before - starts, counts)
