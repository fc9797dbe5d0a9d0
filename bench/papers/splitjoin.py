"""SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016): its figures 12, 13 and 15 to 19, on this machine's cores.

The workload is CellJoin's, which the paper uses too: streams R(x, y) and S(a, b), all uniform in 1 to 10,000, joined
where x lies within 10 of a and y within 10 of b: one pair in 250,000 matches. x drives, y is a residual condition. One
window is full, and rows of the other stream are measured: each is compared with the whole window, as each row of
either stream is in the paper.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders.contender import Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers.figure import Figure, Scale, in_turns, measured
from muntin.host.engines import Inner, Outer, SplitJoin
from muntin.host.join import WindowJoin
from muntin.host.native import _core
from muntin.host.predicates import AllOf, Band
from muntin.host.windows import Rows, Within

PAPER = "SplitJoin"
REACH, KEYS = 10, 10_000
ON = AllOf(Band("x", "a", -REACH, REACH), Band("y", "b", -REACH, REACH))
CORES = (1, 2, 4, 8)
TURNS = 3
TICKS = 1_000_000  # a second
_STAGES = {"distribution": "dis", "execution": "exe", "gathering": "gathering", "end_to_end": "ete", "visiting": "vis"}
_HANDSHAKE_ROWS = 1 << 13  # its windows are filled by joining: longer ones take too long
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
        while (spent := time.perf_counter() - start) < scale.seconds / TURNS or not done:
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
    more = max(int(scale.seconds / TURNS * 1e9 / window / 2), 256)
    columns = [column for names in ("xy", "ab") for column in _table(window + more, names, rng).values()]
    _, seconds = handshake(*columns, window=window, cores=cores, warm=window)
    return 2 * more / seconds


def _sustained(seconds: float, engine: SplitJoin, scale: Scale) -> tuple[float, int]:
    """The input rate of each stream at which windows of so many seconds are joined as rows come; rows of a window.

    Both streams' rows take turns: at a rate r each, 2 r rows a second meet windows of r x seconds rows.
    """
    window = 1 << 13
    rate = 0.0
    for _ in range(2):
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


def _k_rate(*given: Any, **options: Any) -> float:
    """`_rate` in k rows/s."""
    return _rate(*given, **options) / 1e3


def _k_sustained(*given: Any) -> float:
    """`_sustained` in k rows/s."""
    return _sustained(*given)[0] / 1e3


def _k_peer(*given: Any) -> float:
    """`_handshake_rate` in k rows/s."""
    return _handshake_rate(*given) / 1e3


def _cores(scale: Scale) -> tuple[int, ...]:
    return CORES[:2] if scale.quick else CORES


def fig_12(scale: Scale) -> Figure:
    """Throughput over join cores, time windows; handshake join beside it."""
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    minutes = list(_windows(scale).items())
    for name, seconds in minutes:
        for cores in _cores(scale):
            engine = SplitJoin(cores=cores)
            contenders[name, cores] = partial(_k_sustained, seconds, engine, scale)
    missing = ""
    name, seconds = minutes[-1]
    try:
        _handshake_rate(64, 1, scale)
    except Unavailable as reason:
        missing = f" Without low-latency handshake join: {str(reason).splitlines()[0]}"
    else:
        for cores in _cores(scale):

            def peer(cores: int = cores, seconds: float = seconds) -> float:
                # Rates go by one over the rows of a window, so that at the rate r the window has r x seconds rows.
                return math.sqrt(_handshake_rate(_HANDSHAKE_ROWS, cores, scale) / 2 * _HANDSHAKE_ROWS / seconds) / 1e3

            contenders[f"{name}, handshake join", cores] = peer
    return Figure(
        PAPER, "12", "throughput with time windows", "", "join cores", "k rows/s of each stream",
        measured(contenders, TURNS), log_x=True,
        note=f"{_beyond(scale)} Handshake join is measured at {_HANDSHAKE_ROWS:,} rows, and what it sustains derived "
        f"from that.{missing} Event times are made, not read from a clock.",
    )  # fmt: skip


def fig_16(scale: Scale) -> Figure:
    """Throughput over join cores, count windows; the gateware beside it."""
    logs = (10, 12) if scale.quick else (11, 13, 15, 17)
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    missing = ""
    try:
        _handshake_rate(64, 1, scale)
    except Unavailable as reason:
        missing = f" Without low-latency handshake join: {str(reason).splitlines()[0]}"
    for log in logs:
        for cores in _cores(scale):
            engine = SplitJoin(cores=cores)
            contenders[f"2^{log}", cores] = partial(_k_rate, 1 << log, engine, scale)
            if 1 << log <= _HANDSHAKE_ROWS and not missing:
                contenders[f"2^{log}, handshake join", cores] = partial(_k_peer, 1 << log, cores, scale)
    points = measured(contenders, TURNS)
    for log in logs:
        if 1 << log <= _BOARD_ROWS:
            # Both regions of a core compare at the same time: 2 J rows' comparisons a cycle, busy by simulation.
            y = 2 * _BOARD_CORES / (1 << log) * _BOARD_MHZ * 1e3
            points.append({"series": f"2^{log}, gateware (simulated)", "x": _BOARD_CORES, "y": y})
    return Figure(
        PAPER, "16", "throughput with count windows", "", "join cores", "k rows/s", points, log_x=True, log_y=True,
        note=f"{_beyond(scale)} Gateware: cycles from simulation, times the {_BOARD_MHZ} MHz that {_BOARD_CORES} cores "
        "were routed at; no board was run. Handshake join, a peer in C++, asks both parts of the condition in one "
        f"pass, and counts pairs; to 2^13, as its windows are filled by joining.{missing}",
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

    def part(keys: np.ndarray, first: int, other_position: int) -> _core.Input:
        times = np.arange(first, first + len(keys), dtype=np.int64) if timed_window else None
        return _core.Input(keys, first_row=first, same_other_position=other_position, times=times)

    none = part(np.empty(0, np.int32), 0, 0)
    engine.step(part(keys, 0, 0), none, probing=False)
    start, first = time.perf_counter(), 0
    while time.perf_counter() - start < scale.seconds / TURNS or not first:
        engine.step(none, part(rng.integers(1, KEYS + 1, 32, np.int32), first, window), whole=True)
        first += 32
    figures: dict[str, Any] = engine.figures(0)
    return {stage: figures[f"{stage}_us"] for stage in _STAGES}


def _latency(number: str, title: str, window: int, timed_window: bool, scale: Scale) -> Figure:
    found: dict[Any, Any] = in_turns(
        {cores: partial(_stages, window, cores, timed_window, scale) for cores in _cores(scale)},
        TURNS,
    )
    points = []
    for cores, turns in found.items():
        for stage, name in _STAGES.items():
            values = [of[stage] for of in turns]
            points.append({"series": name, "x": cores, "y": statistics.median(values), "turns": values})
    return Figure(
        PAPER, number, title, "", "join cores", "us", points, log_x=True, log_y=True,
        note=f"{window:,} rows a window, 32 rows given at a time. dis: until a core takes a row, its queues included; "
        "exe: in the core; gathering: from the last core's end to the root; vis: from the later row to the pair. "
        + _beyond(scale),
    )  # fmt: skip


def _visiting(window: int, cores: int, scale: Scale) -> float:
    """Mean latency of a visit in ms, of a time window."""
    return _stages(window, cores, True, scale)["visiting"] / 1e3


def fig_13(scale: Scale) -> Figure:
    """Visiting latency over join cores, time windows."""
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    for name, share in (("5", 1), ("10", 2), ("15", 3)):
        window = share * ((1 << 11) if scale.quick else (1 << 17 - scale.smaller))
        for cores in _cores(scale):
            contenders[f"{window:,} rows ({name} parts)", cores] = partial(_visiting, window, cores, scale)
    return Figure(
        PAPER, "13", "visiting latency with time windows", "", "join cores", "ms", measured(contenders, TURNS),
        log_x=True,
        note=f"Windows in the ratio of the paper's 5, 10 and 15 minutes. {_beyond(scale)} The peer of handshake join "
        "tells no latency.",
    )  # fmt: skip


def _timed_rows(scale: Scale) -> int:
    return 1 << (12 if scale.quick else 18 - scale.smaller)


def fig_15(scale: Scale) -> Figure:
    """Latency of the pipeline's stages, time windows."""
    return _latency("15", "stages, time window", _timed_rows(scale), True, scale)


