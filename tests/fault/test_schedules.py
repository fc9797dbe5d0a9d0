"""Some schedules of faults; ``make fault`` runs as many as it is told, ``make fault-real`` kills processes."""

from __future__ import annotations

import dataclasses

import pytest
import structlog

from tests.fault.simulator import Planted, Schedule
from tests.fault.world import WrongError

#: Schedules that have found something, by what it was.
FOUND = {
    130: "a daemon opened an empty state, which another one has filled since",
    272: "the watermark was that of a daemon whose partition another one has gone on with",
    20240607102: "the folder could not be synced: a commit was believed, and went with the machine",
}
#: Where to look for a schedule that finds a planted fault.
FIRST = {"timed_out": 11, "current": 130, "written_first": 3, "synced": 28, "checked": 68, "fenced": 136}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("part", range(8))
def test_every_result_is_the_oracles(part: int, seed: int) -> None:
    for at in range(100):
        Schedule(1000 * seed + 100 * part + at).run()


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found(seed: int) -> None:
    Schedule(seed).run()


def test_a_seed_makes_one_schedule() -> None:
    stories = []
    for _ in range(2):
        schedule = Schedule(130)
        schedule.run()
        stories.append(schedule.story)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 5


@pytest.mark.parametrize("fault", [field.name for field in dataclasses.fields(Planted)])
def test_planted_faults_are_found(fault: str) -> None:
    for seed in range(FIRST.get(fault, 0), 1000):
        try:
            Schedule(seed, Planted(**{fault: False})).run()
        except WrongError:
            return
    pytest.fail(f"no schedule finds that {fault}=False")
