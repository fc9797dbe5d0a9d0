"""What Spark's users see of a join beside Spark's own progress: the listener, and behind the join."""

import datetime as dt
import logging
import re
import threading
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from muntin import AllOf, Compare, Watermark, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.errors import UnsupportedError, WindowError
from muntin.host.spec import JoinSpec
from muntin.pyspark_bridge import spark_versions, window_join
from muntin.pyspark_bridge.spark_versions import batch_of
from muntin.pyspark_bridge.watermarks import MULTIPLE_CONF, result_delay
from muntin.spark import listen
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import START, bids_and_asks, seconds


def named(runner, frame, name):
    """Run a query that has a name, to its end."""
    writer = frame.writeStream.queryName(name).format("noop")
    writer = writer.option("checkpointLocation", str(runner.folder / f"checkpoint-{name}"))
    query = writer.trigger(availableNow=True).start()
    runner.queries.append(query)
    assert query.awaitTermination(600)
    return query


@pytest.mark.main
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
            joined = window_join(left, right, **window, name="outer", how="left", daemon=daemon.address, state=None)
            other = window_join(
                left, right, **window, name="inner", device="numpy", partitions=2, observe="inner", state=None
            )
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
    assert [batch_of(each.progress) for each in mine] == [batch_of(each) for each in query.recentProgress]
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
        observed = each.progress.observedMetrics["inner"]
        for name in ("rows_left", "rows_right", "rows_out", "matches", "late_left", "late_right", "waiting_left"):
            assert observed[name] == getattr(inner, name)
        assert (observed["window_left"], observed["window_right"]) == (inner.window_left, inner.window_right)
        assert observed["fill_left"] is None
        assert observed["seconds"] == inner.seconds
        assert observed["watermark"].timestamp() == inner.watermark.timestamp()
        assert outer.rows_out >= outer.matches
        assert (inner.waiting_left, outer.waiting_left > 0) == (0, True)
        for side in totals:
            totals[side] += getattr(inner, side)
    assert totals == {f"late_{side}": stream.late for side, stream in loop.streams.items()}
    lines = [record.getMessage() for record in caplog.records if record.name == "muntin.spark"]
    assert len(lines) == 2 * len([each for each in mine if each.joins])
    assert re.match(r"query two joins, batch 0, (inner|outer): \d+ left and \d+ right rows in, \d+ out, ", lines[0])


def test_listeners_that_run_in_the_server_are_refused(monkeypatch):
    monkeypatch.setattr(spark_versions, "spark_version", lambda: (3, 5))
    monkeypatch.setattr(spark_versions, "is_connect", lambda session: True)
    with pytest.raises(
        UnsupportedError, match=r"Spark Connect before 4\.0 runs them in its server: use a classic session"
    ):
        listen(object())


AT = pa.schema([("at", pa.timestamp("us")), ("k", pa.int64())])
TIME = pa.schema([("time", pa.timestamp("us")), ("k", pa.int64())])
BOTH = Watermark("3 seconds", "6 seconds", lag=0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"how": "left"}, "how='left': a row that can match nothing"),
        ({"watermark": Watermark("3 seconds", "6 seconds")}, "lag=1: .* Give lag=0"),
        ({"watermark": Watermark("3 seconds", "6 seconds", "max", lag=0)}, "multipleWatermarkPolicy=max"),
        ({"watermark": Watermark("3 seconds", "6 seconds", lag=0, idle_after="1 hour")}, "idle_after='1 hour'"),
        ({"watermark": Watermark("3 seconds", lag=0)}, "needs withWatermark on both sides"),
        ({"within": Within("at", "time", None, "9 seconds")}, "a window with two ends"),
        ({"form": "pairs"}, "there is none: it takes within= and form='rows'"),
        ({"select": ["time"]}, "there is 'time'"),
    ],
)
def test_the_delay_behind_a_join(change, match):
    options = {
        "on": Compare("k", "=", "k"),
        "within": Within("at", "time", "-4 seconds", "9 seconds"),
        "watermark": BOTH,
    }
    spec = JoinSpec(**options)
    assert result_delay(spec, "at", AT, TIME, "false") == "19000 milliseconds"
    assert result_delay(spec, "time", AT, TIME, "false") == "16000 milliseconds"
    with pytest.raises(UnsupportedError, match=r"allowMultiple=true: .* Set it to false"):
        result_delay(spec, "at", AT, TIME, "true")
    with pytest.raises((UnsupportedError, WindowError), match=f"^result_watermark='at' .*{match}"):
        result_delay(JoinSpec(**{**options, **change}), "at", AT, TIME, "false")


def test_windows_and_a_third_stream_behind_a_join(spark, runner, daemon, seed):
    """No row of the result is late: Spark counts all pairs in its windows, and a third stream joins all of them."""
    bids, asks = bids_and_asks(seed, batches=6, rows=150)
    ends = [START + dt.timedelta(seconds=8 * number + 30) for number in range(6)]
    third = [pa.table({"ct": pa.array([end], pa.timestamp("us", tz="UTC")), "one": [1]}) for end in ends]
    before = spark.conf.get(MULTIPLE_CONF)
    spark.conf.set(MULTIPLE_CONF, "false")
    try:
        first = window_join(
            runner.stream("bids", bids).withWatermark("ts", "3 seconds"),
            runner.stream("asks", asks).withWatermark("ts", "6 seconds"),
            on=Compare("limit", "=", "price"),
            within=Within("ts", "ts", "-4 seconds", "9 seconds"),
            lag=0,
            daemon=daemon.address,
            name="first",
            suffix="`_r",
            result_watermark="ts",
            observe="first",
            state=None,
        )
        grouped = first.groupBy(F.window("ts", "1 second")).count()
        query = runner.start(grouped, "windows")
        assert query.awaitTermination(600)
        counts = {row["window"]["start"].astimezone(dt.UTC): row["count"] for _, row in runner.results["windows"]}
        observed = [dict(each).get("observedMetrics") for each in query.recentProgress]
        states = [state for each in query.recentProgress for state in each["stateOperators"]]
        watermark = dt.datetime.fromisoformat(query.lastProgress["eventTime"]["watermark"])
        second = window_join(
            first,
            runner.stream("third", third).withWatermark("ct", "0 seconds"),
            on=AllOf(),
            within=Within("ts", "ct", "0 seconds", "1 hour"),
            lag=0,
            daemon=daemon.address,
            name="second",
            state=None,
        )
        joined = Counter((row["id"], row["id`_r"]) for row in runner.run(second, "third stream"))
    finally:
        spark.conf.set(MULTIPLE_CONF, before)
    loop = NestedLoop(
        ("compare", "="), "limit", "price", within=("ts", "ts", seconds(-4), seconds(9)),
        delays=(seconds(3), seconds(6)), lag=0,
    )  # fmt: skip
    times = [time for table in bids for time in table["ts"].to_pylist()]
    pairs = [(p.left, p.right) for sides in zip(bids, asks, strict=True) for p in loop.process(*sides)]
    assert sum(metrics["first"]["matches"] or 0 for metrics in observed if metrics) == len(pairs)
    expected = Counter(times[left] - (times[left] - START) % dt.timedelta(seconds=1) for left, _ in pairs)
    assert sum(state["numRowsDroppedByWatermark"] for state in states) == 0
    assert len(counts) > 1
    assert counts == {start: n for start, n in expected.items() if start + dt.timedelta(seconds=1) <= watermark}
    assert joined == Counter({pair: sum(end >= times[pair[0]] for end in ends) for pair in pairs})
