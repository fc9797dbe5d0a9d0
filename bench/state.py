"""What `state=` costs: the share of the rate that is kept with it, and the time to restore a window.

*Rate.* Two joins of the same streams, one with state on a local disk (in the folder that ``TMPDIR`` names) and one
without, get the same micro-batches, in alternating order: in this process, as two queries of a daemon, and as two
streaming queries of Spark. The share is the median over the turns of the one rate over the other in the same turn.
Results are compared by their number of rows (through Spark by a hash of all columns).

*Recovery.* A larger window is filled with state, and its files leave the page cache as far as the system lets them. The
time is that from opening the state to the answer to the next micro-batch, which is empty: in this process, and in a
daemon that has just started.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bench.operator_benchmark import ResultsDiffer
from bench.spark_join import WITH_STATE, run_spark_benchmark, side_table
from bench.spark_plan import SparkPlan
from bench.workloads import Workload
from muntin import Band, JoinSpec, Watermark, WindowJoin, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.daemon.streaming_query import query_place

Tables = tuple[pa.Table, pa.Table]
WITHOUT = "without state"
QUERY = "q"


@dataclass(frozen=True, kw_only=True)
class StatePlan:
    """One run.

    Parameters
    ----------
    window : int
        Rows a side in the window of the rates: its span in milliseconds.
    batch : int
        Rows of both sides in one micro-batch.
    turns, warm_up : int
        Micro-batches timed, and before those.
    recovery_window : int
        Rows a side in the window that is restored.
    spark : bool
        Whether to measure through Spark too.
    seed : int
        Every value follows from it.
    """

    window: int = 1 << 20
    batch: int = 1 << 18
    turns: int = 20
    warm_up: int = 3
    recovery_window: int = 1 << 23
    spark: bool = True
    seed: int = 20


def run_state_benchmark(plan: StatePlan, *, on_stage: Callable[[str], None] = lambda stage: None) -> dict:
    """Measure all of it; ready for JSON.

    Raises
    ------
    ResultsDiffer
        The joins with and without state disagree.
    """
    rates = {}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as scratch:
        on_stage("state: rates in this process")
        rates["in process"] = _in_process(plan, f"{scratch}/process")
        on_stage("state: rates through a daemon")
        rates["daemon"] = _in_daemon(plan, f"{scratch}/daemon")
        if plan.spark:
            spark = SparkPlan(window=plan.window, batch=plan.batch, steps=plan.turns, seed=plan.seed, state=True)
            found = run_spark_benchmark(spark, on_stage=on_stage)["contenders"]
            rates["Spark"] = _compared(found["window_join"]["rates"], found[WITH_STATE]["rates"])
        recovery = _recovery(plan, f"{scratch}/recovery", on_stage)
    return {
        "window": plan.window,
        "batch": plan.batch,
        "turns": plan.turns,
        "rates": rates,
        "recovery": {"window": plan.recovery_window, **recovery},
    }


def _spec(plan: StatePlan, window: int) -> JoinSpec:
    low, high = Workload(kind="time", window=window, seed=plan.seed).band
    return JoinSpec(
        on=Band("l_key", "r_key", low, high),
        within=Within("l_time", "r_time", f"-{window} milliseconds", f"{window} milliseconds"),
        watermark=Watermark(left="0 seconds", right="0 seconds"),
    )


def _tables(plan: StatePlan, window: int, start: int, stop: int) -> Tables:
    workload = Workload(kind="time", window=window, seed=plan.seed)
    left, right = (side_table(workload.rows(side, start, stop), side) for side in (0, 1))
    return left, right


def _in_process(plan: StatePlan, folder: str) -> dict:
    spec = _spec(plan, plan.window)
    left, right = _tables(plan, plan.window, 0, 1)
    schemas = {"left_schema": left.schema, "right_schema": right.schema}
    with (
        WindowJoin.from_spec(spec, **schemas) as without,
        WindowJoin.from_spec(spec, **schemas, state=folder) as kept,
    ):
        return _turns(
            plan,
            lambda number, tables: without.process(*tables, batch=number).num_rows,
            lambda number, tables: kept.process(*tables, batch=number).num_rows,
        )


def _in_daemon(plan: StatePlan, folder: str) -> dict:
    spec = _spec(plan, plan.window)
    schemas = [table.schema for table in _tables(plan, plan.window, 0, 1)]
    with start_private("cpu") as daemon, DaemonClient(daemon.address) as client:
        client.open_query(WITHOUT, spec, *schemas)
        client.open_query(QUERY, spec, *schemas, state=folder)

        def joined(query: str) -> Callable[[int, Tables], int]:
            return lambda number, tables: sum(part.num_rows for part in client.process(query, number, _sent(tables)))

        return _turns(plan, joined(WITHOUT), joined(QUERY))


def _sent(tables: Tables) -> list[tuple[str, pa.RecordBatch]]:
    return [(side, part) for side, table in zip(("left", "right"), tables, strict=True) for part in table.to_batches()]


def _turns(plan: StatePlan, without: Callable[[int, Tables], int], kept: Callable[[int, Tables], int]) -> dict:
    """Gives both the same micro-batches: a window full first, then those that are timed."""
    rows = plan.batch // 2
    filling = -(-plan.window // rows)
    rates: dict[Callable[[int, Tables], int], list[float]] = {without: [], kept: []}
    for number in range(filling + plan.warm_up + plan.turns):
        tables = _tables(plan, plan.window, number * rows, (number + 1) * rows)
        found = {}
        for join in (without, kept) if number % 2 else (kept, without):
            started = time.perf_counter()
            found[join] = join(number, tables)
            if number >= filling + plan.warm_up:
                rates[join].append(2 * rows / (time.perf_counter() - started))
        if found[without] != found[kept]:
            raise ResultsDiffer(f"micro-batch {number}: {found[without]:,} rows without state, {found[kept]:,} with it")
    return _compared(rates[without], rates[kept])


def _compared(without: list[float], kept: list[float]) -> dict:
    shares = sorted(a / b for a, b in zip(kept, without, strict=True))
    return {
        "without": statistics.median(without),
        "with": statistics.median(kept),
        "share": statistics.median(shares),
        "quartiles": [shares[len(shares) // 4], shares[-1 - len(shares) // 4]],
        "rates": {"without": without, "with": kept},
    }


def _recovery(plan: StatePlan, folder: str, on_stage: Callable[[str], None]) -> dict:
    on_stage("state: filling the window that is restored")
    window, rows = plan.recovery_window, max(plan.batch // 2, 1)
    spec, place = _spec(plan, window), query_place(folder, QUERY)
    left, right = _tables(plan, window, 0, 1)
    empty, schemas = (left.slice(0, 0), right.slice(0, 0)), (left.schema, right.schema)
    options = {"left_schema": schemas[0], "right_schema": schemas[1], "state": place}
    with WindowJoin.from_spec(spec, **options) as join:
        for start in range(0, window, rows):
            join.process(*_tables(plan, window, start, min(start + rows, window)))
        stats, number = join.stats, join.last_batch
    found: dict[str, float] = {"state_bytes": stats.state_bytes, "state_files": stats.state_files}
    on_stage("state: restoring it")
    _leave_cache(place)
    started = time.perf_counter()
    with WindowJoin.from_spec(spec, **options) as join:
        join.process(*empty)
        found["in process"] = time.perf_counter() - started
        _check_restored(join.stats.window_left, stats.window_left)
    with ExitStack() as opened:
        daemon = opened.enter_context(start_private("cpu"))
        client = opened.enter_context(DaemonClient(daemon.address))
        client.ping()
        _leave_cache(place)
        started = time.perf_counter()
        client.open_query(QUERY, spec, *schemas, state=folder)
        for _ in client.process(QUERY, number + 2, []):
            raise ResultsDiffer("a micro-batch without rows has a result")
        found["daemon"] = time.perf_counter() - started
        _check_restored(client.status()["queries"][QUERY]["stats"]["window_left"], stats.window_left)
    return found


def _check_restored(rows: int, wanted: int) -> None:
    if rows != wanted:
        raise ResultsDiffer(f"the restored window has {rows:,} left rows, not {wanted:,}")


def _leave_cache(folder: str) -> None:
    """The files were synced, so that the system can drop its copies in memory."""
    for path in Path(folder).iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
