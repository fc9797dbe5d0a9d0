"""PanJoin, Fig. 10 to 14: its three structures on one subwindow, at the native core's own interface.

A subwindow is filled, then batches are inserted, or probed, and the core's own clock tells how long that took: the sort
of a batch, which the paper leaves to its manager node, is not counted. All contenders of a figure take turns. Fig. 14
has BI-Sort's hardware beside them, simulated cycle by cycle. Fig. 15 is `panjoin_cluster`'s.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bench.contenders.contender import Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers import panjoin_cluster
from bench.papers.figure import Figure, Scale, measured
from bench.papers.panjoin_cluster import BISORT, RAP, STRUCTURES, WIB
from bench.simulated_join import CountingLink, main_array_cost
from muntin.contract.simulations import board_parameters
from muntin.host.native import _core
from muntin.sim.board.kernel_board import open_board

PAPER = "PanJoin"
NARROW = np.iinfo(np.int32)
EVEN = float(1 << 32)
TURNS = 3


def rows_of(scale: Scale) -> int:
    """Rows of a subwindow, where the paper has 8 M."""
    return 1 << (15 if scale.quick else 20 - scale.smaller)


def batches_of(scale: Scale) -> list[int]:
    """Rows of a batch."""
    return [1 << at for at in ((5, 8, 14) if scale.quick else (5, 8, 11, 14, 17, 19)) if 2 << at <= rows_of(scale)]


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
    buffer_rows : int
        Of BI-Sort.
    form : str
        ``"pairs"``, or ``"counts"``: how many rows match each probe. BI-Sort then finds where a probe's rows start and
        end, and copies none, as in the paper.
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
        threads: int = 1,
        form: str = "pairs",
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
        self.threads, self.counting = threads, form == "counts"
        self.arrived = self.probed = 0
        self._none = _core.Input(np.empty(0, np.int32))
        if structure == RAP:  # splitters come from the subwindow before
            self.insert(keys)
        for part in np.array_split(keys[: int(rows * filled)], 16):
            self.insert(part)

    def insert(self, keys: np.ndarray) -> float:
        """Inserts one batch; seconds."""
        before, own = self.engine.seconds[3], time.thread_time()
        self.engine.step(_core.Input(keys, first_row=self.arrived), self._none, threads=self.threads)
        self.arrived += len(keys)
        return self._least(self.engine.seconds[3] - before, time.thread_time() - own)

    def probe(self, keys: np.ndarray) -> tuple[float, int]:
        """Probes with one batch; seconds, and pairs."""
        before, own = sum(self.engine.seconds[1:3]), time.thread_time()
        found = self.engine.step(
            self._none,
            _core.Input(keys, first_row=self.probed, same_other_position=self.arrived),
            threads=self.threads, counting=self.counting,
        )  # fmt: skip
        self.probed += len(keys)
        spent = self._least(sum(self.engine.seconds[1:3]) - before, time.thread_time() - own)
        return spent, int(found[1].sum()) if self.counting else len(found[1][0])

    def _least(self, clock: float, own: float) -> float:
        """Of one thread, its own time where others had the processor meanwhile, which a clock does not see."""
        return max(min(clock, own) if self.threads == 1 else clock, 1e-9)


def _band(reach: int) -> tuple[tuple[int, int], tuple[int, int]]:
    mask = (1 << 64) - 1
    return (-reach >> 64, -reach & mask), (reach >> 64, reach & mask)


def even_keys(rows: int, seed: int, domain: int = 1 << 32) -> np.ndarray:
    """Keys that are even over 32 bits, `domain` different ones at most."""
    keys = np.random.default_rng(seed).integers(0, domain, rows)
    return (keys * ((1 << 32) // domain) + NARROW.min).astype(np.int32)


def insert_turns(
    structure: str, rows: int, partitions: int, batch: int, scale: Scale, **options: Any
) -> Callable[[], float]:
    """What gives at each turn the M rows a second of inserts into the second half of a subwindow."""
    keys, turns = even_keys(rows, 1), itertools.count(2)

    def turn() -> float:
        window = Window(structure, rows, partitions, keys, filled=0.5, **options)
        more = even_keys(rows // 2, next(turns))
        spent, done = 0.0, 0
        for at in range(0, len(more), batch):
            spent += window.insert(more[at : at + batch])
            done += len(more[at : at + batch])
            if spent > scale.seconds / TURNS:
                break
        return done / spent / 1e6

    return turn


def probe_turns(
    structure: str, rows: int, partitions: int, batch: int, scale: Scale, matches: float = 1, equal: bool = False,
    buffered: int = 0, **options: Any,
) -> Callable[[], float]:  # fmt: skip
    """What gives at each turn the M rows a second that probe a full subwindow, each of which meets `matches` rows on
    average; of BI-Sort's rows so many at least lie in its buffer, all others in its main array."""
    domain = max(int(rows / matches), 1) if equal else 1 << 32
    domain = 1 << domain.bit_length() - 1 if equal else domain
    reach = 0 if equal else int(matches * EVEN / rows / 2)
    most = batch
    if options.get("form") != "counts":  # pairs of a call that fit memory at ease
        most = max(min(batch, int((1 << 22) / max(matches, 1))), 1)
    turns = itertools.count(10)

    @functools.cache
    def window() -> Window:
        keys = even_keys(rows, 1, domain)
        filled = rows // 2 if buffered else rows  # a subwindow that is full has no buffer any more
        opened = Window(structure, rows, partitions, keys[:filled], reach=reach, **options)
        while buffered and opened.engine.figures(0)["buffer"] < buffered:  # type: ignore[operator]
            opened.insert(keys[opened.arrived :][:31])
        return opened

    def turn() -> float:
        probes = even_keys(max(most, 1 << 14), next(turns), domain)
        spent, done = 0.0, 0
        while not done or spent < scale.seconds / TURNS:
            part = probes[done % len(probes) :][:most]
            spent += window().probe(part)[0]
            done += len(part)
        return done / spent / 1e6

    return turn


