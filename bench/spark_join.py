"""Times `window_join` through Spark beside the streaming joins that Spark does accept, and beside doing nothing.

Several streaming queries run at once in one session, each over files of its own (hard links to the same data),
each idle until its next micro-batch is put into its folders. Every step hands them the same rows in turn.

`run_spark_benchmark` has a band join:

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
    The same with its windows kept on the local disk, in place of the workaround. Only on request.

`run_floor` has the band join in a time window and in a count window by the size of micro-batches, beside *nothing*,
Spark's own floor: the same union of both streams through a `mapInArrow` that returns what it gets. That reads and
writes at the same time; beside it is one that gives no row before it has all, as a join does.

`run_keyed_join` has an equality with a band, which Spark's own stream-stream join takes too: it is measured on each
of its state stores.

Window, watermarks and late rows are the same for all. Every result goes through an observed count and hash of
all columns into the noop sink; counts and hashes of joins in the same window must be equal for every micro-batch.

A rate is the rows of both sides over `triggerExecution`, the time that Spark reports for the micro-batch,
which excludes waiting for files.
"""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import processor_time
from bench.operator_benchmark import ResultsDiffer
from bench.ratio import median_interval
from bench.spark_plan import FLOOR, FloorPlan, SparkPlan
from bench.workloads import Batch, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_EPOCH_MS = 1_000_000_000  # the first row's time: Spark's watermark starts at 0, and older rows are late
_TUNED_WIDTHS = 8
_REACH, _VALUES = 5, 1000  # of the band beside an equality
_STATE = "org.apache.spark.sql.execution.streaming.state"
AT_THE_END = "nothing, once all rows are there"
COUNT_WINDOW = "window_join, count window"
WITH_STATE = "window_join, state="


@dataclass(frozen=True)
class _Query:
    """What a contender runs: the join of both streams, and settings of the session as it starts."""

    make: Callable[[DataFrame, DataFrame], DataFrame]
    settings: dict[str, str] = field(default_factory=dict)
    max_seconds: float = math.inf  # in timed micro-batches; it then takes no further one


@dataclass
class _Contender:
    """One streaming query with its input folders."""

    name: str
    folders: tuple[Path, Path]
    query: StreamingQuery
    max_seconds: float
    seconds: list[float] = field(default_factory=list)
    processor: list[dict[str, float]] = field(default_factory=list)
    results: list[tuple[int, int]] = field(default_factory=list)
    split: int = 0
    seen: int = -1

    def summary(self, rows: int) -> dict:
        """Ready for JSON, of micro-batches of so many rows."""
        rates = [rows / seconds for seconds in self.seconds]
        return {
            "rate": statistics.median(rates),
            "rates": rates,
            "batch_seconds": self.seconds,
            "cpu_seconds": {
                kind: statistics.median(each.get(kind, 0.0) for each in self.processor)
                for kind in processor_time.KINDS.values()
            },
            "split_steps": self.split,
        }


