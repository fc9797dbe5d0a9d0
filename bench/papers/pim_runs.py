"""What the figures of PIM-Tree measure: a join of one index, filled, block by block."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bench.contenders.cpp_library import compiled
from bench.papers.figure import Finding, Scale, measured, ratios
from muntin.host.native import _core

PAPER = "PIM-Tree"
TURNS = 4
BLOCK = 1 << 16  # rows of both streams that the core takes at once
RATE = "M rows/s"
Options = dict[str, Any]
PIM: Options = {"index": "pim_tree"}
IM: Options = {"index": "im_tree"}
BPLUS: Options = {"index": "bplus_tree"}
NESTED: Options = {"index": "nested_loop", "splitjoin": 1}
B_CHAIN: Options = {"index": "b_chain", "length": 2}
IB_CHAIN: Options = {"index": "ib_chain", "length": 2}
ONE_THREAD = "One thread's rates are per second of processor time, those of several threads per second of the clock."

Keys = Callable[[np.random.Generator, int], np.ndarray]


def uniform(rng: np.random.Generator, count: int) -> np.ndarray:
    """Keys over all of their range."""
    return rng.integers(-(2**31), 2**31, count).astype(np.int32)


def gaussian(rng: np.random.Generator, count: int) -> np.ndarray:
    """The paper's Gaussian, mean 0.5 and deviation 0.125, times 2**30."""
    return np.clip(rng.normal(0.5, 0.125, count) * 2**30, -(2**31), 2**31 - 1).astype(np.int32)


def gamma(shape: float, scale: float) -> Keys:
    """A Gamma distribution, in steps of 2**-22."""
    return lambda rng, count: np.clip(rng.gamma(shape, scale, count) * 2**22, 0, 2**31 - 1).astype(np.int32)


def band_for(keys: Keys, window: int, matches: float) -> int:
    """The half width of a band that gives so many matches a row on average, from a sample."""
    sample = np.sort(keys(np.random.default_rng(0), 1 << 16).astype(np.int64))
    low, high = 0, 2**32
    while low < high:
        width = (low + high) // 2
        near = np.searchsorted(sample, sample + width, "right") - np.searchsorted(sample, sample - width, "left") - 1
        if near.mean() / len(sample) * window < matches:
            low = width + 1
        else:
            high = width
    return low


