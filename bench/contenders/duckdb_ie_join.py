"""DuckDB: each batch joined with a window table by BETWEEN, which it plans as an IE join."""

from __future__ import annotations

import time

import duckdb
import numpy as np
import pyarrow as pa

from bench.contenders.contender import Contender, Pairs
from bench.workloads import Batch, Workload
from muntin.host.sides import OTHER, SIDES, Side


class DuckDbIeJoin(Contender):
    """One in-memory table per window; INSERT and DELETE keep it, on all cores."""

    name = "duckdb"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET enable_progress_bar = false")
        key = "INTEGER" if workload.dtype == np.int32 else "BIGINT"
        for side in ("left", "right"):
            self._connection.execute(f"CREATE TABLE {side}_window (key {key}, row BIGINT, time BIGINT)")
        self._newest: dict[str, int | None] = {"left": None, "right": None}
        self._parts = {"probe": 0.0, "insert": 0.0}

    def load(self, left: Batch, right: Batch) -> None:
        for side, batch in zip(SIDES, (left, right), strict=True):
            self._insert(side, _arrow(batch))
            self._expire(side, batch)
        self._expire_times()

    def step(self, left: Batch, right: Batch) -> Pairs:
        found = []
        for (side, other), batch in zip(OTHER.items(), (left, right), strict=True):
            started = time.perf_counter()
            rows = _arrow(batch)
            found.append(self._probe(side, other, rows))
            probed = time.perf_counter()
            self._insert(side, rows)
            self._expire(side, batch)
            self._parts["probe"] += probed - started
            self._parts["insert"] += time.perf_counter() - probed
        self._expire_times()
        both = pa.concat_tables(found)
        return Pairs(left=both["left_row"].to_numpy(), right=both["right_row"].to_numpy())

    def _probe(self, side: Side, other: str, rows: pa.Table) -> pa.Table:
        low, high = self.workload.band if side == "left" else (-self.workload.band[1], -self.workload.band[0])
        # The bounds are columns, so that the plan is an IE join over two sorted inputs.
        extra = ""
        if self.workload.timed:
            extra = f"AND w.time BETWEEN b.time - {self.workload.window} AND b.time + {self.workload.window}"
        self._connection.register("batch", rows)
        mine, theirs = ("b.row", "w.row") if side == "left" else ("w.row", "b.row")
        return self._connection.sql(
            f"SELECT {mine} AS left_row, {theirs} AS right_row FROM batch b JOIN {other}_window w "
            f"ON w.key BETWEEN b.key + ({low}) AND b.key + ({high}) {extra}"
        ).to_arrow_table()

    def _insert(self, side: Side, rows: pa.Table) -> None:
        self._connection.register("batch", rows)
        self._connection.execute(f"INSERT INTO {side}_window SELECT key, row, time FROM batch")

    def _expire(self, side: Side, batch: Batch) -> None:
        if batch.times is None:
            oldest = batch.first + len(batch) - self.workload.window
            self._connection.execute(f"DELETE FROM {side}_window WHERE row < {oldest}")
        else:
            self._newest[side] = max(int(batch.times.max()), self._newest[side] or 0)

    def _expire_times(self) -> None:
        newest = [each for each in self._newest.values() if each is not None]
        if self.workload.timed and len(newest) == 2:
            oldest = min(newest) - self.workload.window
            for side in ("left", "right"):
                self._connection.execute(f"DELETE FROM {side}_window WHERE time < {oldest}")

    def parts(self) -> dict[str, float]:
        return dict(self._parts)

    def close(self) -> None:
        self._connection.close()


def _arrow(batch: Batch) -> pa.Table:
    times = batch.times if batch.times is not None else np.zeros(len(batch), np.int64)
    rows = np.arange(batch.first, batch.first + len(batch))
    return pa.table({"key": batch.keys, "row": rows, "time": times})
