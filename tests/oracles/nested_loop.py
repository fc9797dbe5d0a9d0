"""The contract of the join as a nested loop: slow, exact, and short enough to be read against the contract.

It shares nothing with the operator: predicates are plain tuples, arithmetic is Python's own.

A predicate is one of

- ``("band", low, high)``: ``low <= r - l <= high``, None for an open bound;
- ``("compare", op)``: ``l op r`` with op one of ``= == < <= > >= != <>``;
- ``("any", [predicate, ...])``: the union of several over the same pair of columns.
"""

import math
import operator
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
    if left is None or right is None:
        return False
    floating = isinstance(left, float) or isinstance(right, float)
    if floating:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return False
    kind = predicate[0]
    if kind == "any":
        return any(matches(each, left, right) for each in predicate[1])
    if kind == "compare":
        return OPERATORS[predicate[1]](left, right)
    if kind != "band":
        raise ValueError(f"not a predicate: {predicate!r}")
    _, low, high = predicate
    if floating:
        return (low is None or left + float(low) <= right) and (high is None or right <= left + float(high))
    difference = right - left
    low, high = exact_bound(low), exact_bound(high)
    return (low is None or low <= difference) and (high is None or difference <= high)


class NestedLoop:
    """The join by brute force.

    Parameters
    ----------
    predicate
        As in the module's docstring, on ``left_key`` of the left and ``right_key`` of the right rows.
    rows
        ``(n of the left window, m of the right window)`` for count windows: a right row sees the last n left
        rows.
    within
        ``(left time column, right time column, low, high)`` for time windows.
    sequence
        Name of the sequence column, or None: all left rows of a call arrive before all its right rows.
    delays
        ``(left, right)`` watermark delays, None where a side has no watermark. Durations of whole
        milliseconds, as Spark counts them, or int for integer times.
    watermark_policy, initial
        ``"min"`` or ``"max"`` of the sides' watermarks; the watermark before the first call, and of a side without
        rows (in the unit of exact times), None: there is none, and for ``"min"`` none until both sides saw a row.
    lag
        How many calls the late-row filter runs behind; 0: a watermark holds from the next call on.
    """

    def __init__(
        self,
        predicate: tuple,
        left_key: str,
        right_key: str,
        *,
        rows: tuple[int, int] | None = None,
        within: tuple | None = None,
        sequence: str | None = None,
        delays: tuple = (None, None),
        watermark_policy: str = "min",
        initial: int | None = None,
        lag: int = 0,
    ):
        if (rows is None) == (within is None):
            raise ValueError("give either rows or within")
        self.predicate, self.rows, self.within, self.sequence = predicate, rows, within, sequence
        self.keys = {"left": left_key, "right": right_key}
        self.times = {"left": within[0], "right": within[1]} if within else {}
        self.bounds = (exact_bound(within[2]), exact_bound(within[3])) if within else None
        self.delays = {"left": exact_bound(delays[0]), "right": exact_bound(delays[1])}
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
        # What holds now was known lag + 1 calls ago; this call's own rows count from a later call on.
        watermark = self.before = self.watermarks.pop(0)
        result: list[Pair] = []
        for side, key, time in self._arrivals(left, right):
            stream = self.streams[side]
            late = False
            if time is not None and self.delays[side] is not None:
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

    def _arrivals(self, left: pa.Table | None, right: pa.Table | None) -> list[tuple]:
        """``(side, key, time)`` of every row of the call in arrival order."""
        arrivals = []
        for side, table in (("left", left), ("right", right)):
            if table is None:
                continue
            if isinstance(table, pa.RecordBatch):
                table = pa.Table.from_batches([table])
            keys = exact(table[self.keys[side]])
            times = exact(table[self.times[side]]) if self.times else [None] * len(keys)
            order = exact(table[self.sequence]) if self.sequence else [0] * len(keys)
            arrivals += [(at, side, key, time) for at, key, time in zip(order, keys, times, strict=True)]
        if self.sequence and arrivals:
            arrivals.sort(key=lambda row: row[0])  # stable, and the left rows were put in first
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
        return self.bounds[0] <= right.time - left.time <= self.bounds[1]

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
