"""The figures of SPO-Join: PO-Join against CSS-Tree runs, bits against hash tables, merges, shares and match rates.

Data are generated, as the paper's own synthetic sets are: Q1 (two streams, power below and cooling above), Q2 (places
within 0.03 degrees, here millionths), Q3 (trips that are longer and cheaper). Tuples come one at a time, and what is
timed is the core's probe alone, unless a figure says otherwise.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.clusters import Elements
from bench.papers.figure import Figure, Finding, Scale
from muntin.host.engine.native_engine import core_index
from muntin.host.index import SpoJoin
from muntin.host.join import WindowJoin
from muntin.host.native import _core
from muntin.host.predicates import AllOf, Compare
from muntin.host.windows import Rows

PAPER = "SPO-Join"
FAR = 1 << 100
CORES = "two cores of one machine instead of ten machines with Storm; times of the core without a network"


def _wide(value: int) -> tuple[int, int]:
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
        bands = [[(_wide(low), _wide(high))] for low, high in QUERIES[query]]
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
            inputs.append(_core.Input(a, first_row=self._arrived[side], same_opposite=before, others=[(b, None)]))
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


def _alternate(contenders: dict[str, Stream], seconds: float, rows: dict[str, int] | None = None) -> dict[str, float]:
    """The median rate of each of them over three turns."""
    rates = defaultdict(list)
    for _ in range(3):
        for name, stream in contenders.items():
            rates[name].append(stream.probe_rate(seconds / 3, (rows or {}).get(name, 1)))
    return {name: statistics.median(found) for name, found in rates.items()}


BATCH = "PO-Join, 4,096 rows a batch"
RUNS = {
    "PO-Join": SpoJoin(immutable="po_join_bits"),
    "PO-Join, ranks": SpoJoin(),
    BATCH: SpoJoin(),
    "CSS-Tree, bits": SpoJoin(immutable="css_bits"),
    "CSS-Tree, hash": SpoJoin(immutable="css_hash"),
}
PARTS = {"mutable, bits": SpoJoin(), "mutable, hash": SpoJoin(mutable="hash")}


def _components(query: str, slides: Sequence[int], scale: Scale) -> list[dict]:
    """Rates of the immutable part (a window of ten slides) and of the mutable part (a full slide) by slide."""
    points = []
    for slide in slides:
        contenders = {}
        for name, index in RUNS.items():
            index = SpoJoin(slide, 1, index.mutable, index.immutable)
            contenders[name] = Stream(query, index, 10 * slide)
            contenders[name].step(10 * slide, 0, probing=False)
        for name, index in PARTS.items():
            contenders[name] = Stream(query, SpoJoin(slide + 1, 1, index.mutable), 10 * slide)
            contenders[name].step(slide, 0, probing=False)
        rates = _alternate(contenders, scale.seconds, {BATCH: 4096})
        points += [{"series": name, "x": slide, "y": rate} for name, rate in rates.items()]
    return points


def _ratios(points: list[dict], one: str, other: str) -> str:
    """The least and the greatest ratio of two series."""
    value = {(point["series"], point["x"]): point["y"] for point in points}
    found = [value[one, x] / value[other, x] for x in dict.fromkeys(point["x"] for point in points)]
    return f"{min(found):.2g} to {max(found):.2g}x"


def _component_figure(number: str, query: str, slides: Sequence[int], claim: str, scale: Scale) -> Figure:
    slides = [slide // 10 for slide in slides[:2]] if scale.quick else slides
    points = _components(query, slides, scale)
    note = (
        f"PO-Join's bit array {_ratios(points, 'PO-Join', 'CSS-Tree, bits')} against CSS-Trees with bits, "
        f"{_ratios(points, 'PO-Join', 'CSS-Tree, hash')} against those with hash tables; "
        f"with ranks compared instead, {_ratios(points, 'PO-Join, ranks', 'CSS-Tree, bits')}; batches of rows against "
        f"the bits {_ratios(points, BATCH, 'CSS-Tree, bits')}; mutable part, bits against hash "
        f"{_ratios(points, 'mutable, bits', 'mutable, hash')}. The paper's CSS-Tree links its leaves and passes "
        f"partial results on between processes; here both are arrays of one process. Pairs are counted. {CORES}"
    )
    title = f"{query}, probes a second by slide"
    return Figure(PAPER, number, title, claim, "slide [rows]", "rows/s", points, log_y=True, note=note)


def fig_7(scale: Scale) -> Figure:
    """Q3, as a window of ten slides."""
    claim = "PO-Join probes 12 to 57x faster than CSS-Trees; bits are 9 to 44x faster in the mutable part"
    return _component_figure("7", "Q3", (60_000, 80_000, 100_000), claim, scale)


def fig_8(scale: Scale) -> Figure:
    """Q2; windows of rows that its minutes have."""
    claim = "PO-Join probes 1.3 to 1.6x faster than CSS-Trees; bits are 4.9 to 7x faster in the mutable part"
    return _component_figure("8", "Q2", (20_000, 60_000, 100_000), claim, scale)


def fig_9(scale: Scale) -> Figure:
    """Q1; the paper's slides of 400 K and 500 K rows are left out."""
    claim = "PO-Join probes 2 to 19x faster than CSS-Trees; bits are 2 to 5.2x faster in the mutable part"
    return _component_figure("9", "Q1", (100_000, 200_000, 300_000), claim, scale)


