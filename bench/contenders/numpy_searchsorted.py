"""A peer in NumPy: sorted arrays, searchsorted, and a stable sort to merge."""

from __future__ import annotations

import time

import numpy as np

from bench.contenders.contender import Contender, Pairs
from bench.workloads import Batch, Workload


class _Side:
    def __init__(self, workload: Workload) -> None:
        self.keys = np.empty(0, workload.dtype)
        self.rows = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)
        self.newest: int | None = None

    def insert(self, batch: Batch, order: np.ndarray) -> None:
        keys = batch.keys[order]
        rows = batch.first + order
        at = np.searchsorted(self.keys, keys, side="right")
        self.keys = np.insert(self.keys, at, keys)
        self.rows = np.insert(self.rows, at, rows)
        if batch.times is not None:
            self.times = np.insert(self.times, at, batch.times[order])
            self.newest = max(int(batch.times.max()), self.newest or 0)

    def keep(self, mask: np.ndarray) -> None:
        self.keys, self.rows = self.keys[mask], self.rows[mask]
        if len(self.times):
            self.times = self.times[mask]


class NumpySearchsorted(Contender):
    """What a careful NumPy user writes: sorted window and batch, two searchsorted calls, ranges to pairs."""

    name = "numpy-searchsorted"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._sides = (_Side(workload), _Side(workload))
        self._parts = {"probe": 0.0, "insert": 0.0}

    def load(self, left: Batch, right: Batch) -> None:
        for side, batch in zip(self._sides, (left, right), strict=True):
            self._insert(side, batch, np.argsort(batch.keys, kind="stable"))
        self._expire()

    def step(self, left: Batch, right: Batch) -> Pairs:
        found = []
        for index, batch in enumerate((left, right)):
            started = time.perf_counter()
            order = np.argsort(batch.keys, kind="stable")
            found.append(self._probe(index, batch, order))
            probed = time.perf_counter()
            self._insert(self._sides[index], batch, order)
            self._parts["probe"] += probed - started
            self._parts["insert"] += time.perf_counter() - probed
        self._expire()
        (l0, r0), (r1, l1) = found
        return Pairs(left=np.concatenate((l0, l1)), right=np.concatenate((r0, r1)))

    def _probe(self, index: int, batch: Batch, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.workload.band if index == 0 else (-self.workload.band[1], -self.workload.band[0])
        other = self._sides[1 - index]
        keys = batch.keys[order]
        start = np.searchsorted(other.keys, keys + keys.dtype.type(low), side="left")
        counts = np.searchsorted(other.keys, keys + keys.dtype.type(high), side="right") - start
        total = int(counts.sum())
        at = np.repeat(start - np.cumsum(counts) + counts, counts) + np.arange(total)
        mine = np.repeat(order, counts)
        rows = other.rows[at]
        if batch.times is not None:
            near = np.abs(other.times[at] - batch.times[mine]) <= self.workload.window
            mine, rows = mine[near], rows[near]
        return batch.first + mine, rows

    def _insert(self, side: _Side, batch: Batch, order: np.ndarray) -> None:
        side.insert(batch, order)
        if not self.workload.timed:
            oldest = batch.first + len(batch) - self.workload.window
            side.keep(side.rows >= oldest)

    def _expire(self) -> None:
        newest = [side.newest for side in self._sides if side.newest is not None]
        if self.workload.timed and len(newest) == len(self._sides):
            for side in self._sides:
                side.keep(side.times >= min(newest) - self.workload.window)

    def parts(self) -> dict[str, float]:
        return dict(self._parts)