def run_spark_benchmark(plan: SparkPlan, *, on_stage: Callable[[str], None] = lambda stage: None) -> dict:
    """Measure the queries side by side.

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
    workload = Workload(kind="time", window=plan.window, seed=plan.seed)
    makers: dict[str, Callable[..., DataFrame]] = {
        "window_join": _window_join,
        "bucket/explode": _bucket_explode,
    }
    if plan.tuned:
        makers["bucket/explode, tuned"] = _bucket_explode_tuned
    stops = [plan.window + step * (plan.batch // 2) for step in range(1 + plan.warm_up + plan.steps)]

    def rows(side: int, start: int, stop: int) -> dict[str, pa.Array]:
        batch = workload.rows(side, start, stop)
        return {"key": pa.array(batch.keys), "time": _timestamps(batch)}

    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as kept:
        if plan.state:
            with_state = functools.partial(_window_join, state=kept)
            makers = {"window_join": _window_join, WITH_STATE: with_state}
        queries = {name: _Query(functools.partial(make, plan=plan)) for name, make in makers.items()}
        contenders = _measured(queries, "key int", rows, stops, plan.warm_up, on_stage)
    summary = {contender.name: contender.summary(plan.batch) for contender in contenders}
    timed = contenders[0].results[1 + plan.warm_up :]
    return {
        "window": plan.window,
        "batch": plan.batch,
        "device": plan.device,
        "micro_batches_compared": len(stops),
        "steps": plan.steps,
        "pairs_per_row": statistics.mean(count for count, _ in timed) / plan.batch,
        "contenders": summary,
    }


def run_floor(plan: FloorPlan, *, on_stage: Callable[[str], None] = lambda stage: None) -> list[dict]:
    """Measure `window_join` in a time window and in a count window beside Spark's floor, at each size of micro-batch.

    Returns
    -------
    list of dict
        Ready for JSON, one for each size: ``window``, ``batch``, ``turns``, ``contenders`` as of `run_spark_benchmark`,
        and ``kept``: by floor (`FLOOR`, `AT_THE_END`) and join the median over the turns of its rate over that of the
        floor in the same turn (``median``), and the interval which has that of all turns in 95 of 100 cases
        (``interval``).

    Raises
    ------
    RuntimeError
        As `run_spark_benchmark`.
    """
    found = []
    for batch in plan.batches:
        sized = SparkPlan(window=plan.window, batch=batch, steps=plan.turns, seed=plan.seed)
        workload = _workload(sized)
        makers = {"window_join": _window_join, COUNT_WINDOW: _count_window_join, FLOOR: _nothing}
        makers[AT_THE_END] = functools.partial(_nothing, whole=True)
        queries = {name: _Query(functools.partial(make, plan=sized)) for name, make in makers.items()}
        stops = [plan.window + step * (batch // 2) for step in range(1 + sized.warm_up + sized.steps)]

        def rows(side: int, start: int, stop: int, workload: Workload = workload) -> dict[str, pa.Array]:
            drawn = workload.rows(side, start, stop)
            return {"key": pa.array(drawn.keys), "time": _timestamps(drawn)}

        contenders = _measured(queries, "key int", rows, stops, sized.warm_up, on_stage)
        summary = {contender.name: contender.summary(batch) for contender in contenders}
        kept: dict[str, dict[str, dict]] = {FLOOR: {}, AT_THE_END: {}}
        for floor, shares_of in kept.items():
            for name in ("window_join", COUNT_WINDOW):
                shares = [a / b for a, b in zip(summary[name]["rates"], summary[floor]["rates"], strict=True)]
                shares_of[name] = {"median": statistics.median(shares), "interval": median_interval(shares)}
        found.append({"window": plan.window, "batch": batch, "turns": plan.turns, "contenders": summary, "kept": kept})
    return found


#: Spark's own join, by the state store it runs on: settings of its session.
STORES = {
    "Spark's join, RocksDB, format 4": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
        "spark.sql.streaming.join.stateFormatVersion": "4",
    },
    "Spark's join, in-memory store": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.HDFSBackedStateStoreProvider",
        "spark.sql.streaming.join.stateFormatVersion": "2",
    },
}


def run_keyed_join(
    window: int,
    batch: int,
    keys: int,
    *,
    steps: int,
    max_seconds: float,
    seed: int,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> dict:
    """Measures an equality with a band in a time window, by `window_join` and by Spark's own join on each of `STORES`.

    Parameters
    ----------
    window, batch : int
        As of `SparkPlan`.
    keys : int
        Distinct values that are compared for equality; the band leaves 11 of 1,000 values beside it.
    steps : int
        Micro-batches timed, after the one that fills the window.
    max_seconds : float
        A join of Spark's that has spent so long in timed micro-batches takes no further one.
    seed : int
        Every value follows from it.
    on_stage : callable
        As of `run_spark_benchmark`.

    Returns
    -------
    dict
        Ready for JSON: ``contenders`` as of `run_spark_benchmark`, ``pairs_per_row`` and ``micro_batches_compared`` of
        each contender.

    Raises
    ------
    ResultsDiffer, RuntimeError
        As `run_spark_benchmark`.
    """
    workload = Workload(kind="time", window=window, seed=seed)
    queries = {"window_join": _Query(functools.partial(_keyed_window_join, window=window))}
    for name, settings in STORES.items():
        queries[name] = _Query(functools.partial(_keyed_spark_join, window=window), settings, max_seconds)
    stops = [window + step * (batch // 2) for step in range(1 + steps)]

    def rows(side: int, start: int, stop: int) -> dict[str, pa.Array]:
        drawn = workload.rows(side, start, stop)
        value, key = np.divmod(drawn.keys.astype(np.int64), keys)
        return {
            "key": pa.array(key.astype(np.int32)),
            "value": pa.array((value % _VALUES).astype(np.int32)),
            "time": _timestamps(drawn),
        }

    contenders = _measured(queries, "key int, value int", rows, stops, 0, on_stage)
    return {
        "pairs_per_row": statistics.mean(count for count, _ in contenders[0].results[1:]) / batch,
        "micro_batches_compared": {contender.name: len(contender.results) for contender in contenders},
        "contenders": {contender.name: contender.summary(batch) for contender in contenders},
    }


def _measured(
    queries: dict[str, _Query],
    columns: str,
    rows: Callable[[int, int, int], dict[str, pa.Array]],
    stops: list[int],
    warm_up: int,
    on_stage: Callable[[str], None],
) -> list[_Contender]:
    """Runs queries side by side, in a session of their own.

    Parameters
    ----------
    columns : str
        Names and types of what both sides have beside ``id`` and ``time``.
    rows : callable
        Columns of the rows of a side (0 or 1) from one row of the stream to another.
    stops : list of int
        The row of each stream before which each micro-batch ends: the first fills the window, and `warm_up` more are
        not timed.
    """
    from muntin.pyspark_bridge import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as scratch:
        session = _session(Path(scratch))
        contenders: list[_Contender] = []
        try:
            for name, query in queries.items():
                contenders.append(_started(session, name, query, columns, Path(scratch) / f"query{len(contenders)}"))
            _run(contenders, rows, stops, warm_up, Path(scratch), on_stage)
        finally:
            for contender in contenders:
                contender.query.stop()
            session.stop()
    return contenders


def _session(scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("muntin-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")  # a query that fails says why in its error
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


def _started(session: SparkSession, name: str, query: _Query, columns: str, folder: Path) -> _Contender:
    """The running query of a contender, over folders of its own."""
    from pyspark.sql import functions as F

    folders = (folder / "left", folder / "right")
    sides = []
    for side, path in zip("lr", folders, strict=True):
        path.mkdir(parents=True)
        fields = ", ".join(f"{side}_{column.strip()}" for column in f"id bigint, {columns}, time timestamp".split(","))
        sides.append(session.readStream.schema(fields).parquet(str(path)).withWatermark(f"{side}_time", "0 seconds"))
    result = query.make(*sides)
    hashed = F.xxhash64(*(F.col(column) for column in result.columns))
    before = {setting: session.conf.get(setting, None) for setting in query.settings}
    for setting, value in query.settings.items():
        session.conf.set(setting, value)
    try:
        running = (
            result.observe("result", F.count("*").alias("count"), F.bit_xor(hashed).alias("hash"))
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .queryName(f"bench {name}")
            .start()
        )
    finally:
        for setting, old in before.items():
            session.conf.unset(setting) if old is None else session.conf.set(setting, old)
    return _Contender(name=name, folders=folders, query=running, max_seconds=query.max_seconds)


def _workload(plan: SparkPlan) -> Workload:
    return Workload(kind="time", window=plan.window, seed=plan.seed)


def _span(window: int) -> str:
    """So many milliseconds as SQL."""
    return f"INTERVAL '{window // 1000}.{window % 1000:03}' SECOND"


def _window_join(left: DataFrame, right: DataFrame, plan: SparkPlan, state: str | None = None) -> DataFrame:
    from muntin import Band, Within
    from muntin.pyspark_bridge import window_join

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


def _count_window_join(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from muntin import Band, Rows
    from muntin.pyspark_bridge import window_join

    band = Band("l_key", "r_key", *_workload(plan).band)
    return window_join(
        left, right, on=band, left=Rows(plan.window), right=Rows(plan.window), device=plan.device, state=None
    )


def _join_buckets(left: DataFrame, right: DataFrame, plan: SparkPlan) -> DataFrame:
    from pyspark.sql import functions as F

    low, high = _workload(plan).band
    span = _span(plan.window)
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


def _nothing(left: DataFrame, right: DataFrame, plan: SparkPlan, whole: bool = False) -> DataFrame:
    from muntin.pyspark_bridge.tagged_union import tagged_union

    union = tagged_union(left, right)

    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(list(batches)) if whole else batches

    return union.mapInArrow(unchanged, union.schema)


def _keyed_window_join(left: DataFrame, right: DataFrame, window: int) -> DataFrame:
    from muntin import AllOf, Band, Compare, Within
    from muntin.pyspark_bridge import window_join

    span = f"{window} milliseconds"
    return window_join(
        left,
        right,
        on=AllOf(Compare("l_key", "=", "r_key"), Band("l_value", "r_value", -_REACH, _REACH)),
        within=Within("l_time", "r_time", f"-{span}", span),
        state=None,
    )


def _keyed_spark_join(left: DataFrame, right: DataFrame, window: int) -> DataFrame:
    from pyspark.sql import functions as F

    span = _span(window)
    condition = (
        f"l_key = r_key AND r_value BETWEEN l_value - {_REACH} AND l_value + {_REACH} "
        f"AND r_time BETWEEN l_time - {span} AND l_time + {span}"
    )
    return left.join(right, F.expr(condition))


def _run(
    contenders: list[_Contender],
    rows: Callable[[int, int, int], dict[str, pa.Array]],
    stops: list[int],
    warm_up: int,
    scratch: Path,
    on_stage: Callable[[str], None],
) -> None:
    """Hands all micro-batches to all contenders; see `_measured`."""
    start = 0
    for number, stop in enumerate(stops):
        files = [_write(rows(side, start, stop), side, start, scratch / f"data{number}") for side in (0, 1)]
        # Whoever runs first finds cold caches: they take turns.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            if sum(contender.seconds) > contender.max_seconds:
                continue
            what = "filling the window" if number == 0 else f"step {number} of {len(stops) - 1}"
            before = processor_time.by_kind()
            seconds = _step(contender, files, number, 2 * (stop - start))
            if number > warm_up:
                contender.seconds.append(seconds)
                spent = processor_time.by_kind()
                contender.processor.append({kind: of - before.get(kind, 0.0) for kind, of in spent.items()})
            on_stage(f"spark: {what}: {contender.name} {seconds:.2f} s, {2 * (stop - start) / seconds:,.0f} rows/s")
        _compare(contenders, number)
        for path in files:
            path.unlink()
        start = stop


def side_table(batch: Batch, side: int) -> pa.Table:
    """Rows of the left (0) or right (1) stream, as Spark gets them: ids, keys and times in microseconds."""
    return _side_table({"key": pa.array(batch.keys), "time": _timestamps(batch)}, side, batch.first)


def _side_table(columns: dict[str, pa.Array], side: int, first: int) -> pa.Table:
    """Columns with ids from `first` on before them, named for their side."""
    ids = pa.array(np.arange(first, first + len(columns["time"])))
    return pa.table({f"{'lr'[side]}_{name}": column for name, column in {"id": ids, **columns}.items()})


def _timestamps(batch: Batch) -> pa.Array:
    assert batch.times is not None
    return pa.array((batch.times + _EPOCH_MS) * 1000).cast(pa.timestamp("us", tz="UTC"))


def _write(columns: dict[str, pa.Array], side: int, first: int, stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}-{'lr'[side]}.parquet")
    pq.write_table(_side_table(columns, side, first), path)
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
    others = (FLOOR, AT_THE_END, COUNT_WINDOW)
    joins = [contender for contender in contenders if contender.name not in others and len(contender.results) > number]
    for other in joins[1:]:
        if other.results[number] != joins[0].results[number]:
            raise ResultsDiffer(
                f"micro-batch {number}: {joins[0].name} has (pairs, hash) {joins[0].results[number]}, "
                f"{other.name} {other.results[number]}"
            )
