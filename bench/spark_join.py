"""Times `window_join` through Spark beside the streaming join that Spark does accept, and beside doing
nothing.

Three streaming queries run at once in one session, each over files of its own (hard links to the same data),
each idle until its next micro-batch is put into its folders. Every step hands them the same rows in turn:

window_join
    ``window_join(..., within=...)`` on a daemon of its own.
bucket/explode
    What one writes without it. The left key is cut into buckets as wide as the band, the right side is
    exploded into the three buckets that a partner may lie in, and Spark joins on the bucket, with band and
    time range as further conditions.
bucket/explode, tuned
    The same with buckets of eight band widths, so that only one right row in eight is there twice (1.125
    copies instead of 3, for eight times as many candidates). Only on request: it takes as long again.
window_join, state=
    The same with its windows kept on the local disk, in place of the two above. Only on request.
nothing
    Spark's own floor: the same union of both streams through a `mapInArrow` that returns what it gets.

Window, watermarks and late rows are the same for all. Every result goes through an observed count and hash of
all columns into the noop sink; the joins' counts and hashes must be equal for every micro-batch.

A rate is the rows of both sides over `triggerExecution`, the time that Spark reports for the micro-batch,
which excludes waiting for files.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.operator_benchmark import ResultsDiffer
from bench.spark_plan import SparkPlan
from bench.workloads import Batch, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_EPOCH_MS = 1_000_000_000  # the first row's time: Spark's watermark starts at 0, and older rows are late
_TUNED_WIDTHS = 8
FLOOR = "nothing (Spark's floor)"
WITH_STATE = "window_join, state="


@dataclass
class _Contender:
    """One streaming query with its input folders."""

    name: str
    folders: tuple[Path, Path]
    query: StreamingQuery
    seconds: list[float] = field(default_factory=list)
    results: list[tuple[int, int]] = field(default_factory=list)
    split: int = 0
    seen: int = -1


def run_spark_benchmark(plan: SparkPlan, *, on_stage: Callable[[str], None] = lambda stage: None) -> dict:
    """Measure the three queries side by side.

    Parameters
    ----------
    plan : SparkPlan
        What to measure.
    on_stage : callable
        Called with a few words whenever a step begins or ends.

    Returns
    -------
    dict
        Ready for JSON: the plan, and per contender the rates of all steps and their median.

    Raises
    ------
    ResultsDiffer
        The joins disagree on a micro-batch.
    RuntimeError
        A query failed or took too long; the message has Spark's reason.
    """
    from pyspark_bridge import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="mullion-bench-") as scratch:
        session = _session(Path(scratch))
        try:
            contenders = _start(session, plan, Path(scratch))
            try:
                return _measure(plan, contenders, Path(scratch), on_stage)
            finally:
                for contender in contenders:
                    contender.query.stop()
        finally:
            session.stop()


def _session(scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("mullion-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "6g")  # the workaround keeps 450 bytes of state per copy of a row
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")  # one per core: best for the workaround
        .config("spark.sql.session.timeZone", "UTC")
        # Nothing runs between steps: expiry happens with the next data, in the time that counts. Folders are
        # looked at twice a second, so that both files of a step are seen by one micro-batch.
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.streaming.pollingDelay", "500ms")
        .getOrCreate()
    )


def _start(session: SparkSession, plan: SparkPlan, scratch: Path) -> list[_Contender]:
    from pyspark.sql import functions as F

    makers: dict[str, Callable[[DataFrame, DataFrame, SparkPlan], DataFrame]] = {
        "window_join": _window_join,
        "bucket/explode": _bucket_explode,
        FLOOR: _nothing,
    }
    if plan.tuned:
        makers["bucket/explode, tuned"] = _bucket_explode_tuned
    if plan.state:
        kept = partial(_window_join, state=str(scratch / "state"))
        makers = {"window_join": _window_join, WITH_STATE: kept, FLOOR: _nothing}
    contenders = []
    for index, (name, make) in enumerate(makers.items()):
        folders = (scratch / f"in{index}" / "left", scratch / f"in{index}" / "right")
        for folder in folders:
            folder.mkdir(parents=True)
        left, right = (
            session.readStream.schema(f"{side}_id bigint, {side}_key int, {side}_time timestamp")
            .parquet(str(folder))
            .withWatermark(f"{side}_time", "0 seconds")
            for side, folder in zip("lr", folders, strict=True)
        )
        result = make(left, right, plan)
        hashed = F.xxhash64(*(F.col(column) for column in result.columns))
        query = (
            result.observe("result", F.count("*").alias("count"), F.bit_xor(hashed).alias("hash"))
            .writeStream.format("noop")
            .option("checkpointLocation", str(scratch / f"checkpoint{index}"))
            .queryName(f"bench{index}")
            .start()
        )
        contenders.append(_Contender(name=name, folders=folders, query=query))
    return contenders


def _workload(plan: SparkPlan) -> Workload:
    return Workload(kind="time", window=plan.window, seed=plan.seed)


def _window_join(left: DataFrame, right: DataFrame, plan: SparkPlan, state: str | None = None) -> DataFrame:
    from host import Band, Within
    from pyspark_bridge import window_join

    low, high = _workload(plan).band
    span = f"{plan.window} milliseconds"
    return window_join(
        left,
        right,
        on=Band("l_key", "r_key", low, high),
        within=Within("l_time", "r_time", f"-{span}", span),
        device=plan.device,
        state=state,
    )


def _join_buckets(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from pyspark.sql import functions as F

    low, high = _workload(plan).band
    span = f"INTERVAL '{plan.window // 1000}.{plan.window % 1000:03}' SECOND"
    joined = left.join(
        right,
        F.expr(
            f"l_bucket = r_bucket AND r_key >= l_key + {low} AND r_key <= l_key + {high} "
            f"AND r_time >= l_time - {span} AND r_time <= l_time + {span}"
        ),
    )
    return joined.drop("l_bucket", "r_bucket")


def _bucket_explode(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from pyspark.sql import functions as F

    low, high = _workload(plan).band
    width = high - low + 1
    near = F.expr(f"floor(r_key / {width})")
    return _join_buckets(
        left.withColumn("l_bucket", F.expr(f"floor(l_key / {width})")),
        right.withColumn("r_bucket", F.explode(F.array(near - 1, near, near + 1))),
        plan,
    )


def _bucket_explode_tuned(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from pyspark.sql import functions as F

    low, high = _workload(plan).band
    width = _TUNED_WIDTHS * (high - low + 1)
    first, last = F.expr(f"floor((r_key - {high}) / {width})"), F.expr(f"floor((r_key - ({low})) / {width})")
    return _join_buckets(
        left.withColumn("l_bucket", F.expr(f"floor(l_key / {width})")),
        right.withColumn("r_bucket", F.explode(F.array_distinct(F.array(first, last)))),
        plan,
    )


def _nothing(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from pyspark_bridge.tagged_union import tagged_union

    union = tagged_union(left, right)

    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    return union.mapInArrow(unchanged, union.schema)


def _measure(plan: SparkPlan, contenders: list[_Contender], scratch: Path, on_stage: Callable[[str], None]) -> dict:
    workload = _workload(plan)
    side_rows = plan.batch // 2
    stops = [plan.window + step * side_rows for step in range(1 + plan.warm_up + plan.steps)]
    start = 0
    for number, stop in enumerate(stops):
        files = [_write(workload.rows(side, start, stop), side, scratch / f"data{number}") for side in (0, 1)]
        timed = number > plan.warm_up
        # Whoever runs first finds cold caches: they take turns.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            seconds = _step(contender, files, number, 2 * (stop - start))
            if timed:
                contender.seconds.append(seconds)
            what = "filling the window" if number == 0 else f"step {number} of {len(stops) - 1}"
            rate = 2 * (stop - start) / seconds
            on_stage(f"spark: {what}: {contender.name} {seconds:.2f} s, {rate:,.0f} rows/s")
        _compare(contenders, number)
        for path in files:
            path.unlink()
        start = stop
    rows = plan.batch
    summary = {
        contender.name: {
            "rate": statistics.median(rows / seconds for seconds in contender.seconds),
            "rates": [rows / seconds for seconds in contender.seconds],
            "batch_seconds": contender.seconds,
            "split_steps": contender.split,
        }
        for contender in contenders
    }
    mine, floor = summary["window_join"]["rates"], summary[FLOOR]["rates"]
    return {
        "window": plan.window,
        "batch": plan.batch,
        "device": plan.device,
        "micro_batches_compared": len(stops),
        "steps": plan.steps,
        "pairs_per_row": statistics.mean(count for count, _ in contenders[0].results[1 + plan.warm_up :]) / rows,
        "floor_kept": statistics.median(a / b for a, b in zip(mine, floor, strict=True)),
        "contenders": summary,
    }


def side_table(batch: Batch, side: int) -> pa.Table:
    """Rows of the left (0) or right (1) stream, as Spark gets them: ids, keys and times in microseconds."""
    letter = "lr"[side]
    times = pa.array((batch.times + _EPOCH_MS) * 1000).cast(pa.timestamp("us", tz="UTC"))
    ids = pa.array(np.arange(batch.first, batch.first + len(batch)))
    return pa.table({f"{letter}_id": ids, f"{letter}_key": pa.array(batch.keys), f"{letter}_time": times})


def _write(batch: Batch, side: int, stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}-{'lr'[side]}.parquet")
    pq.write_table(side_table(batch, side), path)
    return path


def _step(contender: _Contender, files: list[Path], number: int, rows: int) -> float:
    """Hand one micro-batch over and return the seconds that Spark took for it."""
    hidden = [folder.parent / f"next-{folder.name}" for folder in contender.folders]
    for path, link in zip(files, hidden, strict=True):
        _link(path, link)
    for folder, link in zip(contender.folders, hidden, strict=True):
        link.replace(folder / f"{number:06}.parquet")
    contender.query.processAllAvailable()
    if (error := contender.query.exception()) is not None:
        raise RuntimeError(f"{contender.name} failed: {error}")
    new = [progress for progress in _progress(contender.query) if progress["batchId"] > contender.seen]
    new = [progress for progress in new if _rows(progress)]
    if sum(_rows(progress) for progress in new) != rows:
        raise RuntimeError(f"{contender.name}: Spark reports {sum(map(_rows, new)):,} rows of {rows:,}")
    contender.seen = max(progress["batchId"] for progress in new)
    contender.split += len(new) > 1  # the files were seen by two micro-batches; their times are added up
    observed = [progress["observedMetrics"]["result"] for progress in new]
    count, digest = 0, 0
    for metrics in observed:
        count += metrics["count"]
        digest ^= metrics["hash"] or 0
    contender.results.append((count, digest))
    return sum(progress["durationMs"]["triggerExecution"] for progress in new) / 1000


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]


def _rows(progress: dict[str, Any]) -> int:
    return sum(source["numInputRows"] for source in progress["sources"])


def _compare(contenders: list[_Contender], number: int) -> None:
    joins = [contender for contender in contenders if contender.name != FLOOR]
    for other in joins[1:]:
        if other.results[number] != joins[0].results[number]:
            raise ResultsDiffer(
                f"micro-batch {number}: {joins[0].name} has (pairs, hash) {joins[0].results[number]}, "
                f"{other.name} {other.results[number]}"
            )
