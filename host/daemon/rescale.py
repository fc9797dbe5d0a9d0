"""The windows of a stopped query for another number of partitions.

The logs of all partitions together tell each call as a whole: a row that was copied is taken from the first partition
that it went to. The new logs have the same calls, their rows placed as those of a stream of which nothing is known. So
the query goes on as one that has had so many partitions from its start.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.call import distinct
from muntin.host.daemon.windows import Windows, query_place, windows_below
from muntin.host.engine.routes import RoutePlanner, RoutingTable, no_counts
from muntin.host.engine.row_log import empty_table, picked
from muntin.host.engine.stateless_placement import (
    EqualityPlacement,
    FullPlacement,
    Placement,
    can_follow,
    open_placement,
)
from muntin.host.engines import Partitions
from muntin.host.errors import StateError, UnsupportedError, WindowError
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.sequencer import Sequencer
from muntin.host.keys.kept_types import kept_schema
from muntin.host.progress import Progress
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.spec import JoinSpec
from muntin.host.state import Record, StateLog, Store, local_folder, open_store
from muntin.host.state.log import UNFINISHED, ended, schema_of, under

MOST = 1 << 15
"""Partitions: a table of routes has them as int16."""


@dataclasses.dataclass
class Rescaled:
    """What `rescale` has done.

    Attributes
    ----------
    before, after : Windows
    batch : int
        The newest one in all windows.
    calls : int
    rows : int
        Of both sides, without copies.
    old : list of str
        Where the old windows' state lies, or lay.
    """

    before: Windows
    after: Windows
    batch: int
    calls: int = 0
    rows: int = 0
    old: list[str] = dataclasses.field(default_factory=list)


def rescale(
    place: str,
    partitions: int,
    query: str | None = None,
    *,
    by: str | None = None,
    width: Any = None,
    delete_old: bool = False,
    progress: Progress | None = None,
) -> Rescaled:
    """Writes the state of a stopped query for another number of partitions, with which it goes on from its checkpoint.

    The old windows are ended: no process goes on with them, nor opens them.

    Parameters
    ----------
    place : str
        Folder or address, as of `window_join(..., state=...)`.
    partitions : int
        How many there will be.
    query : str, optional
        "QUERY/JOIN", or one of the two; not needed where there is one.
    by, width : optional
        As of `Partitions`; by default as before, and from one partition "auto".
    delete_old : bool
        Delete the state of the old windows.
    progress : Progress, optional
        Told of the rows that were read.

    Raises
    ------
    WindowError
        `partitions`, `by` or `width` do not fit.
    StateError
        There is no such query, or no state for it that can be read; a partition is missing; there are so many
        partitions already; `StateTakenError`: a process has gone on with the old windows.
    UnsupportedError
        Only Spark knows the partition of a row, or it has no key and is in no log.
    """
    if not 1 <= partitions <= MOST:
        raise WindowError(f"partitions must be from 1 to {MOST:,}, not {partitions}")
    if (folder := local_folder(place)) is not None and not os.path.isdir(folder):
        raise StateError(f"there is no folder {folder}")
    below = windows_below(place)
    source = _source(place, below, query)
    logs = [StateLog(_store(place, name)) for name in source.names]
    calls = _Calls(logs, source)
    target, placement = _target(calls, partitions, by, width)
    if target == source:
        raise StateError(f"query {source.query!r} has {partitions} partitions in {place} already")
    done = Rescaled(source, target, calls.newest, old=[log.store.place for log in logs])
    writers = [StateLog(_emptied(place, name)) for name in target.names]
    begun: list[StateLog] = []
    try:
        for writer in writers:
            writer.store.create(UNFINISHED, [b""])
            begun.append(writer)
        for log in logs:
            log.end(partitions, target.names)
        _write(calls, placement, writers, done, progress)
    except BaseException:
        for writer in begun:
            writer.close()
            _clear(writer.store)
        for log in logs:
            _revive(log.store)
        raise
    for writer in writers:
        writer.close()
        writer.store.delete(UNFINISHED)
    for log in logs if delete_old else ():
        log.store.drop()
    return done


def _store(place: str, name: str) -> Store:
    return open_store(query_place(place, name))


def _source(place: str, below: dict[Windows, list[str]], query: str | None) -> Windows:
    """The windows that a query would go on with."""
    queries = sorted({each.query for each in below})
    chosen = [each for each in queries if query is None or query in (each, *each.split("/", 1))]
    if len(chosen) != 1:
        which = "the state" if query is None else f"query {query!r}"
        raise StateError(
            f"{which} is to be of one join below {place}, where there are {', '.join(map(repr, queries)) or 'none'}"
        )
    going_on, outdated = [], []
    for each in (each for each in below if each.query == chosen[0]):
        stores = [_store(place, name) for name in below[each]]
        ends = [found[1] for store in stores if (found := ended(store)) is not None]
        if any(UNFINISHED in store.names() for store in stores):
            continue
        if ends and not any(UNFINISHED in _store(place, name).names() for name in ends[0]):
            outdated.append(each)
            continue
        going_on.append(each)
        missing = sorted(set(each.names) - set(below[each]))
        if missing:
            raise StateError(f"the state of the partition {missing[0]!r} is missing below {place}: restore it")
        for store in stores:  # a run before this one did not come to its end
            _revive(store)
    if len(going_on) != 1:
        there = ", ".join(str(each.count) for each in going_on + outdated)
        raise StateError(
            f"query {chosen[0]!r} is to have the windows of one number of partitions that goes on below {place}, and "
            f"there are windows of {there or 'none'}: delete the state of those that the query has not had last"
        )
    return going_on[0]


def _emptied(place: str, name: str) -> Store:
    """A place for a window, without what is outdated there."""
    store = _store(place, name)
    _clear(store)
    return store


def _clear(store: Store) -> None:
    """Removes a log, but for claims of daemons; the file that tells that it is not complete last."""
    names = [name for name in store.names() if not name.endswith(".claim")]
    for name in sorted(names, key=lambda name: name == UNFINISHED):
        store.delete(name)


def _revive(store: Store) -> None:
    """Lets processes go on with a log again."""
    found = ended(store)
    if found is not None:
        store.delete(found[0])


@dataclasses.dataclass
class _Call:
    """A call as all partitions together had it.

    Attributes
    ----------
    before, end : dict
        As of `Record`.
    whole : BatchSummary
        `rows`: of `tables`.
    tables : dict of str to pyarrow.Table
        The rows of each side in the order of arrival.
    origins : dict of str to (ndarray of int64, ndarray of int64)
        For each row of a side the partition that it was taken from, and its arrival number there.
    matched : list of (int, dict of str to ndarray of int64)
        The rows that partitions have reported as matched.
    """

    batch: int
    before: dict[str, Any]
    end: Sides[int]
    whole: BatchSummary
    tables: Sides[pa.Table]
    origins: Sides[tuple[np.ndarray, np.ndarray]]
    matched: list[tuple[int, Sides[np.ndarray]]]


class _Calls:
    """The calls that all partitions have.

    Attributes
    ----------
    definition : dict
        What defines the join, as of `Record`, in one window.
    spec : JoinSpec
    schemas : dict of str to pyarrow.Schema
    newest : int
        The newest call's number of the caller.
    rows : int
        In all logs, with copies.
    """

    def __init__(self, logs: list[StateLog], source: Windows):
        self.logs, self.source = logs, source
        for log in logs:
            if not log.records:
                raise StateError(f"the state in {log.store.place} has no batch: start the query with a new checkpoint")
        self.newest = min(log.records[-1].batch for log in logs)
        for log in logs:
            # A batch that some have and others do not is not final: Spark sends it again.
            if sum(record.batch > self.newest for record in log.records) > 1:
                raise StateError(
                    f"the state in {log.store.place} has batch {log.records[-1].batch}, and another partition none "
                    f"after {self.newest}: these are not of one time"
                )
        self._records = [
            {record.batch: record for record in log.records if record.batch <= self.newest} for log in logs
        ]
        join = next(records[self.newest].join for records in self._records if self.newest in records)
        hows = [log.records[-1].join["spec"]["how"] for log in (logs[0], logs[-1])]
        how = hows[0] if hows[0] == hows[1] else "full"  # see FullPlacement
        self.definition = {**join, "spec": {**join["spec"], "how": how}}
        self.spec = JoinSpec.from_json(json.dumps(self.definition["spec"]))
        self.schemas = {side: schema_of(join["schemas"][side]) for side in SIDES}
        self._kept = {side: self.spec.kept_columns(side, *self.schemas.values()) for side in SIDES}
        self._stored = {
            side: kept_schema(pa.schema([self.schemas[side].field(name) for name in self._kept[side]]))
            for side in SIDES
        }
        self.sequencer = Sequencer(self.spec, *self.schemas.values())
        self._placement = self._opened()
        ends = [(record.before["arrived"], record.end) for each in self._records for record in each.values()]
        self.rows = sum(end[side] - first[side] for first, end in ends for side in SIDES)

    def _opened(self) -> Placement | None:
        """By what rows went."""
        source = self.source
        if source.count == 1:
            if self.spec.self_join:
                raise UnsupportedError("a self join with one window cannot have more partitions: its sides are one")
            return None
        if source.placed is None:
            raise UnsupportedError(
                f"the rows of {source.query!r} went to partitions by Spark's own hash of equal values, as in full, "
                "self and as-of joins by equality: their number cannot change. Start the query with a new checkpoint"
            )
        count = source.count // 2 if self.spec.how == "full" else source.count
        by = source.placed.partition("-")[0]
        return _placement(self.spec, self.schemas, Partitions(count, by), source.placed)

    def first(self, log: int, side: Side) -> tuple[int, int]:
        """The arrival number of the oldest row in a log, and one past the newest."""
        if side == self.spec.static:  # its rows are in no log
            return 0, 0
        records = self.logs[log].records
        return records[0].before["arrived"][side], records[-1].end[side]

    def __iter__(self) -> Iterator[_Call]:
        batches = sorted({batch for records in self._records for batch in records})
        if self.spec.counted:  # a call that one of them has expired is of no use in all
            first = max(min(records, default=self.newest) for records in self._records)
            batches = batches[batches.index(first) :]
        for batch in batches:
            yield self._call(batch, {at: each[batch] for at, each in enumerate(self._records) if batch in each})

    def _call(self, batch: int, records: dict[int, Record]) -> _Call:
        read = {at: self.logs[at].rows(record) for at, record in records.items()}
        some = next(iter(records))
        before = records[some].before
        for at, record in records.items():
            for name in ("last_sequence", "watermark"):
                if record.before[name] != before[name]:
                    raise StateError(
                        f"batch {batch} begins with {name} {record.before[name]} in {self.logs[at].store.place}, with "
                        f"{before[name]} in {self.logs[some].store.place}: these are not windows of one query"
                    )
        tables = {
            at: {side: under(self._stored[side], found[side], side, self.logs[at].store.place) for side in SIDES}
            for at, (found, _) in read.items()
        }
        if records[some].whole is None:
            whole, own = self._of_one(before, tables[some])
            wholes, tables = {some: whole}, {some: own}
        else:
            wholes = {at: BatchSummary.from_tables(record.whole or {}, read[at][0]) for at, record in records.items()}
        planner = RoutePlanner(self.sequencer.engine_spec.counts)
        planner.state = before.get("routes")
        routes = planner.routes(self.source.count)
        call = _Call(
            batch, before, records[some].end, dataclasses.replace(wholes[some], rows={}, loads=None), {}, {},
            [(at, matched) for at, (_, matched) in read.items()],
        )  # fmt: skip
        for side in SIDES:
            given = [(empty_table(self._stored[side]), np.zeros(0, np.int64), np.zeros(0, np.int64))]
            for at, numbers, chosen in self._taken(side, tables, routes):
                table, first = tables[at][side], records[at].before["arrived"][side]
                if wholes[at].order is not None:
                    numbers = wholes[at].rows[side]
                given.append((picked(table, chosen), np.full(len(chosen), at), first + numbers[chosen]))
            self._add(call, side, given)
        return call

    def _taken(
        self, side: Side, tables: dict[int, Sides[pa.Table]], routes: RoutingTable
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Of each partition's log the numbers of its rows of a side, and those that are taken from there."""
        placement = self._placement
        parts = (None,) if placement is None else placement.parts
        # In a full join all rows of a side are in the windows that divide it.
        group = next((at for at, part in enumerate(parts) if part is not None and part.divided == side), 0)
        follows = placement is not None and not isinstance(placement, FullPlacement) and placement.follows
        each = len(self.logs) // len(parts)
        for at in range(group * each, (group + 1) * each):
            if at not in tables:  # it needs none of the rows
                continue
            numbers = np.arange(len(tables[at][side]))
            part = parts[group]
            if part is None:
                yield at, numbers, numbers
                continue
            masks = _targets(part, side, tables[at][side], routes if follows else None)
            # A row that is in one partition alone is always taken; by columns that came later it may seem elsewhere.
            yield at, numbers, np.flatnonzero(~masks[at - group * each] | (masks.argmax(axis=0) == at - group * each))

    def _add(self, call: _Call, side: Side, given: list[tuple[pa.Table, np.ndarray, np.ndarray]]) -> None:
        """Puts the rows of a side in the order of arrival."""
        table = pa.concat_tables([each for each, _, _ in given])
        at, numbers = (np.concatenate([each[place] for each in given]) for place in (1, 2))
        if call.whole.order is not None:
            order = np.argsort(numbers, kind="stable")
            call.whole.rows[side] = numbers[order] - call.before["arrived"][side]
        else:
            values = self.sequencer.sequence_values(side, table)
            order = np.arange(len(table)) if values is None else np.argsort(values, kind="stable")
        call.tables[side] = picked(table, order)
        call.origins[side] = at[order], numbers[order]

    def _of_one(self, before: dict[str, Any], tables: Sides[pa.Table]) -> tuple[BatchSummary, Sides[pa.Table]]:
        """What the rows of a call tell that are all in one window, and these in the order of arrival."""
        self.sequencer.state = before
        call = self.sequencer.sequence(tables)
        values = [self.sequencer.sequence_values(side, table) for side, table in call.tables.items()]
        ends = [int(value) for each in values if each is not None and len(each) for value in (each.min(), each.max())]
        sequence = (min(ends), max(ends)) if ends else None
        if not self.spec.counted:
            return BatchSummary(call.newest, sequence), call.tables
        order = np.zeros(sum(map(len, call.tables.values())), np.bool_)
        order[np.arange(len(call.tables["right"])) + call.other_position["right"] - call.first["left"]] = True
        rows = {side: np.arange(len(table)) for side, table in call.tables.items()}
        return BatchSummary(call.newest, sequence, order, rows), call.tables