def fig_18(scale: Scale) -> Figure:
    """Latency of the pipeline's stages, count windows."""
    return _latency("18", "stages, count window", _timed_rows(scale), False, scale)


def fig_17(scale: Scale) -> Figure:
    """Throughput over selectivity."""
    window, band = 1 << (11 if scale.quick else 15), Band("x", "a", -REACH, REACH)
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    for keys in (10_000, 3_000, 1_000, 300, 100):
        # The engine alone: the band on x, of which a share of the keys matches.
        share = round((2 * REACH + 1) / keys, 4)
        contenders[f"window of {window:,} rows", share] = partial(
            _k_rate, window, SplitJoin(cores=4), scale, on=band, keys=keys
        )
    return Figure(
        PAPER, "17", "throughput over match probability", "", "share of pairs that match", "k rows/s",
        measured(contenders, TURNS), log_x=True, log_y=True,
        note="4 join cores, the band on x alone. Pairs are handed to the caller as arrays: at a share of 0.2 each row "
        f"has {0.2 * window:,.0f}.",
    )  # fmt: skip


def fig_19(scale: Scale) -> Figure:
    """Throughput over the interval of punctuation, inner order."""
    cores = 4
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    for log in (9, 11) if scale.quick else (12, 13, 14, 15):
        for every in range(1, log + 1, 2):
            order = Inner(every=1 << every)
            contenders[f"sub-windows of 2^{log}", 1 << every] = partial(
                _k_rate, cores << log, SplitJoin(cores=cores), scale, order=order
            )
    return Figure(
        PAPER, "19", "throughput over the precision of order", "", "comparisons between punctuations", "k rows/s",
        measured(contenders, TURNS), log_x=True, log_y=True,
        note=f"{cores} join cores. Comparisons are of many rows at a time here, and a punctuation crosses threads one "
        "by one.",
    )  # fmt: skip


