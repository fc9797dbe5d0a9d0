"""Which partition stores a row, and which ones it probes.

The rows of one side lie in *subwindows* by arrival. A subwindow has one *plan*: ranges of a coordinate, one for each
partition, and heavy coordinates, whose rows go round in turn; or all its rows in one partition. A plan holds for new
subwindows only, so that no row moves once it is stored. A row probes the partitions in which some live subwindow's plan
puts what the row may meet.

Nothing here is state of a join: where rows lie changes which partition finds a pair, not which pairs there are.

Source: PanJoin, section III-A, for subwindows in turn; section III-B for splitters from a histogram of the subwindow
before. Plans by subwindow, and heavy coordinates, are ours.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from muntin.host.engine import balance
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.condition import Condition
from muntin.host.keys.key_type import LONG
from muntin.host.sides import OTHER, SIDES, Side, Sides

ADRIFT = 1.5
"""Above this, twice in a row, the histogram of a subwindow says nothing of the next: keys that rise, for one."""
WIDE = 0.75
"""A mean probe that reaches more than so much of the partitions gains nothing from ranges."""
MIN_ROWS = 64  # of a subwindow of a time window, at first
SUBWINDOWS = 8  # of a window
IN_TURN = 16  # of what a partition has of a window, where subwindows go in turn
_SAMPLE = 2048  # rows of a histogram for each partition
_MAX_SAMPLE = 1 << 18
_INT64 = np.iinfo(np.int64)

Interval = tuple[np.ndarray | None, np.ndarray, np.ndarray]
"""Places of probes in the order of their own coordinates, None: all; and the least and the greatest coordinate that
each may meet, both ascending."""


def mixed(values: np.ndarray) -> np.ndarray:
    """Numbers, uint64, spread evenly over 64 bits, the same for the same values."""
    words = values * np.uint64(0x9E3779B97F4A7C15)  # splitmix64
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Coordinates(abc.ABC):
    """What is divided into ranges.

    Attributes
    ----------
    common : bool
        Those of both sides can be compared, and rows that match have the same or near ones.
    even : bool
        They are spread evenly over 64 bits, but for rows that have the same.
    by_key : bool
        They are the driving keys, in their order.
    """

    common: bool
    even: bool
    by_key: bool

    @abc.abstractmethod
    def of(self, side: Side, keys: np.ndarray) -> np.ndarray:
        """The coordinates of driving keys, int64, shape (n,)."""

    @abc.abstractmethod
    def reach(self, side: Side, keys: np.ndarray, coordinates: np.ndarray) -> list[Interval]:
        """What rows of a side may meet, their keys in the order of their coordinates."""


class Hashes(Coordinates):
    """Of the values that are compared for equality."""

    common = even = True
    by_key = False

    def __init__(self, condition: Condition):
        self._condition = condition

    def of(self, side: Side, keys: np.ndarray) -> np.ndarray:
        return (mixed(self._condition.equality_hashes(side, keys)) ^ np.uint64(1 << 63)).view(np.int64)

    def reach(self, side: Side, keys: np.ndarray, coordinates: np.ndarray) -> list[Interval]:
        return [(None, coordinates, coordinates)]


class Keys(Coordinates):
    """The encoded keys of what drives."""

    even = False
    by_key = True

    def __init__(self, generator: BoundaryGenerator):
        self._generator = generator
        left, right = (generator.key_types[side] for side in SIDES)
        self.common = (left.family, left.unit, left.offset, left.bits) == (
            right.family, right.unit, right.offset, right.bits
        )  # fmt: skip

    def of(self, side: Side, keys: np.ndarray) -> np.ndarray:
        # Of wide keys the half with the code of what is compared for equality.
        return keys["high"].copy() if keys.dtype == LONG else keys.astype(np.int64, copy=False)

    def reach(self, side: Side, keys: np.ndarray, coordinates: np.ndarray) -> list[Interval]:
        if keys.dtype == LONG:
            return [(None, coordinates, coordinates)]
        return [
            (bound.probes, bound.lower.astype(np.int64, copy=False), bound.upper.astype(np.int64, copy=False))
            for bound in self._generator.bounds(side, keys)
            if len(bound.lower)
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Where the rows of a subwindow go.

    Attributes
    ----------
    splitters : ndarray of int64, shape (P - 1,)
        Ascending. Partition p takes coordinates from the p-th of them on, to below the next.
    heavy : ndarray of int64
        Ascending coordinates whose rows go to the partitions in turn.
    whole : int
        The partition that takes all rows; -1: ranges decide.
    """

    splitters: np.ndarray
    heavy: np.ndarray
    whole: int = -1

    def loads(self, coordinates: np.ndarray) -> np.ndarray:
        """Rows of each partition, heavy ones divided evenly; float64, shape (P,)."""
        partitions = len(self.splitters) + 1
        rest = coordinates[~np.isin(coordinates, self.heavy)]
        light = np.bincount(np.searchsorted(self.splitters, rest, "right"), minlength=partitions)
        return light + (len(coordinates) - len(rest)) / partitions

    def range(self, partition: int) -> tuple[int, int]:
        """The least and the greatest coordinate of a partition."""
        low = int(self.splitters[partition - 1]) if partition else int(_INT64.min)
        if partition == len(self.splitters):
            return low, int(_INT64.max)
        return low, int(self.splitters[partition]) - 1


