"""The operator: a sliding-window join of two streams of Arrow batches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from muntin.host.aggregates import Aggregate
from muntin.host.devices import Device
from muntin.host.engines import EngineKind, Inner, Outer, Partitions
from muntin.host.frames import ArrowColumns, ArrowRows
from muntin.host.index import Index
from muntin.host.join.calls import Calls
from muntin.host.join.collector import MAX_ROWS, Collector
from muntin.host.join.given import BLOCK_BYTES, given_columns, given_device, given_join
from muntin.host.join.journal import Tables
from muntin.host.join.stats import Stats
from muntin.host.predicates import AllOf, AsOf, Predicate, Where
from muntin.host.public import public
from muntin.host.sides import Sides
from muntin.host.spec import JoinSpec
from muntin.host.state.tables import KeptTable
from muntin.host.windows import Rows, Watermark, Within


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

    def __init__(
        self, *, on: Predicate | AllOf | AsOf | Where | str | Sequence[str], how: str = "inner",
        left: Rows | int | None = None, right: Rows | int | None = None,
        within: Within | tuple[str, str, Any, Any] | None = None, watermark: Watermark | None = None,
        late: str = "drop", sequence: str | None = None, form: str = "rows",
        aggregates: Aggregate | str | Sequence[Aggregate | str] = (), at: str = "arrival",
        order: str | Outer | Inner = "none", select: Sequence[str] | None = None, suffix: str = "_right",
        index: str | Index = "auto", engine: str | EngineKind = "auto", capacity: int | None = None,
        self_join: bool = False, itself: bool = False, device: str | Device = "cpu", threads: int | None = None,
        state: str | Path | None = None, partitions: int | Partitions = 1,
        left_table: ArrowRows | None = None, right_table: ArrowRows | None = None,
        left_schema: ArrowColumns | None = None, right_schema: ArrowColumns | None = None,
        max_rows: int = MAX_ROWS, max_delay: str | dt.timedelta | None = None,
    ):  # fmt: skip
        collector = Collector(max_rows, max_delay)
        options: dict[str, Any] = {
            "on": on, "how": how, "left": left, "right": right, "within": within, "watermark": watermark,
            "sequence": sequence, "form": form, "aggregates": aggregates, "at": at, "order": order, "select": select,
            "suffix": suffix, "index": index, "engine": engine, "capacity": capacity, "self_join": self_join,
            "itself": itself, "late": late,
        }  # fmt: skip
        tables: Sides[ArrowRows | None] = {"left": left_table, "right": right_table}
        device = given_device(device, threads)
        spec, schemas, table = given_join(options, tables, {"left": left_schema, "right": right_schema})
        self.spec, self._calls = spec, Calls(spec, collector, device, schemas, state, partitions, table)

    @classmethod
    def from_spec(
        cls, spec: JoinSpec, *, device: str | Device = "cpu", left_schema: ArrowColumns | None = None,
        right_schema: ArrowColumns | None = None, state: str | Path | None = None, partitions: int | Partitions = 1,
        table: ArrowRows | KeptTable | None = None, fixed: dict[str, Any] | None = None,
    ) -> Self:  # fmt: skip
        """The join a specification describes; `table` is the side that is one. A state has what is `fixed`, and goes on
        with the same alone. Raises as the constructor."""
        join = cls.__new__(cls)
        schemas = given_columns({"left": left_schema, "right": right_schema})
        join.spec, join._calls = spec, Calls(spec, Collector(), device, schemas, state, partitions, table, fixed)
        return join

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
        self._calls.meet(table)

    def process(
        self, left: ArrowRows | None = None, right: ArrowRows | None = None, *, batch: int | None = None,
        tag: bytes | None = None,
    ) -> pa.Table:  # fmt: skip
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
            If `batch` is no whole number above `last_batch`.
        StateError
            If `tag` is not bytes.

        Notes
        -----
        A call that raises any but `CapacityError`, `DeviceError`, `StateError` and KeyboardInterrupt has changed
        nothing. After these neither, where the join is `usable`; else nothing of the call is in its state, if it has
        one, which can be opened again, but for a call whose number `last_batch` then has: `repeat` gives its result.
        """
        return self._calls.process(left, right, batch=batch, tag=tag)

    def process_blocks(
        self, left: ArrowRows | None = None, right: ArrowRows | None = None, *, batch: int | None = None,
        tag: bytes | None = None, block_bytes: int = BLOCK_BYTES,
    ) -> Tables:  # fmt: skip
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
            The result, cut. A table may be empty: the join has worked for a while without a result. A call without a
            result gives at least one.

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
        return self._calls.process_blocks(left, right, batch=batch, tag=tag, block_bytes=block_bytes)

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
        return self._calls.push(left, right, tag)

    def flush(self) -> pa.Table:
        """Joins the rows that were pushed and wait, if there are any. Returns and raises as `process`."""
        return self._calls.flush()

    def process_pushes(self, left: pa.Table | None, right: pa.Table | None, pushes: list[tuple[int, int]]) -> pa.Table:
        """Joins rows that a caller has gathered: as `push` for each, then `flush`.

        `pushes` are the left and right rows of each push, in order. Returns and raises as `process`.
        """
        return self._calls.process_pushes(left, right, pushes)

    @property
    def due(self) -> float | None:
        """Seconds until rows that wait are to be flushed, for a timer. None: nothing waits, or no time is set."""
        return self._calls.due

    def take_back(self) -> tuple[pa.Table | None, pa.Table | None, list[bytes | None]]:
        """Gives the left and right rows that were pushed and wait back to the caller, with the tag of each push since
        the newest call that had rows or a tag; the join forgets them."""
        return self._calls.take_back()

    @property
    def usable(self) -> bool:
        """Whether it takes more calls: it was not closed, and no call has failed half-way."""
        return self._calls.journal.unusable is None

    @property
    def last_batch(self) -> int:
        """The number of the newest call that was applied, in this process or an earlier one; -1 before the first."""
        return self._calls.journal.last_batch

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
        return self._calls.journal.last_tag

    @property
    def sender(self) -> list[str] | None:
        """Who sent the rows of the newest call in the state; set it to who sends those of the next."""
        return self._calls.journal.sender

    @sender.setter
    def sender(self, sender: list[str]) -> None:
        self._calls.journal.sender = sender

    @property
    def late(self) -> Sides[pa.Table]:
        """The late rows of the newest call, by side ("left" alone in a self join): all their columns, in the order of
        their arrival. They are those of its result: a process that died before it took them has them again by `repeat`.

        Raises
        ------
        UnsupportedError
            The join was not opened with ``late="keep"``.
        """
        return self._calls.late

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
        return self._calls.repeat(left, right)

    def repeat_blocks(
        self, left: ArrowRows | None = None, right: ArrowRows | None = None, *, block_bytes: int = BLOCK_BYTES
    ) -> Tables:
        """As `repeat`, in tables, as `process_blocks` gives them."""
        return self._calls.repeat_blocks(left, right, block_bytes)

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
        return self._calls.finish()

    @property
    def stats(self) -> Stats:
        """Counters since the join was opened, as of now."""
        return self._calls.stats

    @property
    def schemas(self) -> Sides[pa.Schema]:
        """The columns of each side, by "left" and "right", as far as they are known."""
        return dict(self._calls.journal.plan.schemas)

    @property
    def output_schema(self) -> pa.Schema | None:
        """The schema of the result, or None while a side's columns are unknown."""
        return self._calls.journal.plan.output_schema

    def explain(self) -> str:
        """How the join is carried out: device, index, which part of the condition drives, which are residual; as text.

        Raises
        ------
        SchemaError
            If the columns of a side are not known yet.
        """
        return self._calls.explain()

    def __repr__(self) -> str:
        return self.explain() if self._calls.journal.plan.complete else str(self._calls.journal.plan)

    @property
    def outdated(self) -> bool:
        """Whether another process has gone on with the state, from which this join is then to be opened again. Raises
        StateError. Never waits for a call; it may be True for a moment while one under way ends."""
        return self._calls.journal.outdated

    def forget_state(self) -> None:
        """Closes the join and deletes its state: no process will go on with it. Raises StateError."""
        self.close()
        self._calls.journal.clear()

    def close(self) -> None:
        """Frees the device's memory, once the call under way has ended. Idempotent."""
        self._calls.close()

    def __enter__(self) -> WindowJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