def _placement(spec: JoinSpec, schemas: Sides[pa.Schema], partitions: Partitions, name: str | None) -> Placement:
    """By what rows go to partitions in Spark; that of a name where it is known."""
    if spec.static is not None and partitions.by == "auto":
        partitions = dataclasses.replace(partitions, by="subwindows")
    if spec.static is not None and (partitions.by != "subwindows" or partitions.width is not None):
        raise UnsupportedError(
            "rows of a stream that meets a table are spread over partitions: leave --by and --width out"
        )
    if partitions.by == "equality" or (partitions.by == "auto" and spec.equalities):
        if not can_follow(spec):
            raise UnsupportedError(
                f"how={spec.how!r} by equality has partitions that Spark alone knows: name by= 'ranges' or 'subwindows'"
            )
        placement: Placement = EqualityPlacement(spec, schemas["left"], schemas["right"], partitions.count)
    else:
        placement = open_placement(spec, schemas["left"], schemas["right"], partitions, name)
    if name is not None and placement.name != name:
        raise StateError(f"the windows of {name!r} were written by another version, which divided rows by other names")
    return placement


def _target(calls: _Calls, partitions: int, by: str | None, width: Any) -> tuple[Windows, Placement | None]:
    """The windows that there will be, and by what rows go to them; None: there is one."""
    query = calls.source.query
    if partitions == 1:
        return Windows(query, None, 1), None
    name = calls.source.placed if by is None and width is None else None
    kind = by or (calls.source.placed or "auto").partition("-")[0]
    placement = _placement(calls.spec, calls.schemas, Partitions(partitions, kind, width=width), name)
    return Windows(query, placement.name, placement.count), placement


