"""`window_join` in streaming queries against the scenarios of Spark's own streaming join suite."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import functions as F

from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.conditions import read_sides
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from tests.oracles.spark_scenarios import ABSENT, DIFFERENCES, FOLDER, SECOND, Join, Scenario, Side, scenarios
from tests.pyspark_bridge.newest_query import newest_query

#: Spark refuses a second `withWatermark` behind a first one where this is on.
ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
#: Run without --full: a window after a restart, unmatched rows of both sides, a chain without micro-batches of no data.
SPREAD = (
    "windowed left semi join",
    "full outer join with watermark range condition",
    "SPARK-49829 two chained stream-stream left outer joins among three input streams",
)


def streamed(runner: Any, side: Side) -> Any:
    """A stream of the side's files, a micro-batch of all that are new."""
    window = side.window
    made = () if window is None else (window["start"], window["end"])
    runner.write(side.name, 0, side.schema.empty_table().drop_columns(list(made)))
    path = str(runner.folder / side.name)
    frame = runner.spark.readStream.schema(runner.spark.read.parquet(path).schema).parquet(path)
    if side.watermark is not None:
        frame = frame.withWatermark(side.watermark["column"], side.watermark["delay"])
    if window is not None:
        size = f"{window['size_seconds']} seconds"
        frame = frame.withColumn("window", F.window(window["of"], size)).drop(window["of"])
    return frame


def joined(join: Join, left: Any, right: Any, aliases: tuple[str, str], scenario: Scenario, daemon: Any) -> Any:
    """By its condition as a Column, which says the time window too where both ends are bounded."""
    on, within = join.parts(arrow_schema_of(left, "left"), arrow_schema_of(right, "right"), aliases)
    left, right = left.alias(aliases[0]), right.alias(aliases[1])
    text = join.condition
    if "window" in left.columns:
        text = re.sub(r"\bwindow_(start|end)\b", r"window.\1", text)
    one_end = within is not None and None in (within.low, within.high)
    if not one_end:
        sides = read_sides(left, right, F.expr(text), None, counted=False)
        assert within in (None, sides.within)
        assert within is None or sides.on == on or sides.computed
    return window_join(
        left,
        right,
        on=F.expr(text),
        within=within if one_end else None,
        how=join.how,
        lag=scenario.lag,
        daemon=daemon.address,
        state=None,
        no_data_batches=False,
    )


class Query:
    """A scenario's query, started for every check from its checkpoint: one micro-batch, as all data is there."""

    def __init__(self, runner: Any, daemon: Any, scenario: Scenario):
        self.runner, self.daemon, self.scenario, self.sides = runner, daemon, scenario, scenario.sides
        frames = {name: streamed(runner, side) for name, side in self.sides.items()}
        self.aliases, self.left_names = ("l", "r"), frames["left"].columns
        self.frame = joined(scenario.first(), frames["left"], frames["right"], self.aliases, scenario, daemon)
        if "chain" in scenario.data:
            self.aliases = ("lr", "t")
            middle = self.frame.select(*(self.named(column) for column in scenario.data["chain"]["intermediate"]))
            second = scenario.second()
            if second.left.watermark is not None:  # max(a, b - low) + max(high, 0), and these are 0
                middle = middle.withWatermark("eventTime", "0 seconds")
            self.left_names = middle.columns
            self.frame = joined(second, middle, frames["third"], self.aliases, scenario, daemon)
        self.seen = self.files = 0

    def named(self, column: dict[str, str]) -> Any:
        alias, name = column["sql"].split(".")
        return F.col(name if alias == "l" or name not in self.left_names else f"{name}_right").alias(column["name"])

    def add(self, rows: dict[str, list[list[Any]]]) -> None:
        self.files += 1
        for name, new in rows.items():
            window = self.sides[name].window
            made = [] if window is None else [window["start"], window["end"]]
            self.runner.write(name, self.files, self.sides[name].table(new).drop_columns(made))

    def check(self) -> tuple[list[tuple[Any, ...]], int, int | None]:
        rows = self.runner.run(self.frame)
        found = [self.scenario.output(row.asDict(recursive=True), self.left_names, self.aliases) for row in rows]
        new, self.seen = found[self.seen :], len(found)
        stats = newest_query(self.daemon)["stats"]
        watermark = None if stats["watermark"] is None else stats["watermark"] // SECOND
        if "chain" in self.scenario.data:  # two joins, which the daemon has no order of
            watermark = None
        return new, stats["late_left"] + stats["late_right"], watermark


@pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, marks=[] if s.name in SPREAD else pytest.mark.full) for s in scenarios()],
    ids=lambda scenario: scenario.name,
)
def test_rows_late_rows_and_watermarks_are_those_of_spark(runner: Any, daemon: Any, scenario: Scenario) -> None:
    """Each comes out as in Spark, or otherwise just as the contract says; watermarks of windows to the start of one."""
    query = Query(runner, daemon, scenario)
    window = scenario.sides["left"].window
    runner.spark.conf.set(ALLOW_MULTIPLE, str("chain" not in scenario.data).lower())
    try:
        found = scenario.problems(query.add, query.check, lambda: None, window["size_seconds"] if window else 1)
    finally:
        runner.spark.conf.unset(ALLOW_MULTIPLE)
    assert found == DIFFERENCES.get(scenario.name, ([], ""))[0]
