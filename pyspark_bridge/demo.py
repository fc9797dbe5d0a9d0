"""`make demo`: a Spark job that joins two streams, shows how it goes, and checks every pair of the result."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.host import arguments
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.errors import MuntinError, SchemaError
from muntin.host.files import TableReader, in_turns, interleave
from muntin.host.join import WindowJoin
from muntin.host.predicates import AllOf, Band, Compare
from muntin.host.progress import Progress
from muntin.host.sides import Side
from muntin.host.spec import JoinSpec
from muntin.host.windows import Rows
from muntin.pyspark_bridge.demo_oracle import ARRIVAL, check_result
from muntin.pyspark_bridge.demo_streams import demo_streams
from muntin.pyspark_bridge.java_runtime import ensure_java
from muntin.pyspark_bridge.listener import BatchProgress, listen
from muntin.pyspark_bridge.loopback_cluster import LoopbackCluster
from muntin.pyspark_bridge.window_join import window_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_SECONDS = 0.5
MAX_LINES = 10
#: Spark reads files in the order of their modification times, which lie one second apart.
FIRST_FILE_TIME = 1_600_000_000


@dataclass
class Streams:
    """Both inputs as folders of parquet files, one a micro-batch."""

    left: Path
    right: Path
    schemas: tuple[pa.Schema, pa.Schema]
    rows: tuple[int, int]
    batches: int


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--rows", type=int, help="Rows of each generated stream.  [default: 600000; in simulation 4000]")
@click.option("--seed", default=1, show_default=True, help="Of the generated streams.")
@click.option("--left", "left_file", type=click.Path(path_type=Path, exists=True), help="A file instead of orders.")
@click.option("--right", "right_file", type=click.Path(path_type=Path, exists=True), help="A file instead of quotes.")
@click.option(
    "--on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='In SQL, such as "price BETWEEN limit - 2 AND limit + 3"; given again: and.',
)
@click.option("--left-rows", type=int, help="Window of the left side: its last N rows.  [default: rows / 10]")
@click.option("--right-rows", type=int, help="Window of the right side: its last N rows.  [default: rows / 5]")
@click.option("--within", metavar="L_TIME,R_TIME,LOW,HIGH", help="A time window instead.")
@click.option("--sequence", metavar="COLUMN", help="Order of arrival over both files; by turns without it.")
@click.option("--device", default="cpu", show_default=True, help="As `muntin devices` lists them.")
@click.option(
    "--batch-rows", type=int, help="Rows of a side in a micro-batch, on average.  [default: 300000; in simulation 1000]"
)
@click.option(
    "--cluster",
    is_flag=True,
    help="A Spark standalone cluster on loopback, of which an executor is killed; two daemons, four partitions.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder to leave the inputs and the result in.")
def main(
    rows: int | None,
    seed: int,
    left_file: Path | None,
    right_file: Path | None,
    conditions: tuple[str, ...],
    left_rows: int | None,
    right_rows: int | None,
    within: str | None,
    sequence: str | None,
    device: str,
    batch_rows: int | None,
    cluster: bool,
    keep: Path | None,
) -> None:
    """Join two streams with Spark, and check the whole result against DuckDB.

    The streams are orders and quotes, generated with a seed, unless --left and --right name files (parquet, CSV
    or Arrow). Ends with status 1 where one pair is missing, wrong or doubled.
    """
    if (left_file is None) != (right_file is None):
        raise click.UsageError("--left and --right go together")
    if left_file is not None and not conditions:
        raise click.UsageError("--left and --right need --on, the condition on their columns")
    if within is not None and (left_rows is not None or right_rows is not None):
        raise click.UsageError("give --within, or --left-rows and --right-rows")
    simulated = device.partition(":")[0] == "sim"
    rows = rows or (4_000 if simulated else 200_000 if cluster else 600_000)
    batch_rows = batch_rows or (1_000 if simulated else 20_000 if cluster else 300_000)
    band = Band("limit", "price", -2, 3)
    # Equal sizes make the partitions; the band is wider, as fewer pairs have one size.
    default = AllOf(Compare("quantity", "=", "size"), Band("limit", "price", -1000, 1500)) if cluster else band
    folder = keep or Path(tempfile.mkdtemp(prefix="muntin-demo-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise click.UsageError(f"--keep: {folder} is not empty")
        if left_file is None or right_file is None:
            calls: Iterator[Any] = demo_streams(rows, batch_rows, seed)
            print(f"streams: orders and quotes, {rows:,} rows each, seed {seed}", flush=True)
        else:
            calls = _calls_of_files(left_file, right_file, sequence, batch_rows)
            print(f"streams: {left_file} and {right_file}", flush=True)
        streams = _write_streams(calls, folder)
        spec = JoinSpec(
            on=arguments.condition(conditions, (), *streams.schemas, windowed=True)[0] if conditions else default,
            left=None if within else Rows(left_rows or max(rows // 10, 1)),
            right=None if within else Rows(right_rows or max(rows // 5, 1)),
            within=arguments.within(within),
            sequence=ARRIVAL,
        )
        correct = _run(spec, streams, device, folder, cluster=cluster)
    except MuntinError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if correct else 1)


def _calls_of_files(left: Path, right: Path, sequence: str | None, batch_rows: int) -> Iterator[Any]:
    """The files' rows in batches, with the column `ARRIVAL`."""
    readers = TableReader(left, batch_rows), TableReader(right, batch_rows)
    for reader in readers:
        if ARRIVAL in reader.schema.names:
            raise SchemaError(f"{reader.path} has a column {ARRIVAL!r}, which the demo adds; rename it")
        if sequence is not None and sequence not in reader.schema.names:
            raise SchemaError(f"{reader.path} has no column {sequence!r}: it has {', '.join(reader.schema.names)}")
    position = 0
    for tables in interleave(*readers, sequence) if sequence else in_turns(*readers):
        filled = [
            table if table is not None else reader.schema.empty_table()
            for table, reader in zip(tables, readers, strict=True)
        ]
        arrivals = _arrivals(filled, sequence, position)
        position += sum(map(len, filled))
        yield tuple(
            table.add_column(0, ARRIVAL, pa.array(arrival)) for table, arrival in zip(filled, arrivals, strict=True)
        )


