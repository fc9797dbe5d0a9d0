"""The joins of some seeds, one after the other, as a process runs them."""

from __future__ import annotations

import dataclasses
from collections import Counter

import structlog

from tests.random_joins.case import Case, draw
from tests.random_joins.check import Outcome, run
from tests.random_joins.shrink import shrink

SHRUNK = 3  # failures of a kind that are shrunk, by each process


def told(seed: int, case: Case, outcome: Outcome) -> str:
    """A failure, and how to see it again."""
    return f"python -m tests.random_joins --seed {seed}\n{case.told()}\n{outcome.verdict}: {outcome.text}"


def quiet() -> None:
    """Leaves out what daemons log."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@dataclasses.dataclass(frozen=True)
class Task:
    """What a process does at a time."""

    seeds: range
    shrink: float


_shrunk: Counter[str] = Counter()


def run_seeds(task: Task) -> list[tuple[int, Case | None, Outcome, dict[str, str]]]:
    """The outcomes of some seeds; of those that failed, the smallest cases found."""
    found = []
    for seed in task.seeds:
        case = draw(seed)
        traits, outcome = features(case), run(case)
        smallest: Case | None = None
        if outcome.fault:
            smallest = case
            _shrunk[outcome.kind] += 1
            if task.shrink and _shrunk[outcome.kind] <= SHRUNK:
                smallest, outcome = shrink(case, outcome, task.shrink)
        found.append((seed, smallest, outcome, traits))
    return found


def features(case: Case) -> dict[str, str]:
    """What the summary counts of a case."""
    window = "as-of" if case.as_of else "count" if case.rows else "time" if case.within else "none"
    return {
        "form": case.options["form"] + (" at close" if case.options.get("at") == "close" else ""),
        "how": case.options["how"],
        "window": window,
        "device": case.device,
        "way": case.way.name,
        "index": getattr(case.options.get("index"), "name", str(case.options.get("index"))),
        "engine": getattr(case.options.get("engine"), "name", str(case.options.get("engine"))),
    }
