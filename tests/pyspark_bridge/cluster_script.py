"""Run by test_two_stages.py: a join in two stages on two executors, which die in the middle of it."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import trustme
from pyspark.sql import SparkSession

from muntin import AllOf, Band, Compare, Rows
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.executor_daemon import reachable
from muntin.pyspark_bridge.window_join import _certificate_of_query, _token_of_query
from muntin.spark import listen
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.runner import Runner
from tests.pyspark_bridge.test_streaming import expected, pairs


def killing(marker, batch, before):
    """For mapInArrow: kills the executor of the first task that comes here with `batch`, before or after its rows."""

    def function(batches):
        from pyspark import TaskContext

        def kill():
            due = TaskContext.get().getLocalProperty("streaming.sql.batchId") == str(batch)
            if due and not Path(marker).exists():
                Path(marker).touch()
                # This process was forked by a server of the executor's.
                executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)

        if before:
            kill()
        yield from batches
        if not before:
            kill()

    return function


def claims(folder):
    return sorted(path.read_text() for path in (folder / "state").glob("*/*.claim"))


def executors_of(jvm):
    """Process ids of a session's executors."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == jvm and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def main(folder: Path, seed: int, daemon: str) -> None:
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=ERROR")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    runner = Runner(spark, folder)
    bids, asks = bids_and_asks(seed, batches=4, spread=12)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks)
    right = right.mapInArrow(killing(str(folder / "send"), 1, before=False), right.schema)
    on = AllOf(Compare("limit", "=", "price"), Band("id", "id", -90, 90))
    options = {"on": on, "left": Rows(70), "right": Rows(60), "sequence": "seq", "partitions": 2}
    joined = window_join(left, right, **options, daemon=daemon, state=None)
    joined = joined.mapInArrow(killing(str(folder / "fetch"), 2, before=True), joined.schema)
    query = runner.start(joined, "query")
    assert query.awaitTermination(800)
    assert (folder / "send").exists()
    assert (folder / "fetch").exists()
    predicate = ("all", [("pair", 0, 0, ("compare", "=")), ("pair", 1, 1, ("band", -90, 90))])
    loop = NestedLoop(predicate, ["limit", "id"], ["price", "id"], rows=(70, 60), sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)

    state = str(folder / "state")

    def claimed(batches, **more):
        # Folders of their own: those of the first query hold all batches already.
        sides = runner.stream("bids2", bids[:batches]), runner.stream("asks2", asks[:batches])
        return window_join(*sides, **options, name="claimed", state=state, **more)

    def schemes():
        return {json.loads(claim)["address"].partition("://")[0] for claim in claims(folder)}

    # Daemons on the executors: they go on from one query to the next, and others take over when they have ended.
    assert runner.start(claimed(1), "claimed").awaitTermination(800)
    first = claims(folder)
    assert len(first) == 2
    assert schemes() == {"grpc+tls"}
    assert runner.start(claimed(2), "claimed").awaitTermination(800)
    assert claims(folder) == first
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    executors = executors_of(jvm)
    assert len(executors) == 2
    for executor in executors:
        os.kill(executor, signal.SIGKILL)
    # Their daemons notice it within a second, and until then would serve the next query.
    until = time.monotonic() + 120
    secrets = _token_of_query(state, "claimed"), _certificate_of_query(state, "claimed").trust
    while any(reachable(json.loads(claim)["address"], *secrets) for claim in first):
        assert time.monotonic() < until
        time.sleep(0.1)
    listener = listen(spark)
    assert runner.start(claimed(3, tls=False), "claimed").awaitTermination(800)
    assert schemes() == {"grpc"}
    issued = trustme.CA().issue_cert("muntin.example.org")
    issued.private_key_pem.write_to_path(str(folder / "own.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
    query = runner.start(claimed(4, tls=(str(folder / "own.pem"), str(folder / "own.key"))), "claimed")
    assert query.awaitTermination(800)
    (told,) = listener.of(query.lastProgress).joins  # by the executors' daemons
    assert told.rows_out == sum(batch == 3 for batch, _ in runner.results["claimed"])
    assert (told.rows_left, told.rows_right) == (len(bids[3]), len(asks[3]))
    assert not set(claims(folder)) & set(first)
    assert schemes() == {"grpc+tls"}
    assert pairs(runner, "claimed") == pairs(runner)
    spark.stop()
    print("all checks passed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
