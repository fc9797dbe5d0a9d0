"""SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016): its figures 12, 13 and 15 to 19, on this machine's cores.

The workload is CellJoin's, which the paper uses too: streams R(x, y) and S(a, b), all uniform in 1 to 10,000, joined
where x lies within 10 of a and y within 10 of b: one pair in 250,000 matches. x drives, y is a residual condition. One
window is full, and rows of the other stream are measured: each is compared with the whole window, as each row of
either stream is in the paper.
"""

from __future__ import annotations

import ctypes
import math
import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders.contender import Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers.figure import Figure, Scale, median_rate
from muntin.host.engines import Inner, Outer, SplitJoin
from muntin.host.join import WindowJoin
from muntin.host.native import _core
from muntin.host.predicates import AllOf, Band
from muntin.host.windows import Rows, Within

PAPER = "SplitJoin"
REACH, KEYS = 10, 10_000
ON = AllOf(Band("x", "a", -REACH, REACH), Band("y", "b", -REACH, REACH))
CORES = (1, 2, 4, 8)
TICKS = 1_000_000  # a second
_STAGES = {"distribution": "dis", "execution": "exe", "gathering": "gathering", "end_to_end": "ete", "visiting": "vis"}
_HANDSHAKE_ROWS = 1 << 15  # its windows are filled by joining: longer ones take too long
_BOARD_CORES, _BOARD_MHZ, _BOARD_ROWS = 8, 208.3, 8192
"""The gateware on an ECP5-85 -8, one comparison a cycle in each core (docs/splitjoin.md, routed 2026-11-23)."""


def _table(rows: int, names: str, rng: np.random.Generator, keys: int = KEYS) -> dict[str, Any]:
    return {
        names[0]: rng.integers(1, keys + 1, rows, np.int32),
        names[1]: rng.uniform(1, keys, rows).astype(np.float32),
    }