class Run:
    """One join under measurement: filled when it is made, then measured block by block.

    Parameters
    ----------
    window : tuple of int
        Rows of the left and the right window.
    threads : int
        1: without locks, unless `options` has ``locks="always"``, and merges by itself, as its own time is what counts.
    keys : function
        Draws keys.
    matches : float
        A row's matches, on average, in a window of the first size.
    share : float
        Of rows that are left ones.
    self_join : bool
    probing : bool
        False to store rows alone.
    block_rows : int
        Rows of both streams that the core takes at once.
    filled : float
        Rows that come before the first that are measured, over those of the window.
    options
        The index and its parameters, and those of the engine; ``splitjoin=n`` for round robin over n join cores, each
        with an index of its own.
    """

    def __init__(
        self,
        window: tuple[int, int],
        threads: int = 1,
        keys: Keys = uniform,
        matches: float = 2,
        share: float = 0.5,
        self_join: bool = False,
        probing: bool = True,
        block_rows: int = BLOCK,
        filled: float = 1.25,
        **options: Any,
    ):
        self.probing, self.block_rows = probing, block_rows
        self.merges: list[int] = []
        self.threads, self.self_join, self.share, self.keys = threads, self_join, share, keys
        self.rng = np.random.default_rng(1)
        self.arrived = [0, 0]
        self.rates: list[float] = []
        band = band_for(keys, max(window), matches) if matches else None
        of_engine = ("task_size", "blocking", "locks", "queue_tasks", "behind_rows")
        parameters = {name: value for name, value in options.items() if name not in ("index", "splitjoin", *of_engine)}
        options_of_engine = {name: value for name, value in options.items() if name in of_engine}
        cores = options.get("splitjoin", 0)
        if cores:
            options_of_engine = {"cores": cores, "fan_out": 2, "queue_rows": 1024, "order": "none"}
        elif threads == 1:
            options_of_engine.setdefault("blocking", True)
        self.clock = time.perf_counter if threads > 1 or cores else time.thread_time
        self.core = _core.Engine(
            key_bits=32,
            index=options["index"],
            window=window,
            bands=[(_halves(1), _halves(1)) if band is None else (_halves(-band), _halves(band))],
            self_join=self_join,
            parameters=parameters,
            engine="splitjoin" if cores else "shared",
            options=options_of_engine,
        )
        least = 1.0 if self_join else min(share, 1 - share)
        if options["index"] == "nested_loop":  # which would take as long to fill as windows are long
            self.probing, self.block_rows = False, BLOCK
        for _ in range(int(filled * max(window) / least / self.block_rows) + 1):
            self.block()
        self.probing, self.block_rows = probing, block_rows
        self.core.report(reset=True)
        self.rates.clear()
        self.merges.clear()

    def block(self) -> None:
        """Hands the core some rows, and notes its rate in M rows/s, and the merges so far."""
        count = self.block_rows
        if self.self_join:
            rows = self.arrived[0] + np.arange(count)
            inputs = [_core.Input(self.keys(self.rng, count), first_row=self.arrived[0], other_position=rows)] * 2
            self.arrived = [self.arrived[0] + count] * 2
        else:
            left = self.rng.random(count) < self.share
            before = self.arrived[1] + np.cumsum(~left)[left], self.arrived[0] + np.cumsum(left)[~left]
            inputs = [
                _core.Input(self.keys(self.rng, len(other_position)), first_row=first, other_position=other_position)
                for first, other_position in zip(self.arrived, before, strict=True)
            ]
            self.arrived = [first + len(of) for first, of in zip(self.arrived, before, strict=True)]
        start = self.clock()
        self.core.step(*inputs, whole=True, probing=self.probing, threads=self.threads)
        self.rates.append(count / (self.clock() - start) / 1e6)
        report: dict[str, Any] = self.core.report()
        self.merges.append(report.get("merges", 0))

    @property
    def rate(self) -> float:
        """The rate over all blocks since it was filled, merges and their share of blocks included."""
        return statistics.harmonic_mean(self.rates)

    def ns(self, *, merging: bool) -> float:
        """Time of a row over all blocks; without `merging`, over those in which no index was merged."""
        apart = np.diff(self.merges, prepend=0) == 0
        rates = [rate for rate, quiet in zip(self.rates, apart, strict=True) if merging or quiet]
        return 1e3 / statistics.harmonic_mean(rates)


def _halves(value: int) -> tuple[int, int]:
    return value >> 64, value & (2**64 - 1)


