"""Time windows with watermarks and late rows against Spark's own stream-stream join on a constant key."""

import pytest
from pyspark.sql import functions as F

from muntin import Band, Within
from muntin.pyspark_bridge import window_join
from tests.pyspark_bridge.data import bids_and_asks
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


@pytest.mark.parametrize("case", CASES)
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
