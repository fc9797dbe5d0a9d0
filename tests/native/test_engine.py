"""Steps of the core at its own interface, against a nested loop: every parameter drawn by hypothesis."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from muntin.host.devices.cpu_device import CpuDevice
from muntin.host.engine.native_engine import core_index
from muntin.host.index.specs import INDEXES as INDEX_KINDS
from muntin.host.index.specs import ORDERED, index_from_dict
from muntin.host.native import INDEXES, _core
from tests.native.nested_loop import ISAS, Batch, NestedLoop, in_order, open_engine

#: About the borders of leaves (8 words), lines (8 or 16 leaves), and chunks of probes (2048).
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 2047, 2048, 2049)
WINDOWS = (1, 2, 7, 8, 9, 50, 1000, 3000, 100_000)
FIRST_ROWS = (0, 2**31 - 50, 2**32 - 50, 2**53 - 50, 2**62)
FAR = 2**80
#: Those that have keys of 128 bits.
SORTED = [
    {"growth": 2, "base_rows": 1},
    {"growth": 3, "base_rows": 4, "adaptive": False},
    {"growth": 8, "base_rows": 64, "adaptive": False},
    {},
    {"flat": True, "buffer_rows": 1},
    {"flat": True, "buffer_rows": 100},
    {"index": "sorted_array"},
]
#: Trees and tries whose nodes and containers are split often, and slices of each.
TEMPORAL = [
    {"index": "csb_tree"},
    {"index": "burst_trie", "container_rows": 2},
    {"index": "radix_tree"},
    {"index": "slices/csb_tree", "stride": 100},
    {"index": "slices/burst_trie"},
    {"index": "slices/radix_tree", "stride": 90},
    {"index": "slices/sorted_runs", "stride": 1000},
    {"index": "slices/bisort", "stride": 7, "of.buffer_rows": 9},
    {"index": "slices/sorted_array", "stride": 30},
    {"index": "slices/rap_table", "stride": 300, "of.partitions": 3},
    {"index": "slices/wib_tree", "of.leaf_rows": 4},
    {"index": "slices/bplus_tree", "stride": 60},
    {"index": "slices/b_chain", "stride": 50, "of.length": 3},
    {"index": "slices/ib_chain", "stride": 200},
    {"index": "slices/im_tree", "stride": 300},
    {"index": "slices/pim_tree", "stride": 500, "of.insertion_depth": 1, "of.merge_ratio": 0.3},
]
if INDEXES["judy"].built:
    TEMPORAL += [{"index": "judy"}, {"index": "slices/judy", "stride": 50}]


#: Subwindows, leaves and merges of a few rows.
EVERY = [
    *SORTED,
    *TEMPORAL,
    {"index": "rap_table"},
    {"index": "rap_table", "partitions": 5, "sigma": 1.1, "subwindow_rows": 40, "late_rows": 3},
    {"index": "wib_tree"},
    {"index": "bisort"},
    {"index": "bisort", "buffer_rows": 20, "subwindow_rows": 250, "partitions": 9},
    {"index": "wib_tree", "leaf_rows": 4, "subwindow_rows": 300, "late_rows": 0},
    {"index": "bplus_tree"},
    {"index": "b_chain", "length": 2},
    {"index": "ib_chain", "length": 5},
    {"index": "im_tree", "merge_ratio": 0.1},
    {"index": "pim_tree", "insertion_depth": 1, "merge_ratio": 1},
    {"index": "pim_tree", "insertion_depth": 2, "merge_ratio": 0.01},
]


@dataclasses.dataclass(frozen=True)
class Query:
    """An engine's parameters, and where its streams start."""

    key_bits: int
    window: tuple[int, int]
    within: tuple[int, int] | None
    bands: list[tuple[int, int]] | None  # None: bounds come with the rows
    span: int  # keys lie in [-span, span]
    self_join: bool
    first_row: int
    first_time: int
    index: dict
    counting: bool


@dataclasses.dataclass(frozen=True)
class Call:
    """A step, and what follows it."""

    sizes: tuple[int, int]
    seed: int
    keys: str
    interleaved: bool
    gaps: bool
    short: bool
    advance: int  # of event time
    leap: int  # rows that arrive after those of the step, all of them left out
    then: str