Series = Iterable[tuple[str, Any]]


def points(
    series: Series, places: Iterable[int], turns: Callable[[Any, int], Callable[[], float]]
) -> list[dict[str, Any]]:
    """A point for each series and place; all take turns."""
    given = list(series)
    return measured({(name, x): turns(of, x) for x in places for name, of in given}, TURNS)


def _partitions(rows: int, scale: Scale) -> list[tuple[str, int]]:
    each = (128, 1024) if scale.quick else (32, 128, 1024, 8192)
    return [(f"P={rows // of:,}", rows // of) for of in each]


def _figure(number: str, title: str, x: str, found: list[dict[str, Any]], note: str = "", rows: int = 0) -> Figure:
    size = f"One thread, a subwindow of {rows:,} rows, {TURNS} turns. " if rows else ""
    return Figure(PAPER, number, title, "", x, "M rows/s", found, log_x=True, log_y=True, note=(size + note).strip())


def inserts_by_partitions(structure: str, number: str, scale: Scale) -> Figure:
    """Fig. 10a, 11a, 12a."""
    rows = rows_of(scale)
    found = points(_partitions(rows, scale), batches_of(scale), lambda p, b: insert_turns(structure, rows, p, b, scale))
    return _figure(number, f"{structure}, insert, by partitions", "batch rows", found, rows=rows)


def inserts_by_size(structure: str, number: str, scale: Scale) -> Figure:
    """Fig. 10b, 11b, 12b: as many partitions whatever the subwindow."""
    sizes = [rows_of(scale) >> by for by in ((0, 2) if scale.quick else (0, 2, 4, 6))]
    partitions = sizes[-1] // 16
    found = points(
        [(f"subwindow of {size:,}", size) for size in sizes],
        [batch for batch in batches_of(scale) if batch <= sizes[-1] // 2],
        lambda size, batch: insert_turns(structure, size, partitions, batch, scale),
    )
    note = f"One thread, P={partitions:,}, {TURNS} turns."
    return _figure(number, f"{structure}, insert, by subwindow", "batch rows", found, note)


def equal_probes_by_batch(structure: str, number: str, scale: Scale) -> Figure:
    """Fig. 10c, 11c, 12c."""
    rows = rows_of(scale)
    series = [(f"{rows >> by:,} rows, {each} a partition", (rows >> by, each)) for by in (0, 3) for each in (32, 128)]
    found = points(
        series,
        batches_of(scale),
        lambda of, batch: probe_turns(structure, of[0], of[0] // of[1], batch, scale, equal=True),
    )
    note = f"One thread, {TURNS} turns."
    return _figure(number, f"{structure}, equi-probe, one match a row", "batch rows", found, note)


def _form(structure: str) -> str:
    return "counts" if structure == BISORT else "pairs"


def probes_by_matches(structure: str, number: str, scale: Scale, *, equal: bool) -> Figure:
    """Fig. 10d, e, 11d, e, 12d, e."""
    rows = rows_of(scale)
    matches = (1, 16, 256) if scale.quick else (1, 16, 64, 256, 1024, 4096)
    batch = 1 << (10 if scale.quick else 15)
    found = points(
        _partitions(rows, scale),
        matches,
        lambda p, m: probe_turns(structure, rows, p, batch, scale, matches=m, equal=equal, form=_form(structure)),
    )
    title = f"{structure}, {'equi' if equal else 'non-equi'}-probe, by partitions"
    note = "Start and end of a probe's rows are found, and none copied." if structure == BISORT else "Rows are copied."
    return _figure(number, title, "matches of a probing row", found, note, rows)


def errors(number: str, scale: Scale) -> Figure:
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
        PAPER, number, "RaP-Table, error of the splitters", "", "adjustments", "mean absolute error / even share",
        found, note="Equal keys lie in one partition: what is left in rank-size and worst-case keys is theirs. "
        "The YouTube data is not here; rank-size keys of a Pareto distribution (0.7) stand for it. Worst case as in "
        "Fig. 4, of integers: it ends after the logarithm of 2^32 to the base of the partitions.",
    )  # fmt: skip


@functools.cache
def _trees() -> tuple[ctypes.CDLL, list[tuple[str, int]]]:
    """The peers' library, and the trees in it.

    Raises
    ------
    Unavailable
        There is no C++ compiler.
    """
    try:
        trees = compiled("ordered_tree", "absl_throw_delegate", "absl_raw_logging_internal")
    except Unavailable:
        trees = compiled("ordered_tree")
    trees.tree_new.restype = ctypes.c_void_p
    trees.tree_free.argtypes = [ctypes.c_void_p]
    trees.tree_insert.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64]
    trees.tree_probe.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p,
    ]  # fmt: skip
    trees.tree_probe.restype = ctypes.c_int64
    if not (absl := trees.tree_new(1)):
        return trees, [("std::multimap", 0)]
    trees.tree_free(absl)
    return trees, [("absl::btree_multimap", 1), ("std::multimap", 0)]


def _peer_inserts(kind: int, rows: int, batch: int, scale: Scale) -> Callable[[], float]:
    trees, turns = _trees()[0], itertools.count(2)

    def turn() -> float:
        tree = trees.tree_new(kind)
        half = even_keys(rows // 2, 1)
        trees.tree_insert(tree, half.ctypes.data, 0, len(half))
        more = even_keys(rows // 2, next(turns))
        spent, done = 0.0, 0
        for at in range(0, len(more), batch):
            part = np.sort(more[at : at + batch])
            start = time.thread_time()
            trees.tree_insert(tree, part.ctypes.data, rows, len(part))
            spent, done = spent + time.thread_time() - start, done + len(part)
            if spent > scale.seconds / TURNS:
                break
        trees.tree_free(tree)
        return done / spent / 1e6

    return turn


@functools.cache
def _peer_tree(kind: int, rows: int) -> int:
    """A tree of so many rows, which stays to the end of the process."""
    tree, keys = _trees()[0].tree_new(kind), even_keys(rows, 1)
    _trees()[0].tree_insert(tree, keys.ctypes.data, 0, rows)
    return int(tree)


def _peer_probes(kind: int, rows: int, batch: int, matches: int, scale: Scale) -> Callable[[], float]:
    trees, turns, buffer = _trees()[0], itertools.count(10), np.empty(1 << 20, np.uint32)
    reach = int(matches * EVEN / rows / 2)

    def turn() -> float:
        spent, done = 0.0, 0
        while not done or spent < scale.seconds / TURNS:
            probes = np.sort(even_keys(batch, next(turns)))
            start = time.thread_time()
            trees.tree_probe(_peer_tree(kind, rows), probes.ctypes.data, batch, reach, buffer.ctypes.data)
            spent, done = spent + time.thread_time() - start, done + batch
        return done / spent / 1e6

    return turn


def wib_tree_against_btree(number: str, scale: Scale) -> Figure:
    """Fig. 11f."""
    rows, contenders = rows_of(scale), {}
    partitions = max(rows // 64, 1)
    ranged = "range probe, 256 matches"
    try:
        trees: list[tuple[str, int]] = _trees()[1]
    except Unavailable as reason:
        trees = []
        note = f"No peers: {str(reason).splitlines()[0]}."
    else:
        note = "" if len(trees) == 2 else "absl::btree_multimap left out (Debian: apt install libabsl-dev)."
    for batch in batches_of(scale):
        contenders["insert, WiB+-Tree", batch] = insert_turns(WIB, rows, partitions, batch, scale)
        contenders["equi-probe, WiB+-Tree", batch] = probe_turns(WIB, rows, partitions, batch, scale, equal=True)
        contenders[f"{ranged}, WiB+-Tree", batch] = probe_turns(WIB, rows, partitions, batch, scale, matches=256)
        for name, kind in trees:
            contenders[f"insert, {name}", batch] = _peer_inserts(kind, rows, batch, scale)
            contenders[f"equi-probe, {name}", batch] = _peer_probes(kind, rows, batch, 0, scale)
            contenders[f"{ranged}, {name}", batch] = _peer_probes(kind, rows, batch, 256, scale)
    found = []
    rates = {(point["series"], point["x"]): point for point in measured(contenders, TURNS)}
    for (series, batch), point in rates.items():
        what, _, name = series.rpartition(", ")
        if name != "WiB+-Tree":
            ours = rates[f"{what}, WiB+-Tree", batch]
            over = [a / b for a, b in zip(ours["turns"], point["turns"], strict=True)]
            found.append(
                {"series": f"{what}, over {name}", "x": batch, "y": sorted(over)[len(over) // 2], "turns": over}
            )
    figure = _figure(number, "WiB+-Tree against trees of one thread", "batch rows", found, note, rows)
    figure.y, figure.log_y = "times as fast", False
    return figure


def by_buffer(number: str, scale: Scale) -> Figure:
    """Fig. 12f: a buffer that is full, but for a batch, when it is probed."""
    rows, batch = 1 << 16, 32
    sizes = (32, 2048) if scale.quick else (32, 256, 2048, 16384)
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    for size in sizes:
        contenders["insert", size] = insert_turns(BISORT, rows, 1024, batch, scale, buffer_rows=size)
        contenders["equi-probe", size] = probe_turns(
            BISORT, rows, 1024, batch, scale, equal=True, buffer_rows=size, buffered=size - 31, form="counts"
        )
    found = measured(contenders, TURNS)
    note = f"One thread, P=1,024, {TURNS} turns. Probes compare each row of a buffer that is full but for a batch."
    return _figure(number, "BI-Sort, batches of 32 rows in a subwindow of 64 K", "buffer rows", found, note)


def _each_partition(rows: int) -> int:
    return rows // 128


def compared_inserts(number: str, scale: Scale) -> Figure:
    """Fig. 13a."""
    rows = rows_of(scale)
    found = points(
        [(name, name) for name in STRUCTURES],
        batches_of(scale),
        lambda name, batch: insert_turns(name, rows, _each_partition(rows), batch, scale),
    )
    return _figure(number, "insert", "batch rows", found, rows=rows)


def compared_probes(number: str, scale: Scale) -> Figure:
    """Fig. 13b."""
    rows, batch = rows_of(scale), 1 << (10 if scale.quick else 15)
    found = points(
        [(name, name) for name in STRUCTURES],
        (1, 16, 256) if scale.quick else (1, 16, 64, 256, 1024, 4096, 16384),
        lambda name, m: probe_turns(name, rows, _each_partition(rows), batch, scale, matches=m, form=_form(name)),
    )
    note = "RaP-Table and WiB+-Tree copy rows; of BI-Sort start and end are found, and no row copied."
    return _figure(number, "non-equi-probe", "matches of a probing row", found, note, rows)


def by_threads(number: str, scale: Scale) -> Figure:
    """What threads gain; the paper has no figure of it."""
    rows, batch = rows_of(scale), 1 << (12 if scale.quick else 16)
    counts = [count for count in (1, 2, 4, 8) if count <= (os.cpu_count() or 1)]
    before = _core.threads()
    contenders: dict[tuple[str, Any], Callable[[], float]] = {}
    for name in STRUCTURES:
        for count in counts:
            given = (name, rows, _each_partition(rows), batch, scale)
            contenders[f"{name}, insert", count] = insert_turns(*given, threads=count)
            contenders[f"{name}, probe", count] = probe_turns(*given, threads=count)
    try:
        _core.set_threads(max(counts))
        found = measured(contenders, TURNS)
    finally:
        _core.set_threads(before)
    note = f"A subwindow of {rows:,} rows. RaP-Table inserts with several threads here, each at partitions of its own."
    return _figure(number, "threads", "threads", found, note)


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


def beside_hardware(number: str, scale: Scale) -> Figure:
    """Fig. 14a and b."""
    rows = min(rows_of(scale), 1 << (12 if scale.quick else 16))
    batches = [batch for batch in batches_of(scale) if batch <= rows // 2]
    inserts = number == "14a"
    turns: Callable[..., Callable[[], float]] = insert_turns if inserts else functools.partial(probe_turns, equal=True)
    found = points(
        [(f"{name}, CPU", name) for name in STRUCTURES],
        batches,
        lambda name, batch: turns(name, rows, _each_partition(rows), batch, scale),
    )
    simulated, note = hardware(rows, tuple(batches))
    what = "insert" if inserts else "equi-probe"
    if simulated:
        name = f"{BISORT}, hardware (simulated)"
        found += [{"series": name, "x": batch, "y": simulated[what][batch]} for batch in batches]
    return _figure(number, f"{what}, CPU and hardware", "batch rows", found, note, rows)


def _named(number: str, make: Callable[[str, Scale], Figure]) -> Callable[[Scale], Figure]:
    def run(scale: Scale) -> Figure:
        return make(number, scale)

    run.__name__ = f"fig_{number}"
    return run


def _of(make: Callable[..., Figure], structure: str, **options: Any) -> Callable[[str, Scale], Figure]:
    return lambda number, scale: make(structure, number, scale, **options)


_MADE: dict[str, Callable[[str, Scale], Figure]] = {}
for _at, _structure in (("10", RAP), ("11", WIB), ("12", BISORT)):
    _MADE |= {
        f"{_at}a": _of(inserts_by_partitions, _structure),
        f"{_at}b": _of(inserts_by_size, _structure),
        f"{_at}c": _of(equal_probes_by_batch, _structure),
        f"{_at}d": _of(probes_by_matches, _structure, equal=True),
        f"{_at}e": _of(probes_by_matches, _structure, equal=False),
        f"{_at}f": {"10": errors, "11": wib_tree_against_btree, "12": by_buffer}[_at],
    }
_MADE |= {
    "13a": compared_inserts, "13b": compared_probes, "14a": beside_hardware, "14b": beside_hardware,
    **panjoin_cluster.MADE, "threads": by_threads,
}  # fmt: skip

FIGURES: list[Callable[[Scale], Figure]] = [_named(number, make) for number, make in _MADE.items()]
