"""The figures of SPO-Join: PO-Join against CSS-Tree runs, bits against hash tables, merges, shares and match rates.

Data are generated, as the paper's own synthetic sets are: Q1 (two streams, power below and cooling above), Q2 (places
within 0.03 degrees, here millionths), Q3 (trips that are longer and cheaper). Tuples come one at a time, and what is
timed is the core's probe alone, unless a figure says otherwise.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from bench.papers.figure import Figure, Finding, Scale, in_turns, measured
from bench.papers.spo_elements import fig_16, fig_17, fig_18, fig_19, fig_wire
from bench.papers.spo_streams import CORES, PAPER, QUERIES, TURNS, Stream, Turns, rows_of, sliced, wide
from muntin.host.index import SpoJoin
from muntin.host.native import _core


def _rates(contenders: Mapping[tuple[str, Any], tuple[Stream, int]], scale: Scale) -> list[dict[str, Any]]:
    """Rates of rows that probe streams, so many at a time; all take turns."""
    return measured(
        {
            key: partial(stream.probe_rate, scale.seconds / TURNS, rows)
            for key, (stream, rows) in contenders.items()
        },
        TURNS,
    )  # fmt: skip


BATCH = "PO-Join, 4,096 rows a batch"
RUNS = {
    "PO-Join": SpoJoin(immutable="po_join_bits"),
    "PO-Join, ranks": SpoJoin(),
    BATCH: SpoJoin(),
    "CSS-Tree, bits": SpoJoin(immutable="css_bits"),
    "CSS-Tree, hash": SpoJoin(immutable="css_hash"),
}
PARTS = {"mutable, bits": SpoJoin(), "mutable, hash": SpoJoin(mutable="hash")}


def _component_figure(number: str, query: str, slides: Sequence[int], scale: Scale) -> Figure:
    """Rates of the immutable part (a window of ten slides) and of the mutable part (a full slide) by slide."""
    contenders = {}
    for slide in sliced(slides, scale):
        for name, index in RUNS.items():
            stream = Stream(query, SpoJoin(slide, 1, index.mutable, index.immutable), 10 * slide)
            stream.step(10 * slide, 0, probing=False)
            contenders[name, slide] = stream, 4096 if name == BATCH else 1
        for name, index in PARTS.items():
            stream = Stream(query, SpoJoin(slide + 1, 1, index.mutable), 10 * slide)
            stream.step(slide, 0, probing=False)
            contenders[name, slide] = stream, 1
    note = (
        "The paper's CSS-Tree links its leaves and passes partial results on between processes; here both are arrays "
        f"of one process. *Ranks* and batches are this project's own. Pairs are counted. {CORES}."
    )
    title = f"{query}, probes a second by slide"
    points = _rates(contenders, scale)
    return Figure(PAPER, number, title, "", "slide [rows]", "rows/s", points, log_y=True, note=note)


def fig_7(scale: Scale) -> Figure:
    """Q3, as a window of ten slides."""
    return _component_figure("7", "Q3", (60_000, 80_000, 100_000), scale)


def fig_8(scale: Scale) -> Figure:
    """Q2; windows of rows that its minutes have."""
    return _component_figure("8", "Q2", (20_000, 60_000, 100_000), scale)


def fig_9(scale: Scale) -> Figure:
    """Q1; the paper's slides of 400 K and 500 K rows are left out."""
    return _component_figure("9", "Q1", (100_000, 200_000, 300_000), scale)


PERCENTILES = (5, 25, 50, 75, 95, 99)


def _waiting(services: Mapping[str, list[np.ndarray]], load: float) -> list[dict[str, Any]]:
    """Percentiles of the time from a row's arrival to its end, in ms, turn by turn, where rows arrive evenly, at a load
    of the slowest contender; services are the seconds that rows take, queues are computed from them."""
    every = max(float(turn.mean()) for turns in services.values() for turn in turns) / load
    points = []
    for name, turns in services.items():
        latencies = []
        for took in turns:
            free, found = 0.0, []
            for row, seconds in enumerate(took):
                free = max(free, row * every) + seconds
                found.append(1e3 * (free - row * every))
            latencies.append(np.percentile(found, PERCENTILES))
        for at, percent in enumerate(PERCENTILES):
            values = [float(turn[at]) for turn in latencies]
            points.append({"series": name, "x": percent, "y": statistics.median(values), "turns": values})
    return points


