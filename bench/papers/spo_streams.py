"""The streams of SPO-Join's figures: their queries, and an engine over one of them.

Data are generated, as the paper's own synthetic sets are: Q1 (two streams, power below and cooling above; the paper has
BLOND's), Q2 (places within 0.03 degrees, here millionths; the paper has New York's taxis), Q3 (trips that are longer
and cheaper; taxis too).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.papers.figure import Scale
from muntin.host.engine.native_engine import core_index
from muntin.host.index import SpoJoin
from muntin.host.native import _core

PAPER = "SPO-Join"
TURNS = 3
FAR = 1 << 100
CORES = "two cores of one machine instead of ten machines with Storm; times of the core without a network"


def wide(value: int) -> tuple[int, int]:
    """Both halves of a number of 128 bits."""
    return value >> 64, value & ((1 << 64) - 1)


Keys = tuple[np.ndarray, np.ndarray]
#: Bands on right less left, by condition.
QUERIES = {
    "Q1": [(1, FAR), (-FAR, -1)],
    "Q2": [(-29_999, 29_999), (-29_999, 29_999)],
    "Q3": [(-FAR, -1), (1, FAR)],
    "rates": [(-FAR, -1), (1, FAR)],
    "equality": [(0, 0), (0, 0)],
}


def rows_of(query: str, count: int, rng: np.random.Generator) -> Keys:
    """Keys of both conditions."""
    if query == "Q1":  # independent loads: a quarter of the pairs match
        return rng.integers(0, 10_000_000, count), rng.integers(0, 10_000_000, count)
    if query == "Q2":  # the streets of Manhattan, 0.1 by 0.15 degrees
        return (rng.normal(0, 30_000, count)).astype(np.int64), (rng.normal(0, 45_000, count)).astype(np.int64)
    if query == "Q3":  # fares follow distances, so that few trips are longer and cheaper
        distance = rng.lognormal(0.6, 0.8, count)
        fare = 2.5 + 2.5 * distance + rng.exponential(2.0, count)
        return (distance * 100).astype(np.int64), (fare * 100).astype(np.int64)
    if query == "rates":  # a fortieth of the pairs match, as in figures 14 and 15
        a = rng.integers(0, 10_000_000, count)
        return a, a + rng.normal(0, 443_000, count).astype(np.int64)
    return rng.integers(0, 1000, count), rng.integers(0, 1000, count)


class Stream:
    """An engine over one query, with rows whose numbers go on."""

    def __init__(self, query: str, index: SpoJoin, window: int, threads: int = 1, seed: int = 0):
        self._query, self._threads = query, threads
        self.rng = np.random.default_rng(seed)
        self._arrived = [0, 0]
        bands = [[(wide(low), wide(high))] for low, high in QUERIES[query]]
        name, parameters = core_index(index)
        self.core = _core.Engine(
            key_bits=64,
            index=name,
            window=(window, window),
            bands=bands[0],
            others=bands[1:],
            parameters=parameters,
        )

    def step(self, left: int, right: int, *, probing: bool = True, counting: bool = True) -> tuple:
        """Rows of each side, the left ones first."""
        inputs = []
        for side, count in enumerate((left, right)):
            a, b = rows_of(self._query, count, self.rng)
            before = self._arrived[1 - side]
            inputs.append(_core.Input(a, first_row=self._arrived[side], same_other_position=before, others=[(b, None)]))
            self._arrived[side] += count
        return self.core.step(*inputs, probing=probing, counting=counting, threads=self._threads)

    @property
    def figures(self) -> dict[str, Any]:
        """Those of the left side's index."""
        return self.core.figures(0)

    def probe_rate(self, seconds: float, rows: int = 1) -> float:
        """Right rows a second that probe the left window, in steps of so many: the median step's."""
        took: list[float] = []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds or len(took) < 3:
            before, processor = self.core.seconds[1], time.thread_time()
            self.step(0, rows)
            # The first is the finer clock; the second stops while others have the processor.
            took.append(min(self.core.seconds[1] - before, time.thread_time() - processor))
        return rows / statistics.median(took)

    def time_step(self, left: int, right: int) -> float:
        """Seconds of this thread for a step that counts its pairs, while others may use the machine too."""
        before = time.thread_time()
        self.step(left, right)
        return time.thread_time() - before


Turns = dict[tuple[str, Any], Callable[[], float]]


def sliced(slides: Sequence[int], scale: Scale) -> list[int]:
    """The paper's slides, or smaller ones."""
    return [slide // 20 for slide in slides[:2]] if scale.quick else [slide >> scale.smaller for slide in slides]
