"""What Spark's users see of a join beside Spark's own progress: the listener, and behind the join."""

import logging
import re
import threading

from muntin.host import Compare, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.pyspark_bridge import window_join
from muntin.spark import listen
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds


def named(runner, frame, name):
    """Run a query that has a name, to its end."""
    writer = frame.writeStream.queryName(name).format("noop")
    writer = writer.option("checkpointLocation", str(runner.folder / f"checkpoint-{name}"))
    query = writer.trigger(availableNow=True).start()
    runner.queries.append(query)
    assert query.awaitTermination(120)
    return query


def test_figures_of_each_micro_batch(spark, runner, seed, caplog):
    """Of two joins in one query, one of them in two partitions in a daemon of its own; they are those of the nested
    loop, batch for batch."""
    bids, asks = bids_and_asks(seed)
    left, right = (
        runner.stream(name, tables).withWatermark("ts", delay)
        for name, tables, delay in (("bids", bids, "2 seconds"), ("asks", asks, "3 seconds"))
    )
    on = Compare("limit", "=", "price")
    window = {"on": on, "within": Within("ts", "ts", "-5 seconds", "5 seconds")}
    heard, threads = [], set()

    def call(progress):
        heard.append(progress)
        threads.add(threading.current_thread())

    listener = listen(spark, call)
    caplog.set_level(logging.INFO, "muntin.spark")
    try:
        with start_private("numpy") as daemon:
            joined = window_join(left, right, **window, name="outer", how="left", daemon=daemon.address)
            other = window_join(left, right, **window, name="inner", device="numpy", partitions=2)
            query = named(runner, joined.select("id").unionAll(other.select("id")), "two joins")
            last = listener.of(query.lastProgress)
            with DaemonClient(daemon.address) as client:
                assert {told["title"] for told in client.status()["queries"].values()} == {"two joins"}
    finally:
        listener.stop()
    listener.stop()
    assert list(listener) == []
    assert last in heard
    mine = [each for each in heard if str(each.progress.id) == str(query.id)]
    assert mine == [each for each in listener.recent if each in mine]
    assert [each.progress.batchId for each in mine] == [each["batchId"] for each in map(as_dict, query.recentProgress)]
    loop = NestedLoop(
        ("compare", "="), "limit", "price", within=("ts", "ts", seconds(-5), seconds(5)),
        delays=(seconds(2), seconds(3)), lag=1,
    )  # fmt: skip
    totals = {"late_left": 0, "late_right": 0}
    for number, sides in enumerate(zip(bids, asks, strict=True)):
        found = loop.process(*sides)
        (each,) = (each for each in mine if each.progress.batchId == number)
        assert not each.errors
        outer, inner = sorted(each.joins, key=lambda join: join.join, reverse=True)
        assert (outer.join, inner.join) == ("outer", "inner")
        for join in each.joins:
            assert (join.rows_left, join.rows_right) == tuple(map(len, sides))
            assert join.matches == len(found)
            assert join.seconds > 0
            assert 0 < sum(join.steps.values()) <= 3 * join.seconds
            assert join.fill_left is None
            assert join.watermark == inner.watermark
        assert inner.rows_out == inner.matches
        assert outer.rows_out >= outer.matches
        assert (inner.waiting_left, outer.waiting_left > 0) == (0, True)
        for side in totals:
            totals[side] += getattr(inner, side)
    assert totals == {f"late_{side}": stream.late for side, stream in loop.streams.items()}
    lines = [record.getMessage() for record in caplog.records if record.name == "muntin.spark"]
    assert len(lines) == 2 * len([each for each in mine if each.joins])
    assert re.match(r"query two joins, batch 0, (inner|outer): \d+ left and \d+ right rows in, \d+ out, ", lines[0])


def as_dict(progress):
    """A progress as `recentProgress` has it: before 4.0 a dict."""
    return progress if isinstance(progress, dict) else {"batchId": progress.batchId}
