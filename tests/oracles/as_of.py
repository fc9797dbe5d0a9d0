"""As-of joins of the contract as a loop over all right rows, as slow and as plain as `nested_loop`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from tests.oracles.exact import exact
from tests.oracles.nested_loop import lacks, matches

EQUAL = ("compare", "=")


def distance(one: object, other: object) -> object:
    """Between two times, exact; infinities are at 0 from themselves."""
    if one == other:
        return 0
    if math.inf in (one, other) or -math.inf in (one, other):
        return math.inf
    return abs(Fraction(one) - Fraction(other))


@dataclass
class Row:
    """What is kept of an input row."""

    number: int
    time: object
    by: tuple


class AsOfLoop:
    """An as-of join by brute force.

    Parameters
    ----------
    left_time, right_time
        Time columns.
    by
        Pairs of columns that must be equal.
    direction, tolerance, exact_matches
        As of `AsOf`; the tolerance as an exact number, of nanoseconds for times.
    how
        ``"inner"`` or ``"left"``.
    delays, lag, tick, policy
        Of the watermark, None for the delay of a side without: exact numbers; what the newest time is rounded down to,
        which whole watermarks are multiples of.
    resolution
        The least distance between two times of the columns.
    sequence
        The column that rows of a call are sorted by.
    where
        A side, a column of it, and a function of its exact values: rows for which it is false take no part.
    """

    def __init__(
        self,
        left_time: str,
        right_time: str,
        by: list[tuple[str, str]],
        direction: str,
        tolerance: object,
        exact_matches: bool,
        *,
        how: str = "inner",
        delays: tuple = (None, None),
        lag: int = 0,
        tick: int = 1,
        policy: str = "min",
        resolution: object = 1,
        sequence: str | None = None,
        where: Sequence[tuple[str, str, Callable[[object], bool]]] = (),
    ):
        self.where = where
        self.columns = {"left": (left_time, [a for a, _ in by]), "right": (right_time, [b for _, b in by])}
        self.direction, self.tolerance, self.exact = direction, tolerance, exact_matches
        self.how, self.sequence, self.tick, self.resolution = how, sequence, tick, resolution
        self.delays = {side: delay for side, delay in zip(("left", "right"), delays, strict=True) if delay is not None}
        self.choose = {"min": min, "max": max}[policy]
        self.reached: dict[str, object] = dict.fromkeys(self.delays)
        self.watermarks: list = [None] * (lag + 1)
        self.newest: object = None
        self.arrived = {"left": 0, "right": 0}
        self.late = {"left": 0, "right": 0}
        self.rights: list[Row] = []
        self.waiting: list[Row] = []

    def process(self, pushes: list[tuple[pa.Table | None, pa.Table | None]]) -> list[tuple[int, int | None]]:
        """What comes out of one call, as left and right row numbers, by left row."""
        in_force = self.watermarks.pop(0)
        rows = []
        for side, table in (each for push in pushes for each in zip(("left", "right"), push, strict=True)):
            if table is None or not table.num_rows:
                continue
            time, by = self.columns[side]
            times = exact(table[time])
            keys = list(zip(*(exact(table[name]) for name in by), strict=True)) if by else [()] * len(times)
            order = exact(table[self.sequence]) if self.sequence else [0] * len(times)
            takes = [True] * len(times)
            for of, name, test in self.where:
                if of == side:
                    takes = [each and test(value) for each, value in zip(takes, exact(table[name]), strict=True)]
            rows += zip(order, [side] * len(times), times, keys, takes, strict=True)
        rows.sort(key=lambda row: row[0])
        alone = []
        for _, side, time, by, takes in rows:
            row = Row(self.arrived[side], time, by)
            self.arrived[side] += 1
            if None not in (time, in_force) and side in self.delays and time <= in_force:
                self.late[side] += 1
                continue
            if not takes or lacks(time) or lacks(by):
                if side == "left" and self.how == "left":
                    alone.append((row.number, None))
            elif side == "left":
                self.waiting.append(row)
            else:
                self.rights.append(row)
        for side in self.delays:
            times = [time for _, of, time, *_ in rows if of == side and time is not None]
            if times:
                own = max(times) // self.tick * self.tick - self.delays[side]
                self.reached[side] = own if self.reached[side] is None else max(self.reached[side], own)
        known = [value for value in self.reached.values() if value is not None]
        if known and (len(known) == len(self.reached) or self.choose is max):
            own = self.choose(known)
            self.newest = own if self.newest is None else max(self.newest, own)
        self.watermarks.append(self.newest)
        return sorted(alone + self._decided(self.watermarks[0]))

    def finish(self) -> list[tuple[int, int | None]]:
        """What comes out at the end of the streams."""
        return self._decided(math.inf)

    def _decided(self, watermark: object) -> list[tuple[int, int | None]]:
        out, still = [], []
        for row in self.waiting:
            best = self.nearest(row)
            due = None if "right" not in self.delays else self._due(row, best)
            if watermark == math.inf or (watermark is not None and due is not None and watermark >= due):
                if best is not None or self.how == "left":
                    out.append((row.number, None if best is None else best.number))
            else:
                still.append(row)
        self.waiting = still
        return out

    def _due(self, row: Row, best: Row | None) -> object:
        """The watermark at which no better row can come; None: there is none."""
        if self.direction == "backward":
            return row.time if self.exact else row.time - self.resolution
        away = None if best is None else distance(row.time, best.time)
        if self.direction == "forward":
            away = None if away is None else away - self.resolution
        ends = [end for end in (away, self.tolerance) if end is not None]
        return row.time + min(ends) if ends else None

    def nearest(self, left: Row) -> Row | None:
        """The right row that a left row meets, of those there are."""
        best = None
        for at, row in enumerate(self.rights):
            if not all(matches(EQUAL, a, b) for a, b in zip(left.by, row.by, strict=True)):
                continue
            if row.time == left.time and not self.exact:
                continue
            if (self.direction == "backward" and row.time > left.time) or (
                self.direction == "forward" and row.time < left.time
            ):
                continue
            away = distance(left.time, row.time)
            if self.tolerance is not None and away > self.tolerance:
                continue
            back = row.time <= left.time and self.direction != "forward"
            # The nearest; of those before and after the one before; of infinite distances the nearest in order; of
            # one time the last to arrive looking back, the first looking ahead.
            rank = (away, not back, -row.time if back else row.time, -at if back else at)
            if best is None or rank < best[0]:
                best = rank, row
        return None if best is None else best[1]
