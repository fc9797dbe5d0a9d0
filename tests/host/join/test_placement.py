"""Where the rows of a window lie: plans, sizes of subwindows, and which partitions probes reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.host.engine.placement import (
    Coordinates,
    Interval,
    Placement,
    Plan,
    Planner,
    VisibleRange,
    mixed,
    open_placements,
)

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ALL = VisibleRange(0, 1 << 40, LEAST, MOST)
QUARTERS = [-(1 << 62), 0, 1 << 62]


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def repeated(**counts: int) -> np.ndarray:
    """Coordinates by their counts: ``_7=3`` is three of 7."""
    return np.concatenate([np.full(count, int(name[1:])) for name, count in counts.items()])


def planner_of(partitions: int, coordinates: np.ndarray, *, even: bool = False) -> Planner:
    planner = Planner(partitions, even=even)
    planner.begin("left", coordinates)
    return planner


def put(placement: Placement, coordinates: np.ndarray | None, first: int, times: np.ndarray | None = None) -> list[int]:
    """Places rows, numbered from `first` on."""
    count = len(times) if coordinates is None and times is not None else 0 if coordinates is None else len(coordinates)
    return placement.place(coordinates, np.arange(first, first + count), times).tolist()


def masks(
    placement: Placement, intervals: list[Interval] | None, probes: int, visible: VisibleRange = ALL
) -> list[Any]:
    found = placement.reached(intervals, probes, visible)
    return [mask if isinstance(mask, bool) else mask.astype(int).tolist() for mask in found]


# Plans


def test_a_plan_divides_coordinates() -> None:
    plan = Plan(array(-5, 10, 10), array(3))
    assert [plan.range(partition) for partition in range(4)] == [(LEAST, -6), (-5, 9), (10, 9), (10, MOST)]
    assert plan.loads(array(-100, -6, -5, 3, 3, 9, 10, 11)).tolist() == [2.5, 2.5, 0.5, 2.5]


@pytest.mark.parametrize(
    ("partitions", "coordinates", "splitters", "heavy"),
    [
        (4, np.arange(100), [25, 50, 75], []),
        (2, repeated(_0=3, _1=6, _2=3), [1], []),  # as near to both ends of the value: before it
        (2, repeated(_0=3, _1=5, _2=4), [2], []),
        (2, repeated(_0=2, _1=6, _2=4), [2], []),
        (2, np.concatenate([np.arange(7), np.full(8, MOST)]), [MOST], []),  # no coordinate lies behind it
        (2, repeated(_3=8, _4=8), [4], []),
        (2, repeated(_3=9, _4=8), [4], [3]),
        (2, repeated(_3=10, _1=15, _2=15, _9=60), [3], [1, 2, 9]),
        (2, repeated(_7=20, _9=20), [8], [7, 9]),
    ],
)
def test_splitters_of_a_sample(
    partitions: int, coordinates: np.ndarray, splitters: list[int], heavy: list[int]
) -> None:
    plan = planner_of(partitions, np.random.default_rng(1).permutation(coordinates)).plan
    assert (plan.splitters.tolist(), plan.heavy.tolist(), plan.whole) == (splitters, heavy, -1)


def test_splitters_of_hashes_are_even_unless_the_sample_says_otherwise() -> None:
    rng = np.random.default_rng(2)
    spread = np.append(rng.integers(LEAST, MOST, 4000), [LEAST, MOST])
    assert planner_of(4, spread, even=True).plan.splitters.tolist() == QUARTERS
    low = np.arange(LEAST, LEAST + 32)
    assert planner_of(4, low[:31], even=True).plan.splitters.tolist() == QUARTERS  # too few values to say so
    assert planner_of(4, low, even=True).plan.splitters.tolist() == [LEAST + 8, LEAST + 16, LEAST + 24]
    # Of 4,000 rows, a partition may have 1.1 * (1 + 3 * (4 / 4000) ** 0.5) of its share by chance: 1,204.
    for most, even in ((1203, True), (1206, False)):
        counts = [most, *np.diff([0, (4000 - most) // 3, 2 * (4000 - most) // 3, 4000 - most]).tolist()]
        own = np.concatenate([np.arange(count) + low for count, low in zip(counts, [LEAST, *QUARTERS], strict=True)])
        assert (planner_of(4, own, even=True).plan.splitters.tolist() == QUARTERS) == even


def test_a_plan_is_of_the_newest_rows_of_both_sides() -> None:
    planner = planner_of(2, np.arange(100))
    planner.begin("right", np.arange(500, 600))  # there is a plan already
    assert (planner.plans, planner.plan.splitters.tolist()) == (1, [50])
    planner.learn("right", np.arange(100, 200), planner.plan)
    assert (planner.plans, planner.plan.splitters.tolist()) == (2, [100])
    planner.learn("right", np.arange(50, 150), planner.plan)
    assert (planner.plans, planner.plan.splitters.tolist()) == (2, [100])  # even by this plan
    planner.learn("left", array(), planner.plan)
    planner.learn("left", np.arange(200, 300), planner.plan)
    assert (planner.plans, planner.plan.splitters.tolist()) == (3, [150])


def test_ranges_are_given_up_where_two_subwindows_in_a_row_lie_elsewhere() -> None:
    planner = planner_of(4, np.arange(4000))
    for step, serves in ((1, True), (2, False), (3, False)):
        before = planner.plan
        planner.learn("left", np.arange(4000) + 4000 * step, before)
        assert planner.serves("left") == serves
    assert planner.serves("right")
    before, even = planner.plan, np.arange(12_000, 16_000)
    partly = np.concatenate([np.full(360, 12_001) + np.arange(360), even[:3640]])  # a third more than its share
    planner.learn("left", partly, before)
    assert not planner.serves("left")  # neither near nor far
    planner.learn("left", even, before)
    assert planner.serves("left")
    # Few rows lie elsewhere by chance.
    for rows, serves in ((12, True), (14, False)):
        planner = planner_of(4, np.arange(4000))
        for _ in range(2):
            planner.learn("left", np.full(rows, 9000) + np.arange(rows), Plan(array(1000, 2000, 3000), array()))
        assert planner.serves("left") == serves
    other = planner_of(4, np.arange(4000))
    other.learn("right", np.arange(4000, 8000), other.plan)
    assert other.serves("right")
    hashes = planner_of(4, np.arange(4000), even=True)
    for step in (1, 2):
        hashes.learn("left", np.arange(4000) + 4000 * step, hashes.plan)
    assert hashes.serves("left")


def test_ranges_are_given_up_where_probes_reach_most_of_them() -> None:
    planner = Planner(4, even=False)
    planner.probes([(None, array(0), array(99))], 1)
    assert planner.serves("left")  # of no plan
    planner.begin("left", np.arange(100))
    for lower, upper, serves in ((0, 99, False), (0, 74, True), (25, 99, True), (24, 75, False), (0, 75, False)):
        planner.probes([(None, array(lower), array(upper))], 1)
        assert planner.serves("left") == serves
        planner.probes([], 0)
        assert planner.serves("left") == serves
    ends = np.zeros(4000, np.int64), np.full(4000, 60)  # 3 of 4
    planner.probes([(None, *ends)], 4000)
    assert planner.serves("left")
    planner.probes([(None, *ends), (None, ends[0][:2000], ends[1][:2000])], 4000)
    assert not planner.serves("left")


@pytest.mark.parametrize(
    ("rows", "of_9", "cold"), [(8000, 50, False), (8000, 49, True), (2048, 0, True), (2047, 0, False)]
)
def test_heavy_coordinates_that_become_rare(rows: int, of_9: int, cold: bool) -> None:
    """An eighth of a fifth of a partition's share: 50 of 8,000 rows for four partitions."""
    planner = planner_of(4, np.concatenate([np.full(500, 9), np.full(500, 11), np.arange(100, 5000)]))
    assert (planner.plan.heavy.tolist(), planner.heavy) == ([9, 11], 2)
    rest = np.linspace(100, 4999, rows - of_9 - 500).astype(np.int64)
    planner.learn("left", np.concatenate([np.full(of_9, 9), np.full(500, 11), rest]), planner.plan)
    assert (planner.plan.heavy.tolist() == [11]) == cold
    assert Planner(4, even=True).heavy == 0


