"""Models of SplitJoin's blocks, and joins by nested loop to compare with."""

from __future__ import annotations

import dataclasses
from typing import Any

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    ROW_FLAGS,
    JoinSettings,
    Order,
    SplitJoinParameters,
    row_fields,
    row_words,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinRow:
    """As `muntin.hw.splitjoin.layouts` has it."""

    side: int
    row: int
    key: int = 0
    time: int = 0
    null: bool = False
    mark: bool = False
    again: bool = False
    more: bool = False
    lower: int = 0
    upper: int = 0
    key_2: int = 0
    lower_2: int = 0
    upper_2: int = 0

    def meets(self, stored: JoinRow) -> bool:
        """Whether a stored row's second key lies between the bounds for it; where there is none, all are 0."""
        return self.lower_2 <= stored.key_2 <= self.upper_2


@dataclasses.dataclass(frozen=True, order=True)
class JoinResult:
    """A pair where `row` is a number; else a punctuation, which ends its probing row where `last` is set."""

    probe: int
    row: int | None = None
    last: bool = False


def cut_rows(content: bytes, parameters: SplitJoinParameters) -> list[JoinRow]:
    """The rows that lie in some bytes of memory."""
    size = 4 * row_words(parameters)
    made = []
    for at in range(0, len(content), size):
        words = int.from_bytes(content[at : at + size], "little")
        values: dict[str, Any] = {
            name: words >> 32 * first & ((1 << 32 * count) - 1)
            for name, (first, count) in row_fields(parameters).items()
        }
        flags = values.pop("flags")
        values["row"] &= (1 << NUMBER_BITS) - 1
        made.append(
            JoinRow(**values, **{flag.name: bool(flags & flag.mask) for flag in ROW_FLAGS} | {"side": flags & 1})
        )
    return made


