"""What the operator and its engines hand each other: the rows of a call, and what is found."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.host.keys.key_type import LONG
from muntin.host.sides import SIDES, Side, Sides


@dataclasses.dataclass
class Batch:
    """Rows of one side in arrival order, those without a key, a time or a chance to match left out.

    Attributes
    ----------
    keys : ndarray, shape (n,), int32 or int64
        Encoded keys.
    rows : ndarray of int64, shape (n,)
        Arrival numbers within the stream, ascending; a stream's first row may have any number from 0 on.
    other_position : ndarray of int64, shape (n,)
        The arrival number that the next row of the other stream had then: it meets those before.
    times : ndarray of int64, shape (n,), or None
        Event times, for time windows.
    others : tuple of ndarray, shape (n,) each
        Encoded keys of the parts of a conjunction beside what drives.
    values : tuple of ndarray, shape (n,) or (n, 2) each
        What aggregates are made of, as `muntin.host.aggregates.plan.AggregatePlan.encode` gives it.
    stores, probes : ndarray of bool, shape (n,), or None
        Which rows are stored, and which probe, where an engine has a share of the rows; None: all.
    order : ndarray of uint32, shape (n,), or None
        Places in the order of keys, ties by place, where that is known.
    """

    keys: np.ndarray
    rows: np.ndarray
    other_position: np.ndarray
    times: np.ndarray | None = None
    others: tuple[np.ndarray, ...] = ()
    values: tuple[np.ndarray, ...] = ()
    stores: np.ndarray | None = None
    probes: np.ndarray | None = None
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, at: int) -> int:
        """Where a row lies in the total order of arrival."""
        return int(self.rows[at]) + int(self.other_position[at])

    def take(self, chosen: np.ndarray | slice) -> Batch:
        """Some of the rows."""
        times = None if self.times is None else self.times[chosen]
        others = tuple(column[chosen] for column in self.others)
        values = tuple(column[chosen] for column in self.values)
        stores = None if self.stores is None else self.stores[chosen]
        probes = None if self.probes is None else self.probes[chosen]
        keys, rows, positions = self.keys[chosen], self.rows[chosen], self.other_position[chosen]
        return Batch(keys, rows, positions, times, others, values, stores, probes)

    @property
    def apart(self) -> bool:
        """Whether some rows are stored and do not probe, or the other way round."""
        return self.stores is not None or self.probes is not None

    def stored(self) -> Batch:
        """The rows that are stored."""
        return self._only(self.stores)

    def probing(self) -> Batch:
        """The rows that probe."""
        return self._only(self.probes)

    def _only(self, chosen: np.ndarray | None) -> Batch:
        if chosen is None:
            return dataclasses.replace(self, stores=None, probes=None) if self.apart else self
        batch = dataclasses.replace(self, stores=None, probes=None).take(np.flatnonzero(chosen))
        if self.order is not None:
            batch.order = ordered_within(self.order, chosen)
        return batch

    def sorted(self) -> Batch:
        """The rows in the order of their keys."""
        if len(self.keys) < 2 or bool((self.keys[1:] >= self.keys[:-1]).all()):
            return self
        if self.keys.dtype == np.int32:
            # Key and place in one word: a plain sort is twice as fast as an indirect one, and keeps ties in order.
            words = (self.keys.astype(np.int64) << 32) | np.arange(len(self.keys), dtype=np.int64)
            words.sort()
            return self.take(words & 0xFFFFFFFF)
        return self.take(np.argsort(self.keys))


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Integers in ascending order, each once: as `numpy.unique`, which from NumPy 2.3 on hashes them, in many times the
    time.

    Examples
    --------
    >>> distinct(np.array([7, 3, 7]))
    array([3, 7])
    """
    ascending = np.sort(numbers)
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def key_order(keys: np.ndarray) -> np.ndarray:
    """Places in the order of keys, ties by place; shape (n,)."""
    return np.lexsort((keys["low"], keys["high"])) if keys.dtype == LONG else np.argsort(keys, kind="stable")