def _arrivals(tables: list[pa.Table], sequence: str | None, first: int) -> list[Any]:
    """Positions over both streams: by the sequence, left first where it is equal; without one all left rows first."""
    import numpy as np

    sizes = [len(table) for table in tables]
    if sequence is None:
        order = np.arange(sum(sizes))
    else:
        merged = pa.chunked_array(
            [chunk for table in tables for chunk in table[sequence].chunks], tables[0][sequence].type
        )
        order = np.argsort(merged.to_numpy(), kind="stable")
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(first, first + len(order))
    return [positions[: sizes[0]], positions[sizes[0] :]]


def _write_streams(calls: Iterator[Any], folder: Path) -> Streams:
    """Write each call's rows as one file a side, in the order in which Spark shall read them."""
    places = folder / "left", folder / "right"
    for place in places:
        place.mkdir()
    counts = [0, 0]
    schemas: list[pa.Schema] = []
    number = -1
    for number, tables in enumerate(calls):
        schemas = [table.schema for table in tables]
        for side, (place, table) in enumerate(zip(places, tables, strict=True)):
            path = place / f"{number:06d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (FIRST_FILE_TIME + number, FIRST_FILE_TIME + number))
            counts[side] += len(table)
    if number < 0:
        raise SchemaError("both files are empty: there is nothing to join")
    return Streams(*places, (schemas[0], schemas[1]), (counts[0], counts[1]), number + 1)


def _run(spec: JoinSpec, streams: Streams, device: str, folder: Path, *, cluster: bool) -> bool:
    total = sum(streams.rows)
    result = folder / "result"
    result.mkdir()
    if device.partition(":")[0] == "sim":
        # A board is compiled on first use: here, where one sees how far that is.
        left, right = streams.schemas
        WindowJoin.from_spec(spec, device=device, left_schema=left, right_schema=right).close()
    with ExitStack() as opened:
        daemons = [opened.enter_context(start_private(device)) for _ in range(2 if cluster else 1)]
        clients = [opened.enter_context(DaemonClient(daemon.address)) for daemon in daemons]
        print(f"device:  {clients[0].ping()['device']}", flush=True)
        print(
            f"join:    {spec.on}, {spec.within or f'windows of {spec.left.count:,} and {spec.right.count:,} rows'}",
            flush=True,
        )
        machines = None
        if cluster:
            print("cluster: a master and two workers start", flush=True)
            machines = opened.enter_context(LoopbackCluster(folder))
        print("Spark starts (about ten seconds)", flush=True)
        with _session(folder, "local[*]" if machines is None else machines.master) as spark:
            matches = window_join(
                _stream(spark, streams.left),
                _stream(spark, streams.right),
                spec.on,
                left=spec.left,
                right=spec.right,
                within=spec.within,
                sequence=spec.sequence,
                daemon=[daemon.address for daemon in daemons],
                partitions=4 if cluster else 1,
                state=None,
            )
            listener = listen(spark)
            started = time.monotonic()
            query = (
                matches.writeStream.format("parquet")
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(result))
            )
            try:
                _watch(query, clients, total, machines)
                seconds = time.monotonic() - started
                stats = _stats(clients)
                if query.lastProgress is not None:
                    listener.of(query.lastProgress)
            finally:
                listener.stop()
    for line in _lines(listener.recent, query.id):
        print(line)
    print(f"joined:  {streams.rows[0]:,} left and {streams.rows[1]:,} right rows in {streams.batches} micro-batches")
    print(f"         {stats['matches']:,} matches, {seconds:.1f} s, {total / seconds:,.0f} rows/s")
    print(f"         device memory {stats['device_bytes']:,} bytes, rows kept for output {stats['row_bytes']:,} bytes")
    print("check:   DuckDB joins the same files and every row is compared", flush=True)
    started = time.monotonic()
    verdict = check_result(spec, streams.left, streams.right, result, streams.schemas, folder)
    seconds = time.monotonic() - started
    if verdict.missing or verdict.extra:
        print(f"WRONG:   of {verdict.rows:,} rows {verdict.missing:,} are missing, and {verdict.extra:,} are too many")
        for example in verdict.examples:
            print(f"         {example}")
        return False
    print(f"correct: all {verdict.rows:,} rows are the oracle's, none missing, none doubled ({seconds:.1f} s)")
    return True


