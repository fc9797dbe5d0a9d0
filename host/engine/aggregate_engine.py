"""Engines of ``form="aggregate"``: aggregates of what rows match, in place of pairs.

`AggregateEngine` reads them off ranges of sorted runs in the native core, so that a row that matches many costs what a
row that matches one does; how stands in host/native/engine/aggregate_window.hpp. `PairAggregateEngine` adds up the
pairs of another engine, for conditions that no range decides.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from muntin.host.aggregates.folds import FOLDS
from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.call import Aggregates, Batch, Call, OrderedPairs, Pairs, Want, by_probing_side, key_order
from muntin.host.engine.engine import Engine, EngineSpec, EngineStatus, Held, beyond_capacity
from muntin.host.engine.pacer import cut_steps
from muntin.host.engine.residual import RowColumn
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.key_type import LONG
from muntin.host.memory import Lender
from muntin.host.native import _core
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.windows.time_axis import reached_times

_INT64_MAX = (1 << 63) - 1
_STEP_ROWS = 1 << 20
_MIXED_ROWS = 1 << 10  # of a step whose rows come from both sides in turn, in a time window: met one by one
_TREE_LEVELS = 12


class AggregateEngine(Engine):
    """Aggregates from ranges of sorted runs.

    Parameters
    ----------
    device : Lender
        Whose memory it takes: ``"cpu"``.
    threads : int
        The most threads of a call.
    spec : EngineSpec
    generator : BoundaryGenerator
    plan : AggregatePlan
    itself : bool
        In a self join, each row meets itself too.
    close : bool
        Right rows alone are stored, and left rows alone probe, once all right rows that they meet are there.

    Notes
    -----
    A probe searches each run of the other window once: for n rows there are 8 of the greatest size, and log(n) smaller
    ones. Per run and aggregate it then takes constant time, where arrival or time limits cut the run log(n) steps. As
    long as a run is cut it takes log2(n / 32) times the memory of its values. In time windows under a
    sequence column, of the batch at hand at most 1,024 rows are looked at one by one.
    """

    def __init__(
        self, device: Lender, threads: int, spec: EngineSpec, generator: BoundaryGenerator, plan: AggregatePlan, *,
        itself: bool, close: bool,
    ):  # fmt: skip
        self.spec = spec
        self._spent = {"sort": 0.0, "probe": 0.0, "store": 0.0}
        self._device, self._threads, self._generator, self._plan = device, threads, generator, plan
        self._itself, self._close = itself, close
        self._stored: tuple[Side, ...] = SIDES[1:] if close else SIDES  # whose rows are stored
        self._probing: tuple[Side, ...] = SIDES[:1] if close else SIDES
        self._expired: Sides[int | None] = dict.fromkeys(SIDES)
        self._row_bytes: Sides[float] = {}
        long = generator.key_types["right"].bits == 128
        kind = _core.LongAggregateWindow if long else _core.AggregateWindow
        self._windows: Sides[Any] = {}
        low, high = spec.within or (0, 0)
        for side in self._stored:
            folds = plan.folds[side]
            values = sum(FOLDS[fold].row_bytes for fold in folds)
            # Of a count window about a quarter is cut; of a time window all, where times come in no order.
            self._row_bytes[side] = (32 if long else 24) + values * (
                1 + _TREE_LEVELS * (0.25 if spec.counts is not None else 1)
            )
            window = 0 if spec.counts is None else spec.counts[side]
            self._windows[side] = kind(
                folds=folds,
                window=window,
                width=min(high - low, _INT64_MAX),
                several=len(plan.windows) > 1,
                prevailing=plan.prevailing,
            )
        self._ticket: int | None = None
        first = {side: -(-spec.counts[side] // spec.partitions) if spec.counts else 1 << 14 for side in self._stored}
        self._reserve(first)

    def _reserve(self, rows: Sides[int]) -> None:
        needed = int(sum(rows[side] * self._row_bytes[side] for side in self._stored))
        self._ticket = self._device.reserve(needed, "the windows", self._ticket)
        if not hasattr(self, "_finalizer"):
            self._finalizer = weakref.finalize(self, self._device.release, self._ticket)
        self._reserved = rows

    def status(self) -> EngineStatus:
        index: Sides[dict[str, Any]] = {side: {} for side in SIDES}
        for side, window in self._windows.items():
            index[side] = {"runs": window.runs} | ({"prevailing": len(window.held())} if self._plan.prevailing else {})
        return EngineStatus(
            {side: self._windows[side].rows if side in self._windows else 0 for side in SIDES},
            sum(window.bytes for window in self._windows.values()),
            seconds=dict(self._spent),
            index=index,
        )

    def admit(self, call: Call) -> Call:
        self._make_room(call.new_rows)
        self.changed = False
        return call

    def _make_room(self, new_rows: Sides[int]) -> None:
        counts = self.spec.counts
        if counts is not None and self.spec.partitions == 1:
            return
        needed: Sides[int] = {}
        for side in self._stored:
            window = self._windows[side]
            limit, capacity = self._expired[side], self.spec.capacity
            if capacity is not None and window.rows + new_rows[side] > capacity:
                if limit is not None:
                    window.purge(limit)
                if window.rows + new_rows[side] > capacity:
                    raise beyond_capacity(side, window.rows + new_rows[side], capacity)
            needed[side] = window.rows + new_rows[side]
            if counts is not None:
                needed[side] = min(needed[side], counts[side])
            if self._plan.prevailing:
                needed[side] += len(window.held())
        if any(needed[side] > self._reserved[side] for side in self._stored):
            self._reserve({side: max(needed[side], self._reserved[side]) for side in self._stored})

    # A call

    def run(self, call: Call) -> Iterator[Aggregates]:
        batches = call.batches
        if call.want is Want.NOTHING:
            self.changed = True
            for side in self._stored:
                self._put(side, batches[side])
            self._expire_counted(call.arrived)
            return
        for step in cut_steps(call, self._max_rows(batches)):
            stored = {side: step.batches[side].stored() for side in self._stored}
            orders = {side: self._stage(side, batch) for side, batch in stored.items()}
            for side in self._probing:
                probing = step.batches[side].probing()
                if side not in orders or step.batches[side].apart:
                    orders[side] = _order(probing.keys)
                if len(probing):
                    yield self._probe(side, probing, orders[side], stored[OTHER[side]])
            started = time.perf_counter()
            self.changed = True
            for side in self._stored:
                self._windows[side].store()
            self._spent["store"] += time.perf_counter() - started
        self._expire_counted(call.arrived)

    def _put(self, side: Side, batch: Batch) -> None:
        self._stage(side, batch)
        self._windows[side].store()

    def _max_rows(self, batches: Sides[Batch]) -> int:
        if self.spec.within is None or self._close:
            return _STEP_ROWS
        mixed = any(len(b) and b.other_position[0] != b.other_position[-1] for b in batches.values())
        return _MIXED_ROWS if mixed else _STEP_ROWS

    def _stage(self, side: Side, batch: Batch) -> np.ndarray:
        """Lets probes of the other side meet rows; the order of their keys."""
        started = time.perf_counter()
        order = _order(batch.keys, batch.times if self._plan.prevailing else None)
        times = None if batch.times is None or not len(batch) else np.ascontiguousarray(batch.times)
        values = [np.ascontiguousarray(column).reshape(-1) for column in batch.values]
        self._windows[side].stage(
            _words(batch.keys), np.ascontiguousarray(batch.rows), times, values, order.astype(np.uint32)
        )
        self._spent["sort"] += time.perf_counter() - started
        return order

    def _probe(self, side: Side, batch: Batch, order: np.ndarray, staged: Batch | None) -> Aggregates:
        """What rows meet: in the other window, and of the other side's staged rows; None: there are none."""
        started = time.perf_counter()
        intervals = []
        for bound in self._generator.bounds(side, batch.keys[order]):
            which = order if bound.probes is None else order[bound.probes]
            intervals.append((which.astype(np.uint32), _words(bound.lower), _words(bound.upper)))
        # A row that meets itself does so in its right role.
        other_position = batch.other_position + (self._itself and side == "right")
        end, met = None, staged is not None and len(staged) > 0
        if self.spec.within is None:
            assert self.spec.counts is not None
            first, last = batch.other_position - self.spec.counts[OTHER[side]], other_position - 1
        elif staged is not None and met and other_position.min() <= staged.rows[-1]:
            met = bool(other_position.max() > staged.rows[0])
            end = np.ascontiguousarray(other_position) if met else None
        window, counts = self._windows[OTHER[side]], np.zeros(0, np.int64)
        results: list[Any] = [None] * len(self._plan.found[OTHER[side]])
        for asked in self._plan.probes(OTHER[side]):
            bounds = asked.window
            if self.spec.within is not None:
                assert batch.times is not None
                low, high = self.spec.within if bounds is None else (bounds.low, bounds.high)
                low, high = (low, high) if side == "left" else (-high, -low)
                first, last = reached_times(batch.times, low, high)
            limits = (np.ascontiguousarray(first), np.ascontiguousarray(last))
            met_rows, values = window.probe(
                intervals, *limits, end=end, staged=met, threads=self._threads, which=asked.folds,
                prevailing=asked.prevailing, own=asked.own,
            )  # fmt: skip
            counts = met_rows if bounds is None else counts
            for place, value in zip(asked.places, values, strict=True):
                results[place] = value
        self._spent["probe"] += time.perf_counter() - started
        return Aggregates(side, batch.rows, counts, results)

    # Expiry

    def _expire_counted(self, arrived: Sides[int]) -> None:
        if self.spec.counts is not None:
            for side in self._stored:
                self._windows[side].expire(arrived[side] - self.spec.counts[side])

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        for side in self._stored:
            limit = expiry[side]
            if limit is not None:
                self._expired[side] = min(limit + 1, _INT64_MAX)
                self._windows[side].expire(self._expired[side])
        held = dict.fromkeys(SIDES, Held(None))
        for side, window in self._windows.items():
            oldest = window.oldest(-1)
            held[side] = Held(None if oldest < 0 else oldest, np.sort(window.held()))
        return held

    def close(self) -> None:
        self._windows = {}
        self._stored = ()
        self._finalizer()


