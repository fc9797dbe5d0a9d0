"""The scenarios of Spark's own streaming join suite: rows in, watermarks, restarts, late rows, rows out.

`../shared/spark-joins/scenarios.json` says how they are to be read. Here each becomes a condition, a time window and
rows for `WindowJoin` and `window_join`, and what these give is held against what Spark gives.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin import AllOf, Band, Compare, Within
from muntin.host.sql import parse_condition

ROOT = Path(__file__).resolve().parents[3] / "shared"
FOLDER = ROOT / "spark-joins"
ABSENT = f"{FOLDER} is absent"
TYPES = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC")}
SECOND = 1_000_000

#: Scenarios that come out otherwise: the step and what differs in it, and the sentence of the contract that says so.
DIFFERENCES = {
    # The right side has no delay, and a row of its that is past all left rows is not counted as late in Spark.
    "stream stream inner join on windows - with watermark": (
        [(11, "late rows")],
        "Equality on event times, or on windows made of them (`window.end`), is `Within(..., 0, 0)`: there a delay on "
        "either side holds for both.",
    ),
    # Spark filters right rows by the condition before they move its watermark.
    "left outer join with non-key condition violated": (
        [(13, "watermark")],
        "one watermark, the least (or greatest, by policy) over the sides with a delay of newest event time less "
        "delay.",
    ),
}


@dataclasses.dataclass(frozen=True)
class Side:
    """One stream of a scenario.

    Attributes
    ----------
    name : str
        "left", "right" or "third".
    data : dict
        As the scenario has it.
    """

    name: str
    data: dict[str, Any]

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns that rows have, those of windows too."""
        return {column["name"]: TYPES[column["type"]] for column in self.data["columns"]}

    @property
    def window(self) -> dict[str, Any] | None:
        return self.data.get("window")

    @property
    def watermark(self) -> dict[str, Any] | None:
        return self.data["watermark"]

    @property
    def schema(self) -> pa.Schema:
        """Of `table`."""
        return self.table([]).schema

    def table(self, rows: list[list[Any]]) -> pa.Table:
        """Rows as the scenario has them, times as timestamps; a text that a condition casts also as a number."""
        made = {}
        for at, (name, kind) in enumerate(self.columns.items()):
            values = [row[at] for row in rows]
            if pa.types.is_timestamp(kind):
                values = [None if value is None else value * SECOND for value in values]
            made[name] = pa.array(values, kind)
            if pa.types.is_string(kind):
                digits = pc.if_else(pc.match_substring_regex(made[name], "^[0-9]+$"), made[name], None)
                made[f"{name}_number"] = digits.cast(pa.int32())
        return pa.table(made)


