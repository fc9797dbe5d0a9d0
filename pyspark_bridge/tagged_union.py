"""Both sides of a join as one DataFrame, and its Arrow batches taken apart again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.errors import UnsupportedError
from muntin.host.sides import SIDES, Side
from muntin.pyspark_bridge.spark_versions import by_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

LEFT, RIGHT = 0, 1
SIDE_COLUMN = "side"
PARTITION_COLUMN = "partition"


def tagged_union(
    left: DataFrame,
    right: DataFrame | None,
    partitions: int = 1,
    equal: Sequence[tuple[str, str]] = (),
    sends: int | None = None,
    clock: DataFrame | None = None,
    side: int = LEFT,
) -> DataFrame:
    """One DataFrame with the rows of both sides; of a self join, `right` is None. A `clock`, of no rows, is read beside
    them (see `clock_of`). Of a stream that meets a table there are the rows of the stream alone, as `left`, and `side`
    is the one that it is.

    Rows lie in one partition, or, with `sends`, in at most so many and an empty one: a micro-batch without any input
    has a task too. With `partitions` above 1 there is another column at the end, `partition`: the number of the join's
    partition, by the columns of `equal`, which are pairs of a left and a right one that can be compared. Without
    `sends` rows then lie in Spark's partition of that number.

    Columns: `side` (byte; 0 left, 1 right), the columns of the left side, the columns of the right side;
    those of the other side are NULL. Columns are named by position (`l0`, `l1`, ..., `r0`, ...), since both
    sides may use the same names.

    Two groups of plain columns rather than two nullable structs: Spark converts rows of them to Arrow 1.6
    times as fast.
    """
    from pyspark.sql import functions as F

    left_hash, right_hash = _hashes(left, left if right is None else right, equal)

    def numbered(tagged: DataFrame) -> DataFrame:
        if partitions == 1:
            return tagged
        hashes = F.when(F.col(SIDE_COLUMN) == LEFT, left_hash).otherwise(right_hash)
        return tagged.withColumn(PARTITION_COLUMN, F.pmod(hashes, F.lit(partitions)))

    def nothing_of(frame: DataFrame) -> DataFrame:
        nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in left.schema.fields]
        return _of_left(frame.select(*nulls), right, side)

    both = of_left = _of_left(left, right, side)
    if right is not None:
        left_names = [f"l{i}" for i in range(len(left.columns))]
        left_types = [field.dataType for field in left.schema.fields]
        of_right = right.toDF(*[f"r{i}" for i in range(len(right.columns))]).select(
            F.lit(RIGHT).cast("byte").alias(SIDE_COLUMN),
            *[F.lit(None).cast(kind).alias(name) for name, kind in zip(left_names, left_types, strict=True)],
            *[f"r{i}" for i in range(len(right.columns))],
        )
        both = of_left.unionAll(of_right)
    if sends is not None:
        # A coalesce to one has a partition even where its input has none. Spark does not prune a stream without rows:
        # the left side is read for it, but without its columns, which costs little where they are stored apart.
        nothing = nothing_of(left.where(F.lit(False)) if clock is None else clock).coalesce(1)
        return numbered(both.coalesce(sends)).unionAll(numbered(nothing))
    if clock is not None:
        both = both.unionAll(nothing_of(clock))
    if partitions > 1:
        return by_number(numbered(both), partitions, PARTITION_COLUMN)
    # coalesce, not repartition: a shuffle of both streams costs a third of the rate.
    return both.coalesce(1)


def clock_of(frame: DataFrame, time: str) -> DataFrame:
    """No rows of a side, in a micro-batch whenever the watermark has moved.

    Spark runs a micro-batch without data for its own stateful operators alone. This is one: counts of the rows before
    the year 1 by their time.

    Parameters
    ----------
    frame : DataFrame
        A stream with a watermark.
    time : str
        The column that has it, or the field `end` of a window that has.
    """
    from pyspark.sql import functions as F

    names = [f"c{i}" for i in range(len(frame.columns))]
    place = frame.columns.index(time) if time in frame.columns else frame.columns.index(time.removesuffix(".end"))
    column = F.col(names[place])
    moment = column if time in frame.columns else column.getField("end")
    rows = frame.toDF(*names).select(column).where(moment < F.lit("0001-01-01").cast(_type_of(frame, place, time)))
    return rows.groupBy(column).count()


def _type_of(frame: DataFrame, place: int, time: str) -> DataType:
    kind = frame.schema.fields[place].dataType
    return kind if time in frame.columns else kind["end"].dataType  # type: ignore[index]


def _of_left(left: DataFrame, right: DataFrame | None, side: int) -> DataFrame:
    """The rows of the left side, or the only one, as those of both."""
    from pyspark.sql import functions as F

    left_names = [f"l{i}" for i in range(len(left.columns))]
    # toDF renames by position, so that a name with a dot or a backtick needs no quoting. Spark replaces a plan of which
    # it knows that it has no rows, and then runs no task. A generator keeps it from that: each join of a query has a
    # task in every micro-batch, so that two joins of one name meet in the first. It costs no measurable time.
    of_side = F.posexplode(F.array(F.lit(side).cast("byte"))).alias("position", SIDE_COLUMN)
    tagged = left.toDF(*left_names).select(of_side, *left_names).drop("position")
    if right is None:
        return tagged
    right_types = [field.dataType for field in right.schema.fields]
    return tagged.select("*", *[F.lit(None).cast(kind).alias(f"r{i}") for i, kind in enumerate(right_types)])


def numbered_schema(tagged: StructType) -> StructType:
    """The schema of tagged rows with the number of a partition."""
    from pyspark.sql import types as T

    fields = [T.StructField(field.name, field.dataType) for field in tagged.fields]
    return T.StructType([*fields, T.StructField(PARTITION_COLUMN, T.IntegerType())])


def _hashes(left: DataFrame, right: DataFrame, equal: Sequence[tuple[str, str]]) -> tuple[Column, Column]:
    """Hashes of the columns of each side, the same for rows whose columns are equal; UnsupportedError where types
    differ too much."""
    from pyspark.sql import functions as F

    sides: tuple[list[Column], list[Column]] = ([], [])
    for names in equal:
        found = [_column(frame, letter, name) for frame, letter, name in zip((left, right), "lr", names, strict=True)]
        if right is left:
            found[1] = _column(left, "l", names[1])
        kinds = [kind for _, kind in found]
        common = _common(*kinds)
        if common is None:
            raise UnsupportedError(
                f"partitions go by equal values of the left column {names[0]!r} ({kinds[0].simpleString()}) and the "
                f"right column {names[1]!r} ({kinds[1].simpleString()}): cast both to one type"
            )
        for columns, (column, kind) in zip(sides, found, strict=True):
            columns.append(column if kind == common else column.cast(common))
    return F.hash(*sides[0]) if equal else F.lit(0), F.hash(*sides[1]) if equal else F.lit(0)


def _column(frame: DataFrame, letter: str, path: str) -> tuple[Column, DataType]:
    """A column of the tagged rows by its name in a side, or a field of a struct, and its type."""
    from pyspark.sql import functions as F

    names, parts = frame.columns, path.split(".")
    at = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in names)
    place = names.index(".".join(parts[:at]))
    column, kind = F.col(f"{letter}{place}"), frame.schema.fields[place].dataType
    for field in parts[at:]:
        column, kind = column.getField(field), kind[field].dataType  # type: ignore[index]
    return column, kind


def _common(left: DataType, right: DataType) -> DataType | None:
    """A type in which values of two types have one hash where they are equal."""
    from pyspark.sql import types as T

    if left.simpleString() == right.simpleString():
        return left
    kinds = (left, right)
    if any(isinstance(kind, T.NullType) for kind in kinds):  # it holds no value of the other's type
        return right if isinstance(left, T.NullType) else left
    if all(isinstance(kind, T.IntegralType) for kind in kinds):
        return T.LongType()
    if all(isinstance(kind, T.FractionalType) and not isinstance(kind, T.DecimalType) for kind in kinds):
        return T.DoubleType()
    return None


def checked_partition(batches: Iterator[pa.RecordBatch], number: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """The batches of one partition without the column of its number; `UnsupportedError` where Spark has mixed it with
    another."""
    for batch in batches:
        bounds = pc.min_max(batch.column(batch.num_columns - 1)).as_py()
        if batch.num_rows and (bounds["min"], bounds["max"]) != (number, number):
            raise UnsupportedError(
                f"task {number} of {partitions} was given rows of partitions {bounds['min']} to {bounds['max']}: Spark "
                "has changed the partitions of the join's input"
            )
        yield batch.select(range(batch.num_columns - 1))


def with_number(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Tagged rows with the number of their partition."""
    numbers = pa.array(np.full(batch.num_rows, number, np.int32))
    return pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, PARTITION_COLUMN])


