"""The Spark schema of a join's result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.host.errors import SchemaError
from muntin.host.join.late_rows import LATE, marked_schema
from muntin.host.spec import JoinSpec
from muntin.pyspark_bridge.spark_versions import to_arrow
from muntin.pyspark_bridge.watermarks import DELAY_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def result_schema(
    spec: JoinSpec, left_df: DataFrame, right_df: DataFrame, left: pa.Schema, right: pa.Schema
) -> StructType:
    """Names as `JoinSpec.output_schema` gives them; types, nullability and comments as the DataFrames have
    them, but for columns that an outer join may leave NULL.

    Raises
    ------
    SchemaError
        A name occurs twice; names that differ in case alone count as one where the session ignores case.
    MuntinError
        What `JoinSpec.output_schema` raises: wrong columns and types.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    output = marked_schema(spec, left, right)
    if spec.form == "rows" or spec.closing:
        fields = {
            (side, field.name): field
            for side, df in (("left", left_df), ("right", right_df))
            for field in df.schema.fields
        }
        schema = StructType()
        for (side, column, name), made in zip(
            spec.output_columns(left, right), output, strict=not spec.closing and spec.late == "drop"
        ):
            field = fields[side, column]
            nullable = field.nullable or made.nullable
            # Rows of a stream that meets a table are emitted with the micro-batch that brings them.
            metadata = _without_watermark(field.metadata) if spec.static is None else field.metadata
            schema.add(StructField(name, field.dataType, nullable, metadata))
        if spec.late == "keep":
            schema.add(StructField(LATE, StringType()))
        if spec.closing:
            aggregates = spec.plan(left, right).fields
            schema = StructType([*schema.fields, *from_arrow_schema(pa.schema(aggregates)).fields])
    else:
        schema = from_arrow_schema(output)
    if str(left_df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() != "true":
        seen: dict[str, str] = {}
        for name in schema.names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise SchemaError(
                    f"columns {other!r} and {name!r} of the result differ in case alone, which this session "
                    "ignores "
                    "(spark.sql.caseSensitive); rename one side's"
                )
    return schema


def _without_watermark(metadata: dict | None) -> dict:
    return {key: value for key, value in (metadata or {}).items() if key != DELAY_KEY}


def arrow_schema_of(frame: DataFrame, side: str) -> pa.Schema:
    """The Arrow schema in which a side's rows travel; timestamps in UTC, whatever the session's time zone."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    fields = []
    for field in frame.schema.fields:
        try:
            fields.append(to_arrow(StructType([field])).field(0).remove_metadata())
        except (PySparkException, pa.ArrowException) as error:
            raise SchemaError(
                f"column {field.name!r} of the {side} side has type {field.dataType.simpleString()}, which "
                "Spark does not pass "
                f"to Python as Arrow ({error}); drop or cast it"
            ) from error
    return pa.schema(fields)
