"""A join whose columns are known: rows to batches, through the engine, to tables; in memory, one call at a time."""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.call import Call, Found, Want, distinct
from muntin.host.engine.as_of_engine import SlotLog
from muntin.host.engine.engine import Engine, Held
from muntin.host.engine.routes import RoutingTable
from muntin.host.engine.row_log import RowLog
from muntin.host.errors import IncompleteError
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.call_errors import of_device, of_output
from muntin.host.join.late_rows import late_rows
from muntin.host.join.materializer import AsOfMaterializer, Materializer, PairBlocks, WholeResult, max_pairs
from muntin.host.join.plan import FIRST_ROW, JoinPlan
from muntin.host.join.sequencer import SequencedCall, Sequencer
from muntin.host.join.stages import open_as_of, open_engine
from muntin.host.join.stats import Stats
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.tracing import OpenSpan

INCOMPLETE = b"muntin.incomplete"
"""Marks a result that lacks pairs, in the metadata of its schema; the value names what is missing."""


@dataclasses.dataclass(frozen=True)
class Applied:
    """What a call has done beside its result.

    Attributes
    ----------
    matches : int
        Pairs found.
    matched : dict of str to ndarray of int64
        The rows that it has matched for the first time, where that is followed.
    late : dict of str to pyarrow.Table
        Its late rows, where they are kept.
    """

    matches: int
    matched: Sides[np.ndarray]
    late: Sides[pa.Table]


