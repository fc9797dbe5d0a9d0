"""A window as sorted runs: a ring of subwindows, cut by count or by time, whose runs a policy merges.

Source: PanJoin, section III-A and III-G (subwindow chain), III-D (BI-Sort), III-E (batch mode).
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from muntin.host.call import Batch, Counts, Pairs
from muntin.host.engine.engine import EngineSpec, beyond_capacity
from muntin.host.engine.run_store import Limits, Run, RunStore
from muntin.host.engine.window_index import Extent, Holds, Probes, WindowIndex
from muntin.host.errors import CapacityError
from muntin.host.index.run_policies import RunPolicy
from muntin.host.sides import Side

# A large count window is cut into few subwindows, as each is one more run to probe in slow memory; a small one into
# more, as a merge needs room for one more subwindow, and the fixed scratch memory of a device weighs more there.
SUBWINDOWS = 2
SMALL_SUBWINDOWS = 3
LARGE_ROWS = 1 << 22
MIN_ROWS = 1024  # of a subwindow cut by count, or as many as the window has
# And not fewer than this even of a window of one row: each subwindow of a batch is a run to load, to probe and to pad,
# and what lies in it beside the window costs a comparison of row numbers where its key matches.
FEWEST_ROWS = 256
SLICES = 8  # a time window is cut into this many
SPARSE_ROWS = 512  # neighbouring slices with so few rows become one
GROUP_ROWS = 8192  # a batch that spans many slices opens none with fewer rows than this

FIRST_TIME_ROWS = 1 << 14  # room of a time window's store before it grows
TIME_ROWS_GROWTH = 1.25  # and how far beyond what is needed
LASTING_RUNS = 64  # beside those of a step: one a closed subwindow, one a size class of the newest


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

    def max_parts(self, rows: int) -> int:
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
        self.subwindow_rows = max(-(-count // pieces), min(count, MIN_ROWS), FEWEST_ROWS)
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

    def max_parts(self, rows: int) -> int:
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

    def max_parts(self, rows: int) -> int:
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


class RunWindow(WindowIndex):
    """One side's window as sorted runs in a store.

    Parameters
    ----------
    open_store : callable
        `RunDevice.open_store`.
    policy : RunPolicy
    spec : EngineSpec
    side : str
        Named in errors: ``"left"``, ``"right"``.
    count : int or None
        Rows of a count window.
    key_bits : int
    step_rows : int
        Most rows inserted between two calls of `settle`, in a count window.

    Raises
    ------
    CapacityError
        If the window does not fit the device.
    """

    def __init__(
        self,
        open_store: Callable[..., RunStore],
        policy: RunPolicy,
        spec: EngineSpec,
        side: Side,
        count: int | None,
        key_bits: int,
        step_rows: int,
    ):
        self.seconds = dict.fromkeys(("sort", "load", "probe", "gather", "merge"), 0.0)
        self.probed_runs = 0
        self._policy = policy
        self._side = side
        self._capacity = spec.capacity
        self._ring: CountRing | TimeRing
        if count is not None:
            self._ring = CountRing(count)
            # The window, what of the oldest subwindow has expired, the step's new rows, and the output of a merge.
            rows = count + 2 * self._ring.subwindow_rows + step_rows
        else:
            assert spec.within is not None
            low, high = spec.within
            self._ring = TimeRing(max((high - low) // SLICES, spec.delay // SLICES, 1))
            rows = FIRST_TIME_ROWS if spec.capacity is None else min(2 * spec.capacity, FIRST_TIME_ROWS)
        self._added: list[Subwindow] = []  # that got runs since they were last merged
        # A step's rows are loaded before any of them is merged or dropped.
        runs = LASTING_RUNS + self._ring.max_parts(step_rows)
        self._store = open_store(key_bits=key_bits, rows=rows, runs=runs, what=f"the {side} window")
        if isinstance(self._ring, CountRing):
            try:
                self._check_run(self._ring.subwindow_rows)
            except CapacityError:
                self._store.close()
                raise

    def _check_run(self, rows: int) -> None:
        """Raises CapacityError if a run of so many rows would be longer than the device can make one."""
        most = self._store.max_run_rows
        if most is not None and rows > most:
            raise CapacityError(
                f"the {self._side} window would have sorted runs of {rows:,} rows, and this device makes none of more "
                f"than {most:,}: use smaller windows or another device",
                rows,
                most,
            )

    @property
    def nbytes(self) -> int:
        return self._store.nbytes

    @property
    def rows(self) -> int:
        return sum(run.run.length for run in self._ring.runs())

    @property
    def oldest_row(self) -> int | None:
        return min((run.extent.first_row for run in self._ring.runs()), default=None)

    def make_room(self, new_rows: int) -> None:
        if isinstance(self._ring, CountRing):
            return
        rows = self.rows + new_rows
        if self._capacity is not None and rows > self._capacity:
            raise beyond_capacity(self._side, rows, self._capacity)
        store, ring = self._store, self._ring
        # Beside all rows, a merge needs room for its output, which is at most a whole subwindow; and every run, of
        # those there are and those to come, may be padded.
        largest = max((sum(run.run.length for run in s.runs) for s in ring.subwindows), default=0)
        self._check_run(largest + new_rows)
        runs = len(ring.runs()) + ring.max_parts(new_rows) + 1
        needed = rows + largest + new_rows + runs * (store.granule - 1)
        if needed > store.capacity_rows:
            try:
                store.grow(int(needed * TIME_ROWS_GROWTH))
            except CapacityError:
                store.grow(needed)

    def insert(self, batch: Batch) -> list[Batch]:
        """See `WindowIndex`. Each part becomes a run of its subwindow."""
        parts = []
        for subwindow, part in self._ring.cut(batch):
            with self._timed("sort"):
                ordered = part.sorted()
            with self._timed("load"):
                run = self._store.load(ordered.keys, (ordered.rows & 0xFFFFFFFF).astype(np.uint32))
            subwindow.runs.append(StoredRun(run, Extent.of(part)))
            self._added.append(subwindow)
            parts.append(ordered)
        return parts

    # Probing

    def probe(self, probes: Probes, holds: Holds, *, counting: bool) -> Iterator[tuple[Pairs | Counts, bool]]:
        for chosen, sure in self._choose(probes, holds):
            self.probed_runs += len(chosen)
            runs = [run.run for run, _ in chosen]
            limits = self._limits(probes, chosen)
            if counting and sure:
                with self._timed("probe"):
                    counts = self._store.probe_counts(runs, probes.lower, probes.upper, limits)
                if counts.any():
                    yield Counts(probes.side, probes.rows, counts), True
                continue
            base = min(run.extent.first_row for run, _ in chosen)
            with self._timed("probe"):
                blocks = self._store.probe_pairs(runs, probes.lower, probes.upper, probes.rows, base, limits)
            while True:
                with self._timed("gather"):
                    block = next(blocks, None)
                if block is None:
                    break
                yield Pairs(probes.side, *block), sure

    def _choose(self, probes: Probes, holds: Holds) -> Iterator[tuple[list[tuple[StoredRun, bool]], bool]]:
        """The runs that rows may meet, each with whether row limits apply; those whose residuals are sure to hold, and
        the others."""
        first, last = int(probes.other_position.min()), int(probes.other_position.max())
        found: dict[bool, list[tuple[StoredRun, bool]]] = {True: [], False: []}
        for run in self._ring.runs():
            extent = run.extent
            if extent.first_row >= last or (probes.count is not None and extent.last_row < first - probes.count):
                continue
            limited = extent.last_row >= first or (probes.count is not None and extent.first_row < last - probes.count)
            held = holds(extent)
            if held is not False:
                found[held is True].append((run, limited))
        return ((chosen, sure) for sure, chosen in found.items() if chosen)

    def _limits(self, probes: Probes, chosen: list[tuple[StoredRun, bool]]) -> Limits | None:
        runs = np.array([limited for _, limited in chosen])
        if not runs.any():
            return None
        if probes.count is not None:
            span = np.full(len(probes.other_position), probes.count, np.int64)
        else:
            oldest = min(run.extent.first_row for run, _ in chosen)
            span = np.maximum(probes.other_position - oldest, 0)
        return Limits(((probes.other_position - span) & 0xFFFFFFFF).astype(np.uint32), span.astype(np.uint32), runs)

    # Storing

    def settle(self) -> None:
        with self._timed("merge"):
            for subwindow in {id(s): s for s in self._added}.values():
                if subwindow.runs:
                    self._merge(subwindow, self._policy.merges([run.run.length for run in subwindow.runs]))
            self._added = []
            for subwindow in self._ring.subwindows:  # those that have their rows become one run each
                if not subwindow.closed and self._ring.full(subwindow):
                    self._merge(subwindow, len(subwindow.runs))
                    subwindow.closed = True
            for elder, newer in self._ring.sparse():
                elder.runs += newer.runs
                elder.stop, newer.runs = newer.stop, []
                self._ring.subwindows.remove(newer)
                self._merge(elder, len(elder.runs))

    def _merge(self, subwindow: Subwindow, newest: int) -> None:
        """Merges the newest runs of a subwindow into one."""
        for _ in range(newest - 1):
            newer, older = subwindow.runs.pop(), subwindow.runs.pop()
            merged = self._store.merge(older.run, newer.run)
            subwindow.runs.append(StoredRun(merged, older.extent.union(newer.extent)))

    def expire_rows(self, before: int) -> None:
        assert isinstance(self._ring, CountRing)
        self._ring.arrived = before + self._ring.count
        self._expire(lambda extent: extent.last_row < before)

    def expire_times(self, through: int) -> None:
        self._expire(lambda extent: extent.last_time <= through)

    def _expire(self, useless: Callable[[Extent], bool]) -> None:
        """Drops the runs whose every row is useless."""
        kept = []
        for subwindow in self._ring.subwindows:
            runs = []
            for run in subwindow.runs:
                if useless(run.extent):
                    self._store.drop(run.run)
                else:
                    runs.append(run)
            subwindow.runs = runs
            if runs or not subwindow.closed:
                kept.append(subwindow)
        # An empty subwindow stays only while it is the newest: rows still come to it.
        self._ring.subwindows = [s for s in kept if s.runs or s is kept[-1]]

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += time.perf_counter() - start
