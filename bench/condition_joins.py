"""The joins beyond one band, and their peers: equality with a band through Spark, two ranges, outer, as-of, aggregates.

Every figure compares what its contenders found before it counts. Tables are in memory, and what is timed begins and
ends with them.
"""

from __future__ import annotations

import itertools
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from bench import aggregates
from bench.contenders import Pairs, Unavailable
from bench.operator_benchmark import ResultsDiffer
from bench.plan import ConditionsPlan
from bench.workloads import BLOCK, Workload, size
from muntin import AllOf, AsOf, Band, Rows, Watermark, WindowJoin, Within
from muntin.host.errors import MuntinError
from muntin.index import SpoJoin

Stage = Callable[[str], None]
_SPAN = 1 << 20  # of values in ranges
_REACH = int(_SPAN * (1 - 0.9**0.5))  # |x - y| is at most this for a tenth of all pairs of uniform values
_PROBES = 64  # rows, that a peer is tried with first


def run_condition_joins(plan: ConditionsPlan, on_stage: Stage = lambda stage: None) -> Iterator[dict]:
    """Measures one figure after the other.

    Parameters
    ----------
    plan : ConditionsPlan
        What to measure.
    on_stage : callable
        Called with a few words when something new starts.

    Yields
    ------
    dict
        Ready for JSON: ``figure`` (`outer`, `ranges`, `as-of`, `aggregates` or `equality + band`), ``case``,
        ``contenders``, each with the median ``rate`` in rows/s and the ``rates`` it is of, the join itself first, and
        ``missing``, reasons by name. Aggregates have ``points`` instead, as `bench.aggregates.measure` gives them.

    Raises
    ------
    ResultsDiffer
        Two contenders found different rows.
    """
    for kind in ("uniform", "time"):
        yield _outer(plan, kind, on_stage)
    yield _ranges(plan, on_stage)
    for values in plan.as_of_values:
        yield _as_of(plan, values, on_stage)
    on_stage("aggregates")
    peer = "duckdb" not in plan.left_out
    points = aggregates.measure(plan.window, plan.batch, plan.calls // 2, plan.matches, peer=peer)
    yield {"figure": "aggregates", "case": f"{size(plan.window)} rows a side", "points": points}
    for keys in plan.keys:
        yield _equality_and_band(plan, keys, on_stage)


def _summary(rates: list[float]) -> dict[str, Any]:
    return {"rate": statistics.median(rates), "rates": rates}


# Outer joins


def _outer(plan: ConditionsPlan, kind: str, on_stage: Stage) -> dict:
    """Left outer beside inner, of one band, in a window of rows or of time."""
    workload = Workload(kind=kind, window=plan.window, seed=plan.seed)
    windows: dict[str, Any] = {"left": Rows(plan.window), "right": Rows(plan.window)}
    if workload.timed:
        span = f"{plan.window} milliseconds"
        windows = {
            "within": Within("time", "time", f"-{span}", span),
            "watermark": Watermark(left="0 seconds", right="0 seconds", lag=0),
        }
    on = Band("key", "key", *workload.band)
    stops = [
        *range(0, plan.window, BLOCK),
        *range(plan.window, plan.window + (plan.calls + 1) * plan.batch, plan.batch),
    ]
    matched, alone = np.zeros((2, stops[-1]), np.int64)
    rates: dict[str, list[float]] = {"inner": [], "left": []}
    joins = {how: WindowJoin(on=on, how=how, form="pairs", **windows) for how in rates}
    try:
        for start, stop in itertools.pairwise(stops):
            on_stage(f"{kind}, left outer and inner: row {stop:,} of {stops[-1]:,}")
            sides = workload.rows(0, start, stop).table, workload.rows(1, start, stop).table
            found = {}
            for how in list(joins)[:: -1 if start // plan.batch % 2 else 1]:
                started = time.perf_counter()
                found[how] = joins[how].process(*sides)
                if start >= plan.window:
                    rates[how].append(2 * (stop - start) / (time.perf_counter() - started))
            left, right = (found["left"][name].to_numpy() for name in ("left_row", "right_row"))
            there = ~np.isnan(right)
            pairs = {
                "inner": Pairs(
                    left=found["inner"]["left_row"].to_numpy(), right=found["inner"]["right_row"].to_numpy()
                ),
                "left": Pairs(left=left[there], right=right[there].astype(np.int64)),
            }
            _same(f"{kind}, rows {start:,} to {stop:,}", {how: (len(p), p.checksum) for how, p in pairs.items()})
            np.add.at(matched, left[there], 1)
            np.add.at(alone, left[~there], 1)
    finally:
        for join in joins.values():
            join.close()
    if ((matched > 0) & (alone > 0)).any() or alone.max() > 1 or not alone.any():
        raise ResultsDiffer(
            f"{kind}: of the left outer join, rows came out alone that have matched, twice, or not at all"
        )
    return {
        "figure": "outer",
        "case": f"{kind}, {size(plan.window)} rows a side, batches of {size(plan.batch)}",
        "contenders": {"left outer": _summary(rates["left"]), "inner": _summary(rates["inner"])},
        "missing": {},
    }


def _same(where: str, found: dict[str, Any]) -> None:
    """Raises ResultsDiffer where contenders differ from the first."""
    first, *others = found.items()
    for name, result in others:
        if result != first[1]:
            raise ResultsDiffer(f"{where}: {first[0]} has {first[1]}, {name} {result}")


# Two ranges


class _Peer(ABC):
    """Counts, for left rows, the rows of one table in memory that lie in both ranges."""

    @abstractmethod
    def counts(self, probes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Rows that match, by their ``row``, and how many right rows each does: two arrays of one length."""

    def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Free what it holds."""


_CONDITION = " AND ".join(f"r.{x} >= l.{x} - {_REACH} AND r.{x} <= l.{x} + {_REACH}" for x in "xy")


class _DuckDb(_Peer):
    def __init__(self, table: pa.Table) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET enable_progress_bar = false")
        self._connection.register("given", table)
        self._connection.execute("CREATE TABLE r AS SELECT x, y FROM given")

    def counts(self, probes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        self._connection.register("l", probes)
        query = f"SELECT l.row, count(*) AS matches FROM l JOIN r ON {_CONDITION} GROUP BY l.row"
        found = self._connection.sql(query).to_arrow_table()
        return found["row"].to_numpy(), found["matches"].to_numpy()

    def close(self) -> None:
        self._connection.close()


class _Polars(_Peer):
    def __init__(self, table: pa.Table) -> None:
        self._window = pl.DataFrame(table.select(["x", "y"])).sort("x").lazy()  # which also marks it as sorted

    def counts(self, probes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        limits = {f"{x}_{end}": pl.col(x) + by for x in "xy" for end, by in (("low", -_REACH), ("high", _REACH))}
        left = pl.DataFrame(probes).lazy().select("row", **limits)
        inside = [test for x in "xy" for test in (pl.col(x) >= pl.col(f"{x}_low"), pl.col(x) <= pl.col(f"{x}_high"))]
        found = left.join_where(self._window, *inside).group_by("row").len().collect(engine="streaming")
        return found["row"].to_numpy(), found["len"].to_numpy()


class _ClickHouse(_Peer):
    def __init__(self, table: pa.Table) -> None:
        try:
            from chdb.session import Session
        except ImportError as error:
            raise Unavailable(f"{error}: pip install 'muntin[clickhouse]' (some 530 MB)") from error
        self._session = Session()
        self._session.query("CREATE OR REPLACE TABLE r (x Int32, y Int32) ENGINE = Memory")
        self._session.query("INSERT INTO r SELECT x, y FROM Python(table)")  # a table by the name of its variable

    def counts(self, probes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        found = self._session.query(
            f"SELECT l.row AS row, count() AS matches FROM Python(probes) AS l JOIN r ON {_CONDITION} GROUP BY l.row "
            "SETTINGS join_algorithm = 'ie_join'",
            "ArrowTable",
        )
        return found["row"].to_numpy(), found["matches"].to_numpy()

    def close(self) -> None:
        self._session.close()


_PEERS: dict[str, Callable[[pa.Table], _Peer]] = {"duckdb": _DuckDb, "polars": _Polars, "chdb": _ClickHouse}


def _ranges(plan: ConditionsPlan, on_stage: Stage) -> dict:
    """Two ranges of a tenth of all rows each: left rows probe a window of right rows, and are stored."""
    random = np.random.default_rng(plan.seed)

    def drawn(rows: int) -> pa.Table:
        return pa.table({name: random.integers(0, _SPAN, rows, dtype=np.int32) for name in "xy"})

    stored = drawn(plan.window + plan.window // 20)  # so that an index by subwindows has a young one, too
    probes = [drawn(plan.range_batch) for _ in range(plan.calls)]
    on = AllOf(*(Band(name, name, -_REACH, _REACH) for name in "xy"))
    seconds: dict[str, list[float]] = {}
    expected: list[np.ndarray] = []
    for name, index in (("SpoJoin", SpoJoin()), ("one range, then a filter", "auto")):
        on_stage(f"two ranges: {name}")
        seconds[name] = []
        with WindowJoin(
            on=on, left=Rows(plan.window), right=Rows(plan.window), form="counts", index=index,
            left_schema=stored.schema, right_schema=stored.schema,
        ) as join:  # fmt: skip
            for at in range(0, len(stored), BLOCK):
                join.process(right=stored.slice(at, BLOCK))
            for call, batch in enumerate(probes):
                started = time.perf_counter()
                found = join.process(batch)
                seconds[name].append(time.perf_counter() - started)
                counts = found["matches"].to_numpy()[np.argsort(found["row"].to_numpy())]
                if call == len(expected):
                    expected.append(counts)
                elif not np.array_equal(counts, expected[call]):
                    raise ResultsDiffer(
                        f"two ranges, call {call}: {name} {counts.sum():,}, others {expected[call].sum():,}"
                    )
                if sum(seconds[name]) > plan.seconds:
                    break
    contenders = {name: _summary([plan.range_batch / each for each in found]) for name, found in seconds.items()}
    missing: dict[str, str] = {}
    for name, kind in _PEERS.items():
        if name in plan.left_out:
            continue
        on_stage(f"two ranges: {name}")
        try:
            peer = kind(stored.slice(plan.window // 20))
        except Unavailable as error:
            missing[name] = str(error)
            continue
        try:
            contenders[name] = _tried(name, peer, probes[0], expected[0], plan.seconds)
        finally:
            peer.close()
    return {
        "figure": "ranges",
        "case": f"{size(plan.window)} right rows, {expected[0].mean():,.0f} matches a row, counted",
        "contenders": contenders,
        "missing": missing,
    }


def _tried(name: str, peer: _Peer, probes: pa.Table, expected: np.ndarray, seconds: float) -> dict[str, Any]:
    """The rate of the largest part of the probes that takes a peer no longer than it may, each four times as large."""
    rows, spent = min(_PROBES, len(probes)), 0.0
    while True:
        part = probes.slice(0, rows).append_column("row", pa.array(np.arange(rows)))
        started = time.perf_counter()
        found, matches = peer.counts(part)
        took = time.perf_counter() - started
        counts = np.zeros(rows, np.int64)
        counts[found] = matches
        if not np.array_equal(counts, expected[:rows]):
            raise ResultsDiffer(
                f"two ranges, {rows} rows: {name} counts {counts.sum():,} matches, the join {expected[:rows].sum():,}"
            )
        spent += took
        if rows == len(probes) or spent + 4 * took > seconds:
            return {**_summary([rows / took]), "probing_rows": rows}
        rows = min(4 * rows, len(probes))


# As-of joins


def _as_of(plan: ConditionsPlan, values: int, on_stage: Stage) -> dict:
    """Both sides in order of time, as batch as-of joins have them; `values` of what is equal, 1 for none."""
    random = np.random.default_rng(plan.seed)

    def drawn(name: str) -> pa.Table:
        times = np.cumsum(random.integers(1, 8, plan.as_of_rows))  # of no two rows: engines differ in which they take
        columns = {"t": times, "k": random.integers(0, values, len(times), dtype=np.int32)}
        return pa.table({**columns, name: np.arange(len(times)), f"{name}_value": random.normal(size=len(times))})

    left, right = drawn("l"), drawn("r")
    names = ["t", "k", "l", "l_value", "r", "r_value"]
    makers = {"streamed": _as_of_streamed, "polars": _as_of_polars, "duckdb": _as_of_duckdb}
    rates: dict[str, list[float]] = {name: [] for name in makers if name not in plan.left_out}
    for turn in range(plan.turns):
        found = {}
        for name in list(rates)[:: -1 if turn % 2 else 1]:
            on_stage(f"as-of, {values:,} values: {name}, turn {turn + 1} of {plan.turns}")
            told = _Found()
            rates[name].append(
                (len(left) + len(right)) / makers[name](left, right, names, values, plan.as_of_batch, told)
            )
            found[name] = told.pairs, told.checksum % (1 << 64), round(told.sum, 3)
        _same(f"as-of, {values:,} values, turn {turn}: (pairs, checksum, sum)", found)
    what = f"{values:,} values of k" if values > 1 else "by time alone"
    return {
        "figure": "as-of",
        "case": f"{what}, {size(plan.as_of_rows)} rows a side, batches of {size(plan.as_of_batch)}",
        "contenders": {name: _summary(found) for name, found in rates.items()},
        "missing": {},
    }


class _Found:
    """What an as-of join has found, in any order."""

    pairs, checksum, sum = 0, 0, 0.0

    def take(self, table: pa.Table) -> None:
        """Adds a part of the result, which may then go."""
        pairs = Pairs(left=table["l"].to_numpy(), right=table["r"].to_numpy())
        self.pairs += len(pairs)
        self.checksum += pairs.checksum
        self.sum += float(np.sum(table["r_value"].to_numpy()))


def _as_of_streamed(left: pa.Table, right: pa.Table, names: list[str], values: int, batch: int, found: _Found) -> float:
    """Seconds; each call's result is looked at and dropped before the next."""
    by = ["k"] if values > 1 else []
    took = 0.0
    with WindowJoin(on=AsOf("t", "t", by=by), watermark=Watermark(left=0, right=0, lag=0), select=names) as join:
        for at in range(0, len(left) + batch, batch):
            sides = left.slice(at, batch), right.slice(at, batch)
            started = time.perf_counter()
            table = join.process(*sides) if at < len(left) else join.finish()
            took += time.perf_counter() - started
            found.take(table)
    return took


def _as_of_polars(left: pa.Table, right: pa.Table, names: list[str], values: int, batch: int, found: _Found) -> float:
    # Marked as sorted, which spares a look at them.
    frames = [pl.DataFrame(table).with_columns(pl.col("t").set_sorted()) for table in (left, right)]
    by = "k" if values > 1 else None
    if by is None:
        frames[1] = frames[1].drop("k")
    started = time.perf_counter()
    table = frames[0].join_asof(frames[1], on="t", by=by, check_sortedness=False).drop_nulls("r").select(names)
    took = time.perf_counter() - started
    found.take(table.to_arrow())
    return took


def _as_of_duckdb(left: pa.Table, right: pa.Table, names: list[str], values: int, batch: int, found: _Found) -> float:
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        for side, table in (("l", left), ("r", right)):
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {side} AS SELECT * FROM given")
        equal = "l.k = r.k AND " if values > 1 else ""
        started = time.perf_counter()
        table = connection.sql(
            f"SELECT l.t, l.k, l.l, l.l_value, r.r, r.r_value FROM l ASOF JOIN r ON {equal}l.t >= r.t"
        ).to_arrow_table()
        took = time.perf_counter() - started
    found.take(table)
    return took


# Equality and band through Spark


def _equality_and_band(plan: ConditionsPlan, keys: int, on_stage: Stage) -> dict:
    # A power of two of rows, so that its name says it exactly.
    window = min(plan.window, 1 << (plan.rows_a_key * keys).bit_length() - 1)
    micro_batch = min(plan.micro_batch, window // 2)
    found: dict[str, Any] = {
        "figure": "equality + band",
        "case": f"{keys:,} keys, {size(window)} rows a side, micro-batches of {size(micro_batch)}",
        "contenders": {},
        "missing": {},
    }
    if "spark" in plan.left_out:
        return {**found, "missing": {"spark": "--without spark"}}
    try:
        import pyspark  # noqa: F401 - whether it is there

        from muntin.pyspark_bridge import ensure_java

        ensure_java()
    except (ImportError, MuntinError) as error:
        return {**found, "missing": {"spark": str(error)}}
    from bench.spark_join import run_keyed_join

    on_stage(f"equality + band, {keys:,} keys: starting three queries")
    return found | run_keyed_join(
        window,
        micro_batch,
        keys,
        steps=plan.steps,
        max_seconds=plan.spark_seconds,
        seed=plan.seed,
        on_stage=on_stage,
    )
