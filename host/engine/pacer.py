"""Calls cut along the total order of arrival, into steps that an engine joins and stores at a time."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from muntin.host.call import Batch, Call
from muntin.host.sides import OTHER, SIDES, Side, Sides

_REST = 1.25  # the last step may be so many times as long as others: no short one follows
_MAX_GROWTH = 16  # of a step over the one before
_FAR_ROWS = 1 << 62  # beyond all windows

Amounts = Mapping[Side, Callable[[int], float]]
"""By side, what so many rows amount to, from the first on."""


def cut_steps(call: Call, max_rows: int) -> Iterator[Call]:
    """A call in steps of about so many rows of both sides."""
    return _cut(call, _ROWS, max_rows)


def cut_pairs(call: Call, counts: Mapping[Side, np.ndarray], max_pairs: int) -> Iterator[Call]:
    """A call in steps that find at most so many pairs, or one row's; `counts` are those that each row finds."""
    return _cut(call, {side: _running(of) for side, of in counts.items()}, max_pairs)


class Pacer:
    """Cuts calls into steps by the rows that a step may have, and by the pairs that it should find, as far as the pairs
    found so far tell.

    Parameters
    ----------
    max_rows : int
        Rows of both sides in a step at most, about.
    pairs : int, optional
        What a step should find: bounds its memory. By default steps are as long as they may be.
    min_rows, first_rows : int
        Of a step, where `pairs` bounds it; and of the first, before it is known how many pairs rows find.
    counts : dict of str to int, optional
        Rows of each side's count window.

    Attributes
    ----------
    found : dict of str to float
        Pairs that rows of each side have found so far.
    """

    def __init__(
        self, max_rows: int, *, pairs: int | None = None, min_rows: int = 1, first_rows: int | None = None,
        counts: Sides[int] | None = None,
    ):  # fmt: skip
        self.found: Sides[float] = dict.fromkeys(SIDES, 0)
        self._max_rows, self._min_rows, self._pairs, self._counts = max_rows, min_rows, pairs, counts
        self._rows = self._first_rows = max_rows if first_rows is None else min(first_rows, max_rows)
        # By the side that probes, the share of the rows in the other's window that match, as steps so far suggest.
        self._selectivity = dict.fromkeys(SIDES, 1.0)
        self._expected = dict.fromkeys(SIDES, 1.0)  # pairs that the step at hand should find

    def add(self, found: Sides[float] | float) -> None:
        """Adds the pairs that a step, or a part of it, has found: by the side whose rows found them, or their sum where
        that is all that is known."""
        if not isinstance(found, dict):
            all_expected = sum(self._expected.values()) or 1
            found = {side: found * expected / all_expected for side, expected in self._expected.items()}
        self.found = {side: self.found[side] + found[side] for side in SIDES}

    def steps(self, call: Call, stored: Mapping[Side, int] | None = None) -> Iterator[Call]:
        """The steps of a call, each cut once the one before was joined.

        Parameters
        ----------
        call : Call
            Where `Call.max_pairs` says so, steps find about as many pairs, or those of one row.
        stored : dict of str to int, optional
            Rows of each side that are stored, for `Call.max_pairs`: the more, the more a row may meet.
        """
        if call.max_pairs is None or stored is None:
            yield from self._by_rows(call)
            return
        # About the oldest row of each side that the call's rows may meet.
        oldest = {side: first - stored[side] for side, first in call.first.items()}
        for step in cut_steps(call, self._max_rows):
            yield from self._by_meetings(step, oldest, call.max_pairs)

    def _by_rows(self, call: Call) -> Iterator[Call]:
        if not any(self.found.values()):  # nothing is known yet
            self._rows = self._first_rows
        at, end = dict.fromkeys(SIDES, 0), _lengths(call)
        if self._pairs is None and sum(end.values()) <= self._rows:
            yield call
            return
        while True:
            to, before = _cut_at(call, _ROWS, at, self._rows), sum(self.found.values())
            yield _between(call, at, to)
            rows = sum(to.values()) - sum(at.values())
            if self._pairs is not None and rows:
                wanted = self._pairs * rows / max(sum(self.found.values()) - before, 1)
                self._rows = int(min(max(wanted, self._min_rows), self._max_rows))
            if to == end:
                return
            at = to

    def _by_meetings(self, call: Call, oldest: Mapping[Side, int], max_pairs: int) -> Iterator[Call]:
        """Steps that find about `max_pairs` pairs, or one row's, if rows match as those before did. As long as nothing
        is known, all rows in a window count as matches."""
        met = {side: self._meetings(side, call.batches[side], oldest[OTHER[side]]) for side in SIDES}
        at, end = dict.fromkeys(SIDES, 0), _lengths(call)
        greatest: dict[Side, float] = {}  # selectivity in this call
        while True:
            amounts = {side: self._weighted(side, met[side]) for side in SIDES}
            to = end if _amount(amounts, at, end) <= _REST * max_pairs else _cut_at(call, amounts, at, max_pairs)
            self._expected = {side: amounts[side](to[side]) - amounts[side](at[side]) for side in SIDES}
            before = self.found
            yield _between(call, at, to)
            for side, expected in self._expected.items():
                if to[side] == at[side]:
                    continue
                # One pair more on both keeps a step that meets few rows from saying much.
                growth = (self.found[side] - before[side] + 1) / (expected + 1)
                self._selectivity[side] = min(self._selectivity[side] * max(growth, 1 / _MAX_GROWTH), 1.0)
                greatest[side] = max(greatest.get(side, 0.0), self._selectivity[side])
            if to == end:
                # In a time window the first rows of a call may meet most of what is stored, the last ones little.
                self._selectivity |= greatest
                return
            at = to

    def _weighted(self, side: Side, met: Callable[[int], float]) -> Callable[[int], float]:
        """How many pairs so many rows of a side find."""
        share = self._selectivity[side]
        return lambda count: share * met(count)

    def _meetings(self, side: Side, batch: Batch, oldest: int) -> Callable[[int], float]:
        """How many rows of the other side's window so many rows of a side meet."""
        most = _FAR_ROWS if self._counts is None else self._counts[OTHER[side]]
        if len(batch) and batch.other_position[0] == batch.other_position[-1]:  # as both ascend, all rows meet as many
            each = float(min(int(batch.other_position[0]) - oldest, most))
            return lambda count: each * count
        return _running(np.minimum(batch.other_position - oldest, most).astype(np.float64))


