"""What differs between the versions of PySpark that the bridge runs on: it stands here, and nowhere else."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

#: Java versions that a version of Spark starts on and moves Arrow data with, the least and the greatest. Beyond them
#: Spark itself stops, or its Arrow does at the first row.
_JAVAS: dict[tuple[int, int], tuple[int, int | None]] = {(3, 5): (11, 17), (4, 0): (17, 21), (4, 1): (17, 21)}
_JAVAS_SINCE = (17, None)


def spark_version() -> tuple[int, int]:
    """The major and minor version of the PySpark that is installed; (0, 0) where there is none."""
    try:
        import pyspark
    except ImportError:
        return 0, 0
    major, minor = re.findall(r"\d+", pyspark.__version__)[:2]
    return int(major), int(minor)


def java_versions() -> tuple[int, int | None]:
    """The least and the greatest Java version that the installed Spark starts on; None where it has no end above."""
    return _JAVAS.get(spark_version(), _JAVAS_SINCE)


def stages_apart() -> bool:
    """Whether tasks that send rows know their micro-batch where those that fetch do not: in threads of a function for
    `foreachBatch`, and in one over Spark Connect. With adaptive execution of streams, which is there from 4.1 on."""
    return spark_version() >= (4, 1)


def is_connect(session_or_frame: Any) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect."""
    return "connect" in type(session_or_frame).__module__


def listens_here(spark: Any) -> bool:
    """Whether listeners of a session's streaming queries run in this process: those of Connect from 4.0 on; before, the
    server runs them."""
    return not is_connect(spark) or spark_version() >= (4, 0)


def batch_of(progress: Any) -> tuple[str, int]:
    """The id of a progress's streaming query, and the number of its micro-batch. What queries give is a dict before
    4.0; what listeners receive has attributes in all versions."""
    if isinstance(progress, dict):
        return str(progress["id"]), int(progress["batchId"])
    return str(progress.id), int(progress.batchId)


def sql_over(session: Any, text: str, frames: dict[str, Any]) -> DataFrame:
    """What a text gives that has names in braces for frames. A client of Connect takes none before 4.0: there they are
    views, until the session ends."""
    if not is_connect(session) or spark_version() >= (4, 0):
        return session.sql(text, **frames)
    views = {name: f"muntin_{uuid.uuid4().hex}" for name in frames}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(views[name])
    return session.sql(text.format(**views))


def is_dataframe(value: Any) -> bool:
    """Whether a value is a DataFrame of Spark, classic or Connect."""
    from pyspark.sql import DataFrame

    if isinstance(value, DataFrame):
        return True
    # Before 4.0 those of Connect are a class of their own, which cannot be imported without gRPC.
    connect = sys.modules.get("pyspark.sql.connect.dataframe")
    return connect is not None and isinstance(value, connect.DataFrame)


def is_column(value: Any) -> bool:
    """Whether a value is a Column of Spark, classic or Connect."""
    from pyspark.sql import Column

    if isinstance(value, Column):
        return True
    connect = sys.modules.get("pyspark.sql.connect.column")  # as with DataFrames
    return connect is not None and isinstance(value, connect.Column)


def column_of(spark: Any, expression: Any) -> Column:
    """The Column of an expression of Catalyst, of a classic session."""
    from pyspark.sql import Column

    sql = spark._jvm.org.apache.spark.sql
    return Column(
        sql.classic.ExpressionUtils.column(expression) if spark_version() >= (4, 0) else sql.Column(expression)
    )


def expression_of(spark: Any, column: Column) -> Any:
    """The expression of Catalyst of a Column, of a classic session."""
    made: Any = column
    if spark_version() >= (4, 0):
        return spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(made._jc)
    return made._jc.expr()


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema of rows, timestamps in UTC. Raises what PySpark raises."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # From 4.2 on the time zone is asked for; before, it is UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def by_number(frame: DataFrame, count: int, column: str) -> DataFrame:
    """A DataFrame's rows, each in the partition of the number in a column, which is below `count`.

    A shuffle: adaptive execution leaves it as it is, and no two numbers share a partition.
    """
    if hasattr(frame, "repartitionById"):  # from 4.1 on
        return frame.repartitionById(count, column)
    from pyspark.sql import functions as F

    # Before, rows go by the hash of a value: one for each number that falls to it.
    values = F.array(*(F.lit(value) for value in _values_of_partitions(count)))
    return frame.repartition(count, F.element_at(values, F.col(column) + F.lit(1)))


@functools.cache
def _values_of_partitions(count: int) -> tuple[int, ...]:
    """The least numbers from 0 on, as Spark's 32-bit integers, whose hash brings them to partition 0, 1, ..."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(spark_hash(value) % count, value)
        value += 1
    return tuple(found[partition] for partition in range(count))


def spark_hash(value: int) -> int:
    """Spark's hash of a 32-bit integer: MurmurHash3 with seed 42, signed."""

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> 32 - by) & mask

    mask = 0xFFFFFFFF
    mixed = rotated((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    hashed = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & mask) ^ 4  # bytes
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    hashed ^= hashed >> 16
    return hashed - (hashed >> 31 << 32)