def measure(runs: Mapping[Any, Callable[[], Run | ConcurrentMap]], scale: Scale) -> list[dict[str, Any]]:
    """A point for each run, by its series and place: all of them are open at once, and take turns of some blocks."""
    opened: dict[Any, Run | ConcurrentMap] = {}

    def turn(key: Any, make: Callable[[], Run | ConcurrentMap]) -> float:
        if key not in opened:
            opened[key] = make()
        run = opened[key]
        first, start = len(run.rates), time.monotonic()
        blocks = -(-blocks_of_a_merge(run) // 2)
        while len(run.rates) - first < blocks or time.monotonic() - start < scale.seconds / TURNS:
            run.block()
        return statistics.harmonic_mean(run.rates[first:])

    points = measured({key: partial(turn, key, make) for key, make in runs.items()}, TURNS)
    for point in points:
        run = opened[point["series"], point["x"]]
        if isinstance(run, ConcurrentMap):
            run.close()
            continue
        report = run.core.report()
        point |= {"y": run.rate, "report": report}
        if "latency_p50_us" in report:
            point["latency_us"] = _latency(report)
    return points


def faster(points: list[dict[str, Any]], one: str, other: str, place: Any, paper: float | None = None) -> Finding:
    """That one series is faster than another at a place, block by block."""
    rates = {point["series"]: point["turns"] for point in points if point["x"] == place}
    where = f"{place:,}" if isinstance(place, int) else place
    return Finding(f"the rate of {one} over that of {other} at {where}:", ratios(rates[one], rates[other]), paper)


def blocks_of_a_merge(run: Run | ConcurrentMap) -> int:
    """Blocks in which every index is merged once at least, so that each rate has its share of merges."""
    if isinstance(run, ConcurrentMap):
        return 1
    figures: dict[str, Any] = run.core.figures(0)
    if "merges" not in figures:
        return 1
    return min(32, int(2 * figures["immutable_rows"] / 8 / run.block_rows) + 1)


def _latency(report: dict[str, Any]) -> dict[str, float]:
    return {name: report[f"latency_{name}_us"] for name in ("p50", "p99", "max")}


def windows(scale: Scale) -> list[int]:
    """Window sizes of a figure."""
    return [1 << power - scale.smaller for power in ((10, 12) if scale.quick else (14, 17, 20))]


def some_window(scale: Scale) -> int:
    """The window of figures that have one: the paper's is 2**20."""
    return 1 << (12 if scale.quick else 20 - scale.smaller)


def threads_here(scale: Scale) -> int:
    """Threads of figures that have several."""
    return max(2, _core.threads())


def both(window: int) -> tuple[int, int]:
    """Windows of one size."""
    return window, window


class ConcurrentMap:
    """The join over oneTBB's concurrent ordered map, which stands for the Bw-Tree: threads insert a block's rows, then
    probe with them, then one thread removes what has expired, as the map has no removal beside other threads.

    Raises
    ------
    Unavailable
        There is no C++ compiler, or no oneTBB.
    """

    def __init__(
        self, window: int, threads: int, matches: float = 2, *, block_rows: int = BLOCK, band: int | None = None
    ):
        library = compiled("concurrent_map", "tbb")
        library.cm_new.restype = ctypes.c_void_p
        library.cm_new.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
        library.cm_free.argtypes = [ctypes.c_void_p]
        library.cm_step.restype = ctypes.c_uint64
        library.cm_step.argtypes = [ctypes.c_void_p] * 4
        self._library, self._threads, self._rows = library, threads, block_rows
        band = band_for(uniform, window, matches) if band is None else band
        self._join = library.cm_new(window, -band, band, threads)
        self._rng = np.random.default_rng(1)
        self._arrived = [0, 0]
        self.rates: list[float] = []
        for _ in range(int(2.5 * window / block_rows) + 1):
            self.block()
        self.rates.clear()

    def step(self, keys: list[np.ndarray], other_position: list[np.ndarray]) -> int:
        """Joins rows of both streams, of each side keys (int32) and rows of the other one before it (int64); pairs."""
        lists = [(ctypes.c_void_p * 2)(*(array.ctypes.data for array in arrays)) for arrays in (keys, other_position)]
        return int(self._library.cm_step(self._join, *lists, (ctypes.c_int64 * 2)(*map(len, keys))))

    def block(self) -> None:
        """Joins some rows, and notes the rate in M rows/s."""
        left = self._rng.random(self._rows) < 0.5
        before = [self._arrived[1] + np.cumsum(~left)[left], self._arrived[0] + np.cumsum(left)[~left]]
        keys = [uniform(self._rng, len(other_position)) for other_position in before]
        clock = time.perf_counter if self._threads > 1 else time.thread_time
        start = clock()
        self.step(keys, before)
        self.rates.append(self._rows / (clock() - start) / 1e6)
        self._arrived = [first + len(own) for first, own in zip(self._arrived, keys, strict=True)]

    def close(self) -> None:
        """Frees both maps."""
        self._library.cm_free(self._join)


def mean(run: Run, seconds: float, most: int = 1 << 20) -> Run:
    """Lets a run go on for so many seconds, and for so many blocks at most; four at least."""
    start = time.monotonic()
    while len(run.rates) < most and (len(run.rates) < 4 or time.monotonic() - start < seconds):
        run.block()
    return run


THREE = {"PIM-Tree": PIM, "IM-Tree": IM, "B+-Tree": BPLUS}
