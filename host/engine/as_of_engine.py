"""The as-of join: right rows by time and `by` value, and the left rows that wait for a better one.

Source: the merge of two sides in order of time is that of `merge_asof` (pandas) and ASOF JOIN (ClickHouse, DuckDB);
waiting for the watermark, and what is kept, are ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.host.call import Call, Found, OrderedPairs, Want
from muntin.host.engine.engine import Engine, EngineSpec, EngineStatus, Held
from muntin.host.engine.placement import mixed
from muntin.host.engine.row_log import RowLog
from muntin.host.keys.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.native import _core
from muntin.host.predicates import AsOf
from muntin.host.sides import SIDES, Side, Sides

if TYPE_CHECKING:
    pass

_NONE = np.zeros(0, np.int64)
_LEAST = 1 << 10  # slots, and codes, that are not looked through for those in use
_CALLS = 4  # so many times the slots of a call neither

Rows = tuple[
    np.ndarray | None, np.ndarray, np.ndarray | int
]  # words if there are any; times; slots or the first of them
_NO_ROWS: dict[bool, Rows] = {True: (_NONE, _NONE, 0), False: (None, _NONE, 0)}


class SlotLog(RowLog):
    """Rows by slot: consecutive numbers that `keep` gives to those that stay."""

    end = 0
    _few = 2 * _CALLS

    def append(self, first: int, table: pa.Table, numbers: np.ndarray | None = None) -> None:
        """Adds rows, as `kept` gives them; `first` is theirs in the stream, and not used."""
        super().append(self.end, table)
        self.end += len(table)

    def trim(self, oldest: int) -> None:
        """Does nothing: rows of any age may be needed, and go by `forget` and `keep`."""

    def forget(self, oldest: int) -> None:
        """Forgets whole blocks before a slot."""
        super().trim(oldest)

    def keep(self, slots: np.ndarray) -> None:
        """Forgets all rows but those of these slots, int64, ascending; the n-th of them gets slot n."""
        kept = self._taken(slots, self._kept.names) if len(slots) else None
        self._blocks = []
        if kept is not None:
            self._put(0, kept)
        self.end = len(slots)


class AsOfEngine(Engine):
    """Holds the rows of an as-of join, and tells which left rows are answered.

    Parameters
    ----------
    spec : EngineSpec
    on : AsOf
    axis : AsOfAxis
    condition : AsOfCondition
    logs : dict of str to SlotLog
        Kept in step with what is held; may be empty.
    first_row : int
        Arrival number of the first row of each stream.
    unmatched : bool
        Left rows without a right row are wanted too.
    scan : bool
        Looking back, where one watermark, or none, ends rows of both sides: they meet in one pass in order of time.
    at_once : bool
        All right rows are there: left rows are answered in the call that brings them.
    threads : int
        The most that a call uses.
    partitions : int
        Rows go to so many parts by what they are equal in, each with a thread of its own.
    """

    def __init__(
        self,
        spec: EngineSpec,
        on: AsOf,
        axis: AsOfAxis,
        condition: AsOfCondition,
        logs: Sides[SlotLog],
        first_row: int,
        *,
        unmatched: bool,
        scan: bool,
        at_once: bool = False,
        threads: int,
        partitions: int = 1,
    ):
        self.spec = spec
        self._spent = {"insert": 0.0, "probe": 0.0, "expire": 0.0}
        limit: dict[str, Any] = {"float_tolerance" if axis.floats else "tolerance": axis.tolerance}
        limit |= {"exact": on.exact, "floats": axis.floats, "grouped": bool(on.by), "scan": scan}
        self._states = [_core.AsOf(on.direction, **limit) for _ in range(partitions)]
        self._grouped = bool(on.by)
        self._new: Sides[list[Rows]] = {side: [_NO_ROWS[self._grouped]] * partitions for side in SIDES}
        self._pool = ThreadPoolExecutor(partitions, "muntin-partition", _core.numpy_memory) if partitions > 1 else None
        self._given = [dict.fromkeys(SIDES, 0) for _ in self._states]  # rows of each part
        self._came = dict.fromkeys(SIDES, 0)  # rows of the newest call
        self._condition, self._logs = condition, logs
        self._unmatched, self._at_once, self._threads = unmatched, at_once, threads
        # Slots of each side: first those of the rows that were kept, with their numbers, then all that arrived since.
        # None before `_first` is held.
        self._first = dict.fromkeys(SIDES, 0)
        self._kept = dict.fromkeys(SIDES, _NONE)
        self._since = dict.fromkeys(SIDES, first_row)
        self._arrived = dict.fromkeys(SIDES, first_row)

    def begin(self, arrived: Sides[int]) -> None:
        """Says the arrival number of the first row of each side, before any comes."""
        self._since, self._arrived = dict(arrived), dict(arrived)

    def status(self) -> EngineStatus:
        """``groups``: values of the `by` columns; ``partitions``, where there are several: as of `PartitionedEngine`,
        but for bytes."""
        stored = {side: self._stored_rows(side) for side in SIDES}
        report: dict[str, Any] = {"groups": sum(state.groups for state in self._states)}
        if len(self._states) > 1:
            report["partitions"] = [
                {f"{what}_{side}": rows for side in SIDES for what, rows in (
                    ("rows", given[side]), ("stored", state.rows(side == "right")),
                )}
                for state, given in zip(self._states, self._given, strict=True)
            ]  # fmt: skip
        return EngineStatus(
            stored,
            sum(state.bytes for state in self._states),
            seconds=dict(self._spent),
            waiting={"left": stored["left"]},
            report=report,
        )

    def _stored_rows(self, side: Side) -> int:
        return sum(state.rows(side == "right") for state in self._states)

    def _each(self, work: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """What `work` gives for each part's state."""
        mapping = map if self._pool is None else self._pool.map
        return list(mapping(work, self._states, *given))

    def _oldest_row(self, side: Side) -> int | None:
        """A row before which none is held."""
        first = self._first[side]
        if first < len(self._kept[side]):
            return int(self._kept[side][first])
        row = self._since[side] + first - len(self._kept[side])
        return row if row < self._arrived[side] else None

    def admit(self, call: Call) -> Call:
        """Rows lie in the process's memory, which grows."""
        return call

    def run(self, call: Call) -> Iterator[Found]:
        """Slots of the left rows that are answered, ascending, and of their right rows, -1 for none."""
        for side in SIDES:
            batch = call.batches[side]
            assert batch.times is not None
            times, count = np.ascontiguousarray(batch.times), len(batch)
            words = batch.keys if self._grouped else None
            if len(self._states) > 1:
                slots = self.slots(side, batch.rows)
                targets = mixed(batch.keys.view(np.uint64)) % np.uint64(len(self._states))
                chosen = [targets == at for at in range(len(self._states))]
                self._new[side] = [(batch.keys[of], times[of], slots[of]) for of in chosen]
            elif count and int(batch.rows[-1]) - int(batch.rows[0]) == count - 1:  # they follow one another
                self._new[side] = [(words, times, int(self.slots(side, batch.rows[:1])[0]))]
            else:
                self._new[side] = [(words, times, self.slots(side, batch.rows))]
            for given, part in zip(self._given, self._new[side], strict=True):
                given[side] += len(part[1])
            self._came[side] = call.arrived[side] - self._arrived[side]
            self._arrived[side] = call.arrived[side]
        found = self._answered(dict.fromkeys(SIDES) if call.ended else call.expiry, everything=call.ended)
        if call.want is not Want.NOTHING:
            yield found

    def slots(self, side: Side, rows: np.ndarray) -> np.ndarray:
        """The slots of rows that have arrived since any were kept."""
        return rows + (len(self._kept[side]) - self._since[side])

    def rows(self, side: Side, slots: np.ndarray) -> np.ndarray:
        """The arrival numbers of slots; -1 for -1."""
        kept = self._kept[side]
        rows = slots + (self._since[side] - len(kept))
        old = slots < len(kept)
        rows[old] = np.append(kept, -1)[slots[old]]  # -1 is the last of them
        return rows

    def _answered(self, limits: Sides[int | None], *, everything: bool) -> OrderedPairs:
        """Joins the rows that were taken.

        Parameters
        ----------
        limits : dict of str to int or None
            For rows of a side: the time that all rows of the other side to come are past. Right rows that no left row
            will meet are forgotten.
        everything : bool
            No row will come.
        """
        started = time.perf_counter()
        found = self._each(
            lambda state, left, right: state.step(
                left, right, watermark=limits["left"], useless=limits["right"],
                all=everything or self._at_once, matched=not self._unmatched, threads=self._threads,
            ),
            self._new["left"], self._new["right"],
        )  # fmt: skip
        self._new = {side: [_NO_ROWS[self._grouped]] * len(self._states) for side in SIDES}
        left, right = found[0]
        if len(found) > 1:
            left, right = (np.concatenate(column) for column in zip(*found, strict=True))
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        self._spent["probe"] += time.perf_counter() - started
        return OrderedPairs(left, right)

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        """Gives back what rows that `run` has forgotten took."""
        started = time.perf_counter()
        for side in SIDES:
            stored = self._stored_rows(side)
            most = _LEAST + 2 * stored + _CALLS * self._came[side] if stored else 0
            if self._slots(side) > most:
                end = self._first[side] + self._slots(side)
                oldest = [state.oldest(side == "right") for state in self._states]
                self._first[side] = min(end, *oldest)
                if side in self._logs:
                    self._logs[side].forget(self._first[side])
                if self._slots(side) > most:
                    self._keep(side, end)
        if self._condition.words > _LEAST + 2 * sum(state.groups for state in self._states):
            self._condition.keep(np.concatenate(self._each(lambda state: state.words())))
        self._spent["expire"] += time.perf_counter() - started
        return {side: Held(self._oldest_row(side)) for side in SIDES}

    def _slots(self, side: Side) -> int:
        """How many slots there are."""
        return len(self._kept[side]) + self._arrived[side] - self._since[side] - self._first[side]

    def _keep(self, side: Side, end: int) -> None:
        """Forgets the slots before `end`, which is past all, whose rows are not held."""
        first, right = self._first[side], side == "right"
        held = np.sort(np.concatenate(self._each(lambda state: state.slots(right, first, end))))
        self._kept[side] = self.rows(side, held.copy())
        self._since[side] = self._arrived[side]
        self._first[side] = 0
        numbers = np.full(end - first, -1, np.int64)
        numbers[held - first] = np.arange(len(held))
        self._each(lambda state: state.renumber(right, first, numbers))
        if side in self._logs:
            self._logs[side].keep(held)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
