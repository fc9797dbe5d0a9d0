"""Some schedules of faults; ``make fault`` runs as many as it is told, ``make fault-real`` kills processes."""

from __future__ import annotations

import dataclasses

import pytest
import structlog

from tests.fault.planted import Planted
from tests.fault.simulator import Schedule
from tests.fault.world import WrongError

PARTS, OF_A_PART = 8, 250
#: A schedule that finds a planted fault. What a seed makes changes with the simulator: then the next one that does.
FINDS = {
    "synced": 62,
    "checked": 323,
    "fenced": 27,
    "written_first": 22,
    "awaited": 1,
    "final": 15,
    "settled": 1249,
    "by_content": 28,
    "first_wins": 6,
    "all_there": 4,
    "in_time": 3,
    "empty_count": 8,
    "joined_by_all": 220,
    "window_known": 31,
    "cancelled": 112,
    "placed": 6,
    "copied": 6,
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_result_is_the_oracles(part: int, seed: int) -> None:
    for at in range(OF_A_PART):
        Schedule(PARTS * OF_A_PART * seed + OF_A_PART * part + at).run()


def test_a_seed_makes_one_schedule() -> None:
    for seed in (1, 2, 3):
        stories = []
        for _ in range(2):
            schedule = Schedule(seed)
            schedule.run()
            stories.append(schedule.story)
        assert stories[0] == stories[1]
        assert len(stories[0]) > 5


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