# Subwindows


def test_subwindows_in_turn() -> None:
    placement = Placement(4, "left", None, 800, None)  # a sixteenth of a partition's share of the window
    assert put(placement, None, 0, np.zeros(30, np.int64)) == [0] * 13 + [1] * 13 + [2] * 4
    assert put(placement, None, 30, np.zeros(30, np.int64)) == [2] * 9 + [3] * 13 + [0] * 8
    placement.forget(13)
    assert placement.placed == [(1, 13, 25), (2, 26, 38), (3, 39, 51), (0, 52, 59)]
    placement.forget(27)
    assert placement.placed == [(2, 27, 38), (3, 39, 51), (0, 52, 59)]
    assert placement.subwindows == 5
    fixed = Placement(2, "left", None, 800, 3)
    assert put(fixed, None, 0, np.zeros(8, np.int64)) == [0, 0, 0, 1, 1, 1, 0, 0]


def sizes_of(placement: Placement, rows: int, kept: int, *, ranges: bool) -> list[int]:
    """How many rows each subwindow takes, where so many are stored; they come one by one."""
    begins, seen = [], 0
    for row, coordinate in enumerate(np.random.default_rng(3).integers(LEAST, MOST, rows)):
        put(placement, array(coordinate) if ranges else None, row, np.zeros(1, np.int64))
        placement.forget(row + 1 - kept)
        if placement.subwindows > seen:
            seen = placement.subwindows
            begins.append(row)
    return np.diff(begins).tolist()


