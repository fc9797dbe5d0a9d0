"""PanJoin, Fig. 15: its manager and workers, on `clusters.Manager`; and what workers are sent that are processes.

Workers are partitions of one process: rates are rows a second of processor time, of all threads; the work and the bytes
of each worker are exact. A window of left rows is full, and right rows probe it and are stored.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders.contender import Unavailable
from bench.papers.clusters import Manager, Processes
from bench.papers.figure import Figure, Scale, measured
from bench.papers.splitjoin import handshake
from muntin import JoinSpec, Watermark, Within
from muntin.host.index import BiSort, Index, RapTable, WibTree
from muntin.host.native import _core
from muntin.host.predicates import Band
from muntin.host.windows import Rows

RAP, WIB, BISORT = "RaP-Table", "WiB+-Tree", "BI-Sort"
STRUCTURES = (RAP, WIB, BISORT)
TURNS = 3
WORKERS = 16
_HANDSHAKE_ROWS = 1 << 14  # its windows are filled by joining, so that longer ones take too long
NOTE = "Workers are threads of one process: M rows/s of processor time, of all threads; bytes are exact."


class Cluster:
    """A manager with workers whose left window is full of even keys; rows of the right one match none of them at first.

    Parameters
    ----------
    structure : str
    workers, window : int
        Window is rows of each side.
    matches : float
        Left rows that a right one meets, on the mean; below 2, equal keys alone.
    form : str
        Of the result: as of `WindowJoin`.
    mirror : bool
        Whether the manager makes pairs of ranges.
    """

    def __init__(
        self, structure: str, workers: int, window: int, matches: float, form: str = "pairs", *, mirror: bool = False
    ):
        self._rng = np.random.default_rng(window)
        self._window = window
        self._step = (1 << 31) // window  # as many different keys as rows: an equal one matches one row on the mean
        reach = int(matches) // 2 * self._step
        schema = pa.schema([("k", pa.int32()), ("s", pa.int64())])
        share = -(-window // workers)  # one subwindow a worker, as the paper has it
        index: Index = {
            RAP: RapTable(partitions=max(share // 128, 1), subwindow_rows=share),
            WIB: WibTree(subwindow_rows=share),
            BISORT: BiSort(),
        }[structure]
        self.manager = Manager(
            workers, schema, schema, subwindow_rows=share, max_rows=1 << 16, on=Band("k", "k", -reach, reach),
            left=Rows(window), right=Rows(window), index=index, form=form, sequence="s" if form == "ranges" else None,
            mirror=mirror,
        )  # fmt: skip
        self._arrived = 0
        for side in (0, 1):
            for start in range(0, window, 1 << 16):
                self._push(side, self._keys(min(1 << 16, window - start)) - side * (1 << 31))
        self.manager.flush()

    def _keys(self, rows: int) -> np.ndarray:
        return self._rng.integers(0, self._window, rows) * self._step

    def _push(self, side: int, keys: np.ndarray) -> int:
        numbers = np.arange(self._arrived, self._arrived + len(keys))
        self._arrived += len(keys)
        table = pa.table({"k": keys.astype(np.int32), "s": numbers})
        return sum(map(len, self.manager.push(*((table, None) if side == 0 else (None, table)))))

    def probe(self, batch: int, seconds: float) -> tuple[float, int, list[dict[str, int]]]:
        """Right rows in batches of so many, one at least: rows a second, results of a batch, and what each worker did
        for one."""
        before = self._work()
        rows, found, start, own = 0, 0, time.perf_counter(), time.process_time()
        while not rows or time.perf_counter() - start < seconds:
            found += self._push(1, self._keys(batch))
            rows += batch
            found += sum(map(len, self.manager.flush()))
        spent, done = time.process_time() - own, rows // batch
        names = ("rows_left", "rows_right", "probes_left", "probes_right", "sent_bytes", "found_bytes")
        after = self._work()
        work = [{name: (b[name] - a[name]) // done for name in names} for a, b in zip(before, after, strict=True)]
        return rows / spent, found // done, work

    def _work(self) -> list[dict[str, int]]:
        return self.manager.workers if self.manager.join.stats.engine.get("partitions") else []


def window_of(scale: Scale, power: int) -> int:
    """Rows of a side; the paper has 8 M to 1 G."""
    return 1 << (11 if scale.quick else power - scale.smaller)


def batch_of(matches: int, scale: Scale) -> int:
    """Right rows of a batch, whose pairs fit the memory at ease."""
    return min(1 << (8 if scale.quick else 13), (1 << 22) // max(matches, 1))


def _matches(scale: Scale, most: int) -> list[int]:
    return [m for m in ([1, 16, 64] if scale.quick else [1, 16, 256, 1024, 4096]) if m <= most]


def form_of(structure: str) -> str:
    """As the paper has it: BI-Sort sends where a probe's rows start and end, the others copy them."""
    return "ranges" if structure == BISORT else "pairs"


