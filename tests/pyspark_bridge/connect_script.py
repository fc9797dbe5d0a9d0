"""Run by test_connect.py: streams, watermarks, DataFrames and errors through Spark Connect."""

import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin import Band, Rows
from muntin.host import errors
from muntin.host.daemon import start_private
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.spark_versions import spark_version
from muntin.spark import listen
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds
from tests.pyspark_bridge.runner import Runner

C = F.col


def expected(loop, bids, asks):
    return sorted(
        (pair.left, pair.right) for left, right in zip(bids, asks, strict=True) for pair in loop.process(left, right)
    )


def ids(rows):
    return sorted((row["id"], row["id_right"]) for row in rows)


def main(folder: Path, seed: int) -> None:
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.python.daemon.module", "tests.pyspark_bridge.worker_daemon")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=ERROR -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    try:
        check(spark, folder, seed)
        columns = Path(__file__).with_name("test_columns.py")
        # How names are read over Connect does not depend on `how`.
        chosen = ["-k", "not test_names_give_one_column_each or full"]
        assert pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *chosen, str(columns)]) == 0
    finally:
        spark.stop()  # the server holds the standard output until then
    print("all checks passed")


def check(spark: SparkSession, folder: Path, seed: int) -> None:
    assert "connect" in type(spark).__module__
    runner = Runner(spark, folder)
    bids, asks = bids_and_asks(seed, batches=3)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks)
    options = {"on": Band("limit", "price", -2, 2), "device": "numpy"}

    last = []

    def run(frame):
        # foreachBatch would run in the server's own Python process; a file sink brings the rows back here.
        place = folder / f"out{len(list(folder.iterdir()))}"
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", f"{place}-checkpoint")
            .trigger(availableNow=True)
            .start(str(place))
        )
        assert query.awaitTermination(600)
        last.append(query.lastProgress)
        return spark.read.parquet(str(place)).collect()

    def counts():
        return NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq")

    counted = window_join(left, right, **options, left=Rows(50), right=Rows(50), sequence="seq", state=None)
    assert ids(run(counted)) == expected(counts(), bids, asks)

    # foreachBatch runs in the server's own Python process, whose tasks Spark does not tell their micro-batch.
    def each(place):
        def function(rows, batch):
            rows.write.mode("overwrite").parquet(f"{place}/{batch}")

        return function

    with start_private("numpy") as daemon:
        for stages in (1, 2):
            place = folder / f"each{stages}"
            given = {"stages": stages, "name": f"each {stages}", "daemon": daemon.address}
            frame = window_join(
                left, right, on=options["on"], left=Rows(50), right=Rows(50), sequence="seq", **given, state=None
            )
            writer = frame.writeStream.foreachBatch(each(place)).option("checkpointLocation", f"{place}-checkpoint")
            query = writer.trigger(availableNow=True).start()
            if stages == 1 or spark_version() < (4, 1):
                with pytest.raises(Exception, match="carries no micro-batch number"):
                    query.awaitTermination(600)
            else:
                assert query.awaitTermination(600)
                assert ids(spark.read.parquet(f"{place}/*").collect()) == expected(counts(), bids, asks)

    within = C("a.ts").between(C("b.ts") - F.expr("INTERVAL 5 SECONDS"), C("b.ts") + F.expr("INTERVAL 5 SECONDS"))
    timed = window_join(
        left.withWatermark("ts", "2 seconds").alias("b"),
        right.withWatermark("ts", "3 seconds").alias("a"),
        (C("a.price") - C("b.limit")).between(-2, 2) & within,
        device="numpy",
        observe="timed",
        state=None,
    )
    loop = NestedLoop(
        ("band", -2, 2),
        "limit",
        "price",
        within=("ts", "ts", seconds(-5), seconds(5)),
        delays=(seconds(2), seconds(3)),
        lag=1,
    )
    listener = listen(spark)
    found = expected(loop, bids, asks)
    assert ids(run(timed)) == found
    listener.of(last[-1])
    listener.stop()
    figures = [each.joins[0] for each in listener.recent if str(each.progress.id) == str(last[-1].id)]
    assert [figure.rows_left for figure in figures] == [len(table) for table in bids]
    assert sum(figure.rows_out for figure in figures) == len(found)
    metrics = [each.progress.observedMetrics["timed"] for each in listener.recent if each.progress.observedMetrics]
    assert [metric["rows_out"] for metric in metrics] == [figure.rows_out for figure in figures]

    with start_private("numpy") as daemon:
        windows = {"left": Rows(50), "right": Rows(50), "sequence": "seq", "daemon": daemon.address}
        alike = [window_join(left, right, on=options["on"], **windows, state=None) for _ in range(2)]
        with pytest.raises(Exception, match="two joins of one streaming query"):
            run(alike[0].unionAll(alike[1]))

    frames = [spark.createDataFrame(side[0].to_pandas()) for side in (bids, asks)]
    plain = window_join(*frames, **options, left=Rows(50), right=Rows(50), sequence="seq", state=None)
    assert ids(plain.collect()) == expected(counts(), bids[:1], asks[:1])

    # A stream and a table: the rows of the stream are those of all its files.
    table = spark.read.parquet(str(folder / "asks")).alias("a")
    near = C("a.price").between(C("b.limit") - 2, C("b.limit") + 2)
    met = window_join(left.alias("b"), table, near, "inner", device="numpy", state=None)
    whole = spark.read.schema(left.schema).parquet(str(folder / "bids"))
    theirs = whole.alias("b").join(table, near).select("b.id", C("a.id").alias("id_right"))
    assert ids(run(met)) == ids(theirs.collect()) != []

    try:
        window_join(*frames, on=Band("nowhere", "price", 0, 0), left=Rows(5), right=Rows(5), device="numpy", state=None)
    except errors.SchemaError:
        pass
    else:
        raise AssertionError("a missing column was not noticed")

    import muntin.pyspark_bridge.private_daemon as private

    daemons = [daemon for watcher in private._watchers.values() for daemon in watcher._daemons]
    until = time.monotonic() + 20
    while daemons and time.monotonic() < until:
        daemons = [daemon for daemon in daemons if daemon.daemon is None or daemon.usable]
        time.sleep(0.1)
    assert not daemons, "private daemons outlived their queries"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
