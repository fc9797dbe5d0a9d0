"""The join over shared indexes, against a nested loop: pairs and their order, under schedules drawn at random."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.host.native import _core
from tests.native.nested_loop import Batch, NestedLoop, open_engine
from tests.native.test_engine import Call, Query, Streams, calls, finish, queries

INDEXES: dict[str, dict[str, Any]] = {
    "pim_tree": {"index": "pim_tree", "insertion_depth": 2, "merge_ratio": 0.05},
    "pim_tree-behind": {"index": "pim_tree", "insertion_depth": 2, "merge_ratio": 0.05, "behind_rows": 1},
    "pim_tree-blocking": {"index": "pim_tree", "insertion_depth": 1, "merge_ratio": 0.05, "blocking": True},
    "im_tree": {"index": "im_tree", "merge_ratio": 0.05},
    "im_tree-behind": {"index": "im_tree", "merge_ratio": 0.05, "behind_rows": 1},
    "im_tree-blocking": {"index": "im_tree", "merge_ratio": 0.05, "blocking": True},
    "bplus_tree": {"index": "bplus_tree"},
    "b_chain": {"index": "b_chain", "length": 3},
    "ib_chain": {"index": "ib_chain", "length": 2},
}


def in_arrival_order(found: list[np.ndarray], batches: tuple[Batch, Batch], self_join: bool) -> np.ndarray:
    """(left, right) of all pairs by the row that finds them, then by the stored row, then by role."""
    parts = []
    for side in (0, 1):
        probing, stored = found[side].T
        rows = batches[side].rows
        places = probing if self_join else probing + batches[side].other_position[np.searchsorted(rows, probing)]
        pair = (probing, stored) if side == 0 else (stored, probing)
        parts.append(np.stack([places, stored, np.full(len(places), side), *pair]))
    every = np.concatenate(parts, axis=1)
    return every[3:, np.lexsort(every[2::-1])].T


class Against:
    """Holds an engine to the nested loop, step by step."""

    def __init__(self, query: Query):
        self.query = query
        self.model = NestedLoop(query.window, query.within, query.bands or [], query.self_join)
        self.streams = Streams(query)

    def steps(self, steps: list[Call], engine: _core.Engine, threads: int) -> None:
        query = self.query
        for call in steps:
            batches = self.streams.take(call)
            inputs = [batch.input(call.short) for batch in batches]
            expected = self.model.step(batches)
            found = engine.step(*inputs, counting=query.counting, whole=not query.counting, threads=threads)
            if query.counting:
                for side in (0, 1):
                    counts = [np.count_nonzero(expected[side][:, 0] == row) for row in batches[side].rows]
                    assert found[side].tolist() == counts
            else:
                np.testing.assert_array_equal(
                    np.stack(found, axis=1), in_arrival_order(expected, batches, query.self_join)
                )
            for side in range(1 if query.self_join else 2):
                finish(call, query, self.streams, self.model, side, [engine])


def equal_steps(query: Query, steps: list[Call], engine: _core.Engine, threads: int) -> None:
    Against(query).steps(steps, engine, threads)


def open_for(query: Query, **options: Any) -> _core.Engine:
    return open_engine(
        key_bits=query.key_bits,
        window=query.window,
        within=query.within,
        bands=query.bands or [],
        self_join=query.self_join,
        engine="shared",
        **options,
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    query=queries(widths=(32, 64)),
    index=st.sampled_from(list(INDEXES)),
    threads=st.sampled_from([1, 1, 3]),
    task_size=st.sampled_from([1, 8, 100]),
    steps=st.lists(calls, min_size=1, max_size=8),
)
def test_steps_equal_a_nested_loop(query: Query, index: str, threads: int, task_size: int, steps: list[Call]) -> None:
    options = {**INDEXES[index], "task_size": task_size, "schedule": 0}
    equal_steps(query, steps, open_for(query, **options), threads)


SCHEDULES = [
    Query(32, (40, 40), None, [(-3, 3)], 60, False, 0, 0, {}, False),
    Query(64, (200, 20), None, [(-3, 3)], 200, False, 0, 0, {}, False),
    Query(32, (90, 90), None, [(-2, -1), (1, 2)], 80, True, 2**32 - 50, 0, {}, False),
    Query(32, (0, 0), (-60, 60), [(-3, 3)], 60, False, 0, 0, {}, False),
    Query(32, (3, 300), None, [(0, 0)], 5, False, 0, 0, {}, True),
]


@pytest.mark.parametrize("name", INDEXES)
def test_every_schedule_gives_the_same_pairs_in_the_same_order(name: str, request: pytest.FixtureRequest) -> None:
    """Threads give way and wait at random points; a schedule's number makes it run again, as far as a system lets."""
    merged = threaded = 0
    before = _core.threads()
    _core.set_threads(4)
    try:
        for schedule in range(1, 1001 if request.config.getoption("--full") else 11):
            query = SCHEDULES[schedule % len(SCHEDULES)]
            steps = [
                Call(
                    size, schedule * 3 + at, "any", True, at == 1, False, 10, 0, "expire_times" if query.within else ""
                )
                for at, size in enumerate([(70, 50), (20, 60), (55, 55)])
            ]
            options = {"task_size": 1 + schedule % 4, "queue_tasks": 4 + schedule % 8, "schedule": schedule}
            engine = open_for(query, **INDEXES[name], **options)
            equal_steps(query, steps, engine, 2 + schedule % 3)
            report = engine.report()
            merged += report["merges"]
            threaded += report["max_threads"] > 1
    finally:
        _core.set_threads(before)
    assert threaded > 4
    assert merged > 4 or "tree" not in name or name == "bplus_tree"


