"""The operator: a sliding-window join of two streams of Arrow batches."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import json
import os
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from muntin.host.aggregates import Aggregate
from muntin.host.arguments import is_name
from muntin.host.arrays import PooledArrays
from muntin.host.devices import Device, open_device
from muntin.host.engines import EngineKind, Inner, Outer, Partitions, Steps, open_partitioning
from muntin.host.errors import (
    DeviceError,
    IncompleteError,
    ReplayError,
    SchemaError,
    StateError,
    UnsupportedError,
    WindowError,
)
from muntin.host.frames import ArrowColumns, ArrowRows, as_schema, as_table, as_tables
from muntin.host.index import Index
from muntin.host.join.aggregate_engine import AggregateEngine, PairAggregateEngine
from muntin.host.join.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.join.as_of_engine import AsOfEngine, AsOfMaterializer, SlotLog
from muntin.host.join.boundary_generator import BoundaryGenerator
from muntin.host.join.call_errors import of_device, of_input, of_output
from muntin.host.join.collector import MAX_ROWS, Collector
from muntin.host.join.condition import in_words
from muntin.host.join.driver_choice import ChoosingEngine
from muntin.host.join.engine import OTHER, SIDES, Call, Engine, Found, Punctuation, RunEvents, Want
from muntin.host.join.fitting import fitting
from muntin.host.join.kept_types import is_kept_as_is, kept
from muntin.host.join.late_rows import late_rows
from muntin.host.join.materializer import Materializer, PairBlocks, most_pairs, slices
from muntin.host.join.partitioned_engine import ClosingPartitions, PartitionedEngine, open_partitions
from muntin.host.join.range_mirror import RUNS
from muntin.host.join.residual_engine import ResidualEngine
from muntin.host.join.routes import Routes
from muntin.host.join.row_log import RowLog, check_columns, empty_table
from muntin.host.join.sequencer import SequencedCall, Sequencer
from muntin.host.join.whole_call import WholeCall
from muntin.host.keys.constants import whole_number
from muntin.host.keys.content import Content, check_same
from muntin.host.predicates import AllOf, AsOf, Predicate, Where
from muntin.host.public import public
from muntin.host.spec import JoinSpec
from muntin.host.state import Record, StateLog, open_store
from muntin.host.state.log import schema_of, schema_text, under
from muntin.host.state.tables import GivenTable, KeptTable
from muntin.host.stats import Stats
from muntin.host.tracing import OpenSpan, span
from muntin.host.windows import Rows, Watermark, Within

BLOCK_BYTES = 32 << 20
"""Bytes of a table of `WindowJoin.process_blocks`, by default."""

Tables = Generator[pa.Table, None, None]

INCOMPLETE = b"muntin.incomplete"
"""Marks a result that lacks pairs, in the metadata of its schema; the value names what is missing."""


@public("muntin")
class WindowJoin:
    """A sliding-window join of two streams.

    Takes the parameters of `JoinSpec`, of which `on` may also be text, such as ``"left.venue = right.venue AND
    right.price BETWEEN left.limit - 5 AND left.limit + 5"``, or the name of a column of both sides, where both schemas
    are given, and `within` a tuple of the four parameters of `Within`; and:

    Parameters
    ----------
    device : str or Device
        ``"cpu"``, ``"cpu:threads=N"``, ``"opencl"``, ``"numpy"``, ``"sim:bisort"``, ``"sim:splitjoin"``, see
        `muntin.hardware.list_devices`; or an open device, which stays open when the join is closed.
    threads : int, optional
        The most threads that a call uses, for ``device="cpu"``; by default those of the process's pool.
    state : str or Path, optional
        A folder, or the address of an object store (``"s3://bucket/prefix"``), that keeps what the join needs to go on
        in another process: a log of its calls. Each call is durable before `process` returns. A join opened with state
        that is there goes on from it; its device, index and threads may differ, its condition, windows and columns not,
        but for added columns that may be NULL.
    partitions : int or Partitions
        Into how many windows the rows go, each joined by a thread of its own; the result is the same. They go by the
        values that are compared for equality, else by ranges of the key, else by subwindows in turn; an as-of join by
        its `by` columns. A join that goes on from its state may have another number.
    max_rows : int
        For `push`: rows of both sides that are gathered before they are joined.
    max_delay : str or datetime.timedelta, optional
        For `push`: how long a row may wait for others, such as ``"20 ms"``.
    left_table, right_table : rows as of `process`, optional
        One of the two: this side is a table, and the other one a stream, of which each row meets, at its arrival, the
        rows of the table that match; see `JoinSpec.static`. It is kept beside the state, where there is one, and is not
        part of it: a join that goes on from its state may have another table, and `repeat` meets the one of its call.
    left_schema, right_schema : pyarrow.Schema, optional
        Columns of each side; also whatever has `__arrow_c_schema__`, or a table or frame with these columns. By default
        those in the state, or else those of the first batch of the side; then the first call must bring a batch of
        each, which may be empty. A self join has one, `left_schema`.

    Raises
    ------
    PredicateError, WindowError, SchemaError, KeyTypeError, UnsupportedError
        If the join makes no sense, or the device does not have its index.
    DeviceError
        If there is no such device.
    StateError
        If the state cannot be read, is damaged (the message names the file), or is that of another join.
    CapacityError
        If the windows do not fit it, with the bytes needed and available. Raised by the constructor where both
        schemas are given, else by the first call.

    Notes
    -----
    A join takes one call at a time: a thread that calls anything while another one's call is under way waits for it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import Band, Rows, WindowJoin
    >>> with WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(1000)) as join:
    ...     first = join.process(bids, asks)
    ...     second = join.process(right=pa.table({"price": [22]}))
    ...     rest = join.finish()
    >>> first.to_pylist()
    [{'limit': 10, 'price': 11}, {'limit': 10, 'price': 12}]
    >>> second.to_pylist()
    [{'limit': 20, 'price': 22}]
    """

    _first_row = 0  # the arrival number of the first row of each stream

    def __init__(
        self,
        *,
        on: Predicate | AllOf | AsOf | Where | str | Sequence[str],
        how: str = "inner",
        left: Rows | int | None = None,
        right: Rows | int | None = None,
        within: Within | tuple[str, str, Any, Any] | None = None,
        watermark: Watermark | None = None,
        late: str = "drop",
        sequence: str | None = None,
        form: str = "rows",
        aggregates: Aggregate | str | Sequence[Aggregate | str] = (),
        at: str = "arrival",
        order: str | Outer | Inner = "none",
        select: Sequence[str] | None = None,
        suffix: str = "_right",
        index: str | Index = "auto",
        engine: str | EngineKind = "auto",
        capacity: int | None = None,
        self_join: bool = False,
        itself: bool = False,
        device: str | Device = "cpu",
        threads: int | None = None,
        state: str | Path | None = None,
        partitions: int | Partitions = 1,
        left_table: ArrowRows | None = None,
        right_table: ArrowRows | None = None,
        left_schema: ArrowColumns | None = None,
        right_schema: ArrowColumns | None = None,
        max_rows: int = MAX_ROWS,
        max_delay: str | dt.timedelta | None = None,
    ):
        self._collector = Collector(max_rows, max_delay)
        if threads is not None:
            if device != "cpu":
                raise DeviceError(f"threads={threads!r} is for device='cpu', not {device!r}")
            device = f"cpu:threads={threads}"
        sides = {"left": left_table, "right": right_table}
        given = {side: as_table(f"{side}_table", rows) for side, rows in sides.items() if rows is not None}
        left_schema, right_schema = _schemas(left_schema, right_schema)
        if len(given) > 1:
            raise UnsupportedError(
                "left_table= and right_table= are given: a table meets a stream. Give the rows of one to process()"
            )
        spec: dict[str, Any] = {
            "on": on, "how": how, "left": left, "right": right, "within": within, "watermark": watermark,
            "sequence": sequence, "form": form, "aggregates": aggregates, "at": at, "order": order, "select": select,
            "suffix": suffix, "index": index, "engine": engine, "capacity": capacity, "self_join": self_join,
            "itself": itself, "static": next(iter(given), None), "late": late,
        }  # fmt: skip
        for side, table in given.items():
            if side == "left":
                left_schema = table.schema
            else:
                right_schema = table.schema
        if isinstance(on, str):
            spec |= _condition_of(spec, left_schema, left_schema if self_join else right_schema)
        self._open(JoinSpec(**spec), device, left_schema, right_schema, state, partitions, *given.values())

    @classmethod
    def from_spec(
        cls,
        spec: JoinSpec,
        *,
        device: str | Device = "cpu",
        left_schema: ArrowColumns | None = None,
        right_schema: ArrowColumns | None = None,
        state: str | Path | None = None,
        partitions: int | Partitions = 1,
        table: ArrowRows | KeptTable | None = None,
        fixed: dict[str, Any] | None = None,
    ) -> Self:
        """The join a specification describes; `table` is the side that is one. A state has what is `fixed`, and goes on
        with the same alone. Raises as the constructor."""
        join = cls.__new__(cls)
        join._collector = Collector()
        join._open(spec, device, *_schemas(left_schema, right_schema), state, partitions, table, fixed)
        return join

    def _open(
        self,
        spec: JoinSpec,
        device: str | Device,
        left_schema: pa.Schema | None,
        right_schema: pa.Schema | None,
        state: str | Path | None,
        partitions: int | Partitions,
        table: ArrowRows | KeptTable | None = None,
        fixed: dict[str, Any] | None = None,
    ) -> None:
        self.spec = spec
        self._fixed = fixed or {}
        self._table: GivenTable | KeptTable | None = None  # what the stream meets from the next call on
        self._met: str | None = None  # the digest of the table that is in its window
        self._partitions = open_partitioning(partitions)
        self._state: StateLog | None = None
        self._repeatable: Record | None = None  # the newest call of the state, whose rows are not in the windows yet
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._totals = Stats()
        self._seconds = {"encode": 0.0, "output": 0.0}
        self._broken: str | None = None
        self._rows_ticket: int | None = None  # of the memory for rows that are kept
        self._late: dict[str, pa.Table] = {}  # of the newest call, where they are kept
        self._tables: Generator[pa.Table, None, None] | None = None  # the result of the newest call
        self._changed = False  # that call has changed what is held beside the engine
        self._last_batch = -1
        self._last_tag: bytes | None = None
        self._routes: Routes | None = None  # by which the rows of the newest call came
        self._finished = False
        self._schemas: dict[str, pa.Schema] = {}
        self._kept: dict[str, pa.Schema] = {}  # the columns of each side that are needed
        self._strict: dict[str, list[str]] = {}  # those of them that are not null
        self._as_is: dict[str, bool] = {}  # whether these are kept with the types that they have
        self._logs: dict[str, RowLog] = {}
        self._engine: Engine | None = None
        self._owns_device = not isinstance(device, Device)
        self._device = device if isinstance(device, Device) else open_device(device)
        self._of_device = functools.partial(of_device, self._device.info.name)
        self._of_input = functools.partial(of_input, self._kept)
        self._of_output = functools.partial(of_output, self._kept, self._device)
        try:
            if spec.self_join and left_schema is not None and right_schema not in (None, left_schema):
                raise SchemaError("the two sides of a self join are one stream, but their columns differ")
            self._engine_kind = self._device.engine(spec.engine)
            self._index = self._device.index(spec.index, self._engine_kind)
            self._index, self._partitions = fitting(
                spec, self._device, self._index, self._engine_kind, self._partitions, state=state is not None
            )
            if state is not None:
                started = time.perf_counter()
                self._state = StateLog(open_store(state))
                self._totals.restore_seconds = time.perf_counter() - started
                left_schema, right_schema = self._logged_schemas(left_schema, right_schema)
            if table is not None:
                self.meet(table)
            for side, schema in (("left", left_schema), ("right", right_schema)):
                if schema is not None:
                    self._learn(side, schema)
            if self._state is None or not self._state.records:
                self._load_table()
        except BaseException:
            self.close()
            raise

    # Public

    def meet(self, table: ArrowRows | KeptTable) -> None:
        """From the next call on rows of the stream meet this table, in the place of the one before.

        Parameters
        ----------
        table : rows as of `process`
            With the columns of the one before.

        Raises
        ------
        UnsupportedError
            Neither side is a table.
        SchemaError
            Its columns are others.
        StateError
            It could not be kept beside the state.
        """
        side = self.spec.static
        if side is None:
            raise UnsupportedError("both sides are streams: give left_table= or right_table= when the join is made")
        with self._turn():
            self._check_usable()
            if isinstance(table, KeptTable):
                self._table = table
                return
            rows = as_table(f"the table of the {side} side", table, self._schemas.get(side))
            if side in self._schemas:
                self._learn(side, rows.schema)
            self._table = GivenTable(rows, None if self._state is None else self._state.store)

    def process(
        self,
        left: ArrowRows | None = None,
        right: ArrowRows | None = None,
        *,
        batch: int | None = None,
        tag: bytes | None = None,
    ) -> pa.Table:
        """Joins the next rows of both streams.

        Parameters
        ----------
        left, right : rows, or None
            New rows of each side, any number: an Arrow table, record batch or reader, whatever gives Arrow data
            (`__arrow_c_stream__` or `__arrow_c_array__`: frames of pandas and Polars, relations of DuckDB), or an
            iterable of them, which is read to its end; without a copy. A self join takes its one stream as `left`.
        batch : int, optional
            The caller's number for the call, which `last_batch` gives back; by default the last one and 1.
        tag : bytes, optional
            What the caller wants back by `last_tag` once the call is applied, such as the positions up to which it has
            read its sources. It is in the state if and only if the call is.

        Returns
        -------
        pyarrow.Table
            The pairs whose later row is in this call, in the form and order of the specification; then, in outer and
            anti joins, the rows that from now on can match nothing, in the order of their arrival. In semi joins each
            left row whose first match that is.

        Raises
        ------
        SchemaError
            If a side's columns differ from those of earlier calls, or are still unknown; if what is given is no rows.
        KeyTypeError
            If a key or time does not fit 64 bits.
        OrderError
            If a sequence value is NULL or lies before one already processed.
        CapacityError
            If the rows do not fit.
        UnsupportedError
            After `finish`.
        ResultTooLargeError
            If the result does not fit in memory.
        SumOverflowError
            If a row has a value of which sums or means of ``form="aggregate"`` may not fit their type.
        IncompleteError
            If a part of the device stopped answering. `partial` is the result without the pairs that it would have
            found, and without unmatched rows.
        DeviceError, StateError
            If the device failed, or the state could not be written.
        ReplayError
            If `batch` is not above `last_batch`.
        StateError
            If `tag` is not bytes.

        Notes
        -----
        A call that raises any but `CapacityError`, `DeviceError`, `StateError` and KeyboardInterrupt has changed
        nothing. After these neither, where the join is `usable`; else nothing of the call is in its state, if it has
        one, which can be opened again, but for a call whose number `last_batch` then has: `repeat` gives its result.
        """
        with self._turn():
            self._check_call(left, right)
            return self._call(left, right, batch, tag=tag)

    def process_blocks(
        self,
        left: ArrowRows | None = None,
        right: ArrowRows | None = None,
        *,
        batch: int | None = None,
        tag: bytes | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> Tables:
        """As `process`, with the result in tables of bounded size, in the same order, so that a call that finds many
        pairs takes little memory.

        Parameters
        ----------
        left, right, batch, tag
            As of `process`.
        block_bytes : int
            Bytes of a table, at least 1; or those of one row of the result, where that is larger.

        Returns
        -------
        generator of pyarrow.Table
            The result, cut. A table may be empty: the join has worked for a while without a result.

        Raises
        ------
        UnsupportedError
            If the result of an earlier call is still being read: take all of it, or `close()` its iterator.
        MuntinError
            What `process` raises; all but `ResultTooLargeError`, `IncompleteError`, `DeviceError` and `StateError` at
            once, before the first table. An `IncompleteError` has as `partial` what is left of the result.

        Notes
        -----
        A call is applied as a whole. An iterator that is closed or dropped before its end finishes its call without the
        rest of the result. Until the end the join takes no other call. A join with state is durable at the end.

        Tables are as small as this with `form="rows"` and ``"pairs"``, on engines that find pairs in parts: see
        docs/python.md.
        """
        with self._turn():
            self._check_call(left, right)
            return self._call_blocks(left, right, batch, block_bytes, tag=tag)

    def push(
        self, left: ArrowRows | None = None, right: ArrowRows | None = None, *, tag: bytes | None = None
    ) -> pa.Table | None:
        """Takes rows of both streams, and joins all that wait once they are `max_rows`, or one has waited `max_delay`.

        Rows arrive in the order of the pushes, within a push by the sequence column, else left before right: results
        are those of one `process` for each push, but that rows which are joined together are one call: none of them is
        late against another, and unmatched rows come out with the call.

        Parameters
        ----------
        left, right
            As of `process`.
        tag : bytes, optional
            As of `process`: the call that joins the rows has that of the last push before it.

        Returns
        -------
        pyarrow.Table or None
            The result of the call, as of `process`; None where the rows wait.

        Raises
        ------
        SchemaError
            If a side's columns differ from those of earlier calls. The rows of this push are not taken.
        MuntinError
            What `process` raises, for all rows that wait: they wait on, as the call has changed nothing, until
            `take_back` gives them back.
        """
        with self._turn():
            self._check_open(left, right)
            _check_tag(tag)
            tables = self._tables_of(left, right)
            for side, table in tables.items():
                if table is not None:
                    self._learn(side, table.schema)
            for side, table in tables.items():
                if table is None:
                    schema = self._schemas.get(side)
                    tables[side] = pa.table({}) if schema is None else empty_table(schema)
            self._collector.add(tables, tag)
            return self.flush() if self._collector.due == 0 else None

    def flush(self) -> pa.Table:
        """Joins the rows that were pushed and wait, if there are any. Returns and raises as `process`."""
        with self._turn():
            self._check_open(None, None)
            waiting = self._collector.waiting()
            tag = self._collector.tags[-1] if self._collector.tags else self._last_tag
            return self._call(waiting["left"], waiting["right"], None, self._collector.pushes or None, tag=tag)

    def process_pushes(self, left: pa.Table | None, right: pa.Table | None, pushes: list[tuple[int, int]]) -> pa.Table:
        """Joins rows that a caller has gathered: as `push` for each, then `flush`.

        `pushes` are the left and right rows of each push, in order. Returns and raises as `process`.
        """
        with self._turn():
            self._check_open(left, right)
            return self._call(left, right, None, pushes or None)

    @property
    def due(self) -> float | None:
        """Seconds until rows that wait are to be flushed, for a timer. None: nothing waits, or no time is set."""
        with self._turn():
            return self._collector.due

    def take_back(self) -> tuple[pa.Table | None, pa.Table | None, list[bytes | None]]:
        """Gives the left and right rows that were pushed and wait back to the caller, with the tag of each push since
        the newest call that had rows or a tag; the join forgets them."""
        with self._turn():
            waiting, tags = self._collector.waiting(), self._collector.tags
            self._collector.clear()
            return waiting["left"], waiting["right"], tags

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise DeviceError(f"this join is no longer usable: {self._broken}")
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
        if self._finished:
            raise UnsupportedError("this join was ended by finish(), and takes no more rows: open another one")
        if self.spec.self_join and right is not None:
            raise SchemaError("a self join has one stream: give its rows as left, and no right")
        for side, rows in zip(SIDES, (left, right), strict=True):
            if rows is not None and self.spec.static == side:
                raise SchemaError(
                    f"the {side} side is a table: give the rows of the stream as {OTHER[side]}, and no {side}"
                )
        if self.spec.static is not None and self._table is None:
            raise UnsupportedError(f"the {self.spec.static} side is a table, and there is none: give it by meet()")

    def _call(
        self,
        left: ArrowRows | None,
        right: ArrowRows | None,
        batch: int | None,
        pushes: list[tuple[int, int]] | None = None,
        whole: WholeCall | None = None,
        tag: bytes | None = None,
    ) -> pa.Table:
        """See `process`; `pushes` as of `Sequencer.sequence`."""
        (result,) = self._called(left, right, batch, pushes, whole, tag, None)
        return result

    def _call_blocks(
        self,
        left: ArrowRows | None,
        right: ArrowRows | None,
        batch: int | None,
        block_bytes: int,
        whole: WholeCall | None = None,
        tag: bytes | None = None,
    ) -> Tables:
        """See `process_blocks`."""
        return _begun(self._called(left, right, batch, None, whole, tag, _block_bytes(block_bytes)))

    def _called(
        self,
        left: ArrowRows | None,
        right: ArrowRows | None,
        batch: int | None,
        pushes: list[tuple[int, int]] | None,
        whole: WholeCall | None,
        tag: bytes | None,
        block_bytes: int | None,
    ) -> Tables:
        """The result of a call: one table where `block_bytes` is None."""
        with self._turn(), PooledArrays():
            _check_tag(tag)
            number = self.last_batch + 1 if batch is None else batch
            if number <= self.last_batch:
                raise ReplayError(f"batch {number} comes after batch {self.last_batch}: numbers ascend")
            tables = self._tables_of(left, right)
            schemas = dict(self._schemas)
            try:
                with self._of_input():
                    for side, table in tables.items():
                        if table is not None:
                            self._learn(side, table.schema)
                    if self._engine is None:
                        raise self._unknown_columns()
                    self._load_newest()
                    self._load_table()
                    needed = {side: self._needed(side, table) for side, table in tables.items()}
                    call, admitted = self._sequence(needed, pushes, whole, tag, block_bytes)
            except BaseException:
                if self._engine is None:
                    self._schemas = schemas  # a refused first call teaches nothing
                raise
        yield from self._joined(self._engine, call, admitted, number, block_bytes)

    @property
    def usable(self) -> bool:
        """Whether it takes more calls: it was not closed, and no call has failed half-way."""
        return self._broken is None

    @property
    def last_batch(self) -> int:
        """The number of the newest call that was applied, in this process or an earlier one; -1 before the first."""
        return self._last_batch

    @property
    def last_tag(self) -> bytes | None:
        """The tag of the newest call that was applied, in this process or, where there is state, an earlier one; None
        before the first, and of a call without.

        Examples
        --------
        >>> import pyarrow as pa, tempfile
        >>> from muntin import Rows, WindowJoin
        >>> options = {"on": ["id"], "left": Rows(9), "right": Rows(9), "state": tempfile.mkdtemp()}
        >>> rows = pa.table({"id": [1, 2]})
        >>> with WindowJoin(**options) as join:
        ...     _ = join.process(rows, rows, tag=b"orders 2, quotes 2")
        >>> with WindowJoin(**options) as join:
        ...     join.last_tag
        b'orders 2, quotes 2'
        """
        return self._last_tag

    @property
    def sender(self) -> list[str] | None:
        """Who sent the rows of the newest call in the state; set it to who sends those of the next."""
        return self._state.records[-1].sender if self._state is not None and self._state.records else None

    @sender.setter
    def sender(self, sender: list[str]) -> None:
        if self._state is not None:
            self._state.sender = sender

    @property
    def late(self) -> dict[str, pa.Table]:
        """The late rows of the newest call, by side ("left" alone in a self join): all their columns, in the order of
        their arrival. They are those of its result: a process that died before it took them has them again by `repeat`.

        Raises
        ------
        UnsupportedError
            The join was not opened with ``late="keep"``.
        """
        if self.spec.late != "keep":
            raise UnsupportedError("late rows are dropped: give late='keep' when the join is made")
        with self._turn():
            return dict(self._late or late_rows(None, self._late_schemas()))

    def _late_schemas(self) -> dict[str, pa.Schema]:
        return {side: schema for side, schema in self._schemas.items() if side == "left" or not self.spec.self_join}

    def repeat(self, left: ArrowRows | None = None, right: ArrowRows | None = None) -> pa.Table:
        """The result of the newest call in the state, for a process that died before it was taken.

        Parameters
        ----------
        left, right : rows as of `process`, or None
            The rows of the call, if the caller has them: they are compared with those in the state.

        Returns
        -------
        pyarrow.Table
            As `process` gave it, the order of rows aside.

        Raises
        ------
        StateError
            If the join was not opened with state that has a call, or has been called since.
        ReplayError
            If the rows are not those of the call. Nothing has changed then.
        """
        with self._turn():
            (result,) = self._repeated(left, right, None)
            return result

    def repeat_blocks(
        self,
        left: ArrowRows | None = None,
        right: ArrowRows | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> Tables:
        """As `repeat`, in tables, as `process_blocks` gives them."""
        size = _block_bytes(block_bytes)
        with self._turn():
            return _begun(self._repeated(left, right, size))

    def _repeated(
        self,
        left: ArrowRows | None,
        right: ArrowRows | None,
        block_bytes: int | None,
    ) -> Tables:
        with self._turn(), PooledArrays():
            self._check_usable()
            if self._repeatable is None or self._engine is None or self._state is None:
                raise StateError("no call can be repeated: only the newest one of the state, before any other call")
            record, log = self._repeatable, self._state
            if left is not None or right is not None:
                self._check_repeat(record, self._tables_of(left, right))
            with self._of_input():
                self._load_table(record.join.get("table"))
                self._sequencer.state = record.before
                tables, _, whole = self._logged(record)
                call, admitted = self._sequence(tables, log.pushes(record), whole, None, block_bytes)
        yield from self._joined(self._engine, call, admitted, None, block_bytes)

    def finish(self) -> pa.Table:
        """Ends both streams.

        Returns
        -------
        pyarrow.Table
            In outer and anti joins, the rows that have matched nothing and have not come out, in the order of their
            arrival. Otherwise, and when called again, no rows.

        Raises
        ------
        SchemaError
            If a side's columns are still unknown.
        UnsupportedError
            If rows that were pushed wait.
        DeviceError
            If the join was closed, or is no longer usable.
        """
        with self._turn(), PooledArrays():
            self._check_usable()
            if self._collector.pushes:
                raise UnsupportedError("rows that were pushed wait to be joined: flush() first")
            if self._engine is None:
                raise self._unknown_columns()
            self._load_newest()
            self._finished = True
            with self._breaking(self._engine):
                return self._rest(self._engine)

    def _rest(self, engine: Engine) -> pa.Table:
        """What comes out at the end of both streams."""
        found: list[Any] = []
        with self._of_output():
            with self._of_device():
                if isinstance(engine, AggregateEngine | ClosingPartitions) and self.spec.closing:
                    found = [engine.closed(None)]
                elif isinstance(engine, AsOfEngine):
                    found = [engine.ready(dict.fromkeys(SIDES), everything=True)]
            if found:
                rest, matches = self._materializer.closed(found)
                self._totals.matches += matches
            else:
                rest = self._materializer.rest()
            for side, log in self._kept_logs():
                log.trim(self._sequencer.arrived[side])
            return rest

    def _unknown_columns(self) -> SchemaError:
        side = "right" if "left" in self._schemas else "left"
        return SchemaError(
            f"the columns of the {side} side are not known yet: give {side}_schema= when the join is made, "
            f"or a batch of the {side} side, which may be empty, in the first call"
        )

    @property
    def stats(self) -> Stats:
        """Counters since the join was opened, as of now."""
        with self._turn():
            stats = self._totals.copy()
            stats.device = self._device.info.name
            stats.index_name = "" if isinstance(self.spec.on, AsOf) else self._index.name
            stats.device_available_bytes = self._device.memory_bytes - self._device.used_bytes
            stats.seconds = dict(self._seconds)
            stats.row_bytes = sum(log.nbytes for log in {id(log): log for log in self._logs.values()}.values())
            if self._state is not None:
                stats.state_calls = len(self._state.records)
                stats.state_bytes = sum(record.size for record in self._state.records)
                stats.state_files, stats.sync_seconds = self._state.files, self._state.seconds
            if self._engine is not None:
                stats.seconds |= self._engine.seconds
                stats.device_bytes = self._engine.device_bytes
                stats.probed_runs = self._engine.probed_runs
                stats.engine = self._engine.report()
                stats.index = {side: self._engine.figures(side) for side in SIDES}
                if "structures" in stats.index["left"]:  # each join core has its own
                    stats.index_name = ", ".join(sorted(set(stats.index["left"]["structures"])))
                stats.watermark = self._sequencer.watermark
                stats.watermark_seconds = self._sequencer.watermark_seconds
                stats.watermark_side = self._sequencer.watermark_side
                for side, bits in self._materializer.bits.items():
                    setattr(stats, f"waiting_{side}", bits.waiting)
                    stats.row_bytes += bits.nbytes
                for side, waiting in self._engine.waiting().items():
                    setattr(stats, f"waiting_{side}", waiting)
                for side in SIDES:
                    arrived = self._sequencer.arrived[side] - self._first_row
                    if self.spec.counted:
                        most = getattr(self.spec, side).count
                        rows = min(arrived, most)
                    else:
                        most, rows = self.spec.capacity, self._engine.stored_rows(side)
                    setattr(stats, f"rows_{side}", arrived)
                    setattr(stats, f"window_{side}", rows)
                    setattr(stats, f"fill_{side}", None if most is None else rows / most)
            return stats

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each side, by "left" and "right", as far as they are known."""
        return dict(self._schemas)

    @property
    def output_schema(self) -> pa.Schema | None:
        """The schema of the result, or None while a side's columns are unknown."""
        if len(self._schemas) < len(SIDES):
            return None
        return self.spec.output_schema(self._schemas["left"], self._schemas["right"])

    def explain(self) -> str:
        """How the join is carried out: device, index, which part of the condition drives, which are residual; as text.

        Raises
        ------
        SchemaError
            If the columns of a side are not known yet.
        """
        with self._lock:
            for side in SIDES:
                if side not in self._schemas:
                    raise SchemaError(f"the columns of the {side} side are not known yet: give {side}_schema=")
            lines = [f"device:    {self._device.info.name}", f"engine:    {self._engine_name}"]
            if not isinstance(self.spec.on, AsOf):
                lines.append(f"index:     {self._index.name}")
            engine = self._engine.engine if isinstance(self._engine, PairAggregateEngine) else self._engine
            if self._engine is not None:
                residual = engine.residual_bytes if isinstance(engine, ResidualEngine) else 0
                lines.append(f"memory:    {self._engine.device_bytes:,} bytes on the device")
                lines[-1] += f", {residual:,} for residual keys" if residual else ""
            driver = engine.driver if isinstance(engine, ChoosingEngine) else 0
            lines.append(self.spec.explain(self._schemas["left"], self._schemas["right"], self._key_bits, driver))
            if isinstance(engine, ResidualEngine) and engine.selectivity is not None:
                lines.append(f"kept:      {engine.selectivity:.3%} of the pairs that the driver found")
            if isinstance(engine, ChoosingEngine) and (shares := engine.shares) is not None:
                shares = [shares.pop(driver), *shares]
                lines.append(f"shares:    {', '.join(f'{share:.3%}' for share in shares)} of all pairs in the windows,")
                lines[-1] += f" by samples, in this order; the driver was changed {engine.changes} times"
            return "\n".join(lines)

    def __repr__(self) -> str:
        if len(self._schemas) < len(SIDES):
            return f"condition: {in_words(self.spec.on)}\nThe columns of the sides are not known yet."
        return self.explain()

    @property
    def outdated(self) -> bool:
        """Whether another process has gone on with the state, from which this join is then to be opened again. Raises
        StateError. Never waits for a call; it may be True for a moment while one under way ends."""
        return self._state is not None and self._state.outdated

    def forget_state(self) -> None:
        """Closes the join and deletes its state: no process will go on with it. Raises StateError."""
        self.close()
        if self._state is not None:
            self._state.clear()

    def close(self) -> None:
        """Frees the device's memory, once the call under way has ended. Idempotent."""
        with self._turn():
            if self._engine is not None:
                self._engine.close()
            if self._rows_ticket is not None:
                self._free_rows()
            if self._owns_device:
                self._device.close()
            if self._state is not None:
                self._state.close()
            if self._broken is None:
                self._broken = "it was closed"

    def _turn(self) -> threading.RLock:
        """The lock of this join's calls."""
        if os.getpid() != self._pid:  # a forked child: a call that was under way will not end here
            self._pid = os.getpid()
            if not self._lock.acquire(blocking=False):
                self._lock = threading.RLock()
                self._broken = "the process that opened it forked this one in the middle of a call: open one here"
            else:
                self._lock.release()
        return self._lock

    def __enter__(self) -> WindowJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schemas

    def _tables_of(self, left: ArrowRows | None, right: ArrowRows | None) -> dict[str, pa.Table | None]:
        """The rows of both sides, as a caller gives them."""
        sides = {f"the {side} batch": side for side in SIDES}
        given = {what: rows for what, rows in zip(sides, (left, right), strict=True) if rows is not None}
        known = {what: self._schemas[side] for what, side in sides.items() if side in self._schemas}
        tables = as_tables(given, known)
        return {side: tables.get(what) for what, side in sides.items()}

    def _learn(self, side: str, schema: pa.Schema) -> None:
        known = self._schemas.get(side)
        if known is not None and schema.equals(known):
            return
        schema = schema.remove_metadata()
        if known is None:
            self.spec.check_side(side, schema)
            schemas = {**self._schemas, side: schema}
            if self.spec.self_join:
                schemas[OTHER[side]] = schema
            if len(schemas) == len(SIDES):
                self._start(schemas["left"], schemas["right"])
            self._schemas = schemas
            if self._engine is not None and self._state is not None:
                self._restore()
            return
        for name in known.names:
            if name not in schema.names:
                raise SchemaError(f"the {side} batch lacks the column {name!r} that earlier ones had")
            if schema.field(name).type != known.field(name).type:
                raise SchemaError(
                    f"column {name!r} of the {side} batch has type {schema.field(name).type}, "
                    f"but had {known.field(name).type} before"
                )
        extra = [name for name in schema.names if name not in known.names]
        if extra:
            raise SchemaError(f"the {side} batch has a column {extra[0]!r} that earlier ones had not")

    def _start(self, left: pa.Schema, right: pa.Schema, before: dict[str, Any] | None = None) -> None:
        """Opens the engine: both schemas are known. `before` is what the sequencer knew, by default before the calls
        that are in the state."""
        if before is None and self._state is not None and self._state.records:
            before = self._state.records[0].before
        schema = self.spec.output_schema(left, right)
        logs: dict[str, RowLog] = {}
        threads = getattr(self._device, "threads", 1)
        self._plan = (
            self.spec.plan(left, right, apart=self._partitions.count > 1) if self.spec.form == "aggregate" else None
        )
        logged = {} if self._plan is None else self._plan.logged
        if self.spec.form == "rows" or self.spec.closing or any(logged.values()):
            columns = self.spec.output_columns(left, right) if self.spec.form == "rows" or self.spec.closing else []
            for side, of in (("left", left), ("right", right)):
                sides = SIDES if self.spec.self_join else (side,)
                names = {name for taken, name, _ in columns if taken in (*sides, "both")}
                names |= {name for taken in sides for name in logged.get(taken, ())}
                if names:
                    shared = self.spec.self_join and "left" in logs
                    logs[side] = logs["left"] if shared else RowLog(side, _only(of, names), threads=threads)
        for side, of in (("left", left), ("right", right)):
            roles = SIDES if self.spec.self_join else (side,)
            columns_kept = _only(of, {n for role in roles for n in self.spec.kept_columns(role, left, right)})
            check_columns(side, columns_kept)  # a sequence puts them in order, in any form
            self._kept[side] = columns_kept
            self._strict[side] = [field.name for field in columns_kept if not field.nullable]
            self._as_is[side] = all(is_kept_as_is(field.type) for field in columns_kept)
        sequencer = Sequencer(self.spec, left, right, self._first_row, self._key_bits)
        if isinstance(self.spec.on, AsOf):
            self._start_as_of(self.spec.on, sequencer, schema, left, right, logs, before)
            return
        engine_spec, residuals = sequencer.engine_spec, sequencer.residuals()
        if self._index.conjunctive:
            engine_spec, residuals = dataclasses.replace(engine_spec, others=tuple(sequencer.condition.residuals)), []
        engine_spec = dataclasses.replace(engine_spec, engine=self._engine_kind, partitions=self._partitions.count)

        def open_driven(generator: BoundaryGenerator) -> Engine:
            key_bits = {side: kind.bits for side, kind in generator.key_types.items()}
            return self._device.open_engine(engine_spec, generator, key_bits, self._index)

        def open_engine() -> Engine:
            if self._plan is not None and not residuals:
                itself, closing = self.spec.itself, self.spec.closing
                return self._device.open_aggregates(
                    engine_spec, sequencer.generator, self._plan, itself=itself, close=closing
                )
            exchangeable = sequencer.condition.exchangeable and self._partitions.count == 1
            if residuals and exchangeable and self._engine_kind.name == Steps.name:
                return ChoosingEngine(open_driven, sequencer.choices())
            engine = open_driven(sequencer.generator)
            return ResidualEngine(engine, sequencer.residuals()) if residuals else engine

        if self._partitions.count == 1:
            engine = open_engine()
        else:
            partitions = self._partitions
            if self.spec.form == "ranges":
                partitions = dataclasses.replace(partitions, by="subwindows")
            engine = open_partitions(
                partitions, open_engine, sequencer.condition, self_join=self.spec.self_join,
                plan=None if residuals else self._plan,
                closing=self.spec.closing,
            )  # fmt: skip
        if self._plan is not None and residuals:
            engine = PairAggregateEngine(engine, self._plan, sequencer.itself if self.spec.itself else None)
        self._engine = engine
        self._sequencer = sequencer
        self._logs = logs
        self._go_on(sequencer, before)
        columns = self.spec.output_columns(left, right) if self.spec.form == "rows" else []
        within = sequencer.engine_spec.within
        self._materializer = Materializer(
            self.spec, schema, columns, logs, sequencer.arrived, self._device.host_memory, within, self._plan
        )
        if self._state is not None:
            for bits in self._materializer.bits.values():
                bits.followed = []

    @property
    def _key_bits(self) -> int:
        """Of the widest composite key."""
        if self.spec.form == "ranges":  # a mirror has keys of 64 bits
            return 64
        return self._device.key_bits(self._index, self._engine_kind)

    @property
    def _engine_name(self) -> str:
        return "as-of" if isinstance(self.spec.on, AsOf) else self._engine_kind.name

    def _start_as_of(
        self, on: AsOf, sequencer: Sequencer, schema: pa.Schema, left: pa.Schema, right: pa.Schema,
        plain: dict[str, RowLog], before: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        columns = self.spec.output_columns(left, right) if self.spec.form == "rows" else []
        logs = {side: SlotLog(side, log.schema, threads=log.threads) for side, log in plain.items()}
        axis, condition = self.spec.time_axis(left, right), sequencer.condition
        assert isinstance(axis, AsOfAxis)
        assert isinstance(condition, AsOfCondition)
        watermark = self.spec.watermark
        both = watermark is None or None not in (watermark.left, watermark.right)
        engine = AsOfEngine(
            sequencer.engine_spec, on, axis, condition, logs, self._first_row, unmatched=self.spec.how == "left",
            scan=on.direction == "backward" and both and self.spec.static is None,
            at_once=self.spec.static is not None, threads=getattr(self._device, "threads", 1),
            partitions=self._partitions.count,
        )  # fmt: skip
        self._sequencer, self._engine = sequencer, engine
        self._logs = dict(logs)
        self._go_on(sequencer, before)
        engine.begin(sequencer.arrived)
        # It answers what is asked of a materializer without aggregates.
        self._materializer = AsOfMaterializer(  # type: ignore[assignment]
            self.spec, schema, columns, engine, logs, self._device.host_memory
        )

    def _go_on(self, sequencer: Sequencer, before: dict[str, Any] | None) -> None:
        """Has the sequencer go on from what it knew; a table is still to come."""
        if before is not None:
            sequencer.state = before
            if self.spec.static is not None:
                sequencer.arrived[self.spec.static] = self._first_row

    def _needed(self, side: str, table: pa.Table | None) -> pa.Table:
        """The columns of a batch that the join needs, as they are kept."""
        wanted = self._kept[side]
        if table is None:
            table = empty_table(wanted)
        elif not table.schema.equals(wanted):
            table = table.select(wanted.names)
        for name in self._strict[side]:
            if table.column(name).null_count:
                raise SchemaError(
                    f"column {name!r} of the {side} batch has NULL, and is not null by the columns that the join was "
                    "opened with: give them as they may be, by left_schema= and right_schema="
                )
        if not table.schema.equals(wanted):
            table = pa.table(table.columns, schema=wanted)
        return table if self._as_is[side] else kept(table)

    # One call

    def _sequence(
        self,
        tables: dict[str, pa.Table],
        pushes: list[tuple[int, int]] | None = None,
        whole: WholeCall | None = None,
        tag: bytes | None = None,
        block_bytes: int | None = None,
    ) -> tuple[SequencedCall, Call]:
        """The rows of a call in order, and as the engine has admitted them."""
        start = time.perf_counter()
        call = self._sequenced(tables, pushes, whole, tag, block_bytes)
        assert self._engine is not None
        admitted = self._engine.admit(call)
        self._reserve_rows(sum(log.bytes_of(call.tables[side]) for side, log in self._kept_logs()))
        self._seconds["encode"] += time.perf_counter() - start
        return call, admitted

    def _reserve_rows(self, more: int) -> None:
        """Sets memory aside for the rows that are kept for output, and so many bytes more. Raises CapacityError."""
        held = sum(log.nbytes for _, log in self._kept_logs())
        if held + more == 0 and self._rows_ticket is None:
            return
        memory = self._device.host_memory
        fresh = self._rows_ticket is None
        self._rows_ticket = memory.reserve(held + more, "what is kept of rows for output", self._rows_ticket)
        if fresh:
            self._free_rows = weakref.finalize(self, memory.release, self._rows_ticket)

    def _sequenced(
        self,
        tables: dict[str, pa.Table],
        pushes: list[tuple[int, int]] | None = None,
        whole: WholeCall | None = None,
        tag: bytes | None = None,
        block_bytes: int | None = None,
    ) -> SequencedCall:
        """The rows of a call in order, with what aggregates are made of."""
        max_pairs = None if block_bytes is None else most_pairs(block_bytes)
        call = self._sequencer.sequence(tables, pushes, whole, tag=tag, max_pairs=max_pairs)
        for side in self._plan.folds if self._plan is not None else ():
            assert self._plan is not None
            batch = call.batches[side]
            values = self._plan.encode(side, call.tables[side], batch, np.searchsorted(call.numbers[side], batch.rows))
            call.batches[side] = dataclasses.replace(batch, values=values)
        return call

    @contextmanager
    def _breaking(self, engine: Engine, applied: int | None = None) -> Iterator[None]:
        """What fails in here leaves the join unusable: its windows hold part of a call, and to go on would lose or
        double pairs. Unless nothing is changed yet beside the engine, and that is as it was at `applied`."""
        try:
            yield
        except BaseException as error:
            if self._changed or applied is None or engine.applied != applied:
                self._broken = self._broken or f"a call failed half-way ({type(error).__name__}: {error})"
                engine.close()
            raise

    def _joined(
        self, engine: Engine, call: SequencedCall, admitted: Call, number: int | None, block_bytes: int | None
    ) -> Tables:
        """The result of a call, which has the caller's number; None: it is in the state already.

        The lock is held but while the caller has a table. A caller that leaves then ends the result, not the call.
        """
        rows = {f"{side}_rows": len(table) for side, table in call.tables.items()}
        traced = OpenSpan("join", batch=number, device=self._device.info.name, **rows)
        applied, left = engine.applied, False
        self._changed = False
        self._tables = tables = self._joining(engine, call, admitted, number, block_bytes, traced)
        try:
            with self._breaking(engine, applied):
                while True:
                    with self._turn(), PooledArrays():
                        if self._broken is not None:
                            if left:
                                return
                            raise DeviceError(f"this join is no longer usable: {self._broken}")
                        table = next(tables, None)
                    if table is None:
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

    def _joining(
        self, engine: Engine, call: SequencedCall, admitted: Call, number: int | None, block_bytes: int | None,
        traced: OpenSpan,
    ) -> Tables:  # fmt: skip
        """As `_joined`, but that nothing here knows of a caller that leaves.

        The rows are written while they are joined, and committed once the result is there.
        """
        begun, needed = None, {}
        try:
            if self._state is not None and number is not None:
                # To repeat this call takes what the windows hold before it.
                needed = {side: self._oldest_restored(engine, side) for side in SIDES}
                with traced.current():
                    begun = self._begin(call, number, self._sequencer.state)
            with self._of_output():
                limits, matches = yield from self._found(engine, call, admitted, block_bytes, traced)
                self._expire(engine, limits)
                matched = self._matched()
                late = late_rows(call, self._late_schemas()) if self.spec.late == "keep" else {}
        except BaseException:
            if begun is not None and self._state is not None:
                self._state.withdraw(begun)
            raise
        if begun is not None and self._state is not None:
            waited = time.perf_counter()
            with traced.current(), span("wait for the state"):
                self._state.commit(begun, matched, needed)
            self._totals.state_seconds += time.perf_counter() - waited
        if number is not None:
            self._last_batch, self._last_tag = number, call.tag
        self._late = late
        self._collector.clear()
        self._totals.calls += 1
        self._totals.matches += matches
        for side in SIDES:
            self._totals.add(f"late_{side}", call.late[side])
            self._totals.add(f"unmatchable_{side}", call.unmatchable[side])

    def _begin(self, call: SequencedCall, number: int, before: dict[str, Any]) -> Future[dict[str, Any]]:
        """Starts to write the rows of a call."""
        assert self._state is not None
        sent, values = self._sent(call), None
        if call.whole is not None:
            own = {side: call.numbers[side] - call.first[side] for side in sent}  # as they lie in the file
            values, places = dataclasses.replace(call.whole, rows=own).to_tables()
            sent |= places
        arrived, definition = dict(call.arrived), self._definition()
        more: dict[str, Any] = {"whole": values, "pushes": call.pushes, "tag": call.tag}
        return self._state.begin(number, sent, definition, before, arrived, **more)

    def _found(
        self, engine: Engine, call: SequencedCall, admitted: Call, block_bytes: int | None, traced: OpenSpan
    ) -> Generator[pa.Table, None, tuple[dict[str, int | None], int]]:
        """Joins a call and gives its result; the times that are useless from now on, and how many pairs there were."""
        paired = self.spec.form in ("rows", "pairs") and not isinstance(engine, AsOfEngine)
        parts = traced.each("engine", self._parts(engine, admitted))
        incomplete: IncompleteError | None = None
        rest: list[pa.Table] = []
        if paired:
            blocks: PairBlocks | None = None
            try:
                for part in parts:
                    blocks = blocks or self._blocks(call, block_bytes)
                    yield from traced.each("materialize", self._timed(blocks.add(part)))
                    if isinstance(part, Punctuation):
                        yield self._materializer.nothing
            except IncompleteError as error:
                incomplete = error
            blocks = blocks or self._blocks(call, block_bytes)
            limits = self._advance(call)
            for table in traced.each("materialize", self._timed(blocks.end(limits, complete=incomplete is None))):
                if incomplete is not None:
                    rest.append(table)
                else:
                    yield table
            matches = blocks.matches
        else:
            found, incomplete = _found(parts)
            self._keep_rows(call)
            limits = self._advance(call)
            with self._of_device():
                if isinstance(engine, AggregateEngine | ClosingPartitions) and self.spec.closing:
                    gone = limits["left"]
                    found = [] if gone is None else [engine.closed(gone)]
                elif isinstance(engine, AsOfEngine):
                    found = [engine.ready(limits)]
            start = time.perf_counter()
            with traced.current(), span("materialize"):
                result, matches = self._materializer.result(found, call, limits)
            self._seconds["output"] += time.perf_counter() - start
            rest = [result]
        if incomplete is not None:
            partial = pa.concat_tables([self._materializer.nothing, *rest])
            incomplete.partial = partial.replace_schema_metadata({INCOMPLETE: f"core {incomplete.core}"})
            raise incomplete
        if self.spec.form == "ranges":
            (told,) = (part.events for part in found if isinstance(part, RunEvents))
            events = json.dumps(told | {"pushes": call.pushes})
            rest = [table.replace_schema_metadata({RUNS: events}) for table in rest]
        for table in rest:
            if block_bytes is None or self.spec.form == "ranges":  # a mirror follows a call as a whole
                yield table
            else:
                yield from slices(table, block_bytes)
        return limits, matches

    def _parts(self, engine: Engine, admitted: Call) -> Iterator[Found]:
        """What an engine finds."""
        with self._of_device():
            yield from engine.run(admitted)

    def _blocks(self, call: SequencedCall, block_bytes: int | None) -> PairBlocks:
        """What makes the result of a call that an engine has begun to join."""
        self._keep_rows(call)
        return self._materializer.blocks(call, block_bytes)

    def _timed(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """What comes out of these, its time counted as that of the output."""
        while True:
            start = time.perf_counter()
            table = next(tables, None)
            self._seconds["output"] += time.perf_counter() - start
            if table is None:
                return
            yield table

    def _keep_rows(self, call: SequencedCall) -> None:
        """Takes note of a call's rows, which may come out from now on."""
        self._changed, self._repeatable = True, None
        for side, log in self._kept_logs():
            if call.whole is not None and call.whole.order is not None:
                log.append(call.first[side], call.tables[side], call.numbers[side])
            else:
                log.append(call.first[side], call.tables[side])

    def _advance(self, call: SequencedCall) -> dict[str, int | None]:
        """Ends a call that was joined; the times that are useless from now on."""
        if call.whole is not None and call.whole.loads is not None:
            self._routes = self._sequencer.planner.routes(call.whole.loads.partitions)
        self._sequencer.advance(call)
        return self._sequencer.useless_times()

    def _expire(self, engine: Engine, limits: dict[str, int | None]) -> None:
        if not self.spec.counted:
            with self._of_device():
                engine.expire_times(limits)
        for side, log in self._kept_logs():
            log.trim(self._oldest(engine, side))
            prevailing = isinstance(engine, AggregateEngine | PartitionedEngine) and self.spec.prevailing
            if prevailing and (side == "right" or not self.spec.closing or self.spec.self_join):
                assert isinstance(engine, AggregateEngine | PartitionedEngine)
                held = [engine.held_rows(role) for role in (SIDES if self.spec.self_join else (side,))]
                waiting = engine.oldest_row("left") if self.spec.closing and self.spec.self_join else None
                firsts = [row for row in (waiting, *(oldest for _, oldest in held)) if row is not None]
                few = np.unique(np.concatenate([rows for rows, _ in held]))
                log.thin(few, min(firsts, default=self._sequencer.arrived[side]))
        self._reserve_rows(0)
        self._sequencer.condition.forget({side: self._stored(engine, side) for side in SIDES})

    # State

    def _definition(self) -> dict[str, Any]:
        """What defines the join, for its state."""
        spec = {name: value for name, value in json.loads(self.spec.to_json()).items() if name not in _MAY_CHANGE}
        more = {name: value for name, value in (("table", self._met), ("fixed", self._fixed)) if value}
        return {"spec": spec, "schemas": {side: schema_text(schema) for side, schema in self._schemas.items()}, **more}

    def _logged_schemas(
        self, left: pa.Schema | None, right: pa.Schema | None
    ) -> tuple[pa.Schema | None, pa.Schema | None]:
        """The columns of both sides, those in the state where none are given; StateError if it is of another join."""
        assert self._state is not None
        if not self._state.records:
            return left, right
        record, place = self._state.records[-1], self._state.store.place
        self._last_batch, self._last_tag = record.batch, self._state.tag
        spec = {name: value for name, value in json.loads(self.spec.to_json()).items() if name not in _MAY_CHANGE}
        now, then = spec | self._fixed, record.join["spec"] | record.join.get("fixed", {})
        for name in sorted({*now, *then}):
            if now.get(name) != then.get(name):
                raise StateError(
                    f"the state in {place} is of a join with {name}={then.get(name)!r}, not {now.get(name)!r}: go on "
                    "with the join as it was, or start with empty state"
                )
        schemas = {}
        for side, given in (("left", left), ("right", right)):
            logged = schema_of(record.join["schemas"][side])
            schemas[side] = logged if given is None else given.remove_metadata()
            for field in logged:
                if field.name not in schemas[side].names:
                    raise StateError(f"the state in {place} has the {side} column {field.name!r}, which is gone now")
                kind = schemas[side].field(field.name).type
                if kind != field.type:
                    raise StateError(
                        f"the {side} column {field.name!r} has type {field.type} in the state in {place}, now {kind}"
                    )
            for field in schemas[side]:
                if field.name not in logged.names and not field.nullable:
                    raise StateError(
                        f"the {side} column {field.name!r} is not in the state in {place}: a column that is added must "
                        "allow NULL"
                    )
        return schemas["left"], schemas["right"]

    def _sent(self, call: SequencedCall) -> dict[str, pa.Table]:
        """The rows of a call, by the sides that have rows of their own."""
        return {side: call.tables[side] for side in (SIDES[:1] if self.spec.self_join else SIDES)}

    def _logged(self, record: Record) -> tuple[dict[str, pa.Table], dict[str, np.ndarray], WholeCall | None]:
        """The rows of a call in the state, as the join keeps them, the rows that it has matched, and what the rows of
        all partitions told of it."""
        assert self._state is not None
        logged, matched = self._state.rows(record)
        whole = None if record.whole is None else WholeCall.from_tables(record.whole, logged)
        tables = {side: table for side, table in logged.items() if side in SIDES}
        for side, table in tables.items():
            tables[side] = under(self._needed(side, None).schema, table, side, self._state.store.place)
        if self.spec.self_join:
            tables["right"] = tables["left"]
        return tables, matched, whole

    def _restore(self) -> None:
        """Stores the rows of all calls in the state but the newest, which may be asked for again."""
        assert self._state is not None
        if not self._state.records:
            return
        assert self._engine is not None
        started = time.perf_counter()
        with self._breaking(self._engine):
            *older, newest = self._state.records
            for record in older if self.spec.static is None else ():
                self._load(record)
            if newest.join["schemas"] != self._definition()["schemas"]:
                self._logged(newest)  # refused now, if its rows do not fit the columns of today
            self._repeatable = newest
        self._totals.restore_seconds += time.perf_counter() - started

    def _check_repeat(self, record: Record, given: dict[str, pa.Table | None]) -> None:
        """Raises ReplayError unless these are the rows of a call in the state, columns added since aside."""
        assert self._state is not None
        logged = self._state.rows(record)[0]
        for side in SIDES[:1] if self.spec.self_join else SIDES:
            table = logged[side]
            own = self._needed(side, given[side])
            names = [name for name in table.column_names if name in own.column_names]
            known, found = (Content.of(each.select(names), None).digest for each in (table, own))
            if side == "right":
                known, found = ({"left": each["right"], "right": each["left"]} for each in (known, found))
            check_same(record.batch, known, found)

    def _load_newest(self) -> None:
        if self._repeatable is not None:
            assert self._engine is not None
            started = time.perf_counter()
            with self._breaking(self._engine):
                self._load(self._repeatable)
            self._totals.restore_seconds += time.perf_counter() - started

    def _load_table(self, digest: str | None = None) -> None:
        """Has the rows of the table in its window, where others are there: those of the next call, or of an earlier one
        by its digest. They have arrived before all rows of the stream, of which none is held."""
        side, table = self.spec.static, self._table
        wanted = digest or (None if table is None else table.digest)
        if side is None or table is None or wanted == self._met or self._engine is None:
            return
        rows = table.rows(digest)
        with self._breaking(self._engine):
            self._met = None
            if self._sequencer.arrived[side] != self._first_row:  # another one was there
                before = self._sequencer.state
                self._engine.close()
                self._start(self._schemas["left"], self._schemas["right"], before)
            place = "memory" if self._state is None else self._state.store.place
            call, _ = self._sequence(
                {
                    side: self._needed(side, under(self._kept[side], rows, side, place)),
                    OTHER[side]: self._needed(OTHER[side], None),
                }
            )
            with self._of_device():
                _store(self._engine, call)
            self._keep_rows(call)
            limits = self._advance(call)
            self._materializer.load(call, limits, {OTHER[side]: np.zeros(0, np.int64)})
            self._met = wanted

    def _load(self, record: Record) -> None:
        engine = self._engine
        assert engine is not None
        assert self._state is not None
        with self._of_input():
            self._sequencer.state = record.before
            tables, matched, whole = self._logged(record)
            call = self._sequenced(tables, self._state.pushes(record), whole)
            with self._of_device():
                _store(engine, call)
            self._keep_rows(call)
            limits = self._advance(call)
            if isinstance(engine, AggregateEngine | ClosingPartitions) and limits["left"] is not None:
                engine.forget(limits["left"])
            self._materializer.load(call, limits, matched)
            self._expire(engine, limits)

    def _matched(self) -> dict[str, np.ndarray]:
        """The rows that a call has matched for the first time, where that is followed."""
        matched = {}
        for side, bits in self._materializer.bits.items():
            matched[side] = np.unique(np.concatenate([np.zeros(0, np.int64), *(bits.followed or ())]))
            bits.followed = []
        return matched

    def _oldest_restored(self, engine: Engine, side: str) -> int:
        """The oldest row of a side that a restored join must have."""
        if self.spec.static is not None:  # the table is no state, and rows that met it are not held
            return self._sequencer.arrived[side]
        roles = SIDES if self.spec.self_join else (side,)
        waiting = [bits.oldest for role, bits in self._materializer.bits.items() if role in roles]
        return min([self._stored(engine, side), *waiting])

    def _kept_logs(self) -> Iterator[tuple[str, RowLog]]:
        """The logs there are, by a side whose rows they hold; one in a self join."""
        return ((side, log) for side, log in self._logs.items() if side == "left" or not self.spec.self_join)

    def _stored(self, engine: Engine, side: str) -> int:
        """The oldest row of a side that a later row may still meet."""
        roles = SIDES if self.spec.self_join else (side,)
        arrived = self._sequencer.arrived[side] - self._first_row
        if self.spec.counted:
            return arrived - max(getattr(self.spec, role).count for role in roles)
        return min((row for role in roles if (row := engine.oldest_row(role)) is not None), default=arrived)

    def _oldest(self, engine: Engine, side: str) -> int:
        """The oldest row that the log of a side must still have."""
        roles = SIDES if self.spec.self_join else (side,)
        waiting = [bits.oldest for role, bits in self._materializer.bits.items() if role in roles]
        if self.spec.closing and side == "left" and not self.spec.self_join:
            oldest = engine.oldest_row("left")
            return self._sequencer.arrived[side] if oldest is None else oldest
        if self.spec.left_alone or self.spec.anti:  # a row that has matched does not come out any more
            return min(waiting, default=self._sequencer.arrived[side])
        return min([self._stored(engine, side), *waiting])


#: What a join that goes on from its state may have otherwise.
_MAY_CHANGE = ("index", "engine", "capacity")


def _found(
    parts: Iterable[Found],
) -> tuple[list[Found], IncompleteError | None]:
    """What an engine finds, and the error if the device lost some of it."""
    found = []
    try:
        for part in parts:
            found.append(part)  # noqa: PERF402 (what came before the error is kept)
    except IncompleteError as error:
        return found, error
    return found, None


def _store(engine: Engine, call: Call) -> None:
    """Has an engine store the rows of a call whose result is known."""
    for _ in engine.run(engine.admit(dataclasses.replace(call, want=Want.NOTHING))):
        pass


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


def _block_bytes(size: object) -> int:
    """The greatest size of a table. Raises WindowError."""
    number = whole_number(size)
    if number is None or number < 1:
        raise WindowError(f"block_bytes must be a whole number of at least 1, not {size!r}")
    return number


def _check_tag(tag: object) -> None:
    if tag is not None and not isinstance(tag, bytes):
        raise StateError(f"tag must be bytes, not {type(tag).__name__}: encode it first")


def _condition_of(spec: dict[str, Any], left: pa.Schema | None, right: pa.Schema | None) -> dict[str, Any]:
    """The condition that a text gives, and the time window that it bounds where no window is given."""
    text = spec["on"]
    if left is None or right is None:
        side = "left" if left is None else "right"
        raise SchemaError(f"on={text!r} is read with the columns of both sides: give {side}_schema=")
    if is_name(text, left, right):
        return {"on": [text]}
    from muntin.host.sql import parse_condition, parse_windowed

    if any(spec.get(window) is not None for window in ("left", "right", "within")):
        return {"on": parse_condition(text, left, right)}
    on, within = parse_windowed(text, left, right)
    if spec.get("self_join") and within is not None and within.left_time != within.right_time:
        return {"on": parse_condition(text, left, right)}  # the windows of one stream have one event time
    return {"on": on, "within": within}


def _schemas(left: ArrowColumns | None, right: ArrowColumns | None) -> tuple[pa.Schema | None, pa.Schema | None]:
    given = {"left_schema": left, "right_schema": right}
    known = [None if schema is None else as_schema(name, schema) for name, schema in given.items()]
    return known[0], known[1]


def _only(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """The fields of these names."""
    return pa.schema([field for field in schema if field.name in names])
