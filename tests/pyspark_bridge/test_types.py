"""Columns come through with their types and values, whatever they are."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as T

from muntin import Band, Compare, Rows, Within
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.observed import STATUS, figures_row, with_status
from muntin.pyspark_bridge.spark_versions import to_arrow

UTC = dt.UTC
SCHEMA = T.StructType(
    [
        T.StructField("k", T.LongType(), False, {"comment": "the key"}),
        T.StructField("b", T.BooleanType()),
        T.StructField("i8", T.ByteType()),
        T.StructField("f", T.FloatType()),
        T.StructField("day", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("dec", T.DecimalType(38, 10)),
        T.StructField("text", T.StringType()),
        T.StructField("raw", T.BinaryType()),
        T.StructField("every", T.DayTimeIntervalType()),
        T.StructField("many", T.ArrayType(T.StringType())),
        T.StructField("map", T.MapType(T.StringType(), T.TimestampType())),
        T.StructField(
            "nest",
            T.StructType([T.StructField("x", T.IntegerType()), T.StructField("at", T.TimestampType())]),
        ),
        T.StructField("a name. with `ticks`", T.ShortType()),
    ]
)
# Summer and winter, before 1970, and the hour that New York has twice.
MOMENTS = [dt.datetime(1969, 1, 2, 3, 4, 5, 6, UTC), dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC)]


def row(k, at):
    return (
        k, True, -5, 1.5, dt.date(1899, 12, 31), at, dt.datetime(2024, 3, 10, 2, 30),
        Decimal("-1234567890123456789.0123456789"), "grün", b"\x00\xff", dt.timedelta(days=-3,
        microseconds=1), ["a", None], {"m": at}, (7, at), 3,
    )  # fmt: skip


@pytest.mark.main
def test_every_type_passes_through(spark, daemon):
    rows = [row(1, MOMENTS[0]), (2, *[None] * (len(SCHEMA) - 1)), row(3, MOMENTS[1])]
    frame = spark.createDataFrame(rows, SCHEMA)
    for large in ("false", "true"):
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
        try:
            joined = window_join(
                frame, frame, on=Compare("k", "=", "k"), left=Rows(9), right=Rows(9), daemon=daemon.address, state=None
            )
            assert [field.dataType for field in joined.schema] == [field.dataType for field in SCHEMA] * 2
            assert joined.schema["k"].metadata == {"comment": "the key"}
            assert not joined.schema["k_right"].nullable
            collected = sorted(joined.collect(), key=lambda row: row[0])
        finally:
            spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
        source = sorted(frame.collect(), key=lambda row: row[0])
        assert [tuple(row) for row in collected] == [tuple(row) * 2 for row in source]


def test_a_row_of_figures_beside_every_type(spark):
    arrow = to_arrow(SCHEMA)
    figures = dict.fromkeys((field.name for field in STATUS), 3) | {"watermark_seconds": 7.5}

    def tell(batches):
        for _ in batches:
            for rest in (False, True):
                yield figures_row(arrow, "told", figures, rest=rest)

    rows = spark.range(1).coalesce(1).mapInArrow(tell, with_status(SCHEMA, "told")).collect()
    assert [set(row[:-1]) for row in rows] == [{None}, {None}]
    assert [(row["told"]["matches"], row["told"]["seconds"]) for row in rows] == [(3, 3.0), (None, 3.0)]
    assert [row["told"]["watermark_micros"] for row in rows] == [7_500_000, None]


@pytest.mark.parametrize(
    ("kind", "values", "low", "high", "pairs"),
    [
        (T.TimestampType(), MOMENTS, "0 seconds", "1 second", [(0, 0), (1, 1)]),
        (
            T.TimestampNTZType(),
            [dt.datetime(2024, 3, 10, 2), dt.datetime(2024, 3, 10, 3)],
            "1 hour",
            "1 hour",
            [(0, 1)],
        ),
        (T.DateType(), [dt.date(1969, 12, 31), dt.date(1970, 1, 2)], "2 days", "3 days", [(0, 1)]),
        (T.DecimalType(12, 2), [Decimal("0.10"), Decimal("0.30")], Decimal("0.2"), Decimal("0.2"), [(0, 1)]),
        (T.DoubleType(), [0.1, 0.3], 0, None, [(0, 0), (0, 1), (1, 1)]),
        (T.ShortType(), [-(2**15), 2**15 - 1], 2**16 - 1, None, [(0, 1)]),
    ],
    ids=lambda value: value.simpleString() if isinstance(value, T.DataType) else "",
)
def test_keys(spark, daemon, kind, values, low, high, pairs):
    schema = T.StructType([T.StructField("no", T.IntegerType()), T.StructField("k", kind)])
    frame = spark.createDataFrame([*enumerate(values), (9, None)], schema).coalesce(1)
    joined = window_join(
        frame, frame, on=Band("k", "k", low, high), left=Rows(9), right=Rows(9), daemon=daemon.address, state=None
    )
    assert sorted((row["no"], row["no_right"]) for row in joined.collect()) == pairs


def test_decimals_beyond_64_bits_are_refused_as_keys_only(spark, daemon):
    frame = spark.createDataFrame([row(1, MOMENTS[0])], SCHEMA)
    joined = window_join(
        frame, frame, on=Compare("dec", "=", "dec"), left=Rows(9), right=Rows(9), daemon=daemon.address, state=None
    )
    # The type holds values that fit, so that only a value can be refused.
    with pytest.raises(Exception, match=r"KeyTypeError.*decimal128\(38, 10\).*does not fit 64 bits"):
        joined.collect()


@pytest.mark.parametrize(
    "kind", [*("string", "void"), *(pytest.param(kind, marks=pytest.mark.full) for kind in ("int", "timestamp"))]
)
def test_a_void_column_matches_nothing(spark, daemon, kind):
    bare = spark.sql("SELECT id, NULL AS k, NULL AS t FROM range(2)")
    typed = spark.sql(f"SELECT id, CAST(NULL AS {kind}) AS k, timestamp_seconds(id) AS t FROM range(3)")
    assert isinstance(bare.schema["k"].dataType, T.NullType)
    within = Within("t", "t", "-5 seconds", "5 seconds")
    for window in ({"left": Rows(9), "right": Rows(9)}, {"within": within}, {"within": within, "partitions": 2}):
        for left, right, rows in ((bare, typed, 2), (typed, bare, 3)):
            joined = window_join(
                left, right, on=Compare("k", "=", "k"), how="left", daemon=daemon.address, **window, state=None
            )
            assert joined.schema == T.StructType(
                [*left.schema, *(T.StructField(f"{field.name}_right", field.dataType) for field in right.schema)]
            )
            assert [row["id_right"] for row in joined.collect()] == [None] * rows
