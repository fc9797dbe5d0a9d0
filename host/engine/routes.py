"""Where the rows of a stream go whose partitions follow the data, and how that changes while the stream runs.

Rows lie in *bins*: of a hash of what is compared for equality, or of cells on an axis. A *table* tells the partition of
each bin, or that its rows are spread: those of one side by their content, and each row of the other side goes to all
partitions. A pair is found in the partition of its *divided* row, which is in one partition; *copied* rows are in each
that may hold divided rows they meet.

No row moves. Before a new table places divided rows, copied rows go by both tables for as long as the window holds a
row from before; then divided rows change; and copied rows go by both again until the window holds no divided row that
the old table has placed. So each divided row finds all it can match in its own partition at any time. The next change
waits until the window holds no copy of this one, as the sides of a bin may change places in it. The steps follow from
what all partitions know of each call, hence are the same in all.

Source: that splitters change for new rows only, so that none migrates, is the design of Nereus and NM-Join. The waits
are ours, for senders that know no other row.
"""

from __future__ import annotations

import base64
import dataclasses
import zlib
from typing import Any

import numpy as np

from muntin.host.engine import balance
from muntin.host.errors import ProtocolError
from muntin.host.sides import SIDES, Sides

DIVIDED, COPIED = -1, -2
"""In a table: the rows of a bin are spread, those of the divided side by content; or those of the copied side, and the
divided side's go everywhere."""
BINS = 1024
"""At least so many, and a multiple of the partitions."""
BETTER = 0.9
"""A new table must have had less than so much of the old one's greatest share, in rows that it was not made of."""
MIN_ROWS = 32
"""For each partition, of a call that tables are judged by."""


