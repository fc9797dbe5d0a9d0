"""SPO-Join at the core's interface, against a comparison of all pairs: every parameter drawn by hypothesis."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.host.index import SpoJoin
from muntin.host.native import _core
from tests.native.nested_loop import ISAS, wide

FAR = 2**80
LIMITS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


@dataclasses.dataclass(frozen=True)
class Query:
    """A conjunction, its window and the parameters of the index."""

    bands: list[list[tuple[int, int]]]  # by condition
    bounded: tuple[bool, ...]  # whether bounds come with the rows
    window: tuple[int, int]
    within: tuple[int, int] | None
    span: int  # keys lie in [-span, span]; 0: at the ends of int64
    self_join: bool
    parameters: dict[str, float]
    counting: bool
    isa: str


@st.composite
def queries(draw: st.DrawFn) -> Query:
    def bands() -> list[tuple[int, int]]:
        ends = sorted(draw(st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True)))
        some = [(-FAR, ends[0]), (ends[0], ends[-1]), (ends[0], FAR), (-FAR, FAR)]
        return draw(st.sampled_from([*([band] for band in some), [(-FAR, ends[0] - 1), (ends[0] + 1, FAR)], []]))

    conditions = draw(st.integers(1, 4))
    timed = draw(st.booleans())
    slide = draw(st.sampled_from([1, 3, 16, 70, 500]))
    return Query(
        bands=[bands() for _ in range(conditions)],
        bounded=tuple(draw(st.lists(st.booleans(), min_size=conditions, max_size=conditions))),
        window=(0, 0) if timed else draw(st.tuples(st.sampled_from([1, 40, 333]), st.sampled_from([1, 64, 1000]))),
        within=draw(st.tuples(st.integers(-60, 0), st.integers(0, 60))) if timed else None,
        span=draw(st.sampled_from([0, 2, 12])),
        self_join=draw(st.booleans()),
        parameters={
            "slide": slide,
            "sub_intervals": draw(st.integers(1, 4)),
            "mutable": draw(st.sampled_from(SpoJoin.MUTABLE)),
            "immutable": draw(st.sampled_from(SpoJoin.IMMUTABLE)),
        },
        counting=draw(st.booleans()),
        isa=draw(st.sampled_from(ISAS)),
    )


@dataclasses.dataclass
class Rows:
    """Rows of one side: their keys by condition, arrival numbers, how many of the other side came before, times."""

    keys: np.ndarray
    rows: np.ndarray
    other_position: np.ndarray
    times: np.ndarray

    def join(self, other: Rows) -> Rows:
        return Rows(
            np.concatenate([self.keys, other.keys], axis=1),
            *(np.concatenate([getattr(self, of), getattr(other, of)]) for of in ("rows", "other_position", "times")),
        )


def ends(keys: np.ndarray, bands: list[tuple[int, int]], side: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The bounds that the bands say, as arrays by row."""
    found = []
    for low, high in bands if side == 0 else bands[::-1]:
        first, last = (low, high) if side == 0 else (-high, -low)
        pairs = [(max(int(key) + first, LIMITS[0]), min(int(key) + last, LIMITS[1])) for key in keys]
        pairs = [pair if pair[0] <= pair[1] else (1, 0) for pair in pairs]
        found.append(
            tuple(
                np.array(side, np.int64).reshape(len(keys)) for side in ([p[0] for p in pairs], [p[1] for p in pairs])
            )
        )
    return found  # type: ignore[return-value]


def core_input(rows: Rows, query: Query, side: int) -> _core.Input:
    def bounds(k: int) -> Any:
        return ends(rows.keys[k], query.bands[k], side) if query.bounded[k] else None

    return _core.Input(
        rows.keys[0],
        rows=rows.rows,
        other_position=rows.other_position,
        times=rows.times if query.within else None,
        bounds=bounds(0),
        others=[(rows.keys[k], bounds(k)) for k in range(1, len(query.bands))],
    )


def open_engine(query: Query) -> _core.Engine:
    bands = [[(wide(low), wide(high)) for low, high in of] for of in query.bands]
    return _core.Engine(
        key_bits=64,
        index="spo_join",
        window=query.window,
        bands=bands[0],
        others=bands[1:],
        self_join=query.self_join,
        within=None if query.within is None else (wide(query.within[0]), wide(query.within[1])),
        parameters=query.parameters,
        isa=query.isa,
    )


