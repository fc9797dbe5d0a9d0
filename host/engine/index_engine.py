"""The index engine: sequenced batches in, pairs out, by inserting into two window indexes and probing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from muntin.host.call import Batch, Call, Counts, Found, Pairs, Punctuation, Want
from muntin.host.engine.engine import Engine, EngineSpec, EngineStatus, Held
from muntin.host.engine.pacer import cut_pairs, cut_steps
from muntin.host.engine.residual import Residual, TimeWindow
from muntin.host.engine.window_index import Extent, Probes, WindowIndex
from muntin.host.errors import CapacityError
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import OTHER, SIDES, Side, Sides

MAX_STEP_ROWS = 1 << 18  # rows of a call that are joined and stored at a time
MIN_STEP_ROWS = 1 << 13
PROBE_ROWS = 1 << 15  # rows that probe at a time: bounds the scratch memory of a device
_INT64 = np.iinfo(np.int64)


class IndexEngine(Engine):
    """Joins batches by window indexes.

    A call is cut into steps, none of them long against the windows. In each step the rows of both sides are inserted,
    then each probes the other side's window for the keys it may meet, limited to the rows that arrived before it; what
    is found must satisfy the residual conditions too. The time window is one of them.

    In a self join on one key there is one window, which rows probe in both roles.

    Parameters
    ----------
    spec : EngineSpec
    generator : BoundaryGenerator
    open_window : callable
        Opens the window of a side: ``open_window(side, count, step_rows)``, where `count` is the rows of a count window
        or None, and `step_rows` the most rows of a step.
    residuals : sequence of Residual
        Further residual conditions.

    Raises
    ------
    CapacityError
        If the windows do not fit the device.
    """

    def __init__(
        self,
        spec: EngineSpec,
        generator: BoundaryGenerator,
        open_window: Callable[[Side, int | None, int], WindowIndex],
        residuals: Sequence[Residual] = (),
    ):
        self.spec = spec
        self._seconds = {"bounds": 0.0, "residual": 0.0}
        self._generator = generator
        self._counts: Sides[int | None] = dict.fromkeys(SIDES) if spec.counts is None else {**spec.counts}
        self._step_rows = MAX_STEP_ROWS
        if spec.counts is not None:
            self._step_rows = min(max(min(spec.counts.values()) // 8, MIN_STEP_ROWS), MAX_STEP_ROWS)
        self._shared = spec.self_join and generator.one_column
        self._residuals = list(residuals)
        if spec.within is not None:
            self._residuals.insert(0, TimeWindow(*spec.within, shared=self._shared))
        self._windows: Sides[WindowIndex] = {}
        try:
            if self._shared:
                most = None if spec.counts is None else max(spec.counts.values())
                self._windows = dict.fromkeys(SIDES, open_window("left", most, self._step_rows))
            else:
                for side in SIDES:
                    self._windows[side] = open_window(side, self._counts[side], self._step_rows)
        except CapacityError:
            self.close()
            raise
        self._stored = SIDES[:1] if self._shared else SIDES  # whose batches are stored

    # What the operator asks

    def status(self) -> EngineStatus:
        total = {**self._seconds}
        windows = [self._windows[side] for side in self._stored]
        for window in windows:
            for step, seconds in window.seconds.items():
                total[step] = total.get(step, 0.0) + seconds
        return EngineStatus(
            {side: self._windows[side].rows for side in SIDES},
            sum(window.nbytes for window in windows),
            seconds=total,
            probed_runs=sum(window.probed_runs for window in windows),
        )

    def admit(self, call: Call) -> Call:
        for side in self._stored:
            self._windows[side].make_room(call.new_rows[side])
        return call

    def run(self, call: Call) -> Iterator[Found]:
        if call.want is Want.NOTHING:
            self._store(call)
            return
        left = 0
        for step in cut_steps(call, self._step_rows):
            yield from self._step(step)
            if call.max_pairs is not None and not call.counting:
                left = int(rows[-1]) + 1 if len(rows := step.batches["left"].rows) else left
                yield Punctuation(left)
        for side in self._stored:
            self._settle(side, call.arrived[side])

    def _store(self, call: Call) -> None:
        for step in cut_steps(call, self._step_rows):
            self._insert(step.batches)
            for side, batch in step.batches.items():
                if side in self._stored and len(batch):
                    self._settle(side, int(batch.rows[-1]) + 1)
        for side in self._stored:
            self._settle(side, call.arrived[side])

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        # What one window holds for both roles goes when it is useless in both.
        limits = [expiry[side] for side in SIDES]
        for at, side in enumerate(self._stored):
            limit = limits[at]
            if self._shared:
                limit = None if None in limits else min(limits)  # type: ignore[type-var]
            if limit is not None:
                window = self._windows[side]
                window.expire_times(limit)
                for residual in self._residuals:
                    oldest = window.oldest_row
                    residual.trim(side, _INT64.max if oldest is None else oldest)
        return {side: Held(self._windows[side].oldest_row) for side in SIDES}

    def close(self) -> None:
        for window in self._windows.values():
            window.close()

    # One call

    def _insert(self, batches: Sides[Batch]) -> Sides[list[Batch]]:
        """Stores a step; the rows that probe in the order of their keys, in parts."""
        parts: Sides[list[Batch]] = {}
        for side in self._stored:
            batch = batches[side]
            parts[side] = []
            if len(batch):
                for residual in self._residuals:
                    residual.put(side, batch)
                stored = batch.stored()
                if len(stored):
                    parts[side] = self._windows[side].insert(stored)
                if batch.apart:
                    parts[side] = [batch.probing().sorted()]
        return parts

    def _step(self, call: Call) -> Iterator[Found]:
        batches = call.batches
        stored = self._insert(batches)
        parts = {side: stored[self._stored[0]] if self._shared else stored[side] for side in SIDES}
        if call.max_pairs is None or call.counting or self.spec.order == "none":
            yield from self._probes(parts, counting=call.counting)
        else:
            # All are stored, and each row meets those before it alone: so they may probe in groups.
            counts = {side: np.zeros(len(batches[side]), np.int64) for side in SIDES}
            for found in self._probes(parts, counting=True):
                assert isinstance(found, Counts)
                counts[found.side][np.searchsorted(batches[found.side].rows, found.probing)] += found.counts
            for group in cut_pairs(call, counts, call.max_pairs):
                some: Sides[list[Batch]] = {}
                for side in SIDES:
                    first, last = (int(rows[at]) if len(rows := group.batches[side].rows) else -1 for at in (0, -1))
                    within = [np.flatnonzero((part.rows >= first) & (part.rows <= last)) for part in parts[side]]
                    some[side] = [part.take(which) for part, which in zip(parts[side], within, strict=True)]
                yield from self._probes(some, counting=False)
                yield Punctuation(int(rows[-1]) + 1 if len(rows := group.batches["left"].rows) else 0)
        for side in self._stored:
            if len(batches[side]):
                self._settle(side, int(batches[side].rows[-1]) + 1)

    def _probes(self, parts: Sides[list[Batch]], *, counting: bool) -> Iterator[Pairs | Counts]:
        """Pairs of the rows of each side, which are in the order of their keys in each part."""
        for side in SIDES:
            for part in parts[side]:
                for start in range(0, len(part), PROBE_ROWS):
                    yield from self._probe(side, part.take(slice(start, start + PROBE_ROWS)), counting)

    def _settle(self, side: Side, arrived: int) -> None:
        window = self._windows[side]
        if self.spec.counts is not None:
            count = max(self.spec.counts.values()) if self._shared else self.spec.counts[side]
            window.expire_rows(arrived - count)
        window.settle()

    def _probe(self, side: Side, batch: Batch, counting: bool) -> Iterator[Pairs | Counts]:
        """Pairs of some rows, in the order of their keys, with the other window."""
        window = self._windows[OTHER[side]]
        extent = Extent.of(batch)

        def holds(stored: Extent) -> bool | None:
            found = [residual.holds(side, extent, stored) for residual in self._residuals]
            return False if False in found else None if None in found else True

        with self._timed("bounds"):
            bounds = self._generator.bounds(side, batch.keys)
        for bound in bounds:
            if not len(bound.lower):
                continue
            rows = batch.rows if bound.probes is None else batch.rows[bound.probes]
            other_position = batch.other_position if bound.probes is None else batch.other_position[bound.probes]
            probes = Probes(side, bound.lower, bound.upper, rows, other_position, self._counts[OTHER[side]])
            for found, sure in window.probe(probes, holds, counting=counting):
                if isinstance(found, Counts):
                    yield found
                    continue
                pairs = found if sure else self._kept(found)
                if not len(pairs.probing):
                    continue
                if counting:
                    yield Counts(side, *np.unique(pairs.probing, return_counts=True))
                else:
                    yield pairs

    def _kept(self, pairs: Pairs) -> Pairs:
        """The pairs for which every residual condition holds."""
        with self._timed("residual"):
            for residual in self._residuals:
                kept = residual.keep(pairs.side, pairs.probing, pairs.stored)
                pairs = Pairs(pairs.side, pairs.probing[kept], pairs.stored[kept])
        return pairs

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[step] += time.perf_counter() - start
