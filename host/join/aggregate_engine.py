"""Engines of ``form="aggregate"``: aggregates of what rows match, in place of pairs.

`AggregateEngine` reads them off ranges of sorted runs in the native core, so that a row that matches many costs what a
row that matches one does; how stands in host/native/aggregate_window.hpp. `PairAggregateEngine` adds up the pairs of
another engine, for conditions that no range decides.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.host.join.aggregate_plan import AggregatePlan
from muntin.host.join.boundary_generator import BoundaryGenerator
from muntin.host.join.engine import (
    OTHER,
    SIDES,
    Aggregates,
    Batch,
    Call,
    Engine,
    EngineSpec,
    Found,
    OrderedPairs,
    Pairs,
    Want,
    beyond_capacity,
    by_probing_side,
    key_order,
)
from muntin.host.join.folds import FOLDS
from muntin.host.join.index_engine import cut_steps
from muntin.host.join.residual import RowColumn
from muntin.host.keys.key_type import LONG
from muntin.host.native import _core
from muntin.host.windows.time_axis import limit_of_times, reached_times

if TYPE_CHECKING:
    from muntin.host.devices.device import Device

_INT64_MAX = (1 << 63) - 1
_STEP_ROWS = 1 << 20
_MIXED_ROWS = 1 << 10  # of a step whose rows come from both sides in turn, in a time window: met one by one
_TREE_LEVELS = 12


class AggregateEngine(Engine):
    """Aggregates from ranges of sorted runs.

    Parameters
    ----------
    device : Device
        Whose memory it takes: ``"cpu"``.
    threads : int
        The most threads of a call.
    spec : EngineSpec
    generator : BoundaryGenerator
    plan : AggregatePlan
    itself : bool
        In a self join, each row meets itself too.
    close : bool
        Left rows wait until no later row can match them, and then meet all right rows.

    Notes
    -----
    A probe searches each run of the other window once: for n rows there are 8 of the greatest size, and log(n) smaller
    ones. Per run and aggregate it then takes constant time, where arrival or time limits cut the run log(n) steps. As
    long as a run is cut it takes log2(n / 32) times the memory of its values. In time windows under a
    sequence column, of the batch at hand at most 1,024 rows are looked at one by one.
    """

    def __init__(
        self, device: Device, threads: int, spec: EngineSpec, generator: BoundaryGenerator, plan: AggregatePlan, *,
        itself: bool, close: bool,
    ):  # fmt: skip
        self.spec = spec
        self.seconds = {"sort": 0.0, "probe": 0.0, "store": 0.0}
        self._device, self._threads, self._generator, self._plan = device, threads, generator, plan
        self._itself, self._close = itself, close
        self._stored: tuple[str, ...] = SIDES[1:] if close else SIDES  # whose rows are stored
        self._expired: dict[str, int | None] = dict.fromkeys(SIDES)
        self._row_bytes = {}
        long = generator.key_types["right"].bits == 128
        kind = _core.LongAggregateWindow if long else _core.AggregateWindow
        self._windows: dict[str, Any] = {}
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
        self._waiting = WaitingRows(generator)  # left rows, of `close`
        self._applied = 0
        self._ticket: int | None = None
        first = {side: -(-spec.counts[side] // spec.partitions) if spec.counts else 1 << 14 for side in self._stored}
        self._reserve(first)

    def _reserve(self, rows: dict[str, int]) -> None:
        needed = int(sum(rows[side] * self._row_bytes[side] for side in self._stored))
        self._ticket = self._device.reserve(needed, "the windows", self._ticket)
        if not hasattr(self, "_finalizer"):
            self._finalizer = weakref.finalize(self, self._device.release, self._ticket)
        self._reserved = rows

    @property
    def device_bytes(self) -> int:
        return sum(window.bytes for window in self._windows.values())

    def stored_rows(self, side: str) -> int:
        return self._windows[side].rows if side in self._windows else len(self._waiting)

    def figures(self, side: str) -> dict[str, Any]:
        if side not in self._windows:
            return {}
        window = self._windows[side]
        return {"runs": window.runs} | ({"prevailing": len(window.held())} if self._plan.prevailing else {})

    @property
    def applied(self) -> int | None:
        return self._applied

    def oldest_row(self, side: str) -> int | None:
        if side not in self._windows:
            return self._waiting.oldest_row
        held, oldest = self.held_rows(side)
        rows = [int(row) for row in held[:1]] + [row for row in (oldest,) if row is not None]
        return min(rows, default=None)

    def held_rows(self, side: str) -> tuple[np.ndarray, int | None]:
        """The arrival numbers, ascending, of stored rows that are held beyond their windows, as prevailing ones; and
        the oldest of the others, None: there is none."""
        if side not in self._windows:
            return np.zeros(0, np.int64), None
        oldest = self._windows[side].oldest(-1)
        return np.sort(self._windows[side].held()), None if oldest < 0 else oldest

    def admit(self, call: Call) -> Call:
        self._make_room(call.new_rows)
        return call

    def _make_room(self, new_rows: dict[str, int]) -> None:
        counts = self.spec.counts
        if counts is not None and self.spec.partitions == 1:
            return
        needed = {}
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
        if (
            self._close
            and self.spec.capacity is not None
            and len(self._waiting) + new_rows["left"] > self.spec.capacity
        ):
            raise beyond_capacity("left", len(self._waiting) + new_rows["left"], self.spec.capacity)
        if any(needed[side] > self._reserved[side] for side in self._stored):
            self._reserve({side: max(needed[side], self._reserved[side]) for side in self._stored})

    # A call

    def run(self, call: Call) -> Iterator[Aggregates]:
        batches = call.batches
        if self._close:
            self._waiting.add(batches["left"])
        if self._close or call.want is Want.NOTHING:
            self._applied += 1
            for side in self._stored:
                self._put(side, batches[side])
            self._expire_counted(call.arrived)
            return
        for step in cut_steps(batches, self._most_rows(batches)):
            stored = {side: step[side].stored() for side in SIDES}
            orders = {side: self._stage(side, stored[side]) for side in SIDES}
            for side in SIDES:
                probing = step[side].probing()
                if step[side].apart:
                    orders[side] = _order(probing.keys)
                if len(probing):
                    yield self._probe(side, probing, orders[side], stored[OTHER[side]])
            started = time.perf_counter()
            self._applied += 1
            for side in SIDES:
                self._windows[side].store()
            self.seconds["store"] += time.perf_counter() - started
        self._expire_counted(call.arrived)

    def decided(self, limits: dict[str, int | None] | None) -> list[Found]:
        """See `Engine`."""
        batch = self._waiting.due(limits) if self._close else None
        return [] if batch is None else [self.answer(batch)]

    def forget(self, limits: dict[str, int | None]) -> None:
        """See `Engine`."""
        self._waiting.due(limits)

    def answer(self, batch: Batch) -> Aggregates:
        """For `close`: what left rows have met."""
        return self._probe("left", batch, _order(batch.keys), None)

    def _put(self, side: str, batch: Batch) -> None:
        self._stage(side, batch)
        self._windows[side].store()

    def _most_rows(self, batches: dict[str, Batch]) -> int:
        if self.spec.within is None:
            return _STEP_ROWS
        mixed = any(len(b) and b.other_position[0] != b.other_position[-1] for b in batches.values())
        return _MIXED_ROWS if mixed else _STEP_ROWS

    def _stage(self, side: str, batch: Batch) -> np.ndarray:
        """Lets probes of the other side meet rows; the order of their keys."""
        started = time.perf_counter()
        order = _order(batch.keys, batch.times if self._plan.prevailing else None)
        times = None if batch.times is None or not len(batch) else np.ascontiguousarray(batch.times)
        values = [np.ascontiguousarray(column).reshape(-1) for column in batch.values]
        self._windows[side].stage(
            _words(batch.keys), np.ascontiguousarray(batch.rows), times, values, order.astype(np.uint32)
        )
        self.seconds["sort"] += time.perf_counter() - started
        return order

    def _probe(self, side: str, batch: Batch, order: np.ndarray, staged: Batch | None) -> Aggregates:
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
        self.seconds["probe"] += time.perf_counter() - started
        return Aggregates(side, batch.rows, counts, results)

    # Expiry

    def _expire_counted(self, arrived: dict[str, int]) -> None:
        if self.spec.counts is not None:
            for side in self._stored:
                self._windows[side].expire(arrived[side] - self.spec.counts[side])

    def expire_times(self, last_useless: dict[str, int | None]) -> None:
        for side in self._stored:
            limit = last_useless[side]
            if limit is not None and self._close and self.spec.within is not None:
                limit = self._waiting.useless(limit, self.spec.within[0])
            if limit is None:
                continue
            before = min(limit + 1, _INT64_MAX)
            self._expired[side] = before
            self._windows[side].expire(before)

    def close(self) -> None:
        self._windows = {}
        self._stored = ()
        self._finalizer()


class WaitingRows:
    """Left rows of ``at="close"`` whose windows are not over yet.

    Parameters
    ----------
    generator : BoundaryGenerator
        Of their keys.
    """

    def __init__(self, generator: BoundaryGenerator):
        none = np.zeros(0, np.int64)
        self._rows, self._times = Batch(np.zeros(0, generator.key_types["left"].dtype), none, none), none

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def oldest_row(self) -> int | None:
        """The least of their arrival numbers; None: no row waits."""
        return int(self._rows.rows.min()) if len(self) else None

    def useless(self, limit: int, low: int) -> int | None:
        """The greatest time, `limit` at most, of right rows that are too old for all of these: a row meets those that
        are `low` after it and later. None: there is none."""
        return limit_of_times(min(limit, int(self._times.min()) + low - 1)) if len(self) else limit

    def add(self, batch: Batch) -> None:
        """Lets rows wait."""
        assert batch.times is not None
        held = self._rows
        columns = ((held.keys, batch.keys), (held.rows, batch.rows), (held.other_position, batch.other_position))
        keys, rows, other_position = (np.concatenate(parts) for parts in columns)
        self._rows = Batch(keys, rows, other_position)
        self._times = np.concatenate([self._times, batch.times])

    def due(self, limits: dict[str, int | None] | None) -> Batch | None:
        """The rows that `Engine.decided` is about, which wait no longer; None where there is no limit for them."""
        if limits is None:
            return self.take(None)
        return None if limits["left"] is None else self.take(limits["left"])

    def take(self, limit: int | None) -> Batch:
        """The rows of this time and before, None: all, which then wait no longer."""
        gone = np.ones(len(self), np.bool_) if limit is None else self._times <= limit
        taken = dataclasses.replace(self._rows.take(gone), times=self._times[gone])
        self._rows, self._times = self._rows.take(~gone), self._times[~gone]
        return taken


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

    def __init__(
        self, engine: Engine, plan: AggregatePlan, itself: Callable[[dict[str, Batch]], np.ndarray] | None = None
    ):
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
    def seconds(self) -> dict[str, float]:  # type: ignore[override]
        return self.engine.seconds

    @property
    def probed_runs(self) -> int:  # type: ignore[override]
        return self.engine.probed_runs

    @property
    def device_bytes(self) -> int:
        return self.engine.device_bytes

    def stored_rows(self, side: str) -> int:
        return self.engine.stored_rows(side)

    def figures(self, side: str) -> dict[str, Any]:
        return self.engine.figures(side)

    def report(self) -> dict[str, Any]:
        return self.engine.report()

    @property
    def applied(self) -> int | None:
        return self.engine.applied

    def oldest_row(self, side: str) -> int | None:
        return self.engine.oldest_row(side)

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

        def add(side: str, probing: np.ndarray, stored: np.ndarray) -> None:
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

    def expire_times(self, last_useless: dict[str, int | None]) -> None:
        self.engine.expire_times(last_useless)
        for side in SIDES:
            if last_useless[side] is not None:
                oldest = self.engine.oldest_row(side)
                self._trim(side, _INT64_MAX if oldest is None else oldest)

    def stop(self) -> None:
        self.engine.stop()

    def close(self) -> None:
        self.engine.close()

    def _put(self, batches: dict[str, Batch]) -> None:
        for side in SIDES:
            batch = batches[side]
            if side in self._times and len(batch):
                assert batch.times is not None
                self._times[side].put(batch.rows, batch.times)
            for kept, values in zip(self._values[side], batch.values if len(batch) else (), strict=False):
                for at, part in enumerate(kept):
                    part.put(batch.rows, values[:, at] if values.ndim == 2 else values)

    def _inside(self, side: str, probing: np.ndarray, stored: np.ndarray, low: int, high: int) -> np.ndarray:
        """Which pairs lie in a window of right less left time."""
        least, greatest = reached_times(
            self._times[side].get(probing), *((low, high) if side == "left" else (-high, -low))
        )
        times = self._times[OTHER[side]].get(stored)
        return (least <= times) & (times <= greatest)

    def _get(self, side: str, rows: np.ndarray) -> list[np.ndarray]:
        out = []
        for kept in self._values[side]:
            parts = [part.get(rows) for part in kept]
            out.append(np.ascontiguousarray(parts[0] if len(parts) == 1 else np.stack(parts, axis=1).reshape(-1)))
        return out

    def _trim_counted(self, arrived: dict[str, int]) -> None:
        if self.spec.counts is not None:
            for side in SIDES:
                self._trim(side, arrived[side] - max(self.spec.counts.values()))

    def _trim(self, side: str, oldest: int) -> None:
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