def _served(step: Callable[[], float], rows: int) -> np.ndarray:
    return np.array([step() for _ in range(rows)])


ARRIVAL = (
    "Rows arrive evenly, at nine tenths of what the slowest contender of a pair can carry; the time of each is "
    "measured, the queue before it computed."
)


def _latency_figure(number: str, slide: int, scale: Scale) -> Figure:
    """Q1, both parts of PO-Join beside CSS-Trees and hash tables."""
    slide = sliced([slide], scale)[0]
    parts = 10 if slide > 250_000 >> scale.smaller else 1
    pairs: list[dict[str, Stream]] = [{}, {}]
    for name, index in (("PO-Join", RUNS["PO-Join"]), ("CSS-Tree", RUNS["CSS-Tree, bits"])):
        pairs[0][name] = Stream("Q1", SpoJoin(slide, parts, index.mutable, index.immutable), 10 * slide)
        pairs[0][name].step(10 * slide, 0, probing=False)
    for name, index in PARTS.items():
        pairs[1][name] = Stream("Q1", SpoJoin(slide // parts + 1, 1, index.mutable), 10 * slide)
        pairs[1][name].step(slide // parts, 0, probing=False)
    rows, points = 20 if scale.quick else 150, []
    for pair in pairs:
        made = {name: partial(_served, partial(stream.time_step, 0, 1), rows) for name, stream in pair.items()}
        found: dict[str, Any] = in_turns(made, TURNS)
        points += _waiting(found, 0.9)
    note = (
        f"Slides of {slide:,} rows, merged in {parts} part{'s' * (parts > 1)}, {rows} rows a turn. {ARRIVAL} {CORES}."
    )
    return Figure(
        PAPER, number, "Q1, latency by percentile", "", "percentile", "ms", points, log_y=True, note=note
    )  # fmt: skip


def fig_10a(scale: Scale) -> Figure:
    """Slides of 100 K rows."""
    return _latency_figure("10a", 100_000, scale)


def fig_10b(scale: Scale) -> Figure:
    """Slides of 200 K rows."""
    return _latency_figure("10b", 200_000, scale)


def fig_10c(scale: Scale) -> Figure:
    """Q1 with rows that wait for merges: a slide at once, or in ten parts."""
    slide, rows = sliced([100_000], scale)[0], 20 if scale.quick else 200
    steps = 2 * slide // rows
    streams = {
        name: Stream("Q1", SpoJoin(slide, parts), 10 * slide) for name, parts in (("whole", 1), ("sub-intervals", 10))
    }
    for stream in streams.values():
        stream.step(9 * slide, 9 * slide, probing=False)
    made = {
        name: partial(_served, partial(stream.time_step, rows, rows), max(steps // TURNS, 8))
        for name, stream in streams.items()
    }
    found: dict[str, Any] = in_turns(made, TURNS)
    merges = [stream.figures["merge_seconds"] * 1e3 for stream in streams.values()]
    note = (
        f"Slides of {slide:,} rows, {rows} rows a step of each side. All merges took {merges[0]:.2g} ms whole and "
        f"{merges[1]:.2g} ms in parts, where the paper's take seconds each. {ARRIVAL} {CORES}."
    )
    title = "Q1, latency by percentile, slide merged whole or in parts"
    return Figure(PAPER, "10c", title, "", "percentile", "ms", _waiting(found, 0.9), log_y=True, note=note)


def fig_10d(scale: Scale) -> Figure:
    """Slides of 400 K rows, in parts."""
    return _latency_figure("10d", 400_000, scale)


def fig_10e(scale: Scale) -> Figure:
    """Slides of 500 K rows, in parts."""
    return _latency_figure("10e", 500_000, scale)


class Chained:
    """A chained index of B+-Trees for each condition, whose results a bit array brings together.

    Parameters
    ----------
    query : str
    slide : int
        Rows of a sub-index; the window has ten.
    """

    def __init__(self, query: str, slide: int):
        self._query, self._window = query, 10 * slide
        self.rng = np.random.default_rng(0)
        self._cores = [
            _core.Engine(
                key_bits=64, index="b_chain", engine="shared", window=(10 * slide, 1), bands=[(wide(low), wide(high))],
                parameters={"length": 11}, options={"blocking": True},
            )
            for low, high in QUERIES[query]
        ]  # fmt: skip
        self._bits = np.zeros(self._window, bool)
        self._probed = 0
        none = _core.Input(np.empty(0, np.int64))
        for start in range(0, self._window, slide):
            for core, keys in zip(self._cores, rows_of(query, slide, self.rng), strict=True):
                core.step(_core.Input(keys, first_row=start), none, whole=True, probing=False, threads=1)

    def time_step(self) -> float:
        """Seconds of this thread for a row that probes the window, and counts its pairs."""
        keys = rows_of(self._query, 1, self.rng)
        none = _core.Input(np.empty(0, np.int64), first_row=self._window)
        start = time.thread_time()
        self._bits[:] = False
        for at, (core, key) in enumerate(zip(self._cores, keys, strict=True)):
            row = _core.Input(key, first_row=self._probed, other_position=np.array([self._window]))
            rows = core.step(none, row, whole=True, threads=1)[0]
            if at == 0:
                self._bits[rows] = True
            else:
                self.pairs = int(np.count_nonzero(self._bits[rows]))
        self._probed += 1
        return time.thread_time() - start


def _chain_figure(number: str, query: str, scale: Scale) -> Figure:
    """Latency of SPO-Join beside a chained index, by slide."""
    found: list[dict[str, Any]] = []
    rows = 12 if scale.quick else 60
    for slide in sliced((20_000, 60_000, 100_000), scale):
        spo = Stream(query, SpoJoin(slide, immutable="po_join_bits"), 10 * slide)
        spo.step(10 * slide, 0, probing=False)
        made = {
            "SPO-Join": partial(_served, partial(spo.time_step, 0, 1), rows),
            "chained index": partial(_served, Chained(query, slide).time_step, rows),
        }
        turns: dict[str, Any] = in_turns(made, TURNS)
        found += [
            {**point, "series": f"{point['series']}, {point['x']} %", "x": slide}
            for point in _waiting(turns, 0.9) if point["x"] in (50, 95)
        ]  # fmt: skip
    note = (
        f"The chained index has B+-Trees of a slide each, for each condition, and a bit array between them. {ARRIVAL} "
        f"{CORES}."
    )
    title = f"{query}, latency against a chained index"
    return Figure(PAPER, number, title, "", "slide [rows]", "ms", found, log_y=True, note=note)


def fig_11a(scale: Scale) -> Figure:
    """Q3 beside a chained index."""
    return _chain_figure("11a", "Q3", scale)


def fig_11c(scale: Scale) -> Figure:
    """Q1 beside a chained index."""
    return _chain_figure("11c", "Q1", scale)


def _loops_figure(number: str, query: str, scale: Scale) -> Figure:
    """Rows a second against nested loops, which compare a row with all rows of the window."""
    contenders: Turns = {}
    for slide in sliced((50_000, 70_000, 100_000), scale):
        stream = Stream(query, SpoJoin(slide, immutable="po_join_bits"), 10 * slide)
        stream.step(10 * slide, 0, probing=False)

        def loops(stream: Stream = stream, slide: int = slide) -> float:
            a, b = rows_of(query, 10 * slide, stream.rng)
            x, y = rows_of(query, 1000, stream.rng)
            start, done = time.thread_time(), 0
            while time.thread_time() - start < scale.seconds / TURNS or done < 3:
                u, v = x[done % 1000], y[done % 1000]
                # Q1 asks for a right key above the first and below the second, Q3 the other way round.
                np.count_nonzero((u > a) & (v < b) if query == "Q1" else (u < a) & (v > b))
                done += 1
            return done / (time.thread_time() - start)

        contenders["SPO-Join", slide] = partial(stream.probe_rate, scale.seconds / TURNS)
        contenders["nested loops", slide] = loops
    note = (
        "Against a loop over arrays in vector registers (NumPy), which is what each process of both partitionings does "
        f"with its part. {CORES}."
    )
    title = f"{query}, rows a second against nested loops"
    points = measured(contenders, TURNS)
    return Figure(PAPER, number, title, "", "slide [rows]", "rows/s", points, log_y=True, note=note)


def fig_11b(scale: Scale) -> Figure:
    """Q3 against nested loops."""
    return _loops_figure("11b", "Q3", scale)


def fig_11d(scale: Scale) -> Figure:
    """Q1 against nested loops."""
    return _loops_figure("11d", "Q1", scale)


class PimTrees:
    """A PIM-Tree for each of Q1's conditions, which stores left rows."""

    def __init__(self, window: int):
        self._rng, self._arrived = np.random.default_rng(3), 0
        self._cores = [
            _core.Engine(
                key_bits=64, index="pim_tree", engine="shared", window=(window, 1), bands=[(wide(low), wide(high))],
                options={"blocking": True},
            )
            for low, high in QUERIES["Q1"]
        ]  # fmt: skip

    def insert(self, rows: int) -> float:
        """Seconds of this thread for so many rows."""
        none, spent = _core.Input(np.empty(0, np.int64)), 0.0
        for core, keys in zip(self._cores, rows_of("Q1", rows, self._rng), strict=True):
            start = time.thread_time()
            core.step(_core.Input(keys, first_row=self._arrived), none, whole=True, probing=False, threads=1)
            spent += time.thread_time() - start
        self._arrived += rows
        return spent

    @property
    def bytes(self) -> int:
        """Of both."""
        return sum(core.bytes for core in self._cores)


def _windows(scale: Scale) -> list[int]:
    return [10_000, 50_000] if scale.quick else [window >> scale.smaller for window in (100_000, 1_000_000, 4_000_000)]


def fig_12(scale: Scale) -> Figure:
    """Insertion into the mutable part, merges included, as the window grows."""
    contenders: Turns = {}
    for window in _windows(scale):
        for name, slide in (("SPO-Join", window // 10), ("B+-Tree", 8 * window)):
            stream = Stream("Q1", SpoJoin(slide), window)
            stream.step(window, 0, probing=False)

            def insert(stream: Stream = stream, window: int = window) -> float:
                start = time.thread_time()
                for _ in range(max(window // 10_000, 1)):
                    stream.step(1000, 0, probing=False)
                return time.thread_time() - start

            contenders[name, window] = insert
        trees = PimTrees(window)
        trees.insert(window)

        def insert_pim(trees: PimTrees = trees, window: int = window) -> float:
            return sum(trees.insert(1000) for _ in range(max(window // 10_000, 1)))

        contenders["PIM-Tree", window] = insert_pim
    note = (
        "Seconds for a tenth of the window, two conditions, merges included, with the drawing of rows for SPO-Join and "
        f"the B+-Tree. The B+-Trees never remove a row. A PIM-Tree for each condition. {CORES}."
    )
    title = "time to insert a tenth of a window"
    points = measured(contenders, TURNS)
    return Figure(PAPER, "12", title, "", "window [rows]", "s", points, log_x=True, log_y=True, note=note)


def fig_13(scale: Scale) -> Figure:
    """Memory of both conditions' indexes of one side."""
    points: list[dict[str, Any]] = []
    for window in _windows(scale):
        for name, slide in (("SPO-Join", window // 10), ("B+-Trees", 4 * window)):
            stream = Stream("Q1", SpoJoin(slide), window)
            for _ in range(10):
                stream.step(window // 10, 0, probing=False)
            points.append({"series": name, "x": window, "y": stream.figures["index_bytes"] / 2**20})
        trees = PimTrees(window)
        trees.insert(2 * window)
        points.append({"series": "PIM-Trees", "x": window, "y": trees.bytes / 2**20})
    note = "Keys of 64 bits. A PIM-Tree for each condition, its queue of the rows that are not merged yet in it."
    title = "memory of one side's index, two conditions"
    return Figure(PAPER, "13", title, "", "window [rows]", "MiB", points, log_x=True, note=note)


#: The paper's slides and the matches of a whole window there, of which the figures 14 and 15 tell.
SLIDES = (25_000, 50_000, 75_000, 100_000)


def fig_14(scale: Scale) -> Figure:
    """Rates of the mutable part, full, by the pairs that its rows find in a slide."""
    contenders: dict[tuple[str, Any], tuple[Stream, int]] = {}
    for slide in sliced(SLIDES, scale):
        stream = Stream("rates", SpoJoin(slide + 1), 10 * slide)
        stream.step(slide, 0, probing=False)
        matches = int(stream.step(0, 200)[1].sum()) * slide // 200
        contenders["mean", matches] = stream, 1
    points = _rates(contenders, scale)
    points += [{"series": "maximum", "x": point["x"], "y": max(point["turns"])} for point in points]
    note = f"Slides of 25 K to 100 K rows in the paper, a fortieth of all pairs match. {CORES}."
    title = "mutable part, rows a second by matches of a slide"
    return Figure(PAPER, "14", title, "", "matches", "rows/s", points, log_x=True, log_y=True, note=note)


def fig_15(scale: Scale) -> Figure:
    """The longest time of a row in the immutable part, on one thread and on two that share out the runs."""
    contenders: dict[tuple[str, int], Callable[[], Any]] = {}
    for slide in sliced(SLIDES, scale):
        for threads in (1, 2):
            stream = Stream("rates", SpoJoin(slide), 10 * slide, threads)
            stream.step(10 * slide, 0, probing=False)
            matches = int(stream.step(0, 100)[1].sum()) * slide // 100

            def times(stream: Stream = stream) -> np.ndarray:
                found = []
                for _ in range(5 if scale.quick else 40):
                    before = sum(stream.core.seconds)
                    stream.step(0, 1, counting=False)
                    found.append(sum(stream.core.seconds) - before)
                return np.array(found)

            contenders[f"{threads} thread{'s' * (threads > 1)}", matches] = times
    points = []
    for (name, matches), turns in in_turns(contenders, TURNS).items():
        for what, percent in (("99 %", 99), ("median", 50)):
            values = [float(np.percentile(turn, percent)) * 1e3 for turn in turns]
            points.append({"series": f"{name}, {what}", "x": matches, "y": statistics.median(values), "turns": values})
    note = f"Windows of ten slides, pairs written out. Not the maximum: others use this machine too. {CORES}."
    title = "immutable part, time of a row by matches of a slide"
    return Figure(PAPER, "15", title, "", "matches", "ms", points, log_x=True, log_y=True, note=note)


def fig_20(scale: Scale) -> Figure:
    """How long a merge takes, and then what was queued meanwhile."""
    contenders: dict[int, Callable[[], Any]] = {}
    for slide in sliced((60_000, 80_000, 100_000), scale):
        stream = Stream("Q3", SpoJoin(slide), 10 * slide)

        def turn(stream: Stream = stream, slide: int = slide) -> tuple[float, float]:
            few = min(1000, slide // 2)
            stream.step(slide - few, 0, probing=False)
            before = stream.figures["merge_seconds"]
            stream.step(few, 0, probing=False)
            merge = stream.figures["merge_seconds"] - before
            return 1e3 * merge, 5000 * merge / stream.probe_rate(scale.seconds / TURNS, 64) * 1e3

        contenders[slide] = turn
    points = []
    for slide, turns in in_turns(contenders, TURNS).items():
        for name, at in (("merge", 0), ("probes queued at 5,000 rows/s", 1)):
            values = [turn[at] for turn in turns]
            points.append({"series": name, "x": slide, "y": statistics.median(values), "turns": values})
    note = f"Both conditions, from the sorted leaves to the run; the call that merges answers what it queued. {CORES}."
    title = "time of a merge and of what it queues"
    return Figure(PAPER, "20", title, "", "merged rows", "ms", points, log_y=True, note=note)


def fig_21(scale: Scale) -> Figure:
    """Rates of both parts of a window by the share of the mutable one."""
    window = 50_000 if scale.quick else 1_000_000 >> scale.smaller
    contenders = {}
    for share in (10, 20, 30, 40, 50):
        held = window * share // 100
        mutable = Stream("Q3", SpoJoin(2 * window), window)
        mutable.step(held, 0, probing=False)
        immutable = Stream("Q3", SpoJoin((window - held) // 9), window)
        immutable.step((window - held) // 9 * 9, 0, probing=False)
        contenders["mutable", f"{share}-{100 - share}"] = mutable, 1
        contenders["immutable", f"{share}-{100 - share}"] = immutable, 1
    title = f"parts of a window of {window:,} rows, by their shares"
    points = _rates(contenders, scale)
    return Figure(PAPER, "21", title, "", "mutable-immutable [%]", "rows/s", points, log_y=True, note=CORES)


class HashJoin:
    """A hash join over both keys, a row at a time: the two windows hold ten slides each, and a slide leaves at once."""

    def __init__(self, slide: int):
        self._slide, self._rng = slide, np.random.default_rng(0)
        self._tables: list[defaultdict] = [defaultdict(deque), defaultdict(deque)]
        self._held: list[deque] = [deque(), deque()]
        self._done = 0
        for side in (0, 1):
            for key in self._keys(10 * slide):
                self._tables[side][key].append(0)
                self._held[side].append(key)

    def _keys(self, rows: int) -> list[tuple[int, int]]:
        return list(zip(*(part.tolist() for part in rows_of("equality", rows, self._rng)), strict=True))

    def times(self, rows: int) -> list[float]:
        """Seconds of this thread for each of so many rows."""
        found = []
        for key in self._keys(rows):
            side, start = self._done % 2, time.thread_time()
            len(self._tables[1 - side].get(key, ()))
            self._tables[side][key].append(self._done)
            self._held[side].append(key)
            if len(self._held[side]) == 11 * self._slide:
                for _ in range(self._slide):
                    self._tables[side][self._held[side].popleft()].popleft()
            found.append(time.thread_time() - start)
            self._done += 1
        return found


@cache
def _equality(scale: Scale) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rates, and longest times of a row in ms; both contenders meet two slides of rows in all."""
    contenders: dict[tuple[str, int], Callable[[], Any]] = {}
    for slide in sliced((10_000, 50_000), scale):
        stream = Stream("equality", SpoJoin(slide), 10 * slide)
        stream.step(10 * slide, 10 * slide, probing=False)
        rows = 4 * slide // TURNS // 2 * 2

        def spo(stream: Stream = stream, rows: int = rows) -> list[float]:
            return [stream.time_step(1 - at % 2, at % 2) for at in range(rows)]

        contenders["SPO-Join", slide] = spo
        contenders["hash join", slide] = partial(HashJoin(slide).times, rows)
    rates, latencies = [], []
    for (name, slide), turns in in_turns(contenders, TURNS).items():
        values = [len(turn) / sum(turn) for turn in turns]
        rates.append({"series": name, "x": slide, "y": statistics.median(values), "turns": values})
        longest = [1e3 * max(max(turn) for turn in turns)]
        latencies.append({"series": name, "x": slide, "y": longest[0], "turns": longest})
    return rates, latencies


EQUALITY_NOTE = (
    "Processor time; the hash join is one over Python's dictionaries, that of SPO-Join includes some 20 us a row for "
    f"its call from Python. {CORES}."
)


def fig_22(scale: Scale) -> Figure:
    """Two equalities, rows a second."""
    points = _equality(scale)[0]
    title = "equality, rows a second"
    return Figure(PAPER, "22", title, "", "slide [rows]", "rows/s", points, log_y=True, note=EQUALITY_NOTE)


def fig_23(scale: Scale) -> Figure:
    """Two equalities, the longest time of a row."""
    points = _equality(scale)[1]
    title = "equality, longest time of a row"
    return Figure(PAPER, "23", title, "", "slide [rows]", "ms", points, log_y=True, note=EQUALITY_NOTE)


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
    fig_7, fig_8, fig_9, fig_10a, fig_10b, fig_10c, fig_10d, fig_10e, fig_11a, fig_11b, fig_11c, fig_11d, fig_12,
    fig_13, fig_14, fig_15, fig_16, fig_17, fig_18, fig_19, fig_20, fig_21, fig_22, fig_23, fig_offsets, fig_wire,
]  # fmt: skip
