"""SQL texts over Spark DataFrames: the joins by `window_join`, what is around them by Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from muntin.host.errors import SqlError, UnsupportedError
from muntin.host.join.late_rows import LATE
from muntin.host.spec import JoinSpec
from muntin.host.sql.condition import Reader
from muntin.host.sql.joins import Step
from muntin.host.sql.query import Computed, Query, Result, SqlEngine
from muntin.host.sql.terms import Node
from muntin.host.sql.text import SparkText
from muntin.pyspark_bridge.conditions import SIDES, computed_condition, first_line, quoted, same_rows
from muntin.pyspark_bridge.result_schema import arrow_schema_of, result_schema
from muntin.pyspark_bridge.spark_versions import sql_over
from muntin.pyspark_bridge.watermarks import delayed_columns
from muntin.pyspark_bridge.window_join import window_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a text decides of a join; the other options are those of `window_join`.
_OF_TEXT = ("on", "left", "right", "within", "how", "suffix", "select")
_OF_SPEC = ("sequence", "form", "aggregates", "at", "order", "index", "engine", "capacity")


def sql_frames(text: str, frames: Mapping[str, DataFrame], **options: Any) -> Result:
    """What a text over DataFrames gives; see `muntin.sql` and `window_join`. `dry` as of `FramesSql`."""
    of_spec = {name: options.pop(name) for name in (*_OF_SPEC, "rows", "times", "suffix") if name in options}
    session = next(iter(frames.values())).sparkSession
    return Query(text, FramesSql(session, **options), frames, **of_spec).run()


class FramesSql(SqlEngine):
    """Spark DataFrames.

    Parameters
    ----------
    session : SparkSession
    dry : bool
        Nothing is joined: the frames are there for their columns alone.
    **options
        Of `window_join`.
    """

    name = "Spark"
    reads, writes = SparkText(), Spark()
    keys_first = lazy = True
    of_one = ("name", "observe", "result_watermark", "late")

    def __init__(self, session: SparkSession, *, dry: bool = False, late: str = "drop", **options: Any):
        self._session, self._dry, self._late = session, dry, late != "drop"
        self._late_there = False  # in the result of the join
        self.options = options | ({"late": late} if self._late else {})

    def schema(self, frame: DataFrame, name: str) -> pa.Schema:
        return arrow_schema_of(frame, name)

    def columns(self, frame: DataFrame) -> list[str]:
        return list(frame.columns)

    def event_times(self, frame: DataFrame) -> Iterable[str]:
        return delayed_columns(frame)

    def renamed(self, frame: DataFrame, names: Iterable[tuple[str, str]]) -> DataFrame:
        from pyspark.sql import functions as F

        names = [*names, *([(LATE, LATE)] if self._late_there else [])]
        if [old for old, _ in names] == [new for _, new in names] == frame.columns:
            return frame
        return frame.select(*(F.col(quoted(old)).alias(new) for old, new in names))

    def either(self, frame: DataFrame, columns: list[tuple[str, str, str]]) -> DataFrame:
        from pyspark.sql import functions as F

        made = [F.coalesce(F.col(quoted(one)), F.col(quoted(other))).alias(name) for name, one, other in columns]
        return frame.select("*", *made)

    def joined(self, left: DataFrame, right: DataFrame, spec: JoinSpec) -> DataFrame:
        if self._dry:
            schema = result_schema(spec, left, right, arrow_schema_of(left, "left"), arrow_schema_of(right, "right"))
            return self._session.createDataFrame([], schema)
        self._late_there = self._late
        chosen = {name: getattr(spec, name) for name in (*_OF_TEXT, *_OF_SPEC)}
        return window_join(left, right, **chosen, **self.options)

    def computed(self, reader: Reader, step: Step, left: DataFrame, right: DataFrame) -> Computed:
        parts = step.written(reader)
        for part in parts:
            for column in part.find_all(exp.Column):
                column.set("table", exp.to_identifier(SIDES[column.table], quoted=True))
        text = " AND ".join(f"({self.text(part)})" for part in parts)
        made = computed_condition(left, right, text, same_rows(left, right))
        return Computed(*made.frames(), made.text, made.shown)

    def query(self, tree: Node, frames: Mapping[str, DataFrame], reader: Reader) -> DataFrame:
        from pyspark.errors import PySparkException

        if self._late:
            raise UnsupportedError(
                "late='keep' gives late rows among those of a join, which the rest of the text would take for such: "
                "give a text that is a join of columns alone, and what is around it in another, over the rows where "
                f"{LATE} is NULL"
            )
        tree = tree.copy()
        named: dict[str, Any] = {}
        for table in tree.find_all(exp.Table):
            if table.name in frames:
                named[f"table_{len(named)}"] = frames[table.name]
                table.set("this", exp.to_identifier(f"muntin table {len(named) - 1}", quoted=True))
        text = self.text(tree).replace("{", "{{").replace("}", "}}")
        text = re.sub(r"`muntin table (\d+)`", r"{table_\1}", text)
        try:
            found = sql_over(self._session, text, named)
            found.columns  # noqa: B018 (analyses it over Spark Connect too)
        except PySparkException as error:
            raise _refused(error, reader) from error
        return found


def _refused(error: Exception, reader: Reader) -> SqlError:
    """Spark's error, at the place in our text of the name that it is about."""
    told = first_line(error)
    return reader.error(reader.place(re.findall(r"[`\"](\w+)[`\"]", told)), f"Spark: {told}")
