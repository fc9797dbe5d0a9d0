"""PanJoin, Fig. 10 to 14: its three structures on one subwindow, at the native core's own interface; Fig. 15: its
manager and workers.

For the former a subwindow is filled, then batches are inserted, or probed, and the core's own clock tells how long that
took: the sort of a batch, which the paper leaves to its manager node, is not counted. Fig. 14 has BI-Sort's hardware
beside them, simulated cycle by cycle. Workers are partitions of one process: rates are of its cores, work and bytes of
each worker are exact.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders.contender import Unavailable
from bench.papers.clusters import Manager
from bench.papers.figure import Figure, Scale
from bench.papers.splitjoin import handshake
from bench.simulated_join import CountingLink, main_array_cost
from muntin.contract.simulations import board_parameters
from muntin.host.engines import SplitJoin
from muntin.host.index import BiSort, Index, RapTable, WibTree
from muntin.host.join import WindowJoin
from muntin.host.native import _core
from muntin.host.predicates import Band
from muntin.host.windows import Rows
from muntin.sim.board.kernel_board import open_board

PAPER = "PanJoin"
SOURCE = Path(__file__).parents[1] / "cpp" / "ordered_tree.cpp"
BUILD = Path(__file__).parents[2] / "build" / "bench"
RAP, WIB, BISORT = "RaP-Table", "WiB+-Tree", "BI-Sort"
NARROW = np.iinfo(np.int32)
EVEN = float(1 << 32)
TURNS = 3
SMALLER = (
    "The subwindow is smaller than the paper's 8 M rows, and there are two cores for its eight threads; "
    "inserts are timed without the sort of the batch"
)


def rows_of(scale: Scale) -> int:
    """Rows of a subwindow, where the paper has 8 M."""
    return 1 << (15 if scale.quick else 20)


def batches_of(scale: Scale) -> list[int]:
    """Rows of a batch."""
    return [1 << at for at in ((6, 10, 14) if scale.quick else (5, 8, 11, 14, 17, 19))]


class Window:
    """One subwindow of a structure, in an engine that stores left rows and probes with right ones.

    Parameters
    ----------
    structure : str
    rows : int
        Of the subwindow.
    partitions : int
        Of a RaP-Table; a WiB+-Tree gets leaves that hold twice the rows of one, as they are three quarters full.
    keys : ndarray of int32
        That the subwindow is filled with.
    filled : float
        How much of it.
    reach : int
        Half the width of the band that probes have.
    """

    def __init__(
        self,
        structure: str,
        rows: int,
        partitions: int,
        keys: np.ndarray,
        *,
        filled: float = 1.0,
        reach: int = 0,
        buffer_rows: int = 1024,
        threads: int = 1 << 20,
    ):
        each = max(rows // partitions, 1)
        parameters: dict[str, Any] = {
            RAP: {"partitions": partitions, "subwindow_rows": rows},
            WIB: {"leaf_rows": max(4 * each // 3, 2), "subwindow_rows": rows},
            BISORT: {"partitions": partitions, "buffer_rows": buffer_rows, "subwindow_rows": rows},
        }[structure]
        self.engine = _core.Engine(
            key_bits=32,
            index={RAP: "rap_table", WIB: "wib_tree", BISORT: "bisort"}[structure],
            parameters=parameters,
            window=(rows, 1),
            bands=[_band(reach)],
        )
        self.threads = threads
        self.arrived = self.probed = 0
        self._none = _core.Input(np.empty(0, np.int32))
        if structure == RAP:  # splitters come from the subwindow before
            self.insert(keys)
        for part in np.array_split(keys[: int(rows * filled)], 16):
            self.insert(part)

    def insert(self, keys: np.ndarray) -> float:
        """Inserts one batch; seconds."""
        before = self.engine.seconds[3]
        self.engine.step(_core.Input(keys, first_row=self.arrived), self._none, threads=self.threads)
        self.arrived += len(keys)
        return self.engine.seconds[3] - before

    def probe(self, keys: np.ndarray) -> tuple[float, int]:
        """Probes with one batch; seconds, and pairs."""
        before = sum(self.engine.seconds[1:3])
        found = self.engine.step(
            self._none,
            _core.Input(keys, first_row=self.probed, same_opposite=self.arrived),
            threads=self.threads,
        )
        self.probed += len(keys)
        return sum(self.engine.seconds[1:3]) - before, len(found[1][0])


def _band(reach: int) -> tuple[tuple[int, int], tuple[int, int]]:
    mask = (1 << 64) - 1
    return (-reach >> 64, -reach & mask), (reach >> 64, reach & mask)


def even_keys(rows: int, seed: int, domain: int = 1 << 32) -> np.ndarray:
    """Keys that are even over 32 bits, `domain` different ones at most."""
    keys = np.random.default_rng(seed).integers(0, domain, rows)
    return (keys * ((1 << 32) // domain) + NARROW.min).astype(np.int32)


def rate_of_inserts(structure: str, rows: int, partitions: int, batch: int, scale: Scale, **options: Any) -> float:
    """M rows a second into the second half of a subwindow."""
    keys, rates = even_keys(rows, 1), []
    for turn in range(TURNS):
        window = Window(structure, rows, partitions, keys, filled=0.5, **options)
        more = even_keys(rows // 2, 2 + turn)
        spent, done = 0.0, 0
        for at in range(0, len(more), batch):
            spent += window.insert(more[at : at + batch])
            done += len(more[at : at + batch])
            if spent > scale.seconds / TURNS:
                break
        rates.append(done / spent / 1e6)
    return statistics.median(rates)


def rate_of_probes(
    structure: str, rows: int, partitions: int, batch: int, scale: Scale, matches: float = 1, equal: bool = False,
    **options: Any,
) -> float:  # fmt: skip
    """M rows a second that probe a full subwindow, each of which meets `matches` rows on average."""
    domain = max(int(rows / matches), 1) if equal else 1 << 32
    domain = 1 << domain.bit_length() - 1 if equal else domain
    reach = 0 if equal else int(matches * EVEN / rows / 2)
    window = Window(structure, rows, partitions, even_keys(rows, 1, domain), reach=reach, **options)
    rates = []
    most = max(min(batch, int((1 << 24) / max(matches, 1))), 1)  # pairs of a call that fit memory at ease
    for turn in range(TURNS):
        probes = even_keys(max(most, 1 << 14), 10 + turn, domain)
        spent, done = 0.0, 0
        while spent < scale.seconds / TURNS:
            part = probes[done % len(probes) :][:most]
            spent += window.probe(part)[0]
            done += len(part)
        rates.append(done / spent / 1e6)
    return statistics.median(rates)


def points(series: Iterable[tuple[str, Any]], places: Iterable[int], value: Callable[[Any, int], float]) -> list[dict]:
    """A point for each series and place; contenders take turns at each place."""
    series = list(series)
    return [{"series": name, "x": x, "y": value(given, x)} for x in places for name, given in series]


def _partitions(rows: int, scale: Scale) -> list[tuple[str, int]]:
    each = (128, 1024) if scale.quick else (32, 128, 1024, 8192)
    return [(f"P={rows // of:,}", rows // of) for of in each]


def _figure(number: str, title: str, claim: str, x: str, found: list[dict[str, Any]], note: str = SMALLER) -> Figure:
    return Figure(PAPER, number, title, claim, x, "M rows/s", found, log_x=True, log_y=True, note=note)


def inserts_by_partitions(structure: str, number: str, claim: str, scale: Scale) -> Figure:
    rows = rows_of(scale)
    found = points(
        _partitions(rows, scale), batches_of(scale), lambda p, b: rate_of_inserts(structure, rows, p, b, scale)
    )
    return _figure(number, f"{structure}, insert, by partitions", claim, "batch rows", found)


def inserts_by_size(structure: str, number: str, claim: str, scale: Scale) -> Figure:
    sizes = [rows_of(scale) >> by for by in ((0, 2) if scale.quick else (0, 2, 4, 6))]
    found = points(
        [(f"subwindow of {size:,}", size) for size in sizes],
        batches_of(scale),
        lambda size, batch: rate_of_inserts(structure, size, max(size // 128, 1), batch, scale),
    )
    return _figure(number, f"{structure}, insert, by subwindow", claim, "batch rows", found)


def equal_probes_by_batch(structure: str, number: str, claim: str, scale: Scale) -> Figure:
    rows = rows_of(scale)
    series = [(f"{rows >> by:,} rows, {each} a partition", (rows >> by, each)) for by in (0, 3) for each in (32, 128)]
    found = points(
        series,
        batches_of(scale),
        lambda of, batch: rate_of_probes(structure, of[0], of[0] // of[1], batch, scale, equal=True),
    )
    return _figure(number, f"{structure}, equi-probe, one match a row", claim, "batch rows", found)


def probes_by_matches(structure: str, number: str, claim: str, scale: Scale, *, equal: bool) -> Figure:
    rows = rows_of(scale)
    matches = (1, 16, 256) if scale.quick else (1, 4, 16, 64, 256, 1024, 4096)
    batch = 1 << (10 if scale.quick else 15)
    found = points(
        _partitions(rows, scale),
        matches,
        lambda p, m: rate_of_probes(structure, rows, p, batch, scale, matches=m, equal=equal),
    )
    title = f"{structure}, {'equi' if equal else 'non-equi'}-probe, by partitions"
    return _figure(number, title, claim, "matches of a probing row", found, SMALLER + "; results are copied as pairs")


def errors(claim: str, scale: Scale) -> Figure:
    """The normalised mean absolute error of the rows of partitions, after each subwindow."""
    rows, found = rows_of(scale), []
    rng = np.random.default_rng(0)

    def modes(spread: float, count: int) -> np.ndarray:
        middles = np.linspace(NARROW.min * 0.8, NARROW.max * 0.8, count) if count > 1 else np.zeros(1)
        return np.clip(rng.normal(rng.choice(middles, rows), spread * EVEN), NARROW.min, NARROW.max)

    def ranges(width: float, count: int) -> np.ndarray:
        starts = np.linspace(NARROW.min, NARROW.max - width * EVEN, count)
        return rng.choice(starts, rows) + rng.random(rows) * width * EVEN

    def rank_size() -> np.ndarray:  # 99 % of the rows in 1 % of the range, as the view counts of YouTube's videos
        return np.minimum(rng.pareto(0.7, rows) * 400, NARROW.max)

    def worst(partitions: int) -> np.ndarray:
        # A row at each power of the partitions below the greatest key, and all others below the least of them.
        powers = [NARROW.max // partitions**k for k in range(32) if NARROW.max // partitions**k > 0]
        return np.concatenate([np.array(powers), rng.integers(0, partitions, rows - len(powers))])

    for partitions in (rows // 1024, rows // 64):
        kinds: dict[str, Callable[[], np.ndarray]] = {
            f"N(0.01, 1, {partitions})": lambda: modes(0.01, 1),
            f"N(0.001, 8, {partitions})": lambda: modes(0.001, 8),
            f"U(0.01, 4, {partitions})": lambda: ranges(0.01, 4),
            f"rank-size, {partitions}": rank_size,
            f"worst case, {partitions}": lambda partitions=partitions: worst(partitions),  # type: ignore[misc]
        }
        for name, draw in kinds.items():
            window = Window(RAP, rows, partitions, np.empty(0, np.int32))
            for adjustments in range(6):
                window.insert(draw().astype(np.int32))
                error = window.engine.figures(0)["errors_per_mille"][-1] / 1000  # type: ignore[index, operator]
                found.append({"series": name, "x": adjustments, "y": error})
    return Figure(
        PAPER, "10f", "RaP-Table, error of the splitters", claim, "adjustments", "mean absolute error / even share",
        found, note="Equal keys lie in one partition: what is left in rank-size and worst-case keys is theirs. "
        "The YouTube data is not here; rank-size keys of a Pareto distribution (0.7) stand for it. Worst case as in "
        "Fig. 4, of integers: it ends after the logarithm of 2^32 to the base of the partitions.",
    )  # fmt: skip


def _trees() -> tuple[ctypes.CDLL | None, str]:
    """The peer's library, or why there is none."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return None, "no C++ compiler here (Debian: apt install g++)"
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = BUILD / f"ordered_tree-{digest}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        command = [compiler, "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", str(SOURCE), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:  # Abseil's headers are there without its libraries
            return None, f"{compiler} failed on {SOURCE.name}: {done.stderr[-300:]}"
        partial.replace(library)
    trees = ctypes.CDLL(str(library))
    trees.tree_new.restype = ctypes.c_void_p
    trees.tree_free.argtypes = [ctypes.c_void_p]
    trees.tree_insert.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64]
    trees.tree_probe.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p,
    ]  # fmt: skip
    trees.tree_probe.restype = ctypes.c_int64
    return trees, ""


