"""Some random joins; ``make random-joins`` runs as many as it is told."""

from __future__ import annotations

import operator
from collections import Counter
from unittest import mock

import pytest

from tests.oracles.nested_loop import OPERATORS
from tests.random_joins.case import HOWS, draw
from tests.random_joins.check import Outcome, run
from tests.random_joins.seeds import found, quiet
from tests.random_joins.shrink import shrink

PARTS, OF_A_PART = 10, 50


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


def check(seeds: range, *, shell: bool = False) -> None:
    """Runs these seeds; most of them join some rows, and a third in the shell, which has not all that is drawn."""
    verdicts: Counter[tuple[str, bool]] = Counter()
    for seed in seeds:
        result = found(seed, 0, shell)
        assert not result.outcome.fault, result.told()
        verdicts[result.outcome.verdict, result.outcome.pairs > 0] += 1
    assert verdicts["right", True] > (0.3 if shell else 0.4) * len(seeds), verdicts


@pytest.mark.parametrize("part", range(PARTS))
def test_every_result_is_the_nested_loops(part: int) -> None:
    check(range(part * OF_A_PART, (part + 1) * OF_A_PART))


def test_the_command_gives_the_nested_loops_over_files() -> None:
    check(range(80), shell=True)


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_many(part: int) -> None:
    check(range(1000 + part * 500, 1000 + (part + 1) * 500), shell=part % 4 == 0)


def test_seeds_draw_all_there_is() -> None:
    """Forms, joins and ways in are all drawn, and a seed draws one case."""
    cases = [draw(seed) for seed in range(PARTS * OF_A_PART)]
    assert {case.options["how"] for case in cases} == set(HOWS)
    assert {case.options["form"] for case in cases} == {"rows", "pairs", "counts", "ranges", "aggregate"}
    assert {case.way.name for case in cases} == {"process", "blocks", "push", "state", "stream", "request"}
    assert {case.as_of["direction"] for case in cases if case.as_of} == {"backward", "forward", "nearest"}
    assert any(case.as_of["where"] for case in cases if case.as_of)
    assert any(part.kind == "any" and "<=>" in str(part.parts) for case in cases for part in case.parts)
    assert draw(7).told() == cases[7].told()


def wrong_with(op: str, other: object) -> Outcome:
    """The outcome of the smallest case of a wrong result, where the loop takes one operator for another."""
    with mock.patch.dict(OPERATORS, {op: other}):
        for seed in range(1000):
            case = draw(seed)
            outcome = run(case)
            if outcome.fault:
                smallest, outcome = shrink(case, outcome, 60)
                rows = [len(table) for call in smallest.calls for push in call for table in push if table is not None]
                assert sum(rows) <= 2
                assert len(smallest.parts) == 1
                return outcome
    pytest.fail(f"no case finds that {op} is another")


@pytest.mark.parametrize(("op", "other"), [("<=", operator.lt), ("!=", operator.eq)])
def test_a_difference_is_found_and_made_small(op: str, other: object) -> None:
    assert wrong_with(op, other).verdict == "wrong"