class PairAggregateEngine(Engine):
    """Aggregates of the pairs that another engine finds.

    Parameters
    ----------
    engine : Engine
        Closed with this one.
    plan : AggregatePlan
    itself : callable, optional
        The arrival numbers, int64, of the rows of a call that meet themselves too, from its batches.
    """

    def __init__(self, engine: Engine, plan: AggregatePlan, itself: Callable[[Sides[Batch]], np.ndarray] | None = None):
        self.spec = engine.spec
        self._itself = itself
        self.engine = engine
        self._plan = plan
        self._values = {
            side: [[RowColumn(FOLDS[fold].dtype) for _ in range(FOLDS[fold].words)] for fold in plan.folds[side]]
            for side in SIDES
        }
        # Windows of single aggregates are asked of pairs, so both their rows' times are known.
        self._times = {side: RowColumn() for side in SIDES if len(plan.windows) > 1}

    @property
    def changed(self) -> bool:  # type: ignore[override]
        return self.engine.changed

    def status(self) -> EngineStatus:
        return self.engine.status()

    def admit(self, call: Call) -> Call:
        return self.engine.admit(call if call.want is Want.NOTHING else dataclasses.replace(call, want=Want.PAIRS))

    def run(self, call: Call) -> Iterator[Aggregates]:
        batches, first = call.batches, call.first
        if call.want is Want.NOTHING:
            self._put(batches)
            for _ in self.engine.run(call):
                pass
            self._trim_counted(call.arrived)
            return
        known = False  # the values of the call: once the engine has begun with it
        plan = self._plan
        totals = {
            side: [
                _core.AggregateTotals(
                    [plan.folds[OTHER[side]][at] for at in asked.folds], len(call.other_position[side])
                )
                for asked in plan.probes(OTHER[side])
            ]
            for side in SIDES
        }

        def add(side: Side, probing: np.ndarray, stored: np.ndarray) -> None:
            values = self._get(OTHER[side], stored)
            for total, asked in zip(totals[side], plan.probes(OTHER[side]), strict=True):
                bounds, which = asked.window, asked.folds
                own, kept = [values[at] for at in which], np.ascontiguousarray(probing - first[side])
                if bounds is not None:
                    inside = self._inside(side, probing, stored, bounds.low, bounds.high)
                    words = [FOLDS[plan.folds[OTHER[side]][at]].words for at in which]
                    own = [v.reshape(-1, n)[inside].reshape(-1) for v, n in zip(own, words, strict=True)]
                    kept = kept[inside]
                total.add(kept, own)

        for found in self.engine.run(call):
            assert isinstance(found, Pairs | OrderedPairs)
            if not known:
                self._put(batches)
                known = True
            for pairs in by_probing_side(found, call):
                add(pairs.side, pairs.probing, pairs.stored)
        if not known:
            self._put(batches)
        if self._itself is not None:  # engines do not find these pairs; a row meets itself in its right role
            rows = self._itself(batches)
            add("right", rows, rows)
        for side in SIDES:
            results: list[Any] = [None] * len(plan.found[OTHER[side]])
            counts = np.zeros(0, np.int64)
            for total, asked in zip(totals[side], plan.probes(OTHER[side]), strict=True):
                met, values = total.take()
                counts = met if asked.window is None else counts
                for place, value in zip(asked.places, values, strict=True):
                    results[place] = value
            yield Aggregates(side, first[side] + np.arange(len(call.other_position[side])), counts, results)
        self._trim_counted(call.arrived)

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        held = self.engine.expire(expiry)
        for side in SIDES:
            if expiry[side] is not None:
                oldest = held[side].oldest
                self._trim(side, _INT64_MAX if oldest is None else oldest)
        return held

    def stop(self) -> None:
        self.engine.stop()

    def close(self) -> None:
        self.engine.close()

    def _put(self, batches: Sides[Batch]) -> None:
        for side in SIDES:
            batch = batches[side]
            if side in self._times and len(batch):
                assert batch.times is not None
                self._times[side].put(batch.rows, batch.times)
            for kept, values in zip(self._values[side], batch.values if len(batch) else (), strict=False):
                for at, part in enumerate(kept):
                    part.put(batch.rows, values[:, at] if values.ndim == 2 else values)

    def _inside(self, side: Side, probing: np.ndarray, stored: np.ndarray, low: int, high: int) -> np.ndarray:
        """Which pairs lie in a window of right less left time."""
        least, greatest = reached_times(
            self._times[side].get(probing), *((low, high) if side == "left" else (-high, -low))
        )
        times = self._times[OTHER[side]].get(stored)
        return (least <= times) & (times <= greatest)

    def _get(self, side: Side, rows: np.ndarray) -> list[np.ndarray]:
        out = []
        for kept in self._values[side]:
            parts = [part.get(rows) for part in kept]
            out.append(np.ascontiguousarray(parts[0] if len(parts) == 1 else np.stack(parts, axis=1).reshape(-1)))
        return out

    def _trim_counted(self, arrived: Sides[int]) -> None:
        if self.spec.counts is not None:
            for side in SIDES:
                self._trim(side, arrived[side] - max(self.spec.counts.values()))

    def _trim(self, side: Side, oldest: int) -> None:
        for part in [part for kept in self._values[side] for part in kept]:
            part.trim(oldest)
        if side in self._times:
            self._times[side].trim(oldest)


def _order(keys: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """Places in the order of keys, ties by time where it is given, then by place; shape (n,)."""
    if times is not None:
        return np.lexsort((times, keys["low"], keys["high"]) if keys.dtype == LONG else (times, keys))
    return key_order(keys)


def _words(keys: np.ndarray) -> np.ndarray:
    """Keys or bounds as the core takes them: of 64 bits, or two words each."""
    if keys.dtype == LONG:
        return np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(keys, np.int64)
