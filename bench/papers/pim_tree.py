"""The figures of "Parallel Index-based Stream Join on a Multicore CPU" (PIM-Tree), made again on the native core.

All contenders run under ``engine="shared"``: rows of both streams one by one, in their order of arrival, a whole block
of them handed to the core at once. One thread runs without locks unless a figure says otherwise. Keys are 32-bit
integers, and the band is set so that a row has two matches on average, as in the paper.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bench.contenders.contender import Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers.figure import Figure, Finding, Scale, in_turns, ratios
from muntin.host.native import _core

PAPER = "PIM-Tree"
BLOCK = 1 << 16  # rows of both streams that the core takes at once
RATE = "M rows/s"
Options = dict[str, Any]
PIM: Options = {"index": "pim_tree"}
IM: Options = {"index": "im_tree"}
BPLUS: Options = {"index": "bplus_tree"}
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
        The index and its parameters, and those of the engine.
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
        parameters = {name: value for name, value in options.items() if name not in ("index", *of_engine)}
        options_of_engine = {name: value for name, value in options.items() if name in of_engine}
        if threads == 1:
            options_of_engine.setdefault("blocking", True)
        self.clock = time.perf_counter if threads > 1 else time.thread_time
        self.core = _core.Engine(
            key_bits=32,
            index=options["index"],
            window=window,
            bands=[(_halves(1), _halves(1)) if band is None else (_halves(-band), _halves(band))],
            self_join=self_join,
            parameters=parameters,
            engine="shared",
            options=options_of_engine,
        )
        least = 1.0 if self_join else min(share, 1 - share)
        for _ in range(int(filled * max(window) / least / block_rows) + 1):
            self.block()
        self.core.report(reset=True)
        self.rates.clear()
        self.merges.clear()

    def block(self) -> None:
        """Hands the core some rows, and notes its rate in M rows/s, and the merges so far."""
        count = self.block_rows
        if self.self_join:
            rows = self.arrived[0] + np.arange(count)
            inputs = [_core.Input(self.keys(self.rng, count), first_row=self.arrived[0], opposite=rows)] * 2
            self.arrived = [self.arrived[0] + count] * 2
        else:
            left = self.rng.random(count) < self.share
            before = self.arrived[1] + np.cumsum(~left)[left], self.arrived[0] + np.cumsum(left)[~left]
            inputs = [
                _core.Input(self.keys(self.rng, len(opposite)), first_row=first, opposite=opposite)
                for first, opposite in zip(self.arrived, before, strict=True)
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


def measure(runs: Mapping[Any, Callable[..., Run]], scale: Scale) -> list[dict[str, Any]]:
    """A point for each run, by its series and place; the runs of one place take turns, block by block."""
    points = []
    for place in dict.fromkeys(at for _, at in runs):
        open_runs = {series: make() for (series, at), make in runs.items() if at == place}
        least = max(3, max(_blocks_of_a_merge(run) for run in open_runs.values()))
        start = time.monotonic()
        while (
            time.monotonic() - start < scale.seconds * len(open_runs)
            or len(next(iter(open_runs.values())).rates) < least
        ):
            for run in open_runs.values():
                run.block()
        for series, run in open_runs.items():
            report = run.core.report()
            points.append(
                {
                    **{"series": series, "x": place, "y": run.rate, "latency_us": _latency(report), "report": report},
                    "turns": run.rates,
                }
            )
    return points


def faster(points: list[dict[str, Any]], one: str, other: str, place: Any, paper: float | None = None) -> Finding:
    """That one series is faster than another at a place, block by block."""
    rates = {point["series"]: point["turns"] for point in points if point["x"] == place}
    where = f"{place:,}" if isinstance(place, int) else place
    return Finding(f"the rate of {one} over that of {other} at {where}:", ratios(rates[one], rates[other]), paper)


def _blocks_of_a_merge(run: Run) -> int:
    """Blocks in which every index is merged once at least, so that each rate has its share of merges."""
    figures: dict[str, Any] = run.core.figures(0)
    if "merges" not in figures:
        return 1
    return min(64, int(2 * figures["immutable_rows"] / 8 / BLOCK) + 1)


def _latency(report: dict[str, Any]) -> dict[str, float]:
    return {name: report[f"latency_{name}_us"] for name in ("p50", "p99", "max")}


def windows(scale: Scale) -> list[int]:
    """Window sizes of a figure."""
    return [1 << 12, 1 << 14] if scale.quick else [1 << 14, 1 << 17, 1 << 20, 1 << 23]


def some_window(scale: Scale) -> int:
    """The window of figures that have one: the paper's is 2**20."""
    return 1 << 14 if scale.quick else 1 << 20