class _Moved:
    """Where the rows of an old window's side are now, by their arrival numbers there."""

    def __init__(self, first: int, end: int):
        self._first = first
        self._windows = np.full(end - first, -1, np.int32)
        self._numbers = np.zeros(end - first, np.int64)

    def put(self, rows: np.ndarray, window: int, numbers: np.ndarray) -> None:
        """Rows of these numbers have others in a window."""
        self._windows[rows - self._first], self._numbers[rows - self._first] = window, numbers

    def get(self, rows: np.ndarray, window: int) -> np.ndarray:
        """The numbers in a window of those rows that are there."""
        at = rows[rows >= self._first] - self._first
        return self._numbers[at[self._windows[at] == window]]


def _write(
    calls: _Calls, placement: Placement | None, writers: list[StateLog], done: Rescaled, progress: Progress | None
) -> None:
    """Writes the calls into the logs of the new windows."""
    parts = (None,) if placement is None else placement.parts
    each = len(writers) // len(parts)
    counted = calls.spec.counted
    follows = placement is not None and not isinstance(placement, FullPlacement) and placement.follows
    moved = {(at, side): _Moved(*calls.first(at, side)) for at in range(len(calls.logs)) for side in SIDES}
    arrived = [dict.fromkeys(SIDES, 0) for _ in writers]
    greatest: Sides[int] = {}
    for call in calls:
        newest = call.batch == calls.newest
        counts = no_counts(each) if follows and newest else None
        masks: Sides[np.ndarray] = {}
        for side, table in call.tables.items():
            given = [
                np.ones((1, len(table)), np.bool_)
                if part is None
                else _targets(part, side, table, None, counts if at == 0 else None)
                for at, part in enumerate(parts)
            ]
            masks[side] = np.concatenate(given)
            time = calls.sequencer.greatest_time(side, table)
            if time is not None:
                greatest[side] = max(time, greatest.get(side, time))
            if counted and placement is None and len(table) != call.whole.arrived(side):
                raise UnsupportedError(
                    f"batch {call.batch} has {call.whole.arrived(side) - len(table):,} {side} rows that are in no "
                    "partition, as they have no key: with count windows two partitions are the least by ranges"
                )
        loads = None
        if counts is not None:
            assert not isinstance(placement, FullPlacement | None)
            loads = placement.loads(0)
            for of_role, more in zip(loads.rows.values(), counts, strict=False):
                of_role += more
            loads.greatest.update(greatest)  # of all rows: a change of routes is over once these are
        for window, writer in enumerate(writers):
            part = parts[window // each]
            tracked = [side for side in calls.spec.tracked if part is None or part.divided == side]
            before = {**call.before, "routes": None}
            tables: dict[str, pa.Table] = {}
            places: Sides[np.ndarray] = {}
            end = dict(call.end)
            if calls.spec.static is not None:  # each window has the whole table, and no log has it
                arrived[window][calls.spec.static] = call.before["arrived"][calls.spec.static]
            if not counted:
                before["arrived"] = dict(arrived[window])
            for side, table in call.tables.items():
                chosen = np.flatnonzero(masks[side][window])
                tables[side] = picked(table, chosen)
                numbers = before["arrived"][side] + np.arange(len(chosen))
                if counted:
                    places[side] = call.whole.rows[side][chosen]
                    numbers = before["arrived"][side] + places[side]
                else:
                    end[side] = arrived[window][side] = before["arrived"][side] + len(chosen)
                if side in tracked:
                    for at in distinct(call.origins[side][0]):
                        own = call.origins[side][0][chosen] == at
                        moved[at, side].put(call.origins[side][1][chosen][own], window, numbers[own])
            values: dict[str, Any] | None = None
            if not counted or placement is not None:
                whole = dataclasses.replace(call.whole, rows=places, loads=loads)
                values, more_tables = whole.to_tables()
                tables |= more_tables
            definition = calls.definition
            if part is not None:
                how = part.spec(window % each).how
                definition = {**definition, "spec": {**definition["spec"], "how": how}}
            matched = {side: [np.zeros(0, np.int64)] for side in tracked}
            for at, of_sides in call.matched:
                for side in set(tracked) & set(of_sides):
                    matched[side].append(moved[at, side].get(of_sides[side], window))
            begun = writer.begin(call.batch, tables, definition, before, end, whole=values)
            writer.commit(begun, {side: distinct(np.concatenate(known)) for side, known in matched.items()})
        done.calls += 1
        done.rows += sum(map(len, call.tables.values()))
        if progress is not None:
            progress.advance(sum(len(origin[0]) for origin in call.origins.values()), batch=call.batch)


def _targets(
    part: Placement, side: Side, table: pa.Table, routes: RoutingTable | None, counts: np.ndarray | None = None
) -> np.ndarray:
    """The masks that `StatelessPlacement.targets` gives for the rows of a table."""
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return np.concatenate([part.targets(side, rows, routes, counts)[1] for rows in batches], axis=1)
