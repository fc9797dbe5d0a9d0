"""Outer, semi and anti joins through Spark, against its own batch joins and the nested loop."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from muntin import AsOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.errors import StateError, UnsupportedError
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.watermarks import INITIAL_WATERMARK
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds

HOWS = ["left_outer", "right", "full", "semi", "left_anti"]


@pytest.mark.main
@pytest.mark.parametrize("how", HOWS)
def test_batch_frames_against_sparks_join(spark, daemon, seed, how):
    bids, asks = (pa.concat_tables(side) for side in bids_and_asks(seed, spread=15))
    left = spark.createDataFrame(bids).select("id", "limit", "ts")
    right = spark.createDataFrame(asks).select(F.col("id").alias("ask"), "price", F.col("ts").alias("at"))
    near = F.expr("limit = price AND at BETWEEN ts - INTERVAL 9 SECONDS AND ts + INTERVAL 4 SECONDS")
    theirs = left.join(right, near, how)
    within = Within("ts", "at", "-9 seconds", "4 seconds")
    ours = window_join(
        left, right, on=Band("limit", "price", 0, 0), within=within, how=how, daemon=daemon.address, state=None
    )
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert [field.nullable for field in ours.schema] == [field.nullable for field in theirs.schema]
    wanted = Counter(theirs.collect())
    assert Counter(ours.collect()) == wanted
    assert len(wanted) > 20


def rows_of(runner, left_alone):
    """(micro-batch, left id, right id) of every row that the query gave."""
    return Counter(
        (batch, row["id"], None if left_alone else row["id_right"]) for batch, row in runner.results["query"]
    )


@pytest.mark.main
@pytest.mark.parametrize(
    ("how", "no_data"),
    [
        *(("left", False), ("full", True), ("left_anti", True)),
        *(pytest.param(how, True, marks=pytest.mark.full) for how in ("left", "left_semi")),
    ],
)
def test_streams_within_time(runner, daemon, seed, how, no_data):
    """Each row in the micro-batch in which it is due by the watermark; what the last ones made due comes in one without
    data."""
    bids, asks = bids_and_asks(seed, batches=7, rows=40, spread=25)
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds")
    right = runner.stream("asks", asks).withWatermark("ts", "5 seconds")
    joined = window_join(
        left,
        right,
        on=Band("limit", "price", -1, 1),
        within=Within("ts", "ts", "-5 seconds", "3 seconds"),
        how=how,
        no_data_batches=no_data,
        daemon=daemon.address,
        state=None,
    )
    runner.run(joined)
    loop = NestedLoop(
        ("band", -1, 1), "limit", "price", within=("ts", "ts", seconds(-5), seconds(3)),
        delays=(seconds(2), seconds(5)), initial=0, lag=1, how=how,
    )  # fmt: skip
    due = Counter()
    if no_data and how != "left_semi":
        bids, asks = [*bids, bids[0].slice(0, 0)], [*asks, asks[0].slice(0, 0)]
    for number, sides in enumerate(zip(bids, asks, strict=True)):
        due += Counter((number, *row) for row in loop.results(loop.process(*sides)))
    assert rows_of(runner, how in ("left_semi", "left_anti")) == due
    assert len({number for number, *_ in due}) > 3
    assert loop.finish() or how == "left_semi"


@pytest.mark.parametrize(
    ("how", "partitions"),
    [
        pytest.param("left", 1, marks=pytest.mark.full),
        ("right", 2),
        ("full", 1),
        pytest.param("left_semi", 1, marks=pytest.mark.full),
    ],
)
def test_micro_batches_without_data_as_in_sparks_join(runner, daemon, seed, how, partitions):
    """What Spark's own join gives, in the same micro-batches, to the last one that a moved watermark asks for."""
    # Of a row whose key or time is NULL Spark says something else.
    bids, asks = ([each.drop_null() for each in side] for side in bids_and_asks(seed, batches=4, rows=40, spread=25))
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds").select("id", "limit", "ts")
    right = runner.stream("asks", asks).select(F.col("id").alias("ask"), "price", F.col("ts").alias("at"))
    right = right.withWatermark("at", "5 seconds")
    near = F.expr("limit = price AND at BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 3 SECONDS")
    runner.run(left.join(right, near, how), "theirs")
    within = Within("ts", "at", "-5 seconds", "3 seconds")
    options = {"on": Compare("limit", "=", "price"), "within": within, "how": how, "daemon": daemon.address}
    runner.run(window_join(left, right, **options, partitions=partitions, state=None), "query")
    theirs, ours = (Counter((batch, *row) for batch, row in runner.results[name]) for name in ("theirs", "query"))
    assert ours == theirs
    assert (max(batch for batch, *_ in ours) == len(bids)) == (how != "left_semi")