def test_sizes_of_subwindows() -> None:
    """An eighth of a window by ranges: of a count window no more than twice the one before; of time what is there."""
    for window, sizes in ((3200, [64, 128, 256, 400, 400]), (80, [64] * 23)):
        counted = Placement(2, "left", Planner(2, even=True), window, None)
        assert sizes_of(counted, 1500, window, ranges=True) == sizes
    for ranges, part in ((True, 8), (False, 32)):
        due: list[int] = []
        while sum(due) < 5000:
            due.append(max(-(-min(sum(due), 3000) // part), 64))
        timed = Placement(2, "left", Planner(2, even=True) if ranges else None, None, None)
        assert sizes_of(timed, sum(due) + 1, 3000, ranges=ranges) == due


class Recorded(Planner):
    """Keeps what it has learned."""

    def __init__(self, partitions: int):
        super().__init__(partitions, even=False)
        self.learned: list[tuple[str, list[int]]] = []

    def learn(self, side: Any, sample: np.ndarray, before: Plan) -> None:
        self.learned.append((side, sample.tolist()))
        assert before is self.plan
        super().learn(side, sample, before)


def test_a_planner_learns_of_whole_subwindows() -> None:
    planner = Recorded(2)
    placement = Placement(2, "right", planner, 100, 100)
    for at in range(0, 320, 40):
        put(placement, np.arange(at, at + 40), at)
    assert planner.learned == [("right", [*range(at, at + 100)]) for at in (0, 100, 200)]
    assert planner.plans == 4


def test_a_planner_learns_a_sample_of_large_subwindows() -> None:
    planner = Recorded(2)
    placement = Placement(2, "left", planner, None, 20_000)
    rows = np.arange(40_001)
    placement.place(rows + 7, rows, np.zeros(len(rows), np.int64))
    chosen = rows[mixed(rows.view(np.uint64)) < np.uint64(int(4096 / 20_000 * 2.0**64))]
    assert planner.learned == [("left", (chosen[chosen // 20_000 == at] + 7).tolist()) for at in (0, 1)]


def test_rows_of_heavy_coordinates_go_in_turn() -> None:
    planner = planner_of(3, repeated(_5=90, _50=9))
    assert planner.plan.heavy.tolist() == [5, 50]
    placement = Placement(3, "left", planner, 900, 100)
    assert put(placement, array(5, 5, 1, 5, 5), 0) == [0, 1, 0, 2, 0]
    assert put(placement, array(7, 5, 5, 50), 5)[1:] == [1, 2, 0]
    assert placement.one_plan is None


def test_copies_change_apart() -> None:
    planner = planner_of(2, np.arange(1000))
    placement = Placement(2, "left", planner, 9000, 1000)
    put(placement, np.arange(1000), 0)
    own = planner.copy()
    copied = placement.copy(own)
    put(copied, np.arange(5000, 8001), 1000)
    assert (own.plans, planner.plans) == (4, 1)
    assert (placement.subwindows, copied.subwindows, own.serves("left"), planner.serves("left")) == (1, 5, False, True)
    assert [end for _, _, end in placement.placed] == [999]
    put(placement, np.arange(9000, 9001), 1000)
    assert planner.plan.splitters.tolist() == [500]  # of the rows from 0 to 999 alone


# Probes


def test_which_probes_reach_a_partition() -> None:
    placement = Placement(2, "right", planner_of(2, np.arange(10)), 100, 10)
    put(placement, np.arange(10), 0, np.arange(3, 13))
    assert placement.one_plan is not None
    lower, upper = array(-3, 2, 4, 5, 8), array(-1, 3, 5, 6, 20)
    assert masks(placement, [(None, lower, upper)], 5) == [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]
    which = array(4, 0, 3, 1, 2)
    assert masks(placement, [(which, lower, upper)], 5) == [[1, 0, 0, 1, 1], [0, 1, 1, 1, 0]]
    assert masks(placement, [(None, lower[:2], upper[:2])], 2) == [True, False]
    both = [(array(0, 1), array(1, 2), array(1, 2)), (array(1, 2), array(6, 7), array(6, 7))]
    assert masks(placement, both, 3) == [[1, 1, 0], [0, 1, 1]]
    assert masks(placement, None, 3) == [True, True]
    assert masks(placement, None, 0) == masks(placement, [], 0) == [False, False]
    for visible, seen in (
        (VisibleRange(9, 99, 0, 99), True),
        (VisibleRange(10, 99, 0, 99), False),
        (VisibleRange(-9, 0, 0, 99), True),
        (VisibleRange(-9, -1, 0, 99), False),
        (VisibleRange(0, 99, 12, 99), True),
        (VisibleRange(0, 99, 13, 99), False),
        (VisibleRange(0, 99, 0, 3), True),
        (VisibleRange(0, 99, 0, 2), False),
    ):
        assert masks(placement, None, 1, visible) == [seen, seen]
    placement.forget(10)
    assert masks(placement, None, 1) == [False, False]


def test_probes_go_only_where_rows_are() -> None:
    """In partitions that have none, in ranges that are empty, and for heavy coordinates where rows of these are."""
    placement = Placement(3, "right", planner_of(3, np.arange(9)), 100, 10)
    put(placement, array(0, 8), 0)
    everything = [(None, array(LEAST), array(MOST))]
    assert masks(placement, everything, 1) == masks(placement, None, 1) == [True, False, True]
    assert masks(placement, everything, 1, VisibleRange(0, 1, 0, 0)) == [True, False, True]  # of rows without times
    planner = planner_of(3, np.concatenate([np.full(40, 5), array(1, 1, 1, 1, 1, 9)]))
    assert (planner.plan.splitters.tolist(), planner.plan.heavy.tolist()) == ([1, 2], [5])
    heavy = Placement(3, "right", planner, 100, 100)
    put(heavy, array(5, 5), 0)
    lower, upper = array(0, 0, 5, 6), array(0, 9, 5, 9)
    assert masks(heavy, [(None, lower, upper)], 4) == [[1, 1, 1, 0], [0, 1, 1, 0], False]
    put(heavy, array(1), 2)
    assert masks(heavy, [(None, lower, upper)], 4) == [[1, 1, 1, 0], [0, 1, 1, 0], False]


def test_neighbouring_subwindows_of_one_plan() -> None:
    placement = Placement(2, "right", planner_of(2, np.arange(20)), 100, 4)
    for at, coordinates, times in ((0, [1, 12, 2, 13], [50, 60, 55, 58]), (4, [3, 4, 14, 16], [40, 45, 70, 41])):
        put(placement, array(*coordinates), at, array(*times))
    assert [(first, end) for _, first, end in placement.placed] == [(0, 7)]
    assert masks(placement, None, 1, VisibleRange(0, 99, 70, 99)) == [True, True]
    assert masks(placement, None, 1, VisibleRange(0, 99, 0, 40)) == [True, True]
    assert masks(placement, None, 1, VisibleRange(7, 99, 0, 99)) == [True, True]
    placement.forget(7)
    assert masks(placement, None, 1, VisibleRange(0, 6, 0, 99)) == [False, False]


@settings(max_examples=60)
@given(st.data())
def test_probes_reach_all_that_they_may_meet(data: st.DataObject) -> None:
    partitions = data.draw(st.integers(2, 4))
    planner = data.draw(st.sampled_from([None, Planner(partitions, even=False), Planner(partitions, even=True)]))
    size = data.draw(st.integers(3, 30))
    placement = Placement(partitions, "right", planner, data.draw(st.sampled_from([None, 40])), size)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    stored: list[tuple[int, int, int]] = []  # coordinate, time, partition
    oldest = 0
    for call in range(data.draw(st.integers(1, 6))):
        count = int(rng.integers(0, 40))
        coordinates = np.where(rng.random(count) < 0.4, 7, rng.integers(0, 30, count)) + 10 * call
        times = call * 10 + rng.integers(-9, 9, count)
        rows = np.arange(len(stored), len(stored) + count)
        targets = placement.place(None if planner is None else coordinates, rows, times)
        stored += zip(coordinates.tolist(), times.tolist(), targets.tolist(), strict=True)
        placement.forget(oldest := int(rng.integers(oldest, len(stored) + 1)))
        lower = np.sort(rng.integers(-5, 90, 8))
        upper = np.maximum(lower, np.sort(lower + rng.integers(0, 9, 8)))
        visible = VisibleRange(*np.sort(rng.integers(0, 99, 2)).tolist(), *np.sort(rng.integers(-9, 70, 2)).tolist())
        found = [np.broadcast_to(mask, 8) for mask in placement.reached([(None, lower, upper)], 8, visible)]
        for row, (coordinate, time, target) in enumerate(stored):
            seen = visible.first_row <= row <= visible.last_row and visible.first_time <= time <= visible.last_time
            if seen and row >= oldest:
                meets = (lower <= coordinate) & (coordinate <= upper)
                assert found[target][meets].all()


class Common(Coordinates):
    even = by_key = False

    def __init__(self, common: bool):
        self.common = common

    def of(self, side: Any, keys: np.ndarray) -> np.ndarray:
        return keys

    def reach(self, side: Any, keys: np.ndarray, coordinates: np.ndarray) -> list[Interval]:
        return [(None, coordinates, coordinates)]


def test_placements_of_both_sides() -> None:
    """One planner where coordinates of both sides can be compared, one placement where both are one stream."""
    for coordinates, planners in ((None, 0), (Common(True), 1), (Common(False), 2)):
        apart = open_placements(2, coordinates, {"left": 320, "right": 640}, None, shared=False)
        assert apart["left"] is not apart["right"]
        assert len({id(own) for each in apart.values() if (own := each.planner) is not None}) == planners
    counts: Any = {"left": 320, "right": 640}
    for shared, due in ((False, {"left": [10], "right": [20]}), (True, {"left": [20], "right": [20]})):
        placements = open_placements(2, None, counts, None, shared=shared)
        assert (placements["left"] is placements["right"]) == shared
        for side, sizes in due.items():
            placement = open_placements(2, None, counts, None, shared=shared)[side]  # type: ignore[index]
            put(placement, None, 0, np.zeros(sizes[0] + 1, np.int64))
            assert placement.placed == [(0, 0, sizes[0] - 1), (1, sizes[0], sizes[0])]
    (timed,) = {id(p): p for p in open_placements(2, None, None, 5, shared=True).values()}.values()
    assert put(timed, None, 0, np.zeros(6, np.int64)) == [0] * 5 + [1]
