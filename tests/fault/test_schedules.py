"""Some schedules of faults; ``make fault`` runs thousands, ``make fault-real`` kills processes."""

from __future__ import annotations

import pytest
import structlog

from tests.fault.simulator import Planted, Schedule, WrongError


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("part", range(2))
def test_every_result_is_that_of_an_uninterrupted_run(part: int, seed: int) -> None:
    for at in range(8):
        Schedule(seed + 8 * part + at).run()


def test_a_seed_makes_one_schedule() -> None:
    stories = []
    for _ in range(2):
        schedule = Schedule(17)
        schedule.run()
        stories.append(schedule.story)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 1


@pytest.mark.parametrize("fault", ["synced", "checked", "repeats"])
def test_planted_faults_are_found(fault: str) -> None:
    for seed in range(60):
        try:
            Schedule(seed, Planted(**{fault: False})).run()
        except WrongError:
            return
    pytest.fail(f"no schedule finds that {fault}=False")
