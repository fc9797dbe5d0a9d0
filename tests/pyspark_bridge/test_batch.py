"""DataFrames that are not streams."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from muntin import AllOf, Band, Compare, Rows, Where, Within
from muntin.host.daemon import start_private
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds
from tests.random_joins.case import draw
from tests.random_joins.check import run
from tests.random_joins.seeds import quiet


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


def test_a_conjunction(spark, daemon, sides):
    frames = [spark.createDataFrame(side).repartition(3) for side in sides]
    on = AllOf(Band("limit", "price", -9, 9), Compare("id", "<", "id"), Where("right", "price", ">", 7))
    joined = window_join(*frames, on=on, left=Rows(40), right=Rows(30), sequence="seq", daemon=daemon.address)
    parts = [("pair", 0, 0, ("band", -9, 9)), ("pair", 1, 1, ("compare", "<")), ("where", "right", 0, lambda v: v > 7)]
    loop = NestedLoop(("all", parts), ["limit", "id"], ["price", "id"], rows=(40, 30), sequence="seq")
    wanted = sorted((pair.left, pair.right) for pair in loop.process(*sides))
    assert wanted
    assert found(joined) == wanted


def test_a_row_of_a_self_join_that_fails_for_one_role_is_met_in_the_other(spark, daemon, sides):
    frame = spark.createDataFrame(sides[0])
    on = AllOf(Compare("limit", "=", "limit"), Where("left", "id", "<", 20))
    joined = window_join(frame, frame, on=on, daemon=daemon.address)
    rows = list(zip(sides[0]["id"].to_pylist(), sides[0]["limit"].to_pylist(), strict=True))
    due = [(a, b) for a, left in rows for b, right in rows if left is not None and left == right and a < 20]
    assert any(right >= 20 for _, right in due)
    assert found(joined) == sorted(due)


@pytest.mark.parametrize("window", ["rows", "within"])
def test_the_same_frame_twice_is_a_self_join(spark, daemon, sides, window):
    """Read once; each row meets itself and, in both roles, the rows before it."""
    rows = sides[0]
    frame = spark.createDataFrame(rows).repartition(2)
    if window == "rows":
        kind, loop = {"left": Rows(40), "right": Rows(30)}, {"rows": (40, 30)}
    else:
        kind, loop = (
            {"within": Within("ts", "ts", "-5 seconds", "2 seconds")},
            {"within": ("ts", "ts", seconds(-5), seconds(2))},
        )
    joined = window_join(frame, frame, on=Band("limit", "limit", -2, 2), **kind, sequence="seq", daemon=daemon.address)
    due = NestedLoop(("band", -2, 2), "limit", "limit", **loop, sequence="seq", self_join=True, itself=True).process(
        rows, None
    )
    assert len(due) > rows.num_rows / 2
    assert found(joined) == sorted((pair.left, pair.right) for pair in due)


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
    from muntin.host.daemon import DaemonClient

    left, right = (spark.createDataFrame(side) for side in sides)
    joined = window_join(
        left, right, on=Band("limit", "price", 0, 0), left=Rows(9), right=Rows(9), daemon=daemon.address
    )
    joined.take(1)
    with DaemonClient(daemon.address) as client:
        assert not [name for name in client.status()["queries"] if name.startswith(("batch/", "check/"))]


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_random_joins(spark, part, monkeypatch):
    """Joins of all kinds as random seeds draw them, against the nested loop."""
    from tests.random_joins import spark as route

    quiet()
    verdicts = Counter()
    with start_private("cpu", max_queries=10_000) as running:
        monkeypatch.setattr(route, "session", spark)
        monkeypatch.setattr(route, "daemon", running.address)
        for seed in range(part * 250, (part + 1) * 250):
            case = route.over_frames(draw(seed))
            if case is not None:
                outcome = run(case)
                assert not outcome.fault, f"{case.told()}\n{outcome.text}"
                verdicts[outcome.verdict, outcome.pairs > 0] += 1
    assert verdicts["right", True] > 20, verdicts