def threads_here(scale: Scale) -> int:
    """Threads of figures that have several."""
    return max(2, _core.threads())


def both(window: int) -> tuple[int, int]:
    """Windows of one size."""
    return window, window


def fig_8a(scale: Scale) -> Figure:
    """Contenders by window."""
    threads = threads_here(scale)
    kinds = {"B+-Tree": (1, BPLUS), "B-chain, 2": (1, B_CHAIN), f"PIM-Tree, {threads} threads": (threads, PIM)}
    runs = {
        (name, window): lambda window=window, of=of, kind=kind: Run(both(window), of, **kind)
        for window in windows(scale)
        for name, (of, kind) in kinds.items()
    }
    others, note = _concurrent_map(scale, threads)
    return Figure(
        PAPER, "8a", "existing approaches", "round-robin partitioning gains 2.5 times with an index, 8 times without; "
        "it does not use the cores well for index joins", "window [rows]", RATE, measure(runs, scale) + others,
        log_x=True,
        note=f"{ONE_THREAD} Round-robin partitioning and handshake join are figures of SplitJoin here. {note}",
    )  # fmt: skip


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

    def step(self, keys: list[np.ndarray], opposite: list[np.ndarray]) -> int:
        """Joins rows of both streams, of each side keys (int32) and rows of the other one before it (int64); pairs."""
        lists = [(ctypes.c_void_p * 2)(*(array.ctypes.data for array in arrays)) for arrays in (keys, opposite)]
        return int(self._library.cm_step(self._join, *lists, (ctypes.c_int64 * 2)(*map(len, keys))))

    def block(self) -> None:
        """Joins some rows, and notes the rate in M rows/s."""
        left = self._rng.random(self._rows) < 0.5
        before = [self._arrived[1] + np.cumsum(~left)[left], self._arrived[0] + np.cumsum(left)[~left]]
        keys = [uniform(self._rng, len(opposite)) for opposite in before]
        clock = time.perf_counter if self._threads > 1 else time.thread_time
        start = clock()
        self.step(keys, before)
        self.rates.append(self._rows / (clock() - start) / 1e6)
        self._arrived = [first + len(own) for first, own in zip(self._arrived, keys, strict=True)]

    def close(self) -> None:
        """Frees both maps."""
        self._library.cm_free(self._join)