class Pipeline:
    """The sequencer, the engine, the row logs and the output of a join.

    Parameters
    ----------
    plan : JoinPlan
        One that is complete.
    before : dict, optional
        What a sequencer knew, to go on from there.
    follow : bool
        Tell by `Applied.matched` which rows a call has matched.

    Attributes
    ----------
    sequencer : Sequencer
    engine : Engine
    logs : dict of str to RowLog
        Rows that may still be asked for; in a self join one, of the left side, which both roles share.
    changed : bool
        A call has changed what is held beside the engine, since `mark`.
    routes : RoutingTable or None
        By which the rows of the newest call came, where they are those of one partition.
    seconds : dict of str to float
        Time per step, beside the engine's.

    Raises
    ------
    MuntinError
        As `Device.open_engine`.
    """

    def __init__(self, plan: JoinPlan, before: dict[str, Any] | None = None, *, follow: bool = False):
        spec, device = plan.spec, plan.device
        left, right = plan.schemas["left"], plan.schemas["right"]
        self.plan, self.changed, self.seconds = plan, False, {"encode": 0.0, "output": 0.0}
        self.routes: RoutingTable | None = None
        self._held = dict.fromkeys(SIDES, Held(None))  # of time windows
        self._counts: Sides[int] | None = None  # rows of each side that a count window holds, in any role
        if spec.counted:
            self._counts = {side: max(getattr(spec, role).count for role in plan.roles[side]) for side in SIDES}
        self._rows_ticket: int | None = None  # of the memory for rows that are kept
        self._aggregates = plan.aggregates()
        kind = RowLog if spec.as_of is None else SlotLog
        own = {
            side: kind(side, schema, threads=device.threads) for side, schema in plan.logged(self._aggregates).items()
        }
        self._own_logs = own
        self.logs: Sides[RowLog] = {role: log for side, log in own.items() for role in plan.roles[side]}
        self.sequencer = Sequencer(spec, left, right, FIRST_ROW, plan.key_bits)
        schema, columns = plan.output_schema, plan.output_columns
        assert schema is not None
        self.engine: Engine
        self._output: Materializer
        if spec.as_of is not None:
            slots = {side: log for side, log in own.items() if isinstance(log, SlotLog)}
            self.engine = as_of = open_as_of(plan, spec.as_of, self.sequencer, slots)
            self._go_on(before)
            as_of.begin(self.sequencer.arrived)
            self._output = AsOfMaterializer(spec, schema, columns, as_of, slots, device.host_memory)
        else:
            self.engine = open_engine(plan, self.sequencer, self._aggregates)
            self._go_on(before)
            self._output = Materializer(
                spec, schema, columns, self.logs, self.sequencer.arrived, device.host_memory,
                self.sequencer.engine_spec.within, self._aggregates,
            )  # fmt: skip
        if follow:
            for bits in self._output.bits.values():
                bits.followed = []

    def _go_on(self, before: dict[str, Any] | None) -> None:
        """Has the sequencer go on from what it knew; a table is still to come."""
        if before is not None:
            self.sequencer.state = before
            if (static := self.plan.spec.static) is not None:
                self.sequencer.arrived[static] = FIRST_ROW

    # A call

    def admitted(
        self, given: Sides[pa.Table | None], pushes: list[tuple[int, int]] | None, whole: BatchSummary | None,
        tag: bytes | None, block_bytes: int | None,
    ) -> tuple[SequencedCall, Call]:  # fmt: skip
        """A call of rows as they are given, and as `admit` has it. Raises as that and `sequence`; SchemaError."""
        start = time.perf_counter()
        tables = {side: columns.kept(given[side]) for side, columns in self.plan.columns.items()}
        call = self.sequence(tables, pushes, whole, tag=tag, block_bytes=block_bytes)
        admitted = self.admit(call)
        self.seconds["encode"] += time.perf_counter() - start
        return call, admitted

    def sequence(
        self,
        tables: Sides[pa.Table],
        pushes: list[tuple[int, int]] | None = None,
        whole: BatchSummary | None = None,
        *,
        tag: bytes | None = None,
        block_bytes: int | None = None,
    ) -> SequencedCall:
        """The rows of a call, as they are kept, in their order; changes nothing that is held.

        Parameters
        ----------
        tables, pushes, whole, tag
            As of `Sequencer.sequence`.
        block_bytes : int, optional
            As of `run`.

        Raises
        ------
        MuntinError
            As `Sequencer.sequence`.
        """
        most = None if block_bytes is None else max_pairs(block_bytes)
        call = self.sequencer.sequence(tables, pushes, whole, tag=tag, max_pairs=most)
        for side in self._aggregates.folds if self._aggregates is not None else ():
            assert self._aggregates is not None
            batch = call.batches[side]
            places = np.searchsorted(call.numbers[side], batch.rows)
            with self.sequencer.as_given(call.orders):
                values = self._aggregates.encode(side, call.tables[side], batch, places)
            call.batches[side] = dataclasses.replace(batch, values=values)
        return call

    def admit(self, call: SequencedCall) -> Call:
        """A call as the engine joins it, with memory for its rows set aside. Raises CapacityError."""
        admitted = self.engine.admit(call)
        more = 0
        for side, log in self._own_logs.items():
            more += log.bytes_of(call.tables[side])
        self._reserve_rows(more)
        return admitted

    def run(
        self, call: SequencedCall, admitted: Call, block_bytes: int | None, traced: OpenSpan
    ) -> Generator[pa.Table, None, Applied]:
        """Joins a call.

        Parameters
        ----------
        call : SequencedCall
        admitted : Call
            What `admit` made of it.
        block_bytes : int or None
            Bytes of a table; None: the result is one.
        traced : OpenSpan
            What the call is traced by.

        Yields
        ------
        pyarrow.Table
            The result.

        Raises
        ------
        IncompleteError
            A part of the device stopped answering: `partial` is what is left of the result.
        MuntinError
            What engines and devices raise.
        """
        incomplete: IncompleteError | None = None
        result: PairBlocks | WholeResult | None = None
        rest: list[pa.Table] = []
        with of_output(self.plan):
            parts = iter(traced.each("engine", self._parts(admitted)))
            try:
                for part in parts if self.plan.paired else _collected(parts):
                    result = result or self._begun(call, block_bytes)
                    yield from traced.each("materialize", self._timed(result.add(part)))
            except IncompleteError as error:
                incomplete = error
            result = result or self._begun(call, block_bytes)
            self._advance(call)
            for table in traced.each("materialize", self._timed(result.end(complete=incomplete is None))):
                if incomplete is not None:
                    rest.append(table)
                else:
                    yield table
            if incomplete is not None:
                partial = pa.concat_tables([self._output.nothing, *rest])
                incomplete.partial = partial.replace_schema_metadata({INCOMPLETE: f"core {incomplete.core}"})
                raise incomplete
            self._expire(call)
            late = late_rows(call, self._late_schemas()) if self.plan.spec.late == "keep" else {}
            return Applied(result.matches, self._matched(), late)

    def load(self, call: SequencedCall, matched: Sides[np.ndarray]) -> None:
        """Stores the rows of a call that was joined before, which has matched these rows for the first time."""
        with of_device(self.plan.device):
            for _ in self.engine.run(self.admit(dataclasses.replace(call, want=Want.NOTHING))):
                pass
        self._keep_rows(call)
        self._advance(call)
        self._output.load(call, matched)
        self._expire(call)

    def finish(self) -> tuple[pa.Table, int]:
        """What comes out at the end of both streams, and how many pairs are in it."""
        found: list[Found] = []
        with of_output(self.plan):
            if self.plan.waits:
                end = self.sequence({side: columns.kept(None) for side, columns in self.plan.columns.items()})
                with of_device(self.plan.device):
                    found = list(self.engine.run(self.engine.admit(dataclasses.replace(end, ended=True))))
            rest, matches = self._output.rest(found)
            for side, log in self._own_logs.items():
                log.trim(self.sequencer.arrived[side])
            return rest, matches

    def _parts(self, admitted: Call) -> Iterator[Found]:
        """What the engine finds."""
        with of_device(self.plan.device):
            yield from self.engine.run(admitted)

    def _begun(self, call: SequencedCall, block_bytes: int | None) -> PairBlocks | WholeResult:
        """What makes the result of a call that the engine has begun to join."""
        self._keep_rows(call)
        if self.plan.spec.form in ("rows", "pairs"):
            return self._output.blocks(call, block_bytes)
        return WholeResult(self._output, call, block_bytes)

    def _timed(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """What comes out of these, its time counted as that of the output."""
        while True:
            start = time.perf_counter()
            table = next(tables, None)
            self.seconds["output"] += time.perf_counter() - start
            if table is None:
                return
            yield table

    def _keep_rows(self, call: SequencedCall) -> None:
        """Takes note of a call's rows, which may come out from now on."""
        self.changed = True
        for side, log in self._own_logs.items():
            if call.whole is not None and call.whole.order is not None:
                log.append(call.first[side], call.tables[side], call.numbers[side])
            else:
                log.append(call.first[side], call.tables[side])

    def _advance(self, call: SequencedCall) -> None:
        """Ends a call that was joined."""
        if call.whole is not None and call.whole.loads is not None:
            self.routes = self.sequencer.planner.routes(call.whole.loads.partitions)
        self.sequencer.advance(call)

    def _matched(self) -> Sides[np.ndarray]:
        matched = {}
        for side, bits in self._output.bits.items():
            if (parts := bits.followed) is not None:
                matched[side] = (
                    parts[0] if len(parts) == 1 else distinct(np.concatenate([np.zeros(0, np.int64), *parts]))
                )
                bits.followed = []
        return matched

    def _late_schemas(self) -> Sides[pa.Schema]:
        return {side: self.plan.schemas[side] for side in self.plan.streams}

    # What is held

    def mark(self) -> None:
        """Has `unchanged` tell whether anything has changed from now on, by the call that was admitted last."""
        self.changed = False

    @property
    def unchanged(self) -> bool:
        """Whether all that is held is sure to be as it was at the last `mark`."""
        return not self.changed and not self.engine.changed

    def oldest_restored(self, side: Side) -> int:
        """The oldest row of a side that a restored join must have."""
        if self.plan.spec.static is not None:  # the table is no state, and rows that met it are not held
            return self.sequencer.arrived[side]
        return min([self._stored(side), *self._unmatched(side)])

    def _unmatched(self, side: Side) -> list[int]:
        """The oldest row of each role of a side that may come out because it has matched, or has not."""
        return [bits.oldest for role, bits in self._output.bits.items() if role in self.plan.roles[side]]

    def _stored(self, side: Side) -> int:
        """The oldest row of a side that a later row may still meet."""
        arrived = self.sequencer.arrived[side] - FIRST_ROW
        if self._counts is not None:
            return int(arrived - self._counts[side])
        roles = self.plan.roles[side]
        return min((row for role in roles if (row := self._held[role].oldest) is not None), default=arrived)

    def _logged(self, side: Side, stored: int) -> int:
        """The oldest row that the log of a side must still have, of which `stored` may still be met."""
        spec = self.plan.spec
        if spec.closing and side == "left" and not spec.self_join:
            oldest = self._held["left"].oldest
            return self.sequencer.arrived[side] if oldest is None else oldest
        if spec.left_alone or spec.anti:  # a row that has matched does not come out any more
            return min(self._unmatched(side), default=self.sequencer.arrived[side])
        return min([stored, *self._unmatched(side)])

    def _expire(self, call: SequencedCall) -> None:
        spec = self.plan.spec
        if self._counts is None:
            with of_device(self.plan.device):
                self._held = self.engine.expire(call.expiry)
        stored = {side: self._stored(side) for side in SIDES}
        for side, log in self._own_logs.items():
            log.trim(self._logged(side, stored[side]))
            if spec.prevailing and (side == "right" or not spec.closing or spec.self_join):
                held = [self._held[role] for role in self.plan.roles[side]]
                firsts = (of.first for of in held if of.first is not None)
                few = distinct(np.concatenate([of.beyond for of in held]))
                log.thin(few, min(firsts, default=self.sequencer.arrived[side]))
        self._reserve_rows(0)
        self.sequencer.condition.forget(stored)

    def _reserve_rows(self, more: int) -> None:
        """Sets memory aside for the rows that are kept for output, and so many bytes more. Raises CapacityError."""
        for log in self._own_logs.values():
            more += log.nbytes
        if more == 0 and self._rows_ticket is None:
            return
        memory = self.plan.device.host_memory
        fresh = self._rows_ticket is None
        self._rows_ticket = memory.reserve(more, "what is kept of rows for output", self._rows_ticket)
        if fresh:
            self._free_rows = weakref.finalize(self, memory.release, self._rows_ticket)

    # Figures

    def fill(self, stats: Stats) -> None:
        """Has the figures of what is held in `stats`."""
        spec, sequencer = self.plan.spec, self.sequencer
        status = self.engine.status()
        stats.seconds = self.seconds | status.seconds
        stats.row_bytes = sum(log.nbytes for log in self._own_logs.values())
        stats.device_bytes, stats.probed_runs = status.device_bytes, status.probed_runs
        stats.engine, stats.index = status.report, status.index
        if "structures" in stats.index["left"]:  # each join core has its own
            stats.index_name = ", ".join(sorted(set(stats.index["left"]["structures"])))
        stats.watermark = sequencer.watermark
        stats.watermark_seconds = sequencer.watermark_seconds
        stats.watermark_side = sequencer.watermark_side
        for side, bits in self._output.bits.items():
            setattr(stats, f"waiting_{side}", bits.waiting)
            stats.row_bytes += bits.nbytes
        for side, waiting in status.waiting.items():
            setattr(stats, f"waiting_{side}", waiting)
        for side in SIDES:
            arrived = sequencer.arrived[side] - FIRST_ROW
            if spec.counted:
                most = getattr(spec, side).count
                rows = min(arrived, most)
            else:
                most, rows = spec.capacity, status.stored[side]
            setattr(stats, f"rows_{side}", arrived)
            setattr(stats, f"window_{side}", rows)
            setattr(stats, f"fill_{side}", None if most is None else rows / most)

    def explain(self) -> str:
        """As `JoinPlan.explain`, with what the engine tells of itself."""
        status = self.engine.status()
        return self.plan.explain(status.device_bytes, status.report)

    def close(self) -> None:
        """Frees what is held. Idempotent."""
        self.engine.close()
        if self._rows_ticket is not None:
            self._free_rows()


def _collected(parts: Iterator[Found]) -> Iterator[Found]:
    """What an engine finds, all of it before the first is given; the device may lose some in the end."""
    found: list[Found] = []
    incomplete: IncompleteError | None = None
    try:
        for part in parts:
            found.append(part)  # noqa: PERF402 (what came before the error is kept)
    except IncompleteError as error:
        incomplete = error
    yield from found
    if incomplete is not None:
        raise incomplete
