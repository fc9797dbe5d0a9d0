"""Polars: `join_where` of each batch with a window kept as a DataFrame."""

from __future__ import annotations

import time

import polars as pl

from bench.contenders.contender import Contender, Pairs
from bench.workloads import Batch, Workload


class PolarsJoinWhere(Contender):
    """Two inequalities in `join_where`, on all cores, by the streaming engine.

    The window is kept sorted by `merge_sorted` and marked so, which `join_where` needs for its fast path.
    Tried and slower at 8 M rows: the in-memory engine (0.3 s a probe of 32 K against 0.03 s), a window in
    arrival order, whose upkeep costs nothing but which the join then sorts every time (0.24 s).
    """

    name = "polars"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._windows: list[pl.DataFrame | None] = [None, None]
        self._newest: list[int | None] = [None, None]
        self._parts = {"probe": 0.0, "insert": 0.0}

    def load(self, left: Batch, right: Batch) -> None:
        for index, batch in enumerate((left, right)):
            self._insert(index, batch)
        self._expire_times()

    def step(self, left: Batch, right: Batch) -> Pairs:
        found = []
        for index, batch in enumerate((left, right)):
            started = time.perf_counter()
            found.append(self._probe(index, batch))
            probed = time.perf_counter()
            self._insert(index, batch)
            self._parts["probe"] += probed - started
            self._parts["insert"] += time.perf_counter() - probed
        self._expire_times()
        both = pl.concat([found[0], found[1].select("left", "right")])
        return Pairs(left=both["left"].to_numpy(), right=both["right"].to_numpy())

    def _frame(self, batch: Batch) -> pl.DataFrame:
        columns = {"key": batch.keys, "row": pl.arange(batch.first, batch.first + len(batch), eager=True)}
        if batch.times is not None:
            columns["time"] = batch.times
        return pl.DataFrame(columns).sort("key", maintain_order=True)

    def _probe(self, index: int, batch: Batch) -> pl.DataFrame:
        low, high = self.workload.band if index == 0 else (-self.workload.band[1], -self.workload.band[0])
        names = ("left", "right") if index == 0 else ("right", "left")
        window = self._windows[1 - index]
        if window is None:
            return pl.DataFrame(schema={"left": pl.Int64, "right": pl.Int64})
        probes = pl.DataFrame(
            {
                "from": batch.keys + batch.keys.dtype.type(low),
                "to": batch.keys + batch.keys.dtype.type(high),
                names[0]: pl.arange(batch.first, batch.first + len(batch), eager=True),
            }
        )
        conditions = [pl.col("key") >= pl.col("from"), pl.col("key") <= pl.col("to")]
        if batch.times is not None:
            probes = probes.with_columns(probe_time=pl.Series(batch.times))
        found = probes.lazy().join_where(window.lazy(), *conditions)
        if batch.times is not None:  # fifteen times faster than two more conditions in join_where
            found = found.filter((pl.col("time") - pl.col("probe_time")).abs() <= self.workload.window)
        return found.select(pl.col(names[0]), pl.col("row").alias(names[1])).collect(engine="streaming")

    def _insert(self, index: int, batch: Batch) -> None:
        grown = self._frame(batch).lazy()
        window = self._windows[index]
        if window is not None:
            grown = window.lazy().merge_sorted(grown, "key")
        if batch.times is not None:
            self._newest[index] = max(int(batch.times.max()), self._newest[index] or 0)
        else:
            grown = grown.filter(pl.col("row") >= batch.first + len(batch) - self.workload.window)
        self._windows[index] = _sorted(grown)

    def _expire_times(self) -> None:
        newest = [each for each in self._newest if each is not None]
        if self.workload.timed and len(newest) == 2:
            late = pl.col("time") < min(newest) - self.workload.window
            kept = (None if each is None else each.lazy().filter(~late) for each in self._windows)
            self._windows = [None if each is None else _sorted(each) for each in kept]

    def parts(self) -> dict[str, float]:
        return dict(self._parts)


def _sorted(window: pl.LazyFrame) -> pl.DataFrame:
    return window.collect(engine="streaming").with_columns(pl.col("key").set_sorted())