class Clusters:
    """The clusters of a figure, each opened when it is first asked; and what each did for a batch."""

    def __init__(self, scale: Scale):
        self._scale = scale
        self._open: dict[tuple[Any, ...], Cluster] = {}
        self.work: dict[Any, dict[str, int]] = {}

    def turns(self, key: Any, batch: int, *given: Any, **options: Any) -> Callable[[], float]:
        """What gives at each turn the M rows a second of a cluster made of `given`."""

        def turn() -> float:
            name = (*given, *options.items())
            if name not in self._open:
                self._open[name] = Cluster(*given, **options)
            rate, found, work = self._open[name].probe(batch, self._scale.seconds / TURNS)
            self.work[key] = {name: sum(each[name] for each in work) for name in (work[0] if work else ())}
            self.work[key] |= {"found": found, "batch": batch}
            return rate / 1e6

        return turn

    def close(self) -> None:
        """Ends all workers."""
        for cluster in self._open.values():
            cluster.manager.close()


def _run(
    scale: Scale, asked: dict[tuple[str, Any], tuple[Any, ...]], others: dict[tuple[str, Any], Callable[[], float]]
) -> list[dict[str, Any]]:
    """Points of clusters, each with its batch and what it is made of, and of others; all take turns."""
    clusters = Clusters(scale)
    contenders = {key: clusters.turns(key, given[0], *given[1:6], mirror=given[6]) for key, given in asked.items()}
    try:
        found = measured({**contenders, **others}, TURNS)
    finally:
        clusters.close()
    return [{**point, **clusters.work.get((point["series"], point["x"]), {})} for point in found]


def _figure(number: str, title: str, x: str, found: list[dict[str, Any]], note: str) -> Figure:
    return Figure(
        "PanJoin", number, title, "", x, "M rows/s", found, log_x=True, log_y=True, note=f"{note} {NOTE} {TURNS} turns."
    )


def by_batch(number: str, scale: Scale) -> Figure:
    """Fig. 15a: equi-join, one match a probe."""
    window = window_of(scale, 21)
    batches = [1 << at for at in ((8, 10) if scale.quick else (10, 13, 16, 19))]
    asked = {
        (name, batch): (batch, name, WORKERS, window, 1, form_of(name), False)
        for batch in batches for name in STRUCTURES
    }  # fmt: skip
    note = f"Windows of {window:,} rows a side."
    return _figure(number, f"equi-join by batch, {WORKERS} workers", "batch rows", _run(scale, asked, {}), note)


@functools.cache
def _by_matches(scale: Scale) -> list[dict[str, Any]]:
    window = window_of(scale, 18)
    series = [(name, name, form_of(name), False) for name in STRUCTURES]
    series.append((f"{BISORT}, with the mirror", BISORT, "ranges", True))
    asked = {
        (label, matches): (batch_of(matches, scale), name, WORKERS, window, matches, form, mirror)
        for matches in _matches(scale, 1024) for label, name, form, mirror in series
    }  # fmt: skip
    return _run(scale, asked, {})