@st.composite
def queries(draw: st.DrawFn, widths: tuple[int, ...] = (32, 64, 128)) -> Query:
    width = draw(st.sampled_from(widths))
    bits = min(width, 64)  # those of 128 are keys of 64, widened
    timed = draw(st.booleans())
    span = draw(st.sampled_from([0, 2, 20, 1000, 10**6, 2 ** (bits - 1) - 1]))
    reach = st.sampled_from([0, 1, span // 10, span, 2**bits, FAR])
    low, high = -draw(reach), draw(reach)
    shift = draw(st.sampled_from([0, span // 5, -span // 5, 2 ** (bits - 1) - 2, -(2 ** (bits - 1)) + 2, 2**bits]))
    kinds = [
        [(low + shift, high + shift)],
        [(low - shift, low - shift), (high + 1, FAR)],
        [(-FAR, low - 1), (high + 1, FAR)],
        [(-FAR, -1), (1, high + 1)],
        None,
    ]
    index = draw(st.sampled_from(SORTED if width == 128 else EVERY))
    ahead = st.sampled_from([0, 5, 50, 500, 2**63, FAR])
    window = (draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(WINDOWS)))
    return Query(
        key_bits=width,
        window=(0, 0) if timed else window,
        within=(-draw(ahead), draw(ahead)) if timed else None,
        bands=draw(st.sampled_from(kinds)),
        span=span,
        self_join=draw(st.booleans()),
        first_row=draw(st.sampled_from(FIRST_ROWS)),
        first_time=draw(st.sampled_from([0, -(2**63) + 100, 2**63 - 5000])),
        index=index,
        counting=draw(st.sampled_from([False, False, False, True])),
    )


sizes = st.one_of(st.sampled_from(SIZES[:-3]), st.integers(0, 300), st.sampled_from(SIZES))
calls = st.builds(
    Call,
    sizes=st.tuples(sizes, sizes),
    seed=st.integers(0, 2**32 - 1),
    keys=st.sampled_from(["any", "any", "sorted", "equal", "least", "greatest", "ends"]),
    interleaved=st.booleans(),
    gaps=st.booleans(),
    short=st.booleans(),
    advance=st.sampled_from([0, 10, 100]),
    leap=st.sampled_from([0, 0, 0, 3, 2**32 + 5]),
    then=st.sampled_from(["", "arrived", "arrived", "expire_times", "expire_times", "purge"]),
)


def keys_of(call: Call, query: Query, rng: np.random.Generator, count: int) -> np.ndarray:
    dtype = np.dtype(f"int{min(query.key_bits, 64)}")
    ends = np.iinfo(dtype)
    if call.keys in ("equal", "least", "greatest"):
        return np.full(count, {"equal": query.span // 2, "least": ends.min, "greatest": ends.max}[call.keys], dtype)
    if call.keys == "ends":
        return rng.choice(np.array([ends.min, ends.min + 1, -1, 0, ends.max - 1, ends.max], dtype), count)
    keys = rng.integers(-query.span, query.span, count, endpoint=True).astype(dtype)
    return np.sort(keys) if call.keys == "sorted" else keys


class Streams:
    """Two streams, or one in both roles, from which calls take their rows."""

    def __init__(self, query: Query):
        self.query = query
        self.arrived = [query.first_row, query.first_row]
        self.time = query.first_time  # later rows have this time or a later one

    def take(self, call: Call) -> tuple[Batch, Batch]:
        rng = np.random.default_rng(call.seed)
        counts = [call.sizes[0]] * 2 if self.query.self_join else call.sizes
        before = np.full(counts[0], self.arrived[1]), np.full(counts[1], self.arrived[0] + counts[0])
        if call.interleaved:
            right = rng.permutation(np.repeat([False, True], counts))
            before = self.arrived[1] + np.cumsum(right)[~right], self.arrived[0] + np.cumsum(~right)[right]
        batches = []
        for side in (0, 1):
            kept = np.flatnonzero(rng.random(counts[side]) < (0.7 if call.gaps else 2))
            keys = keys_of(call, self.query, rng, counts[side])
            times = self.time + rng.integers(0, 80, counts[side])
            rows = self.arrived[side] + np.arange(counts[side])
            bounds = None
            if self.query.bands is None:
                order = np.argsort(keys[kept], kind="stable")
                ends = [np.sort(keys_of(call, self.query, rng, len(kept))) for _ in range(2)]
                for end in ends:  # they ascend with the keys
                    end[order] = end.copy()
                bounds = [tuple(ends), tuple(ends[::-1])]
            timed = self.query.within is not None
            columns = keys[kept], rows[kept], before[side][kept], times[kept] if timed else None, bounds
            batches.append(Batch(*columns, wider=self.query.key_bits == 128))
        if self.query.self_join:
            batches[0].other_position = batches[0].rows
            batches[1] = dataclasses.replace(batches[0], bounds=batches[0].bounds and batches[0].bounds[:1])
        for side in (0, 1):
            self.arrived[side] += counts[side]
        self.time += call.advance
        return batches[0], batches[1]

    def useless_times(self) -> list[int]:
        """For each side, a time such that no later row meets stored rows of it or of an earlier one."""
        low, high = self.query.within
        limits = [self.time - high - 1, self.time + low - 1]
        if self.query.self_join:
            limits = [min(limits)] * 2
        return [min(max(limit, -(2**63)), 2**63 - 1) for limit in limits]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=min(40, settings.default.max_examples))
@given(query=queries(), steps=st.lists(calls, min_size=1, max_size=12))
def test_steps_equal_a_nested_loop(query: Query, steps: list[Call]) -> None:
    event("count" if query.within is None else "time")
    model = NestedLoop(query.window, query.within, query.bands or [], query.self_join)
    streams = Streams(query)
    engines = {
        (isa, threads): open_engine(
            key_bits=query.key_bits,
            window=query.window,
            within=query.within,
            bands=query.bands or [],
            self_join=query.self_join,
            isa=isa,
            **query.index,
        )
        for isa in ISAS
        for threads in (1, 2)
    }
    for call in steps:
        batches = streams.take(call)
        inputs = [batch.input(call.short) for batch in batches]
        expected = model.step(batches)
        total = sum(map(len, expected))
        if total and not query.counting and call.seed % 2:
            for (_, threads), engine in engines.items():
                check_refused(engine.step(*inputs, most=total - 1, threads=threads), batches, expected)
        most = {} if query.counting else {"most": total}
        found = {kind: e.step(*inputs, counting=query.counting, threads=kind[1], **most) for kind, e in engines.items()}
        first = next(iter(found.values()))
        for side in (0, 1):
            if query.counting:
                counts = [np.count_nonzero(expected[side][:, 0] == row) for row in batches[side].rows]
                assert first[side].tolist() == counts
            else:
                np.testing.assert_array_equal(in_order(first[side]), expected[side])
            for kind, result in found.items():  # the same pairs in the same order
                np.testing.assert_array_equal(np.array(result[side]), np.array(first[side]), str(kind))
        for side in range(1 if query.self_join else 2):
            finish(call, query, streams, model, side, list(engines.values()))


def check_refused(refused: tuple, batches: tuple[Batch, Batch], expected: list[np.ndarray]) -> None:
    """Of a step with too many pairs come their numbers alone."""
    assert refused[0] is None
    for batch, counts, pairs in zip(batches, refused[1:], expected, strict=True):
        assert counts.tolist() == [np.count_nonzero(pairs[:, 0] == row) for row in batch.rows]


few = st.builds(
    Call,
    sizes=st.tuples(st.sampled_from([0, 1, 9, 130]), st.sampled_from([1, 40, 200])),
    seed=st.integers(0, 2**32 - 1),
    keys=st.sampled_from(["any", "any", "sorted", "equal", "ends"]),
    interleaved=st.booleans(),
    gaps=st.booleans(),
    short=st.booleans(),
    advance=st.sampled_from([10, 100, 300]),
    leap=st.sampled_from([0, 0, 30]),
    then=st.sampled_from(["arrived", "expire_times", "expire_times", "purge"]),
)
moving = st.builds(
    Query,
    key_bits=st.sampled_from([32, 64]),
    window=st.sampled_from([(0, 0), (0, 0), (50, 400), (130, 9)]),
    within=st.sampled_from([(-50, 50), (-300, 0), (-9, 200)]),
    bands=st.sampled_from([[(-2, 2)], [(-FAR, -1), (1, 4)], [(0, 0)]]),
    span=st.sampled_from([3, 60, 10**6]),
    self_join=st.booleans(),
    first_row=st.sampled_from([0, 2**32 - 300]),
    first_time=st.just(0),
    index=st.none(),
    counting=st.booleans(),
)


@pytest.mark.parametrize("index", EVERY, ids=str)
@settings(
    max_examples=min(8, settings.default.max_examples),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(query=moving, steps=st.lists(few, min_size=8, max_size=12))
def test_rows_come_and_go_in_every_index(index: dict, query: Query, steps: list[Call]) -> None:
    query = dataclasses.replace(query, index=index, within=None if any(query.window) else query.within)
    model = NestedLoop(query.window, query.within, query.bands or [], query.self_join)
    streams = Streams(query)
    engine = open_engine(
        key_bits=query.key_bits,
        window=query.window,
        within=query.within,
        bands=query.bands or [],
        self_join=query.self_join,
        **index,
    )
    for call in steps:
        batches = streams.take(call)
        expected = model.step(batches)
        found = engine.step(*(batch.input(call.short) for batch in batches), counting=query.counting)
        for side in (0, 1):
            if query.counting:
                counts = [np.count_nonzero(expected[side][:, 0] == row) for row in batches[side].rows]
                assert found[side].tolist() == counts
            else:
                np.testing.assert_array_equal(in_order(found[side]), expected[side])
        for side in range(1 if query.self_join else 2):
            finish(call, query, streams, model, side, [engine])


@pytest.mark.parametrize(
    "index",
    [
        *SORTED,
        *({"index": name} for name in ("rap_table", "wib_tree", "bisort", "csb_tree", "burst_trie", "radix_tree")),
    ],
    ids=str,
)
def test_a_row_far_ahead_of_its_time_keeps_no_other(index: dict) -> None:
    engine = open_engine(key_bits=32, within=(-100, 100), bands=[(0, 0)], **index)
    times = np.append(np.arange(30), 10**9)
    rows = _core.Input(np.arange(31, dtype=np.int32), times=times)
    none = _core.Input(np.zeros(0, np.int32), times=np.zeros(0, np.int64))
    engine.step(rows, none)
    engine.expire_times(0, 10**6)
    assert (engine.rows(0), engine.oldest(0, -1)) == (1, 30)
    late = _core.Input(np.array([30], np.int32), same_other_position=31, times=times[-1:])
    assert [column.tolist() for column in engine.step(none, late)[1]] == [[0], [30]]


@pytest.mark.parametrize("index", EVERY, ids=str)
@pytest.mark.parametrize("then", ["purge", "expire_times"])
def test_rows_of_the_limit_itself_go(index: dict, then: str) -> None:
    engine = open_engine(key_bits=32, within=(-100, 100), bands=[(0, 0)], **index)
    rows = _core.Input(np.array([6, 7, 5], np.int32), times=np.array([9, 10, 11]))
    engine.step(rows, _core.Input(np.zeros(0, np.int32), times=np.zeros(0, np.int64)))
    getattr(engine, then)(0, 10)
    if then == "purge" or index.get("index") in ("bplus_tree", "sorted_array"):  # which lose row by row
        assert (engine.rows(0), engine.oldest(0, -1)) == (1, 2)
    getattr(engine, then)(0, 11)
    if then == "purge" or index.get("index") not in ("im_tree", "pim_tree"):  # which lose rows as they merge
        assert engine.rows(0) == 0


#: The newest slices of a chain expire before an older one, which is immutable already.
IB_CHAIN = Query(
    key_bits=32, window=(0, 0), within=(0, 50), bands=[(0, 0)], span=0, self_join=False, first_row=0, first_time=0,
    index={"index": "ib_chain", "length": 5}, counting=False,
)  # fmt: skip
SHORT = Call(
    sizes=(0, 0), seed=0, keys="any", interleaved=False, gaps=False, short=False, advance=0, leap=0, then=""
)  # fmt: skip
OUT_OF_ORDER = [
    dataclasses.replace(SHORT, sizes=(7, 0)),
    dataclasses.replace(SHORT, sizes=(9, 0), seed=318062, gaps=True, advance=100, then="arrived"),
    dataclasses.replace(SHORT, sizes=(1, 0)),
    dataclasses.replace(SHORT, sizes=(0, 1), seed=2),
]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(query=queries(), steps=st.lists(calls, min_size=1, max_size=6))
@example(query=IB_CHAIN, steps=OUT_OF_ORDER)
def test_rows_stored_in_one_of_two_engines_that_probe_both(query: Query, steps: list[Call]) -> None:
    model = NestedLoop(query.window, query.within, query.bands or [], query.self_join)
    streams = Streams(query)
    shape = {"key_bits": query.key_bits, "window": query.window, "within": query.within, "bands": query.bands or []}
    engines = [open_engine(**shape, self_join=query.self_join, **query.index) for _ in range(2)]
    for call in steps:
        batches = streams.take(call)
        expected = model.step(batches)
        rng = np.random.default_rng(call.seed)
        place = [rng.integers(0, 2, len(batch.keys)) for batch in batches]
        if query.self_join:
            place[1] = place[0]
        if call.short:
            batches = tuple(
                dataclasses.replace(b, order=np.argsort(b.keys, kind="stable").astype(np.uint32)) for b in batches
            )
        probing = [batch.input(call.short) for batch in batches]
        found = []
        for at, engine in enumerate(engines):
            stored = [batch.take(np.flatnonzero(of == at)).input() for batch, of in zip(batches, place, strict=True)]
            apart = {"stored_left": stored[0], "stored_right": stored[1]}
            result = engine.step(*probing, **apart, counting=query.counting, **({} if query.counting else {"most": 0}))
            if result[0] is None:
                counts, result = result[1:], engine.step(*probing, **apart)
                assert sum(map(int, map(sum, counts))) == sum(len(side[0]) for side in result) > 0
            found.append(result)
        for side in (0, 1):
            if query.counting:
                counts = [np.count_nonzero(expected[side][:, 0] == row) for row in batches[side].rows]
                assert sum(result[side] for result in found).tolist() == counts
            else:
                pairs = tuple(np.concatenate([result[side][column] for result in found]) for column in (0, 1))
                np.testing.assert_array_equal(in_order(pairs), expected[side])
        for side in range(1 if query.self_join else 2):
            for engine in engines:
                if query.within is None:
                    engine.arrived(side, streams.arrived[side])
                elif call.then:
                    engine.expire_times(side, streams.useless_times()[side])


def finish(call: Call, query: Query, streams: Streams, model: NestedLoop, side: int, engines: list) -> None:
    """What a call does after its step, and what is stored then."""
    stored = model.stored[side]
    least = 0  # rows that must be there
    if query.within is None:
        # Without `arrived` a leap of 2**32 rows is unknown: the operator always tells.
        streams.arrived[side] += call.leap
        if query.self_join:
            streams.arrived[1] = streams.arrived[0]
        if call.leap or call.then == "arrived":
            for engine in engines:
                engine.arrived(side, streams.arrived[side])
        window = max(query.window) if query.self_join else query.window[side]
        least = np.count_nonzero(stored.rows >= streams.arrived[side] - window)
    else:
        limit = streams.useless_times()[side] if call.then in ("expire_times", "purge") else None
        if limit is not None:
            for engine in engines:
                getattr(engine, call.then)(side, limit)
            least = np.count_nonzero(stored.times > limit)
            if call.then == "purge":
                assert {engine.rows(side) for engine in engines} == {least}
    kept = {(engine.rows(side), engine.runs(side), engine.oldest(side, -1)) for engine in engines}
    assert len(kept) == 1
    ((rows, runs, oldest),) = kept
    assert least <= rows <= len(stored.rows)
    assert (rows == 0) == (runs == 0) == (oldest == -1)


# Counts over many rows of equal keys.


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("first_row", [0, 2**32 - 2000])
@pytest.mark.parametrize("bits", [32, 64])
def test_counts_of_many_equal_keys(bits: int, first_row: int, isa: str, seed: int) -> None:
    """Each probe may see other rows of a run, whose equal keys are searched and not looked at one by one."""
    rng = np.random.default_rng([seed, bits, first_row])
    window = (2500, 1500)
    engine = open_engine(key_bits=bits, window=window, bands=[(-2, 2)], isa=isa)
    model = NestedLoop(window, None, [(-2, 2)])
    arrived = [first_row, 0]
    for size in (1500, 1300, 300, 900):
        turn = rng.permutation(np.arange(2 * size) % 2).astype(bool)  # who comes next
        before = [arrived[1] + np.cumsum(turn)[~turn], arrived[0] + np.cumsum(~turn)[turn]]
        batches = tuple(
            Batch(
                np.where(rng.random(size) < 0.6, 3, rng.integers(-40, 40, size)).astype(f"int{bits}"),
                first + np.arange(size),
                other_position,
            )
            for first, other_position in zip(arrived, before, strict=True)
        )
        arrived = [first + size for first in arrived]
        found = engine.step(*(batch.input() for batch in batches), counting=True)
        for side, expected in enumerate(model.step(batches)):
            rows = batches[side].rows
            np.testing.assert_array_equal(found[side], np.bincount(expected[:, 0] - rows[0], minlength=size))


# Merges that go on in slices: runs of more rows than one step merges.

LARGE = {
    "ladder": {"growth": 2, "base_rows": 1024, "adaptive": False},
    "flat": {"flat": True, "buffer_rows": 4096},
    "adaptive": {},
}


#: A few large batches, whose merges wait, then many small ones, while they go on.
SIZES_OF_STEPS = [50_000, 50_000, 40_000, 60_000, 0] + [1500, 800, 0, 2500, 1] * 8
PROBES, FEW_PROBES = 500, 30


@pytest.mark.parametrize(("window", "side"), [(1 << 20, 0), (150_000, 1)])
@pytest.mark.parametrize("index", LARGE)
@pytest.mark.parametrize("bits", [32, 64, 128])
def test_merges_in_slices_lose_and_double_no_row(bits: int, index: str, window: int, side: int, seed: int) -> None:
    rng = np.random.default_rng([seed, bits, window])
    windows, (least, most) = ((window, 1), (-200, 100)) if side == 0 else ((1, window), (-100, 200))
    engine = open_engine(key_bits=bits, window=windows, bands=[(-100, 200)], **LARGE[index])
    stored, arrived, runs, waited = np.empty(0, np.int64), 2**32 - 90_000, 0, 0
    for number, size in enumerate(SIZES_OF_STEPS):
        keys, probes = (rng.integers(-(10**6), 10**6, n).astype(f"int{min(bits, 64)}") for n in (size, PROBES))
        stored = np.append(stored, keys)[-window:]
        rows = np.arange(arrived, arrived + size)
        arrived += size
        storing = Batch(keys, rows, np.full(size, number * PROBES), wider=bits == 128)
        numbers = number * PROBES + np.arange(PROBES)
        asking = Batch(probes, numbers, np.full(PROBES, arrived), wider=bits == 128)
        inputs = [batch.input() for batch in ((storing, asking) if side == 0 else (asking, storing))]
        in_order_of_keys = np.sort(stored)
        low, high = (probes.astype(np.int64) + by for by in (least, most))
        expected = np.searchsorted(in_order_of_keys, high, "right") - np.searchsorted(in_order_of_keys, low, "left")
        if number % 2:
            np.testing.assert_array_equal(engine.step(*inputs, counting=True)[1 - side], expected)
        else:
            probing, found = engine.step(*inputs)[1 - side]
            np.testing.assert_array_equal(np.bincount(probing - number * PROBES, minlength=PROBES), expected)
            apart = stored[found - arrived + len(stored)] - probes[probing - number * PROBES].astype(np.int64)
            assert ((apart >= least) & (apart <= most)).all()
            assert len(np.unique(np.stack([probing, found]), axis=1).T) == len(found)
        waited += 1 < engine.runs(side) == runs
        runs = engine.runs(side)
    assert waited or index == "adaptive"  # steps that ended no merge, though some were under way


@pytest.mark.parametrize("index", ["ladder", "flat"])
def test_merges_of_both_sides_have_as_many_slices(index: str, seed: int) -> None:
    """Two streams of the same rows, of which one goes on alone; a row meets those of earlier steps."""
    rng = np.random.default_rng(seed)
    engine = open_engine(key_bits=32, window=(1 << 20, 1 << 20), bands=[(-9, 9)], **LARGE[index])
    stored, waited = [np.empty(0, np.int64)] * 2, 0
    for sizes in [(size, size) for size in [50_000, 50_000, 40_000, 60_000] + [1500] * 12] + [(9000, 0)] * 6:
        drawn, inputs, expected = rng.integers(-(10**6), 10**6, max(sizes)).astype(np.int32), [], []
        for side, size in enumerate(sizes):
            keys, rows = drawn[:size], len(stored[side]) + np.arange(size)
            inputs.append(Batch(keys, rows, np.full(size, len(stored[1 - side]))).input())
            low, high = (
                np.searchsorted(stored[1 - side], keys.astype(np.int64) + by, end)
                for by, end in ((-9, "left"), (9, "right"))
            )
            expected.append(high - low)
        for found, due in zip(engine.step(*inputs, counting=True), expected, strict=True):
            np.testing.assert_array_equal(found, due)
        stored = [np.sort(np.append(keys, drawn[:size])) for keys, size in zip(stored, sizes, strict=True)]
        waited += engine.runs(0) == engine.runs(1) > 1
    assert waited


@pytest.mark.parametrize("first_row", [0, 2**32 - 3000])
@pytest.mark.parametrize("bits", [32, 64, 128])
def test_a_count_window_of_one_run_drops_what_expires(bits: int, first_row: int, seed: int) -> None:
    """Many probes of a small window make it one run; its rows leave with the steps, but for a quarter of the window."""
    rng, window, size, probing = np.random.default_rng([seed, bits]), 3000, 400, 4000
    engine = open_engine(key_bits=bits, window=(window, 1), bands=[(-2, 2)])
    stored, arrived = np.empty(0, np.int64), first_row
    for number in range(24):
        keys, probes = (rng.integers(-(10**4), 10**4, n).astype(f"int{min(bits, 64)}") for n in (size, probing))
        stored = np.append(stored, keys)[-window:]
        rows, numbers = np.arange(arrived, arrived + size), number * probing + np.arange(probing)
        arrived += size
        left = Batch(keys, rows, np.full(size, number * probing), wider=bits == 128)
        right = Batch(probes, numbers, np.full(probing, arrived), wider=bits == 128)
        found = engine.step(left.input(), right.input(), counting=True)[1]
        low, high = (np.searchsorted(np.sort(stored), probes.astype(np.int64) + by, side)
                     for by, side in ((-2, "left"), (2, "right")))  # fmt: skip
        np.testing.assert_array_equal(found, high - low)
        oldest = arrived - min(len(stored), window)
        assert oldest - window // 4 <= engine.oldest(0, -1) <= oldest
        assert engine.rows(0) == arrived - engine.oldest(0, -1)
    assert engine.figures(0)["one_run"] == 1
    assert engine.runs(0) == 1


@pytest.mark.parametrize("index", LARGE)
@pytest.mark.parametrize("bits", [32, 64, 128])
def test_rows_expire_in_the_middle_of_merges(bits: int, index: str, seed: int) -> None:
    rng = np.random.default_rng([seed, bits])
    span = 4000
    engine = open_engine(key_bits=bits, within=(0, span), bands=[(-FAR, FAR)], **LARGE[index])
    times, now, arrived = np.empty(0, np.int64), -(2**40), 2**53 - 90_000
    for number, size in enumerate(SIZES_OF_STEPS):
        own, probing = now + rng.integers(0, 1000, size), now + rng.integers(0, 1000, FEW_PROBES)
        keys, probes = (rng.integers(-9, 9, n).astype(f"int{min(bits, 64)}") for n in (size, FEW_PROBES))
        times = np.sort(np.append(times, own))
        rows, numbers = np.arange(arrived, arrived + size), number * FEW_PROBES + np.arange(FEW_PROBES)
        left = Batch(keys, rows, np.full(size, number * FEW_PROBES), own, wider=bits == 128)
        arrived += size
        right = Batch(probes, numbers, np.full(FEW_PROBES, arrived), probing, wider=bits == 128)
        found = engine.step(left.input(), right.input(), counting=True)[1]
        np.testing.assert_array_equal(
            found, np.searchsorted(times, probing, "right") - np.searchsorted(times, probing - span, "left")
        )
        now += 150
        if number % 7 == 6:
            engine.purge(0, now - span - 1)
            assert engine.rows(0) == np.count_nonzero(times >= now - span)
        else:
            engine.expire_times(0, now - span - 1)
            assert engine.rows(0) >= np.count_nonzero(times >= now - span)
        engine.purge(1, now - 1)


# Threads


def stream_of_steps(seed: int) -> list[tuple[Batch, Batch]]:
    """Enough of them that several threads find work, and merges go on from step to step."""
    rng = np.random.default_rng(seed)
    steps, arrived = [], [0, 0]
    for size in [60_000, 50_000, 3000, 10_000, 70_000, 2048, 5000, 5000]:
        sides = rng.permutation(np.repeat([False, True], size))
        before = arrived[1] + np.cumsum(sides)[~sides], arrived[0] + np.cumsum(~sides)[sides]
        batches = []
        for side in (0, 1):
            keys = rng.integers(0, 10**6, size).astype(np.int32)
            times = sum(arrived) + rng.integers(0, 5000, size)
            batches.append(Batch(keys, arrived[side] + np.arange(size), before[side], times))
            arrived[side] += size
        steps.append((batches[0], batches[1]))
    return steps


QUERIES = {
    "count": {"window": (100_000, 30_000), "bands": [(-3, 3)], "growth": 2},
    "time": {"within": (-60_000, 20_000), "bands": [(-8, -1), (1, 8)], "flat": True},
    "rap": {"window": (100_000, 30_000), "bands": [(-3, 3)], "index": "rap_table", "subwindow_rows": 25_000},
    "bisort": {"window": (100_000, 30_000), "bands": [(-3, 3)], "index": "bisort"},
    "wib": {"within": (-60_000, 20_000), "bands": [(-8, -1), (1, 8)], "index": "wib_tree"},
}


def run(query: str, steps: list[tuple[Batch, Batch]], threads: int = 1 << 20) -> list[np.ndarray]:
    """All arrays that an engine gives for these steps."""
    options = QUERIES[query]
    timed = "within" in options
    engine = open_engine(key_bits=32, **options)
    arrays = []
    for number, step in enumerate(steps):
        inputs = [(batch if timed else dataclasses.replace(batch, times=None)).input() for batch in step]
        for side in engine.step(*inputs, threads=threads):
            arrays += side
        if timed:
            for side in (0, 1):
                engine.expire_times(side, 20_000 * number - 60_000)
    return arrays


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def pool() -> Iterator[Callable[[int], None]]:
    """Sizes the process's pool of threads, as it was before when the test has ended."""
    before = _core.threads()
    yield _core.set_threads
    _core.set_threads(before)


POOLS = [(2, 1 << 20), (4, 3), (2, 3), (4, 1 << 20)]
"""Sizes of the pool, and threads asked for; the last two with --full."""


@pytest.mark.parametrize("query", QUERIES)
def test_results_do_not_depend_on_threads(
    query: str, seed: int, pool: Callable[[int], None], request: pytest.FixtureRequest
) -> None:
    steps = stream_of_steps(seed)
    pool(1)
    expected = run(query, steps)
    assert sum(len(array) for array in expected) > 10_000
    for threads, asked in POOLS if request.config.getoption("--full") else POOLS[:2]:
        pool(threads)
        assert _core.threads() == threads
        assert_same(run(query, steps, asked), expected)


@pytest.mark.parametrize("query", QUERIES)
def test_results_do_not_depend_on_threads_that_change_meanwhile(
    query: str, seed: int, pool: Callable[[int], None]
) -> None:
    steps = stream_of_steps(seed)
    expected = run(query, steps)
    ended = threading.Event()

    def change() -> None:
        for threads in itertools.cycle([1, 2, 4, 3]):
            if ended.is_set():
                return
            pool(threads)
            assert 1 <= _core.threads() <= 4

    with ThreadPoolExecutor(1) as executor:
        changes = executor.submit(change)
        try:
            assert_same(run(query, steps), expected)
        finally:
            ended.set()
        changes.result()


@pytest.mark.parametrize("streams", [1, pytest.param(2, marks=pytest.mark.full)])
def test_joins_of_several_threads_share_the_pool(streams: int, seed: int, pool: Callable[[int], None]) -> None:
    pool(3)
    steps = [stream_of_steps(seed + number) for number in range(streams)]
    jobs = list(itertools.product(QUERIES, steps))
    expected = [run(*job) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as executor:
        for found, alone in zip(executor.map(lambda job: run(*job), jobs), expected, strict=True):
            assert_same(found, alone)


def test_the_build_knows_its_indexes() -> None:
    names = set(CpuDevice.indexes) - {"slices"}  # of another index each
    assert len(names) > 12
    assert {name for name in names if "shared" in INDEXES[name].engines} == {
        "bplus_tree",
        "b_chain",
        "ib_chain",
        "im_tree",
        "pim_tree",
    }
    assert INDEXES["nested_loop"].engines == ("splitjoin",)
    assert INDEXES["sorted_runs"].engines == ("steps", "splitjoin")
    assert INDEXES["time_keyed"].engines == ()
    for name, entry in INDEXES.items():
        for engine in ("steps", "shared", "splitjoin"):
            if name in ("slices", "time_keyed") or engine in entry.engines:
                continue
            with pytest.raises(ValueError, match=f"no index {name} for the engine {engine}"):
                _core.Engine(key_bits=64, index=name, window=(5, 5), engine=engine)
    assert set(INDEXES) == set(INDEX_KINDS)
    with pytest.raises(ValueError, match="no engine rows"):
        _core.Engine(key_bits=64, index="sorted_runs", window=(5, 5), engine="rows")


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_what_users_set_of_an_index_is_what_the_core_reads(name: str) -> None:
    """Under each engine and as a slice: an option that the core does not know, or of another type, is refused."""
    entry = INDEXES[name]
    parts = [index_from_dict({"name": "slices", "of": {"name": name}})] if entry.slice and entry.built else []
    for index in [INDEX_KINDS[name](), *parts]:
        own, options = core_index(index)
        names = "|".join(("no_such", *(option.removeprefix("of.") for option in options)))
        for engine in INDEXES[index.name].engines:
            _core.Engine(key_bits=64, index=own, parameters=options, window=(9, 9), engine=engine)
            for other in ({"no_such": 1}, *({option: "x"} for option in options)):
                with pytest.raises(ValueError, match=names):
                    _core.Engine(key_bits=64, index=own, parameters=options | other, window=(9, 9), engine=engine)


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_what_an_index_says_it_can_do_it_does(name: str) -> None:
    entry, inner = INDEXES[name], "/csb_tree" if name in ("slices", "time_keyed") else ""
    for bits in (32, 64, 128):
        if "steps" not in entry.engines:
            continue
        opened = {"key_bits": bits, "index": name + inner, "window": (9, 9), "bands": [((0, 0), (0, 0))]}
        if bits not in entry.key_bits:
            with pytest.raises(ValueError, match=f"keys of {'128' if bits == 128 else '64'} bits"):
                _core.Engine(**opened)
            continue
        engine = _core.Engine(**opened, recording=entry.ranges)
        if not entry.ranges:
            none = _core.Input(np.zeros((0, 2), np.uint64) if bits == 128 else np.zeros(0, f"int{bits}"))
            with pytest.raises(ValueError, match="only sorted runs give ranges"):
                engine.step(none, none, ranges=True)
    searched = {"key_bits": 32, "index": name + inner, "parameters": {}, "span": 9, "value": 1}
    if entry.built and (entry.ordered or inner):
        assert _core.RangeIndex(**searched).rows == 0
    else:
        with pytest.raises(ValueError, match="index"):
            _core.RangeIndex(**searched)
    assert entry.ordered == (name in ORDERED)