def pack_results(found: list[tuple[int, JoinResult]]) -> bytes:
    """Results as they lie in memory, each with the side of its probing row."""
    made = b""
    for side, result in found:
        words = (
            result.probe | side << NUMBER_BITS,
            1 << NUMBER_BITS | int(result.last) if result.row is None else result.row,
        )
        made += b"".join(word.to_bytes(RESULT_BYTES // 2, "little") for word in words)
    return made


def join_oracle(rows: list[JoinRow], settings: JoinSettings) -> list[set[tuple[int, int]]]:
    """The pairs (probing row, stored row) of rows that arrive in this order, by the side of the probing row.

    A row joins the last rows of the other stream's window that arrived before it; in a time window, every row
    whose time fits, whenever it arrived.
    """
    pairs: list[set[tuple[int, int]]] = [set(), set()]
    rows = [row for row in rows if not row.mark]
    for at, row in enumerate(rows):
        others = [other for other in rows[:at] if other.side != row.side and not other.again]
        if not settings.timed:
            window = settings.windows[1 - row.side]
            others = others[len(others) - window :] if window < len(others) else others
        for other in others:
            left, right = (row, other) if row.side == 0 else (other, row)
            if settings.own_bounds:
                matches = row.lower <= other.key <= row.upper
            else:
                matches = settings.low <= right.key - left.key <= settings.high
            on_time = not settings.timed or settings.time_low <= right.time - left.time <= settings.time_high
            if not row.null and not other.null and on_time and matches != settings.complement and row.meets(other):
                pairs[row.side].add((row.row, other.row))
    return pairs


def distribute(rows: list[JoinRow], cores: int) -> list[list[JoinRow]]:
    """What each of the cores gets: every row, in order."""
    return [list(rows) for _ in range(cores)]


class JoinCore:
    """Two regions, each of which sees every row.

    Parameters
    ----------
    settings : JoinSettings
    index, cores, rows : int
        As of `Region`.
    """

    def __init__(self, settings: JoinSettings, *, index: int, cores: int, rows: int):
        self.regions = [Region(settings, index=index, cores=cores, rows=rows, side=1 - side) for side in (0, 1)]

    def take(self, row: JoinRow) -> list[JoinResult]:
        """The results of a row, in order."""
        return self.regions[row.side].take(row) + self.regions[1 - row.side].take(row)

    @property
    def overflow(self) -> bool:
        """Whether a time window did not fit."""
        return any(region.overflow for region in self.regions)


def merge_punctuated(inputs: list[list[JoinResult]]) -> list[JoinResult]:
    """Results of several inputs with the same punctuation as one, each input's pairs before the next one's.

    Without order, pairs between two punctuations may come out in any order that keeps each input's own.

    Raises
    ------
    ValueError
        If the punctuations differ.
    """
    merged = []
    at = [0] * len(inputs)
    while True:
        for number, results in enumerate(inputs):
            while at[number] < len(results) and results[at[number]].row is not None:
                merged.append(results[at[number]])
                at[number] += 1
        stars = {results[place] if place < len(results) else None for results, place in zip(inputs, at, strict=True)}
        if len(stars) > 1:
            raise ValueError(f"inputs must have the same punctuation, not {stars}")
        star = stars.pop()
        if star is None:
            return merged
        merged.append(star)
        at = [place + 1 for place in at]


def combine_ordered(left: list[JoinResult], right: list[JoinResult], sides: list[int]) -> list[tuple[int, JoinResult]]:
    """Both sides' results, each with its side, in order of arrival.

    Parameters
    ----------
    left, right : list of JoinResult
        With a punctuation behind each probing row.
    sides : list of int
        The stream of each row that arrived.
    """
    made = []
    inputs = iter(left), iter(right)
    for side in sides:
        for result in inputs[side]:
            made.append((side, result))
            if result.last:
                break
    return made


def combine(left: list[JoinResult], right: list[JoinResult]) -> list[tuple[int, JoinResult]]:
    """Both sides' results in turn, each with its side, when all are here from the start."""
    made = []
    sides = [list(left), list(right)]
    turn = 0
    while any(sides):
        side = turn if sides[turn] else 1 - turn
        made.append((side, sides[side].pop(0)))
        turn = 1 - side
    return made


class SplitJoin:
    """Join cores behind a distributor, and their results merged, each side's apart.

    Parameters
    ----------
    settings : JoinSettings
    cores, rows : int
        J, and the rows of one stream that each core holds.
    """

    def __init__(self, settings: JoinSettings, *, cores: int, rows: int):
        self.cores = [JoinCore(settings, index=index, cores=cores, rows=rows) for index in range(cores)]

    def take(self, rows: list[JoinRow]) -> tuple[list[JoinResult], list[JoinResult]]:
        """The results of some rows: those of probing rows of the left stream, and of the right one."""
        found: tuple[list[list[JoinResult]], ...] = ([], [])
        for core, stream in zip(self.cores, distribute(rows, len(self.cores)), strict=True):
            sides: tuple[list[JoinResult], list[JoinResult]] = ([], [])
            for row in stream:
                sides[row.side].extend(core.take(row))
            for side in (0, 1):
                found[side].append(sides[side])
        return merge_punctuated(found[0]), merge_punctuated(found[1])

    @property
    def overflow(self) -> bool:
        """Whether a time window did not fit."""
        return any(core.overflow for core in self.cores)


class Region:
    """Stores every J-th row of one stream, and compares the rows of the other one with those in the window.

    Row number n of the stored stream is kept by core ``n % J``, in block ``n // J``.

    Parameters
    ----------
    settings : JoinSettings
    index, cores, rows : int
        The core, how many there are, and how many rows each holds.
    side : int
        The stream whose rows are stored.

    Attributes
    ----------
    overflow : bool
        Whether a row was dropped from a time window before its time.
    """

    def __init__(self, settings: JoinSettings, *, index: int, cores: int, rows: int, side: int):
        self.settings = settings
        self.index = index
        self.cores = cores
        self.rows = rows
        self.side = side
        self.arrived = 0
        self.stored: list[JoinRow] = []
        self.oldest = 0
        self.overflow = False

    def take(self, row: JoinRow) -> list[JoinResult]:
        """The results of a row, in order; none where it is of the stored stream."""
        if row.side != self.side:
            return self._probe(row)
        if not row.mark and not row.again:
            if self.arrived % self.cores == self.index:
                if self.settings.timed and len(self.stored) - self.oldest >= self.rows:
                    self.overflow = True
                    self.oldest += 1
                self.stored.append(row)
            self.arrived += 1
        return []

    def _probe(self, row: JoinRow) -> list[JoinResult]:
        now = self.settings
        window = self.cores * self.rows if now.timed else now.windows[self.side]
        first = max(self.arrived - window, 0)
        base, end = first // self.cores, -(-self.arrived // self.cores)
        found = []
        if not row.null:
            for block in range(base, end):
                number = block * self.cores + self.index
                if first <= number < self.arrived and (not now.timed or block >= self.oldest) and not row.mark:
                    stored = self.stored[block]
                    if self._matches(row, stored):
                        found.append(JoinResult(row.row, stored.row))
                inside = block + 1 < end and (block + 1) % (1 << now.every) == 0
                if now.order == Order.INNER and inside and not row.mark:
                    found.append(JoinResult(row.row))
        if now.timed:
            self._expire(row)
        more = row.more and now.order == Order.OUTER
        if now.order != Order.NONE and not row.mark and not more:
            found.append(JoinResult(row.row, last=True))
        return found

    def _difference(self, probing: int, stored: int) -> int:
        """Right minus left."""
        return stored - probing if self.side else probing - stored

    def _matches(self, probing: JoinRow, stored: JoinRow) -> bool:
        now = self.settings
        if stored.null:
            return False
        if now.timed and not now.time_low <= self._difference(probing.time, stored.time) <= now.time_high:
            return False
        if now.own_bounds:
            within = probing.lower <= stored.key <= probing.upper
        else:
            within = now.low <= self._difference(probing.key, stored.key) <= now.high
        return within != now.complement and probing.meets(stored)

    def _expire(self, row: JoinRow) -> None:
        now = self.settings
        since = row.time if row.mark else max(row.time - now.late[row.side], 0)
        horizon = since + now.time_low if self.side else since - now.time_high
        while self.oldest < len(self.stored) and self.stored[self.oldest].time < horizon:
            self.oldest += 1