def expected(query: Query, probing: Rows, stored: Rows, side: int) -> np.ndarray:
    """Which of the probing rows meet which of the stored ones; bool, shape (probing, stored)."""
    left, right = (probing, stored) if side == 0 else (stored, probing)
    found = np.ones((len(probing.rows), len(stored.rows)), np.bool_)
    for k, bands in enumerate(query.bands):
        a, b = left.keys[k].astype(object), right.keys[k].astype(object)
        apart = b[None, :] - a[:, None]
        inside = np.zeros(apart.shape, np.bool_)
        for low, high in bands:
            inside |= ((low <= apart) & (apart <= high)).astype(np.bool_)
        found &= inside if side == 0 else inside.T
    found &= stored.rows[None, :] < probing.other_position[:, None]
    if query.within is None:
        return found & (stored.rows[None, :] >= probing.other_position[:, None] - query.window[1 - side])
    apart = right.times[None, :] - left.times[:, None]
    inside = (query.within[0] <= apart) & (apart <= query.within[1])
    return found & (inside if side == 0 else inside.T)


def make_rows(query: Query, rng: np.random.Generator, count: int, first: int, other: int, step: int) -> Rows:
    keys = rng.integers(-query.span, query.span + 1, (len(query.bands), count))
    if query.span == 0:
        keys = np.where(
            rng.random(keys.shape) < 0.5,
            LIMITS[0] + rng.integers(0, 9, keys.shape),
            LIMITS[1] - rng.integers(0, 9, keys.shape),
        )
    rows = first + np.sort(rng.choice(2 * count, count, replace=False)) if count else np.zeros(0, np.int64)
    other_position = np.sort(rng.integers(other, other + 2 * step + 1, count))
    times = rows // 3 + rng.integers(-20, 20, count)
    return Rows(
        np.ascontiguousarray(keys), rows.astype(np.int64), other_position.astype(np.int64), times.astype(np.int64)
    )