def fig_threads(scale: Scale) -> Figure:
    """What a thread for storing could save a core: the time of rows stored alone, of that of rows stored and probed."""
    points = []
    for log in (8, 10) if scale.quick else (10, 12, 15):
        core = _OneCore(1 << log)
        found = in_turns({probing: partial(core.seconds, probing, scale) for probing in (False, True)}, TURNS)
        share = [100 * storing / both for storing, both in zip(found[False], found[True], strict=True)]
        points.append({"series": "storing", "x": 1 << log, "y": statistics.median(share), "turns": share})
    return Figure(
        PAPER, "threads", "storing, of the time of a join core", "", "rows of a window", "% of a core's time", points,
        log_x=True, log_y=True, note="One join core, processor time; nested loops; steps of 4,096 rows of both sides.",
    )  # fmt: skip


class _OneCore:
    """A join core whose windows are full."""

    def __init__(self, window: int):
        self._rng, self._arrived = np.random.default_rng(window), 0
        self._engine = _core.Engine(
            key_bits=32, index="nested_loop", bands=[((-1, (1 << 64) - REACH), (0, REACH))], window=(window, window),
            engine="splitjoin", options={"cores": 1, "fan_out": 4, "order": "outer", "queue_rows": 1024},
        )  # fmt: skip
        self._step(window, probing=False)

    def _step(self, rows: int, *, probing: bool) -> None:
        sides = [
            _core.Input(
                self._rng.integers(1, KEYS + 1, rows, np.int32), first_row=self._arrived,
                same_other_position=self._arrived,
            )
            for _ in range(2)
        ]  # fmt: skip
        self._engine.step(*sides, probing=probing, whole=probing)
        self._arrived += rows

    def seconds(self, probing: bool, scale: Scale) -> float:
        """Processor time of a row that is stored, or stored and probes."""
        rows, start, own = 0, time.perf_counter(), time.process_time()
        while not rows or time.perf_counter() - start < scale.seconds / TURNS:
            self._step(1 << 12, probing=probing)
            rows += 1 << 13
        return (time.process_time() - own) / rows


FIGURES = [fig_12, fig_13, fig_15, fig_16, fig_17, fig_18, fig_19, fig_threads]
