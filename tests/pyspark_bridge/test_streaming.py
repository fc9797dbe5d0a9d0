"""Streams through Spark against the nested loop."""

import re

import pyarrow as pa
import pytest

from muntin import AnyOf, Band, Compare, Rows, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.errors import KeyTypeError, WindowError
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.spark_versions import spark_version
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds


def expected(loop, bids, asks):
    """(call, left row, right row) of every pair, sorted."""
    found = []
    for left, right in zip(bids, asks, strict=True):
        found += [(pair.call, pair.left, pair.right) for pair in loop.process(left, right)]
    return sorted(found)


def pairs(runner, query="query"):
    """(micro-batch, left id, right id) of every row that a query gave, sorted."""
    return sorted((batch, row["id"], row["id_right"]) for batch, row in runner.results[query])


CASES = {
    "band": (Band("limit", "price", -2, 3), ("band", -2, 3)),
    "any": (
        AnyOf(Band("limit", "price", -4, 1), Band("limit", "price", 0, 0), Band("limit", "price", 20, 21)),
        ("any", [("band", -4, 1), ("band", 20, 21)]),
    ),
    "compare": (Compare("limit", "<", "price"), ("compare", "<")),
}


@pytest.mark.parametrize("case", CASES)
def test_count_windows(runner, daemon, seed, case):
    on, predicate = CASES[case]
    bids, asks = bids_and_asks(seed + len(case))
    joined = window_join(
        runner.stream("bids", bids),
        runner.stream("asks", asks),
        on=on,
        left=Rows(50),
        right=Rows(20),
        sequence="seq",
        daemon=daemon.address,
        state=None,
    )
    assert joined.isStreaming
    assert joined.columns == [
        "id",
        "limit",
        "ts",
        "seq",
        "note",
        "id_right",
        "price",
        "ts_right",
        "seq_right",
        "note_right",
    ]
    runner.run(joined.select("id", "id_right", "limit", "price", "note", "note_right"))
    loop = NestedLoop(predicate, "limit", "price", rows=(50, 20), sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)
    assert all(row["note"] == f"limit {row['id']}" for _, row in runner.results["query"])
    assert all(row["note_right"] == f"price {row['id_right']}" for _, row in runner.results["query"])


def test_opencl_device_with_a_daemon_of_its_own(runner, seed):
    bids, asks = bids_and_asks(seed)
    joined = window_join(
        runner.stream("bids", bids),
        runner.stream("asks", asks),
        on=Band("limit", "price", -1, 1),
        left=Rows(30),
        right=Rows(40),
        sequence="seq",
        state=None,
    )
    runner.run(joined)
    loop = NestedLoop(("band", -1, 1), "limit", "price", rows=(30, 40), sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)


def test_time_window_without_watermark(runner, daemon, seed):
    bids, asks = bids_and_asks(seed)
    joined = window_join(
        runner.stream("bids", bids),
        runner.stream("asks", asks),
        on=Band("limit", "price", -3, 3),
        within=Within("ts", "ts", "-10 seconds", "2 seconds"),
        daemon=daemon.address,
        capacity=10_000,
        state=None,
    )
    runner.run(joined)
    within = ("ts", "ts", seconds(-10), seconds(2))
    loop = NestedLoop(("band", -3, 3), "limit", "price", within=within)
    assert pairs(runner) == expected(loop, bids, asks)


def test_self_join(runner, daemon, seed):
    bids, _ = bids_and_asks(seed, spread=20)
    stream = runner.stream("bids", bids)
    joined = window_join(
        stream,
        stream,
        on=Band("limit", "limit", 0, 1),
        left=Rows(25),
        right=Rows(25),
        sequence="seq",
        daemon=daemon.address,
        state=None,
    )
    runner.run(joined)
    options = {"rows": (25, 25), "sequence": "seq", "self_join": True, "itself": True}
    loop = NestedLoop(("band", 0, 1), "limit", "limit", **options)
    assert pairs(runner) == expected(loop, bids, [None] * len(bids))