@pytest.mark.parametrize("where", ["state", "daemon"])
def test_a_query_goes_on_as_it_began(runner, daemon, seed, tmp_path, caplog, where):
    """With micro-batches without data or without them: the call reads in the state, or hears of the daemon, what it was
    and refuses what Spark would not restart."""
    bids, asks = bids_and_asks(seed, batches=4, rows=40, spread=25)
    kept = {"state": str(tmp_path / "state")} if where == "state" else {"daemon": daemon.address, "state": None}

    def joined(batches, no_data=None):
        left = runner.stream("bids", bids[:batches]).withWatermark("ts", "2 seconds")
        right = runner.stream("asks", asks[:batches]).withWatermark("ts", "5 seconds")
        return window_join(
            left, right, Band("limit", "price", -1, 1), "left", within=Within("ts", "ts", "-5 seconds", "3 seconds"),
            no_data_batches=no_data, **kept,
        )  # fmt: skip

    runner.run(joined(2, False), "without")
    with pytest.raises(StateError, match=r"no_data_batches=True: .* has begun with False.*Leave no_data_batches= out"):
        joined(2, True)
    assert not caplog.records
    again = joined(4)
    assert "no_data_batches=False, and goes on so" in caplog.text
    if where == "daemon":
        return
    runner.run(again, "without")
    loop = NestedLoop(
        ("band", -1, 1), "limit", "price", within=("ts", "ts", seconds(-5), seconds(3)),
        delays=(seconds(2), seconds(5)), initial=0, lag=1, how="left",
    )  # fmt: skip
    due = sum((Counter(loop.results(loop.process(*sides))) for sides in zip(bids, asks, strict=True)), Counter())
    assert Counter((row["id"], row["id_right"]) for _, row in runner.results["without"]) == due


@pytest.mark.parametrize("kind", ["as-of", pytest.param("closing", marks=pytest.mark.full), "closing over partitions"])
def test_what_else_waits_comes_in_micro_batches_without_data(runner, daemon, seed, tmp_path, kind):
    """As in one process under the same watermark, with a call without rows before a restart and at the end."""
    bids, asks = (
        [each.drop_columns("note") for each in side] for side in bids_and_asks(seed, batches=4, rows=40, spread=25)
    )
    names = (
        ["id", "id_right"]
        if kind == "as-of"
        else ["id", "n", "newest", "top", "spread", "some", "ids", "middle", "near", "before"]
    )
    if kind == "as-of":
        options = {"on": AsOf("ts", "ts", tolerance="9 seconds"), "how": "left"}
    else:
        within = Within("ts", "ts", "-5 seconds", "3 seconds")
        options = {"on": Compare("limit", "=", "price"), "within": within, "form": "aggregate", "at": "close"}
        options["aggregates"] = [
            "count(*) as n", "last(id) as newest", "arg_max(id, price) as top", "stddev(seq) as spread",
            "sum(id) filter (where seq > 20) as some", "collect(id) as ids", "median(seq) as middle",
            "max(id) within (-1 second, 2 seconds) as near",
            "last(id) include prevailing as before",
        ]  # fmt: skip
    if "partitions" in kind:
        options["partitions"] = 3
    for count in (2, 4):
        for number in range(count - 2, count):
            runner.write("bids", number, bids[number])
            runner.write("asks", number, asks[number])
        left = runner.stream("bids").withWatermark("ts", "2 seconds")
        right = runner.stream("asks").withWatermark("ts", "5 seconds")
        options |= {"state": str(tmp_path / "state")}
        if count == 4:
            with pytest.raises(StateError, match=r"no_data_batches=False: .* has begun with True"):
                window_join(left, right, **options, no_data_batches=False)
        runner.run(window_join(left, right, **options))
    del options["state"]
    options.pop("partitions", None)
    watermark = Watermark(left="2 seconds", right="5 seconds", lag=1, initial=INITIAL_WATERMARK)
    pairs, nothing = list(zip(bids, asks, strict=True)), (None, None)
    with WindowJoin(**options, watermark=watermark) as join:
        results = [join.process(*tables) for tables in (*pairs[:2], nothing, *pairs[2:], nothing)]
    due = [sorted(map(str, table.select(names).to_pylist())) for table in results]
    found = {}
    for batch, row in runner.results["query"]:
        found.setdefault(batch, []).append(str({name: row[name] for name in names}))
    # Where the watermark has not moved before the restart, Spark runs one micro-batch less.
    assert [sorted(found[batch]) for batch in sorted(found)] == [rows for rows in due if rows]
    assert max(found) >= len(pairs)


@pytest.mark.main
def test_streams_in_count_windows(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, spread=60)
    options = {"on": Band("limit", "price", 0, 0), "left": Rows(20), "right": Rows(15), "sequence": "seq"}
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    runner.run(window_join(*sides, **options, how="outer", daemon=daemon.address, state=None))
    loop = NestedLoop(("band", 0, 0), "limit", "price", rows=(20, 15), sequence="seq", how="full")
    due = Counter()
    for number, batches in enumerate(zip(bids, asks, strict=True)):
        due += Counter((number, *row) for row in loop.results(loop.process(*batches)))
    assert rows_of(runner, left_alone=False) == due


def test_streams_that_could_never_let_rows_go(runner, daemon, seed):
    bids, asks = bids_and_asks(seed)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks)
    options = {"on": Band("limit", "price", 0, 0), "daemon": daemon.address, "how": "left"}
    for delayed in (left, left.withWatermark("ts", "2 seconds")):
        with pytest.raises(UnsupportedError, match="how='left' could never let an unmatched left row go"):
            window_join(delayed, right, within=Within("ts", "ts", "0 seconds", "3 seconds"), **options, state=None)
    for low, frames in (
        ("-1 second", (left, right.withWatermark("ts", "2 seconds"))),
        ("3 seconds", (left, right.withWatermark("ts", "2 seconds"))),
    ):
        assert window_join(*frames, within=Within("ts", "ts", low, "3 seconds"), **options, state=None).isStreaming
