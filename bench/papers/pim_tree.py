"""The figures of "Parallel Index-based Stream Join on a Multicore CPU" (PIM-Tree), made again on the native core.

All contenders run under ``engine="shared"``: rows of both streams one by one, in their order of arrival, a whole block
of them handed to the core at once. One thread runs without locks unless a figure says otherwise. Keys are 32-bit
integers, and the band is set so that a row has two matches on average, as in the paper.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from bench.contenders.contender import Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers.figure import Figure, Finding, Scale, in_turns, ratios
from bench.papers.pim_runs import (
    B_CHAIN,
    BLOCK,
    BPLUS,
    IB_CHAIN,
    IM,
    NESTED,
    ONE_THREAD,
    PAPER,
    PIM,
    RATE,
    THREE,
    ConcurrentMap,
    Options,
    Run,
    both,
    faster,
    gamma,
    gaussian,
    mean,
    measure,
    some_window,
    threads_here,
    uniform,
    windows,
)  # fmt: skip
from bench.papers.pim_steps import fig_9b, fig_model


def fig_8a(scale: Scale) -> Figure:
    """Nested loops and B+-Trees, by one thread and by round robin over cores, and the Bw-Tree's stand-in."""
    threads = threads_here(scale)
    runs: dict[Any, Callable[[], Any]] = {}
    for window in windows(scale):
        few = min(BLOCK, max((1 << 27) // window, 256))  # of nested loops
        kinds: dict[str, Options] = {
            "nested loops": {**NESTED, "block_rows": few},
            f"nested loops, {threads} cores": {**NESTED, "splitjoin": threads, "block_rows": few},
            "B+-Tree": BPLUS,
            f"B+-Tree, {threads} cores": {**BPLUS, "splitjoin": threads},
        }
        for name, kind in kinds.items():
            runs[name, window] = partial(Run, both(window), **kind)
    others, note = _concurrent_map(scale, threads)
    points = measure({**runs, **others}, scale)
    turns = {(point["series"], point["x"]): point["turns"] for point in points}
    gains = [
        [
            statistics.fmean(ratios(turns[f"{name}, {threads} cores", window], turns[name, window]))
            for window in windows(scale)[1:]
        ]
        for name in ("nested loops", "B+-Tree")
    ]
    says = "what round robin gains nested loops over what it gains a B+-Tree, for each window but the least:"
    return Figure(
        PAPER, "8a", "existing approaches", "", "window [rows]", RATE, points, log_x=True, log_y=True,
        findings=[Finding(says, ratios(*gains), 8 / 2.5)],
        note=f"Round robin is SplitJoin, a local B+-Tree in each join core, with {threads} of them for the paper's 16 "
        f"threads. {ONE_THREAD} {note}",
    )  # fmt: skip


def _concurrent_map(scale: Scale, threads: int) -> tuple[dict[Any, Callable[[], Any]], str]:
    """Runs of oneTBB's map by window, and what is to be said of them, or why there are none."""
    try:
        compiled("concurrent_map", "tbb")
    except Unavailable as reason:
        first = str(reason).splitlines()[0]
        return {}, f"oneTBB's concurrent map, for the Bw-Tree, left out (Debian: apt install libtbb-dev): {first}"
    made: dict[Any, Callable[[], Any]] = {
        (f"oneTBB concurrent_map, {threads} threads", window): partial(
            ConcurrentMap, window, threads, block_rows=min(BLOCK, max(window // 4, 256))
        )
        for window in windows(scale)[: 2 if not scale.quick else None]
    }
    return made, (
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


def fig_9c(scale: Scale) -> Figure:
    """Merge ratio of IM-Tree."""
    return _merge_ratio(scale, 1, IM, "9c", "merge ratio of IM-Tree", "neither very low nor very high ratios do well")


def fig_9d(scale: Scale) -> Figure:
    """Merge ratio of PIM-Tree."""
    return _merge_ratio(scale, 1, PIM, "9d", "merge ratio of PIM-Tree", "as IM-Tree, and faster throughout")


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


@cache
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
    points = [
        {"series": point["series"], "x": point["x"], "y": point["latency_us"]["p50"]} for point in _task_sizes(scale)
    ]
    return Figure(
        PAPER, "10d", "task size and latency", "larger tasks and larger windows have a higher latency",
        "rows of a task", "median time from arrival to results [us]", points,
        note="Arrival is when the work queue of 16 tasks takes a row: at full load a row waits for those before it.",
    )  # fmt: skip


def fig_11a(scale: Scale) -> Figure:
    """Memory at its fullest: the mutable part before a merge, and the tree that is built in it."""
    points = []
    for window in windows(scale):
        for name, kind in (
            ("PIM-Tree, merge ratio 1", {**PIM, "merge_ratio": 1, "blocking": False}),
            ("B+-Tree", BPLUS),
        ):
            run = Run(both(window), block_rows=max(window // 16, 64), **kind)
            most = run.core.bytes
            for _ in range(40):  # two windows and a half: a merge of each side is among them
                run.block()
                most = max(most, run.core.bytes)
            points.append({"series": name, "x": window, "y": most / sum(both(window))})
    return Figure(
        PAPER, "11a", "memory", "", "window [rows]", "bytes of a row of the window", points, log_x=True,
        note="The most over two windows and a half of rows, between calls of a sixteenth of a window: the buffer of a "
        "merge in the background is in it. The B+-Tree counts its queue of rows in the order of arrival.",
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
        run = mean(Run(both(window), count, merge_ratio=ratio, **PIM), scale.seconds)
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

    def __init__(self, window: int):
        self.window, self.speed, self.mean = window, 0.0, 0.0

    def __call__(self, rng: np.random.Generator, count: int) -> np.ndarray:
        drift = self.mean + self.speed * np.arange(count) / self.window
        self.mean += self.speed * count / self.window
        return np.clip((rng.normal(0, 1, count) + drift) * 2**22, -(2**31), 2**31 - 1).astype(np.int32)


@cache
def _shifting(scale: Scale) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Of Fig. 13a and b the points, and how many parts a tree has: keys that stay, that shift, and that stay again."""
    window, speeds = 1 << (14 if scale.quick else 18), (0.0, 0.1, 0.2, 0.4, 0.6, 1.0)
    kind = {**PIM, "merge_ratio": 1, "insertion_depth": 2 if scale.quick else 3}
    runs: dict[float, Run] = {}
    for speed in speeds:
        keys = Shifting(window)
        runs[speed] = Run(both(window), threads_here(scale), keys=keys, self_join=True, block_rows=window // 4, **kind)
    spread, rates, parts = [], [], 0

    def block(run: Run) -> float:
        run.block()
        return run.rates[-1]

    for phase in ("before", "while keys shift", "after"):
        for speed, run in runs.items():
            run.keys.speed = speed if phase == "while keys shift" else 0.0  # type: ignore[attr-defined]
            for _ in range(4 if phase == "after" else 0):  # a window of keys that stay, which one merge at least sees
                run.block()
        found = in_turns({speed: partial(block, run) for speed, run in runs.items()}, 4 if scale.quick else 10)
        for speed, turns in found.items():
            rates.append({"series": phase, "x": speed, "y": statistics.harmonic_mean(turns), "turns": turns})
        if phase == "while keys shift":
            for speed, run in runs.items():
                rows = np.sort(run.core.figures(0)["partition_rows"])[::-1]
                parts, all_rows = len(rows), max(int(rows.sum()), 1)
                spread.append({"series": "the fullest part", "x": speed, "y": 100 * int(rows[0]) / all_rows})
                few = int((rows < all_rows / parts / 100).sum())
                spread.append({"series": "parts with almost none", "x": speed, "y": 100 * few / parts})
    return spread, rates, parts


def fig_13a(scale: Scale) -> Figure:
    """Spread of inserts over the parts."""
    points, _, parts = _shifting(scale)
    return Figure(
        PAPER, "13a", "spread of inserts while keys shift", "", "shift [deviations a window]", "% of rows, or of parts",
        points,
        note=f"{parts:,} parts, rows that came since the last merge; almost none: less than a hundredth of an even "
        "share. The paper's unit of the shift is not in its text at hand.",
    )  # fmt: skip


def fig_13b(scale: Scale) -> Figure:
    """Rate before, while and after keys shift."""
    _, points, parts = _shifting(scale)
    return Figure(
        PAPER, "13b", "rate while keys shift", "", "shift [deviations a window]", RATE, points,
        note=f"{parts:,} parts, {threads_here(scale)} threads where the paper has 16, which wait for one part's lock.",
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