BEHIND = {"merge_ratio": 0.5, "behind_rows": 1, "schedule": 1}
HELD = [
    Query(32, (200, 200), None, [(-3, 3)], 60, False, 0, 0, {}, False),
    Query(64, (200, 200), None, [(-3, 3)], 60, False, 2**32 - 100, 0, {}, True),
    Query(32, (200, 200), None, [(-2, -1), (1, 2)], 60, True, 0, 0, {}, False),
    Query(32, (0, 0), (-60, 60), [(-3, 3)], 60, False, 0, 0, {}, False),
]


def steps_of(sizes: list[int], query: Query, first: int) -> list[Call]:
    then = "expire_times" if query.within else ""
    return [Call((size, size), seed, "any", True, False, False, 10, 0, then) for seed, size in enumerate(sizes, first)]


@pytest.mark.parametrize("point", [1, 2], ids=["at its begin", "at its end"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("query", HELD, ids=["narrow", "wide", "self", "time"])
@pytest.mark.parametrize("index", ["pim_tree", "im_tree"])
def test_calls_go_on_while_a_merge_is_held(index: str, query: Query, threads: int, point: int) -> None:
    """Rows that come meanwhile are stored, and probes meet them and those that are merged."""
    before = _core.threads()
    _core.set_threads(threads)
    engine = open_for(query, index=index, **BEHIND)
    against = Against(query)
    try:
        engine.hold_merges(point)
        for at in range(20):
            against.steps(steps_of([20], query, at), engine, threads)
            if engine.figures(0)["merging"]:
                break
        merges, young = (engine.figures(0)[name] for name in ("merges", "mutable_rows"))
        against.steps(steps_of([20, 15, 1], query, 100), engine, threads)
        figures = engine.figures(0)
        assert (figures["merging"], figures["merges"]) == (1, merges)
        assert figures["mutable_rows"] == young + 36
        assert engine.report()["merging"] >= 1
        engine.hold_merges(0)
        for at in range(200, 10_000):  # it ends in one of the calls to come
            against.steps(steps_of([3], query, at), engine, threads)
            if engine.figures(0)["merges"] > merges:
                break
        assert engine.figures(0)["merges"] > merges
        if not query.within:  # in a time window the calls that the merge takes may have expired them
            assert engine.report()["pending"] >= 36
    finally:
        engine.hold_merges(0)
        _core.set_threads(before)


def test_an_engine_is_dropped_while_its_merge_is_held() -> None:
    query = HELD[0]
    engine = open_for(query, index="pim_tree", **BEHIND)
    engine.hold_merges(1)
    Against(query).steps(steps_of([70, 50], query, 0), engine, 1)
    assert engine.report()["merging"] == 2
    del engine
    other, against = open_for(query, index="pim_tree", **BEHIND), Against(query)
    for at in range(10_000):  # the thread that merges is free again
        against.steps(steps_of([40 if at < 4 else 2], query, at), other, 1)
        if other.figures(0)["merges"]:
            break
    assert other.figures(0)["merges"] > 0


def test_rows_wait_where_more_come_than_are_merged() -> None:
    """As many rows as there were when a merge began may come before it ends."""
    query = HELD[0]
    engine, against = open_for(query, index="pim_tree", **BEHIND), Against(query)
    engine.hold_merges(1)
    release = threading.Timer(0.2, engine.hold_merges, [0])
    release.start()
    against.steps(steps_of([60] * 12, query, 0), engine, 1)
    release.join()
    assert engine.figures(0)["merges"] > 0


def rows_of(count: int, seed: int, keys: int = 1 << 20) -> tuple[_core.Input, _core.Input]:
    """Two streams of so many rows, each row's time of arrival drawn at random."""
    rng = np.random.default_rng(seed)
    right = rng.permutation(np.repeat([False, True], count))
    return tuple(
        _core.Input(rng.integers(0, keys, count).astype(np.int32), first_row=0, other_position=before.astype(np.int64))
        for before in (np.cumsum(right)[~right], np.cumsum(~right)[right])
    )


def test_threads_come_and_go_while_it_runs() -> None:
    inputs = rows_of(120_000, 1)
    options = {"key_bits": 32, "window": (20_000, 20_000), "bands": [(-50, 50)], "index": "pim_tree"}
    expected = open_engine(**options, engine="shared").step(*inputs, whole=True, threads=1)
    engine = open_engine(**options, engine="shared")
    before, running = _core.threads(), threading.Event()

    def change() -> None:
        while not running.is_set():
            for threads in (3, 1, 2):
                _core.set_threads(threads)
                running.wait(0.002)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        found = engine.step(*inputs, whole=True)
    finally:
        running.set()
        changer.join()
        _core.set_threads(before)
    np.testing.assert_array_equal(np.array(found), np.array(expected))
    report = engine.report()
    assert report["max_threads"] > 1
    assert report["timed_rows"] == 240_000
    assert 0 < report["latency_p50_us"] <= report["latency_p99_us"] <= report["latency_p999_us"]


def test_figures_show_the_structure() -> None:
    """What makes each index what its name says."""
    inputs = rows_of(60_000, 2)
    window = {"key_bits": 32, "window": (16_384, 16_384), "bands": [(-10, 10)], "engine": "shared"}

    def figures(**index: Any) -> dict[str, Any]:
        engine = open_engine(**window, **index)
        engine.step(*inputs, whole=True, threads=1)
        return engine.figures(0)

    pim = figures(index="pim_tree", insertion_depth=2, merge_ratio=1 / 8)
    assert pim["fan_out"] * 4 == 64  # keys of 4 bytes fill a cache line
    assert pim["partitions"] == len(pim["partition_rows"]) > 16
    assert sum(pim["partition_rows"]) == pim["mutable_rows"] < 16_384 / 8
    assert 16_384 - 2048 <= pim["immutable_rows"] <= 16_384
    assert pim["merges"] == 60_000 // 2048
    assert max(pim["partition_rows"]) < 5 * max(1, pim["mutable_rows"] / pim["partitions"]) + 20  # as keys are spread
    im = figures(index="im_tree", merge_ratio=1 / 4)
    assert (im["partitions"], im["insertion_depth"], im["merges"]) == (1, 0, 60_000 // 4096)
    plain = figures(index="bplus_tree")
    assert plain["rows"] == 16_384
    assert plain["removed"] == 60_000 - 16_384
    assert plain["nodes"] < 4 * 16_384 / plain["leaf_items"]
    for name in ("b_chain", "ib_chain"):
        chain = figures(index=name, length=5)
        assert chain["max_chain_length"] == 5
        assert max(chain["sub_index_rows"]) == 4096
        assert chain["dropped"] == 60_000 // 4096 + 1 - chain["chain_length"]
        assert (chain["archived"] > 0) == (name == "ib_chain")


@given(
    keys=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=400),
    rising=st.booleans(),
    window=st.sampled_from([1, 5, 70, 500]),
)
def test_trees_keep_their_shape(keys: list[int], rising: bool, window: int) -> None:
    """Many equal or rising keys, and windows that empty nodes."""
    every = np.array((sorted(keys) if rising else keys) * 4, np.int32)
    rows = Batch(every, np.arange(len(every)), np.arange(len(every)))
    for index in INDEXES.values():
        engine = open_engine(
            key_bits=32, window=(window, window), bands=[(0, 0)], self_join=True, engine="shared", **index
        )
        found = np.array(engine.step(rows.input(), dataclasses.replace(rows).input(), whole=True, threads=1))
        model = NestedLoop((window, window), None, [(0, 0)], True).step((rows, rows))
        np.testing.assert_array_equal(found.T, in_arrival_order(model, (rows, rows), True))
        assert engine.rows(0) >= min(window, len(every))
        engine.arrived(0, len(every) + window)
        assert engine.rows(0) == 0


@given(
    batches=st.lists(st.integers(1, 700), min_size=1, max_size=6),
    window=st.integers(2, 900),
    ratio=st.sampled_from([0.05, 1 / 8, 1.0]),
    depth=st.integers(1, 3),
    length=st.integers(2, 6),
    keys=st.sampled_from([1, 50, 1 << 30]),
    rising=st.booleans(),
    engine=st.sampled_from(["shared", "steps"]),
)
def test_trees_and_chains_are_what_their_names_say(
    batches: list[int], window: int, ratio: float, depth: int, length: int, keys: int, rising: bool, engine: str
) -> None:
    """After every step; rows of one side alone, so that nothing but the structure is at work."""
    rng, total = np.random.default_rng(sum(batches)), 0
    parameters: dict[str, dict[str, Any]] = {
        "pim_tree": {"merge_ratio": ratio, "insertion_depth": depth},
        "im_tree": {"merge_ratio": ratio},
        "bplus_tree": {},
        "b_chain": {"length": length},
        "ib_chain": {"length": length},
    }
    engines = {
        name: open_engine(key_bits=32, window=(window, 1), bands=[(0, 0)], index=name, engine=engine, **own)
        for name, own in parameters.items()
    }
    merged = max(64, int(ratio * window))
    for size in batches:
        count = min(size, window)  # of more, those that have left by the end of a step are not stored
        values = rng.integers(0, keys, count).astype(np.int32)
        rows = _core.Input(np.sort(values) if rising else values, first_row=total, same_other_position=0)
        told = {}
        for name, core in engines.items():
            core.step(rows, _core.Input(values[:0]), whole=True, threads=1)
            told[name] = core.figures(0)
        total += count
        live = min(window, total)
        for name in ("pim_tree", "im_tree"):
            figures = told[name]
            assert figures["immutable_rows"] + figures["mutable_rows"] + figures["removed"] == total
            assert figures["immutable_rows"] + figures["mutable_rows"] >= live
            assert figures["mutable_rows"] == sum(figures["partition_rows"]) < merged + count
            assert figures["partitions"] == len(figures["partition_rows"])
            assert figures["partitions"] <= figures["fan_out"] ** figures["insertion_depth"]
            assert figures["insertion_depth"] <= min(depth, max(figures["depth"] - 1, 0))
            assert (figures["merges"] > 0) == (figures["immutable_rows"] + figures["removed"] > 0)
        assert (told["im_tree"]["partitions"], told["im_tree"]["insertion_depth"]) == (1, 0)
        figures = told["bplus_tree"]
        assert (figures["rows"], figures["removed"]) == (live, total - live)
        most = figures["leaf_items"] * figures["fan_out"] ** (figures["depth"] - 1)
        assert live <= most
        part = -(-window // (length - 1))
        for name in ("b_chain", "ib_chain"):
            figures = told[name]
            first = (total - live) // part * part  # a slice goes whole
            assert figures["sub_index_rows"] == [min(part, total - at) for at in range(first, total, part)]
            assert figures["rows"] == sum(figures["sub_index_rows"])
            assert len(figures["sub_index_rows"]) == figures["chain_length"] <= figures["max_chain_length"]
            assert figures["dropped"] == first // part
            assert figures["archived"] == ((total - 1) // part if name == "ib_chain" else 0)
            if name == "ib_chain":  # immutable ones have leaves and nodes of 16, and one node at least
                older = [2 + (rows > 16 * 16) for rows in figures["sub_index_rows"][:-1]]
                assert figures["sub_index_depths"][:-1] == older
