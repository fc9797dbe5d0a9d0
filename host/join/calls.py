"""The calls of a join, one at a time: what may be called when, rows that are pushed, and whose turn it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.host.call import Call
from muntin.host.devices import Device, open_device
from muntin.host.engine.routes import RoutingTable
from muntin.host.engine.row_log import empty_table
from muntin.host.engines import Partitions
from muntin.host.errors import DeviceError, SchemaError, UnsupportedError
from muntin.host.frames import ArrowRows, as_table, as_tables
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.call_errors import of_input
from muntin.host.join.collector import Collector
from muntin.host.join.given import batch_number, block_size, check_tag
from muntin.host.join.journal import Journal, Tables
from muntin.host.join.late_rows import late_rows
from muntin.host.join.plan import plan_join
from muntin.host.join.sequencer import SequencedCall
from muntin.host.join.stats import Stats
from muntin.host.native import _core
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec import JoinSpec
from muntin.host.state.tables import KeptTable
from muntin.host.tracing import OpenSpan


class PooledArrays:
    """What NumPy allocates in this thread meanwhile lies in the core's pool: a call touches no memory for the first
    time that the one before it has given back. An array may outlive this; nested in another, it changes nothing."""

    __slots__ = ("_outside",)

    def __enter__(self) -> None:
        self._outside = _core.numpy_memory()

    def __exit__(self, *_: object) -> None:
        _core.numpy_memory(self._outside)


class Calls:
    """What `WindowJoin` does, whose methods have these names: a thread that calls anything while another one's call is
    under way waits for it.

    Parameters
    ----------
    spec : JoinSpec
    collector : Collector
    device : str or Device
        One that is open stays open when the join is closed.
    schemas : dict of str to pyarrow.Schema
        Columns of the sides that are known.
    state, partitions, table, fixed
        As of `WindowJoin.from_spec`.

    Attributes
    ----------
    journal : Journal
    """

    journal: Journal

    def __init__(
        self, spec: JoinSpec, collector: Collector, device: str | Device, schemas: Sides[pa.Schema],
        state: str | Path | None, partitions: int | Partitions, table: ArrowRows | KeptTable | None = None,
        fixed: dict[str, Any] | None = None,
    ):  # fmt: skip
        self.spec, self._collector = spec, collector
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._finished = False
        self._tables: Tables | None = None  # the result of the newest call
        self._device = device if isinstance(device, Device) else open_device(device)
        self._owns_device = self._device is not device
        try:
            plan = plan_join(spec, {}, self._device, partitions=partitions, state=state is not None)
            self.journal = Journal(plan, state, fixed or {})
            schemas = self.journal.logged_columns(schemas)
            if table is not None:
                self.meet(table)
            self.journal.follow(plan.with_sides(schemas))
            if self.journal.log is None or not self.journal.log.records:
                self.journal.load_table()
        except BaseException:
            self.close()
            raise

    # Turns

    def turn(self) -> threading.RLock:
        """The lock of this join's calls."""
        if os.getpid() != self._pid:  # a forked child: a call that was under way will not end here
            self._pid = os.getpid()
            if not self._lock.acquire(blocking=False):
                self._lock = threading.RLock()
                self.journal.unusable = (
                    "the process that opened it forked this one in the middle of a call: open one here"
                )
            else:
                self._lock.release()
        return self._lock

    def _check_usable(self) -> None:
        if self.journal.unusable is not None:
            raise DeviceError(f"this join is no longer usable: {self.journal.unusable}")
        if self._tables is not None and getgeneratorstate(self._tables) not in (GEN_CREATED, GEN_CLOSED):
            raise UnsupportedError(
                "the result of process_blocks() is still being read: take all of its tables, or close() its iterator"
            )

    def _check_call(self, left: object, right: object) -> None:
        self._check_open(left, right)
        if self._collector.pushes:
            raise UnsupportedError("rows that were pushed wait to be joined, and came before these: flush() first")

    def _check_open(self, left: object, right: object) -> None:
        self._check_usable()
        static = self.spec.static
        if self._finished:
            raise UnsupportedError("this join was ended by finish(), and takes no more rows: open another one")
        if self.spec.self_join and right is not None:
            raise SchemaError("a self join has one stream: give its rows as left, and no right")
        for side, rows in zip(SIDES, (left, right), strict=True):
            if rows is not None and static == side:
                raise SchemaError(
                    f"the {side} side is a table: give the rows of the stream as {OTHER[side]}, and no {side}"
                )
        if static is not None and self.journal.table is None:
            raise UnsupportedError(f"the {static} side is a table, and there is none: give it by meet()")

    # Calls

    def meet(self, table: ArrowRows | KeptTable) -> None:
        side = self.spec.static
        if side is None:
            raise UnsupportedError("both sides are streams: give left_table= or right_table= when the join is made")
        with self.turn():
            self._check_usable()
            if not isinstance(table, KeptTable):
                known = self.journal.plan.schemas.get(side)
                table = as_table(f"the table of the {side} side", table, known)
                if known is not None:
                    self._learn({side: table})
            self.journal.meet(table)

    def process(
        self, left: ArrowRows | None, right: ArrowRows | None, *, batch: int | None, tag: bytes | None,
        whole: BatchSummary | None = None,
    ) -> pa.Table:  # fmt: skip
        with self.turn():
            self._check_call(left, right)
            (result,) = self._called(left, right, batch, tag, whole=whole)
            return result

    def process_blocks(
        self, left: ArrowRows | None, right: ArrowRows | None, *, batch: int | None, tag: bytes | None,
        block_bytes: int, whole: BatchSummary | None = None,
    ) -> Tables:  # fmt: skip
        with self.turn():
            self._check_call(left, right)
            return _begun(self._called(left, right, batch, tag, whole=whole, block_bytes=block_size(block_bytes)))

    def push(self, left: ArrowRows | None, right: ArrowRows | None, tag: bytes | None) -> pa.Table | None:
        with self.turn():
            self._check_open(left, right)
            check_tag(tag)
            tables = self._tables_of(left, right)
            self._learn(tables)
            schemas, pushed = self.journal.plan.schemas, {}
            for side, table in tables.items():
                nothing = empty_table(schemas[side]) if side in schemas else pa.table({})
                pushed[side] = nothing if table is None else table
            self._collector.add(pushed, tag)
            return self.flush() if self._collector.due == 0 else None

    def flush(self) -> pa.Table:
        with self.turn():
            self._check_open(None, None)
            waiting = self._collector.waiting()
            tag = self._collector.tags[-1] if self._collector.tags else self.journal.last_tag
            pushes = self._collector.pushes or None
            (result,) = self._called(waiting["left"], waiting["right"], None, tag, pushes=pushes)
            return result

    def process_pushes(self, left: pa.Table | None, right: pa.Table | None, pushes: list[tuple[int, int]]) -> pa.Table:
        with self.turn():
            self._check_open(left, right)
            (result,) = self._called(left, right, None, None, pushes=pushes or None)
            return result

    @property
    def due(self) -> float | None:
        with self.turn():
            return self._collector.due

    def take_back(self) -> tuple[pa.Table | None, pa.Table | None, list[bytes | None]]:
        with self.turn():
            waiting, tags = self._collector.waiting(), self._collector.tags
            self._collector.clear()
            return waiting["left"], waiting["right"], tags

    def repeat(self, left: ArrowRows | None, right: ArrowRows | None) -> pa.Table:
        with self.turn():
            (result,) = self._repeated(left, right, None)
            return result

    def repeat_blocks(self, left: ArrowRows | None, right: ArrowRows | None, block_bytes: int) -> Tables:
        size = block_size(block_bytes)
        with self.turn():
            return _begun(self._repeated(left, right, size))

    def routes(self, batch: int, partitions: int) -> RoutingTable:
        with self.turn():
            return self.journal.routes(batch, partitions)

    def finish(self) -> pa.Table:
        with self.turn(), PooledArrays():
            self._check_usable()
            if self._collector.pushes:
                raise UnsupportedError("rows that were pushed wait to be joined: flush() first")
            self.journal.catch_up()
            self._finished = True
            return self.journal.finish()

    def _called(
        self, left: ArrowRows | None, right: ArrowRows | None, batch: int | None, tag: bytes | None, *,
        pushes: list[tuple[int, int]] | None = None, whole: BatchSummary | None = None, block_bytes: int | None = None,
    ) -> Tables:  # fmt: skip
        """The result of a call: one table where `block_bytes` is None."""
        journal = self.journal
        with self.turn(), PooledArrays():
            check_tag(tag)
            number = batch_number(batch, journal.last_batch)
            tables, known = self._tables_of(left, right), journal.plan
            try:
                with of_input(lambda: journal.plan):
                    self._learn(tables)
                    journal.catch_up()
                    journal.load_table()
                    call, admitted = journal.opened().admitted(tables, pushes, whole, tag, block_bytes)
            except BaseException:
                if journal.pipeline is None:
                    journal.plan = known  # a refused first call teaches nothing
                raise
        yield from self._joined(call, admitted, number, block_bytes)

    def _repeated(self, left: ArrowRows | None, right: ArrowRows | None, block_bytes: int | None) -> Tables:
        with self.turn(), PooledArrays():
            self._check_usable()
            record = self.journal.newest()
            if left is not None or right is not None:
                self.journal.check_same(record, self._tables_of(left, right))
            call, admitted = self.journal.repeat(record, block_bytes)
        yield from self._joined(call, admitted, None, block_bytes)

    def _joined(self, call: SequencedCall, admitted: Call, number: int | None, block_bytes: int | None) -> Tables:
        """The result of a call, which has the caller's number; None: it is in the state already.

        The lock is held but while the caller has a table. A caller that leaves then ends the result, not the call.
        """
        journal, left = self.journal, False
        rows = {f"{side}_rows": len(table) for side, table in call.tables.items()}
        traced = OpenSpan("join", batch=number, device=self._device.info.name, **rows)
        journal.opened().mark()
        self._tables = tables = journal.run(call, admitted, number, block_bytes, traced)
        with journal.breaking(marked=True):
            try:
                while True:
                    with self.turn(), PooledArrays():
                        if journal.unusable is not None:
                            if left:
                                return
                            raise DeviceError(f"this join is no longer usable: {journal.unusable}")
                        table = next(tables, None)
                        if table is None:
                            if number is not None:  # pushed rows that wait are not those of a call that is repeated
                                self._collector.clear()
                            return
                    if not left:
                        try:
                            yield table
                        except GeneratorExit:
                            left = True
            except BaseException as error:
                traced.end(error)
                raise
            finally:
                traced.end()

    def _tables_of(self, left: ArrowRows | None, right: ArrowRows | None) -> Sides[pa.Table | None]:
        """The rows of both sides, as a caller gives them."""
        schemas = self.journal.plan.schemas
        sides = {f"the {side} batch": side for side in SIDES}
        given = {what: rows for what, rows in zip(sides, (left, right), strict=True) if rows is not None}
        tables = as_tables(given, {what: schemas[side] for what, side in sides.items() if side in schemas})
        return {side: tables.get(what) for what, side in sides.items()}

    def _learn(self, tables: Mapping[Side, pa.Table | None]) -> None:
        """Has the columns of batches be those of their sides."""
        plan = self.journal.plan
        for side, table in tables.items():
            if table is not None:
                plan = plan.with_columns(side, table.schema)
        if plan is not self.journal.plan:
            self.journal.follow(plan)

    # Figures

    @property
    def late(self) -> Sides[pa.Table]:
        if self.spec.late != "keep":
            raise UnsupportedError("late rows are dropped: give late='keep' when the join is made")
        with self.turn():
            plan = self.journal.plan
            schemas = {side: plan.schemas[side] for side in plan.streams if side in plan.schemas}
            return dict(self.journal.late or late_rows(None, schemas))

    @property
    def stats(self) -> Stats:
        with self.turn():
            return self.journal.stats()

    def explain(self) -> str:
        with self._lock:
            pipeline = self.journal.pipeline
            return self.journal.plan.explain() if pipeline is None else pipeline.explain()

    def close(self) -> None:
        with self.turn():
            if hasattr(self, "journal"):
                self.journal.close()
            if self._owns_device:
                self._device.close()


def _begun(tables: Tables) -> Tables:
    """The same tables, the first of them made already, and with it whatever can be refused."""

    def after(first: pa.Table | None) -> Tables:
        try:
            if first is not None:
                yield first
                yield from tables
        finally:
            tables.close()

    return after(next(tables, None))