_ROWS: Amounts = dict.fromkeys(SIDES, float)


def _running(counts: np.ndarray) -> Callable[[int], float]:
    """The sum of so many counts, from the first on."""
    sums = np.cumsum(counts)
    return lambda count: float(sums[count - 1]) if count else 0.0


def _lengths(call: Call) -> Sides[int]:
    return {side: len(batch.keys) for side, batch in call.batches.items()}


def _amount(amounts: Amounts, at: Mapping[Side, int], to: Mapping[Side, int]) -> float:
    return sum(amounts[side](to[side]) - amounts[side](at[side]) for side in SIDES)


def _cut(call: Call, amounts: Amounts, most: float) -> Iterator[Call]:
    at, end = dict.fromkeys(SIDES, 0), _lengths(call)
    while True:
        to = _cut_at(call, amounts, at, most)
        yield _between(call, at, to)
        if to == end:
            return
        at = to


def _cut_at(call: Call, amounts: Amounts, at: Sides[int], most: float) -> Sides[int]:
    """How many rows of each side come before the next cut: from the last one, `at`, they amount to at most so much, or
    are those of one place."""

    def before(place: int) -> Sides[int]:
        return {
            side: bisect.bisect_left(range(len(batch)), place, at[side], key=batch.place)
            for side, batch in call.batches.items()
        }

    end = _lengths(call)
    if _amount(amounts, at, end) <= most:
        return end
    low = 1 + min(batch.place(at[side]) for side, batch in call.batches.items() if at[side] < end[side])
    high = 1 + max(batch.place(end[side] - 1) for side, batch in call.batches.items() if end[side])
    while high - low > 1:  # all before `low` is taken, all before `high` is too much
        middle = (low + high) // 2
        low, high = (middle, high) if _amount(amounts, at, before(middle)) <= most else (low, middle)
    return before(low)


def _between(call: Call, at: Sides[int], to: Sides[int]) -> Call:
    """The rows of each side from one place to another, with those around them that can match nothing."""
    if not any(at.values()) and to == _lengths(call):
        return call
    first, last = _rows_before(call, at), _rows_before(call, to)
    return dataclasses.replace(
        call,
        batches={side: call.batches[side].take(slice(at[side], to[side])) for side in SIDES},
        other_position={side: call.other_position[side][first[side] : last[side]] for side in SIDES},
        arrived={side: call.first[side] + last[side] for side in SIDES},
    )


def _rows_before(call: Call, at: Sides[int]) -> Sides[int]:
    """How many rows of a call, whether they can match or not, come before a cut."""
    if not any(at.values()):
        return at
    places = [batch.place(at[side]) for side, batch in call.batches.items() if at[side] < len(batch)]
    if not places:
        return {side: len(rows) for side, rows in call.other_position.items()}

    def place(side: Side, row: int) -> int:
        return call.first[side] + row + int(call.other_position[side][row])

    return {
        side: bisect.bisect_left(range(len(rows)), min(places), key=functools.partial(place, side))
        for side, rows in call.other_position.items()
    }
