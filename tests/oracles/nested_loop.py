"""The contract of the join as a nested loop: slow, exact, and short enough to be read against the contract.

It shares nothing with the operator: predicates are plain tuples, arithmetic is Python's own.

A predicate is one of

- ``("band", low, high)``: ``low <= r - l <= high``, None for an open bound; a fourth item ``"both"``, ``"left"``,
  ``"right"`` or ``"neither"`` says which ends belong to it;
- ``("sum", low, high)``: ``low <= r + l <= high``, None for an open bound;
- ``("compare", op)``: ``l op r`` with op one of ``= == < <= > >= != <>``;
- ``("any", [predicate, ...])``: the union of several over the same pair of columns;
- ``("all", [part, ...])`` over several columns, whose parts are ``("pair", i, j, predicate)`` on columns i and j of
  the left and right keys, ``("same", i, j)``, where NULL equals NULL, ``("distinct", i, j)``, its opposite,
  ``("same-or", i, j, predicate)``, either of two, ``("where", side, i, test)``, a Python function of one value that is
  there (``"where-null"``: or NULL; ``"where-any"``: of a value, NULL as None and NaN too), and ``("never",)``. Without
  parts every pair qualifies.

Structs are tuples, compared field by field: equal if all fields are, not equal if all are there and one is not.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from tests.oracles.exact import exact, exact_bound

OPERATORS = {
    "=": operator.eq,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
    "<>": operator.ne,
}


class Pair(NamedTuple):
    """One result of the join: the row numbers of both streams, and where it is due."""

    left: int
    right: int
    call: int
    side: str
    """``"left"`` or ``"right"``: the side of the row that arrived later (the probing row)."""


@dataclass
class Row:
    """What the oracle keeps of an input row."""

    number: int
    key: object
    time: int | None
    position: int
    late: bool
    matched: bool = False
    out: bool = False


@dataclass
class Stream:
    """One side: its rows in arrival order, and the largest event time seen."""

    rows: list[Row] = field(default_factory=list)
    max_time: int | None = None
    late: int = 0


def matches(predicate: tuple, left: object, right: object) -> bool:
    """Whether one pair of keys satisfies the predicate.

    Where either key is a float both are compared as float64 and a bound is ``float64(l) + float64(bound)``;
    everything else is exact. NULL and NaN match nothing, not even ``!=``.
    """
    if predicate[0] == "all":
        return all(holds(part, left, right) for part in predicate[1])
    if left is None or right is None:
        return False
    if predicate[0] == "any":
        return any(matches(each, left, right) for each in predicate[1])
    if isinstance(left, tuple) and isinstance(right, tuple):
        equal = [matches(("compare", "="), a, b) for a, b in zip(left, right, strict=True)]
        return all(equal) if OPERATORS[predicate[1]] is operator.eq else not (lacks(left) or lacks(right) or all(equal))
    floating = isinstance(left, float) or isinstance(right, float)
    if floating:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return False
    kind = predicate[0]
    if kind == "compare":
        return OPERATORS[predicate[1]](left, right)
    if kind not in ("band", "sum"):
        raise ValueError(f"not a predicate: {predicate!r}")
    _, low, high, *closed = predicate
    above = operator.lt if closed and closed[0] in ("right", "neither") else operator.le
    below = operator.lt if closed and closed[0] in ("left", "neither") else operator.le
    if floating:
        return (low is None or above(left + float(low), right)) and (high is None or below(right, left + float(high)))
    difference = right - left if kind == "band" else right + left
    low, high = exact_bound(low), exact_bound(high)
    return (low is None or above(low, difference)) and (high is None or below(difference, high))


def holds(part: tuple, left: tuple, right: tuple) -> bool:
    """Whether one pair of rows, as tuples of keys, satisfies one part of a conjunction."""
    if part[0] == "never":
        return False
    if part[0].startswith("where"):
        value = (left if part[1] == "left" else right)[part[2]]
        if part[0] == "where-any":
            return part[3](value)
        if part[0] == "where-null" and value is None:
            return True
        return value is not None and value == value and part[3](value)
    one, other = left[part[1]], right[part[2]]
    if part[0] in ("same", "same-or") and same(one, other):
        return True
    if part[0] in ("same", "distinct"):
        return part[0] == "distinct" and not same(one, other)
    return matches(part[3], one, other)


def same(one: object, other: object) -> bool:
    """Whether two keys are equal, where NULL equals NULL."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    return one is other is None or matches(("compare", "="), one, other)