def _rate(run: Callable[[], int], seconds: float) -> float:
    """M rows a second of a run that returns how many it did."""
    spent, done = 0.0, 0
    while spent < seconds:
        start = time.perf_counter()
        done += run()
        spent += time.perf_counter() - start
    return done / spent / 1e6


def wib_tree_against_btree(scale: Scale) -> Figure:
    claim = (
        "WiB+-Tree inserts 3.5 to 4.5 times as fast as Google's B-Tree; equi-probes up to 2.8, range probes up to 1.3."
    )
    trees, reason = _trees()
    rows, found, notes = rows_of(scale), [], [SMALLER]
    peers = []
    if trees is not None:
        if absl := trees.tree_new(1):
            trees.tree_free(absl)
            peers = [("absl::btree_multimap", 1), ("std::multimap", 0)]
        else:
            peers = [("std::multimap", 0)]
            notes.append("absl::btree_multimap skipped: no Abseil here (Debian: apt install libabsl-dev)")
    else:
        notes.append(f"no peers: {reason}")
    buffer = np.empty(1 << 24, np.uint32)
    partitions = max(rows // 64, 1)
    for batch in batches_of(scale):
        wib = {
            "insert": rate_of_inserts(WIB, rows, partitions, batch, scale, threads=1),
            "equi-probe": rate_of_probes(WIB, rows, partitions, batch, scale, equal=True, threads=1),
            "range probe, 256 matches": rate_of_probes(WIB, rows, partitions, batch, scale, matches=256, threads=1),
        }
        for name, kind in peers:
            tree = trees.tree_new(kind)  # type: ignore[union-attr]
            keys = even_keys(rows, 1)
            trees.tree_insert(tree, keys.ctypes.data, 0, rows // 2)  # type: ignore[union-attr]
            more = [np.sort(keys[at : at + batch]) for at in range(rows // 2, rows, batch)]
            start = time.perf_counter()
            for part in more:
                trees.tree_insert(tree, part.ctypes.data, rows, len(part))  # type: ignore[union-attr]
            rates = {"insert": sum(map(len, more)) / (time.perf_counter() - start) / 1e6}
            for what, reach in (("equi-probe", 0), ("range probe, 256 matches", int(256 * EVEN / rows / 2))):
                probes = np.sort(even_keys(batch, 10))

                def run(reach: int = reach, probes: np.ndarray = probes, tree: int = tree, batch: int = batch) -> int:
                    trees.tree_probe(tree, probes.ctypes.data, batch, reach, buffer.ctypes.data)  # type: ignore[union-attr]
                    return batch

                rates[what] = _rate(run, scale.seconds)
            trees.tree_free(tree)  # type: ignore[union-attr]
            found += [{"series": f"{what}, over {name}", "x": batch, "y": wib[what] / rates[what]} for what in wib]
    figure = _figure("11f", "WiB+-Tree against trees of one thread", claim, "batch rows", found, ". ".join(notes))
    figure.y = "times as fast"
    figure.log_y = False
    return figure


def by_buffer(claim: str, scale: Scale) -> Figure:
    rows, batch = 1 << 16, 32
    series = [("insert", rate_of_inserts), ("equi-probe", rate_of_probes)]
    found = points(
        series,
        (32, 256, 2048, 16384),
        lambda measure, size: measure(BISORT, rows, 1, batch, scale, buffer_rows=size),
    )
    title = "BI-Sort, batches of 32 rows in a subwindow of 64 K"
    return _figure("12f", title, claim, "buffer rows", found, "Probes compare each row of the buffer, as in the paper")


STRUCTURES = [(RAP, lambda rows: rows // 128), (WIB, lambda rows: rows // 128), (BISORT, lambda rows: rows // 128)]


def compared(number: str, claim: str, scale: Scale) -> Figure:
    rows = rows_of(scale)
    series = [(name, (name, of(rows))) for name, of in STRUCTURES]
    if number == "13a":
        found = points(series, batches_of(scale), lambda of, batch: rate_of_inserts(of[0], rows, of[1], batch, scale))
        return _figure(number, "insert", claim, "batch rows", found, f"{SMALLER}. {_crossing(found)}")
    matches = (1, 16, 256) if scale.quick else (1, 4, 16, 64, 256, 1024, 4096)
    found = points(
        series, matches,
        lambda of, m: rate_of_probes(of[0], rows, of[1], 1 << (10 if scale.quick else 15), scale, matches=m),
    )  # fmt: skip
    note = f"{SMALLER}. All three copy pairs; BI-Sort's <start, end> is form='ranges'. {_crossing(found)}"
    return _figure(number, "non-equi-probe", claim, "matches of a probing row", found, note)


def _crossing(found: list[dict[str, Any]]) -> str:
    """Which structure is best where."""
    best: dict[Any, dict[str, Any]] = {}
    for point in found:
        if point["x"] not in best or point["y"] > best[point["x"]]["y"]:
            best[point["x"]] = point
    return "Best: " + ", ".join(f"{point['series']} at {x:,}" for x, point in best.items())


def by_threads(scale: Scale) -> Figure:
    rows, batch = rows_of(scale), 1 << (12 if scale.quick else 16)
    cores = os.cpu_count() or 1
    counts = [count for count in (1, 2, 4, 8) if count <= cores]
    series = [(f"{name}, {what}", (name, measure)) for name, _ in STRUCTURES for what, measure in MEASURES]
    before = _core.threads()
    try:
        _core.set_threads(max(counts))
        found = points(series, counts, lambda of, n: of[1](of[0], rows, rows // 128, batch, scale, threads=n))
    finally:
        _core.set_threads(before)
    return _figure(
        "threads", "threads", "All probe with 8 threads; RaP-Table and WiB+-Tree insert with one, BI-Sort with 8.",
        "threads", found, f"{SMALLER}. RaP-Table inserts with several threads here, each at partitions of its own",
    )  # fmt: skip


MEASURES: list[tuple[str, Callable[..., float]]] = [("insert", rate_of_inserts), ("probe", rate_of_probes)]
LARGER_BATCHES = "Throughput grows with the batch; "
CLAIMS: list[tuple[str, Callable[[str, Scale], Figure]]] = [
    ("10a " + LARGER_BATCHES + "fewer partitions are faster; 100 M rows/s at batches of 8 M.",
     lambda claim, scale: inserts_by_partitions(RAP, "10a", claim, scale)),
    ("10b Smaller subwindows are slightly faster.", lambda claim, scale: inserts_by_size(RAP, "10b", claim, scale)),
    ("10c Smaller partitions are faster, and smaller subwindows.",
     lambda claim, scale: equal_probes_by_batch(RAP, "10c", claim, scale)),
    ("10d Throughput falls as matches grow; more partitions are faster while they are few.",
     lambda claim, scale: probes_by_matches(RAP, "10d", claim, scale, equal=True)),
    ("10e As with equi-joins: fewer matches and more partitions are faster.",
     lambda claim, scale: probes_by_matches(RAP, "10e", claim, scale, equal=False)),
    ("10f The adjustment converges in one to three rounds for each distribution; fewer partitions fit better.", errors),
    ("11a Larger batches are faster; partitions matter little.",
     lambda claim, scale: inserts_by_partitions(WIB, "11a", claim, scale)),
    ("11b Larger subwindows are slower.", lambda claim, scale: inserts_by_size(WIB, "11b", claim, scale)),
    ("11c Smaller partitions are faster.", lambda claim, scale: equal_probes_by_batch(WIB, "11c", claim, scale)),
    ("11d Throughput falls as matches grow.",
     lambda claim, scale: probes_by_matches(WIB, "11d", claim, scale, equal=True)),
    ("11e Throughput falls as matches grow.",
     lambda claim, scale: probes_by_matches(WIB, "11e", claim, scale, equal=False)),
    ("12a Partitions matter little.", lambda claim, scale: inserts_by_partitions(BISORT, "12a", claim, scale)),
    ("12b Batches below the buffer's size are alike; larger subwindows are slower there.",
     lambda claim, scale: inserts_by_size(BISORT, "12b", claim, scale)),
    ("12c The size of partitions matters little.",
     lambda claim, scale: equal_probes_by_batch(BISORT, "12c", claim, scale)),
    ("12d Matches matter little, but where partitions have fewer rows than match.",
     lambda claim, scale: probes_by_matches(BISORT, "12d", claim, scale, equal=True)),
    ("12e Matches do not matter, as ranges are found and no rows copied; more partitions are faster.",
     lambda claim, scale: probes_by_matches(BISORT, "12e", claim, scale, equal=False)),
    ("12f A large buffer makes small batches 100 to 1000 times as fast; probes suffer from it.", by_buffer),
    ("13a BI-Sort inserts faster than the others only with batches above 64 K.",
     lambda claim, scale: compared("13a", claim, scale)),
    ("13b Below 1 K matches RaP-Table is 1.7 to 2.4 times WiB+-Tree, BI-Sort 1.6 to 7 times RaP-Table.",
     lambda claim, scale: compared("13b", claim, scale)),
    ("14a On the FPGA, BI-Sort inserts faster than RaP-Table and WiB+-Tree on the CPU with batches above 64 K, and at "
     "0.4 to 0.6 of BI-Sort's rate there, as its memory is 8.8 times slower.",
     lambda claim, scale: beside_hardware("14a", claim, scale)),
    ("14b On the FPGA, BI-Sort probes faster than RaP-Table and WiB+-Tree on the CPU with batches above 64 K.",
     lambda claim, scale: beside_hardware("14b", claim, scale)),
]  # fmt: skip


@functools.cache
def hardware(rows: int, batches: tuple[int, ...]) -> tuple[dict[str, dict[int, float]], str]:
    """BI-Sort's hardware with a main array of so many rows, simulated with DDR3: M rows/s that are inserted and that
    probe, one match each, by the batch; and what is to be said of it, or why it is left out.
    """
    found: dict[str, dict[int, float]] = {"insert": {}, "equi-probe": {}}
    try:
        link = CountingLink(open_board(board_parameters(32, "litedram"), "litedram"))
    except (ImportError, OSError, RuntimeError) as error:
        return {}, f"the hardware is left out, as it cannot be simulated here: {error}"
    clock = link.parameters.clock_hz
    for batch in batches:
        cost = main_array_cost(link, link.memory_bytes, window=rows, batch=batch, seed=1)
        for what, operation in (("insert", "MERGE"), ("equi-probe", "PROBE")):
            cycles = sum(part["cycles"] for name, part in cost.costs.items() if operation in name)
            found[what][batch] = batch / cycles * clock / 1e6
    link.close()
    return found, (
        f"Hardware: simulated cycle by cycle, preset ecp5 at its clock of {clock / 1e6:.0f} MHz with one channel of "
        f"DDR3 that moves a beat a cycle, a main array of {rows:,} rows; the paper's has two channels, eight mergers "
        "and eight probers. On an ECP5-85 that preset is routed at 46.8 MHz. No energy figure without a board"
    )


def beside_hardware(number: str, claim: str, scale: Scale) -> Figure:
    rows = min(rows_of(scale), 1 << (12 if scale.quick else 18))
    batches = [batch for batch in batches_of(scale) if batch <= rows // 2]
    inserts = number == "14a"
    measure: Callable[..., float] = rate_of_inserts if inserts else functools.partial(rate_of_probes, equal=True)
    series = [(f"{name}, CPU", (name, of(rows))) for name, of in STRUCTURES]
    found = points(series, batches, lambda of, batch: measure(of[0], rows, of[1], batch, scale))
    simulated, note = hardware(rows, tuple(batches))
    what = "insert" if inserts else "equi-probe"
    if simulated:
        name = f"{BISORT}, hardware (simulated)"
        found += [{"series": name, "x": batch, "y": simulated[what][batch]} for batch in batches]
    return _figure(number, f"{what}, CPU and hardware", claim, "batch rows", found, f"{SMALLER}. {note}")


# Fig. 15: manager and workers


class Cluster:
    """A manager with workers whose windows are full of even keys.

    Parameters
    ----------
    structure : str
    workers, window, batch : int
        Window and batch are rows of each side.
    matches : float
        Stored rows that a probe meets, on the mean.
    form : str
        Of the result: as of `WindowJoin`.
    """

    def __init__(self, structure: str, workers: int, window: int, batch: int, matches: float, form: str):
        self.batch, self.window = batch, window
        self._rng = np.random.default_rng(window)
        self._step = (1 << 31) // window  # as many different keys as rows: an equal one matches one row on the mean
        reach = int(matches) // 2 * self._step
        schema = pa.schema([("k", pa.int32()), ("s", pa.int64())])
        share = -(-window // workers)  # one subwindow a worker, as the paper has it
        index: Index = {
            RAP: RapTable(partitions=max(share // 64, 1), subwindow_rows=share),
            WIB: WibTree(subwindow_rows=share),
            BISORT: BiSort(),
        }[structure]
        self.manager = Manager(
            workers, schema, schema, subwindow_rows=share, max_rows=2 * batch, on=Band("k", "k", -reach, reach),
            left=Rows(window), right=Rows(window), index=index, form=form, sequence="s" if form == "ranges" else None,
        )  # fmt: skip
        self._arrived = 0
        # In parts, of some 8 M pairs at most.
        part = min(1 << 16, max((1 << 22) // max(int(matches), 1), 1))
        for start in range(0, window, part):
            self.push(min(part, window - start))
        self.manager.flush()

    def push(self, rows: int) -> int:
        """Rows of each side, even over the keys; how many results came back."""
        sides = []
        for _ in range(2):
            keys = self._rng.integers(0, self.window, rows, np.int32) * np.int32(self._step)
            sides.append(pa.table({"k": keys, "s": np.arange(self._arrived, self._arrived + rows)}))
        self._arrived += rows
        return sum(map(len, self.manager.push(*sides)))

    def rate(self, seconds: float) -> tuple[float, list[dict[str, int]]]:
        """Rows/s of both sides, and what each worker did for a batch."""
        before = self.manager.workers if self.manager.join.stats.engine.get("partitions") else []
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < seconds or done < 2:
            self.push(self.batch)
            done += 1
        self.manager.flush()
        spent = time.perf_counter() - started
        after = self.manager.workers if before else []
        names = ("rows_left", "rows_right", "probes_left", "probes_right", "sent_bytes", "found_bytes")
        work = [{name: (b[name] - a[name]) // done for name in names} for a, b in zip(before, after, strict=True)]
        return 2 * self.batch * done / spent, work

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.manager.close()


WORKERS_NOTE = (
    "Workers are threads of one process with two cores, so that rates fall short of 16 machines; bytes are exact"
)


def cluster_window(scale: Scale, large: bool = False) -> int:
    """Rows of a side; the paper has 8 M to 1 G."""
    return (1 << 13 if scale.quick else 1 << 20) << (large and not scale.quick)


def _measured(
    series: str, x: Any, structure: str, workers: int, window: int, batch: int, matches: float, scale: Scale,
    form: str = "counts",
) -> dict[str, Any]:  # fmt: skip
    with Cluster(structure, workers, window, batch, matches, form) as cluster:
        rate, work = cluster.rate(scale.seconds)
    total = {name: sum(each[name] for each in work) for name in (work[0] if work else ())}
    return {"series": series, "x": x, "y": rate / 1e6, "workers": work, **total}


def cluster_by_batch(claim: str, scale: Scale) -> Figure:
    """15a: equi-join, one match a probe."""
    window = cluster_window(scale)
    batches = [1 << at for at in ((8, 11) if scale.quick else (10, 13, 16, 19))]
    found = [_measured(name, batch, name, 16, window, batch, 0, scale) for name, _ in STRUCTURES for batch in batches]
    return _figure("15a", "equi-join by batch, 16 workers", claim, "batch rows", found, WORKERS_NOTE)


def _matches(scale: Scale) -> list[int]:
    return [1, 16, 64] if scale.quick else [1, 16, 256, 1024, 4096]


def cluster_by_matches(claim: str, scale: Scale) -> Figure:
    """15b: non-equi-join; results as pairs, those of BI-Sort as ranges too."""
    window, batch = min(cluster_window(scale), 1 << 18), 1 << (9 if scale.quick else 12)
    series = [(name, name, "pairs") for name, _ in STRUCTURES] + [(f"{BISORT}, ranges", BISORT, "ranges")]
    found = [
        _measured(label, matches, name, 16, window, batch, matches, scale, form)
        for label, name, form in series
        for matches in _matches(scale)
        if matches <= 1024  # whose pairs fit the memory
    ]
    note = (
        f"Windows of {window:,} rows, batches of {batch:,}; the mirror of ranges works in the manager's own thread. "
        f"{WORKERS_NOTE}"
    )
    return _figure("15b", "non-equi-join by matches, 16 workers", claim, "matches", found, note)


def cluster_receiving(claim: str, scale: Scale) -> Figure:
    """15c: the share of bytes that are results."""
    by_matches = cluster_by_matches("", scale)
    found = [
        {**point, "y": 100 * point["found_bytes"] / (point["found_bytes"] + point["sent_bytes"])}
        for point in by_matches.points
    ]
    figure = _figure(
        "15c",
        "share of bytes that are results",
        claim,
        "matches",
        found,
        ("Bytes, which are exact, in place of time on a network: a pair is two numbers of 8 bytes, a range four"),
    )
    return dataclasses.replace(figure, y="% of bytes sent", log_y=False)


def cluster_by_workers(claim: str, scale: Scale) -> Figure:
    """15d: a large window, two selectivities."""
    window, batch = cluster_window(scale, large=True), 1 << (9 if scale.quick else 14)
    workers = (2, 8) if scale.quick else (2, 4, 8, 16)
    found = [
        _measured(f"{name}, S={matches}", count, name, count, window, batch, matches, scale)
        for name, _ in STRUCTURES for matches in (1, 64) for count in workers
    ]  # fmt: skip
    first, last = (next(p for p in found if p["x"] == count) for count in (workers[0], workers[-1]))
    note = (
        f"To the workers go {first['sent_bytes']:,} bytes a batch with {workers[0]} and {last['sent_bytes']:,} with "
        f"{workers[-1]}: every probe to each. A worker stores "
        f"{max(w['stored'] for w in _shares(last)):.0%} of the rows at most. {WORKERS_NOTE}"
    )
    return _figure("15d", "non-equi-join by workers", claim, "workers", found, note)


def _shares(point: dict[str, Any]) -> list[dict[str, float]]:
    """Of each worker, its share of the rows stored."""
    rows = [work["rows_left"] + work["rows_right"] for work in point["workers"]]
    return [{"stored": each / max(sum(rows), 1)} for each in rows]


def cluster_beside_others(claim: str, scale: Scale, *, large: bool = False) -> Figure:
    """15e and f: SplitJoin and handshake join beside it, which compare each row with the whole window."""
    window = cluster_window(scale, large=large)
    batch = 1 << (9 if scale.quick else 13)
    found = [
        _measured(name, matches, name, 16, window, batch, matches, scale)
        for name, _ in STRUCTURES
        for matches in _matches(scale)
    ]
    rng = np.random.default_rng(window)
    shape: dict[str, Any] = {"left": Rows(window), "right": Rows(window), "form": "counts"}
    with WindowJoin(on=Band("k", "k", -1, 1), engine=SplitJoin(cores=16), index="nested_loop", **shape) as join:
        join.process(*(pa.table({"k": rng.integers(0, 1 << 31, window, np.int32)}) for _ in range(2)))
        rows = max((1 << 24) // window, 16)
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < scale.seconds:
            join.process(*(pa.table({"k": rng.integers(0, 1 << 31, rows, np.int32)}) for _ in range(2)))
            done += 2 * rows
        found.append({"series": "SplitJoin", "x": 1, "y": done / (time.perf_counter() - started) / 1e6})
    least = min(window, 1 << 15)  # its windows are filled by joining
    more = 256
    columns = [rng.integers(0, 1 << 30, least + more), rng.uniform(0, 1, least + more)] * 2
    try:
        _, seconds = handshake(*columns, window=least, cores=16, warm=least)
        # Each row is compared with the whole window: the rate goes by its rows.
        found.append({"series": "Handshake join", "x": 1, "y": 2 * more / seconds * least / window / 1e6})
    except Unavailable:
        pass
    fast = max(p["y"] for p in found if p["series"] == BISORT)
    slow = [f"{p['series']} {fast / p['y']:,.0f}" for p in found if p["series"] in ("SplitJoin", "Handshake join")]
    note = (
        f"BI-Sort at its best is faster by: {', '.join(slow)}. Nested loops do not depend on matches; handshake join "
        f"is measured on {least:,} rows and its rate carried over. {WORKERS_NOTE}"
    )
    number = "15f" if large else "15e"
    return _figure(number, f"beside others, windows of {window:,} rows", claim, "matches", found, note)


CLUSTER: list[tuple[str, Callable[[str, Scale], Figure]]] = [
    ("15a BI-Sort is the fastest, up to 28.9 M rows/s; RaP-Table is 1.5 times WiB+-Tree above batches of 64 K.",
     cluster_by_batch),
    ("15b RaP-Table and WiB+-Tree are slower with more matches, and alike, as sending takes 60 % of the time.",
     cluster_by_matches),
    ("15c Receiving results takes more than 90 % of the time of RaP-Table and WiB+-Tree above 1 K matches.",
     cluster_receiving),
    ("15d More workers are not always faster, as communication dominates; BI-Sort gives 10 M rows/s.",
     cluster_by_workers),
    ("15e BI-Sort is over 1000 times handshake join and SplitJoin at windows of 8 M rows and 16 workers.",
     cluster_beside_others),
    ("15f At windows of 128 M rows it is 5000 times.",
     lambda claim, scale: cluster_beside_others(claim, scale, large=True)),
]  # fmt: skip


def _named(claim: str, make: Callable[[str, Scale], Figure]) -> Callable[[Scale], Figure]:
    number, _, text = claim.partition(" ")

    def run(scale: Scale) -> Figure:
        return make(text, scale)

    run.__name__ = f"fig_{number}"
    return run


def fig_11f(scale: Scale) -> Figure:
    """See `wib_tree_against_btree`."""
    return wib_tree_against_btree(scale)


def fig_threads(scale: Scale) -> Figure:
    """See `by_threads`."""
    return by_threads(scale)


FIGURES: list[Callable[[Scale], Figure]] = [
    *(_named(*given) for given in CLAIMS), fig_11f, *(_named(*given) for given in CLUSTER), fig_threads,
]  # fmt: skip
