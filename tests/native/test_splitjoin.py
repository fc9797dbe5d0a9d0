"""SplitJoin on threads at the core's own interface: exact and in order, whatever the threads' schedule."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from muntin.host.native import _core
from tests.native.nested_loop import Batch, NestedLoop, open_engine
from tests.native.test_engine import Call, Query, Streams, calls, queries

NONE, OUTER, INNER = range(3)


@dataclasses.dataclass(frozen=True)
class Shape:
    """How SplitJoin is set up, as the core takes it."""

    cores: int = 4
    fan_out: int = 2
    queue_rows: int = 8
    active: bool = False
    order: int = NONE
    every: int = 1
    schedule: int = 0
    timed: bool = False

    def options(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"order": ("none", "outer", "inner")[self.order]}


shapes = st.builds(
    Shape,
    cores=st.sampled_from([1, 2, 3, 4, 5, 9]),
    fan_out=st.sampled_from([2, 3, 8]),
    queue_rows=st.sampled_from([4, 64, 1024]),
    active=st.booleans(),
    order=st.sampled_from([NONE, OUTER, OUTER, INNER, INNER]),
    every=st.sampled_from([1, 1, 2, 4, 64]),
    schedule=st.one_of(st.just(0), st.integers(1, 2**31)),
)
local_indexes = st.sampled_from(
    ["nested_loop", "nested_loop", "nested_loop", "sorted_runs", "sorted_array", "auto", "auto", "auto"]
)
#: As what the core's "auto" is opened: it changes its structure every few rows, whatever is faster.
RESTLESS = {"border_rows": 3, "restless": True}


def opened(query: Query, shape: Shape, index: str) -> _core.Engine:
    return open_engine(
        key_bits=query.key_bits,
        window=query.window,
        within=query.within,
        bands=query.bands or [],
        self_join=query.self_join,
        index=index,
        splitjoin=shape.options(),
        **(RESTLESS if index == "auto" else {}),
    )


def probing(batches: tuple[Batch, Batch], left: np.ndarray, right: np.ndarray, first: int) -> tuple[np.ndarray, ...]:
    """For each pair the side that found it, its place in the order of arrival, and the stored row; int64, shape (m,).

    Places count from 0, where the first rows of both streams have the number `first`.
    """
    side, place, stored = (np.zeros(len(left), np.int64) for _ in range(3))
    for at, (own, other) in enumerate(((left, right), (right, left))):
        batch = batches[at]
        if not len(batch.rows):
            continue
        which = np.minimum(np.searchsorted(batch.rows, own), len(batch.rows) - 1)
        found = (batch.rows[which] == own) & (other < batch.other_position[which])
        side[found], stored[found] = at, other[found]
        place[found] = ((own - first) + (batch.other_position[which] - first))[found]
    return side, place, stored


def check_order(shape: Shape, batches: tuple[Batch, Batch], left: np.ndarray, right: np.ndarray, first: int) -> None:
    """What `order` and `every` promise. Stored rows have no gaps here in inner order, but what `first` says."""
    _, place, stored = probing(batches, left, right, first)
    if shape.order == OUTER:
        group = (place + 2 * first % shape.every) // shape.every  # of the sum of both numbers
        assert (np.diff(group) >= 0).all()
    elif shape.order == INNER:
        assert (np.diff(place) >= 0).all()
        same = np.diff(place) == 0
        if shape.every == 1:
            assert (np.diff(stored)[same] >= 0).all()  # intervals that share keys give a pair twice
        else:
            group = (stored - first) // (shape.cores * shape.every)
            assert (np.diff(group)[same] >= 0).all()


def run(query: Query, steps: list[Call], shape: Shape, index: str) -> int:
    """Steps of one engine against a nested loop; the order where it is promised. Returns changes of structure."""
    model = NestedLoop(query.window, query.within, query.bands or [], query.self_join)
    streams = Streams(query)
    engine = opened(query, shape, index)
    for call in steps:
        batches = streams.take(call)
        inputs = [batch.input(call.short) for batch in batches]
        expected = model.step(batches)
        found = engine.step(*inputs, counting=query.counting, whole=not query.counting)
        if query.counting:
            for side in (0, 1):
                assert found[side].tolist() == [
                    np.count_nonzero(expected[side][:, 0] == row) for row in batches[side].rows
                ]
        else:
            left, right = found
            both = np.concatenate([expected[0], expected[1][:, ::-1]])
            got, wanted = np.stack([left, right], 1), both
            np.testing.assert_array_equal(
                got[np.lexsort((got[:, 1], got[:, 0]))], wanted[np.lexsort((wanted[:, 1], wanted[:, 0]))]
            )
            if not query.self_join and (shape.order != INNER or shape.every == 1 or not call.gaps):
                check_order(shape, batches, left, right, query.first_row)
        for side in (0, 1):
            if query.within is None:
                streams.arrived[side] += call.leap
                if query.self_join:
                    streams.arrived[1] = streams.arrived[0]
                engine.arrived(side, streams.arrived[side])
            elif call.then in ("expire_times", "purge"):
                limit = streams.useless_times()[side]
                getattr(engine, call.then)(side, limit)
                kept = np.count_nonzero(model.stored[0 if query.self_join else side].times > limit)
                rows = engine.rows(side)
                assert (
                    rows == kept
                    if call.then == "purge"
                    else kept <= rows <= len(model.stored[0 if query.self_join else side].rows)
                )
    assert not engine.failures()
    return sum(engine.figures(0).get("changes", []))


def count_window(*window: int) -> Query:
    """Equality in a self join over count windows, from the first row on."""
    return Query(32, window, None, [(0, 0)], 0, self_join=True, first_row=0, first_time=0, index={}, counting=False)


def call(rows: int, leap: int = 0) -> Call:
    return Call((rows, rows), 0, "any", True, False, True, 0, leap, "")


#: More rows than a structure's 32-bit numbers, that are not stored.
LEAP = (1 << 32) + 5


# Structures are loaded with rows of which some have left the window before the leap.
@example(
    query=count_window(1, 7), steps=[call(1), call(0, LEAP), call(7)], shape=Shape(cores=1, queue_rows=4), index="auto"
)
@example(query=count_window(1, 50), steps=[call(40), call(0, LEAP), call(60)], shape=Shape(cores=3), index="auto")
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=min(25, settings.default.max_examples))
@given(query=queries(widths=(32, 64)), steps=st.lists(calls, min_size=1, max_size=4), shape=shapes, index=local_indexes)
def test_steps_equal_a_nested_loop(query: Query, steps: list[Call], shape: Shape, index: str) -> None:
    # A thread that waits costs more than what it waits for: few rows, as calls are cut anywhere anyway.
    steps = [dataclasses.replace(call, sizes=tuple(min(size, 80) for size in call.sizes)) for call in steps]
    if shape.order == INNER and shape.every > 1:  # groups are of stored rows: with none left out they can be told
        steps = [dataclasses.replace(call, gaps=False, leap=0) for call in steps]
    changes = run(dataclasses.replace(query, index={}), steps, shape, index)
    event(f"{index}, changed" if changes else index)


# Schedules


def small(seed: int) -> tuple[Query, list[Call], Shape, str]:
    """A join of some dozen rows and a set-up, all drawn by a seed."""
    rng = np.random.default_rng(seed)
    timed = bool(rng.integers(2))
    index = str(rng.choice(["nested_loop", "nested_loop", "sorted_runs", "wib_tree", "bplus_tree", "auto", "auto"]))
    query = Query(
        key_bits=int(rng.choice([32, 64])),
        window=(0, 0) if timed else (int(rng.integers(1, 30)), int(rng.integers(1, 30))),
        within=(-30, 30) if timed else None,
        bands=[(-2, 2)] if rng.integers(2) else [(-9, -1), (1, 3)],
        span=10,
        self_join=not rng.integers(5),
        first_row=0,
        first_time=0,
        index={},
        counting=not rng.integers(8),
    )
    ends = ["", "expire_times", "purge"]
    steps = [
        Call(
            sizes=(int(rng.integers(0, 25)), int(rng.integers(0, 25))),
            seed=int(rng.integers(2**31)),
            keys="any",
            interleaved=bool(rng.integers(4)),
            gaps=False,
            short=True,
            advance=40,
            leap=0,
            then=str(rng.choice(ends)),
        )
        for _ in range(3)
    ]
    shape = Shape(
        cores=int(rng.integers(1, 7)),
        fan_out=int(rng.integers(2, 4)),
        queue_rows=int(rng.choice([1, 2, 16])),
        active=bool(rng.integers(2)),
        order=int(rng.integers(3)),
        every=int(rng.choice([1, 2, 4])),
        schedule=seed + 1,
    )
    return query, steps, shape, index


def test_random_schedules(request: pytest.FixtureRequest, seed: int) -> None:
    """Threads lose their turns at random places, and take random numbers of rows at a time."""
    changes = 0
    for number in range(1000 if request.config.getoption("--full") else 20):
        try:
            changes += run(*small(1000 * seed + number))
        except BaseException:
            print(f"schedule {1000 * seed + number}")
            raise
    assert changes > 0


# Cores


def rows_of(first: int, count: int, keys: int, rng: np.random.Generator) -> tuple[Batch, Batch]:
    """`count` rows a side, in turns, keys in [0, keys)."""
    numbers = np.arange(first, first + count)
    left, right = (rng.integers(0, keys, count).astype(np.int32) for _ in range(2))
    return Batch(left, numbers, numbers), Batch(right, numbers, numbers + 1)


def open_small(index: str = "nested_loop", **shape: int) -> _core.Engine:
    return open_engine(key_bits=32, window=(100, 100), bands=[(0, 0)], index=index, splitjoin=Shape(**shape).options())


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("index", ["nested_loop", "sorted_array"])
def test_each_core_stores_every_jth_row(index: str, active: bool) -> None:
    engine = open_small(index, cores=3, active=active, queue_rows=64)
    rng = np.random.default_rng(0)
    engine.step(*(b.input() for b in rows_of(0, 50, 9, rng)), whole=True)
    assert engine.figures(0)["rows_of_cores"] == [17, 17, 16]
    assert engine.figures(0)["depth"] == 2  # three cores below two branches
    engine.step(*(b.input() for b in rows_of(50, 500, 9, rng)), whole=True)
    rows = np.array(engine.figures(0)["rows_of_cores"])
    # A core has its share of the window, and at most a row more: others were pushed out, or dropped by a probe.
    assert ((rows >= 33) & (rows <= 35)).all()


def test_every_structure_has_its_turn() -> None:
    query = Query(32, (400, 400), None, [(-3, 3)], 60, False, 0, 0, {}, True)
    engine, streams, seen = opened(query, Shape(cores=1), "auto"), Streams(query), set()
    for seed in range(60):
        left, right = streams.take(Call((20, 20), seed, "any", True, False, False, 0, 0, ""))
        engine.step(left.input(), right.input(), counting=True)
        seen |= set(engine.figures(0)["structures"])
    assert seen == {"nested_loop", "sorted_runs", "rap_table", "wib_tree", "bplus_tree"}


def test_times_of_rows_lie_within_the_step() -> None:
    query = Query(32, (400, 400), None, [(-3, 3)], 60, False, 0, 0, {}, True)
    engine, streams = opened(query, Shape(order=OUTER, timed=True), "nested_loop"), Streams(query)
    left, right = streams.take(Call((2000, 2000), 1, "any", True, False, False, 0, 0, ""))
    began = time.perf_counter()
    engine.step(left.input(), right.input(), counting=True)
    spent = 1e6 * (time.perf_counter() - began)
    figures = engine.figures(0)
    for name in ("distribution_us", "execution_us", "gathering_us", "end_to_end_us", "visiting_us"):
        assert 0 < figures[name] < spent


def test_a_tree_grows_wide_before_it_grows_deep() -> None:
    for cores, fan_out, depth in ((1, 4, 1), (4, 4, 1), (5, 4, 2), (16, 4, 2), (17, 4, 3), (8, 2, 3)):
        assert open_small(cores=cores, fan_out=fan_out).figures(0)["depth"] == depth


def test_punctuation_is_as_frequent_as_asked() -> None:
    counts = {}
    for order, every in ((NONE, 1), (OUTER, 1), (OUTER, 10), (INNER, 1), (INNER, 8)):
        engine = open_small(cores=2, order=order, every=every, queue_rows=1024)
        engine.step(*(b.input() for b in rows_of(0, 100, 9, np.random.default_rng(0))), whole=True)
        counts[order, every] = engine.figures(0)["punctuations"]
    assert counts[NONE, 1] == 0
    assert counts[OUTER, 1] == 200  # one a row
    assert counts[OUTER, 10] == 2 * 20  # one a group for the left rows in it, and one for the right rows
    within = sum((stored + 1) // 2 - 1 for row in range(100) for stored in (row, row + 1) if stored)
    assert counts[INNER, 1] == 200 + within  # between the blocks of two rows, one in each core
    assert 200 < counts[INNER, 8] < 200 + within / 7


@pytest.mark.parametrize("order", [NONE, OUTER, INNER])
@pytest.mark.parametrize("at", [0, 70, 150])
def test_a_core_that_fails_takes_its_share_alone(order: int, at: int) -> None:
    rng = np.random.default_rng(at)
    engine = open_small(cores=3, order=order, queue_rows=16)
    model = NestedLoop((100, 100), None, [(0, 0)])
    engine.inject_fault(1, at)
    missing = 0
    for number in range(3):
        batches = rows_of(number * 60, 60, 12, rng)
        expected = model.step(batches)
        left, right = engine.step(*(b.input() for b in batches), whole=True)
        got = set(zip(left.tolist(), right.tolist(), strict=True))
        wanted = {tuple(pair) for pair in expected[0]} | {tuple(pair[::-1]) for pair in expected[1]}
        assert got <= wanted
        # Whatever lies in other cores comes: the stored row of a pair is the earlier one.
        lost = {(one, other) for one, other in wanted if min(one, other) % 3 == 1}
        assert wanted - got <= lost
        missing += len(wanted - got)
        if order != NONE:
            check_order(Shape(cores=3, order=order), batches, left, right, 0)
    ((core, why, *lost_rows),) = engine.failures()
    assert (core, why) == (1, "injected fault")
    assert missing > 0
    assert lost_rows[0] in range(0 if at == 0 else 1, 35)


# Threads


def test_threads_end_with_their_engine() -> None:
    before = threading.active_count(), len(os.listdir("/proc/self/task"))
    for number in range(20):
        engine = open_small(cores=5, fan_out=2)
        assert len(os.listdir("/proc/self/task")) > before[1] + 5
        if number % 2:
            engine.step(*(b.input() for b in rows_of(0, 30, 9, np.random.default_rng(0))), whole=True)
        del engine
        gc.collect()
        assert len(os.listdir("/proc/self/task")) <= before[1]


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a child process runs without the sanitizer's core")
def test_a_child_drops_its_parents_engine_and_opens_its_own() -> None:
    engine = open_small(cores=3)
    batches = rows_of(0, 50, 9, np.random.default_rng(0))
    expected = len(engine.step(*(b.input() for b in batches), whole=True)[0])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            del engine
            gc.collect()
            own = open_small(cores=3)
            status = int(len(own.step(*(b.input() for b in batches), whole=True)[0]) != expected)
            del own
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    more = rows_of(50, 50, 9, np.random.default_rng(1))
    assert len(engine.step(*(b.input() for b in more), whole=True)[0]) > 0