def bins_of(partitions: int) -> int:
    """How many bins there are for so many partitions."""
    return -(-BINS // partitions) * partitions


def no_counts(partitions: int) -> np.ndarray:
    """Rows of each bin, divided and copied ones, before any; int64, shape (2, bins)."""
    return np.zeros((2, bins_of(partitions)), np.int64)


def even_table(partitions: int) -> np.ndarray:
    """The table before anything is known: bins in turn, in each round in another order; int16, shape (bins,)."""
    bins = np.arange(bins_of(partitions))
    rounds = bins // partitions
    return ((bins % partitions + rounds % partitions + rounds // partitions % partitions) % partitions).astype(np.int16)


@dataclasses.dataclass(frozen=True, eq=False)
class RoutingTable:
    """Where the rows of a call go.

    Attributes
    ----------
    epoch : int
        How many changes came before.
    table : ndarray of int16, shape (bins,)
        Of each bin the partition of its divided rows, `DIVIDED` or `COPIED`.
    also : ndarray of int16, shape (bins,), or None
        Another table by which copied rows go too.
    """

    epoch: int
    table: np.ndarray
    also: np.ndarray | None = None

    @classmethod
    def first(cls, partitions: int) -> RoutingTable:
        """Those of a stream of which nothing is known."""
        return cls(0, even_table(partitions))

    def to_wire(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "epoch": self.epoch,
            "table": packed(self.table),
            "also": None if self.also is None else packed(self.also),
        }

    @classmethod
    def from_wire(cls, values: dict[str, Any]) -> RoutingTable:
        """What `to_wire` wrote."""
        also = values["also"]
        return cls(
            values["epoch"],
            unpacked(values["table"]).astype(np.int16),
            None if also is None else unpacked(also).astype(np.int16),
        )

    @property
    def swapped(self) -> np.ndarray:
        """Bins in which the other side is the divided one; bool, shape (bins,)."""
        swapped = self.table == COPIED
        return swapped if self.also is None else swapped | (self.also == COPIED)

    def masks(self, bins: np.ndarray, content: np.ndarray, *, divided: bool, partitions: int) -> np.ndarray:
        """Which partitions rows of a side go to that have one bin each.

        Parameters
        ----------
        bins : ndarray of int, shape (n,)
        content : ndarray of int32, shape (n,)
            The partitions that spread rows have by their content.
        divided : bool
            Whether the rows are those of the divided side.

        Returns
        -------
        ndarray of bool, shape (partitions, n)
        """
        found = np.zeros((partitions, len(bins)), np.bool_)
        every = np.arange(len(bins))
        swapped = self.swapped[bins]
        own = ~swapped if divided else swapped  # rows that are in one partition
        spread = DIVIDED if divided else COPIED
        for table in (self.table, self.also):
            if table is None:
                continue
            to = table[bins]
            one = to >= 0
            at = np.where(one, to, content)
            placed = one | (to == spread)
            if table is not self.table:
                placed &= ~own
            found[at[placed], every[placed]] = True
            found[:, ~placed & ~own] = True
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class BinHistogram:
    """How many rows of a call lie in each bin, and by which routes they came.

    Attributes
    ----------
    epoch : int
        Of the routes.
    partitions : int
    rows : dict of str to ndarray of int64, shape (bins,)
        "divided", and "copied" where these have one bin each; with both the partitions are by equality.
    greatest : dict of str to int
        The greatest time of each side that has any.
    swappable : bool
        A bin's divided and copied rows may change places.
    """

    epoch: int
    partitions: int
    rows: dict[str, np.ndarray]
    greatest: Sides[int]
    swappable: bool

    def to_wire(self) -> dict[str, Any]:
        """JSON-able."""
        rows = {role: packed(counts) for role, counts in self.rows.items()}
        return {**vars(self), "rows": rows}

    @classmethod
    def from_wire(cls, values: dict[str, Any]) -> BinHistogram:
        """What `to_wire` wrote. Raises ValueError, TypeError, KeyError where it did not."""
        rows = {role: unpacked(text) for role, text in values["rows"].items()}
        if {len(counts) for counts in rows.values()} != {bins_of(values["partitions"])}:
            raise ValueError(f"{values['partitions']} partitions have {bins_of(values['partitions'])} bins")
        return cls(**{**values, "rows": rows})

    @classmethod
    def total(cls, parts: list[BinHistogram]) -> BinHistogram:
        """Of all senders together.

        Raises
        ------
        ProtocolError
            They had different routes.
        """
        first = parts[0]
        if any((part.epoch, part.partitions) != (first.epoch, first.partitions) for part in parts):
            epochs = sorted({part.epoch for part in parts})
            raise ProtocolError(f"the rows of one batch were placed by routes of different epochs, {epochs}")
        greatest: Sides[int] = {}
        for part in parts:
            for side, time in part.greatest.items():
                greatest[side] = max(time, greatest.get(side, time))
        rows = {role: np.sum([part.rows[role] for part in parts], axis=0) for role in first.rows}
        return dataclasses.replace(first, rows=rows, greatest=greatest)

    def of(self, table: np.ndarray) -> np.ndarray:
        """Rows that each partition would have by a table; float64, shape (partitions,)."""
        divided, copied = self._roles()
        own, other = np.where(table == COPIED, copied, divided), np.where(table == COPIED, divided, copied)
        one = table >= 0
        loads = np.bincount(table[one], (divided + copied)[one], self.partitions)
        return loads + own[~one].sum() / self.partitions + other[~one].sum()

    def unevenness(self, table: np.ndarray) -> float:
        """The most rows of a partition by a table, over the mean."""
        return balance.unevenness(self.of(table))

    def _roles(self) -> tuple[np.ndarray, np.ndarray]:
        divided = self.rows["divided"]
        return divided, self.rows.get("copied", np.zeros_like(divided))

    def cold(self, table: np.ndarray) -> np.ndarray:
        """Bins that are spread and no longer heavy; bool, shape (bins,)."""
        rows = np.sum(self._roles(), axis=0)
        return (table < 0) & balance.cold(rows, rows.sum(), self.partitions)

    def better(self, table: np.ndarray) -> np.ndarray:
        """A table that divides these rows more evenly, with few changes: heavy bins are spread, those that are no
        longer heavy are not, and bins move from the partition with the most rows to that with the fewest."""
        table = table.copy()
        divided, copied = self._roles()
        rows = divided + copied
        loads = self.of(table)
        for at in np.flatnonzero(self.cold(table)):
            table[at] = int(np.argmin(loads))
            loads[table[at]] += rows[at]
        for at in np.flatnonzero((table >= 0) & balance.heavy(rows, rows.sum(), self.partitions)):
            swap = self.swappable and copied[at] > divided[at]
            spread = copied[at] if swap else divided[at]
            if spread * (1 - 1 / self.partitions) >= rows[at] / 4:  # else as many rows are copied as before
                table[at] = COPIED if swap else DIVIDED
        loads = self.of(table)
        for _ in range(len(table)):
            most, fewest = int(np.argmax(loads)), int(np.argmin(loads))
            if loads[most] <= (1 + (balance.UNEVEN - 1) / 2) * loads.mean():
                break
            own = np.flatnonzero(table == most)
            fitting = own[(rows[own] > 0) & (rows[own] < loads[most] - loads[fewest])]
            if not len(fitting):
                break
            # The bin that comes nearest to half of what parts them.
            at = fitting[np.argmin(np.abs(rows[fitting] - (loads[most] - loads[fewest]) / 2))]
            table[at] = fewest
            loads[most] -= rows[at]
            loads[fewest] += rows[at]
        return table


class RoutePlanner:
    """The routes of a stream, as they follow from its calls.

    Parameters
    ----------
    windows : dict of str to int, or None
        Rows of the count windows; None: they are time windows.
    """

    def __init__(self, windows: Sides[int] | None):
        self._windows = windows
        self._routes: RoutingTable | None = None
        self._candidate: np.ndarray | None = None
        self._settling = False  # divided rows have changed
        self._mark: Sides[int] = {}  # rows before the last change: the next number, or the greatest time
        self._greatest: Sides[int] = {}
        self._useless: Sides[int | None] = dict.fromkeys(SIDES)

    def routes(self, partitions: int) -> RoutingTable:
        """Of the next call."""
        return self._routes or RoutingTable.first(partitions)

    def advance(self, loads: BinHistogram, arrived: Sides[int], useless: Sides[int | None]) -> None:
        """Takes note of a call.

        Parameters
        ----------
        loads : BinHistogram
        arrived : dict of str to int
            Rows of each side up to its end, for count windows.
        useless : dict of str to int or None
            The greatest time of each side whose rows no row of a later call can match, for time windows. It counts from
            the next call on: so the routes of a call follow from what is known before the one that precedes it, and
            from that one's rows.
        """
        routes = self.routes(loads.partitions)
        for side, time in loads.greatest.items():
            self._greatest[side] = max(time, self._greatest.get(side, time))
        now = dict(self._greatest) if self._windows is None else dict(arrived)
        if routes.also is not None:
            if self._passed(arrived):
                if not self._settling:
                    routes = RoutingTable(routes.epoch + 1, routes.also, routes.table)
                else:
                    routes = RoutingTable(routes.epoch + 1, routes.table)
                self._settling, self._mark = not self._settling, now
        # Else a change would not end, or the window holds copies of rows that may be the divided ones of the next.
        elif (self._windows is not None or None not in self._useless.values()) and self._passed(arrived):
            table = self._wanted(loads, routes.table)
            if table is not None:
                routes, self._mark = RoutingTable(routes.epoch + 1, routes.table, table), now
        self._routes, self._useless = routes, dict(useless)

    def _wanted(self, loads: BinHistogram, table: np.ndarray) -> np.ndarray | None:
        """Another table than this one; None: it stays. What one call asks for, the next must find better."""
        rows = sum(int(counts.sum()) for counts in loads.rows.values())
        if rows < MIN_ROWS * loads.partitions:
            return None
        candidate, self._candidate = self._candidate, None
        uneven, most = loads.unevenness(table), balance.limit(loads.partitions, rows)
        cold = bool(loads.cold(table).any())
        if uneven > most or cold:
            if candidate is not None and loads.unevenness(candidate) < (most if cold else BETTER * uneven):
                return candidate
            self._candidate = loads.better(table)
        return None

    def _passed(self, arrived: Sides[int]) -> bool:
        """Whether no row from before the last change can match a row of a later call."""
        if self._windows is not None:
            return all(arrived[side] - mark >= self._windows[side] for side, mark in self._mark.items())
        limits = {side: self._useless[side] for side in self._mark}
        return all(limit is not None and self._mark[side] <= limit for side, limit in limits.items())

    @property
    def state(self) -> dict[str, Any] | None:
        """JSON-able, to go on from there; None before the first call."""
        if self._routes is None:
            return None
        candidate = None if self._candidate is None else packed(self._candidate)
        return {
            "routes": self._routes.to_wire(),
            "candidate": candidate,
            "settling": self._settling,
            "mark": self._mark,
            "greatest": self._greatest,
            "useless": self._useless,
        }

    @state.setter
    def state(self, state: dict[str, Any] | None) -> None:
        self.__init__(self._windows)  # type: ignore[misc]
        if state is None:
            return
        self._routes = RoutingTable.from_wire(state["routes"])
        self._candidate = None if state["candidate"] is None else unpacked(state["candidate"]).astype(np.int16)
        self._settling, self._useless = state["settling"], dict(state["useless"])
        self._mark, self._greatest = dict(state["mark"]), dict(state["greatest"])


def packed(numbers: np.ndarray) -> str:
    """Integers as text."""
    return base64.b64encode(zlib.compress(numbers.astype("<i8").tobytes(), 1)).decode()


def unpacked(text: str) -> np.ndarray:
    """What `packed` wrote, int64. Raises ValueError where it did not."""
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8")
    except zlib.error as error:
        raise ValueError(f"damaged numbers: {error}") from error
