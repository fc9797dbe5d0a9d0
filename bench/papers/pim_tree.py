"""The figures of "Parallel Index-based Stream Join on a Multicore CPU" (PIM-Tree), made again on the native core.

All contenders run under ``engine="shared"``: rows of both streams one by one, in their order of arrival, a whole block
of them handed to the core at once. One thread runs without locks unless a figure says otherwise. Keys are 32-bit
integers, and the band is set so that a row has two matches on average, as in the paper.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.papers.figure import Figure, Scale
from host.native import _core

PAPER = "PIM-Tree"
BLOCK = 1 << 16  # rows of both streams that the core takes at once
RATE = "M rows/s"
PIM, IM, BPLUS = {"index": "pim_tree"}, {"index": "im_tree"}, {"index": "bplus_tree"}
B_CHAIN, IB_CHAIN = {"index": "b_chain", "length": 2}, {"index": "ib_chain", "length": 2}
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
        1: without locks, unless `options` has ``concurrency=1``.
    keys : function
        Draws keys.
    matches : float
        A row's matches, on average, in a window of the first size.
    share : float
        Of rows that are left ones.
    self_join : bool
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
        **options: Any,
    ):
        self.threads, self.self_join, self.share, self.keys = threads, self_join, share, keys
        self.rng = np.random.default_rng(1)
        self.arrived = [0, 0]
        self.rates: list[float] = []
        band = band_for(keys, max(window), matches)
        parameters = {name: float(value) for name, value in options.items() if name != "index"}
        self.core = _core.Engine(
            key_bits=32,
            index=options["index"],
            window=window,
            bands=[(_halves(-band), _halves(band))],
            self_join=self_join,
            parameters=parameters,
            engine="shared",
        )
        fill = max(window) + max(window) // 4
        least = 1.0 if self_join else min(share, 1 - share)
        for _ in range(int(fill / least / BLOCK) + 1):
            self.block()
        self.core.report(reset=True)
        self.rates.clear()

    def block(self) -> None:
        """Hands the core some rows, and notes its rate in M rows/s."""
        if self.self_join:
            rows = self.arrived[0] + np.arange(BLOCK)
            inputs = [_core.Input(self.keys(self.rng, BLOCK), first_row=self.arrived[0], opposite=rows)] * 2
            self.arrived = [self.arrived[0] + BLOCK] * 2
        else:
            left = self.rng.random(BLOCK) < self.share
            before = self.arrived[1] + np.cumsum(~left)[left], self.arrived[0] + np.cumsum(left)[~left]
            inputs = [
                _core.Input(self.keys(self.rng, len(opposite)), first_row=first, opposite=opposite)
                for first, opposite in zip(self.arrived, before, strict=True)
            ]
            self.arrived = [first + len(of) for first, of in zip(self.arrived, before, strict=True)]
        clock = time.perf_counter if self.threads > 1 else time.thread_time
        start = clock()
        self.core.step(*inputs, whole=True, threads=self.threads)
        self.rates.append(BLOCK / (clock() - start) / 1e6)

    @property
    def rate(self) -> float:
        """The rate over all blocks since it was filled, merges and their share of blocks included."""
        return statistics.harmonic_mean(self.rates)


def _halves(value: int) -> tuple[int, int]:
    return value >> 64, value & (2**64 - 1)


def measure(runs: dict[tuple[str, Any], Callable[[], Run]], scale: Scale) -> list[dict[str, Any]]:
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
                {"series": series, "x": place, "y": run.rate, "latency_us": _latency(report), "report": report}
            )
    return points


def _blocks_of_a_merge(run: Run) -> int:
    """Blocks in which every index is merged once at least, so that each rate has its share of merges."""
    figures = run.core.figures(0)
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
    return Figure(
        PAPER, "8a", "existing approaches", "round-robin partitioning gains 2.5 times with an index, 8 times without; "
        "it does not use the cores well for index joins", "window [rows]", RATE, measure(runs, scale), log_x=True,
        note=f"{ONE_THREAD} Round-robin partitioning and handshake join are figures of SplitJoin here. Left out: the "
        f"Bw-Tree, of which there is no maintained package; {_tbb()}",
    )  # fmt: skip


def _tbb() -> str:
    return (
        "oneTBB's concurrent ordered map in its place cannot remove rows beside other threads (its erase is "
        "unsafe_erase), which a sliding window needs for every row."
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


def fig_12a(scale: Scale) -> Figure:
    """Cost of concurrency control, and threads."""
    window, most = some_window(scale), threads_here(scale)
    counts = sorted({1, 2, *(1 << power for power in range(most.bit_length())), most} - {0})
    runs: dict[tuple[str, Any], Callable[[], Run]] = {}
    for name, self_join in (("two streams", False), ("self join", True)):
        runs[name, "1, no locks"] = lambda self_join=self_join: Run(both(window), self_join=self_join, **PIM)
        for count in (count for count in counts if count <= most):
            runs[name, str(count)] = lambda self_join=self_join, count=count: Run(
                both(window), count, self_join=self_join, concurrency=1, **PIM
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
        "blocking": (threads, {**PIM, "blocking": 1}),
        "one thread, no locks": (1, PIM),
        "one thread, B+-Tree": (1, BPLUS),
    }
    runs = {
        (name, window): lambda kind=kind, of=of, window=window: Run(both(window), of, **kind)
        for window in windows(scale)
        for name, (of, kind) in kinds.items()
    }
    return measure(runs, scale)


def fig_13c(scale: Scale) -> Figure:
    """Blocking and nonblocking merge, with latency."""
    points = _merges(scale)
    latency = {
        name: ", ".join(f"{p['latency_us']['p99']:,.0f} us at {p['x']:,} rows" for p in points if p["series"] == name)
        for name in ("nonblocking", "blocking")
    }
    return Figure(
        PAPER, "13c", "blocking and nonblocking merge", "both are about as fast, the blocking one slightly more so; 16 "
        "threads are 7.5 and 3.7 times as fast as one with B+-Tree and with PIM-Tree", "window [rows]", RATE, points,
        log_x=True,
        note=f"p99 from arrival to results, nonblocking: {latency['nonblocking']}; blocking: {latency['blocking']}. "
        f"{ONE_THREAD}",
    )  # fmt: skip


FIGURES = [
    fig_8a, fig_8b, fig_8c, fig_8d, fig_9a, fig_9c, fig_9d, fig_10a, fig_10b, fig_10c, fig_10d, fig_11a, fig_11b,
    fig_11c, fig_12a, fig_12b, fig_12c, fig_13a, fig_13b, fig_13c,
]  # fmt: skip
