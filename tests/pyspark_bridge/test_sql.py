"""SQL texts and selected columns over Spark DataFrames, against Spark's own reading of the text."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from muntin import Band, Within, sql
from muntin.errors import SchemaError, SqlError, UnsupportedError
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds

TEXT = (
    "SELECT b.id, a.id AS ask, a.price FROM bids b {how} JOIN asks a ON a.price BETWEEN b.limit - 1 AND b.limit + 1 "
    "AND a.ts BETWEEN b.ts - INTERVAL 9 SECONDS AND b.ts + INTERVAL 4 SECONDS"
)


@pytest.mark.parametrize("how", ["", "FULL OUTER"])
def test_batch_frames_against_sparks_sql(spark, daemon, seed, how):
    bids, asks = (spark.createDataFrame(pa.concat_tables(side)) for side in bids_and_asks(seed, spread=15))
    text = TEXT.format(how=how)
    theirs = spark.sql(text.replace("bids", "{bids}").replace("asks", "{asks}"), bids=bids, asks=asks)
    ours = sql(text, bids=bids, asks=asks, daemon=daemon.address)
    assert ours.columns == theirs.columns
    wanted = Counter(theirs.collect())
    assert Counter(ours.collect()) == wanted
    assert len(wanted) > 20


@pytest.mark.parametrize(
    "joined",
    ["{bids} b, {asks} a", "{bids} b FULL JOIN {asks} a ON FALSE", "{bids} b LEFT JOIN {asks} a ON b.limit < 3",
     "{bids} b FULL JOIN {asks} a ON a.price < b.limit - 9", "{bids} b CROSS JOIN {asks} a WHERE a.price < b.limit - 9",
     "{bids} b CROSS JOIN {bids} a"],
)  # fmt: skip
def test_batch_frames_need_no_window(spark, daemon, seed, joined):
    """As in `window_join`; conditions that compare nothing, over rows with NULLs, too."""
    bids, asks = (spark.createDataFrame(side[0].slice(0, 25)) for side in bids_and_asks(seed, spread=15))
    text = f"SELECT b.id, a.id AS other FROM {joined}"
    wanted = Counter(map(tuple, spark.sql(text, bids=bids, asks=asks).collect()))
    ours = sql(text.format(bids="bids", asks="asks"), bids=bids, asks=asks, daemon=daemon.address)
    assert Counter(map(tuple, ours.collect())) == wanted
    assert len(wanted) > 5


@pytest.mark.parametrize(
    ("on", "parts", "partitions"),
    [
        ("TRUE", [], 2),
        ("1 = 0", [("never",)], 1),
        pytest.param("TRUE", [], 1, marks=pytest.mark.full),
        pytest.param("1 = 0", [("never",)], 2, marks=pytest.mark.full),
    ],
)
def test_streams_meet_by_their_windows_alone(runner, daemon, seed, on, parts, partitions):
    bids, asks = bids_and_asks(seed, batches=4, rows=20, spread=25)
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds")
    right = runner.stream("asks", asks).withWatermark("ts", "5 seconds")
    within = {"within": Within("ts", "ts", "-5 seconds", "3 seconds")}
    joined = window_join(
        left, right, on=on, how="left", **within, daemon=daemon.address, partitions=partitions, state=None
    )
    runner.run(joined.select("id", "id_right"))
    loop = NestedLoop(
        ("all", parts), ["limit"], ["price"], within=("ts", "ts", seconds(-5), seconds(3)),
        delays=(seconds(2), seconds(5)), initial=0, lag=1, how="left",
    )  # fmt: skip
    wanted = Counter()
    for batch, sides in enumerate([*zip(bids, asks, strict=True), (bids[0].slice(0, 0), asks[0].slice(0, 0))]):
        wanted.update((batch, *pair) for pair in loop.results(loop.process(*sides)))
    assert Counter((batch, row["id"], row["id_right"]) for batch, row in runner.results["query"]) == wanted
    assert len(wanted) > 20


def test_streams_without_a_window_are_as_in_window_join(runner, daemon, seed, caplog):
    bids, asks = bids_and_asks(seed, batches=2, rows=20, spread=25)
    frames = {"bids": runner.stream("bids", bids), "asks": runner.stream("asks", asks), "state": None}
    with pytest.raises(UnsupportedError, match="without a window"):
        sql("SELECT * FROM bids b LEFT JOIN asks a ON b.limit = a.price", **frames)
    runner.run(sql("SELECT b.id, a.id AS other FROM bids b JOIN asks a ON b.limit = a.price", **frames))
    assert "has no window" in caplog.text
    loop = NestedLoop(("band", 0, 0), "limit", "price", rows=(1000, 1000))
    wanted = Counter(pair for side in zip(bids, asks, strict=True) for pair in loop.results(loop.process(*side)))
    assert Counter((row["id"], row["other"]) for _, row in runner.results["query"]) == wanted


@pytest.mark.main
def test_streams_take_their_watermarked_columns(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=5, rows=40, spread=25)
    left = runner.stream("bids", bids).withColumn("other", F.col("ts")).withWatermark("ts", "2 seconds")
    right = runner.stream("asks", asks).withColumn("other", F.col("ts")).withWatermark("ts", "5 seconds")
    condition = "abs(a.price - b.limit) <= 1 AND abs(a.other - b.other) <= INTERVAL 1 HOUR"
    text = (
        f"SELECT b.id, a.id FROM bids b JOIN asks a ON {condition} "
        "AND a.ts >= b.ts - INTERVAL 5 SECONDS AND a.ts <= b.ts + INTERVAL 3 SECONDS"
    )
    runner.run(sql(text, bids=left, asks=right, daemon=daemon.address, state=None))
    loop = NestedLoop(
        ("band", -1, 1), "limit", "price", within=("ts", "ts", seconds(-5), seconds(3)),
        delays=(seconds(2), seconds(5)), initial=0, lag=1,
    )  # fmt: skip
    wanted = Counter()
    for batch in range(5):
        wanted.update((batch, *pair) for pair in loop.results(loop.process(bids[batch], asks[batch])))
    found = Counter((batch, row["id"], row["id_right"]) for batch, row in runner.results["query"])
    assert found == wanted
    assert len(found) > 20


def test_what_spark_need_not_read_is_left_out(spark, daemon):
    bids = spark.range(20).select("id", (F.col("id") % 5).alias("limit"), F.repeat(F.lit("x"), 10).alias("note"))
    asks = spark.range(20).select("id", (F.col("id") % 5).alias("price"), F.repeat(F.lit("y"), 10).alias("text"))
    within = Within("id", "id", -3, 3)
    whole = window_join(bids, asks, on="left.limit = price", within=within, daemon=daemon.address)
    some = window_join(
        bids, asks, on=Band("limit", "price", 0, 0), within=within, daemon=daemon.address, select=["id_right", "limit"]
    )
    assert some.columns == ["id_right", "limit"]
    assert Counter(some.collect()) == Counter(whole.select("id_right", "limit").collect())
    plans = [frame._jdf.queryExecution().optimizedPlan().toString() for frame in (whole, some)]
    assert ["repeat" in plan or "xxxx" in plan for plan in plans] == [True, False]
    with pytest.raises(SchemaError, match="'nosuch'"):
        window_join(bids, asks, on="limit = price", within=within, select=["nosuch"])


def test_refusals(spark):
    bids = spark.range(3).withColumn("at", F.current_timestamp())
    with pytest.raises(SqlError, match="line 1, column 38"):
        sql("SELECT * FROM bids b JOIN asks a ON  b.nosuch = a.id", bids=bids, asks=bids)
    with pytest.raises(SchemaError, match="one kind"):
        sql("SELECT * FROM bids b JOIN asks a ON b.id < a.id", bids=bids, asks=pa.table({"id": [1]}))