def by_matches(number: str, scale: Scale) -> Figure:
    """Fig. 15b: non-equi-join."""
    note = (
        f"Windows of {window_of(scale, 18):,} rows a side. BI-Sort's workers send ranges; the mirror of the manager, "
        "which makes pairs of them, is apart."
    )
    return _figure(number, f"non-equi-join by matches, {WORKERS} workers", "matches", _by_matches(scale), note)


def receiving(number: str, scale: Scale) -> Figure:
    """Fig. 15c: the share of bytes that are results."""
    found = [
        {"series": point["series"], "x": point["x"], "y": 100 * point["found_bytes"] / sum(
            point[name] for name in ("found_bytes", "sent_bytes"))}
        for point in _by_matches(scale) if not point["series"].endswith("mirror")
    ]  # fmt: skip
    note = "Bytes, in place of time on a network: a pair is two numbers of 8 bytes, a range four."
    figure = _figure(number, "share of bytes that are results", "matches", found, note)
    return dataclasses.replace(figure, y="% of bytes", log_y=False)


def by_workers(number: str, scale: Scale) -> Figure:
    """Fig. 15d: a large window, two selectivities."""
    window = window_of(scale, 20)
    asked = {
        (f"{name}, S={matches}", count): (batch_of(matches, scale), name, count, window, matches, form_of(name), False)
        for count in ((2, 8) if scale.quick else (2, 4, 8, 16)) for name in STRUCTURES for matches in (1, 64)
    }  # fmt: skip
    found = _run(scale, asked, {})
    sent = {point["x"]: point["sent_bytes"] // point["batch"] for point in found}
    note = f"Windows of {window:,} rows a side. Bytes sent for a row: " + ", ".join(
        f"{each:,} to {count} workers" for count, each in sent.items()
    )
    return _figure(number, "non-equi-join by workers", "workers", found, note + ", as every probe goes to each.")


def _split_join_turns(window: int, scale: Scale) -> Callable[[], float]:
    """Rows a second that a SplitJoin of as many cores compares with a full window."""
    engine = _core.Engine(
        key_bits=32, index="nested_loop", bands=[((-1, (1 << 64) - 1), (0, 1))], window=(window, 1),
        engine="splitjoin", options={"cores": WORKERS, "fan_out": 4, "order": "outer", "queue_rows": 64},
    )  # fmt: skip
    rng = np.random.default_rng(1)

    def rows(count: int, first: int, other_position: int) -> Any:
        keys = rng.integers(0, 1 << 31, count).astype(np.int32)
        return _core.Input(keys, first_row=first, same_other_position=other_position)

    engine.step(rows(window, 0, 0), rows(0, 0, 0), probing=False)
    arrived = [0]

    def turn() -> float:
        done, start, own = 0, time.perf_counter(), time.process_time()
        while not done or time.perf_counter() - start < scale.seconds / TURNS:
            engine.step(rows(0, 0, 0), rows(64, arrived[0], window), whole=True)
            arrived[0], done = arrived[0] + 64, done + 64
        return done / (time.process_time() - own) / 1e6

    return turn


def _handshake_turns(window: int, scale: Scale) -> Callable[[], float]:
    """The rate of handshake join at a short window, less as much as this one is longer: each row is compared with all
    of a window's. Raises `Unavailable` where there is no C++ compiler."""
    rng = np.random.default_rng(2)
    least, more = min(window, _HANDSHAKE_ROWS), 256
    columns = [rng.integers(0, 1 << 30, least + more), rng.uniform(0, 1, least + more)] * 2
    handshake(*(column[:4] for column in columns), window=4, cores=2)  # compiled before the first turn

    def turn() -> float:
        own = time.process_time()
        handshake(*columns, window=least, cores=WORKERS, warm=least)
        # Both windows are filled on the way: rows are compared with half a window until then.
        spent = (time.process_time() - own) * more / (more + least / 2)
        return 2 * more / spent * least / window / 1e6

    return turn


def beside_others(number: str, scale: Scale) -> Figure:
    """Fig. 15e and f: SplitJoin and handshake join beside it, which compare each row with the whole window."""
    window = window_of(scale, 19 if number == "15e" else 22)
    asked = {
        (name, matches): (batch_of(matches, scale), name, WORKERS, window, matches, form_of(name), False)
        for matches in _matches(scale, 4096) for name in STRUCTURES
    }  # fmt: skip
    others = {("SplitJoin", 1): _split_join_turns(window, scale)}
    missing = ""
    try:
        others["Handshake join", 1] = _handshake_turns(window, scale)
    except Unavailable as reason:
        missing = f" Without handshake join: {str(reason).splitlines()[0]}"
    note = (
        f"Windows of {window:,} rows a side. Nested loops do not depend on matches; handshake join is measured at "
        f"{min(window, _HANDSHAKE_ROWS):,} rows, and its rate taken less as the window is longer.{missing}"
    )
    return _figure(number, f"beside others, windows of {window:,} rows", "matches", _run(scale, asked, others), note)


def on_the_wire(number: str, scale: Scale) -> Figure:
    """Bytes that workers are sent, and send, which are processes; beside what is counted of partitions."""
    workers, window = (2, 1 << 10) if scale.quick else (4, 1 << 14)
    found: list[dict[str, Any]] = []
    messages = 0.0
    for matches in _matches(scale, 1024):
        batch = min(window // 4, (1 << 20) // matches)
        crossed, pairs = _crossed(workers, window, matches, batch)
        messages = (crossed["messages_in"] + crossed["messages_out"]) / _BATCHES / workers
        counted = Cluster(RAP, workers, window, matches)
        work = counted.probe(batch, 0)[2]
        counted.manager.close()
        values = {
            "to workers": crossed["bytes_in"] / _BATCHES, "of results": crossed["bytes_out"] / _BATCHES,
            "to workers, counted of threads": sum(each["sent_bytes"] for each in work),
            "of results, counted of threads": sum(each["found_bytes"] for each in work),
        }  # fmt: skip
        found += [
            {"series": name, "x": matches, "y": y / batch, "batch": batch, "pairs": pairs} for name, y in values.items()
        ]
    note = (
        f"RaP-Table, {workers} workers, each a daemon, windows of {window:,} rows: a batch takes {messages:.0f} "
        "messages to and from each. Rows are a key of 4 and a time of 8 bytes, pairs two times, in Arrow's streams. "
        "Right rows are sent to all workers, which store them too, where the paper stores them on one."
    )
    return dataclasses.replace(
        _figure(number, "bytes on the wire by matches", "matches", found, ""), y="bytes of a probing row", note=note
    )


_BATCHES = 4  # that are counted


def _crossed(workers: int, window: int, matches: float, batch: int) -> tuple[dict[str, int], int]:
    """What crosses the sockets of as many workers for some batches of right rows, and how many pairs these find."""
    rng, step = np.random.default_rng(window), (1 << 31) // window
    reach, window_time = int(matches) // 2 * step, dt.timedelta(microseconds=window)
    span = 2 * window_time  # so that none of the window expires
    spec = JoinSpec(
        on=Band("k", "k", -reach, reach), within=Within("t", "t", -span, span), select=("t", "t_right"),
        watermark=Watermark(left="0 s", right="0 s", lag=0),
        index=RapTable(partitions=max(window // workers // 128, 1)),
    )  # fmt: skip
    schema = pa.schema([("k", pa.int32()), ("t", pa.timestamp("us"))])

    def rows(first: int, count: int) -> pa.Table:
        keys = (rng.integers(0, window, count) * step).astype(np.int32)
        return pa.table([keys, pa.array(np.arange(first, first + count), pa.timestamp("us"))], schema)

    with Processes(workers, spec, schema, window_time / workers) as cluster:
        cluster.process(rows(0, window), rows(0, 0))
        before = cluster.crossed
        found = [cluster.process(rows(0, 0), rows(window + at * batch, batch)) for at in range(_BATCHES)]
        return {name: value - before[name] for name, value in cluster.crossed.items()}, sum(map(len, found))


MADE: dict[str, Callable[[str, Scale], Figure]] = {
    "15a": by_batch, "15b": by_matches, "15c": receiving, "15d": by_workers, "15e": beside_others,
    "15f": beside_others, "wire": on_the_wire,
}  # fmt: skip