def split_union(
    batches: Iterator[pa.RecordBatch], left_schema: pa.Schema, right_schema: pa.Schema
) -> Iterator[tuple[Side, pa.RecordBatch, np.ndarray | None]]:
    """The rows of `tagged_union`'s Arrow batches as ("left" or "right", rows with the columns of that side alone,
    numbers of their partitions if there is such a column).

    Parameters
    ----------
    batches : iterator of pyarrow.RecordBatch
        As `mapInArrow` hands them to its function.
    left_schema, right_schema : pyarrow.Schema
        Names and types of the sides. Columns whose type differs are cast: Spark labels timestamps with the
        session's time zone, and strings as large strings where it is set to, neither of which changes a
        value.
    """
    width = len(left_schema)
    for batch in batches:
        side = batch.column(0)
        bounds = pc.min_max(side).as_py()
        for number, name, start, schema in zip(
            (LEFT, RIGHT), SIDES, (1, 1 + width), (left_schema, right_schema), strict=True
        ):
            if bounds["min"] is None or not bounds["min"] <= number <= bounds["max"]:
                continue
            # A batch holds both sides only where one side's partitions end and the other's begin.
            rows = batch if bounds["min"] == bounds["max"] else batch.filter(pc.equal(side, number))
            own = as_sent(rows.columns[start : start + len(schema)], schema)
            numbered = batch.schema.names[-1] == PARTITION_COLUMN
            numbers = rows.column(batch.num_columns - 1).to_numpy() if numbered else None
            yield name, own, numbers


def as_sent(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as Spark gives them to `mapInArrow`, as a side's rows with the types that it has."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