def ordered_within(order: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The order, uint32, of the rows that a mask chooses, by their places among those."""
    places = np.cumsum(chosen, dtype=np.uint32) - np.uint32(1)
    return places[order[chosen[order]]]


class Want(enum.Enum):
    """What a call is to find."""

    PAIRS = enum.auto()
    COUNTS = enum.auto()
    RANGES = enum.auto()
    AGGREGATES = enum.auto()
    NOTHING = enum.auto()
    """Its rows are stored, as those of a call that was joined before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """Rows of both sides that follow one another in the order of arrival, and what is wanted of them.

    Attributes
    ----------
    batches : dict of str to Batch
        The rows of each side that can match.
    other_position : dict of str to ndarray of int64
        As of `Batch`, for every row of the call, whether it can match or not.
    arrived : dict of str to int
        The arrival number of the next row of each stream after the call.
    want : Want
    expiry : dict of str to int or None
        Of time windows: the greatest time of each side whose rows no row after this call can match; None: there is
        none.
    ended : bool
        No row comes after this call: those that wait for their result have it.
    max_pairs : int or None
        About so many pairs are to be found at a time, or those of one row where they are more; a `Punctuation` then
        stands wherever one can. None: any number, without punctuation.
    """

    batches: Sides[Batch]
    other_position: Sides[np.ndarray]
    arrived: Sides[int]
    want: Want = Want.PAIRS
    expiry: Sides[int | None] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES))
    ended: bool = False
    max_pairs: int | None = None

    @functools.cached_property
    def first(self) -> Sides[int]:
        """The arrival number of the first row of each stream in the call."""
        return {side: self.arrived[side] - len(self.other_position[side]) for side in SIDES}

    @property
    def new_rows(self) -> Sides[int]:
        """How many rows of each side are to be stored."""
        return {
            side: len(b) if b.stores is None else int(np.count_nonzero(b.stores)) for side, b in self.batches.items()
        }

    @property
    def counting(self) -> bool:
        """Whether pairs are counted, and not wanted themselves."""
        return self.want is Want.COUNTS


@dataclasses.dataclass
class Pairs:
    """Pairs found by the rows of one side.

    Attributes
    ----------
    side : str
        The side that probed, whose row is the later of each pair.
    probing, stored : ndarray of int64, shape (m,)
        Arrival numbers within their streams.
    """

    side: Side
    probing: np.ndarray
    stored: np.ndarray


@dataclasses.dataclass
class OrderedPairs:
    """Pairs found by rows of either side, in the order that was asked for.

    Attributes
    ----------
    left, right : ndarray of int64, shape (m,)
        Arrival numbers within the streams.
    """

    left: np.ndarray
    right: np.ndarray


@dataclasses.dataclass
class Punctuation:
    """All pairs of the rows that arrived up to here have been given, and none of later ones.

    Attributes
    ----------
    left : int
        The arrival number of the next left row.
    """

    left: int


@dataclasses.dataclass
class Counts:
    """Numbers of pairs found by rows of one side; a row may occur in several.

    Attributes
    ----------
    side : str
        The side that probed.
    probing : ndarray of int64, shape (m,)
        Arrival numbers within the stream, each at most once.
    counts : ndarray of int64, shape (m,)
    """

    side: Side
    probing: np.ndarray
    counts: np.ndarray


@dataclasses.dataclass
class Ranges:
    """Where in the runs of the other side rows of one side find their partners.

    Attributes
    ----------
    side : str
        The side that probed.
    found : ndarray of int64, shape (m, 4)
        Arrival number of the probing row, number of the run, start and end in it, the end excluded.
    complement : bool
        All rows of the run but these are meant.
    """

    side: Side
    found: np.ndarray
    complement: bool


@dataclasses.dataclass
class Aggregates:
    """What rows of one side have met.

    Attributes
    ----------
    side : str
        The side that probed.
    probing : ndarray of int64, shape (n,)
        Arrival numbers within the stream, each once.
    counts : ndarray of int64, shape (n,)
    results : list of ndarray
        For each fold of the other side, as the core gives it.
    """

    side: Side
    probing: np.ndarray
    counts: np.ndarray
    results: list[np.ndarray]


@dataclasses.dataclass
class RunEvents:
    """What has happened to the runs of each side since the last call, in order, behind the ranges of a call.

    Attributes
    ----------
    events : dict
        JSON-able. By side, for each event four numbers, as host/native/index/sorted_runs.hpp has them. With several
        partitions, ``partitions`` tells how many, so that run n is one of partition ``n % partitions``; and ``placed``,
        by side, for new rows: partition, first and last arrival number.
    """

    events: dict[str, Any]


RUNS_OF_EVENT = (1, 3, 2, 1)
"""How many of an event's numbers, the first ones, name runs."""

Found = Pairs | OrderedPairs | Punctuation | Counts | Ranges | RunEvents | Aggregates


def by_probing_side(found: Pairs | OrderedPairs, call: Call) -> Iterator[Pairs]:
    """Pairs of a call by the side of the row that found them, the later one."""
    if isinstance(found, Pairs):
        yield found
        return
    # A row of the call met the rows of the other stream before its `other_position`.
    first, left = call.first["left"], np.zeros(len(found.left), np.bool_)
    of_call = np.flatnonzero(found.left >= first)
    left[of_call] = found.right[of_call] < call.other_position["left"][found.left[of_call] - first]
    yield Pairs("left", found.left[left], found.right[left])
    yield Pairs("right", found.right[~left], found.left[~left])
