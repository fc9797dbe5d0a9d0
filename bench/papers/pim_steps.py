"""PIM-Tree, Fig. 9b and its cost model: what each step of a row takes."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

from bench.papers.figure import Figure, Scale, in_turns
from bench.papers.pim_runs import (
    B_CHAIN,
    BPLUS,
    IM,
    PAPER,
    PIM,
    THREE,
    TURNS,
    Keys,
    Options,
    Run,
    blocks_of_a_merge,
    both,
    mean,
    uniform,
    windows,
)


def merged_at(kind: Options, ratio: float) -> Options:
    """An index with a merge ratio, where it has one."""
    return kind | ({"merge_ratio": ratio} if kind["index"] in ("im_tree", "pim_tree") else {})


def steps_of(kind: dict[str, Any], window: int, seconds: float) -> dict[str, float]:
    """Nanoseconds that each step takes of a row: insert, delete, search, scan, merge.

    Each is the difference of two runs: rows that are stored in a window that has room for them; in one from which as
    many expire; that probe and match nothing; and that match two rows. A merge shows in the blocks it falls into.
    """
    block = max(window // 64, 32)
    even: Keys = lambda rng, count: uniform(rng, count) & ~1  # noqa: E731 (no key is one more than another)
    ratio = kind.get("merge_ratio", 1 / 8)
    # In a window twice as long, half of it filled: as many rows, and as many to a merge.
    wide = Run((2 * window, 2 * window), matches=0, probing=False, block_rows=block, filled=0.5,
               **merged_at(kind, ratio / 2))  # fmt: skip
    stored = mean(wide, seconds, most=window // block).ns(merging=False)
    same = {**merged_at(kind, ratio), "block_rows": block}
    sliding = mean(Run(both(window), matches=0, probing=False, **same), seconds).ns(merging=False)
    searched = mean(Run(both(window), keys=even, matches=0, **same), seconds).ns(merging=False)
    whole = mean(Run(both(window), matches=2, **same), seconds, most=1 << 20)
    while len(whole.rates) < 2 * blocks_of_a_merge(whole):
        whole.block()
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
    found = in_turns(
        {
            (name, window): partial(steps_of, kind, window, scale.seconds / 8)
            for window in (sizes[0], sizes[-1])
            for name, kind in THREE.items()
        },
        TURNS,
    )
    points = []
    for (name, window), turns in found.items():
        for step in ("insert", "delete", "search", "scan", "merge", "all"):
            values = [max(sum(of.values()) if step == "all" else of[step], 1e-3) for of in turns]
            points.append({"series": f"{name}, {step}", "x": window, "y": statistics.median(values), "turns": values})
    return Figure(
        PAPER, "9b", "cost of each step", "", "window [rows]", "ns of a row", points, log_x=True, log_y=True,
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
        mean(Run(both(window), matches=matches, **merged_at(kinds[name], ratio)), scale.seconds / 4)
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
