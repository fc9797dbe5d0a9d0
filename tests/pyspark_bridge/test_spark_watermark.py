"""Time windows with watermarks and late rows against Spark's own stream-stream join on a constant key."""

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from muntin import Band, Compare, Within
from muntin.errors import UnsupportedError
from muntin.host.cli import main
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds
from tests.pyspark_bridge.newest_query import newest_query

#: Delay of each side's watermark in seconds, window, policy. Spark's join needs an event time bound on both
#: sides.
CASES = {
    "both sides": (2, 5, (-5, 5), "min"),
    "no delay, one-sided window": (0, 7, (-9, -2), "min"),
    "the faster side counts": (4, 1, (0, 3), "max"),
    "one side only": (None, 1, (-10, 0), "min"),
}


def watermarked(frame, delay):
    return frame if delay is None else frame.withWatermark("ts", f"{delay} seconds")


@pytest.mark.parametrize(
    "case",
    [
        *("both sides", "one side only"),
        *(
            pytest.param(case, marks=pytest.mark.full)
            for case in ("no delay, one-sided window", "the faster side counts")
        ),
    ],
)
def test_same_pairs_as_spark(runner, daemon, seed, case):
    left_delay, right_delay, (low, high), policy = CASES[case]
    bids, asks = bids_and_asks(seed + len(case), batches=5, rows=40, spread=1000, key_nulls=0)
    left = watermarked(runner.stream("bids", bids), left_delay)
    right = watermarked(runner.stream("asks", asks), right_delay)
    conf = runner.spark.conf
    conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    try:
        ours = window_join(
            left,
            right,
            on=Band("limit", "price", -300, 400),
            within=Within("ts", "ts", f"{low} seconds", f"{high} seconds"),
            capacity=10_000,
            daemon=daemon.address,
            state=None,
        ).select("id", "id_right")
        sides = [
            frame.select(F.lit(1).alias(f"{side}_one"), *[F.col(c).alias(f"{side}_{c}") for c in frame.columns])
            for side, frame in (("l", left), ("r", right))
        ]
        theirs = (
            sides[0]
            .join(
                sides[1],
                F.expr(
                    f"l_one = r_one AND r_ts BETWEEN l_ts + INTERVAL {low} SECONDS AND l_ts + INTERVAL "
                    f"{high} SECONDS"
                    " AND r_price - l_limit BETWEEN -300 AND 400"
                ),
            )
            .select("l_id", "r_id")
        )
        wanted = runner.run(theirs, "spark")
        dropped = sum(
            progress["stateOperators"][0]["numRowsDroppedByWatermark"] for progress in runner.queries[-1].recentProgress
        )
        found = runner.run(ours, "muntin")
    finally:
        conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
    assert dropped > 0, "the case has no late rows"
    assert len(wanted) > 100
    assert sorted(found) == sorted(wanted)
    stats = newest_query(daemon)["stats"]
    assert stats["late_left"] + stats["late_right"] == dropped


@pytest.mark.parametrize(
    ("on", "partitions", "options"),
    [
        ("limit", 1, {"how": "left", "observe": "join"}),
        (Band("limit", "price", 0, 0), 2, {"how": "right", "select": ["id", "id_right"]}),
        pytest.param(Compare("limit", "=", "price"), 2, {"how": "full"}, marks=pytest.mark.full),
    ],
)
def test_late_rows_are_marked_once(runner, daemon, seed, tmp_path, on, partitions, options):
    """Whatever the sink has taken before the query fails, and the restart repeats, in another number of partitions."""
    bids, asks = bids_and_asks(seed, batches=5, rows=40)
    key = "limit" if on == "limit" else "price"
    asks = [table.rename_columns([key if name == "price" else name for name in table.column_names]) for table in asks]
    loop = NestedLoop(
        ("compare", "="), "limit", key, within=("ts", "ts", seconds(-4), seconds(9)),
        delays=(seconds(2), seconds(5)), initial=0, lag=1, how=options["how"],
    )  # fmt: skip
    wanted, first = [], {"left": 0, "right": 0}
    for batch, sides in enumerate(zip(bids, asks, strict=True)):
        wanted += [(batch, left, right, None) for left, right in loop.results(loop.process(*sides))]
        for side, stream in loop.streams.items():
            numbers = [row.number for row in stream.rows[first[side] :] if row.late]
            wanted += [
                (batch, number, None, side) if side == "left" else (batch, None, number, side) for number in numbers
            ]
            first[side] = len(stream.rows)

    def join(batches, partitions):
        left = runner.stream("bids", bids[:batches]).withWatermark("ts", "2 seconds")
        right = runner.stream("asks", asks[:batches]).withWatermark("ts", "5 seconds")
        return window_join(
            left, right, on, partitions=partitions, within=("ts", "ts", "-4 seconds", "9 seconds"), late="keep",
            no_data_batches=False, daemon=daemon.address, state=str(tmp_path), name="late", **options,
        )  # fmt: skip

    with pytest.raises(Exception, match="the sink fails after micro-batch 2"):
        runner.start(join(3, partitions), "query", fail={2}).awaitTermination(600)
    if options["how"] == "right":
        told = CliRunner().invoke(main, ["rescale", str(tmp_path), "--partitions", "3", "--delete-old"])
        assert told.exit_code == 0, told.output
        partitions = 3
    rows = runner.run(join(5, partitions))
    found = [(batch, row["id"], row["id_right"], row["_late"]) for batch, row in runner.results["query"]]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert {side for *_, side in wanted} == {None, "left", "right"}
    if key == "limit":
        keys = {
            side: pa.chunked_array([chunk for table in tables for chunk in table["limit"].chunks])
            for side, tables in (("left", bids), ("right", asks))
        }
        for row in rows:
            if row["_late"] is not None:
                side, number = row["_late"], row["id"] if row["_late"] == "left" else row["id_right"]
                assert row["limit"] == keys[side][number].as_py()
                assert (row["ts"] is None, row["ts_right"] is None) == (side == "right", side == "left")


def test_late_rows_that_a_result_has_no_place_for(spark, runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=1)
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds")
    right = runner.stream("asks", asks).withWatermark("ts", "2 seconds")
    options = {
        "on": Band("limit", "price", -3, 4), "within": ("ts", "ts", "-4 seconds", "9 seconds"), "late": "keep",
        "daemon": daemon.address, "state": None,
    }  # fmt: skip
    for more, told in (
        ({"how": "left_anti"}, "how='left_anti' has none for those of the right side"),
        ({"form": "pairs"}, "form='pairs' has none for both sides"),
        ({"partitions": 2, "how": "full"}, "late='keep' of how='full' in Partitions.*late ones would be given twice"),
    ):
        with pytest.raises(UnsupportedError, match=told):
            window_join(left, right, **options, **more)
    batch = window_join(spark.createDataFrame(bids[0]), spark.createDataFrame(asks[0]), **options)
    assert batch.schema.names[-1] == "_late"
    assert batch.filter("_late is not null").count() == 0 < batch.count()
