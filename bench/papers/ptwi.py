"""The figures of the partitioned temporal window index: Badiozamy and Risch, "Scalable ordered indexing ..."."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.contenders.contender import Unavailable
from bench.linear_road import SEGMENTS, VEHICLES, distinct_keys, road_key
from bench.papers.figure import Figure, Finding, Scale, in_turns, ratios
from muntin.host.index import BPlusTree, BurstTrie, CsbTree, Index, Judy, RadixTree, Slices, TimeKeyed
from muntin.host.join.range_index import open_window_index
from muntin.host.native import INDEXES as CORE_INDEXES

PAPER = "PTWI"
_SOURCE = Path(__file__).parents[1] / "cpp" / "ordered_maps.cpp"
_BUILD = Path(__file__).parents[2] / "build" / "bench"
_ABSL = ("-DWITH_ABSL", "-labsl_throw_delegate", "-labsl_raw_logging_internal")
_EXPRESSWAYS = 16
TURNS = 5
_ONE_SLICE = 1 << 60  # all rows in one index, as the paper measures them

INDEXES: dict[str, Index] = {
    "B+-Tree": BPlusTree(),
    "CSB+-Tree": CsbTree(),
    "burst trie": BurstTrie(),
    "radix tree": RadixTree(),
}
if CORE_INDEXES[Judy.name].built:
    INDEXES["Judy"] = Judy()


class _Ours:
    """One slice of an index of the native core."""

    def __init__(self, index: Index):
        # Judy's nodes are the library's own: what is called its mapper would be its iterator.
        self.ways: tuple[str, ...] = (
            ("iterator", "thread") if isinstance(index, Judy) else ("mapper", "iterator", "thread")
        )
        if isinstance(index, RadixTree):
            self.ways += ("root",)
        self._index = open_window_index(Slices(of=index, stride=_ONE_SLICE), span=1, key_type="uint32")

    def insert(self, keys: np.ndarray) -> None:
        self._index.insert(keys, np.zeros(len(keys), np.int64))

    def find(self, keys: np.ndarray) -> None:
        self._index.find(keys)

    def sum(self, low: int, high: int, way: str) -> int:
        return int(self._index.map(low, high, "sum", way=way) or 0)  # type: ignore[arg-type]

    @property
    def bytes(self) -> int:
        return self._index.bytes


class _Peer:
    """An ordered map that others wrote."""

    ways: tuple[str, ...] = ("iterator",)

    def __init__(self, library: ctypes.CDLL, kind: int):
        self._library, self._map = library, library.om_new(kind)
        self.bytes, self._rows = 0, 0

    def __del__(self) -> None:
        self._library.om_free(self._map)

    def insert(self, keys: np.ndarray) -> None:
        before = self._library.om_bytes()
        self._library.om_insert(self._map, keys.ctypes.data, len(keys), self._rows)
        self.bytes += self._library.om_bytes() - before
        self._rows += len(keys)

    def find(self, keys: np.ndarray) -> None:
        self._library.om_find(self._map, keys.ctypes.data, len(keys))

    def sum(self, low: int, high: int, way: str) -> int:
        return int(self._library.om_sum(self._map, low, high, ctypes.byref(ctypes.c_uint64())))

    def erase(self, keys: np.ndarray) -> None:
        self._library.om_erase(self._map, keys.ctypes.data, len(keys))


@functools.cache
def _peers() -> tuple[dict[str, Callable[[], _Peer]], str]:
    """The peers that can be had, and why others cannot."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return {}, "std::map and absl::btree_map left out: no C++ compiler (Debian: apt install g++)."
    _BUILD.mkdir(parents=True, exist_ok=True)
    for absl in (True, False):
        library = _BUILD / f"ordered_maps-{os.getpid()}.so"
        flags = _ABSL if absl else ()
        done = subprocess.run(
            [compiler, "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", _SOURCE, "-o", library, *flags],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            break
    else:
        raise Unavailable(f"{compiler} failed on {_SOURCE.name}:\n{done.stderr}")
    loaded = ctypes.CDLL(str(library))
    library.unlink()
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("om_new", pointer, [ctypes.c_int]),
        ("om_free", None, [pointer]),
        ("om_insert", None, [pointer, pointer, size, ctypes.c_uint32]),
        ("om_find", ctypes.c_uint64, [pointer, pointer, size]),
        ("om_sum", ctypes.c_uint64, [pointer, ctypes.c_uint32, ctypes.c_uint32, pointer]),
        ("om_erase", None, [pointer, pointer, size]),
        ("om_bytes", size, []),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    peers = {"std::map": lambda: _Peer(loaded, 0)}
    if absl:
        peers["absl::btree_map"] = lambda: _Peer(loaded, 1)
    return peers, "" if absl else "absl::btree_map left out (Debian: apt install libabsl-dev)."


def _left_out() -> str:
    judy = "" if "Judy" in INDEXES else "Judy left out: this build has none (Debian: apt install libjudy-dev)."
    return " ".join(part for part in (judy, _peers()[1]) if part)


def _contenders() -> dict[str, Callable[[], Any]]:
    ours = {name: functools.partial(_Ours, index) for name, index in INDEXES.items()}
    return {**ours, **_peers()[0]}


def _sizes(scale: Scale) -> list[int]:
    if scale.quick:
        return [10_000, 20_000]
    return [500_000 << power for power in range(6 - scale.smaller)]


def _keys(keys: str, count: int) -> np.ndarray:
    if keys == "Linear Road":
        return distinct_keys(1, count, _EXPRESSWAYS)
    rng = np.random.default_rng(1)
    some = np.unique(rng.integers(0, 1 << 32, count + count // 50 + 100, dtype=np.uint32))
    return rng.permutation(some)[:count]


def _ranges(keys: str, rng: np.random.Generator, scale: Scale) -> list[tuple[int, int]]:
    """A tenth of the domain (4.1.1), or Q2 for random segments (4.1.2)."""
    if keys == "random":
        starts = rng.integers(0, (1 << 32) * 9 // 10, 1 if scale.quick else 3)
        return [(int(low), int(low) + (1 << 32) // 10) for low in starts]
    lows = [
        int(road_key(rng.integers(0, _EXPRESSWAYS), rng.integers(0, 2), rng.integers(0, SEGMENTS), 0))
        for _ in range(20 if scale.quick else 100)
    ]
    return [(low, low + VEHICLES - 1) for low in lows]


def _seconds(run: Callable[[], object]) -> float:
    """CPU time of all threads, as others may be at work on the machine."""
    start = time.process_time()
    run()
    return time.process_time() - start


@functools.cache
def _grown(keys: str, scale: Scale) -> list[dict[str, Any]]:
    """All contenders grown in steps side by side, and what each step, search and byte costs (section 4.1)."""
    sizes, rng = _sizes(scale), np.random.default_rng(2)
    column = _keys(keys, sizes[-1])
    held = {name: make() for name, make in _contenders().items()}
    points: list[dict[str, Any]] = []
    before = 0
    for size in sizes:
        step, before = column[before:size], size
        asked = rng.choice(column[:size], 50_000 if not scale.quick else 2_000)
        ranges = _ranges(keys, rng, scale)
        sums = set()
        searches: dict[tuple[str, str], Callable[[], float]] = {}
        pieces = {name: iter(np.array_split(step, TURNS)) for name in held}

        def insert(name: str) -> float:
            piece = next(pieces[name])  # noqa: B023
            return 1e9 * _seconds(partial(held[name].insert, np.ascontiguousarray(piece))) / len(piece)

        def find(name: str) -> float:
            return 1e9 * _seconds(partial(held[name].find, asked)) / len(asked)  # noqa: B023

        inserted = in_turns({name: partial(insert, name) for name in held}, TURNS)
        retrieved = in_turns({name: partial(find, name) for name in held}, TURNS)
        for name, index in held.items():
            point = {"series": name, "x": size, "insert": inserted[name], "find": retrieved[name]}
            point["bytes"] = [index.bytes / size]
            for way in index.ways:

                def search(index: Any = index, way: str = way) -> None:
                    sums.add(tuple(index.sum(low, high, way) for low, high in ranges))  # noqa: B023

                searches[name, way] = partial(_seconds, search)
            points.append(point)
        found = in_turns(searches, TURNS)
        for point in points[-len(held) :]:
            point["range"] = {
                way: [1e3 * seconds / len(ranges) for seconds in turns]
                for (name, way), turns in found.items()
                if name == point["series"]
            }
        if len(sums) != 1:
            raise AssertionError(f"the contenders differ on {keys} keys at {size} rows")
    return points


def _figure(
    number: str, title: str, claim: str, keys: str, scale: Scale, what: str, unit: str, **options: Any
) -> Figure:
    points = [
        {"series": point["series"], "x": point["x"], "y": statistics.median(point[what]), "turns": point[what]}
        for point in _grown(keys, scale)
    ]
    if what == "bytes":
        points += [{"series": "flat array", "x": size, "y": 8.0} for size in _sizes(scale)]
    note = "; ".join(f"{point['series']} {point['y']:.3g}" for point in points if point["x"] == _sizes(scale)[-1])
    note = f"at {_sizes(scale)[-1]:,} rows: {note}. {_left_out()}"
    if what == "bytes":
        note += " A value of Judy's has 64 bits here, and 32 in the paper."
    return Figure(PAPER, number, title, claim, "rows in the index", unit, points, log_x=True, note=note, **options)


def _range_figure(
    number: str, claim: str, keys: str, scale: Scale, findings: Callable[[dict[str, Any]], list[Finding]]
) -> Figure:
    points = [
        {"series": f"{point['series']}, {way}", "x": point["x"], "y": statistics.median(turns), "turns": turns}
        for point in _grown(keys, scale)
        for way, turns in point["range"].items()
    ]
    last = {p["series"]: p["range"] for p in _grown(keys, scale) if p["x"] == _sizes(scale)[-1]}
    mapped = {name: ways for name, ways in last.items() if "mapper" in ways}
    times = "; ".join(
        f"{name} {statistics.median(ratios(ways['iterator'], ways['mapper'])):.2g} and "
        f"{statistics.median(ratios(ways['thread'], ways['mapper'])):.2g}"
        for name, ways in mapped.items()
    )
    note = (
        f"Iterator, and thread with buffer, over the mapper: {times}; of both threads, without what they wait. The "
        "radix tree stands for Judy with a mapper: a compact trie whose nodes can be read; its *root* starts at the "
        f"root for each key, as Judy's iterator does. {_left_out()}"
    )
    return Figure(
        PAPER, number, f"range search, {keys} keys", claim, "rows in the index", "ms of CPU time a search", points,
        log_x=True, log_y=True, note=note, findings=findings(last),
    )  # fmt: skip


def _over(last: dict[str, Any], slow: tuple[str, str], fast: tuple[str, str], paper: float | None = None) -> Finding:
    turns = [last[name][way] for name, way in (slow, fast)]
    return Finding(f"the time of {', '.join(slow)}, over that of {', '.join(fast)}:", ratios(*turns), paper)


def fig_4(scale: Scale) -> Figure:
    """Insertion under LRB key distribution."""
    claim = "burst tries insert fastest, then Judy, both in constant time from 4 M keys on; CSB+-trees beat B-trees"
    return _figure("4", "insertion, Linear Road keys", claim, "Linear Road", scale, "insert", "ns of CPU time a row")


def fig_5(scale: Scale) -> Figure:
    """Insertion under random key distribution."""
    claim = "burst tries, and to a lower extent Judy, are unstable around 3 and 2 M keys, while containers burst"
    return _figure("5", "insertion, random keys", claim, "random", scale, "insert", "ns of CPU time a row")


def fig_6(scale: Scale) -> Figure:
    """Single element retrieval under LRB key distribution."""
    claim = "Judy is fastest and constant; CSB+-trees are faster than B-trees, both logarithmic"
    return _figure(
        "6", "search of a key, Linear Road keys", claim, "Linear Road", scale, "find", "ns of CPU time a search"
    )


def fig_7(scale: Scale) -> Figure:
    """Single element retrieval under random key distribution."""
    claim = "burst tries are slowest around 3 M keys, before their nodes burst; Judy is far more stable"
    return _figure("7", "search of a key, random keys", claim, "random", scale, "find", "ns of CPU time a search")


def fig_8(scale: Scale) -> Figure:
    """Memory utilization under LRB key distribution."""
    claim = "Judy gets below a flat array's 8 bytes; B-trees are stable; burst tries suffer when containers burst"
    return _figure("8", "memory, Linear Road keys", claim, "Linear Road", scale, "bytes", "bytes a row")


def fig_9(scale: Scale) -> Figure:
    """Memory utilization of full CSB+trees."""
    figure = _figure(
        "9", "memory of the full CSB+-Tree", "the full CSB+-Tree takes many times a B-tree's memory, less as it grows",
        "Linear Road", scale, "bytes", "bytes a row",
    )  # fmt: skip
    figure.points = [p for p in figure.points if p["series"] in ("CSB+-Tree", "absl::btree_map", "std::map")]
    return figure


def fig_10(scale: Scale) -> Figure:
    """Memory utilization under random key distribution."""
    claim = "burst tries are worse than with Linear Road keys; Judy is slightly above a flat array"
    return _figure("10", "memory, random keys", claim, "random", scale, "bytes", "bytes a row")


def fig_11(scale: Scale) -> Figure:
    """Range search under LRB key distribution."""
    claim = "Judy's mapper is well ahead of its iterator, almost as fast as a B-tree, and ahead of the burst trie's"

    def findings(last: dict[str, Any]) -> list[Finding]:
        judy = [_over(last, ("Judy", "iterator"), ("radix tree", "mapper"))] if "Judy" in last else []
        return [
            _over(last, ("radix tree", "root"), ("radix tree", "mapper")),
            *judy,
            _over(last, ("burst trie", "mapper"), ("radix tree", "mapper")),
            _over(last, ("radix tree", "mapper"), ("B+-Tree", "mapper")),
        ]

    return _range_figure("11", claim, "Linear Road", scale, findings)


def fig_12(scale: Scale) -> Figure:
    """Range search under random key distribution."""
    claim = "Judy's mapper falls behind B-trees, and scales better than the burst trie's"

    def findings(last: dict[str, Any]) -> list[Finding]:
        return [
            _over(last, ("radix tree", "mapper"), ("B+-Tree", "mapper")),
            _over(last, ("burst trie", "mapper"), ("radix tree", "mapper")),
        ]

    return _range_figure("12", claim, "random", scale, findings)


def fig_13(scale: Scale) -> Figure:
    """Incremental deletion vs. PTWI."""
    sizes = _sizes(scale)[:-1]
    column = _keys("Linear Road", sizes[-1])
    contenders: dict[tuple[str, int], Callable[[], tuple[float, float]]] = {}

    def drop(size: int, kind: TimeKeyed | Slices) -> tuple[float, float]:
        """Of the drop of all rows the time of the call, and that of all threads, in ms."""
        window = open_window_index(kind, span=300, key_type="uint32")
        window.insert(column[:size], np.sort(np.random.default_rng(3).integers(0, 60, size)))
        start, own = time.process_time(), time.thread_time()
        window.expire(60)
        call = time.thread_time() - own
        while window.figures().get("slices_waiting"):
            time.sleep(1e-3)
        return 1e3 * call, 1e3 * (time.process_time() - start)

    def erase(size: int, make: Callable[[], _Peer]) -> tuple[float, float]:
        peer = make()
        peer.insert(column[:size])
        spent = 1e3 * _seconds(partial(peer.erase, column[:size]))
        return spent, spent

    for size in sizes:
        for name, index in INDEXES.items():
            contenders[f"{name}, incremental", size] = partial(drop, size, TimeKeyed(of=index))
            contenders[f"{name}, PTWI", size] = partial(drop, size, Slices(of=index, stride=60))
        for name, make in _peers()[0].items():
            contenders[f"{name}, key by key", size] = partial(erase, size, make)
    points = []
    for (name, size), turns in in_turns(contenders, 3).items():
        parts = {name: -1} if not name.endswith("PTWI") else {f"{name}, in the background": 1, f"{name}, the call": 0}
        for series, part in parts.items():
            values = [max(turn[part], 1e-3) for turn in turns]
            points.append({"series": series, "x": size, "y": statistics.median(values), "turns": values})
    return Figure(
        PAPER, "13", "incremental deletion against the drop of a slice", "", "rows deleted", "ms of CPU time", points,
        log_x=True, log_y=True, note=_left_out(),
    )  # fmt: skip


FIGURES: list[Callable[[Scale], Figure]] = [
    fig_4, fig_5, fig_6, fig_7, fig_8, fig_9, fig_10, fig_11, fig_12, fig_13,
]  # fmt: skip
