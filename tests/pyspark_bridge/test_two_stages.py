"""Micro-batches in two stages, of tasks that send rows and tasks that fetch the result, whatever Spark repeats."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, Rows, Within
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.certificate import Certificate
from muntin.host.errors import ConnectionLostError
from muntin.pyspark_bridge import executor_daemon, window_join
from muntin.pyspark_bridge.join_task import Shipment
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds
from tests.pyspark_bridge.newest_query import newest_query
from tests.pyspark_bridge.test_streaming import expected, pairs

BAND = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}
EQUAL = AllOf(Compare("limit", "=", "price"), Band("id", "id", -90, 90))
COUNTED = {"on": EQUAL, "left": Rows(70), "right": Rows(60), "sequence": "seq"}
TIMED = {"on": EQUAL, "within": Within("ts", "ts", "-12 seconds", "9 seconds")}


def wanted(bids, asks):
    return expected(NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq"), bids, asks)


def streams(runner, bids, asks, delays=False):
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    if delays:
        return sides[0].withWatermark("ts", "3 seconds"), sides[1].withWatermark("ts", "5 seconds")
    return sides


def rows(runner, query="query"):
    return sorted((batch, str(row.asDict())) for batch, row in runner.results[query])


def in_one_stage(runner, daemon, options, bids, asks, **more):
    """What the same join gives in one task."""
    frame = window_join(
        *streams(runner, bids, asks, "within" in options), **options, **more, daemon=daemon.address, state=None
    )
    runner.run(frame, "one")
    return rows(runner, "one")


def failing(marker, once):
    """For mapInArrow: each task's first attempt at each micro-batch raises, where `once` rows have passed."""

    def function(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"{marker}-{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        passed = 0
        for batch in batches:
            passed += batch.num_rows
            if passed > once and not Path(name).exists():
                Path(name).touch()
                raise RuntimeError("this attempt fails")
            yield batch

    return function


@pytest.mark.main
@pytest.mark.parametrize(
    ("options", "how"),
    [
        (COUNTED, "full"),
        pytest.param(COUNTED, "left_semi", marks=pytest.mark.full),
        pytest.param(TIMED, "left", marks=pytest.mark.full),
        pytest.param(TIMED, "left_anti", marks=pytest.mark.full),
    ],
    ids=["count full", "count semi", "time left", "time anti"],
)
def test_partitions_as_in_one_task(runner, daemon, seed, options, how):
    """All rows come out in the same micro-batch; parts of a batch have no rows, or of one side alone."""
    bids, asks = bids_and_asks(seed, batches=3, spread=12, late=9)
    bids[1], asks[2] = bids[1].slice(0, 0), asks[2].slice(0, 0)
    due = in_one_stage(runner, daemon, options, bids, asks, how=how)
    frame = window_join(
        *streams(runner, bids, asks, "within" in options),
        **options,
        how=how,
        daemon=daemon.address,
        partitions=3,
        state=None,
    )
    runner.run(frame)
    assert rows(runner) == due
    assert len(due) > 10
    with DaemonClient(daemon.address) as client:
        status = client.status()["queries"]
    own = [query for name, query in status.items() if name.startswith(f"{runner.queries[-1].id}/")]
    assert len(own) == 3
    assert all(query["staged_bytes"] == 0 for query in own)
    if options is COUNTED:  # each partition knows how many rows have come in all
        assert {query["stats"]["rows_left"] for query in own} == {sum(map(len, bids))}


def test_repeated_tasks_actions_and_threads(runner, daemon, seed):
    """Tasks of both stages fail; foreachBatch computes the result several times, in part, and in a thread; and a
    micro-batch is replayed."""
    bids, asks = bids_and_asks(seed, batches=3)
    left, right = streams(runner, bids, asks)
    marker = str(runner.folder / "failed")
    broken = right.mapInArrow(failing(f"{marker}-send", 10), right.schema)
    joined = window_join(left, broken, **BAND, daemon=daemon.address, stages=2, state=None)
    joined = joined.mapInArrow(failing(f"{marker}-fetch", 5), joined.schema)
    found = []

    def collect(frame, batch):
        assert frame.isEmpty() == (frame.count() == 0)
        frame.take(1)
        here = frame.collect()
        there = []
        thread = threading.Thread(target=lambda: there.extend(frame.collect()))
        thread.start()
        thread.join(600)
        assert sorted(map(str, here)) == sorted(map(str, there))
        found[:] = [entry for entry in found if entry[0] != batch] + [(batch, row) for row in here]
        if batch == 1 and not (runner.folder / "replayed").exists():
            (runner.folder / "replayed").touch()
            raise RuntimeError("the sink fails")

    def started():
        writer = joined.writeStream.option("checkpointLocation", str(runner.folder / "checkpoint"))
        return writer.foreachBatch(collect).trigger(availableNow=True).start()

    with pytest.raises(Exception, match="the sink fails"):
        started().awaitTermination(600)
    assert started().awaitTermination(600)
    runner.results["query"] = found
    assert pairs(runner) == wanted(bids, asks)
    assert len(list(runner.folder.glob("failed-send-*"))) >= 2
    assert list(runner.folder.glob("failed-fetch-*"))
    assert newest_query(daemon)["repeats"] >= 6


@pytest.mark.full
@pytest.mark.parametrize("reuse", ["true", "false"])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_self_join_of_the_result(runner, daemon, seed, spark, reuse, adaptive):
    """The result in both roles of a join of Spark's: one send stage, or two at once."""
    bids, asks = bids_and_asks(seed, batches=3)
    joined = window_join(*streams(runner, bids, asks), **BAND, daemon=daemon.address, stages=2, state=None)
    found = []

    def collect(frame, batch):
        both = frame.alias("a").join(frame.alias("b"), ["id", "id_right"], "full_outer")
        found.extend((batch, row) for row in both.collect())

    settings = {"spark.sql.exchange.reuse": reuse, "spark.sql.adaptive.enabled": adaptive}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        writer = joined.writeStream.option("checkpointLocation", str(runner.folder / "checkpoint"))
        assert writer.foreachBatch(collect).trigger(availableNow=True).start().awaitTermination(600)
    finally:
        for name in settings:
            spark.conf.unset(name)
    runner.results["query"] = found
    assert pairs(runner) == wanted(bids, asks)


@pytest.mark.full
def test_union_with_itself_and_a_state_store(runner, daemon, seed):
    """Two branches of one plan fetch from two send stages; a stateful operator turns adaptive execution off."""
    bids, asks = bids_and_asks(seed, batches=3)
    joined = window_join(*streams(runner, bids, asks), **BAND, daemon=daemon.address, stages=2, state=None)
    runner.run(joined.unionAll(joined), "twice")
    runner.results["query"] = runner.results["twice"]
    assert pairs(runner) == sorted(2 * wanted(bids, asks))
    counted = joined.groupBy("id").count()
    writer = counted.writeStream.outputMode("complete").format("memory").queryName("counts")
    query = writer.option("checkpointLocation", str(runner.folder / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    found = {row["id"]: row["count"] for row in runner.spark.table("counts").collect()}
    due = {}
    for _, left, _ in wanted(bids, asks):
        due[left] = due.get(left, 0) + 1
    assert found == due


@pytest.mark.full
def test_two_sinks_and_shuffled_inputs(runner, daemon, seed):
    """Two queries of one frame have windows of their own; rows of shuffled inputs come in any order."""
    bids, asks = bids_and_asks(seed, batches=3)
    left, right = streams(runner, bids, asks)
    joined = window_join(left.repartition(3), right.repartition(2), **BAND, daemon=daemon.address, stages=2, state=None)
    queries = [runner.start(joined, name) for name in ("query", "second")]
    for query in queries:
        assert query.awaitTermination(600)
    assert pairs(runner) == wanted(bids, asks)
    assert rows(runner) == rows(runner, "second")


@pytest.mark.full
def test_replay_that_is_split_otherwise(runner, daemon, seed):
    """The batch that a sink has failed is read in other pieces: with other numbers of tasks, the same rows."""
    bids, asks = bids_and_asks(seed, batches=4)

    def join(shuffled):
        left, right = streams(runner, bids, asks)
        if shuffled:
            left, right = left.repartition(shuffled), right.repartition(1)
        return window_join(left, right, **COUNTED, name="split", daemon=daemon.address, partitions=2, state=None)

    due = in_one_stage(runner, daemon, COUNTED, bids, asks)
    query = runner.start(join(0), "query", fail={2})
    with pytest.raises(Exception, match="the sink fails after micro-batch 2"):
        query.awaitTermination(600)
    runner.run(join(3))
    assert rows(runner) == due


@pytest.mark.full
def test_random_rows_fail_by_name(runner, daemon, seed):
    """A second action on rows that are other ones each time: the result of the first, or a refusal, never a mixture."""
    from pyspark.sql import functions as F

    bids, asks = bids_and_asks(seed, batches=2)
    left, right = streams(runner, bids, asks)
    left = left.withColumn("limit", (F.rand() * 40).cast("long"))
    joined = window_join(left, right, **BAND, name="random", daemon=daemon.address, stages=2, state=None)
    query = runner.start(joined, "query", fail={1})
    with pytest.raises(Exception, match="the sink fails after micro-batch 1"):
        query.awaitTermination(600)
    with pytest.raises(Exception, match="comes again with other rows"):
        runner.start(joined, "query").awaitTermination(600)


def test_first_batch_without_input(runner, daemon, seed, spark):
    """The rate source's first micro-batch has no partition: there is one task all the same."""
    from muntin.pyspark_bridge.spark_versions import stages_apart

    rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    sides = [rate.selectExpr(f"value AS {name}", "timestamp AS ts") for name in ("a", "b")]
    options = {"left": Rows(50), "right": Rows(50), "daemon": daemon.address, "stages": 2}
    joined = window_join(*sides, on=Compare("a", "=", "b"), **options, state=None)
    seen = []

    def collect(frame, batch):
        def work():
            seen.append((batch, frame.count()))

        if not stages_apart():
            return work()
        thread = threading.Thread(target=work)  # whose tasks have no number of the micro-batch
        thread.start()
        thread.join(600)

    query = joined.writeStream.option("checkpointLocation", str(runner.folder / "c")).foreachBatch(collect).start()
    runner.queries.append(query)
    for _ in range(120):
        if sum(count for _, count in seen) > 20 or query.awaitTermination(1):
            break
    query.stop()
    assert query.exception() is None
    assert [batch for batch, _ in seen] == list(range(len(seen)))
    assert sum(count for _, count in seen) > 20


@pytest.mark.full
def test_time_windows_in_two_stages_and_one_partition(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=3)
    joined = window_join(
        *streams(runner, bids, asks, True),
        on=Band("limit", "price", -2, 2),
        within=Within("ts", "ts", "-5 seconds", "5 seconds"),
        daemon=daemon.address,
        stages=2,
        state=None,
    )
    runner.run(joined)
    loop = NestedLoop(
        ("band", -2, 2), "limit", "price", within=("ts", "ts", seconds(-5), seconds(5)),
        delays=(seconds(3), seconds(5)), lag=1,
    )  # fmt: skip
    assert pairs(runner) == expected(loop, bids, asks)


@pytest.mark.full
def test_lost_executor(daemon, seed, tmp_path):
    """A cluster of two executors, of which one is killed in each stage, then all with their daemons.

    In a process of its own: a process has one session.
    """
    from muntin.pyspark_bridge import ensure_java

    ensure_java()
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cluster_script.py")), str(tmp_path), str(seed), daemon.address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert "all checks passed" in run.stdout


def test_daemon_of_an_executor(tmp_path, monkeypatch):
    """One for each query, with its certificate; the secrets lie nowhere, and it ends with the executor."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    executor = subprocess.Popen(["sleep", "1000"])
    monkeypatch.setattr(executor_daemon, "_executor", lambda: executor.pid)
    made, other = Certificate.make(), Certificate.make()
    tls = made.chain, made.key

    def ended(address, token, trust):
        until = time.monotonic() + 60
        while executor_daemon.reachable(address, token, trust):
            assert time.monotonic() < until
            time.sleep(0.05)

    try:
        address = executor_daemon.executor_daemon("numpy", "one", tls, made.trust)
        assert address.startswith("grpc+tls:")
        assert executor_daemon.executor_daemon("numpy", "one", tls, made.trust) == address
        for token, trust in (("one", other.trust), ("two", made.trust), ("one", None)):
            assert not executor_daemon.reachable(address, token, trust)
        with DaemonClient(address, "one", tls_ca=made.trust) as client:
            pid = client.status()["pid"]
        shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        shown += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert made.key.split()[4] not in shown
        assert "one" not in shown.decode().split("\0")
        assert list(tmp_path.glob("*.log"))
        plain = executor_daemon.executor_daemon("numpy", "two")
        assert plain.startswith("grpc:")
        os.kill(pid, signal.SIGKILL)
        ended(address, "one", made.trust)
        again = executor_daemon.executor_daemon("numpy", "one", tls, made.trust)
        assert executor_daemon.reachable(again, "one", made.trust)
    finally:
        executor.kill()
        executor.wait()
    ended(again, "one", made.trust)
    ended(plain, "two", None)


def test_what_a_part_is_known_by():
    """The same for rows in any order, another one for other rows and for another side."""
    from muntin.host.daemon.staging import totals, totals_of
    from muntin.host.join.summary_part import SummaryPart

    schema = pa.schema([("k", pa.int64()), ("note", pa.string())])
    spec = window_spec()
    table = pa.table([[1, 2, None], ["a", None, "b"]], schema=schema)

    def digest(*given):
        part = SummaryPart(spec, schema, schema, 1)
        for side, rows in given:
            for batch in rows.to_batches():
                part.add(side, batch)
        return part.rows, part.digest

    whole = digest(("left", table))
    assert whole == digest(("left", table.slice(2)), ("left", table.slice(0, 2)))
    assert whole != digest(("right", table))
    assert whole != digest(("left", table.slice(0, 2)))
    assert totals_of(table, table.slice(0, 0)) == whole
    assert totals([]) == (0, 0)


def test_a_cancelled_shipment_is_not_taken_for_whole():
    """What is left in its queue, after some was taken out, does not come to a regular end."""
    begin, got = threading.Event(), []

    def ship(items):
        begin.wait(120)
        got.extend(items)

    shipment = Shipment(ship)
    for item in [*range(7), None]:
        shipment.put(item)
    cancelling = threading.Thread(target=shipment.cancel)
    cancelling.start()
    time.sleep(0.05)
    begin.set()
    cancelling.join(120)
    assert not cancelling.is_alive()
    with pytest.raises(ConnectionLostError, match="ended before it had sent all its rows"):
        shipment.wait()
    assert got == []


def window_spec():
    from muntin import JoinSpec

    return JoinSpec(on=Compare("k", "=", "k"), left=Rows(3), right=Rows(3))
