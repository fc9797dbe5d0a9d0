"""RaP-Table and WiB+-Tree from the inside: what PanJoin says of them, by what they tell in `figures`."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.host.native import _core
from tests.native.nested_loop import ISAS, Batch, NestedLoop, in_order, open_engine

INT32 = np.iinfo(np.int32)


class Window:
    """A window that takes batches of keys, as the left side of a join."""

    def __init__(self, index: str, rows: int = 1 << 20, bits: int = 32, **parameters: float):
        self.engine = open_engine(key_bits=bits, window=(rows, 1), bands=[(0, 0)], index=index, **parameters)
        self.dtype = np.dtype(f"int{bits}")
        self.arrived = 0

    def insert(self, keys: Any) -> dict[str, Any]:
        keys = np.asarray(keys, self.dtype)
        self.engine.step(
            _core.Input(keys, first_row=self.arrived, same_other_position=0), _core.Input(keys[:0]), threads=1 << 20
        )
        self.arrived += len(keys)
        return self.engine.figures(0)


def rows_between(keys: np.ndarray, borders: list[int]) -> list[int]:
    """How many keys lie before the first border, from it on and before the second, and so on."""
    return np.bincount(np.searchsorted(borders, keys, "right"), minlength=len(borders) + 1).tolist()


def adjusted(counts: list[int], keys: np.ndarray, borders: list[int]) -> list[int]:
    """Algorithm 1, with the `min_i +` that the paper's formula lacks: new splitters from a full subwindow."""
    where = np.searchsorted(borders, keys, "right")
    total, partitions, splitters, before, j = len(keys), len(counts), [], 0, 1
    for i, count in enumerate(counts):
        own = keys[where == i]
        while j < partitions and total * j <= (before + count) * partitions:
            low, high = int(own.min()), int(own.max())
            splitters.append(low + (high - low) * (total * j - before * partitions) // (count * partitions))
            j += 1
        before += count
    return splitters


key_kinds = st.sampled_from(["any", "few", "one", "rising", "ends", "heavy"])


def keys_of(kind: str, count: int, seed: int, bits: int = 32) -> np.ndarray:
    rng, ends = np.random.default_rng(seed), np.iinfo(f"int{bits}")
    if kind == "rising":
        return np.arange(count) * 7 + seed % 100
    if kind == "heavy":  # nearly all of them are one key
        return np.where(rng.random(count) < 0.8, 5, rng.integers(-20, 20, count))
    low, high = {"any": (ends.min, ends.max), "few": (-3, 3), "one": (5, 5), "ends": (0, 3)}[kind]
    keys = rng.integers(low, high, count, endpoint=True)
    return np.array([ends.min, ends.min + 1, ends.max - 1, ends.max])[keys] if kind == "ends" else keys


@given(
    partitions=st.integers(1, 40), capacity=st.integers(1, 400), sigma=st.sampled_from([1.01, 1.1, 1.25, 2.0]),
    kinds=st.lists(key_kinds, min_size=2, max_size=4), bits=st.sampled_from([32, 64]), seed=st.integers(0, 99),
)  # fmt: skip
def test_rap_table_keeps_every_row_in_its_partition_and_twice_as_many_entries_suffice(
    partitions: int, capacity: int, sigma: float, kinds: list[str], bits: int, seed: int
) -> None:
    window = Window("rap_table", bits=bits, partitions=partitions, subwindow_rows=capacity, sigma=sigma)
    before: list[int] | None = None
    for number, kind in enumerate(kinds):
        keys = keys_of(kind, capacity, seed + number, bits)
        for part in np.array_split(keys, 3):
            figures = window.insert(part)
        partitions = min(partitions, capacity)
        assert figures["partitions"] == partitions
        assert figures["adjustments"] == number
        assert figures["entries"] == 2 * partitions
        assert figures["entry_rows"] == math.ceil(capacity / partitions * sigma)
        assert 0 <= figures["reserve_used"] < partitions
        assert figures["splitters"] == sorted(figures["splitters"])
        assert figures["counts"] == rows_between(keys, figures["splitters"])
        assert before is None or figures["splitters"] == before
        before = adjusted(figures["counts"], keys, figures["splitters"])
    assert figures["rows"] == [capacity] * len(kinds)


def test_space_of_an_llat_is_what_the_paper_computes() -> None:
    capacity, partitions, sigma = 1 << 16, 512, 1.25
    window = Window("rap_table", partitions=partitions, subwindow_rows=capacity, sigma=sigma)
    figures = window.insert(np.arange(capacity))
    overhead = capacity / partitions * sigma * 2 * partitions / capacity - 1
    assert overhead == 1.5  # section III-B.2
    assert figures["entries"] * figures["entry_rows"] == (1 + overhead) * capacity
    words = 8 * (1 + overhead) * capacity
    assert words < window.engine.bytes < 1.1 * words


def test_splitters_fit_after_one_to_three_adjustments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 1 << 14
    window = Window("rap_table", partitions=128, subwindow_rows=size)
    errors = []
    for _ in range(5):
        modes = rng.choice([-(10**9), 0, 5 * 10**8], size)
        errors.append(window.insert(np.rint(rng.normal(modes, 10**7)))["errors_per_mille"][-1])
    assert errors[0] > 1500  # all in a few partitions
    assert max(errors[3:]) < 200


def test_the_worst_case_of_the_adjustment_ends_after_the_logarithm_of_the_keys() -> None:
    """Each adjustment parts but the row with the greatest key from the rest: section III-B.1, Fig. 4."""
    partitions, size = 16, 1024
    rounds = math.ceil(math.log(2**32, partitions))
    window = Window("rap_table", partitions=partitions, subwindow_rows=size)
    powers = [INT32.max // partitions**k for k in range(rounds)]
    keys = np.array(powers + [at % partitions for at in range(size - len(powers))])
    most = [max(window.insert(keys)["counts"]) for _ in range(rounds + 2)]
    assert most[rounds - 3] > 0.9 * size  # the first borders, even over negative keys too, save a round
    assert most[-1] < 0.3 * size


def test_the_rebounding_search_takes_few_steps_where_batches_are_large() -> None:
    partitions, size = 1024, 1 << 15
    window = Window("rap_table", partitions=partitions, subwindow_rows=size)
    keys = np.linspace(INT32.min, INT32.max, size).astype(np.int32)
    small = Window("rap_table", partitions=partitions, subwindow_rows=size)
    assert window.insert(keys)["comparisons"] <= 3 * partitions  # one search for all rows of a partition
    for key in keys[:1000]:
        alone = small.insert([key])["comparisons"]
    assert alone >= 3 * 1000


def test_rows_of_large_batches_are_stored_by_threads_as_by_one(seed: int) -> None:
    keys = np.random.default_rng(seed).normal(0, 10**6, 200_000).astype(np.int32)
    windows = [Window("rap_table", subwindow_rows=60_000, partitions=512) for _ in range(2)]
    before = _core.threads()
    try:
        for window, threads in zip(windows, (1, 4), strict=True):
            _core.set_threads(threads)
            window.insert(keys)
    finally:
        _core.set_threads(before)
    figures = [window.engine.figures(0) for window in windows]
    assert figures[0] == figures[1]
    assert sum(figures[0]["rows"]) == len(keys)


@given(
    width=st.integers(2, 20), kinds=st.lists(key_kinds, min_size=1, max_size=6), bits=st.sampled_from([32, 64]),
    sizes=st.integers(0, 150), seed=st.integers(0, 99),
)  # fmt: skip
def test_wib_tree_keeps_its_leaves_and_its_bound_of_entries(
    width: int, kinds: list[str], bits: int, sizes: int, seed: int
) -> None:
    window = Window("wib_tree", bits=bits, leaf_rows=width, subwindow_rows=10_000)
    keys = np.empty(0, np.int64)
    for number, kind in enumerate(kinds):
        more = keys_of(kind, sizes, seed + number, bits)
        keys = np.append(keys, more)
        figures = window.insert(more)
    if len(keys) == 0:
        return
    separators, widths = figures["separators"], figures["widths"]
    assert all(a < b for a, b in itertools.pairwise(separators))  # none twice
    assert widths == rows_between(keys, separators)
    assert figures["leaves"] == len(widths)
    for number, rows in enumerate(widths):
        own = keys[np.searchsorted(separators, keys, "right") == number]
        assert rows <= width or len(np.unique(own)) == 1
    assert figures["entry_bound"] == 6 * len(keys) // width + 1
    assert len(widths) <= figures["entries"] <= figures["entry_bound"]
    assert figures["entries"] == sum(max(math.ceil(rows / width), 1) for rows in widths)


def test_heavy_keys_take_three_leaves_each_and_no_more_entries_than_the_bound() -> None:
    """What the bound is made for: a key with half a width of rows, and a row on either side of it."""
    width = 16
    window = Window("wib_tree", leaf_rows=width, subwindow_rows=1 << 20)
    for key in range(0, 200_000, 1000):
        for part in ([key] * (width // 2 + 1), [key + 1], [key - 1], [key] * (width // 2)):
            figures = window.insert(part)
    assert 2.5 * 200 < figures["entries"] <= figures["entry_bound"]


def test_a_sorted_batch_reuses_its_path(seed: int) -> None:
    keys = np.random.default_rng(seed).integers(INT32.min, INT32.max, 1 << 15)
    together, alone = (Window("wib_tree", leaf_rows=8, subwindow_rows=1 << 20) for _ in range(2))
    for window in (together, alone):
        figures = window.insert(keys)
        assert figures["depth"] >= 2
        assert figures["nodes"] > figures["leaves"] / 64
    more = np.sort(keys)[::8]
    before = figures["visits"]
    for key in more[:500]:
        each = alone.insert([key])["visits"]
    every = (each - before) / 500
    assert every >= figures["depth"]
    assert (together.insert(more)["visits"] - before) / len(more) < 0.8 * every


@pytest.mark.parametrize("bits", [32, 64])
def test_bisort_merges_its_buffer_when_it_is_full_and_large_batches_at_once(bits: int) -> None:
    window = Window("bisort", bits=bits, buffer_rows=100, subwindow_rows=1000, partitions=10)
    seen = [window.insert(np.arange(size)) for size in (60, 60, 99, 100, 300, 50, 400)]
    told = [(figures["main"], figures["buffer"], figures["merges"]) for figures in seen]
    assert told[:6] == [(0, 60, 0), (100, 20, 1), (200, 19, 2), (300, 19, 3), (600, 19, 4), (600, 69, 4)]
    assert told[6] == (0, 69, 0)  # of the next subwindow: 331 rows filled the first
    assert seen[4]["partitions"] == 6
    assert seen[6]["rows"] == [1000, 69]


def test_late_rows_lie_in_a_buffer_of_their_own() -> None:
    """A few rows before the times of the newest subwindow do not widen it; more of them do."""
    rng = np.random.default_rng(0)
    for index in ("rap_table", "wib_tree"):
        engine = open_engine(
            key_bits=32, within=(-100, 100), bands=[(-2, 2)], index=index, subwindow_rows=200, late_rows=5
        )
        model = NestedLoop((0, 0), (-100, 100), [(-2, 2)])
        arrived, seen = 0, []
        for step, few in enumerate([0, 0, 3, 0, 2, 0, 1, 60, 0]):
            times = 1000 + 40 * step + rng.integers(0, 10, 60)
            times[:few] -= 200
            keys = rng.integers(0, 9, 60).astype(np.int32)
            left = Batch(keys, arrived + np.arange(60), np.full(60, arrived), times)
            right = Batch(keys[::-1].copy(), arrived + np.arange(60), np.full(60, arrived + 60), times)
            arrived += 60
            expected, found = model.step((left, right)), engine.step(left.input(), right.input())
            for side in (0, 1):
                np.testing.assert_array_equal(in_order(found[side]), expected[side])
            seen.append(engine.figures(0))
        assert [figures["late_rows"] for figures in seen] == [0, 0, 3, 3, 5, 5, 6, 6, 6]
        assert seen[2]["late"] == [3]
        assert seen[-1]["late"] == [3, 3, 0]  # sixty of one batch were no few


@pytest.mark.parametrize("index", ["rap_table", "wib_tree"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("isa", ISAS)
def test_probes_that_share_a_partition_go_through_its_rows_together(
    index: str, bits: int, timed: bool, isa: str, seed: int
) -> None:
    """Partitions of hundreds of rows, and probes that meet all, some or none of one, or several; rows that some of them
    may not see."""
    rng, reach = np.random.default_rng(seed), 3
    parameters = {"rap_table": {"partitions": 3}, "wib_tree": {"leaf_rows": 512}}[index]
    within = (-60, 60) if timed else None
    windows: dict[str, Any] = {"within": within} if timed else {"window": (1500, 700)}
    engine = open_engine(
        key_bits=bits, bands=[(-reach, reach)], index=index, subwindow_rows=1200, isa=isa, **windows, **parameters
    )
    model = NestedLoop((1500, 700), within, [(-reach, reach)])
    arrived = found_pairs = 0
    for step in range(8):
        count = 500
        rows = arrived + np.arange(count)
        times = step * 40 + np.sort(rng.integers(0, 40, count)) if timed else None
        keys = [rng.choice([rng.integers(0, 2000, count), np.full(count, 700)], axis=0) for _ in range(2)]
        left, right = (
            Batch(own.astype(f"int{bits}"), rows, other, times)
            for own, other in zip(keys, (rows, rows + 1), strict=True)
        )
        arrived += count
        expected, found = model.step((left, right)), engine.step(left.input(), right.input())
        for side in (0, 1):
            np.testing.assert_array_equal(in_order(found[side]), expected[side])
            found_pairs += len(expected[side])
    assert found_pairs > 10_000
