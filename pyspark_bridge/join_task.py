"""What runs inside Spark's tasks: a micro-batch to the daemons, its result back.

In one stage a task does both. In two, tasks of the first send rows, and each yields a small row that says which; a
shuffle of those is the barrier; tasks of the second name to the daemons all that was sent, and fetch the result.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.claims import claim_window, newest_claim
from muntin.host.daemon.staging import PartKey
from muntin.host.daemon.windows import Windows, query_place
from muntin.host.engine.routes import no_counts
from muntin.host.engine.stateless_placement import (
    EqualityPlacement,
    FullPlacement,
    Placement,
    can_follow,
    open_placement,
)
from muntin.host.engines import Partitions
from muntin.host.errors import (
    ConnectionLostError,
    MuntinError,
    ProtocolError,
    StateLostError,
    StateTakenError,
    UnsupportedError,
)
from muntin.host.join.late_rows import marked_schema
from muntin.host.join.pushdown import tested_early
from muntin.host.join.summary_part import SummaryPart, places_in
from muntin.host.sides import SIDES, Side
from muntin.host.spec import JoinSpec
from muntin.host.state import open_store
from muntin.host.state.tables import KeptTable, keep_part
from muntin.host.tracing import carried, task_span
from muntin.pyspark_bridge.observed import figures_row, without_figures
from muntin.pyspark_bridge.tagged_union import as_sent, checked_partition, split_union, with_number

#: What a task that sends rows tells the tasks that fetch the result: of which query and micro-batch, what the rows are
#: known by, and to which of these tasks this row goes.
SENT_SCHEMA = pa.schema(
    [("query", pa.string()), *((name, pa.int64()) for name in ("batch", *PartKey._fields)), ("target", pa.int32())]
)
#: What a task that keeps rows of a table tells: its number, and what `keep_table` takes.
KEPT_SCHEMA = pa.schema([("task", pa.int32()), ("digest", pa.string()), ("rows", pa.int64())])
_OF_ALL = ("query", "batch", "target")


@dataclass(frozen=True)
class JoinTask:
    """The part of a Spark query that one task carries out. Plain values only: it travels inside Spark's plan.

    Attributes
    ----------
    address, token, tls_ca : str
        Of the daemon; as of `DaemonClient`.
    private : bool
        The daemon was started by `window_join` for this query, and ends with it.
    join : str
        What tells this join from others in the same Spark query, and finds it again after a restart.
    named : bool
        The caller chose it.
    instance : str
        What tells this call of `window_join` from every other, in this process and any.
    spec : str
        The join, as `JoinSpec.to_json` writes it.
    left_schema, right_schema : bytes
        Serialized Arrow schemas of the sides.
    streaming : bool
        Whether the DataFrames are streams.
    state : str or None
        Where the daemon keeps the windows' state.
    partitions : int
        As of `Partitions`; see `windows`.
    by : str
        What rows go to them by: "equality", "ranges" or "subwindows".
    width : object
        As of `Partitions`.
    daemons : tuple of str
        Addresses where partitions live, in turn; `address` is the first.
    device : str or None
        Of daemons that tasks start on their executors where none is named: who has a partition stands in its state.
    tls : (bytes, bytes) or None
        Certificate and private key of those daemons, PEM; None where they go without TLS.
    status : str or None
        The column in which each task of the result tells the daemon's figures, in a row at its end.
    tables : str or None
        The store of the table that a stream meets, as `open_store` takes it.
    table : str or None
        Its digest.
    fixed : dict of str to bool, or None
        Options that stay as they were at the first start of a query.
    tracing : dict of str to str, or None
        OpenTelemetry's environment variables, where spans are wanted.
    """

    address: str
    token: str | None = field(repr=False)
    tls_ca: str | tuple[bytes, str] | None
    private: bool
    join: str
    named: bool
    instance: str
    spec: str
    left_schema: bytes
    right_schema: bytes
    streaming: bool
    state: str | None = None
    partitions: int = 1
    by: str = "equality"
    width: Any = None
    daemons: tuple[str, ...] = ()
    device: str | None = None
    tls: tuple[bytes, bytes] | None = field(default=None, repr=False)
    status: str | None = None
    tables: str | None = None
    table: str | None = None
    fixed: dict[str, bool] | None = None
    tracing: dict[str, str] | None = None

    def traced(self, stage: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one of the methods below, with a span over it where they are wanted: all tasks of a micro-batch are
        in one trace. Of an error that Muntin raises on purpose Spark shows the message without the traceback."""
        try:
            if self.tracing is None:
                yield from getattr(self, stage)(batches)
                return
            for name, value in self.tracing.items():
                os.environ.setdefault(name, value)
            yield from self._in_span(stage, batches)
        except MuntinError:
            # Spark 4 looks here once the function has raised, after which the worker ends: it hides no other error's.
            os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
            raise

    def _in_span(self, stage: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query, batch = f"batch/{self.instance}/{context.stageId()}", 0
        if stage == "fetch":  # what was sent says of which micro-batch this is
            sent = list(batches)
            first = next((row for part in sent for row in part.slice(0, 1).to_pylist()), None)
            query, batch = (first["query"], first["batch"]) if first else (query, batch)
            batches = iter(sent)
        elif self.streaming and stage != "keep":
            query, batch, _ = self._identity()
        with task_span(
            f"spark {stage}", f"{query} {batch}", query=query, batch=batch, task=context.partitionId(),
            attempt=context.attemptNumber(),
        ):  # fmt: skip
            yield from getattr(self, stage)(batches)

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Keep a task's rows of a table; yield a row of `KEPT_SCHEMA` that says which they are. Raises StateError."""
        static = _spec(self.spec).static
        assert static is not None
        assert self.tables is not None
        schema = self._schemas()[SIDES.index(static)]
        given = ((static, as_sent(batch.columns, schema)) for batch in batches)
        rows = pa.Table.from_batches([batch for _, batch in self._tested(given)], schema)
        kept = [[_partition()], *([each] for each in keep_part(open_store(self.tables), rows))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(kept, KEPT_SCHEMA, strict=True)], schema=KEPT_SCHEMA
        )

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send a task's rows, yield their matches.

        Raises
        ------
        DaemonError
            The daemon is gone, or does not hold the window that this micro-batch continues.
        MuntinError
            What the join itself raises, such as `OrderError` or `CapacityError`.
        """
        query, batch, run = self._identity()
        number = 0
        if self.windows > 1:
            number = _partition()
            batches = checked_partition(batches, number, self.windows)
            query = self._names(query)[number]
        with self._told(), ExitStack() as clients:
            client = clients.enter_context(self._client(number, query))
            self._open(client, query, number)
            try:
                rows = ((side, part) for side, part, _ in split_union(batches, *self._sent_schemas()))
                # Rows of a stream move its watermark, whether they can match or not.
                given = rows if self.streaming else self._tested(rows)
                result = client.process(query, batch, given, run=run, instance=self.instance)
                yield from self._with_figures(client, result, query, batch, number)
            finally:
                if not self.streaming:
                    client.close_query(query)

    def _tested(self, rows: Iterator[tuple[Side, pa.RecordBatch]]) -> Iterator[tuple[Side, pa.RecordBatch]]:
        """Rows of a table without those that fail a part about their side, where these change nothing."""
        spec = _spec(self.spec)
        tests = {side: tested_early(spec, side, schema)[1] for side, schema in zip(SIDES, self._schemas(), strict=True)}
        for side, batch in rows:
            if tests[side] is None:
                yield side, batch
            else:
                yield from ((side, part) for part in pa.Table.from_batches([batch]).filter(tests[side]).to_batches())

    def place(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tagged rows with the number of their partition, once for each that they go to. For DataFrames that are not
        streams, where Spark brings rows to their partition. Raises KeyTypeError."""
        placement = self._placement
        assert placement is not None
        schemas = self._schemas()
        for batch in batches:
            for side, rows, _ in split_union(iter([batch]), *schemas):
                own = batch.filter(pc.equal(batch.column(0), SIDES.index(side)))
                for partition, mask in enumerate(placement.targets(side, rows)[1]):
                    sent = own.filter(pa.array(mask))
                    if sent.num_rows:
                        yield with_number(sent, partition)

    def send(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send a task's rows to the daemons of their partitions; yield rows of `SENT_SCHEMA` that say which they were.

        These are the same for the same rows, in any order: Spark may compute them again, and ends the query where they
        differ. Raises as `run`.
        """
        query, batch, run = self._identity()
        names, task = self._names(query), _partition()
        left, right = self._schemas()
        windows, placement, routes, loads = self.windows, self._placement, None, None
        following = placement if not isinstance(placement, FullPlacement) and placement and placement.follows else None
        if following is not None:
            with self._told(), self._client(0, names[0], claim=True) as client:
                self._open(client, names[0], 0)
                routes = client.routes(names[0], batch, windows)
            loads = following.loads(routes.epoch)
        gathered = SummaryPart(_spec(self.spec), left, right, windows, loads)

        def ship(partition: int, rows: Iterator[tuple[str, pa.RecordBatch]]) -> None:
            def part() -> tuple[PartKey, dict[str, Any]]:
                call = {**gathered.to_wire(), "partition": partition, "partitions": windows}
                return PartKey(task, gathered.rows, gathered.digest), call

            with self._client(partition, names[partition], claim=True) as client:
                self._open(client, names[partition], partition)
                client.stage(names[partition], batch, rows, part, run=run, instance=self.instance)

        with self._told(), ExitStack() as ends:
            if self.device is not None:
                # From another partition on in each task: partitions without a daemon spread over the executors.
                for at in range(windows):
                    self._claimed(names[(task + at) % windows])
            shipments = [Shipment(partial(ship, partition)) for partition in range(windows)]
            for shipment in shipments:
                ends.callback(shipment.cancel)
            for side, rows, numbers in split_union(batches, *self._sent_schemas()):
                masks, counts = None, None
                if placement is not None:
                    counts = no_counts(windows) if routes is not None else None
                    numbers, masks = placement.targets(side, rows, routes, counts)
                elif numbers is not None:
                    masks = numbers == np.arange(windows)[:, None]
                places = gathered.add(side, rows, numbers, counts)
                for partition, shipment in enumerate(shipments):
                    own = rows if masks is None or masks[partition].all() else rows.filter(pa.array(masks[partition]))
                    if own.num_rows:
                        shipment.put((side, own))
                    if places is not None and masks is not None:
                        shipment.put(("places", places_in(places, partition, masks[partition])))
            for shipment in shipments:
                shipment.put(None)
            for shipment in shipments:
                shipment.wait()
        sent = [query, batch, task, gathered.rows, gathered.digest]
        columns = [[value] * windows for value in sent] + [list(range(windows))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SENT_SCHEMA, strict=True)],
            schema=SENT_SCHEMA,
        )

    def fetch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches of one partition, once it has seen all that was sent.

        Every task has every partition join the batch: Spark may ask for one partition's result alone. Raises as `run`.
        """
        sent = pa.Table.from_batches(batches, schema=SENT_SCHEMA).to_pydict()
        found = {(query, batch, target) for query, batch, target in zip(*(sent[n] for n in _OF_ALL), strict=True)}
        if len(found) != 1:
            if not found:  # no task has sent anything, as in a DataFrame that Spark knows to be empty
                return
            raise UnsupportedError(
                f"a task was given what others sent for {sorted(found)}: Spark has changed the partitions of the join"
            )
        ((query, batch, own),) = found
        keys = [PartKey(*values) for values in zip(*(sent[name] for name in PartKey._fields), strict=True)]
        names = self._names(query)

        def have_joined(partition: int) -> None:
            with self._client(partition, names[partition]) as client:
                for _ in client.fetch(names[partition], batch, keys, rows=False):
                    raise ProtocolError(f"query {names[partition]!r}: the daemon sent rows that were not asked for")

        others = [partition for partition in range(self.windows) if partition != own]
        with self._told(), self._client(own, names[own]) as client, ThreadPoolExecutor(max(1, len(others))) as threads:
            begun = [threads.submit(carried(partial(have_joined, partition))) for partition in others]
            result = client.fetch(names[own], batch, keys)
            for future in begun:
                future.result()
            yield from self._with_figures(client, result, names[own], batch, own)

    def _with_figures(
        self, client: DaemonClient, result: Iterator[pa.RecordBatch], name: str, batch: int, partition: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a result, and at the end the daemon's figures where they are wanted."""
        if self.status is None:
            yield from result
            return
        for part in result:
            yield without_figures(part, self.status)
        schema = marked_schema(_spec(self.spec), *self._schemas())
        figures = client.figures(name, batch)[name]
        yield figures_row(schema, self.status, figures, rest=partition >= self.partitions)

    def names(self, query: str) -> list[str]:
        """What the daemons call the windows of the partitions of a query of Spark."""
        return self._names(f"{query}/{self.join}")

    def joins(self, query: str) -> dict[str, JoinSpec]:
        """What the daemons are asked to open for a query of Spark: the join of each window, by what they call it."""
        spec, placement = _spec(self.spec), self._placement
        return {name: spec if placement is None else placement.spec(at) for at, name in enumerate(self.names(query))}

    def halves(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Those of the partitions, and of a full join that has two for each, those that look after right rows."""
        return names[: self.partitions], names[self.partitions :]

    def address_of(self, partition: int, name: str) -> str | None:
        """Of the daemon that has a window; None where none has it. Raises StateError."""
        if self.device is None:
            return self.daemons[partition % len(self.daemons)] if self.daemons else self.address
        assert self.state is not None
        claim = newest_claim(open_store(query_place(self.state, name)))
        return None if claim is None else claim.address

    def _names(self, query: str) -> list[str]:
        """The same of a join in one."""
        placement = self._placement
        return Windows(query, None if placement is None else placement.name, self.windows).names

    @property
    def windows(self) -> int:
        """How many windows the join has: one for each partition, two in full joins that are not cut by equality."""
        placement = self._placement
        return self.partitions if placement is None else placement.count

    @property
    def _placement(self) -> Placement | None:
        """Where rows go; None where Spark has numbered them by partition."""
        if self.partitions == 1:
            return None
        if self.by == "equality":
            schemas = self.left_schema, self.right_schema
            return _by_equality(self.spec, *schemas, self.partitions) if self.streaming else None
        return _placement(self.spec, self.left_schema, self.right_schema, self.partitions, self.by, self.width)

    def _client(self, partition: int, name: str, *, claim: bool = False) -> DaemonClient:
        """Of the daemon that has a partition; one is started with `claim`, where none has it that can be reached."""
        address = self._claimed(name) if claim and self.device is not None else self.address_of(partition, name)
        if address is None:
            raise StateLostError(f"no daemon has the window {name!r}: its state, below {self.state}, has no claim")
        return DaemonClient(address, token=self.token, tls_ca=self.tls_ca)

    def _claimed(self, name: str) -> str:
        """The address of the daemon that has a window, by its state; one is started where none has it."""
        from muntin.pyspark_bridge.executor_daemon import executor_daemon, reachable

        assert self.state is not None
        assert self.token is not None
        device, token, tls_ca = self.device, self.token, self.tls_ca
        return claim_window(
            open_store(query_place(self.state, name)),
            lambda address: reachable(address, token, tls_ca),
            lambda: executor_daemon(str(device), token, self.tls, tls_ca, tracing=self.tracing is not None),
        )

    def _schemas(self) -> tuple[pa.Schema, pa.Schema]:
        return _schema(self.left_schema), _schema(self.right_schema)

    def _sent_schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """Of the sides as `tagged_union` has them: a table is not sent."""
        static = _spec(self.spec).static
        left, right = (
            pa.schema([]) if side == static else own for side, own in zip(SIDES, self._schemas(), strict=True)
        )
        return left, right

    def _open(self, client: DaemonClient, name: str, partition: int) -> None:
        spec = _spec(self.spec) if self._placement is None else self._placement.spec(partition)
        title = _query_title() if self.streaming else None
        table = None if self.tables is None or self.table is None else KeptTable(self.tables, self.table)
        client.open_query(
            name, spec, *self._schemas(), streaming=self.streaming, state=self.state, table=table, fixed=self.fixed,
            title=title,
        )  # fmt: skip

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Adds to errors what the caller can do."""
        try:
            yield
        except (ConnectionLostError, StateLostError) as error:
            if not self.private:
                if self.named or isinstance(error, ConnectionLostError):
                    raise
                raise StateLostError(
                    f"{error} (This join has no name of its own, so changed inputs make it another one to the daemon, "
                    "and so may a new release of Spark: with the program as it was it is found again. "
                    "window_join(..., name=...) keeps its name whatever changes.)"
                ) from error
            raise type(error)(f"{error} ({self._of_private()})") from error
        except StateTakenError as error:
            if self.named:
                raise
            raise StateTakenError(
                f"{error} (Two joins of one query go on with one state where nothing tells them apart, as joins with "
                "two tables of the same columns: give each a name of its own, window_join(..., name=...), or use the "
                "result of one window_join twice.)"
            ) from error

    def _of_private(self) -> str:
        """What a query can do whose own daemon has ended."""
        which = f"the daemon that window_join started for it at {self.address}, which ends with the query"
        again = "call window_join again, and start the query from its checkpoint"
        if _spec(self.spec).stateless:
            which = f"Of this query nothing but a table was in {which}: {again}"
            return which + ("." if self.state else "; a micro-batch that comes again meets the table of that start.")
        which = f"The windows of this query were in {which}."
        if self.state:
            return f"{which} They are in its state too: {again}."
        return (
            f"{which} For a query that is started more than once, give window_join(..., state=FOLDER), or start "
            '`muntin serve` and name it: window_join(..., daemon="unix:/path"). Otherwise call window_join again and '
            "use a new checkpoint."
        )

    def _identity(self) -> tuple[str, int, str]:
        """Query name, batch number and run for the daemon."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "run() is called inside a Spark task"
        if not self.streaming:
            return f"batch/{uuid.uuid4()}", 0, ""
        spark_query = context.getLocalProperty("sql.streaming.queryId")
        spark_batch = context.getLocalProperty("streaming.sql.batchId")
        if not spark_query or not spark_batch:
            raise UnsupportedError(
                "a window join of streams runs in micro-batches (triggers processingTime, once and availableNow), and "
                "this task carries no micro-batch number. In foreachBatch over Spark Connect, and in threads that a "
                "function for foreachBatch starts, Spark gives tasks none: there use window_join(..., stages=2), with "
                "Spark 4.1 or newer and in a query without withWatermark and stateful operators, as these turn Spark's "
                "adaptive execution off"
            )
        return f"{spark_query}/{self.join}", int(spark_batch), _run(context)


class Shipment:
    """A thread that takes what is put, as an iterator.

    Parameters
    ----------
    ship : callable
        Given the iterator, which raises where the shipment is cancelled.
    """

    def __init__(self, ship: Callable[[Iterator[Any]], None]):
        self._waiting: queue.Queue[Any] = queue.Queue(maxsize=8)
        self._error: BaseException | None = None
        self._cancelled = False
        code = carried(partial(self._run, ship))
        self._thread = threading.Thread(target=code, name="muntin-shipment", daemon=True)
        self._thread.start()

    def put(self, item: Any) -> None:
        """Hand something over; None is the end. Raises what `ship` has raised."""
        while True:
            try:
                self._waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                if not self._thread.is_alive():
                    self.wait()
                    return

    def wait(self) -> None:
        """Wait for the end; raises what `ship` raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """End the thread where it has not ended."""
        self._cancelled = True  # before anything is taken out: without it the rest would pass for the whole
        while self._thread.is_alive():
            with suppress(queue.Empty):
                self._waiting.get_nowait()
            with suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(0.02)

    def _run(self, ship: Callable[[Iterator[Any]], None]) -> None:
        try:
            ship(self._items())
        except BaseException as error:
            self._error = error

    def _items(self) -> Iterator[Any]:
        while (item := self._waiting.get()) is not None or self._cancelled:
            if self._cancelled:
                raise ConnectionLostError("the task ended before it had sent all its rows")
            yield item


@lru_cache(maxsize=64)  # a task opens each partition, and a worker runs many tasks of a query
def _spec(text: str) -> JoinSpec:
    return JoinSpec.from_json(text)


@lru_cache(maxsize=64)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))


@lru_cache(maxsize=64)
def _placement(spec: str, left: bytes, right: bytes, partitions: int, by: str, width: Any) -> Placement:
    return open_placement(_spec(spec), _schema(left), _schema(right), Partitions(partitions, by, width=width))


@lru_cache(maxsize=64)
def _by_equality(spec: str, left: bytes, right: bytes, partitions: int) -> Placement | None:
    join = _spec(spec)
    return EqualityPlacement(join, _schema(left), _schema(right), partitions) if can_follow(join) else None


def _partition() -> int:
    """The number of this task's partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _query_title() -> str | None:
    """The name that the user has given the streaming query; None where there is none.

    Spark tells tasks of it in the description of their jobs alone, which a function for foreachBatch may have changed.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # a task that is called by itself
        return None
    told = re.match(r"(.+)\nid = \S+\nrunId = ", context.getLocalProperty("spark.job.description") or "", re.DOTALL)
    return told and told[1]


def _run(context: Any) -> str:
    """What is the same in all tasks of one run of a streaming query, and different in every other run."""
    # Each run has a session of its own, with which Spark tags its jobs. The job group, the run's id, is less reliable:
    # it is what the caller's function for foreachBatch has last set.
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = sorted(tag for tag in tags if re.fullmatch(r"spark-session-[0-9a-f-]{36}", tag))
    return ",".join(sessions) or context.getLocalProperty("spark.jobGroup.id") or ""


def task_function(
    task: JoinTask, root: str, stage: str = "run"
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`.

    It is pickled by value, and holds plain values only, so that it can say what is wrong where Muntin is not
    installed for Spark's Python workers.

    Parameters
    ----------
    task : JoinTask
        What to run.
    stage : str
        Which method of it: "run", "send" or "fetch".
    root : str
        Folder of the packages `host` and `pyspark_bridge` here; used where a worker cannot import them
        otherwise and sees the same folder, as in local mode from a source tree.
    """
    values: dict[str, Any] = dict(vars(task))

    def join_in_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import sys

        try:
            import muntin.pyspark_bridge.join_task
        except ImportError:
            sys.path.append(root)
            try:
                import muntin.pyspark_bridge.join_task
            except ImportError as error:
                os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")  # as for errors of ours
                raise ImportError(
                    f"Spark's Python worker ({sys.executable}) cannot import muntin: {error}. Install "
                    "muntin where the "
                    "workers run, or set PYSPARK_PYTHON to a Python that has it before the session starts"
                ) from error
        yield from muntin.pyspark_bridge.join_task.JoinTask(**values).traced(stage, batches)

    return join_in_daemon