@dataclasses.dataclass(frozen=True)
class Join:
    """One join of a scenario.

    Attributes
    ----------
    left, right : Side
        Of a second join, the left side holds the result of the first.
    condition, how : str
    """

    left: Side
    right: Side
    condition: str
    how: str

    def parts(
        self, left: pa.Schema, right: pa.Schema, aliases: tuple[str, str] = ("l", "r")
    ) -> tuple[Any, Within | None]:
        """The condition on columns of these types, and the time window: what it says of two columns of event time."""
        text = re.sub(rf"\b{aliases[0]}\.", "left.", re.sub(rf"\b{aliases[1]}\.", "right.", self.condition))
        text = text.replace("INTERVAL '3:30' MINUTE TO SECOND", "INTERVAL 210 SECONDS")
        text = text.replace("INTERVAL 3 MINUTES 30 SECONDS", "INTERVAL 210 SECONDS")
        text = re.sub(r"CAST\((right\.\w+) AS INT\)", r"\1_number", text)
        if "window" in left.names:  # a struct, as Spark makes it
            text = re.sub(r"\b(left|right)\.window_(start|end)\b", r"\1.window.\2", text)
        on = parse_condition(text, left, right)
        times = {side.data["event_time"] for side in (self.left, self.right)} - {None}
        if not times:
            return on, None
        if "window" in left.names:
            times = {"window.end"}
        parts = list(on.parts) if isinstance(on, AllOf) else [on]
        timed = next(part for part in parts if isinstance(part, (Band, Compare)) and {part.left, part.right} & times)
        ends = (0, 0) if isinstance(timed, Compare) else (timed.low, timed.high)
        rest = [part for part in parts if part is not timed]
        return (AllOf(*rest) if len(rest) > 1 else (rest or [timed])[0]), Within(timed.left, timed.right, *ends)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One scenario."""

    data: dict[str, Any]

    @property
    def name(self) -> str:
        return self.data["name"]

    @property
    def lag(self) -> int:
        """Of the watermark: 0 where Spark runs micro-batches without data."""
        return 0 if self.data.get("no_data_batches", True) else 1

    @property
    def restarts(self) -> bool:
        return any("restart" in step for step in self.data["steps"])

    @property
    def sides(self) -> dict[str, Side]:
        """The streams, by name."""
        names = {"left": self.data["left"], "right": self.data["right"]}
        if "chain" in self.data:
            names["third"] = self.data["chain"]["third"]
        return {name: Side(name, data) for name, data in names.items()}

    def first(self) -> Join:
        """The join of the left and the right stream."""
        sides = self.sides
        return Join(sides["left"], sides["right"], self.data["condition"], self.data["how"])

    def second(self) -> Join:
        """The join of the first one's result and the third stream."""
        chain = self.data["chain"]
        time = "eventTime" if self.data["left"]["event_time"] else None
        middle = Side("middle", {"columns": [], "watermark": self.data["left"]["watermark"], "event_time": time})
        return Join(middle, self.sides["third"], chain["condition"], chain["how"])

    def output(self, row: dict[str, Any], left_names: Iterable[str], aliases: tuple[str, str]) -> tuple[Any, ...]:
        """What the scenario asks of a row of the result."""
        return tuple(_seconds(_asked(output["sql"], row, set(left_names), aliases)) for output in self.data["output"])

    def intermediate(self, row: dict[str, Any], left_names: Iterable[str]) -> dict[str, Any]:
        """The columns of the first join's result that go into the second."""
        return {
            column["name"]: _asked(column["sql"], row, set(left_names), ("l", "r"))
            for column in self.data["chain"]["intermediate"]
        }

    def problems(
        self,
        add: Callable[[dict[str, list[list[Any]]]], None],
        check: Callable[[], tuple[list[tuple[Any, ...]], int, int | None]],
        restart: Callable[[], None],
        step_of_watermark: int = 1,
    ) -> list[tuple[int, str]]:
        """Runs the steps; the number of each in which something comes out otherwise, and what, which is also printed.

        Parameters
        ----------
        add
            Takes rows of one micro-batch, by the name of the stream.
        check
            Gives the rows since the last one, the late rows since the start, and the watermark in seconds.
        restart
            Ends the join and goes on from its state.
        step_of_watermark
            The watermark is a multiple of so many seconds.
        """
        found, late_before, late = [], 0, 0

        def compare(number: int, what: str, got: Any, due: Any) -> None:
            if got != due:
                print(f"{self.name}, step {number}: {what} {got}, in Spark {due}")
                found.append((number, what))

        for number, step in enumerate(self.data["steps"]):
            if "side" in step:
                add(step["rows"] if isinstance(step["rows"], dict) else {step["side"]: step["rows"]})
            elif "restart" in step:
                restart()
                late_before = late
            else:
                rows, late, watermark = check()
                compare(number, "rows", Counter(rows), Counter(tuple(row) for row in step["expect_new"]))
                if "late_dropped" in step:
                    compare(number, "late rows", late - late_before, step["late_dropped"])
                    late_before = late
                if watermark is not None and "watermark" in step:
                    due = step["watermark"] // step_of_watermark * step_of_watermark
                    compare(number, "watermark", watermark, due)
        return found


def scenarios() -> list[Scenario]:
    """All of them; none where the file is absent."""
    if not FOLDER.is_dir():
        return []
    return [Scenario(data) for data in json.loads((FOLDER / "scenarios.json").read_text())["scenarios"]]


def _asked(sql: str, row: dict[str, Any], left_names: set[str], aliases: tuple[str, str]) -> Any:
    """A column, or the first of several that is there."""
    values: Iterator[Any] = (
        _value(row, name, left=alias == aliases[0], left_names=left_names)
        for alias, name in re.findall(r"\b(\w+)\.(\w+)\b", sql)
    )
    return next((value for value in values if value is not None), None)


def _value(row: dict[str, Any], name: str, *, left: bool, left_names: set[str]) -> Any:
    if name in ("window_start", "window_end") and name not in row:
        window = row["window" if left or "window" not in left_names else "window_right"]
        return None if window is None else window[name.removeprefix("window_")]
    return row[name if left or name not in left_names else f"{name}_right"]


def _seconds(value: Any) -> Any:
    return int(value.timestamp()) if hasattr(value, "timestamp") else value
