"""How contenders of a cell compare."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator

from bench.plan import device_kind
from bench.workloads import size


def ratio(cell: dict, above: str, below: str) -> float | None:
    """How many times faster one contender is than another: the median over the turns that measured both.

    Returns None where the cell lacks one of them.
    """
    contenders = cell["contenders"]
    if above not in contenders or below not in contenders:
        return None
    rates = zip(contenders[above]["rates"], contenders[below]["rates"], strict=False)
    return statistics.median(a / b for a, b in rates)


def median_interval(values: Iterable[float]) -> tuple[float, float]:
    """The interval that has the median of what `values` were drawn from in 95 of 100 cases, whatever its distribution.

    By ranks: as many values lie below the median as heads fall. Of fewer than six values it is all they span.
    """
    ordered = sorted(values)
    count = len(ordered)
    rank, below = -1, 0.0  # below: how likely it is that only so many lie below the median
    while (below := below + math.comb(count, rank + 1) / 2**count) <= 0.025:
        rank += 1
    rank = max(rank, 0)
    return ordered[rank], ordered[-1 - rank]


def cell_name(cell: dict) -> str:
    """Workload, window and batch."""
    return f"{cell['workload']}, {size(cell['window'])}, {size(cell['batch'])}"


def ratios(cells: Iterable[dict], above: str, below: str) -> Iterator[tuple[float, dict]]:
    """That of every cell that has both, with the cell."""
    for cell in cells:
        value = ratio(cell, above, below)
        if value is not None:
            yield value, cell


def tail(cell: dict, name: str) -> float:
    """The time that 99 of 100 calls of a contender keep, over the median call."""
    call = cell["contenders"][name]["call_ms"]
    return call["p99"] / call["median"]


def memory(cell: dict, name: str) -> float | None:
    """Device bytes of a contender over those of its content, at their most; None where it cannot tell."""
    found = cell["contenders"][name]["memory"]
    return found["used"] / found["content"] if found.get("content") else None


def main_contender(cells: Iterable[dict]) -> str | None:
    """The contender that ratios are given for: the first device measured, with its default index if that was."""
    names = [name for cell in cells for name in cell["contenders"] if device_kind(name)]
    return next((name for name in names if "/bisort" not in name), names[0] if names else None)