@pytest.mark.main
def test_aggregates(runner, seed):
    bids, asks = bids_and_asks(seed)
    options = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    wanted = expected(NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq"), bids, asks)
    aggregates = ["count(*)", "sum(price)", "max(id)", "count(note)"]
    frame = window_join(*sides, **options, form="aggregate", aggregates=aggregates, state=None)
    assert frame.columns == ["side", "row", "count(1)", "sum(price)", "max(id)", "count(note)"]
    found = runner.run(frame, "aggregates")
    assert len(found) == sum(map(len, bids)) + sum(map(len, asks))
    assert sum(row["count(1)"] for row in found) == len(wanted)
    assert 0 < sum(row["count(note)"] or 0 for row in found) <= len(wanted)
    with pytest.raises(KeyTypeError, match="no min of column 'note' of type string"):
        window_join(*sides, **options, form="aggregate", aggregates="min(note)", state=None)


def test_counts_and_own_suffix(runner, daemon, seed):
    bids, asks = bids_and_asks(seed)
    options = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    loop = NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq")
    wanted = expected(loop, bids, asks)
    counts = runner.run(window_join(*sides, **options, form="counts", daemon=daemon.address, state=None), "counts")
    assert {row["side"] for row in counts} == {"left", "right"}
    assert len(counts) == sum(map(len, bids)) + sum(map(len, asks))
    assert sum(row["matches"] for row in counts) == len(wanted)
    found = runner.run(window_join(*sides, **options, form="pairs", daemon=daemon.address, state=None), "pairs")
    assert sorted((row["left_row"], row["right_row"]) for row in found) == sorted(pair[1:] for pair in wanted)
    renamed = window_join(*sides, **options, suffix="_ask", daemon=daemon.address, state=None)
    assert renamed.columns[5:] == ["id_ask", "price", "ts_ask", "seq_ask", "note_ask"]


def test_two_queries_at_once_and_one_query_with_a_join_twice(runner, daemon, seed):
    bids, asks = bids_and_asks(seed)
    more_bids, more_asks = bids_and_asks(seed + 1)
    options = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}

    def join(bids, asks):
        return window_join(bids, asks, **options, daemon=daemon.address, state=None)

    first = join(runner.stream("bids", bids), runner.stream("asks", asks))
    # Of the same shape, over other streams: their windows must stay apart, in two queries and in one.
    second = join(runner.stream("more bids", more_bids), runner.stream("more asks", more_asks))
    frames = {
        "first": first,
        "second": second,
        "both": first.unionAll(second),
        "twice": first.unionAll(first),
    }
    for query in [runner.start(frame, name) for name, frame in frames.items()]:
        assert query.awaitTermination(600)
    wanted = {}
    for name, sides in (("first", (bids, asks)), ("second", (more_bids, more_asks))):
        loop = NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq")
        wanted[name] = expected(loop, *sides)
        assert pairs(runner, name) == wanted[name]
    assert pairs(runner, "both") == sorted(wanted["first"] + wanted["second"])
    assert pairs(runner, "twice") == sorted(wanted["first"] * 2)


@pytest.mark.main
def test_three_streams(runner, daemon, seed):
    """A join of a join's result, which takes the delay that docs/spark.md gives: no row of it is late."""
    bids, asks = bids_and_asks(seed, batches=3, rows=40, spread=15)
    _, offers = bids_and_asks(seed + 1, batches=3, rows=40, spread=15)
    sides = [
        runner.stream(name, tables).withWatermark("ts", f"{delay} seconds")
        for name, tables, delay in (("bids", bids, 2), ("asks", asks, 5), ("offers", offers, 4))
    ]
    low, high = -5, 3
    delay = max(2, 5 - low) + max(high, 0)
    on, near = Band("limit", "price", -1, 1), Within("ts", "ts", f"{low} seconds", f"{high} seconds")
    first = window_join(
        *sides[:2], on=on, within=near, select=["id", "limit", "ts", "id_right"], daemon=daemon.address, state=None
    )
    second = window_join(
        first.withMetadata("ts", {"spark.watermarkDelayMs": delay * 1000}), sides[2].withColumnRenamed("id", "offer"),
        on=on, within=Within("ts", "ts", "-2 seconds", "2 seconds"), daemon=daemon.address,
    state=None)  # fmt: skip
    runner.run(second)
    loops = [
        NestedLoop(
            ("band", -1, 1), "limit", "price", within=("ts", "ts", *map(seconds, ends)),
            delays=tuple(map(seconds, delays)), initial=0, lag=1,
        )
        for ends, delays in (((low, high), (2, 5)), ((-2, 2), (delay, 4)))
    ]  # fmt: skip
    all_bids, between, due = pa.concat_tables([table.drop_columns("note") for table in bids]), [], []
    for batch, tables in enumerate(zip(bids, asks, offers, strict=True)):
        found = loops[0].process(*tables[:2])
        between += found
        middle = all_bids.take(pa.array([pair.left for pair in found], pa.int64()))
        due += [
            (batch, between[pair.left].left, between[pair.left].right, pair.right)
            for pair in loops[1].process(middle, tables[2])
        ]
    assert loops[1].streams["left"].late == 0
    assert len(due) > 20
    got = [(batch, row["id"], row["id_right"], row["offer"]) for batch, row in runner.results["query"]]
    assert sorted(got) == sorted(due)


