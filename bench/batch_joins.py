"""Batch joins of the same rows: one batch with a large table, by engines that join tables and know no windows."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from bench.contenders import Operator, Pairs, Unavailable
from bench.operator_benchmark import ResultsDiffer
from bench.plan import BatchJoinsPlan
from bench.workloads import BLOCK, Batch, Workload


class BatchJoin(ABC):
    """Joins batches of left rows with one table of right rows, in memory, that stays as it is.

    Parameters
    ----------
    workload : Workload
        Its band is the condition; the table is as large as its window.
    """

    does: str
    """What is timed, in a few words."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @abstractmethod
    def join(self, batch: Batch) -> Pairs:
        """Timed by the caller. The arrays are good until the next call."""

    def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Free what it holds."""

    def _table(self) -> pa.Table:
        return _arrow(self.workload.rows(1, 0, self.workload.window))

    def _limits(self, batch: Batch) -> dict[str, np.ndarray]:
        """Both ends of each row's band, which engines that plan by two inequalities want as columns."""
        low, high = (batch.keys.dtype.type(bound) for bound in self.workload.band)
        return {"low": batch.keys + low, "high": batch.keys + high}


class WindowJoinOnCpu(BatchJoin):
    """The window join, which meets each batch on its left side and keeps it there."""

    does = "window join; stores the batch, too"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._operator = Operator(workload, device="cpu")
        self._none = Batch(first=0, keys=np.empty(0, workload.dtype))
        for at in range(0, workload.window, BLOCK):
            self._operator.load(self._none, workload.rows(1, at, min(workload.window, at + BLOCK)))
        # Its calls number the rows of a side from 0 on, the streams do from the window's size on.
        self._first: int | None = None

    def join(self, batch: Batch) -> Pairs:
        self._first = batch.first if self._first is None else self._first
        pairs = self._operator.step(batch, self._none)
        return Pairs(left=pairs.left + self._first, right=pairs.right)

    def close(self) -> None:
        self._operator.close()


class PolarsStreaming(BatchJoin):
    """Polars' range join: `join_where` with two inequalities, by the streaming engine."""

    does = "join_where, streaming engine; table sorted before"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        rows = self._table().rename_columns(["key", "right"])
        self._window = pl.DataFrame(rows).sort("key").lazy()  # which also marks it as sorted

    def join(self, batch: Batch) -> Pairs:
        rows = {**self._limits(batch), "left": np.arange(batch.first, batch.first + len(batch))}
        conditions = [pl.col("key") >= pl.col("low"), pl.col("key") <= pl.col("high")]
        found = pl.LazyFrame(rows).join_where(self._window, *conditions)
        pairs = found.select("left", "right").collect(engine="streaming")
        return Pairs(left=pairs["left"].to_numpy(), right=pairs["right"].to_numpy())


class ClickHouse(BatchJoin):
    """ClickHouse in this process, by its IE join."""

    does = "IE join"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        try:
            from chdb.session import Session
        except ImportError as error:
            raise Unavailable(f"{error}: pip install 'muntin[clickhouse]' (some 530 MB)") from error
        self._session = Session()
        kind = "Int32" if workload.dtype == np.int32 else "Int64"
        self._session.query(f"CREATE OR REPLACE TABLE big (key {kind}, row Int64) ENGINE = Memory")
        table = self._table()  # chdb finds tables by the names of variables
        self._session.query("INSERT INTO big SELECT key, row FROM Python(table)")
        del table

    def join(self, batch: Batch) -> Pairs:
        small = _arrow(batch).drop(["key"])
        for name, column in self._limits(batch).items():
            small = small.append_column(name, pa.array(column))
        pairs = self._session.query(
            "SELECT small.row AS l, big.row AS r FROM Python(small) AS small JOIN big "
            "ON big.key >= small.low AND big.key <= small.high SETTINGS join_algorithm = 'ie_join'",
            "ArrowTable",
        )
        return Pairs(left=pairs["l"].to_numpy(), right=pairs["r"].to_numpy())

    def close(self) -> None:
        self._session.close()


class DuckDb(BatchJoin):
    """DuckDB, by its IE join."""

    does = "BETWEEN, planned as an IE join"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET enable_progress_bar = false")
        self._connection.register("rows", self._table())
        self._connection.execute("CREATE TABLE big AS SELECT key, row FROM rows")
        self._connection.unregister("rows")

    def join(self, batch: Batch) -> Pairs:
        low, high = self.workload.band
        self._connection.register("small", _arrow(batch))
        pairs = self._connection.sql(
            "SELECT small.row AS l, big.row AS r FROM small JOIN big "
            f"ON big.key BETWEEN small.key + ({low}) AND small.key + ({high})"
        ).to_arrow_table()
        return Pairs(left=pairs["l"].to_numpy(), right=pairs["r"].to_numpy())

    def close(self) -> None:
        self._connection.close()


CONTENDERS: dict[str, type[BatchJoin]] = {
    "cpu": WindowJoinOnCpu,
    "polars": PolarsStreaming,
    "chdb": ClickHouse,
    "duckdb": DuckDb,
}


def run_batch_joins(plan: BatchJoinsPlan, on_stage: Callable[[str], None] = lambda stage: None) -> dict:
    """Times batch joins of the uniform workload in turns, after one call each that is not timed.

    Parameters
    ----------
    plan : BatchJoinsPlan
        What to measure.
    on_stage : callable
        Called with a few words when something new starts.

    Returns
    -------
    dict
        Ready for JSON: ``window``, ``batch``, ``pairs`` of the last batch, ``missing`` (reasons by name) and
        ``contenders``, each with ``ms`` of every call, their ``median`` and what it ``does``.

    Raises
    ------
    ResultsDiffer
        Two contenders found different pairs for the same batch.
    Unavailable
        None of the contenders can run here.
    """
    workload = Workload(kind="uniform", window=plan.window, seed=plan.seed)
    missing: dict[str, str] = {}
    joins: dict[str, BatchJoin] = {}
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for name in plan.contenders:
            on_stage(f"batch joins: loading {plan.window:,} rows into {name}")
            try:
                joins[name] = CONTENDERS[name](workload)
            except Unavailable as error:
                missing[name] = str(error)
                continue
            stack.callback(joins[name].close)
        if not joins:
            raise Unavailable(f"no batch join can run here: {'; '.join(missing.values())}")
        for call in range(plan.calls + 1):
            on_stage(f"batch joins: call {call} of {plan.calls}")
            first = plan.window + call * plan.batch
            batch = workload.rows(0, first, first + plan.batch)
            _ = batch.table  # made here, not while the clock runs
            expected: tuple[int, int] | None = None
            for name in list(joins)[:: 1 if call % 2 else -1]:
                started = time.perf_counter()
                pairs = joins[name].join(batch)
                elapsed = time.perf_counter() - started
                if call:
                    times.setdefault(name, []).append(1e3 * elapsed)
                found = len(pairs), pairs.checksum
                expected = expected or found
                if found != expected:
                    raise ResultsDiffer(
                        f"{name} joins {plan.batch:,} rows from {first:,} with {plan.window:,}: (pairs, checksum) "
                        f"{found}; others had {expected}"
                    )
    assert expected is not None
    return {
        "window": plan.window,
        "batch": plan.batch,
        "pairs": expected[0],
        "missing": missing,
        "contenders": {
            name: {"ms": times[name], "median": statistics.median(times[name]), "does": joins[name].does}
            for name in joins
        },
    }


def _arrow(batch: Batch) -> pa.Table:
    return pa.table({"key": batch.keys, "row": np.arange(batch.first, batch.first + len(batch))})