def _lines(heard: Sequence[BatchProgress], query: str) -> Iterator[str]:
    """A table of the newest micro-batches of a query."""
    yield "         Spark's StreamingQueryProgress                                    | the daemon's figures"
    yield _LINE.format(
        "batch", "rows", "rows/s", "ms", "plan", "input", "add", "log", "join ms", "left window", "right window"
    )
    for each in [each for each in heard if str(each.progress.id) == query][-MAX_LINES:]:
        phases = each.progress.durationMs
        yield _LINE.format(
            each.progress.batchId,
            f"{each.progress.numInputRows:,}",
            f"{each.progress.processedRowsPerSecond:,.0f}",
            *(f"{sum(phases.get(name, 0) for name in names):,}" for names in _PHASES),
            f"{1000 * sum(sum(join.steps.values()) for join in each.joins):,.0f}",
            *(_window(vars(join), side) for join in each.joins for side in ("left", "right")),
        )


def _window(stats: dict[str, Any], side: Side) -> str:
    fill = stats[f"fill_{side}"]
    return f"{stats[f'window_{side}']:,} rows" if fill is None else f"{fill:.0%}"


_LINE = "{:>14} {:>9} {:>9} {:>7} {:>5} {:>6} {:>7} {:>5} | {:>7} {:>12} {:>12}"
#: Durations of `StreamingQueryProgress`: the whole micro-batch, planning, finding and reading input, running it (with
#: the join), and the logs of the checkpoint.
_PHASES = (
    ("triggerExecution",),
    ("queryPlanning",),
    ("latestOffset", "getBatch"),
    ("addBatch",),
    ("walCommit", "commitOffsets", "commitBatch"),
)


@contextmanager
def _session(folder: Path, master: str) -> Iterator[SparkSession]:
    """A Spark session of the demo's own, on all cores."""
    # Workers run on this interpreter, whatever python3 is on the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ensure_java()
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(master)
        .appName("muntin demo")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _stream(spark: SparkSession, place: Path) -> DataFrame:
    schema = spark.read.parquet(str(place)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(place))


def _stats(clients: Sequence[DaemonClient]) -> dict[str, Any]:
    """What the windows in all daemons have in them together."""
    found = [query["stats"] for client in clients for query in client.status()["queries"].values()]
    total = dict(found[0]) if found else {}
    # Each partition of a count window knows of all rows that have arrived.
    own = [] if total.get("fill_left") is not None else ["rows_left", "rows_right", "window_left", "window_right"]
    for stats in found[1:]:
        for name in ("matches", "device_bytes", "row_bytes", *own):
            total[name] += stats[name]
    return total


def _watch(query: Any, clients: Sequence[DaemonClient], total: int, machines: LoopbackCluster | None) -> None:
    """Show rows, windows and matches until the query ends; raise what ended it.

    An executor of the cluster is killed once the first micro-batch is done.
    """
    seen = 0
    killed = machines is None
    with Progress("join", total, file=sys.stdout) as progress:
        while True:
            try:
                ended = query.awaitTermination(POLL_SECONDS)
            except Exception as error:
                # Spark's message holds the plan and two stack traces; the worker's own error is one line of it.
                cause = re.search(r"^muntin\.host\.errors\.(\w+: .*)$", str(error), re.MULTILINE)
                if cause is None:
                    raise
                raise MuntinError(f"the Spark query failed: {cause[1]}") from error
            if machines is not None and not killed and query.recentProgress:
                killed = True
                print(f"cluster: executor {machines.kill_executor()} is killed", flush=True)
            stats = _stats(clients)
            if stats:
                rows = stats["rows_left"] + stats["rows_right"]
                fill = {f"{side} window": _window(stats, side) for side in ("left", "right")}
                progress.advance(rows - seen, matches=f"{stats['matches']:,}", **fill)
                seen = rows
            if ended:
                if not killed:
                    raise MuntinError("the query ended before an executor could be killed: give more --rows")
                return


if __name__ == "__main__":
    main()