class Planner:
    """Makes plans from a running histogram: a sample of the newest subwindow of each side.

    Parameters
    ----------
    partitions : int
    even : bool
        As of `Coordinates`.

    Attributes
    ----------
    plans : int
        How many plans there have been.
    """

    def __init__(self, partitions: int, *, even: bool):
        self._count, self._even = partitions, even
        self._samples: Sides[np.ndarray] = {}
        self._plan: Plan | None = None
        self._strikes = {
            "left": 0,
            "right": 0,
        }  # of each side: subwindows in a row that the one before did not foretell
        self._reach = 0.0  # partitions that a probe reaches, on the mean
        self.plans = 0

    def copy(self) -> Planner:
        own = copy.copy(self)
        own._samples, own._strikes = dict(self._samples), dict(self._strikes)
        return own

    @property
    def plan(self) -> Plan:
        """The newest plan; there must have been rows."""
        assert self._plan is not None
        return self._plan

    def serves(self, side: Side) -> bool:
        """Whether ranges are useful for new subwindows of a side."""
        return self._strikes[side] < 2 and self._reach <= WIDE * self._count

    @property
    def heavy(self) -> int:
        """How many coordinates are heavy."""
        return 0 if self._plan is None else len(self._plan.heavy)

    def begin(self, side: Side, coordinates: np.ndarray) -> None:
        """Makes the first plan, of the first rows."""
        if self._plan is None:
            self._samples[side] = coordinates
            self._plan = self._made()

    def learn(self, side: Side, sample: np.ndarray, before: Plan) -> None:
        """Takes note of a subwindow that is full; makes another plan if it must.

        Parameters
        ----------
        side : str
        sample : ndarray of int64
            Some of its coordinates.
        before : Plan
            The newest one when it began.
        """
        if not len(sample):
            return
        self._samples[side] = sample
        most = balance.limit(self._count, len(sample))
        adrift = balance.limit(self._count, len(sample), ADRIFT)
        if not self._even and adrift < self._count:
            uneven = balance.unevenness(before.loads(sample))
            if uneven > adrift:
                self._strikes[side] += 1
            elif uneven < most:
                self._strikes[side] = 0
        if balance.unevenness(self.plan.loads(sample)) > most or self._cold(sample):
            self._plan = self._made()

    def probes(self, intervals: list[Interval], probes: int) -> None:
        """Takes note of what some probes reach."""
        if self._plan is None or not probes:
            return
        reached = 0
        step = max(probes // 1024, 1)
        for _, lower, upper in intervals:
            first, last = (np.searchsorted(self._plan.splitters, ends[::step], "right") for ends in (lower, upper))
            reached += int((last - first + 1).sum())
        self._reach = reached / len(range(0, probes, step))

    def _cold(self, sample: np.ndarray) -> bool:
        """Whether heavy coordinates have become so rare that their probes need not go everywhere."""
        assert self._plan is not None
        if not len(self._plan.heavy) or len(sample) < _SAMPLE:
            return False
        rows = sample[np.isin(sample, self._plan.heavy)]
        counts = np.bincount(np.searchsorted(self._plan.heavy, rows), minlength=len(self._plan.heavy))
        return bool(balance.cold(counts, len(sample), self._count).any())

    def _made(self) -> Plan:
        """A plan for rows as those of the newest subwindows."""
        self.plans += 1
        values, counts = np.unique(np.concatenate(list(self._samples.values())), return_counts=True)
        rows = int(counts.sum())
        often = balance.heavy(counts, rows, self._count) & (counts > 8)
        heavy, values, counts = values[often], values[~often], counts[~often]
        fractions = np.arange(1, self._count) / self._count
        if self._even and (len(values) < self._count * 8 or self._is_even(values, counts)):
            splitters = (fractions * 2.0**64).astype(np.uint64) ^ np.uint64(1 << 63)
            return Plan(splitters.view(np.int64), heavy)
        if not len(values):
            values, counts = heavy, np.ones(len(heavy), np.int64)
        ends = np.cumsum(counts)
        goals = fractions * ends[-1]
        at = np.minimum(np.searchsorted(ends, goals), len(values) - 1)
        # A splitter lies before or behind the value in which the goal falls, whichever is nearer to it.
        behind = (ends[at] - goals < goals - (ends[at] - counts[at])) & (values[at] < _INT64.max)
        return Plan(np.maximum.accumulate(values[at] + behind), heavy)

    def _is_even(self, values: np.ndarray, counts: np.ndarray) -> bool:
        parts = (values.view(np.uint64) ^ np.uint64(1 << 63)).astype(np.float64) * (self._count / 2.0**64)
        loads = np.bincount(np.minimum(parts.astype(np.int64), self._count - 1), counts, self._count)
        return balance.unevenness(loads) <= balance.limit(self._count, counts.sum())


@dataclasses.dataclass(frozen=True)
class _Subwindows:
    """Neighbouring subwindows of one plan.

    `held` and `spread` tell which partitions have rows of it, and rows of heavy coordinates; shape (P,).
    """

    plan: Plan
    first: int
    end: int
    held: np.ndarray
    spread: np.ndarray
    times: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class VisibleRange:
    """Which stored rows some probes may meet at all: arrival numbers and times, the last included."""

    first_row: int
    last_row: int
    first_time: int
    last_time: int


class Placement:
    """Where the rows of one side lie.

    Parameters
    ----------
    partitions : int
    side : str
    planner : Planner or None
        None: subwindows go to the partitions in turn.
    window : int or None
        Rows of the count window.
    subwindow_rows : int or None
        Rows of a subwindow; by default an eighth of the window, or of what a partition has of it where they go in turn.
    """

    def __init__(
        self, partitions: int, side: Side, planner: Planner | None, window: int | None, subwindow_rows: int | None
    ):
        self._count, self._side, self.planner = partitions, side, planner
        self._window, self._fixed = window, subwindow_rows
        self._kept: list[_Subwindows] = []
        self._plan: Plan | None = None
        self._newest: Plan | None = None  # the planner's when the subwindow began, whether its rows go by it or not
        self._room = self._size = 0  # rows that the newest subwindow still takes, and that it takes in all
        self._turn = 0  # where the next row of a heavy coordinate goes
        self._next = -1  # where the last subwindow went
        self._sample: list[np.ndarray] = []
        self.subwindows = 0

    def copy(self, planner: Planner | None) -> Placement:
        """As it is now, with a planner's copy."""
        own = copy.copy(self)
        own.planner, own._kept, own._sample = planner, list(self._kept), list(self._sample)
        return own

    @property
    def one_plan(self) -> Plan | None:
        """The plan of all rows, where they have one, without heavy coordinates; None else."""
        plans = {id(each.plan): each.plan for each in self._kept}
        plan = next(iter(plans.values())) if len(plans) == 1 else None
        return plan if plan is not None and plan.whole < 0 and not len(plan.heavy) else None

    @property
    def placed(self) -> list[tuple[int, int, int]]:
        """For subwindows in turn: partition, first and last arrival number of each, oldest first."""
        return [(each.plan.whole, each.first, each.end - 1) for each in self._kept]

    # Storing

    def place(self, coordinates: np.ndarray | None, rows: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        """The partitions that store some rows, int16, shape (n,), in the order of arrival."""
        found = np.empty(len(rows), np.int16)
        at = 0
        while at < len(rows):
            if self._room == 0:
                self._begin(None if coordinates is None else coordinates[at:])
            piece = slice(at, at + self._room)
            own = None if coordinates is None else coordinates[piece]
            found[piece] = self._put(own, rows[piece], None if times is None else times[piece])
            self._room -= len(rows[piece])
            at = piece.stop
        return found

    def _most(self) -> int:
        return min(_MAX_SAMPLE, _SAMPLE * self._count)

    def _begin(self, coordinates: np.ndarray | None) -> None:
        """Begins a subwindow, of which the first rows are at hand."""
        self.subwindows += 1
        plan = None
        if self.planner is not None:
            assert coordinates is not None
            if self._newest is not None:
                self.planner.learn(self._side, np.concatenate(self._sample), self._newest)
            self.planner.begin(self._side, coordinates[: self._most()])
            self._newest = self.planner.plan
            plan = self._newest if self.planner.serves(self._side) else None
            self._sample = []
        if plan is None:
            self._next = (self._next + 1) % self._count
            none = np.zeros(0, np.int64)
            plan = Plan(none, none, self._next)
        held = self._window if self._window is not None else sum(each.end - each.first for each in self._kept)
        most = -(-held // (SUBWINDOWS if plan.whole < 0 else IN_TURN * self._count))
        if self._window is None or plan.whole < 0:
            most = max(most, MIN_ROWS)
        if self.planner is not None:
            most = min(most, max(2 * self._size, MIN_ROWS))
        self._size = self._room = self._fixed or most
        self._plan = plan

    def _put(self, coordinates: np.ndarray | None, rows: np.ndarray, times: np.ndarray | None) -> np.ndarray | int:
        plan, spread = self._plan, np.zeros(self._count, np.bool_)
        assert plan is not None
        if coordinates is not None:
            self._sample.append(coordinates[mixed(rows.view(np.uint64)) < np.uint64(self._chosen())])
        targets: np.ndarray | int
        if plan.whole >= 0:
            targets = plan.whole
            held = np.arange(self._count) == targets
        else:
            assert coordinates is not None
            targets = np.searchsorted(plan.splitters, coordinates, "right").astype(np.int16)
            if len(plan.heavy):
                heavy = np.flatnonzero(np.isin(coordinates, plan.heavy))
                targets[heavy] = (self._turn + np.arange(len(heavy))) % self._count
                spread[targets[heavy]] = True
                self._turn = (self._turn + len(heavy)) % self._count
            held = np.bincount(targets, minlength=self._count) > 0
        ends = (0, 0) if times is None else (int(times.min()), int(times.max()))
        first, last = int(rows[0]), int(rows[-1])
        if self._kept and self._kept[-1].plan is plan:
            own = self._kept.pop()
            first, held, spread = own.first, held | own.held, spread | own.spread
            ends = min(ends[0], own.times[0]), max(ends[1], own.times[1])
        self._kept.append(_Subwindows(plan, first, last + 1, held, spread, ends))
        return targets

    def _chosen(self) -> int:
        """A row is in the histogram if its number, mixed, is below this."""
        return min(int((self._most() / self._size) * 2.0**64), 2**64 - 1)

    def forget(self, oldest: int) -> None:
        """No row before this arrival number is stored any more."""
        kept = [each for each in self._kept if each.end > oldest]
        self._kept = [dataclasses.replace(each, first=oldest) if each.first < oldest else each for each in kept]

    # Probing

    def reached(
        self, intervals: list[Interval] | None, probes: int, visible: VisibleRange
    ) -> Iterator[np.ndarray | bool]:
        """For each partition: which probes, by their place in the order of coordinates, meet rows that it may store.

        Parameters
        ----------
        intervals : list of Interval or None
            None: each may meet any row.
        probes : int
            How many there are.
        visible : VisibleRange

        Yields
        ------
        ndarray of bool, shape (probes,), or bool
            True: all of them; False: none.
        """
        seen = [
            each
            for each in self._kept
            if each.end > visible.first_row
            and each.first <= visible.last_row
            and each.times[1] >= visible.first_time
            and each.times[0] <= visible.last_time
        ]
        plans: dict[int, tuple[Plan, np.ndarray, np.ndarray]] = {}
        whole = np.zeros(self._count, np.bool_)
        for each in seen:
            if each.plan.whole >= 0 or intervals is None:
                whole |= each.held
                continue
            _, held, spread = plans.get(id(each.plan), (each.plan, False, False))
            plans[id(each.plan)] = each.plan, held | each.held, spread | each.spread
        for partition in range(self._count):
            if whole[partition] or not probes:
                yield bool(probes)
                continue
            mask: np.ndarray | None = None
            for plan, held, spread in plans.values():
                if not held[partition]:
                    continue
                low, high = plan.range(partition)
                ranges = [(low, high)] if low <= high else []
                if spread[partition]:
                    ranges += [(int(value), int(value)) for value in plan.heavy]
                for (low, high), (which, lower, upper) in itertools.product(ranges, intervals or ()):
                    start, end = int(np.searchsorted(upper, low, "left")), int(np.searchsorted(lower, high, "right"))
                    if start < end:
                        mask = np.zeros(probes, np.bool_) if mask is None else mask
                        mask[slice(start, end) if which is None else which[start:end]] = True
            yield False if mask is None else True if mask.all() else mask


def open_placements(
    partitions: int, coordinates: Coordinates | None, counts: Sides[int] | None, subwindow_rows: int | None,
    *, shared: bool,
) -> Sides[Placement]:  # fmt: skip
    """One for each side; the same for both where they are one stream with one key."""
    planners: Sides[Planner | None] = {"left": None, "right": None}
    if coordinates is not None:
        planners["left"] = planners["right"] = Planner(partitions, even=coordinates.even)
        if not coordinates.common:
            planners["right"] = Planner(partitions, even=coordinates.even)

    def open_one(side: Side) -> Placement:
        window = None
        if counts is not None:
            window = max(counts.values()) if shared else counts[side]
        return Placement(partitions, side, planners[side], window, subwindow_rows)

    left = open_one("left")
    return {"left": left, OTHER["left"]: left if shared else open_one("right")}
