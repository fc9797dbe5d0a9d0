"""The daemon's figures as Spark's observed metrics: a row at the end of each task's result brings them, and is removed.

Python cannot add to a progress event, but `DataFrame.observe` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_COUNTS = (
    "rows_left", "rows_right", "rows_out", "matches", "late_left", "late_right", "waiting_left", "waiting_right",
    "window_left", "window_right", "watermark",
)  # fmt: skip
_WHOLE = ("watermark_micros",)
_SHARES = ("fill_left", "fill_right", "seconds")
#: The figures of a task, in a column that is NULL in every other row.
STATUS = pa.struct([*((name, pa.int64()) for name in (*_COUNTS, *_WHOLE)), *((name, pa.float64()) for name in _SHARES)])
#: What windows of unmatched right rows tell, which other windows do not.
_OF_REST = ("rows_out", "waiting_left", "waiting_right", "seconds")


def status_column(schema: StructType) -> str:
    """A name for the figures that no column of the result has."""
    name, taken = "_muntin", {column.lower() for column in schema.names}
    while name in taken:
        name += "_"
    return name


def with_status(schema: StructType, column: str) -> StructType:
    """A result's schema with the figures; a row that brings them has nothing else."""
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    fields = [T.StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]
    return T.StructType([*fields, T.StructField(column, from_arrow_type(STATUS))])


def without_figures(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Rows of the result as they travel."""
    nothing = pa.nulls(batch.num_rows, STATUS)
    return pa.RecordBatch.from_arrays([*batch.columns, nothing], names=[*batch.schema.names, column])


def figures_row(schema: pa.Schema, column: str, figures: dict[str, Any], *, rest: bool) -> pa.RecordBatch:
    """The row that brings a window's figures, `Query.figures`.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the result.
    rest : bool
        The window is one for unmatched right rows, beside another one of the same rows.
    """
    seconds = figures["watermark_seconds"]
    told = {**figures, "watermark_micros": None if seconds is None else round(seconds * 1_000_000)}
    status = {field.name: told[field.name] for field in STATUS if not rest or field.name in _OF_REST}
    columns = [pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays([*columns, pa.array([status], STATUS)], names=[*schema.names, column])


def observed(result: DataFrame, name: str, column: str, *, counted: bool, times: bool) -> DataFrame:
    """The rows of a result with figures, which become Spark's observed metrics of a name.

    Parameters
    ----------
    counted : bool
        The windows are count windows, each of which tells of all rows.
    times : bool
        The watermark is a time, and shown as one.
    """
    from pyspark.sql import functions as F

    most = {*_SHARES, "watermark", *(("window_left", "window_right") if counted else ())}
    metrics = [
        (F.max if field in most else F.sum)(F.col(f"{column}.{field}")).alias(field)
        for field in (*_COUNTS, *_SHARES)
        if field != "watermark" or not times
    ]
    if times:
        metrics.append(F.timestamp_micros(F.max(F.col(f"{column}.watermark_micros"))).alias("watermark"))
    return result.observe(name, *metrics).where(F.col(column).isNull()).drop(column)
