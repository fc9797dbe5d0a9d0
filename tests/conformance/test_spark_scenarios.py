"""`WindowJoin` against the scenarios of Spark's own streaming join suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import Watermark, WindowJoin
from tests.oracles.spark_scenarios import ABSENT, DIFFERENCES, FOLDER, ROOT, SECOND, Join, Scenario, scenarios

needs_scenarios = pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)


class Running:
    """A join of a scenario, which goes on from its state after a restart."""

    def __init__(
        self, join: Join, schemas: dict[str, pa.Schema], aliases: tuple[str, str], lag: int, state: Path | None
    ):
        on, within = join.parts(schemas["left"], schemas["right"], aliases)
        self.options: dict[str, Any] = {
            "on": on, "within": within, "how": join.how, "state": state,
            "left_schema": schemas["left"], "right_schema": schemas["right"],
        }  # fmt: skip
        if within is not None:
            marks = {}
            for name, side in (("left", join.left), ("right", join.right)):
                if side.watermark is not None:
                    marks[name] = side.watermark["delay"]
                    if side.window is not None:
                        marks[f"{name}_column"] = side.watermark["column"]
            self.options["watermark"] = Watermark(**marks, lag=lag, initial=0)
        self.left_names = schemas["left"].names
        self.late = 0
        self.join = WindowJoin(**self.options)

    def process(self, left: pa.Table, right: pa.Table) -> list[dict[str, Any]]:
        before = self.join.stats
        rows = self.join.process(left, right).to_pylist()
        after = self.join.stats
        self.late += after.late_left + after.late_right - before.late_left - before.late_right
        return rows

    def restart(self) -> None:
        self.join.close()
        self.join = WindowJoin(**self.options)

    @property
    def watermark(self) -> int | None:
        value = self.join.stats.watermark
        return None if value is None else value // SECOND


def run(scenario: Scenario, tmp_path: Path) -> list[tuple[int, str]]:
    """What comes out otherwise than in Spark."""
    sides = scenario.sides
    schemas = {name: side.schema for name, side in sides.items()}
    state = tmp_path / "state" if scenario.restarts else None
    first = last = Running(scenario.first(), schemas, ("l", "r"), scenario.lag, state)
    if "chain" in scenario.data:
        wanted = [column["sql"].split(".") for column in scenario.data["chain"]["intermediate"]]
        kinds = [schemas["left" if alias == "l" else "right"].field(name).type for alias, name in wanted]
        names = [column["name"] for column in scenario.data["chain"]["intermediate"]]
        middle = pa.schema(list(zip(names, kinds, strict=True)))
        of_second = {"left": middle, "right": schemas["third"]}
        last = Running(scenario.second(), of_second, ("lr", "t"), scenario.lag, None)
    found: list[tuple[Any, ...]] = []
    aliases = ("lr", "t") if "chain" in scenario.data else ("l", "r")

    def add(rows: dict[str, list[list[Any]]]) -> None:
        tables = {name: side.table(rows.get(name, [])) for name, side in sides.items()}
        joined = first.process(tables["left"], tables["right"])
        if last is not first:
            between = [scenario.intermediate(row, first.left_names) for row in joined]
            joined = last.process(pa.Table.from_pylist(between, schema=middle), tables["third"])
        found.extend(scenario.output(row, last.left_names, aliases) for row in joined)

    def check() -> tuple[list[tuple[Any, ...]], int, int | None]:
        rows = found.copy()
        found.clear()
        return rows, last.late, last.watermark

    try:
        return scenario.problems(add, check, first.restart)
    finally:
        first.join.close()
        last.join.close()


@needs_scenarios
@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_rows_late_rows_and_watermarks_are_those_of_spark(scenario: Scenario, tmp_path: Path) -> None:
    """Each scenario comes out as in Spark, or otherwise just as the contract says."""
    assert run(scenario, tmp_path) == DIFFERENCES.get(scenario.name, ([], ""))[0]


@needs_scenarios
def test_none_is_left_out() -> None:
    names = [scenario.name for scenario in scenarios()]
    assert len(names) == len(set(names)) == 43
    assert set(DIFFERENCES) <= set(names)
    assert len(DIFFERENCES) <= 3
    contract = " ".join((ROOT / "design.md").read_text().split())
    assert all(problems and sentence in contract for problems, sentence in DIFFERENCES.values())
