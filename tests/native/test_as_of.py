"""The core's state of as-of joins against a loop: answers, what is held, and arguments that it cannot work with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.host.native import _core

NONE = np.zeros(0, np.int64)


def given_rows(rows: list[tuple[int, int]], first: int, *, grouped: bool, listed: bool) -> Any:
    """Rows of (time, word) as `step` takes them."""
    times, words = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    slots = np.arange(first, first + len(rows))
    return words if grouped else None, times, slots if listed else first


def best(time: int, word: int, rights: list[tuple[int, int]], tolerance: int | None, *, exact: bool) -> int:
    """The slot of the right row that a left row meets, looking back; -1 for none."""
    found = -1
    for slot, (other, own) in enumerate(rights):
        near = tolerance is None or time - other <= tolerance
        if own == word and near and (other < time or (exact and other == time)):
            found = slot if found < 0 or other >= rights[found][0] else found
    return found


ROWS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0, 1, -5, 1 << 40])), max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    calls=st.lists(st.tuples(ROWS, ROWS, st.one_of(st.none(), st.integers(0, 9))), min_size=1, max_size=6),
    ascending=st.booleans(),
    exact=st.booleans(),
    tolerance=st.one_of(st.none(), st.integers(0, 6)),
    grouped=st.booleans(),
    listed=st.booleans(),
    matched=st.booleans(),
    scan=st.booleans(),
)
def test_rows_are_answered_as_by_a_loop(calls, ascending, exact, tolerance, grouped, listed, matched, scan) -> None:
    state = _core.AsOf("backward", exact=exact, floats=False, tolerance=tolerance, grouped=grouped, scan=scan)
    lefts: list[tuple[int, int]] = []
    rights: list[tuple[int, int]] = []
    waits: list[int] = []
    watermark = None
    for new_left, new_right, ahead in calls:
        # No row comes at or before the watermark.
        base = 0 if watermark is None else watermark + 1
        sides = [[(base + time, word if grouped else 0) for time, word in rows] for rows in (new_left, new_right)]
        if ascending:
            sides = [sorted(rows, key=lambda row: row[0]) for rows in sides]
        parts = [
            given_rows(rows, len(known), grouped=grouped, listed=listed)
            for rows, known in zip(sides, (lefts, rights), strict=True)
        ]
        waits += range(len(lefts), len(lefts) + len(sides[0]))
        lefts += sides[0]
        rights += sides[1]
        watermark = watermark if ahead is None else base + ahead
        left, right = state.step(*parts, watermark=watermark, useless=watermark, matched=matched, threads=1)
        due = [at for at in waits if watermark is not None and lefts[at][0] <= watermark + (not exact)]
        waits = [at for at in waits if at not in due]
        expected = [(at, best(*lefts[at], rights, tolerance, exact=exact)) for at in due]
        assert list(zip(left.tolist(), right.tolist(), strict=True)) == [
            p for p in expected if p[1] >= 0 or not matched
        ]
        assert state.rows(False) == len(waits)
        assert state.slots(False, 0, len(lefts)).tolist() == waits
        held = state.slots(True, 0, len(rights))
        assert len(held) == state.rows(True)
        if len(held):
            assert state.oldest(True) == held[0]
        # Of each group, what a later left row may meet: one row up to the watermark, and one of each later time.
        if watermark is not None and exact:
            kinds = {(max(time, watermark), word) for time, word in rights}
            assert len(held) <= len({kind for kind in kinds if kind[0] > watermark}) + len({word for _, word in kinds})
        if grouped:
            assert set(state.words().tolist()) >= {rights[slot][1] for slot in held.tolist()}
    left, right = state.step(
        *(given_rows([], 0, grouped=grouped, listed=listed) for _ in "lr"), watermark=None, useless=None, all=True
    )
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == [
        (at, best(*lefts[at], rights, tolerance, exact=exact)) for at in waits
    ]
    assert state.rows(False) == 0


@pytest.mark.parametrize(
    ("direction", "tolerance", "right", "waits", "answered", "answer"),
    [
        ("backward", None, [4], 4, 5, 0),
        ("backward", 0, [4], 4, 5, -1),
        ("forward", 0, [], 4, 5, -1),
        ("forward", 3, [], 7, 8, -1),
        ("forward", None, [5], 3, 4, 0),
        ("forward", None, [7], 5, 6, 0),
        ("nearest", None, [5], 3, 5, 0),
        ("nearest", None, [3], 5, 7, 0),
        ("nearest", 2, [], 6, 7, -1),
        ("nearest", 0, [4], 4, 5, -1),
    ],
)
def test_a_row_waits_no_longer_than_a_right_row_may_do_better(
    direction, tolerance, right, waits, answered, answer
) -> None:
    """A left row of time 5 waits at one watermark, and has its answer at a later one."""
    nothing = (NONE, NONE, 0)
    rights = np.array(right, np.int64)
    found = []
    for watermark in (waits, answered):
        state = _core.AsOf(direction, exact=True, floats=False, tolerance=tolerance)
        state.step((np.zeros(1, np.int64), np.array([5]), 0), (0 * rights, rights, 0), watermark=None, useless=None)
        left, answers = state.step(nothing, nothing, watermark=watermark, useless=None)
        found.append(answers.tolist() if len(left) else None)
    assert found == [None, [answer]]


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_right_row_goes_once_all_left_rows_to_come_are_too_far_from_it(scan: bool, grouped: bool) -> None:
    for watermark, held in ((4, 1), (5, 0)):
        state = _core.AsOf("backward", exact=True, floats=False, tolerance=2, grouped=grouped, scan=scan)
        rows = given_rows([(3, 0)], 0, grouped=grouped, listed=True)
        nothing = given_rows([], 0, grouped=grouped, listed=True)
        state.step(nothing, rows, watermark=watermark, useless=watermark)
        assert state.rows(True) == held
        assert state.groups == held or not grouped


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("exact", [True, False])
def test_many_rows_in_order_on_several_threads(grouped: bool, exact: bool) -> None:
    random = np.random.default_rng(4)
    state = _core.AsOf("backward", exact=exact, floats=False, grouped=grouped, scan=True)
    times = [np.sort(random.integers(0, 200_000, 90_000)) for _ in "lr"]
    words = [random.integers(0, 5, 90_000) if grouped else None for _ in "lr"]
    found = []
    for start in range(0, 90_000, 30_000):
        stop = start + 30_000
        parts = [
            (None if own is None else own[start:stop], of[start:stop], start)
            for own, of in zip(words, times, strict=True)
        ]
        # Rows of the same time may be on both sides of the cut.
        watermark = int(min(of[stop - 1] for of in times)) - 1
        found.append(state.step(*parts, watermark=watermark, useless=watermark, threads=3))
    nothing = (NONE if grouped else None, NONE, 0)
    found.append(state.step(nothing, nothing, watermark=None, useless=None, all=True))
    left, right = (np.concatenate(column) for column in zip(*found, strict=True))
    assert (left == np.arange(90_000)).all()
    for word in range(5) if grouped else [None]:
        own = np.arange(90_000) if word is None else np.flatnonzero(words[0] == word)
        others = np.arange(90_000) if word is None else np.flatnonzero(words[1] == word)
        at = np.searchsorted(times[1][others], times[0][own], "right" if exact else "left")
        assert (right[own] == np.append(others, -1)[at - 1]).all()


def test_slots_are_given_again() -> None:
    for scan in (False, True):
        state = _core.AsOf("backward", exact=True, floats=False, scan=scan)
        rows = np.array([7, 8, 70_000]), np.array([1, 2, 9]), 10
        state.step(rows, rows, watermark=2, useless=2)
        assert state.slots(True, 10, 13).tolist() == [10, 11, 12]
        assert state.slots(False, 10, 13).tolist() == [12]
        state.renumber(True, 10, np.array([0, 1, 2]))
        state.renumber(False, 10, np.array([-1, -1, 5]))
        assert (state.oldest(True), state.oldest(False)) == (0, 5)
        left, right = state.step((NONE, NONE, 0), (NONE, NONE, 0), watermark=9, useless=9)
        assert (left.tolist(), right.tolist()) == ([5], [2])
        assert state.groups == 3
        assert state.bytes > 0


THREE = np.arange(3)


def step(left: Any = None, right: Any = None, **options: Any) -> Any:
    state = _core.AsOf("backward", exact=True, floats=False, scan=options.pop("scan", True))
    nothing = (NONE, NONE, 0)
    return state.step(left or nothing, right or nothing, **{"watermark": 1, "useless": 1, **options})


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: _core.AsOf("forward", exact=True, floats=False, scan=True), ValueError),
        (lambda: _core.AsOf("nearest", exact=True, floats=False, scan=True), ValueError),
        (lambda: _core.AsOf("backward", exact=True, floats=False, tolerance=-1), TypeError),
        (lambda: step((THREE[:2], THREE, 0)), ValueError),
        (lambda: step(right=(THREE, THREE, THREE[:2])), ValueError),
        (lambda: step((None, THREE, 0)), ValueError),
        (lambda: step((THREE, THREE, None)), TypeError),
        (lambda: step((THREE, THREE)), TypeError),
        (lambda: step(watermark=1 << 64), TypeError),
        (lambda: step(useless=2), ValueError),
        (lambda: _core.AsOf("backward", exact=True, floats=False).slots(True, 3, 2), ValueError),
    ],
)
def test_arguments_that_are_refused(call, error) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("scan", [False, True])
def test_slots_beyond_those_named_are_refused(scan: bool) -> None:
    state = _core.AsOf("backward", exact=True, floats=False, scan=scan)
    state.step((THREE, THREE, 0), (THREE, THREE, 0), watermark=None, useless=None)
    for right in (False, True):
        with pytest.raises(IndexError):
            state.slots(right, 0, 2)
        with pytest.raises(IndexError):
            state.slots(right, 1, 3)
        with pytest.raises(IndexError):
            state.renumber(right, 0, THREE[:2])
