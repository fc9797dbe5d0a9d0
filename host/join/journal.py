"""A pipeline that goes on from its log."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.call import Call
from muntin.host.engine.routes import BinHistogram, RoutePlanner, RoutingTable
from muntin.host.errors import StateError
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.call_errors import of_input
from muntin.host.join.pipeline import Pipeline
from muntin.host.join.plan import FIRST_ROW, JoinPlan
from muntin.host.join.sequencer import SequencedCall
from muntin.host.join.stats import Stats
from muntin.host.keys.content import Content, check_same
from muntin.host.sides import OTHER, SIDES, Sides
from muntin.host.state import Record, StateLog, open_store
from muntin.host.state.log import under
from muntin.host.state.tables import GivenTable, KeptTable
from muntin.host.tracing import OpenSpan, span

Tables = Generator[pa.Table, None, None]


class Journal:
    """Runs the calls of a join, and, where there is state, logs each before its result is complete: a call is written
    while it is joined, and committed once its result is there. It opens its pipeline once the columns of both sides are
    known, has it go on from the log, and has it meet another table.

    Parameters
    ----------
    plan : JoinPlan
    place : str or Path, optional
        Of the log; None: calls are not logged.
    fixed : dict of str to Any
        What the log has, and who goes on with it must give.

    Attributes
    ----------
    pipeline : Pipeline or None
    log : StateLog or None
    last_batch : int
        The number of the newest call that was applied; -1 before the first.
    last_tag : bytes or None
        What the caller has kept with it.
    late : dict of str to pyarrow.Table
        Its late rows, where they are kept.
    table : GivenTable or KeptTable, or None
        What the stream meets from the next call on.
    unusable : str or None
        Why no call is taken any more.
    totals : Stats
        Counters of the calls so far.

    Raises
    ------
    StateError
        The log cannot be read, or is that of another join.
    """

    def __init__(self, plan: JoinPlan, place: str | Path | None, fixed: dict[str, Any]):
        self.plan, self._fixed = plan, fixed
        self.pipeline: Pipeline | None = None
        self.log: StateLog | None = None
        self.last_batch, self.last_tag = -1, None
        self.late: Sides[pa.Table] = {}
        self.table: GivenTable | KeptTable | None = None
        self._met: str | None = None  # the digest of the table that is in its window
        self._newest: Record | None = None  # of the log, whose rows are not in the windows yet
        self.unusable: str | None = None
        self.totals = Stats()
        if place is not None:
            started = time.perf_counter()
            self.log = StateLog(open_store(place))
            self.totals.restore_seconds = time.perf_counter() - started
            if self.log.records:
                self.last_batch, self.last_tag = self.log.records[-1].batch, self.log.tag

    # The pipeline

    def logged_columns(self, schemas: Sides[pa.Schema]) -> Sides[pa.Schema]:
        """The columns of each side, as they are given, else as they are in the log. Raises StateError where the log is
        of another join."""
        if self.log is None or not self.log.records:
            return schemas
        return self.plan.going_on(self.log.records[-1], self.log.store.place, schemas, self._fixed)

    def follow(self, plan: JoinPlan) -> None:
        """Has this plan; opens the pipeline where it has become complete, and stores the rows of all calls in the log
        but the newest, which may be asked for again. Raises as `Pipeline`; StateError."""
        opening = self.pipeline is None and plan.complete
        if opening:
            records = []
            if self.log is not None:
                plan.check_kept()
                records = self.log.records
            self._open(plan, records[0].before if records else None)
        self.plan = plan
        if opening and self.log is not None and self.log.records:
            self._restore(self.log)

    def _open(self, plan: JoinPlan, before: dict[str, Any] | None) -> None:
        fresh = Pipeline(plan, before, follow=self.log is not None)
        if self.pipeline is not None:
            fresh.seconds = self.pipeline.seconds
        self.pipeline = fresh

    def opened(self) -> Pipeline:
        """The pipeline. Raises SchemaError where the columns of a side are not known yet."""
        if self.pipeline is None:
            raise self.plan.unknown_columns()
        return self.pipeline

    @contextmanager
    def breaking(self, *, marked: bool = False) -> Iterator[None]:
        """What fails in here leaves the join unusable: its windows hold part of a call, and to go on would lose or
        double pairs. Unless nothing has changed since `Pipeline.mark`, where that was `marked`."""
        pipeline = self.opened()
        try:
            yield
        except BaseException as error:
            if not (marked and pipeline.unchanged):
                self.unusable = self.unusable or f"a call failed half-way ({type(error).__name__}: {error})"
                pipeline.engine.close()
            raise

    # A call

    def catch_up(self) -> None:
        """Has the rows of the newest call in the windows. Raises SchemaError."""
        self.opened()
        if (newest := self.repeatable) is not None:
            started = time.perf_counter()
            with self.breaking():
                self._load(newest)
            self._newest = None
            self.totals.restore_seconds += time.perf_counter() - started

    def run(
        self, call: SequencedCall, admitted: Call, number: int | None, block_bytes: int | None, traced: OpenSpan
    ) -> Tables:
        """The result of a call, as of `Pipeline.run`, which has the caller's number; None: it is in the log already."""
        pipeline, log = self.opened(), self.log if number is not None else None
        begun: Future[dict[str, Any]] | None = None
        needed: Sides[int] = {}
        try:
            if log is not None and number is not None:
                # To repeat this call takes what the windows hold before it.
                needed = {side: pipeline.oldest_restored(side) for side in SIDES}
                with traced.current():
                    begun = self._begin(log, call, number)
            applied = yield from pipeline.run(call, admitted, block_bytes, traced)
        except BaseException:
            if begun is not None and log is not None:
                log.withdraw(begun)
            raise
        finally:
            self._newest = self.repeatable
        if begun is not None and log is not None:
            waited = time.perf_counter()
            with traced.current(), span("wait for the state"):
                log.commit(begun, applied.matched, needed)
            self.totals.state_seconds += time.perf_counter() - waited
        if number is not None:
            self.last_batch, self.last_tag = number, call.tag
        self.late = applied.late
        self.totals.calls += 1
        self.totals.matches += applied.matches
        late, unmatchable = call.late, call.unmatchable
        for side in SIDES:
            self.totals.add(f"late_{side}", late[side])
            self.totals.add(f"unmatchable_{side}", unmatchable[side])

    def finish(self) -> pa.Table:
        """What comes out at the end of both streams."""
        with self.breaking():
            rest, matches = self.opened().finish()
        self.totals.matches += matches
        return rest

    def _begin(self, log: StateLog, call: SequencedCall, number: int) -> Future[dict[str, Any]]:
        """Starts to write the rows of a call."""
        sent: dict[str, pa.Table] = {side: call.tables[side] for side in self.plan.streams}
        values = None
        if call.whole is not None:
            own = {side: call.numbers[side] - call.first[side] for side in self.plan.streams}  # as they lie in the file
            values, places = dataclasses.replace(call.whole, rows=own).to_tables()
            sent |= places
        before, definition = self.opened().sequencer.state, self._definition()
        more: dict[str, Any] = {"whole": values, "pushes": call.pushes, "tag": call.tag}
        return log.begin(number, sent, definition, before, dict(call.arrived), **more)

    def _definition(self) -> dict[str, Any]:
        """What defines the join, for the log."""
        return self.plan.definition(self._fixed, self._met)

    # The newest call again

    @property
    def repeatable(self) -> Record | None:
        """The newest call of the log, as long as its rows are not in the windows."""
        return None if self.pipeline is None or self.pipeline.changed else self._newest

    def newest(self) -> Record:
        """The call that can be repeated. Raises StateError."""
        record = self.repeatable
        if record is None:
            raise StateError("no call can be repeated: only the newest one of the state, before any other call")
        return record

    def repeat(self, record: Record, block_bytes: int | None) -> tuple[SequencedCall, Call]:
        """A call of the log, for `run`."""
        assert self.log is not None
        with of_input(lambda: self.plan):
            self.load_table(record.join.get("table"))
            pipeline = self.opened()
            pipeline.sequencer.state = record.before
            tables, _, whole = self._logged(self.log, record)
            call = pipeline.sequence(tables, self.log.pushes(record), whole, block_bytes=block_bytes)
            return call, pipeline.admit(call)

    def check_same(self, record: Record, given: Sides[pa.Table | None]) -> None:
        """Raises ReplayError unless these are the rows of a call of the log, columns added since aside."""
        assert self.log is not None
        logged = self.log.rows(record)[0]
        for side in self.plan.streams:
            table = logged[side]
            own = self.plan.columns[side].kept(given[side])
            names = [name for name in table.column_names if name in own.column_names]
            known, found = (Content.of(each.select(names), None).digest for each in (table, own))
            if side == "right":
                known, found = ({"left": each["right"], "right": each["left"]} for each in (known, found))
            check_same(record.batch, known, found)

    def routes(self, batch: int, partitions: int) -> RoutingTable:
        """By which routes the rows of a call come: the newest, or a later one; see `JoinPart.routes`."""
        sequencer, record = self.opened().sequencer, self.repeatable
        if record is None:
            if batch <= self.last_batch:
                return self.opened().routes or RoutingTable.first(partitions)
            return sequencer.planner.routes(partitions)
        planner = RoutePlanner(sequencer.engine_spec.counts)
        planner.state = record.before.get("routes")
        if batch > record.batch and record.whole is not None and "loads" in record.whole:
            planner.advance(BinHistogram.from_wire(record.whole["loads"]), record.end, {})
        return planner.routes(partitions)

    # Going on

    def _restore(self, log: StateLog) -> None:
        started = time.perf_counter()
        with self.breaking():
            *older, newest = log.records
            for record in older if self.plan.spec.static is None else ():
                self._load(record)
            if newest.join["schemas"] != self._definition()["schemas"]:
                self._logged(log, newest)  # refused now, if its rows do not fit the columns of today
            self.opened().mark()
            self._newest = newest
        self.totals.restore_seconds += time.perf_counter() - started

    def _load(self, record: Record) -> None:
        """Stores the rows of a call of the log."""
        assert self.log is not None
        with of_input(lambda: self.plan):
            pipeline = self.opened()
            pipeline.sequencer.state = record.before
            tables, matched, whole = self._logged(self.log, record)
            pipeline.load(pipeline.sequence(tables, self.log.pushes(record), whole), matched)

    def _logged(self, log: StateLog, record: Record) -> tuple[Sides[pa.Table], Sides[np.ndarray], BatchSummary | None]:
        """The rows of a call in the log, as the join keeps them, the rows that it has matched, and what the rows of
        all partitions reported of it."""
        logged, matched = log.rows(record)
        whole = None if record.whole is None else BatchSummary.from_tables(record.whole, logged)
        tables: Sides[pa.Table] = {}
        for side in self.plan.streams:
            schema = self.plan.columns[side].kept(None).schema
            tables |= dict.fromkeys(self.plan.roles[side], under(schema, logged[side], side, log.store.place))
        return tables, matched, whole

    # A table in the place of a stream

    def meet(self, table: pa.Table | KeptTable) -> None:
        """From the next call on rows of the stream meet this table. Raises StateError where it could not be kept."""
        if isinstance(table, KeptTable):
            self.table = table
        else:
            self.table = GivenTable(table, None if self.log is None else self.log.store)

    def load_table(self, digest: str | None = None) -> None:
        """Has the rows of the table in its window, where others are there: those of the next call, or of an earlier one
        by its digest. They have arrived before all rows of the stream, of which none is held."""
        side, table = self.plan.spec.static, self.table
        wanted = digest or (None if table is None else table.digest)
        if side is None or table is None or wanted == self._met or self.pipeline is None:
            return
        rows = table.rows(digest)
        with self.breaking():
            self._met = None
            if self.pipeline.sequencer.arrived[side] != FIRST_ROW:  # another one was there
                before = self.pipeline.sequencer.state
                self.pipeline.close()
                self._open(self.plan, before)
            place = "memory" if self.log is None else self.log.store.place
            columns = self.plan.columns
            kept = under(columns[side].kept(None).schema, rows, side, place)
            pipeline = self.opened()
            call = pipeline.sequence({side: kept, OTHER[side]: columns[OTHER[side]].kept(None)})
            pipeline.load(call, {OTHER[side]: np.zeros(0, np.int64)})
            pipeline.mark()  # the newest call of the log is still to come
            self._met = wanted

    # What it tells

    @property
    def sender(self) -> list[str] | None:
        """Who sent the rows of the newest call in the log; set to who sends those of the next."""
        return self.log.records[-1].sender if self.log is not None and self.log.records else None

    @sender.setter
    def sender(self, sender: list[str]) -> None:
        if self.log is not None:
            self.log.sender = sender

    @property
    def outdated(self) -> bool:
        """Whether another process has gone on with the log. Raises StateError."""
        return self.log is not None and self.log.outdated

    def stats(self) -> Stats:
        """Counters of the calls so far, and figures of what is held, and of the log."""
        stats, device = self.totals.copy(), self.plan.device
        stats.device, stats.index_name = device.info.name, self.plan.index_name
        stats.device_available_bytes = device.memory_bytes - device.used_bytes
        if self.log is not None:
            stats.state_calls = len(self.log.records)
            stats.state_bytes = sum(record.size for record in self.log.records)
            stats.state_files, stats.sync_seconds = self.log.files, self.log.seconds
        if self.pipeline is None:
            stats.seconds = {"encode": 0.0, "output": 0.0}
        else:
            self.pipeline.fill(stats)
        return stats

    def clear(self) -> None:
        """Deletes the log. Raises StateError."""
        if self.log is not None:
            self.log.clear()

    def close(self) -> None:
        """Frees what is held. Idempotent."""
        if self.pipeline is not None:
            self.pipeline.close()
        if self.log is not None:
            self.log.close()
        self.unusable = self.unusable or "it was closed"
