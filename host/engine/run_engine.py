"""The run engine: sequenced batches in, pairs out, by four commands over sorted runs.

Source: PanJoin, section III-A (subwindow chain), III-D (BI-Sort), III-E (batch mode).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from host.devices.device import Limits, RunDevice, RunStore
from host.engine.batch import Batch, Counts, Pairs
from host.engine.boundary_generator import BoundaryGenerator
from host.engine.engine import OTHER, SIDES, Engine, EngineSpec, beyond_capacity
from host.engine.row_times import RowTimes
from host.engine.run_policy import RunPolicy
from host.engine.subwindow import SLICES, CountRing, Extent, StoredRun, Subwindow, SubwindowRing, TimeRing
from host.errors import CapacityError

MOST_STEP_ROWS = 1 << 18  # rows of a call that are joined and stored at a time
LEAST_STEP_ROWS = 1 << 13
PROBE_ROWS = 1 << 15  # rows that probe at a time: bounds the scratch memory of a device
FIRST_TIME_ROWS = 1 << 14  # room of a time window's store before it grows
TIME_ROWS_GROWTH = 1.25  # and how far beyond what is needed
LASTING_RUNS = 64  # beside those of a step: one a closed subwindow, one a size class of the newest
_INT64 = np.iinfo(np.int64)


@dataclasses.dataclass
class _Prober:
    """Rows of one side, sorted by key, with what limits the rows they may meet."""

    side: str
    batch: Batch
    first_opposite: int
    last_opposite: int
    times: tuple[np.ndarray, np.ndarray] | None  # least and greatest time to meet, per row

    def slices(self) -> Iterator[slice]:
        for start in range(0, len(self.batch), PROBE_ROWS):
            yield slice(start, start + PROBE_ROWS)


class RunEngine(Engine):
    """Joins batches by sorted runs.

    Parameters
    ----------
    device : RunDevice
    spec : EngineSpec
    generator : BoundaryGenerator
    key_bits : dict of str to int
        Width of the encoded keys of each side.
    policy : RunPolicy

    Raises
    ------
    CapacityError
        If the windows do not fit the device.
    """

    def __init__(
        self,
        device: RunDevice,
        spec: EngineSpec,
        generator: BoundaryGenerator,
        key_bits: dict[str, int],
        policy: RunPolicy,
    ):
        self.spec = spec
        self.seconds: dict[str, float] = dict.fromkeys(("sort", "bounds", "load", "probe", "gather", "merge"), 0.0)
        self.probed_runs = 0
        self._generator = generator
        self._policy = policy
        self._rings: dict[str, SubwindowRing] = {}
        self._stores: dict[str, RunStore] = {}
        self._times: dict[str, RowTimes] = {}
        self._step_rows = MOST_STEP_ROWS
        if spec.counts is not None:
            self._step_rows = min(max(min(spec.counts.values()) // 8, LEAST_STEP_ROWS), MOST_STEP_ROWS)
        try:
            for side in SIDES:
                rows = self._store_rows(side)
                # A step's rows are loaded before any of them is merged or dropped.
                runs = LASTING_RUNS + self._rings[side].most_parts(self._step_rows)
                self._stores[side] = device.open_store(
                    key_bits=key_bits[side], rows=rows, runs=runs, what=f"the {side} window"
                )
                if isinstance(ring := self._rings[side], CountRing):
                    self._check_run(side, ring.subwindow_rows)
        except CapacityError:
            self.close()
            raise

    def _check_run(self, side: str, rows: int) -> None:
        """Raises CapacityError if a run of so many rows would be longer than the device can make one."""
        most = self._stores[side].most_run_rows
        if most is not None and rows > most:
            raise CapacityError(
                f"the {side} window would have sorted runs of {rows:,} rows, and this device makes none of more than "
                f"{most:,}: use smaller windows or another device",
                rows,
                most,
            )

    def _store_rows(self, side: str) -> int:
        """Rows a store must hold; opens the side's ring."""
        if self.spec.counts is not None:
            count = self.spec.counts[side]
            ring = CountRing(count)
            self._rings[side] = ring
            # The window, what of the oldest subwindow has expired, the step's new rows, and the output of a merge.
            return count + 2 * ring.subwindow_rows + self._step_rows
        assert self.spec.within is not None
        low, high = self.spec.within
        self._rings[side] = TimeRing(max((high - low) // SLICES, self.spec.delay // SLICES, 1))
        self._times[side] = RowTimes()
        return FIRST_TIME_ROWS if self.spec.capacity is None else min(2 * self.spec.capacity, FIRST_TIME_ROWS)

    # What the operator asks

    @property
    def device_bytes(self) -> int:
        return sum(store.nbytes for store in self._stores.values())

    def stored_rows(self, side: str) -> int:
        return sum(run.run.length for run in self._rings[side].runs())

    def oldest_row(self, side: str) -> int | None:
        return min((run.extent.first_row for run in self._rings[side].runs()), default=None)

    def make_room(self, new_rows: dict[str, int]) -> None:
        if self.spec.within is None:
            return
        for side in SIDES:
            rows = self.stored_rows(side) + new_rows[side]
            if self.spec.capacity is not None and rows > self.spec.capacity:
                raise beyond_capacity(side, rows, self.spec.capacity)
            store, ring = self._stores[side], self._rings[side]
            # Beside all rows, a merge needs room for its output, which is at most a whole subwindow; and every run, of
            # those there are and those to come, may be padded.
            largest = max((sum(run.run.length for run in s.runs) for s in ring.subwindows), default=0)
            self._check_run(side, largest + new_rows[side])
            runs = len(ring.runs()) + ring.most_parts(new_rows[side]) + 1
            needed = rows + largest + new_rows[side] + runs * (store.granule - 1)
            if needed > store.capacity_rows:
                try:
                    store.grow(int(needed * TIME_ROWS_GROWTH))
                except CapacityError:
                    store.grow(needed)

    def process(
        self,
        batches: dict[str, Batch],
        opposite: dict[str, np.ndarray],
        arrived: dict[str, int],
        *,
        counting: bool = False,
    ) -> Iterator[Pairs | Counts]:
        for step in self._steps(batches):
            yield from self._step(step, counting)
        for side, ring in self._rings.items():
            if isinstance(ring, CountRing):
                ring.arrived = arrived[side]
                self._expire(side, before_row=arrived[side] - ring.count)
            self._merge_full(ring, self._stores[side])

    def expire_times(self, last_useless: dict[str, int | None]) -> None:
        for side, limit in last_useless.items():
            if limit is not None:
                self._expire(side, through_time=limit)
                oldest = self.oldest_row(side)
                self._times[side].trim(self._times[side].end if oldest is None else oldest)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    # One call

    def _steps(self, batches: dict[str, Batch]) -> Iterator[dict[str, Batch]]:
        """Cuts a call along the total order of arrival, so that no step is long against the windows."""
        if sum(len(b) for b in batches.values()) <= self._step_rows:
            yield batches
            return
        places = {side: b.rows + b.opposite for side, b in batches.items()}
        cuts = np.sort(np.concatenate(list(places.values())))[self._step_rows :: self._step_rows]
        at = dict.fromkeys(SIDES, 0)
        for cut in [*cuts.tolist(), _INT64.max]:
            to = {side: int(np.searchsorted(places[side], cut, "left")) for side in SIDES}
            yield {side: batches[side].take(slice(at[side], to[side])) for side in SIDES}
            at = to

    def _step(self, batches: dict[str, Batch], counting: bool) -> Iterator[Pairs | Counts]:
        probers: dict[str, list[_Prober]] = {}
        added: dict[str, list[tuple[Subwindow, StoredRun]]] = {}
        for side in SIDES:
            probers[side], added[side] = self._load(side, batches[side])
        for side in SIDES:
            new = [run for _, run in added[OTHER[side]]]
            old = self._rings[OTHER[side]].runs()
            for prober in probers[side]:
                yield from self._probe(prober, old, counting, arrival=False)
                yield from self._probe(prober, new, counting, arrival=True)
        for side in SIDES:
            ring, store = self._rings[side], self._stores[side]
            for subwindow, run in added[side]:
                subwindow.runs.append(run)
            if isinstance(ring, CountRing) and len(batches[side]):
                ring.arrived = max(ring.arrived, int(batches[side].rows[-1]) + 1)
                self._expire(side, before_row=ring.arrived - ring.count)
            with self._timed("merge"):
                for subwindow in {id(s): s for s, _ in added[side]}.values():
                    lengths = [run.run.length for run in subwindow.runs]
                    if lengths:
                        self._merge(subwindow, store, self._policy.merges(lengths))
            self._merge_full(ring, store)

    def _load(self, side: str, batch: Batch) -> tuple[list[_Prober], list[tuple[Subwindow, StoredRun]]]:
        """Sorts a batch by subwindow and key, and stores the parts as runs that belong to no subwindow yet."""
        probers: list[_Prober] = []
        added: list[tuple[Subwindow, StoredRun]] = []
        if not len(batch):
            return probers, added
        if side in self._times:
            assert batch.times is not None
            self._times[side].put(batch.rows, batch.times)
        for subwindow, part in self._rings[side].cut(batch):
            extent = Extent.of(part)
            first, last = int(part.opposite[0]), int(part.opposite[-1])
            with self._timed("sort"):
                ordered = part.sorted()
            with self._timed("load"):
                run = self._stores[side].load(ordered.keys, (ordered.rows & 0xFFFFFFFF).astype(np.uint32))
            probers.append(_Prober(side, ordered, first, last, self._time_limits(side, ordered)))
            added.append((subwindow, StoredRun(run, extent)))
        return probers, added

    def _time_limits(self, side: str, batch: Batch) -> tuple[np.ndarray, np.ndarray] | None:
        """The least and greatest time that each row's partner may have."""
        if self.spec.within is None:
            return None
        assert batch.times is not None
        low, high = self.spec.within if side == "left" else (-self.spec.within[1], -self.spec.within[0])
        first, last = int(batch.times.min()), int(batch.times.max())
        if _INT64.min <= first + low and last + high <= _INT64.max:
            return batch.times + low, batch.times + high
        least, most = batch.times.astype(object) + low, batch.times.astype(object) + high
        none = ((least > _INT64.max) | (most < _INT64.min)).astype(bool)
        least = np.clip(least, _INT64.min, _INT64.max).astype(np.int64)
        most = np.clip(most, _INT64.min, _INT64.max).astype(np.int64)
        least[none], most[none] = 1, 0
        return least, most

    # Probing

    def _probe(
        self, prober: _Prober, runs: list[StoredRun], counting: bool, *, arrival: bool
    ) -> Iterator[Pairs | Counts]:
        """Pairs of some rows with some runs.

        `arrival` says that the runs hold rows of the same step, which may have arrived later than the rows that probe.
        """
        if not runs:
            return
        for part in prober.slices():
            batch = prober.batch.take(part)
            times = None if prober.times is None else (prober.times[0][part], prober.times[1][part])
            plain, timed = self._choose(prober, times, runs, arrival)
            if not plain and not timed:
                continue
            with self._timed("bounds"):
                bounds = self._generator.bounds(prober.side, batch.keys)
            store = self._stores[OTHER[prober.side]]
            for bound in bounds:
                if not len(bound.lower):
                    continue
                rows = batch.rows if bound.probes is None else batch.rows[bound.probes]
                opposite = batch.opposite if bound.probes is None else batch.opposite[bound.probes]
                for chosen, by_time in ((plain, False), (timed, True)):
                    if not chosen:
                        continue
                    self.probed_runs += len(chosen)
                    with self._timed("probe"):
                        probe = store.probe([run.run for run, _ in chosen], bound.lower, bound.upper)
                    if not probe.candidates:
                        continue
                    limits = self._limits(prober.side, opposite, chosen)
                    if counting and not by_time:
                        with self._timed("gather"):
                            counts = store.count(probe, limits)
                        yield Counts(prober.side, rows, counts)
                        continue
                    base = min(run.extent.first_row for run, _ in chosen)
                    blocks = store.gather(probe, rows, base, limits)
                    while True:
                        with self._timed("gather"):
                            block = next(blocks, None)
                            if block is None:
                                break
                            probing, stored = block
                            if by_time:
                                inside = self._within(prober.side, probing, stored)
                                probing, stored = probing[inside], stored[inside]
                        if not len(probing):
                            continue
                        if counting:
                            yield Counts(prober.side, *np.unique(probing, return_counts=True))
                        else:
                            yield Pairs(prober.side, probing, stored)

    def _within(self, side: str, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """Which pairs lie within the time window, bool, shape (m,)."""
        assert self.spec.within is not None
        low, high = self.spec.within
        left, right = self._times[side].get(probing), self._times[OTHER[side]].get(stored)
        if side == "right":
            left, right = right, left
        apart = right - left
        if (((right ^ left) & (apart ^ right)) < 0).any():  # some difference does not fit 64 bits
            apart = right.astype(object) - left.astype(object)
            return ((low <= apart) & (apart <= high)).astype(bool)
        return (max(low, _INT64.min) <= apart) & (apart <= min(high, _INT64.max))

    def _choose(
        self,
        prober: _Prober,
        times: tuple[np.ndarray, np.ndarray] | None,
        runs: list[StoredRun],
        arrival: bool,
    ) -> tuple[list[tuple[StoredRun, bool]], list[tuple[StoredRun, bool]]]:
        """The runs that rows may meet, each with whether row limits apply; those to be filtered by time apart."""
        plain: list[tuple[StoredRun, bool]] = []
        timed: list[tuple[StoredRun, bool]] = []
        if self.spec.counts is not None:
            count = self.spec.counts[OTHER[prober.side]]
            least, most = prober.first_opposite - count, prober.last_opposite - count
        else:
            least = most = -1
            assert times is not None
            first_time, last_time = int(times[0].min()), int(times[1].max())
            inner_first, inner_last = int(times[0].max()), int(times[1].min())
        for run in runs:
            extent = run.extent
            if extent.last_row < least or (arrival and extent.first_row >= prober.last_opposite):
                continue
            limited = extent.first_row < most or (arrival and extent.last_row >= prober.first_opposite)
            if times is None:
                plain.append((run, limited))
            elif extent.last_time >= first_time and extent.first_time <= last_time:
                whole = extent.first_time >= inner_first and extent.last_time <= inner_last
                (plain if whole else timed).append((run, limited))
        return plain, timed

    def _limits(self, side: str, opposite: np.ndarray, chosen: list[tuple[StoredRun, bool]]) -> Limits | None:
        runs = np.array([limited for _, limited in chosen])
        if not runs.any():
            return None
        if self.spec.counts is not None:
            span = np.full(len(opposite), self.spec.counts[OTHER[side]], np.int64)
        else:
            oldest = min(run.extent.first_row for run, _ in chosen)
            span = np.maximum(opposite - oldest, 0)
        return Limits(((opposite - span) & 0xFFFFFFFF).astype(np.uint32), span.astype(np.uint32), runs)

    # Storing

    def _merge(self, subwindow: Subwindow, store: RunStore, newest: int) -> None:
        """Merges the newest runs of a subwindow into one."""
        for _ in range(newest - 1):
            newer, older = subwindow.runs.pop(), subwindow.runs.pop()
            merged = store.merge(older.run, newer.run)
            subwindow.runs.append(StoredRun(merged, older.extent.union(newer.extent)))

    def _merge_full(self, ring: SubwindowRing, store: RunStore) -> None:
        """Closes the subwindows that have their rows: one run each."""
        with self._timed("merge"):
            for subwindow in ring.subwindows:
                if not subwindow.closed and ring.full(subwindow):
                    self._merge(subwindow, store, len(subwindow.runs))
                    subwindow.closed = True
            for elder, newer in ring.sparse():
                elder.runs += newer.runs
                elder.stop, newer.runs = newer.stop, []
                ring.subwindows.remove(newer)
                self._merge(elder, store, len(elder.runs))

    def _expire(self, side: str, *, before_row: int | None = None, through_time: int | None = None) -> None:
        """Drops the runs whose every row lies before a row number, or has a time at or before a limit."""
        ring = self._rings[side]
        kept = []
        for subwindow in ring.subwindows:
            runs = []
            for run in subwindow.runs:
                extent = run.extent
                if (before_row is not None and extent.last_row < before_row) or (
                    through_time is not None and extent.last_time <= through_time
                ):
                    self._stores[side].drop(run.run)
                else:
                    runs.append(run)
            subwindow.runs = runs
            if runs or not subwindow.closed:
                kept.append(subwindow)
        # An empty subwindow stays only while it is the newest: rows still come to it.
        ring.subwindows = [s for s in kept if s.runs or s is kept[-1]]

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += time.perf_counter() - start