@given(
    query=queries(),
    sizes=st.lists(
        st.tuples(st.sampled_from([0, 1, 5, 130, 700]), st.sampled_from([0, 1, 64, 300])), min_size=1, max_size=5
    ),
    seed=st.integers(0, 1000),
    threads=st.sampled_from([1, 4]),
)
@settings(deadline=None, max_examples=min(40, settings.default.max_examples))
def test_steps_equal_all_pairs(query: Query, sizes: list, seed: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    engine = open_engine(query)
    empty = make_rows(query, rng, 0, 0, 0, 0)
    stored = [empty, empty]
    arrived = [0, 0]
    for left, right in sizes:
        size = (left, left if query.self_join else right)
        batch = [make_rows(query, rng, size[side], arrived[side], arrived[1 - side], size[1 - side]) for side in (0, 1)]
        if query.self_join:
            batch = [dataclasses.replace(batch[0], other_position=batch[0].rows)] * 2
        stored = [stored[side].join(batch[side]) for side in (0, 1)]
        found = engine.step(
            *(core_input(batch[side], query, side) for side in (0, 1)), counting=query.counting, threads=threads
        )
        for side in (0, 1):
            due = expected(query, batch[side], stored[1 - side], side)
            if query.counting:
                assert found[side].tolist() == due.sum(axis=1).tolist()
                continue
            pairs = sorted(zip(*(part.tolist() for part in found[side]), strict=True))
            probing, met = np.nonzero(due)
            assert pairs == sorted(
                zip(batch[side].rows[probing].tolist(), stored[1 - side].rows[met].tolist(), strict=True)
            )
        for side in (0, 1):
            arrived[side] += 2 * size[side]
            if query.within is None:
                engine.arrived(side, arrived[side])
            check_figures(engine, query, side)
        if query.within is not None and rng.random() < 0.5:
            # No later row is older than this, by its number and how far its time may lie behind.
            for side in (0, 1):
                reach = max(-query.within[0], query.within[1])
                limit = min(arrived) // 3 - 21 - reach
                (engine.purge if rng.random() < 0.5 else engine.expire_times)(side, limit)


def check_figures(engine: _core.Engine, query: Query, side: int) -> None:
    figures = engine.figures(side)
    most = max(int(query.parameters["slide"]) // int(query.parameters["sub_intervals"]), 1)
    assert figures["mutable_rows"] < most
    assert all(0 < rows <= most for rows in figures["run_rows"])
    assert sum(figures["run_rows"]) + figures["mutable_rows"] == engine.rows(side)
    assert len(figures["run_rows"]) == engine.runs(side)
    assert figures["merges"] >= len(figures["run_rows"])
    assert figures["index_bytes"] <= engine.bytes


@pytest.mark.parametrize("mutable", SpoJoin.MUTABLE)
@pytest.mark.parametrize("immutable", SpoJoin.IMMUTABLE)
@pytest.mark.parametrize("most", [2000, 1 << 40])
def test_parts_of_thousands_of_keys(mutable: str, immutable: str, most: int, seed: int) -> None:
    """Trees and directories of three levels, over keys that come several times or once, in no order."""
    rng = np.random.default_rng(seed)
    reach = (most // 500, most // 3)
    parameters = {"slide": 6000, "sub_intervals": 1, "mutable": mutable, "immutable": immutable}
    bands = [[(-far, far)] for far in reach]
    query = Query(bands, (False, False), (1 << 20, 1 << 20), None, 1, False, parameters, True, ISAS[-1])
    engine = open_engine(query)
    none = core_input(make_rows(query, rng, 0, 0, 0, 0), query, 0)
    keys = rng.integers(-most, most, (2, 11_000))
    for first in range(0, 11_000, 1000):
        some = np.ascontiguousarray(keys[:, first : first + 1000])
        zeros = np.zeros(1000, np.int64)
        engine.step(core_input(Rows(some, first + np.arange(1000), zeros, zeros), query, 0), none, counting=True)
    assert (engine.runs(0), engine.figures(0)["mutable_rows"]) == (1, 5000)
    asked = np.ascontiguousarray(np.stack([keys[:, ::100], rng.integers(-most, most, (2, 110))], axis=2).reshape(2, -1))
    asked[:, -2:] = LIMITS[0], LIMITS[1]
    count = asked.shape[1]
    probing = Rows(asked, np.arange(count), np.full(count, 11_000), np.zeros(count, np.int64))
    found = engine.step(none, core_input(probing, query, 1), counting=True)[1]
    apart = np.abs(asked.astype(float)[:, :, None] - keys.astype(float)[:, None, :])
    assert found.tolist() == ((apart[0] <= reach[0]) & (apart[1] <= reach[1])).sum(axis=1).tolist()


def test_what_it_tells_of_its_inside(seed: int) -> None:
    """Ten merges of a hundred rows a side: rows that come with the last one of a run meet it once it is built."""
    parameters = {"slide": 200, "sub_intervals": 2, "immutable": "po_join_bits"}
    query = Query([[(-3, 3)], [(0, FAR)]], (False, False), (2000, 2000), None, 12, False, parameters, True, ISAS[-1])
    engine, rng = open_engine(query), np.random.default_rng(seed)
    for step in range(20):
        batch = [make_rows(query, rng, 50, 100 * step, 100 * step, 50) for _ in (0, 1)]
        engine.step(*(core_input(batch[side], query, side) for side in (0, 1)), counting=True, threads=2)
    for side in (0, 1):
        figures = engine.figures(side)
        assert figures["merges"] == 10
        assert figures["merge_seconds"] > 0
        assert figures["queued_probes"] == 10 * 50
        assert figures["run_rows"] == [100] * 10
        assert figures["mutable_share"] == 0
        assert figures["probes_by_bits"] > 0
        assert figures["probes_by_ranks"] == 0
        assert figures["bit_array_bytes"] >= 104 // 8
        engine.arrived(side, 2000 + 1500)  # rows before 1500 leave: whole runs of two hundred numbers
        assert engine.figures(side)["run_rows"] == [100] * 3
        engine.arrived(side, 2000 + 2000)
        assert engine.rows(side) == 0


def test_the_least_selective_condition_is_not_scanned(seed: int) -> None:
    """A run made after probes scans the condition that they found least by; the result is that of the other order."""
    counts = []
    for bands in ([[(-FAR, FAR)], [(0, 0)]], [[(0, 0)], [(-FAR, FAR)]]):
        parameters = {"slide": 64, "sub_intervals": 1}
        query = Query(bands, (False, False), (1000, 1000), None, 12, False, parameters, True, ISAS[-1])
        engine, rng = open_engine(query), np.random.default_rng(seed)
        found = []
        for step in range(20):
            batch = [make_rows(query, rng, 50, 100 * step, 100 * step, 50) for _ in (0, 1)]
            for rows in batch:
                rows.keys[1] = rows.keys[0]
            found += engine.step(*(core_input(batch[side], query, side) for side in (0, 1)), counting=True, threads=1)
        counts.append([part.tolist() for part in found])
    assert counts[0] == counts[1]
    assert sum(map(sum, counts[0]))


def test_refused() -> None:
    query = Query([[(0, 0)]], (False,), (5, 5), None, 2, False, {"slide": 4, "sub_intervals": 0}, False, ISAS[-1])
    with pytest.raises(ValueError, match="sub_intervals is at least 1"):
        open_engine(query)
    with pytest.raises(ValueError, match="keys of 64 bits"):
        _core.Engine(key_bits=32, index="spo_join", window=(5, 5))
    engine = open_engine(dataclasses.replace(query, parameters={}))
    rows = make_rows(query, np.random.default_rng(0), 3, 0, 0, 3)
    with pytest.raises(ValueError, match="every condition has its keys"):
        engine.step(_core.Input(rows.keys[0], others=[(rows.keys[0], None)]), _core.Input(rows.keys[0]))