def _concurrent_map(scale: Scale, threads: int) -> tuple[list[dict[str, Any]], str]:
    """Points of oneTBB's map by window, and what is to be said of them, or why there are none."""
    points = []
    for window in windows(scale):
        if window > some_window(scale):  # minutes to fill
            continue
        try:
            run = ConcurrentMap(window, threads, block_rows=min(BLOCK, max(window // 4, 256)))
        except Unavailable as reason:
            first = str(reason).splitlines()[0]
            return [], f"oneTBB's concurrent map, for the Bw-Tree, left out (Debian: apt install libtbb-dev): {first}"
        start = time.monotonic()
        while time.monotonic() - start < scale.seconds or len(run.rates) < 3:
            run.block()
        run.close()
        rate = statistics.harmonic_mean(run.rates)
        points.append({"series": f"oneTBB concurrent_map, {threads} threads", "x": window, "y": rate})
    return points, (
        "For the Bw-Tree, of which there is no maintained package, stands oneTBB's concurrent_map: a skip list of one "
        "entry a node, from which one thread removes what has expired after each block. It takes minutes to fill "
        "larger windows, which are left out."
    )


def fig_8b(scale: Scale) -> Figure:
    """Chain length."""
    window = some_window(scale)
    runs = {
        (name, length): lambda kind=kind, length=length: Run(both(window), **{**kind, "length": length})
        for length in (2, 3, 5, 9, 17)
        for name, kind in (("B-chain", B_CHAIN), ("IB-chain", IB_CHAIN))
    }
    return Figure(
        PAPER, "8b", "chain length", "IB-chain is 50 % faster than B-chain on average; the shortest chain is best",
        "chain length", RATE, measure(runs, scale), note=ONE_THREAD,
    )  # fmt: skip


def _insertion_depth(scale: Scale, threads: int, number: str, claim: str) -> Figure:
    runs = {
        (f"{window:,} rows", depth): lambda window=window, depth=depth: Run(
            both(window), threads, **PIM, insertion_depth=depth
        )
        for depth in (1, 2, 3, 4)
        for window in windows(scale)[-2:]
    }
    points = measure(runs, scale)
    return Figure(
        PAPER, number, f"insertion depth, {threads} thread{'s'[: threads - 1]}", claim, "insertion depth", RATE, points,
        note=ONE_THREAD,
    )  # fmt: skip


def fig_8c(scale: Scale) -> Figure:
    """Insertion depth, one thread."""
    return _insertion_depth(scale, 1, "8c", "depends little on the window; the deepest feasible one is slower")


def fig_8d(scale: Scale) -> Figure:
    """Insertion depth, several threads."""
    return _insertion_depth(
        scale,
        threads_here(scale),
        "8d",
        "too few sub-indexes make threads wait for locks; no gain from three levels on",
    )


def _merge_ratio(scale: Scale, threads: int, kind: dict[str, Any], number: str, title: str, claim: str) -> Figure:
    runs = {
        (f"{window:,} rows", f"1/{part}"): lambda window=window, part=part: Run(
            both(window), threads, **kind, merge_ratio=1 / part
        )
        for part in (64, 16, 8, 4, 2, 1)
        for window in windows(scale)[-2:]
    }
    return Figure(PAPER, number, title, claim, "merge ratio", RATE, measure(runs, scale), note=ONE_THREAD)


def fig_9a(scale: Scale) -> Figure:
    """Merge ratio, several threads."""
    return _merge_ratio(
        scale,
        threads_here(scale),
        PIM,
        "9a",
        "merge ratio of PIM-Tree, threads",
        "with threads the highest ratio is best",
    )


def _mean(run: Run, seconds: float, most: int = 1 << 20) -> Run:
    """Lets a run go on for so many seconds, and for so many blocks at most; four at least."""
    start = time.monotonic()
    while len(run.rates) < most and (len(run.rates) < 4 or time.monotonic() - start < seconds):
        run.block()
    return run


def steps_of(kind: dict[str, Any], window: int, seconds: float) -> dict[str, float]:
    """Nanoseconds that each step takes of a row: insert, delete, search, scan, merge.

    Each is the difference of two runs: rows that are stored in a window that has room for them; in one from which as
    many expire; that probe and match nothing; and that match two rows. A merge is told by the blocks it falls into.
    """
    block = max(window // 64, 256)
    even: Keys = lambda rng, count: uniform(rng, count) & ~1  # noqa: E731 (no key is one more than another)
    ratio = kind.get("merge_ratio", 1 / 8)
    # In a window twice as long, half of it filled: as many rows, and as many to a merge.
    wide = Run((2 * window, 2 * window), matches=0, probing=False, block_rows=block, filled=0.5,
               **{**kind, "merge_ratio": ratio / 2})  # fmt: skip
    stored = _mean(wide, seconds, most=window // block).ns(merging=False)
    same = {**kind, "merge_ratio": ratio, "block_rows": block}
    sliding = _mean(Run(both(window), matches=0, probing=False, **same), seconds).ns(merging=False)
    searched = _mean(Run(both(window), keys=even, matches=0, **same), seconds).ns(merging=False)
    whole = _mean(Run(both(window), matches=2, **same), seconds, most=1 << 20)
    scanned, merged = whole.ns(merging=False), whole.ns(merging=True)
    return {
        "insert": min(stored, sliding),
        "delete": max(sliding - stored, 0.0) if kind == BPLUS else 0.0,
        "search": max(searched - sliding, 0.0),
        "scan": max(scanned - searched, 0.0),
        "merge": max(merged - scanned, 0.0),
    }


def fig_9b(scale: Scale) -> Figure:
    """Cost of each step."""
    sizes = windows(scale)
    points = [
        {"series": step, "x": f"{name}, {window:,}", "y": value}
        for window in (sizes[0], sizes[-1 if scale.quick else -2])
        for name, kind in THREE.items()
        for step, value in steps_of(kind, window, scale.seconds / 4).items()
    ]
    return Figure(
        PAPER, "9b", "cost of each step", "merges are 7 and 11 % of the work; IM-Tree and PIM-Tree insert 1.5 and 2.6 "
        "times as fast as B+-Tree; B+-Tree searches 75 % faster in the small window, about as fast in the large one",
        "index and window [rows]", "ns of a row", points,
        note="Each step is the difference of two runs of one thread, with and without it: stored rows, rows that "
        "expire, probes that match nothing, probes that match two rows, blocks with merges. What a row costs beside "
        "the index lies in insert and search. IM-Tree and PIM-Tree delete as they merge.",
    )  # fmt: skip


COSTS = ("beside the index", "search, a level", "scan, a row", "delete, a level", "insert, a level",
         "search of the immutable tree, a level", "merge, a row")  # fmt: skip
_FAN_OUT = {"inner": 0.7 * 31, "immutable": 16.0}  # of keys of 32 bits; nodes of a B+-Tree are 70 % full


def _levels(rows: float, fan_out: float) -> float:
    return max(1.0, float(np.log(max(rows, 2)) / np.log(fan_out)))


def equation(name: str, window: int, matches: float, *, ratio: float = 1 / 8, length: int = 2, cores: int = 4,
             depth: int = 2) -> np.ndarray:  # fmt: skip
    """How much of each of `COSTS` a row takes, shape (7,): equations 2 to 6, each the sum that equation 1 is of.

    Source: PIM-Tree, sections 2.2.1 to 2.2.3, 3.2.1 and 3.3.2, as their text derives them. Matches that have expired
    are scanned too: half a sub-index of a chain, half of what is merged at a time.
    """
    inner, immutable = _FAN_OUT["inner"], _FAN_OUT["immutable"]
    if name == "B+-Tree":  # 2
        height = _levels(window, inner)
        return np.array([1, height, matches, height, height, 0, 0])
    if name == "B-chain":  # 3
        height = _levels(window / (length - 1), inner)
        return np.array([1, length * height, matches * (1 + 0.5 / (length - 1)), 0, height, 0, 0])
    if name == "round robin":  # 4
        height = _levels(window / cores, inner)
        return np.array([1, cores * height, matches, height, height, 0, 0])
    merged, scanned = 1 + 1 / ratio, matches * (1 + ratio / 2)
    whole = _levels(window, immutable)
    if name == "IM-Tree":  # 5
        height = _levels(ratio * window / 2, inner)
        return np.array([1, height, scanned, 0, height, whole, merged])
    if name == "PIM-Tree":  # 6
        height = _levels(ratio * window / 2 / immutable**depth, inner)
        return np.array([1, height, scanned, 0, height, whole + depth, merged])
    raise ValueError(f"there is no equation of {name!r}")


def fit(terms: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Costs, none below 0, with the least squares of relative errors.

    Parameters
    ----------
    terms : ndarray of float64, shape (n, m)
    measured : ndarray of float64, shape (n,)

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    scaled, costs = terms / measured[:, None], np.zeros(terms.shape[1])
    some = list(range(terms.shape[1]))
    while some:
        found = np.linalg.lstsq(scaled[:, some], np.ones(len(measured)), rcond=None)[0]
        if (found >= 0).all():
            costs[some] = found
            break
        del some[int(found.argmin())]
    return costs


def fig_model(scale: Scale) -> Figure:
    """The cost model, fitted."""
    kinds = {"B+-Tree": BPLUS, "B-chain": B_CHAIN, "IM-Tree": IM, "PIM-Tree": PIM}
    asked = [(name, window, 2, 1 / 8) for window in windows(scale) for name in kinds]
    asked += [(name, windows(scale)[-1], 2, 1 / part) for part in (32, 2) for name in ("IM-Tree", "PIM-Tree")]
    asked += [(name, windows(scale)[0], 64, 1 / 8) for name in kinds]
    measured = [
        _mean(Run(both(window), matches=matches, **{**kinds[name], "merge_ratio": ratio}), scale.seconds / 4)
        for name, window, matches, ratio in asked
    ]
    ns = np.array([run.ns(merging=True) for run in measured])
    costs = fit(np.array([equation(name, window, of, ratio=ratio) for name, window, of, ratio in asked]), ns)
    points = []
    for (name, window, matches, ratio), value in zip(asked, ns, strict=True):
        if (matches, ratio) == (2, 1 / 8):
            points.append({"series": name, "x": window, "y": float(value)})
    for name in (*kinds, "round robin"):
        for window in windows(scale):
            series = f"{name}, model"
            points.append({"series": series, "x": window, "y": float(equation(name, window, 2) @ costs)})
    off = [abs(equation(name, w, of, ratio=r) @ costs / value - 1) for (name, w, of, r), value in
           zip(asked, ns, strict=True)]  # fmt: skip
    fitted = ", ".join(f"{name} {cost:.3g} ns" for name, cost in zip(COSTS, costs, strict=True))
    return Figure(
        PAPER, "model", "the cost model of equations 1 to 6, fitted", "searches, inserts and deletes cost in "
        "proportion to the height of what is searched, merges in proportion to the rows merged", "window [rows]",
        "ns of a row", points, log_x=True,
        note=f"Fitted: {fitted}; off by {np.mean(off):.0%} on average and {np.max(off):.0%} at most. The model "
        "knows no caches, in which a level of a small tree costs less. Round robin (four cores, all their work) "
        "is predicted.",
    )  # fmt: skip


def fig_9c(scale: Scale) -> Figure:
    """Merge ratio of IM-Tree."""
    return _merge_ratio(scale, 1, IM, "9c", "merge ratio of IM-Tree", "neither very low nor very high ratios do well")


def fig_9d(scale: Scale) -> Figure:
    """Merge ratio of PIM-Tree."""
    return _merge_ratio(scale, 1, PIM, "9d", "merge ratio of PIM-Tree", "as IM-Tree, and faster throughout")


THREE = {"PIM-Tree": PIM, "IM-Tree": IM, "B+-Tree": BPLUS}


def fig_10a(scale: Scale) -> Figure:
    """B+-Tree, IM-Tree and PIM-Tree by window."""
    runs = {
        (name, window): lambda window=window, kind=kind: Run(both(window), **kind)
        for window in windows(scale)
        for name, kind in THREE.items()
    }
    points = measure(runs, scale)
    rates = {(point["series"], point["x"]): point["y"] for point in points}
    gains = {
        name: statistics.mean(rates[name, window] / rates["B+-Tree", window] - 1 for window in windows(scale))
        for name in ("IM-Tree", "PIM-Tree")
    }
    return Figure(
        PAPER, "10a", "one thread", "IM-Tree is 50 % and PIM-Tree 63 % faster than B+-Tree on average",
        "window [rows]", RATE, points, log_x=True,
        note=f"IM-Tree is {gains['IM-Tree']:.0%} and PIM-Tree {gains['PIM-Tree']:.0%} faster here. The search of the "
        f"immutable tree asks for a whole task's nodes before it reads them. {ONE_THREAD}",
    )  # fmt: skip


def fig_10b(scale: Scale) -> Figure:
    """Match rate."""
    window, threads = some_window(scale), threads_here(scale)
    kinds = {name: (1, kind) for name, kind in THREE.items()} | {f"PIM-Tree, {threads} threads": (threads, PIM)}
    runs = {
        (name, matches): lambda kind=kind, of=of, matches=matches: Run(both(window), of, matches=matches, **kind)
        for matches in (1, 8, 64, 512)
        for name, (of, kind) in kinds.items()
    }
    return Figure(
        PAPER, "10b", "match rate", "varies little up to some matches a row; beyond, memory bandwidth binds all",
        "matches of a row", RATE, measure(runs, scale), log_x=True, log_y=True, note=ONE_THREAD,
    )  # fmt: skip


def _task_sizes(scale: Scale) -> list[dict[str, Any]]:
    threads = threads_here(scale)
    runs = {
        (f"{window:,} rows", size): lambda window=window, size=size: Run(both(window), threads, **PIM, task_size=size)
        for size in (1, 2, 4, 8, 16)
        for window in windows(scale)[-2:]
    }
    return measure(runs, scale)


def fig_10c(scale: Scale) -> Figure:
    """Task size and rate."""
    return Figure(
        PAPER, "10c", "task size and rate", "rises to a task size of four to eight, then stays", "rows of a task", RATE,
        _task_sizes(scale), note=ONE_THREAD,
    )  # fmt: skip


def fig_10d(scale: Scale) -> Figure:
    """Task size and latency."""
    points = [point | {"y": point["latency_us"]["p50"]} for point in _task_sizes(scale)]
    return Figure(
        PAPER, "10d", "task size and latency", "larger tasks and larger windows have a higher latency",
        "rows of a task", "median time from arrival to results [us]", points,
        note="Arrival is when the work queue of 16 tasks takes a row: at full load a row waits for those before it.",
    )  # fmt: skip


def fig_11a(scale: Scale) -> Figure:
    """Memory."""
    points = []
    for window in windows(scale):
        for name, kind in (("PIM-Tree, merge ratio 1", {**PIM, "merge_ratio": 1}), ("B+-Tree", BPLUS)):
            run = Run(both(window), **kind)
            points.append({"series": name, "x": window, "y": run.core.bytes / sum(both(window))})
    return Figure(
        PAPER, "11a", "memory", "PIM-Tree takes almost double the space of a B+-Tree", "window [rows]",
        "bytes of a row of the window", points, log_x=True,
        note="Without the buffer of a merge, which takes as much as the immutable tree while it runs. The B+-Tree "
        "counts its queue of rows in the order of arrival.",
    )  # fmt: skip


def fig_11b(scale: Scale) -> Figure:
    """Asymmetric rates."""
    threads = threads_here(scale)
    runs = {
        (f"{window:,} rows", f"{share:.0%}"): lambda window=window, share=share: Run(
            both(window), threads, share=share, **PIM
        )
        for share in (0.5, 0.6, 0.75, 0.9)
        for window in windows(scale)[:3][-2:]
    }
    return Figure(
        PAPER, "11b", "asymmetric rates", "rises slightly with the skew of the input rates", "share of left rows", RATE,
        measure(runs, scale),
    )  # fmt: skip


def fig_11c(scale: Scale) -> Figure:
    """Asymmetric windows."""
    threads, sizes = threads_here(scale), windows(scale)[:3]
    runs = {
        (f"right {right:,} rows", left): lambda left=left, right=right: Run((left, right), threads, **PIM)
        for left in sizes
        for right in sizes
    }
    return Figure(
        PAPER, "11c", "asymmetric windows", "falls as one window grows, less than where both do",
        "left window [rows]", RATE, measure(runs, scale), log_x=True,
    )  # fmt: skip


def _copied_a_second() -> float:
    """Bytes a second that one thread reads and writes when it copies memory; the best of some turns."""
    source = np.ones(1 << 23)
    target, best = np.empty_like(source), float("inf")
    for _ in range(5):
        start = time.thread_time()
        np.copyto(target, source)
        best = min(best, time.thread_time() - start)
    return 2 * source.nbytes / best


def fig_11d(scale: Scale) -> Figure:
    """Bandwidth of memory."""
    window, most = some_window(scale), threads_here(scale)
    counts = sorted({1, 2, *(1 << power for power in range(most.bit_length())), most})
    ratio, points = 1.0, []
    bandwidth = _copied_a_second()
    shares = []
    for count in (count for count in counts if count <= most):
        run = _mean(Run(both(window), count, merge_ratio=ratio, **PIM), scale.seconds)
        figures: dict[str, Any] = run.core.figures(0)
        # Lines of 64 bytes: the nodes of a search and of an insert, and a line of items at the end of each; merges read
        # and write items of 8 bytes in sequence.
        nodes = figures["depth"] + figures["insertion_depth"] + 2  # of the immutable tree, and of a small B+-Tree each
        merged = 8 * (1 + 1 / ratio)
        loads, stores = 64 * (nodes + 3) + merged, 64 + merged
        for name, size in (("loads (estimated)", loads), ("stores (estimated)", stores)):
            points.append({"series": name, "x": str(count), "y": size * run.rate * 1e6 / 1e9})
        shares.append(stores / (loads + stores))
    return Figure(
        PAPER, "11d", "bandwidth of memory", "22 % of the bandwidth goes to stores with one thread, 16 % with more, as "
        "more threads scan more rows that are not indexed yet", "threads", "GB/s", points,
        note="Estimated, as the counters of a processor's memory are not for every user: the cache lines that a row's "
        f"search and insert touch, and the items of merges, times the measured rate. Stores are {shares[0]:.0%} of it; "
        f"that lines are found in the caches, and rows scanned, is left out. One thread copies {bandwidth / 1e9:.1f} "
        f"GB/s here, reads and writes together. {ONE_THREAD}",
    )  # fmt: skip


def fig_12a(scale: Scale) -> Figure:
    """Cost of concurrency control, and threads."""
    window, most = some_window(scale), threads_here(scale)
    counts = sorted({1, 2, *(1 << power for power in range(most.bit_length())), most} - {0})
    runs: dict[tuple[str, Any], Callable[..., Run]] = {}
    for name, self_join in (("two streams", False), ("self join", True)):
        runs[name, "1, no locks"] = lambda self_join=self_join: Run(both(window), self_join=self_join, **PIM)
        for count in (count for count in counts if count <= most):
            runs[name, str(count)] = lambda self_join=self_join, count=count: Run(
                both(window), count, self_join=self_join, locks="always", **PIM
            )
    points = measure(runs, scale)
    rates = {(point["series"], point["x"]): point["y"] for point in points}
    cost = {name: 1 - rates[name, "1"] / rates[name, "1, no locks"] for name in ("two streams", "self join")}
    gain = {name: rates[name, "2"] / rates[name, "1"] for name in cost}
    return Figure(
        PAPER, "12a", "concurrency control and threads", "locks cost 40 %, in a self join 26 %; 8 threads are 4.6 and "
        "4 times as fast as one with locks", "threads", RATE, points,
        note=f"Locks cost {cost['two streams']:.0%}, in a self join {cost['self join']:.0%}; two threads are "
        f"{gain['two streams']:.2f} and {gain['self join']:.2f} times as fast as one with locks. {ONE_THREAD}",
    )  # fmt: skip


def fig_12b(scale: Scale) -> Figure:
    """Distributions of keys."""
    window, threads = some_window(scale), threads_here(scale)
    kinds = {
        "uniform": uniform,
        "Gaussian (0.5, 0.125)": gaussian,
        "Gamma (3, 3)": gamma(3, 3),
        "Gamma (1, 5)": gamma(1, 5),
    }
    runs = {
        (f"{of} thread{'s'[: of - 1]}", name): lambda keys=keys, of=of: Run(both(window), of, keys=keys, **PIM)
        for name, keys in kinds.items()
        for of in (1, threads)
    }
    return Figure(
        PAPER, "12b", "distributions of keys", "uniform keys are 2 to 4 % faster than the others", "keys", RATE,
        measure(runs, scale), note=ONE_THREAD,
    )  # fmt: skip


def fig_12c(scale: Scale) -> Figure:
    """Self join."""
    threads = threads_here(scale)
    kinds = {name: (1, kind) for name, kind in THREE.items() if name != "IM-Tree"}
    kinds[f"PIM-Tree, {threads} threads"] = threads, PIM
    runs = {
        (name, window): lambda kind=kind, of=of, window=window: Run(both(window), of, self_join=True, **kind)
        for window in windows(scale)
        for name, (of, kind) in kinds.items()
    }
    return Figure(
        PAPER, "12c", "self join", "16 threads are 7 and 4 times as fast as one with B+-Tree and with PIM-Tree, for "
        "large windows", "window [rows]", RATE, measure(runs, scale), log_x=True, note=ONE_THREAD,
    )  # fmt: skip


class Shifting:
    """Keys of a Gaussian whose mean moves by so many deviations while a window's rows arrive."""

    def __init__(self, window: int, speed: float):
        self.window, self.speed, self.mean = window, speed, 0.0

    def __call__(self, rng: np.random.Generator, count: int) -> np.ndarray:
        drift = self.mean + self.speed * np.arange(count) / self.window
        if count == BLOCK:  # the sample that sets the band is fixed
            self.mean += self.speed * count / self.window
        return np.clip((rng.normal(0, 1, count) + drift) * 2**22, -(2**31), 2**31 - 1).astype(np.int32)


def _shifting(scale: Scale) -> dict[float, Run]:
    window, runs = 1 << 14 if scale.quick else 1 << 18, {}
    for speed in (0.0, 0.1, 0.2, 0.4, 0.6, 1.0):
        run = Run(both(window), threads_here(scale), keys=Shifting(window, speed), self_join=True, merge_ratio=1, **PIM)
        for _ in range(3 if scale.quick else 8):
            run.block()
        runs[speed] = run
    return runs


def fig_13a(scale: Scale) -> Figure:
    """Spread of inserts over the parts."""
    points = []
    for speed, run in _shifting(scale).items():
        rows = np.sort(run.core.figures(0)["partition_rows"])[::-1]
        for share in (0.01, 0.1, 0.5):
            most = rows[: max(1, round(share * len(rows)))].sum() / max(rows.sum(), 1)
            points.append({"series": f"fullest {share:.0%} of the parts", "x": speed, "y": 100 * most})
    return Figure(
        PAPER, "13a", "spread of inserts while keys shift", "at the fastest shift one part takes 77 % of the inserts, "
        "and 70 % of the parts almost none", "shift [deviations per window]", "% of inserts", points,
    )  # fmt: skip


def fig_13b(scale: Scale) -> Figure:
    """Rate while keys shift."""
    points = [{"series": "PIM-Tree", "x": speed, "y": run.rate} for speed, run in _shifting(scale).items()]
    return Figure(
        PAPER, "13b", "rate while keys shift", "slow shifts cost nothing, fast ones bring the rate down to 16 %",
        "shift [deviations per window]", RATE, points,
        note="The paper's fall comes from 16 threads that wait for one part's lock; there are fewer threads here.",
    )  # fmt: skip


def _merges(scale: Scale) -> list[dict[str, Any]]:
    threads = threads_here(scale)
    kinds = {
        "nonblocking": (threads, PIM),
        "blocking": (threads, {**PIM, "blocking": True}),
        "one thread, no locks": (1, PIM),
        "one thread, B+-Tree": (1, BPLUS),
    }
    runs = {
        (name, window): lambda kind=kind, of=of, window=window: Run(both(window), of, **kind)
        for window in windows(scale)
        for name, (of, kind) in kinds.items()
    }
    return measure(runs, scale)


def call_times(calls: int, rows: int = 512, window: int = 1 << 17) -> dict[str, list[float]]:
    """For each way to merge, the 99th percentile of what calls of some rows take of their thread's time, turn by turn.

    Each side is merged once in some 64 of these calls, so that merges are in the percentile.
    """
    kinds = {"nonblocking": {**PIM, "blocking": False}, "blocking": {**PIM, "blocking": True}}
    runs = {name: Run(both(window), block_rows=1 << 15, **kind) for name, kind in kinds.items()}

    def p99(run: Run) -> float:
        run.block_rows = rows
        run.rates.clear()
        for _ in range(calls):
            run.block()
        return float(np.quantile([rows / 1e6 / rate for rate in run.rates], 0.99))

    return in_turns({name: partial(p99, run) for name, run in runs.items()}, 5)


def fig_13c(scale: Scale) -> Figure:
    """Blocking and nonblocking merge, with latency."""
    points = _merges(scale)
    latency = {
        name: ", ".join(f"{p['latency_us']['p99']:,.0f} us at {p['x']:,} rows" for p in points if p["series"] == name)
        for name in ("nonblocking", "blocking")
    }
    times = call_times(300 if scale.quick else 3000)
    longer = ratios(times["blocking"], times["nonblocking"])
    findings = [
        Finding("p99 of a call of 512 rows, blocking over nonblocking:", longer),
        faster(points, "blocking", "nonblocking", windows(scale)[-1]),
    ]  # fmt: skip
    return Figure(
        PAPER, "13c", "blocking and nonblocking merge", "both are about as fast, the blocking one slightly more so; 16 "
        "threads are 7.5 and 3.7 times as fast as one with B+-Tree and with PIM-Tree", "window [rows]", RATE, points,
        log_x=True, findings=findings,
        note=f"p99 of a call of 512 rows, time of its thread, windows of 2^17: "
        f"{1e6 * statistics.median(times['nonblocking']):,.0f} us nonblocking, "
        f"{1e6 * statistics.median(times['blocking']):,.0f} blocking; p99 from arrival to "
        f"results, nonblocking: {latency['nonblocking']}; blocking: {latency['blocking']}. "
        f"{ONE_THREAD}",
    )  # fmt: skip


FIGURES = [
    fig_8a, fig_8b, fig_8c, fig_8d, fig_9a, fig_9b, fig_9c, fig_9d, fig_10a, fig_10b, fig_10c, fig_10d, fig_11a,
    fig_11b, fig_11c, fig_11d, fig_12a, fig_12b, fig_12c, fig_13a, fig_13b, fig_13c,
    fig_model,
]  # fmt: skip
