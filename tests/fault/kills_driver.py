"""The driver of a query that is killed, with its tasks, executors and daemons: started by `kills`, until it ends."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from muntin import AllOf, Band, Compare, Within
from muntin.host.errors import ConnectionLostError
from muntin.pyspark_bridge import window_join
from tests.fault.dying_task import dying_tasks

MAX_FAILURES = 12  # of one micro-batch
DAEMON_SECONDS = 60.0
#: Of processes that live for seconds.
JAVA_OPTIONS = (
    "-Dlog4j2.level=ERROR -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"  # an archive of classes stays where it was
)
ON = AllOf(Compare("k", "=", "k"), Band("a", "a", -30, 30))
SCHEMA = "k bigint, a int, t timestamp, s string"
WITHIN = Within("t", "t", "-40 seconds", "30 seconds")


def main(folder: Path, master: str, daemon: str | None, how: str, archive: str) -> None:
    """Run the query to its end, whatever fails; then write what Spark reads of its sink to ``result.parquet``.

    `archive` is Java's option for the archive of the classes that Spark loads.
    """
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    (folder / "orders" / "driver").write_text(str(os.getpgid(0)))
    java_options = f"{JAVA_OPTIONS} {archive}"
    spark = (
        SparkSession.builder.master(master)
        .appName("kills")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", os.getcwd())
        .config("spark.python.daemon.module", "tests.fault.dying_task")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.locality.wait", "0")
        .config("spark.shuffle.io.retryWait", "500ms")  # of rows that an executor had which is gone
        .config("spark.python.task.killTimeout", "200ms")
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than such processes live
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.executor.extraJavaOptions", java_options)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    sides = []
    for side in "lr":
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        sides.append(stream.withWatermark("t", "80 seconds"))
    # The package's function of this name hides its module.
    module = importlib.import_module("muntin.pyspark_bridge.window_join")
    with mock.patch.object(module, "task_function", dying_tasks(str(folder / "orders"))):
        options: dict[str, Any] = {"on": ON, "within": WITHIN, "how": how, "partitions": 2, "name": "kills"}
        joined = _joined(sides, daemon, {**options, "state": str(folder / "state")})
    failures, batch = 0, -1
    while True:
        writer = joined.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(folder / "out"))
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            newest = committed(folder)
            failures, batch = (failures + 1 if newest == batch else 1), newest
            print(f"after batch {newest}: {error}", file=sys.stderr, flush=True)
            if failures == MAX_FAILURES:
                raise
            time.sleep(0.2)
    found: pa.Table = spark.read.schema(joined.schema).parquet(str(folder / "out")).toArrow()
    pq.write_table(found, folder / "result.parquet")
    spark.stop()
    java = spark.sparkContext._gateway.proc
    java.stdin.close()
    java.wait()  # for the archive


def _joined(sides: list[Any], daemon: str | None, options: dict[str, Any]) -> Any:
    """The join; waits for a daemon that is being started again."""
    until = time.monotonic() + DAEMON_SECONDS
    while True:
        try:
            return window_join(*sides, **options, daemon=daemon)
        except ConnectionLostError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def committed(folder: Path) -> int:
    """The newest micro-batch that Spark's checkpoint has; -1 where there is none."""
    names = [path.name for path in (folder / "checkpoint" / "commits").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None, sys.argv[4], sys.argv[5])