def _latencies(stream: Stream, steps: int, rows: int, every: float | None) -> tuple[np.ndarray, float]:
    """Seconds from a step's arrival to its end, where one arrives each `every` seconds (None: right after the last)."""
    free, found, spent = 0.0, [], 0.0
    for number in range(steps):
        took = stream.time_step(rows, rows)
        spent += took
        arrival = free if every is None else number * every
        free = max(free, arrival) + took
        found.append(free - arrival)
    return np.array(found), spent / steps


def fig_10c(scale: Scale) -> Figure:
    """Q1 with rows that wait for merges: a slide at once, or in ten parts."""
    slide, rows = (3000, 20) if scale.quick else (100_000, 200)
    steps = 2 * slide // rows
    streams = {
        name: Stream("Q1", SpoJoin(slide, parts), 10 * slide) for name, parts in (("whole", 1), ("sub-intervals", 10))
    }
    for stream in streams.values():
        stream.step(9 * slide, 9 * slide, probing=False)
    _, pace = _latencies(streams["sub-intervals"], steps // 10, rows, None)
    every = 1.5 * pace
    points = []
    at = {}
    for name, stream in streams.items():
        found, _ = _latencies(stream, steps, rows, every)
        for percent in (5, 25, 50, 75, 95, 99):
            at[name, percent] = float(np.percentile(found, percent)) * 1e3
            points.append({"series": name, "x": percent, "y": at[name, percent]})
    note = (
        f"{at['whole', 50] / at['sub-intervals', 50]:.2g}x at the median and "
        f"{at['whole', 99] / at['sub-intervals', 99]:.2g}x at the 99th percentile, slides of {slide:,} rows, {rows} "
        f"rows a step of each side, at two thirds of the rate that sub-intervals reach. A merge takes milliseconds "
        f"here, not seconds (figure 20). Pairs are counted. Service times are measured, the queue before them is "
        f"computed. {CORES}"
    )
    claim = "a slide merged in parts has 70x less latency at the median than one merged whole"
    title = "Q1, latency by percentile, slide merged whole or in parts"
    return Figure(PAPER, "10c", title, claim, "percentile", "ms", points, log_y=True, note=note)


def fig_11b(scale: Scale) -> Figure:
    """Q3 against nested loops, which compare a row with all rows of the window."""
    points, ratios = [], []
    for slide in (5000, 10_000) if scale.quick else (50_000, 70_000, 100_000):
        stream = Stream("Q3", SpoJoin(slide), 10 * slide)
        stream.step(10 * slide, 0, probing=False)
        a, b = rows_of("Q3", 10 * slide, stream.rng)
        x, y = rows_of("Q3", 1000, stream.rng)
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < scale.seconds or done < 3:
            np.count_nonzero((a > x[done % 1000]) & (b < y[done % 1000]))
            done += 1
        loops = done / (time.perf_counter() - start)
        spo = stream.probe_rate(scale.seconds)
        ratios.append(spo / loops)
        points += [{"series": "SPO-Join", "x": slide, "y": spo}, {"series": "nested loops", "x": slide, "y": loops}]
    note = (
        f"{min(ratios):.2g} to {max(ratios):.2g}x, against a loop over arrays in vector registers (NumPy), which is "
        f"what each process of both partitionings does with its part. {CORES}"
    )
    claim = "32 to 90x the throughput of nested loops, split or broadcast"
    title = "Q3, rows a second against nested loops"
    return Figure(PAPER, "11b", title, claim, "slide [rows]", "rows/s", points, log_y=True, note=note)


def fig_12(scale: Scale) -> Figure:
    """Insertion into the mutable part, merges included, as the window grows."""
    points = []
    for window in (10_000, 100_000) if scale.quick else (100_000, 1_000_000, 4_000_000):
        count = window // 10
        for name, slide in (("SPO-Join", window // 10), ("B+-Tree", 4 * window)):
            stream = Stream("Q1", SpoJoin(slide), window)
            stream.step(window, 0, probing=False)
            before = stream.core.seconds[3] + stream.core.seconds[1]
            for _ in range(count // 1000):
                stream.step(1000, 0, probing=False)
            spent = stream.core.seconds[3] + stream.core.seconds[1] - before
            points.append({"series": name, "x": window, "y": spent})
    note = (
        "seconds for a tenth of the window, two conditions, merges included. The B+-Trees here never remove a row. "
        f"PIM-Tree indexes one condition: its own figures have it. {CORES}"
    )
    claim = "inserting is 1.5x faster than into PIM-Tree and 1.7x faster than into a B+-Tree at windows of 50 M rows"
    title = "time to insert a tenth of a window"
    return Figure(PAPER, "12", title, claim, "window [rows]", "s", points, log_x=True, log_y=True, note=note)


def fig_13(scale: Scale) -> Figure:
    """Memory of both conditions' indexes, beside B+-Trees over the whole window."""
    points, ratios = [], []
    for window in (20_000, 100_000) if scale.quick else (1_000_000, 2_000_000, 4_000_000):
        taken = {}
        for name, slide in (("SPO-Join", window // 10), ("B+-Trees", 4 * window)):
            stream = Stream("Q1", SpoJoin(slide), window)
            for _ in range(10):
                stream.step(window // 10, 0, probing=False)
            taken[name] = stream.figures["index_bytes"]
            points.append({"series": name, "x": window, "y": taken[name] / 2**20})
        ratios.append(taken["B+-Trees"] / taken["SPO-Join"])
    note = f"{min(ratios):.2g} to {max(ratios):.2g}x less than B+-Trees alone, both with keys of 64 bits"
    claim = "1.5x less memory than PIM-Tree at windows of 2 M and 4 M rows, 2.5x less at larger ones"
    title = "memory of one side's index, two conditions"
    return Figure(PAPER, "13", title, claim, "window [rows]", "MiB", points, log_x=True, note=note)


#: The paper's slides and the matches of a whole window there, of which the figures 14 and 15 tell.
SLIDES = (25_000, 50_000, 75_000, 100_000)


def fig_14(scale: Scale) -> Figure:
    """Rates of the mutable part, full, by the pairs that its rows find in a slide."""
    points = []
    for slide in SLIDES[:2] if scale.quick else SLIDES:
        stream = Stream("rates", SpoJoin(slide + 1), 10 * slide)
        stream.step(slide, 0, probing=False)
        rates = [stream.probe_rate(scale.seconds / 10) for _ in range(10)]
        matches = int(stream.step(0, 200)[1].sum()) * slide // 200
        points += [
            {"series": "mean", "x": matches, "y": statistics.mean(rates)},
            {"series": "maximum", "x": matches, "y": max(rates)},
        ]
    claim = "the mutable part's mean falls from 167 rows/s at 15 M matches to 114 at 249 M"
    note = f"slides of 25 K to 100 K rows, a fortieth of all pairs match. {CORES}"
    return Figure(
        PAPER,
        "14",
        "mutable part, rows a second by matches of a slide",
        claim,
        "matches",
        "rows/s",
        points,
        log_x=True,
        note=note,
    )


def fig_15(scale: Scale) -> Figure:
    """The longest time of a row in the immutable part, on one thread and on two that share out the runs."""
    points = []
    for slide in SLIDES[:2] if scale.quick else SLIDES:
        for threads in (1, 2):
            stream = Stream("rates", SpoJoin(slide), 10 * slide, threads)
            stream.step(10 * slide, 0, probing=False)
            matches = int(stream.step(0, 100)[1].sum()) * slide // 100
            found: list[float] = []
            start = time.perf_counter()
            while time.perf_counter() - start < scale.seconds / 2 or len(found) < 5:
                before = sum(stream.core.seconds)
                stream.step(0, 1, counting=False)
                found.append(sum(stream.core.seconds) - before)
            name = f"{threads} thread{'s' * (threads > 1)}"
            points.append({"series": f"{name}, 99 %", "x": matches, "y": float(np.percentile(found, 99)) * 1e3})
            points.append({"series": f"{name}, median", "x": matches, "y": statistics.median(found) * 1e3})
    claim = "the longest time of a row is 51 ms at 15 M matches and 190 ms at 249 M; 176 ms with threads on one machine"
    note = f"windows of ten slides, pairs written out. Not the maximum: others use this machine too. {CORES}"
    return Figure(
        PAPER,
        "15",
        "immutable part, time of a row by matches of a slide",
        claim,
        "matches",
        "ms",
        points,
        log_x=True,
        log_y=True,
        note=note,
    )


# Fig. 16 to 19: processing elements


Q3 = AllOf(Compare("a", ">", "a"), Compare("b", "<", "b"))  # a trip that is longer and cheaper than another
ELEMENTS = (
    "Elements are partitions of one process: rates are not those of ten machines; rows, messages and pairs are exact"
)


class FullElements:
    """The self join of Q3 over processing elements, its window full.

    Parameters
    ----------
    count : int
    slide : int
        Rows; the window has five, as in the paper's example (section 4.2).
    more : int
        Rows that the window has beside.
    in_step : str
        As of `clusters.Elements`.
    """

    def __init__(self, count: int, slide: int, in_step: str = "counts", form: str = "counts", more: int = 0):
        self.slide, self.window = slide, 5 * slide + more
        self._rng = np.random.default_rng(slide)
        options: dict[str, Any] = {
            "on": Q3, "left": Rows(self.window), "right": Rows(self.window), "self_join": True, "form": form,
            "left_schema": pa.schema({"a": pa.int64(), "b": pa.int64()}),
        }  # fmt: skip
        self._elements: Elements | None = None
        if count > 1:
            self._elements = Elements(count, slide, in_step=in_step, interval=max(slide // 50, 1), **options)
        self.join = self._elements.join if self._elements else WindowJoin(index=SpoJoin(slide=slide), **options)
        self.rows: list[Keys] = []
        while self.arrived < self.window:
            self.step(min(slide // 8 + 1, self.window - self.arrived))

    @property
    def arrived(self) -> int:
        """Rows so far."""
        return sum(len(a) for a, _ in self.rows)

    def step(self, rows: int) -> pa.Table:
        """The result of so many rows more."""
        self.rows.append(rows_of("Q3", rows, self._rng))
        table = pa.table(dict(zip("ab", self.rows[-1], strict=True)))
        return self._elements.process(table) if self._elements else self.join.process(table)

    @property
    def parts(self) -> list[dict]:
        """What each of several elements does, as `Elements.parts` has it."""
        assert self._elements is not None
        return self._elements.parts

    @property
    def messages(self) -> int:
        """As of `Elements`."""
        return self._elements.messages if self._elements else 0


def _slide(scale: Scale) -> int:
    return 400 if scale.quick else 20_000


def fig_16(scale: Scale) -> Figure:
    """Time that a row takes on the slowest and the fastest element, by nodes of five elements."""
    found = []
    for nodes in (1, 3) if scale.quick else (1, 3, 5, 7, 9):
        run = FullElements(5 * nodes, _slide(scale))
        before = [part["seconds"] for part in run.parts]
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < scale.seconds or done < 2:
            run.step(64)
            done += 1
        after = run.parts
        took = sorted((part["seconds"] - b) / done / 64 * 1e3 for part, b in zip(after, before, strict=True))
        found += [{"series": "slowest element", "x": nodes, "y": took[-1], "elements": after}]
        found += [{"series": "fastest element", "x": nodes, "y": took[0]}]
        run.join.close()
    most = [max(p["stored_left"] for p in point["elements"]) for point in found if "elements" in point]
    claim = "a row takes at most 325 ms on the first and 191 ms on the fifth element of one node; 203 and 21 ms of nine"
    note = f"an element stores at most {' to '.join(f'{rows:,}' for rows in (most[0], most[-1]))} rows. {ELEMENTS}"
    return Figure(PAPER, "16", "time of a row by nodes", claim, "nodes of five elements", "ms", found, note=note)


def fig_17(scale: Scale) -> Figure:
    """Rows a second by elements, and the rows that one of them looks through."""
    found: list[dict[str, Any]] = []
    for count in (2, 5) if scale.quick else (1, 2, 5, 10, 20):
        run = FullElements(count, _slide(scale))
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < scale.seconds or done < 2:
            run.step(64)
            done += 1
        found.append({"series": "rate", "x": count, "y": 64 * done / (time.perf_counter() - start)})
        if count > 1:
            parts = run.parts
            found.append({"series": "rows of an element", "x": count, "y": max(p["stored_left"] for p in parts)})
            found[-1] |= {"messages": run.messages, "elements": parts}
        run.join.close()
    claim = "the mean rate grows from 419 rows/s with one element to 6,167 with twenty"
    note = f"a row probes all elements here as there: what shrinks is what each looks through. {ELEMENTS}"
    return Figure(
        PAPER, "17", "rate by elements", claim, "elements", "rows/s, and rows", found, log_y=True, note=note
    )  # fmt: skip


def _right(run: FullElements, batches: int) -> tuple[int, int]:
    """Of some rows more, those whose pairs are those of a nested loop; and all."""
    right = total = 0
    for _ in range(batches):
        first = run.arrived
        result = run.step(32)
        found = set(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True))
        a, b = (np.concatenate(column) for column in zip(*run.rows, strict=True))
        for row in range(first, run.arrived):
            met = np.arange(max(row - run.window, 0), row)
            due = {(row, int(m)) for m in met[(a[row] > a[met]) & (b[row] < b[met])]}
            due |= {(int(m), row) for m in met[(a[met] > a[row]) & (b[met] < b[row])]}
            right += due == {pair for pair in found if max(pair) == row}
            total += 1
    return right, total


def fig_18(scale: Scale) -> Figure:
    """The share of rows whose result is right, by elements."""
    found = []
    for count in (2, 10) if scale.quick else (10, 20, 30, 40):
        run = FullElements(count, 200, form="pairs")
        right, total = _right(run, 4 if scale.quick else 16)
        found.append({"series": "here", "x": count, "y": 100 * right / total, "rows": total})
        run.join.close()
    claim = (
        "without a hash table 0.3 % of rows are right at 10 elements and 5,000 rows/s, 8 % at 40 and 500 rows/s; 100 % "
        "with it"
    )
    note = "compared with a nested loop. The results of a row's conditions meet in the element that holds the run, by "
    note += f"bits of its own, so that none can overtake another. {ELEMENTS}"
    return Figure(PAPER, "18", "rows whose result is right", claim, "elements", "% of rows", found, note=note)


def _expired(run: FullElements) -> tuple[int, int]:
    """Rows that elements hold and no row may meet, and the pairs that the next 32 rows would have with them."""
    a, b = (np.concatenate(column) for column in zip(*run.rows, strict=True))
    parts, each = run.parts, run.slide // len(run.parts)
    new = rows_of("Q3", 32, np.random.default_rng(run.arrived))
    rows = pairs = 0
    for at, part in enumerate(parts):
        held = np.arange(part["oldest_left"], max(run.arrived - run.window, 0))
        held = held[held // each % len(parts) == at]
        rows += len(held)
        for x, y in zip(*new, strict=True):
            pairs += int(((x > a[held]) & (y < b[held])).sum() + ((a[held] > x) & (b[held] < y)).sum())
    return rows, pairs


def fig_19(scale: Scale) -> Figure:
    """Expired rows that elements hold, by how they learn of the window; and what comes of them."""
    found, told, false = [], [], 0
    for slide in (400, 800) if scale.quick else (5000, 10_000, 20_000):
        for in_step, name in (("replaced", "replaced runs"), ("counts", "counts, to all"), ("cache", "cache")):
            # An element's own rows tell it of the window's end only where that is a multiple of what all take in turn.
            run = FullElements(4, slide, in_step, more=slide // 3)
            rows, pairs, before = [], [], run.messages
            for _ in range(16):
                run.step(slide // 8 + 1)
                seen = _expired(run)
                rows.append(seen[0])
                pairs.append(seen[1])
            messages = run.messages - before
            found.append({"series": name, "x": slide, "y": statistics.mean(rows), "expired_pairs": pairs})
            told.append(f"{name} {messages:,}")
            false = max(false, *pairs)
            run.join.close()
    right, total = _right(FullElements(4, 200, "replaced", form="pairs"), 16)
    claim = "a cache keeps elements 13 to 94 times nearer to each other than counts sent by the partitioner"
    note = (
        f"messages at the largest slide: {', '.join(told[-3:])}. 32 rows would find up to {false:,} pairs with expired "
        f"rows; as probes carry their limits they find none, and miss none: {right:,} of {total:,} rows are right. "
        f"{ELEMENTS}"
    )
    return Figure(PAPER, "19", "expired rows held", claim, "slide [rows]", "rows", found, note=note)


def fig_20(scale: Scale) -> Figure:
    """How long a merge takes, and then what was queued meanwhile."""
    points = []
    for slide in (6000, 10_000) if scale.quick else (60_000, 80_000, 100_000):
        stream = Stream("Q3", SpoJoin(slide), 10 * slide)
        rates, merges = [], []
        for _ in range(4):
            stream.step(slide - 1000, 0, probing=False)
            before = stream.figures["merge_seconds"]
            stream.step(1000, 0, probing=False)
            merges.append(stream.figures["merge_seconds"] - before)
            rates.append(stream.probe_rate(scale.seconds / 8, 64))
        merge = statistics.median(merges)
        queued = 5000 * merge  # rows that come meanwhile at the paper's rate
        points += [
            {"series": "merge", "x": slide, "y": merge * 1e3},
            {"series": "probes queued at 5,000 rows/s", "x": slide, "y": queued / statistics.median(rates) * 1e3},
        ]
    claim = "merging 60 K to 100 K rows takes 10 to 15 s, and the rows queued meanwhile 1 to 2 s more"
    note = f"both conditions, from the sorted leaves to the run; the call that merges answers what it queued. {CORES}"
    return Figure(
        PAPER, "20", "time of a merge and of what it queues", claim, "merged rows", "ms", points, log_y=True, note=note
    )


def fig_21(scale: Scale) -> Figure:
    """Rates of both parts of a window by the share of the mutable one."""
    window = 50_000 if scale.quick else 1_000_000
    points = []
    for share in (10, 20, 30, 40, 50):
        held = window * share // 100
        mutable = Stream("Q3", SpoJoin(2 * window), window)
        mutable.step(held, 0, probing=False)
        immutable = Stream("Q3", SpoJoin((window - held) // 9), window)
        immutable.step((window - held) // 9 * 9, 0, probing=False)
        rates = _alternate({"mutable": mutable, "immutable": immutable}, scale.seconds)
        points += [{"series": name, "x": f"{share}-{100 - share}", "y": rate} for name, rate in rates.items()]
    claim = "the mutable part's mean falls from 249 rows/s at a share of 10 % to 96 at 50 %"
    title = f"parts of a window of {window:,} rows, by their shares"
    return Figure(PAPER, "21", title, claim, "mutable-immutable [%]", "rows/s", points, log_y=True, note=CORES)


def _hash_join(slide: int, seconds: float) -> tuple[float, float]:
    """A hash join over both keys, a row at a time: rows a second, and the longest time of one."""
    rng = np.random.default_rng(0)
    window = 10 * slide
    keys = list(zip(*(part.tolist() for part in rows_of("equality", window + 200_000, rng)), strict=True))
    tables: list[defaultdict] = [defaultdict(list), defaultdict(list)]
    held: list[deque] = [deque(), deque()]
    for side in (0, 1):
        for key in keys[:window]:
            tables[side][key].append(0)
            held[side].append(key)
    start, done, longest, spent = time.perf_counter(), 0, 0.0, 0.0
    while time.perf_counter() - start < seconds and done < 200_000:
        before, side = time.thread_time(), done % 2
        key = keys[window + done]
        len(tables[1 - side].get(key, ()))
        tables[side][key].append(done)
        held[side].append(key)
        if len(held[side]) % slide == 0:  # a slide leaves at once
            for _ in range(slide):
                left = held[side].popleft()
                tables[side][left].pop(0)
        took = time.thread_time() - before
        spent, longest, done = spent + took, max(longest, took), done + 1
    return done / spent, longest


def _equality(scale: Scale) -> tuple[list[dict], list[dict]]:
    rates, latencies = [], []
    for slide in (1000, 5000) if scale.quick else (10_000, 50_000):
        stream = Stream("equality", SpoJoin(slide), 10 * slide)
        stream.step(10 * slide, 10 * slide, probing=False)
        start, done, longest, spent = time.perf_counter(), 0, 0.0, 0.0
        while time.perf_counter() - start < scale.seconds:
            took = stream.time_step(1 - done % 2, done % 2)
            spent, longest, done = spent + took, max(longest, took), done + 1
        hashed, hashed_longest = _hash_join(slide, scale.seconds)
        for name, rate, latency in (("SPO-Join", done / spent, longest), ("hash join", hashed, hashed_longest)):
            rates.append({"series": name, "x": slide, "y": rate})
            latencies.append({"series": name, "x": slide, "y": latency * 1e3})
    return rates, latencies


EQUALITY_NOTE = (
    "processor time; the hash join is one over Python's dictionaries, that of SPO-Join includes some 20 us a row for "
    f"its call from Python. {CORES}"
)


def fig_22(scale: Scale) -> Figure:
    """Two equalities, rows a second."""
    claim = "a hash join is 1.14x faster at slides of 10 K rows and 6.8x at 50 K"
    rates, _ = _equality(scale)
    return Figure(
        PAPER, "22", "equality, rows a second", claim, "slide [rows]", "rows/s", rates, log_y=True, note=EQUALITY_NOTE
    )


def fig_23(scale: Scale) -> Figure:
    """Two equalities, the longest time of a row."""
    claim = "a hash join's longest time is 2.7x less at 10 K rows and 2.02x at 50 K"
    _, latencies = _equality(scale)
    return Figure(
        PAPER,
        "23",
        "equality, longest time of a row",
        claim,
        "slide [rows]",
        "ms",
        latencies,
        log_y=True,
        note=EQUALITY_NOTE,
    )


class Offsets:
    """The offset array of one merged part of a stream in that of the other: for each key the place of the first key of
    the other that is not less (Algorithm 3), in one pass over both.

    A probe whose key lies between two of these keys has its place between their offsets, and is looked for there: so
    places are exact. The paper's probe takes one of the two.

    Parameters
    ----------
    own, other : ndarray, shape (n,), (m,)
        Sorted keys.

    Attributes
    ----------
    comparisons : int
        Of keys, by `place` and `search` so far.
    """

    def __init__(self, own: np.ndarray, other: np.ndarray):
        self.own, self.other, self.comparisons = own, other, 0
        self.offsets = np.concatenate([[0], np.searchsorted(other, own), [len(other)]])

    @property
    def nbytes(self) -> int:
        """Of the array, an entry of 32 bits for each key."""
        return 4 * len(self.own)

    def place(self, keys: np.ndarray) -> np.ndarray:
        """The place of each key in the other part, by the offsets."""
        among = self._halve(self.own, keys, np.zeros(len(keys), np.int64), np.full(len(keys), len(self.own)))
        return self._halve(self.other, keys, self.offsets[among], self.offsets[among + 1])

    def search(self, keys: np.ndarray) -> np.ndarray:
        """The same by a search of the other part, without them."""
        return self._halve(self.other, keys, np.zeros(len(keys), np.int64), np.full(len(keys), len(self.other)))

    def _halve(self, among: np.ndarray, keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        low, high = low.copy(), high.copy()
        while (some := np.flatnonzero(low < high)).size:
            middle = (low[some] + high[some]) // 2
            less = among[middle] < keys[some]
            low[some[less]], high[some[~less]] = middle[less] + 1, middle[~less]
            self.comparisons += some.size
        return low


def fig_offsets(scale: Scale) -> Figure:
    """What offset arrays that are kept cost beside a search of the run: section 3.3, Algorithm 3."""
    rng, points, shares = np.random.default_rng(7), [], []
    probes = 2_000 if scale.quick else 100_000
    findings = []
    for size in (1_000, 10_000) if scale.quick else (1_000, 10_000, 100_000, 1_000_000):
        own, other = (np.sort(rng.integers(0, 1 << 31, size)) for _ in range(2))
        kept, keys = Offsets(own, other), np.sort(rng.integers(0, 1 << 31, probes))
        counts = {}
        for name, by in (("offsets, and a search between two", kept.place), ("search of the run", kept.search)):
            before = kept.comparisons
            if not np.array_equal(by(keys), np.searchsorted(other, keys)):
                raise AssertionError(f"{name}: another place than the run's")
            counts[name] = (kept.comparisons - before) / probes
            points.append({"series": name, "x": size, "y": counts[name]})
        wrong = kept.offsets[np.searchsorted(own, keys) + 1] != np.searchsorted(other, keys)
        shares.append(f"{wrong.mean():.0%}")
        by_offsets, by_search = counts.values()
        what = f"comparisons of the search over those of the offsets at {size:,} rows:"
        findings.append(Finding(what, [by_search / by_offsets]))
    note = (
        f"the place that the offsets alone give is another than the key's own for {', '.join(shares)} of probes, so a "
        "search between two of them follows. Comparisons are counted, not timed. SpoJoin keeps none: it finds the "
        "places of a batch in a run by one pass over both, and of a single row by a search of the run. They would take "
        "4 bytes for each row and condition."
    )
    return Figure(
        PAPER, "offsets", "offset arrays, kept or not", "a search of the offset array, computed when a part is merged, "
        "replaces that of the opposite part", "rows of a part", "comparisons of a probe", points, log_x=True,
        note=note, findings=findings,
    )  # fmt: skip


FIGURES: list[Callable[[Scale], Figure]] = [
    fig_7, fig_8, fig_9, fig_10c, fig_11b, fig_12, fig_13, fig_14, fig_15, fig_16, fig_17, fig_18, fig_19, fig_20,
    fig_21, fig_22, fig_23, fig_offsets,
]  # fmt: skip
