"""DataFrames that are not streams."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from host import Band, Rows, Within
from pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds


@pytest.fixture(scope="module")
def sides(seed):
    bids, asks = bids_and_asks(seed)
    return pa.concat_tables(bids), pa.concat_tables(asks)


def oracle(sides, **options):
    loop = NestedLoop(("band", -2, 2), "limit", "price", **options)
    return sorted((pair.left, pair.right) for pair in loop.process(*sides))


def found(frame):
    return sorted((row["id"], row["id_right"]) for row in frame.collect())


def test_count_windows(spark, daemon, sides):
    frames = [spark.createDataFrame(side).repartition(3) for side in sides]
    joined = window_join(
        *frames,
        on=Band("limit", "price", -2, 2),
        left=Rows(40),
        right=Rows(30),
        sequence="seq",
        daemon=daemon.address,
    )
    assert not joined.isStreaming
    wanted = oracle(sides, rows=(40, 30), sequence="seq")
    assert found(joined) == wanted
    # Computed again, it is the same: nothing is kept between.
    assert found(joined) == wanted
    assert joined.groupBy("note").agg(F.count("*").alias("n")).agg(F.sum("n")).collect()[0][0] == len(wanted)


def test_time_window(spark, daemon, sides):
    frames = [spark.createDataFrame(side).repartition(2) for side in sides]
    joined = window_join(
        *frames,
        on=Band("limit", "price", -2, 2),
        within=Within("ts", "ts", "-5 seconds", "5 seconds"),
        daemon=daemon.address,
        capacity=10_000,
    )
    assert found(joined) == oracle(sides, within=("ts", "ts", seconds(-5), seconds(5)))


def test_empty_sides(spark, daemon, sides):
    left, right = (spark.createDataFrame(side) for side in sides)
    options = {
        "on": Band("limit", "price", -2, 2),
        "left": Rows(40),
        "right": Rows(30),
        "daemon": daemon.address,
    }
    assert window_join(left.limit(0), right, **options).collect() == []
    assert window_join(left, right.filter("price > 1000"), **options).collect() == []
    assert window_join(left.limit(0), right.limit(0), **options).count() == 0


def test_no_query_is_left_open(spark, daemon, sides):
    from host.daemon import DaemonClient

    left, right = (spark.createDataFrame(side) for side in sides)
    joined = window_join(
        left, right, on=Band("limit", "price", 0, 0), left=Rows(9), right=Rows(9), daemon=daemon.address
    )
    joined.take(1)
    with DaemonClient(daemon.address) as client:
        assert not [name for name in client.status()["queries"] if name.startswith(("batch/", "check/"))]
