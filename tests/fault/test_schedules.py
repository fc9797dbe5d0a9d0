"""Some schedules of faults; ``make fault`` runs as many as it is told, ``make fault-real`` kills processes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import structlog

from muntin.host.engine.routes import COPIED, DIVIDED, BinHistogram, RoutePlanner
from tests.fault.planted import Planted
from tests.fault.simulator import Schedule
from tests.fault.world import WrongError

PARTS, OF_A_PART = 4, 75
#: A schedule that finds a planted fault. What a seed makes changes with the simulator: then the next one that does.
FINDS = {
    "synced": 12,
    "checked": 330,
    "fenced": 120,
    "written_first": 23,
    "awaited": 2,
    "final": 13,
    "settled": 38460,
    "by_content": 21,
    "timed_out": 9,
    "first_wins": 8,
    "all_there": 4,
    "in_time": 116,
    "empty_count": 13,
    "joined_by_all": 112,
    "window_known": 10,
    "cancelled": 16,
    "placed": 3,
    "copied": 3,
    "in_force": 2133,
    "announced": 13,
    "settled_down": 60,
    "newest_counts": 1487,
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_result_is_the_oracles(part: int, seed: int) -> None:
    for at in range(OF_A_PART):
        Schedule(PARTS * OF_A_PART * seed + OF_A_PART * part + at).run()


def test_a_seed_makes_one_schedule() -> None:
    for seed in (1, 22, 77):
        stories = []
        for _ in range(2):
            schedule = Schedule(seed)
            schedule.run()
            stories.append(schedule.story)
        assert stories[0] == stories[1]
        assert len(stories[0]) > 5


def test_routes_are_announced_then_change_and_settle() -> None:
    """In schedules of each kind of window, and change again; bins are also spread, by either side."""
    reached: Counter[tuple[str, int]] = Counter()
    spread: set[int] = set()

    def counted(planner: RoutePlanner, loads: BinHistogram, *more: Any) -> None:
        before = planner.routes(loads.partitions)
        advance(planner, loads, *more)
        routes = planner.routes(loads.partitions)
        if routes.epoch > before.epoch:
            reached[schedule.name.split()[0], routes.epoch] += 1
            spread.update(routes.table[routes.table < 0].tolist())

    advance: Callable[..., None] = RoutePlanner.advance
    with mock.patch.object(RoutePlanner, "advance", counted):
        for seed in range(300):
            schedule = Schedule(seed)
            if schedule.changing:
                schedule.run()
    for window in ("count", "time"):
        for phase in (1, 2, 3):
            assert reached[window, phase], (window, phase)
    assert reached["count", 4]
    assert spread == {COPIED, DIVIDED}


@pytest.mark.parametrize("fault", [field.name for field in dataclasses.fields(Planted)])
def test_planted_faults_are_found(fault: str) -> None:
    """By a schedule in which nothing is wrong without the fault."""
    first = FINDS.get(fault, 0)
    for seed in range(first, first + 1000):
        try:
            Schedule(seed, Planted(**{fault: False})).run()
        except WrongError:
            Schedule(seed).run()
            return
    pytest.fail(f"no schedule finds that {fault}=False")