def lacks(value: object, *, null: bool = True) -> bool:
    """Whether a key is, or has within it, NaN, or NULL where that counts."""
    if isinstance(value, tuple):
        return any(lacks(each, null=null) for each in value)
    return (null and value is None) or value != value


def hopeless(part: tuple, side: str, key: tuple) -> bool:
    """Whether a row, as a tuple of keys, satisfies one part of a conjunction with no row of the other side."""
    if part[0] == "never":
        return True
    if part[0].startswith("where"):
        return part[1] == side and not holds(part, key, key)
    value = key[part[1] if side == "left" else part[2]]
    return part[0] != "distinct" and lacks(value, null=part[0] not in ("same", "same-or"))


class NestedLoop:
    """The join by brute force.

    Parameters
    ----------
    predicate
        As in the module's docstring, on ``left_key`` of the left and ``right_key`` of the right rows: a column, or for
        a conjunction several.
    rows
        ``(n of the left window, m of the right window)`` for count windows: a right row sees the last n left
        rows.
    within
        ``(left time column, right time column, low, high)`` for time windows; None for an open end.
    sequence
        Name of the sequence column, or None: all left rows of a call arrive before all its right rows.
    delays
        ``(left, right)`` watermark delays, None where a side has no watermark. Durations of whole
        milliseconds, as Spark counts them, or int for integer times.
    watermark_policy, initial
        ``"min"`` or ``"max"`` of the sides' watermarks; the watermark before the first call, and of a side without
        rows (in the unit of exact times), None: there is none, and for ``"min"`` none until both sides saw a row.
    self_join, itself
        One stream, `left` of each call, in both roles: a row meets the earlier rows of the window of either role, and
        with `itself` itself.
    how
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` or ``"left_anti"``, for `results` and
        `finish`.
    lag
        How many calls the late-row filter runs behind; 0: a watermark holds from the next call on.
    """

    def __init__(
        self,
        predicate: tuple,
        left_key: str | list[str],
        right_key: str | list[str],
        *,
        rows: tuple[int, int] | None = None,
        within: tuple | None = None,
        sequence: str | None = None,
        delays: tuple = (None, None),
        watermark_policy: str = "min",
        initial: int | None = None,
        lag: int = 0,
        self_join: bool = False,
        itself: bool = False,
        how: str = "inner",
    ):
        if rows is not None and within is not None:
            raise ValueError("give rows or within, or neither: every row is kept")
        self.self_join, self.itself, self.how = self_join, itself, how
        self.predicate, self.rows, self.within, self.sequence = predicate, rows, within, sequence
        self.keys = {"left": left_key, "right": right_key}
        self.times = {"left": within[0], "right": within[1]} if within else {}
        self.bounds = (exact_bound(within[2]), exact_bound(within[3])) if within else None
        self.delays = {"left": exact_bound(delays[0]), "right": exact_bound(delays[1])}
        # Rows that have equal times where they meet are late by one watermark, whichever side has it.
        shared = self.bounds == (0, 0) and any(delay is not None for delay in self.delays.values())
        self.judged = [side for side, delay in self.delays.items() if shared or delay is not None]
        # Spark rounds the newest event time down to milliseconds.
        self.tick = 1 if all(isinstance(delay, int | None) for delay in delays) else 10**6
        self.streams = {"left": Stream(), "right": Stream()}
        self.choose = {"min": min, "max": max}[watermark_policy]
        self.initial = initial
        self.watermarks: list[int | None] = [initial] * (lag + 1)
        self.position = 0
        self.call = 0
        self.last_sequence: int | None = None

    def process(self, left: pa.Table | None, right: pa.Table | None) -> list[Pair]:
        """One call; the pairs it must return, ordered by probing row, then by stored row."""
        return self.process_pushes([(left, right)])

    def process_pushes(self, pushes: list[tuple[pa.Table | None, pa.Table | None]]) -> list[Pair]:
        """One call of rows that arrive in several pushes, as `process`."""
        # What holds now was known lag + 1 calls ago; this call's own rows count from a later call on.
        watermark = self.before = self.watermarks.pop(0)
        result: list[Pair] = []
        if self.self_join:
            return self._process_self([left for left, _ in pushes], watermark)
        for side, key, time in self._arrivals(pushes):
            stream = self.streams[side]
            late = False
            if time is not None and side in self.judged:
                late = watermark is not None and time <= watermark
                stream.max_time = time if stream.max_time is None else max(stream.max_time, time)
            row = Row(len(stream.rows), key, time, self.position, late)
            self.position += 1
            stream.rows.append(row)
            if late:
                stream.late += 1
                continue
            other = "right" if side == "left" else "left"
            for stored in self._window(other):
                first, second = (row, stored) if side == "left" else (stored, row)
                if self._in_time(first, second) and matches(self.predicate, first.key, second.key):
                    result.append(Pair(first.number, second.number, self.call, side))
        self.watermarks.append(self._watermark())
        self.call += 1
        return result

    def results(self, pairs: list[Pair]) -> list[tuple[int | None, int | None]]:
        """What comes out of the call that `process` gave these pairs for, as left and right row numbers.

        In the order of the pairs, then rows that can match nothing any more, in arrival order, with None for the other
        side. Semi and anti joins have left rows alone.
        """
        found = []
        for pair in pairs:
            left, right = self.streams["left"].rows[pair.left], self.streams["right"].rows[pair.right]
            if self.how == "left_semi":
                found += [] if left.matched else [(pair.left, None)]
            elif self.how not in ("left_anti", "right_anti"):
                found.append((pair.left, pair.right))
            left.matched = right.matched = True
        return found + self._unmatched(self._alone)

    def finish(self) -> list[tuple[int | None, int | None]]:
        """What comes out at the end of the streams, as `results`."""
        return self._unmatched(lambda side, row: True)

    def waiting(self, side: str) -> int:
        """Rows of a side that may still match and have not."""
        return sum(not (row.matched or row.late or self._alone(side, row)) for row in self.streams[side].rows)

    def _unmatched(self, due: Callable[[str, Row], bool]) -> list[tuple[int | None, int | None]]:
        sides = {"left": ["left"], "left_anti": ["left"], "right": ["right"], "right_anti": ["right"]}
        sides["full"] = ["left", "right"]
        rows = [
            (row.position, side, row)
            for side in sides.get(self.how, [])
            for row in self.streams[side].rows
            if not (row.matched or row.late or row.out) and due(side, row)
        ]
        for _, _, row in rows:
            row.out = True
        rows.sort(key=lambda entry: entry[:2])
        return [(row.number, None) if side == "left" else (None, row.number) for _, side, row in rows]

    def _alone(self, side: str, row: Row) -> bool:
        """Whether no row that comes after this call can match a row."""
        if row.key is None or (isinstance(row.key, float) and math.isnan(row.key)):
            return True
        if self.predicate[0] == "all" and any(hopeless(part, side, row.key) for part in self.predicate[1]):
            return True
        if self.rows is not None:
            # Any later row of the other stream sees the last rows of this one, so many as its window has.
            later = len(self.streams[side].rows) - 1 - row.number
            return later >= self.rows[0 if side == "left" else 1]
        if self.bounds is None:
            return False
        if row.time is None:
            return True
        other = "right" if side == "left" else "left"
        watermark = self.watermarks[0]  # what is not after it is late in the next call
        reach = self.bounds[1] if side == "left" else self.bounds[0]
        if other not in self.judged or watermark is None or reach is None:
            return False
        return (row.time + reach if side == "left" else row.time - reach) <= watermark

    def _process_self(self, tables: list[pa.Table | None], watermark: int | None) -> list[Pair]:
        """One call of a self join, in the same order."""
        result: list[Pair] = []
        # The stream in each role: both have the same rows in the same order, and their own keys.
        arrivals = self._arrivals([(table, table) for table in tables])
        roles = [[row for row in arrivals if row[0] == side] for side in ("left", "right")]
        for pair in zip(*roles, strict=True):
            new = {}
            for side, key, time in pair:
                stream = self.streams[side]
                late = watermark is not None and time is not None and time <= watermark
                if time is not None:
                    stream.max_time = time if stream.max_time is None else max(stream.max_time, time)
                stream.late += late
                new[side] = Row(len(stream.rows), key, time, self.position, late)
            self.position += 1
            found = []
            if not new["left"].late:
                met = [(stored.number, "left", new["left"], stored) for stored in self._window("right")]
                met += [(stored.number, "right", stored, new["right"]) for stored in self._window("left")]
                if self.itself:
                    met.append((new["left"].number, "right", new["left"], new["right"]))
                for number, side, one, other in met:
                    if self._in_time(one, other) and matches(self.predicate, one.key, other.key):
                        found.append((number, side, Pair(one.number, other.number, self.call, side)))
            result += [pair for _, _, pair in sorted(found)]
            for side, row in new.items():
                self.streams[side].rows.append(row)
        self.watermarks.append(self._watermark())
        self.call += 1
        return result

    def _arrivals(self, pushes: list[tuple[pa.Table | None, pa.Table | None]]) -> list[tuple]:
        """``(side, key, time)`` of every row of the call in arrival order."""
        arrivals = []
        for side, table in (each for push in pushes for each in zip(("left", "right"), push, strict=True)):
            if table is None:
                continue
            if isinstance(table, pa.RecordBatch):
                table = pa.Table.from_batches([table])
            names = self.keys[side]
            if isinstance(names, str):
                keys: list = exact(table[names])
            else:
                columns = [exact(table[name]) for name in names]
                keys = [tuple(column[row] for column in columns) for row in range(table.num_rows)]
            times = exact(table[self.times[side]]) if self.times else [None] * len(keys)
            order = exact(table[self.sequence]) if self.sequence else [0] * len(keys)
            arrivals += [(at, side, key, time) for at, key, time in zip(order, keys, times, strict=True)]
        if self.sequence and arrivals:
            arrivals.sort(key=lambda row: row[0])  # stable, and the left rows of a push were put in first
            if self.last_sequence is not None and arrivals[0][0] < self.last_sequence:
                raise ValueError("the sequence goes back: the operator has to refuse this call")
            self.last_sequence = arrivals[-1][0]
        return [row[1:] for row in arrivals]

    def _window(self, side: str) -> list[Row]:
        """The rows of one stream that a row of the other arriving now may join."""
        rows = self.streams[side].rows
        if self.rows is not None:
            # Every row takes a place in a count window, also one whose key is NULL.
            return rows[-self.rows[0 if side == "left" else 1] :]
        return [row for row in rows if not row.late]

    def _in_time(self, left: Row, right: Row) -> bool:
        if self.bounds is None:
            return True
        if left.time is None or right.time is None:
            return False
        low, high = self.bounds
        apart = right.time - left.time
        return (low is None or low <= apart) and (high is None or apart <= high)

    def _watermark(self) -> int | None:
        """The watermark after a call; it never goes back."""
        reached = []
        for side, delay in self.delays.items():
            newest = self.streams[side].max_time
            if delay is not None:
                reached.append(self.initial if newest is None else newest // self.tick * self.tick - delay)
        known = [value for value in reached if value is not None]
        before = self.watermarks[-1] if self.watermarks else self.before
        if not known or (self.choose is min and len(known) < len(reached)):
            return before
        now = self.choose(known)
        return now if before is None else max(before, now)