def test_options_of_a_watermark_that_is_not_there(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=1)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks)
    delayed = [frame.withWatermark("ts", "2 seconds") for frame in (left, right)]
    options = {"on": Compare("limit", "=", "price"), "idle_after": "1 minute", "daemon": daemon.address}
    near = Within("ts", "ts", "0 seconds", "3 seconds")
    with pytest.raises(WindowError, match=r"give both sides withWatermark, on 'ts' and 'ts'"):
        window_join(left, right, within=near, **options, state=None)
    with pytest.raises(WindowError, match="idle_after='1 minute' needs the left side's delay"):
        window_join(left, delayed[1], within=near, **options, state=None)
    with pytest.raises(WindowError, match="only time windows"):
        window_join(*delayed, left=Rows(5), right=Rows(5), **options, state=None)
    assert window_join(*delayed, within=near, lag=0, **options, state=None).isStreaming


def test_a_dense_result_comes_in_blocks(runner, seed):
    """Kept on disk, sent in pieces, and again for a micro-batch that is replayed."""
    bids, asks = (side[:2] for side in bids_and_asks(seed))
    with start_private("cpu", max_kept=1 << 12, max_message=1 << 16) as daemon:
        joined = window_join(
            runner.stream("bids", bids),
            runner.stream("asks", asks),
            on=Band("limit", "price", -1000, 1000),
            left=Rows(500),
            right=Rows(500),
            sequence="seq",
            daemon=daemon.address,
            state=None,
        )
        frame = joined.select("id", "id_right", "note")
        with pytest.raises(Exception, match="the sink fails"):
            runner.run(frame, fail={1})
        runner.run(frame)
        with DaemonClient(daemon.address) as client:
            (status,) = client.status()["queries"].values()
    loop = NestedLoop(("band", -1000, 1000), "limit", "price", rows=(500, 500), sequence="seq")
    wanted = expected(loop, bids, asks)
    assert len(wanted) > 1000
    assert pairs(runner) == wanted
    assert status["kept_file_bytes"] > 0
    assert status["repeats"] > 0


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "two stages"])
def test_errors_of_tasks_lead_with_our_sentence(spark, runner, daemon, seed, streaming):
    def unnumbered(tables):
        place = tables[0].schema.get_field_index("seq")
        return [table.set_column(place, "seq", pa.nulls(len(table), pa.int64())) for table in tables]

    sides = [unnumbered(tables) for tables in bids_and_asks(seed, batches=1)]
    if streaming:
        frames = [runner.stream(name, tables) for name, tables in zip(("bids", "asks"), sides, strict=True)]
    else:
        frames = [spark.createDataFrame(table) for (table,) in sides]
    joined = window_join(
        *frames, on=Band("limit", "price", 0, 0), left=Rows(9), right=Rows(9), sequence="seq",
        daemon=daemon.address, state=None, partitions=2 if streaming else 1,
    )  # fmt: skip

    def run():
        if not streaming:
            joined.collect()
            return
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(runner.folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(600)

    with pytest.raises(Exception, match="OrderError") as failed:
        run()
    message = str(failed.value).lstrip()
    ours = r"muntin\.errors\.OrderError: row 0 of the (left|right) batch has no value in the sequence column 'seq'"
    if spark_version() >= (4, 0):
        assert "Traceback" not in message
        assert re.match(rf"[^\n]*(from the Python worker.*\n)?{ours}", message)
    else:  # the last line of the traceback
        assert re.search(rf"Traceback.*(\n +.*)+\n{ours}", message)


def test_errors_of_other_functions_keep_their_traceback(spark):
    def fails(batches):
        raise ValueError("no error of a join")

    with pytest.raises(Exception, match=r"Traceback(.*\n)*.* in fails(.*\n)*.*no error of a join"):
        spark.range(0, 1, 1, 1).mapInArrow(fails, "id long").collect()