def _rate(
    window: int,
    engine: str | SplitJoin,
    scale: Scale,
    *,
    seconds_of_window: float | None = None,
    order: str | Outer | Inner = "outer",
    on: Any = ON,
    keys: int = KEYS,
) -> float:
    """Rows/s of one stream against a full window of the other: of so many rows, which span so many seconds if given."""
    rng = np.random.default_rng(window)
    left, batch = _table(window, "xy", rng, keys), max((1 << 24) // window, 64)
    shape: dict[str, Any] = {"left": Rows(window), "right": Rows(1)}
    if seconds_of_window is not None:
        span = int(seconds_of_window * TICKS)
        left["t"] = np.linspace(0, span - 1, window).astype(np.int64)
        shape = {"within": Within("t", "u", 0, span)}
    index = "nested_loop" if isinstance(engine, SplitJoin) else "auto"
    with WindowJoin(on=on, engine=engine, index=index, order=order, form="pairs", **shape) as join:

        def rows(count: int) -> pa.Table:
            right = _table(count, "ab", rng, keys)
            if seconds_of_window is not None:
                right["u"] = np.full(count, span, np.int64)
            return pa.table(right)

        join.process(pa.table(left), rows(0))
        join.process(None, rows(batch))
        start, done = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < scale.seconds:
            join.process(None, rows(batch))
            done += batch
        return done / spent


def handshake(
    x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, *, window: int, cores: int, warm: int = 0
) -> tuple[int, float]:
    """Low-latency handshake join, bench/cpp/handshake_join.cpp: all pairs, and seconds behind `warm` rows a side.

    Rows of both sides take turns, a left one first.

    Parameters
    ----------
    x, a : ndarray of int32, shape (n,)
    y, b : ndarray of float32, shape (n,)

    Raises
    ------
    Unavailable
        There is no C++ compiler.
    """
    join = compiled("handshake_join").handshake_join
    join.restype = ctypes.c_int64
    columns = [np.ascontiguousarray(v, t) for v, t in ((x, "i4"), (y, "f4"), (a, "i4"), (b, "f4"))]
    seconds = ctypes.c_double()
    numbers = [ctypes.c_int64(n) for n in (len(x), warm, window)] + [ctypes.c_int32(REACH), ctypes.c_int32(cores)]
    pairs = join(*(ctypes.c_void_p(column.ctypes.data) for column in columns), *numbers, ctypes.byref(seconds))
    return pairs, seconds.value


def _handshake_rate(window: int, cores: int, scale: Scale) -> float:
    """Rows/s of both streams against full count windows."""
    rng = np.random.default_rng(window)
    # As many rows as may take the time, at a guess of a billion comparisons a second; windows are filled before.
    more = max(int(scale.seconds * 1e9 / window / 2), 256)
    columns = [column for names in ("xy", "ab") for column in _table(window + more, names, rng).values()]
    _, seconds = handshake(*columns, window=window, cores=cores, warm=window)
    return 2 * more / seconds


def _sustained(seconds: float, engine: SplitJoin, scale: Scale) -> tuple[float, int]:
    """The input rate of each stream at which windows of so many seconds are joined as rows come; rows of a window.

    Both streams' rows take turns: at a rate r each, 2 r rows a second meet windows of r x seconds rows.
    """
    window = 1 << 13
    rate = 0.0
    for _ in range(3):
        most = _rate(window, engine, scale, seconds_of_window=seconds) / 2
        rate = math.sqrt(most * window / seconds)
        window = max(int(rate * seconds), 64)
    return rate, window


def _windows(scale: Scale) -> dict[str, float]:
    return {f"{m} s": float(m) for m in (5, 10, 15)} if scale.quick else {f"{m} min": 60.0 * m for m in (5, 10, 15)}


def _beyond(scale: Scale) -> str:
    quick = " Windows of seconds instead of minutes in a quick run." if scale.quick else ""
    return (
        f"this machine runs {_core.threads()} threads at a time: more join cores than that share them, and the paper's "
        f"gain from 4 to 28 cores cannot be seen here.{quick}"
    )


def fig_12(scale: Scale) -> Figure:
    """Throughput over join cores, time windows."""
    points = []
    for cores in CORES:
        for name, seconds in _windows(scale).items():
            rate, window = _sustained(seconds, SplitJoin(cores=cores), scale)
            points.append({"series": name, "x": cores, "y": rate / 1e3, "window": window})
    return Figure(
        PAPER, "12", "throughput with time windows",
        "rises with the cores up to 28, where a 15 min window sustains 4,400 rows/s, up to 60 % above handshake join.",
        "join cores", "k rows/s of each stream", points, log_x=True,
        note=_beyond(scale) + " Low-latency handshake join is in figure 16. Event times are made, not read "
        "from a clock.",
    )  # fmt: skip


def fig_16(scale: Scale) -> Figure:
    """Throughput over join cores, count windows; the gateware beside it."""
    logs = (12, 13, 15) if scale.quick else (13, 15, 17, 19, 21)
    points: list[dict[str, Any]] = []
    missing = ""
    for log in logs:
        for cores in CORES:
            rate = median_rate(partial(_rate, 1 << log, SplitJoin(cores=cores), scale), 3)
            points.append({"series": f"2^{log}", "x": cores, "y": rate / 1e3})
        if 1 << log <= _HANDSHAKE_ROWS:
            try:
                for cores in CORES:
                    rate = median_rate(partial(_handshake_rate, 1 << log, cores, scale), 3)
                    points.append({"series": f"2^{log}, handshake", "x": cores, "y": rate / 1e3})
            except Unavailable as reason:
                missing = f" Without low-latency handshake join: {reason}"
        if 1 << log <= _BOARD_ROWS:
            # Both regions of a core compare at the same time: 2 J rows' comparisons a cycle, busy by simulation.
            y = 2 * _BOARD_CORES / (1 << log) * _BOARD_MHZ * 1e3
            points.append({"series": f"2^{log}, gateware (simulated)", "x": _BOARD_CORES, "y": y})
    steps = _rate(1 << logs[-1], "steps", scale) / 1e3
    return Figure(
        PAPER, "16", "throughput with count windows",
        "28 cores take 5,200 rows/s at 2^21; doubling the window lowers the rate, more cores raise it.",
        "join cores", "k rows/s", points, log_x=True, log_y=True,
        note=_beyond(scale) + f" engine='steps' with an index takes {steps:,.0f} k rows/s at 2^{logs[-1]}.\n\n"
        f"Gateware: cycles from simulation (comparators busy 0.99 and more), times the {_BOARD_MHZ} MHz that "
        f"{_BOARD_CORES} cores were routed at; no board was run. Handshake: low-latency handshake join, a "
        "peer in C++, asks both parts "
        f"of the condition in one pass, and counts pairs; to 2^15, as its windows are filled by joining.{missing}",
    )  # fmt: skip


def _stages(window: int, cores: int, timed_window: bool, scale: Scale) -> dict[str, float]:
    """Mean latencies in us of the stages of the pipeline, rows coming as fast as they are taken."""
    rng = np.random.default_rng(1)
    keys = rng.integers(1, KEYS + 1, window, np.int32)
    high = (0, (1 << 62)), (0, 0)
    engine = _core.Engine(
        key_bits=32, index="nested_loop", bands=[((-1, (1 << 64) - REACH), (0, REACH))],
        window=(0, 0) if timed_window else (window, 1), within=(high[1], high[0]) if timed_window else None,
        engine="splitjoin",
        options={
            "cores": cores, "fan_out": 4, "order": "outer", "timed": True, "active": timed_window, "queue_rows": 64,
        },
    )  # fmt: skip

    def part(keys: np.ndarray, first: int, opposite: int) -> _core.Input:
        times = np.arange(first, first + len(keys), dtype=np.int64) if timed_window else None
        return _core.Input(keys, first_row=first, same_opposite=opposite, times=times)

    none = part(np.empty(0, np.int32), 0, 0)
    engine.step(part(keys, 0, 0), none, probing=False)
    start, first = time.perf_counter(), 0
    while time.perf_counter() - start < scale.seconds or not first:
        engine.step(none, part(rng.integers(1, KEYS + 1, 32, np.int32), first, window), whole=True)
        first += 32
    figures: dict[str, Any] = engine.figures(0)
    return {stage: figures[f"{stage}_us"] for stage in _STAGES}


def _latency(number: str, title: str, claim: str, window: int, timed_window: bool, scale: Scale) -> Figure:
    points = [
        {"series": _STAGES[stage], "x": cores, "y": value}
        for cores in CORES
        for stage, value in _stages(window, cores, timed_window, scale).items()
    ]
    return Figure(
        PAPER, number, title, claim, "join cores", "us", points, log_x=True, log_y=True,
        note=f"{window:,} rows a window, 32 rows given at a time. dis: until a core takes a row, its queues included; "
        "exe: in the core; gathering: from the last core's end to the root; vis: from the later row to the pair. "
        + _beyond(scale),
    )  # fmt: skip


def fig_13(scale: Scale) -> Figure:
    """Visiting latency over join cores, time windows."""
    points = []
    for name, share in (("5", 1), ("10", 2), ("15", 3)):
        window = share * ((1 << 12) if scale.quick else (1 << 18))
        for cores in CORES:
            y = _stages(window, cores, True, scale)["visiting"] / 1e3
            points.append({"series": f"{window:,} rows ({name} parts)", "x": cores, "y": y})
    return Figure(
        PAPER, "13", "visiting latency with time windows",
        "grows with log k only: 8.1 ms at 28 cores and 15 min, 3.3 times less than low-latency handshake join.",
        "join cores", "ms", points, log_x=True,
        note="windows in the ratio of the paper's 5, 10 and 15 minutes. " + _beyond(scale),
    )  # fmt: skip


def fig_15(scale: Scale) -> Figure:
    """Latency of the pipeline's stages, time windows."""
    claim = "execution shrinks with the cores; gathering, where mergers wait for punctuation, is the largest part."
    return _latency("15", "stages, time window", claim, 1 << (14 if scale.quick else 19), True, scale)


def fig_18(scale: Scale) -> Figure:
    """Latency of the pipeline's stages, count windows."""
    claim = "scales as with time windows, visiting latency 2.5 times lower at 28 cores."
    return _latency("18", "stages, count window", claim, 1 << (14 if scale.quick else 19), False, scale)


def fig_17(scale: Scale) -> Figure:
    """Throughput over selectivity."""
    window = 1 << (12 if scale.quick else 15)
    points = []
    for keys in (10_000, 3_000, 1_000, 300, 100):
        # The engine alone: the band on x, of which a share of the keys matches.
        share = min((2 * REACH + 1) / keys, 1.0)
        band = Band("x", "a", -REACH, REACH)
        rate = median_rate(partial(_rate, window, SplitJoin(cores=4), scale, on=band, keys=keys), 3)
        points.append({"series": f"window of {window:,} rows", "x": share, "y": rate / 1e3})
    return Figure(
        PAPER, "17", "throughput over match probability",
        "robust to changes of selectivity up to windows of 28 x 2^15.",
        "share of pairs that match", "k rows/s", points, log_x=True, log_y=True,
        note="4 join cores, the band on x alone. Pairs are handed to the caller as arrays: at a share of 0.2 each row "
        f"has {0.2 * window:,.0f}.",
    )  # fmt: skip


def fig_19(scale: Scale) -> Figure:
    """Throughput over the interval of punctuation, inner order."""
    points: list[dict[str, Any]] = []
    cores = 4
    for log in (10, 12) if scale.quick else (12, 13, 14, 15):
        for every in range(0, log + 1, 2 if scale.quick else 1):
            rate = _rate(cores << log, SplitJoin(cores=cores), scale, order=Inner(every=1 << every))
            points.append({"series": f"sub-windows of 2^{log}", "x": 1 << every, "y": rate / 1e3})
    fall = points[-1]["y"] / next(p["y"] for p in reversed(points) if p["x"] == 1)
    return Figure(
        PAPER, "19", "throughput over the precision of order",
        "no effect while punctuations are few against the sub-window, from 2^10 down to 2^1 the rate falls.",
        "comparisons between punctuations", "k rows/s", points, log_x=True, log_y=True,
        note=f"{cores} join cores. From the greatest interval to 1 the rate falls {fall:,.0f} times, earlier than in "
        "the paper: comparisons are of many rows at a time here, and a punctuation crosses threads one by one.",
    )  # fmt: skip


FIGURES = [fig_12, fig_13, fig_15, fig_16, fig_17, fig_18, fig_19]
