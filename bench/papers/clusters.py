"""The papers' clusters: PanJoin's manager and workers, SPO-Join's elements, over the partitions of one process; and the
same as processes, over the daemon's own messages."""

from __future__ import annotations

import dataclasses
import datetime as dt
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pyarrow as pa

import muntin.host.daemon.unix_client
import muntin.pyspark_bridge.join_task
from bench.cluster_model import tagged
from muntin import JoinSpec, Partitions, WindowJoin
from muntin.host.call import Call, Found
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.daemon.frames import FrameSocket
from muntin.host.daemon.rows import Body
from muntin.host.daemon.staging import PartKey
from muntin.host.index import SpoJoin
from muntin.host.join.collector import MAX_ROWS, Collector
from muntin.host.join.range_mirror import RangeMirror
from muntin.host.sides import SIDES, Sides
from muntin.pyspark_bridge.join_task import JoinTask

_MAX_UNDER_WAY = 2  # batches that workers have before `push` waits for them


class Manager:
    """PanJoin's: a join whose subwindows lie on workers in turn, and that takes rows while they work.

    A batch is sorted once. Probes go to workers that hold rows of the other side which they can see, inserts to the
    worker of the newest subwindow, and nothing goes from worker to worker. With ``form="ranges"`` workers send
    ``<start, end>`` records, and a mirror here gives the pairs.

    Source: PanJoin (Pan and Jacobsen), section III-A, steps 1 to 5.

    Parameters
    ----------
    workers : int
        At least 1; each is a partition of `WindowJoin`.
    left_schema, right_schema : pyarrow.Schema
    subwindow_rows : int, optional
        As of `Partitions`.
    max_rows, max_delay
        Of a batch, as of `WindowJoin`.
    mirror : bool
        False to give ranges as workers send them, without pairs.
    **options
        Of `WindowJoin`.

    Raises
    ------
    MuntinError
        What `WindowJoin` raises.
    """

    def __init__(
        self, workers: int, left_schema: pa.Schema, right_schema: pa.Schema, *, subwindow_rows: int | None = None,
        max_rows: int = MAX_ROWS, max_delay: str | dt.timedelta | None = None, mirror: bool = True, **options: Any,
    ):  # fmt: skip
        self._collector = Collector(max_rows, max_delay)
        partitions = Partitions(workers, "subwindows" if workers > 1 else "auto", subwindow_rows)
        schemas = {"left_schema": left_schema, "right_schema": right_schema}
        self.join = WindowJoin(partitions=partitions, **schemas, **options)
        self._mirror = None
        if mirror and self.join.spec.form == "ranges":
            self._mirror = RangeMirror(self.join.spec, left_schema, right_schema)
        self._empty = left_schema.empty_table(), right_schema.empty_table()
        self._thread = ThreadPoolExecutor(1, "muntin-manager")
        self._under_way: deque[Future[pa.Table]] = deque()

    def push(self, left: pa.Table | None = None, right: pa.Table | None = None) -> list[pa.Table]:
        """Takes rows, left before right, and hands a batch that is full to the workers.

        Returns the results that are there, in order; waits for the oldest where workers are two batches behind. Raises
        as `WindowJoin.process`, for an earlier batch.
        """
        sides = zip(SIDES, (left, right), self._empty, strict=True)
        self._collector.add({side: empty if rows is None else rows for side, rows, empty in sides})
        if self._collector.due == 0:
            self._hand_over()
        return self._taken(_MAX_UNDER_WAY)

    def flush(self) -> list[pa.Table]:
        """Has all rows joined; the results since the last call, in order. Raises as `push`."""
        if self._collector.pushes:
            self._hand_over()
        return self._taken(0)

    def _hand_over(self) -> None:
        waiting, pushes = self._collector.waiting(), self._collector.pushes
        self._collector.clear()
        self._under_way.append(self._thread.submit(self._process, waiting, pushes))

    def _process(self, waiting: Sides[pa.Table | None], pushes: list[tuple[int, int]]) -> pa.Table:
        found = self.join.process_pushes(waiting["left"], waiting["right"], pushes)
        return found if self._mirror is None else self._mirror.pairs(found, waiting["left"], waiting["right"])

    def _taken(self, most: int) -> list[pa.Table]:
        """The results that are there, once no more than `most` batches are under way."""
        found = []
        while self._under_way and (len(self._under_way) > most or self._under_way[0].done()):
            found.append(self._under_way.popleft().result())
        return found

    @property
    def workers(self) -> list[dict[str, int]]:
        """What each worker does, as `Stats.engine` has it: rows, probes and bytes."""
        return self.join.stats.engine["partitions"]

    def close(self) -> None:
        """Waits for the workers, and closes the join. Idempotent."""
        self._thread.shutdown()
        self.join.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Elements:
    """SPO-Join's processing elements: each takes in turn a sub-interval of the slide, and makes a run of it.

    Every probe carries its limits, so that an element never joins an expired row, and none drops a row that may be met,
    whatever it knows of the other elements. What it knows decides how long it holds rows that can match nothing.

    Source: SPO-Join (Aslam, Beedkar and Simonini), sections 3.3 and 4.2.

    Parameters
    ----------
    count : int
        At least 2.
    slide : int
        Rows; an element takes `slide` over `count` of them at a time.
    in_step : str
        How elements learn how far the window has moved. ``"replaced"``: by the sub-intervals that they take, the first
        way of section 4.2. ``"counts"``: from the sizes of all sub-intervals, the second. ``"cache"``: from a counter
        that the first element writes, and the others read, every `interval` rows, the third.
    interval : int
        Rows, at least 1.
    left_schema : pyarrow.Schema
    **options
        Of `WindowJoin`, for count windows.

    Attributes
    ----------
    join : WindowJoin
    messages : int
        What elements have been told, or have read, of the state of the window.
    """

    def __init__(
        self, count: int, slide: int, *, in_step: str = "counts", interval: int = 1000, left_schema: pa.Schema,
        **options: Any,
    ):  # fmt: skip
        each = slide // count
        self.join = WindowJoin(
            index=SpoJoin(slide=each, sub_intervals=1), partitions=Partitions(count, "subwindows", each),
            left_schema=left_schema, **options,
        )  # fmt: skip
        self.messages = 0
        self._count, self._in_step = count, in_step
        self._every = {"replaced": None, "counts": each, "cache": interval}[
            in_step
        ]  # rows from one message to the next
        self._arrived = dict.fromkeys(SIDES, 0)
        calls: Any = self.join._calls
        self._engines = calls.journal.pipeline.engine._engines
        for element in self._engines:
            element.run = self._in_step_with(element.run)

    def _in_step_with(self, run: Callable[[Call], Iterator[Found]]) -> Callable[[Call], Iterator[Found]]:
        """An element's `run` that learns of less than has arrived, so that it keeps rows for longer. Its own rows it
        always knows."""

        def told(call: Call) -> Iterator[Found]:
            every = self._every
            known = {side: 0 if every is None else row // every * every for side, row in call.arrived.items()}
            return run(dataclasses.replace(call, arrived=known))

        return told

    def process(self, left: pa.Table, right: pa.Table | None = None) -> pa.Table:
        """The result of the next rows, as of `WindowJoin.process`."""
        result = self.join.process(left, right)
        for side, table in zip(SIDES, (left, right), strict=True):
            before = self._arrived[side]
            self._arrived[side] += 0 if table is None else len(table)
            if self._every is not None:
                steps = self._arrived[side] // self._every - before // self._every
                # To each of the others the size of a sub-interval; or one write and their reads.
                self.messages += steps * (self._count - 1 if self._in_step == "counts" else self._count)
        return result

    @property
    def parts(self) -> list[dict[str, Any]]:
        """What each element does, as `Stats.engine` has it, and the oldest row that it holds of each side."""
        parts = self.join.stats.engine["partitions"]
        return [
            part | {f"oldest_{side}": element._core.oldest(at, -1) for at, side in enumerate(SIDES)}
            for part, element in zip(parts, self._engines, strict=True)
        ]


class Processes:
    """A cluster whose workers, or elements, are processes: daemons, each with a partition of a join of time windows.

    This process sends rows as a task of Spark does (`JoinTask.send`: open, routes, rows of each side, commit), and
    fetches each partition's result (`DaemonClient.fetch`), over sockets, in the daemon's messages alone. Rows of the
    left side go to the daemons in turn, those of one subwindow of time to one; rows of the right side go, and are
    stored, where they reach: a process that sends rows keeps no record of them.

    Source: PanJoin, section III-A; SPO-Join, section 4.

    Parameters
    ----------
    count : int
        At least 1.
    spec : JoinSpec
        With a time window and a watermark; not of one stream with itself, whose rows are to be given for both sides.
    schema : pyarrow.Schema
        Of both sides.
    subwindow : timedelta
        What goes to one daemon at a time.

    Attributes
    ----------
    wire : list of dict of str to int
        Of each daemon, what has crossed its sockets: ``bytes_in`` and ``messages_in`` of this process to it,
        ``bytes_out`` and ``messages_out`` of it to this process, rows of results included.

    Raises
    ------
    DaemonError, MuntinError
        What `start_private`, `DaemonClient` and the join raise.
    """

    def __init__(self, count: int, spec: JoinSpec, schema: pa.Schema, subwindow: dt.timedelta):
        packed = schema.serialize().to_pybytes()
        self._ends = ExitStack()
        self._threads = self._ends.enter_context(ThreadPoolExecutor(count, "muntin-fetch"))
        started = self._threads.map(start_private, ["cpu:threads=1"] * count)
        daemons = [self._ends.enter_context(each) for each in started]
        self._addresses = [daemon.address for daemon in daemons]
        self._task = JoinTask(
            address=self._addresses[0], token=None, tls_ca=None, private=False, join="cluster", named=True,
            instance="manager", spec=spec.to_json(), left_schema=packed, right_schema=packed, streaming=True,
            partitions=count, by="subwindows", width=subwindow, daemons=tuple(self._addresses),
        )  # fmt: skip
        self._result = spec.output_schema(schema, schema)
        self._batch = 0
        self.wire = [dict.fromkeys(_CROSSED, 0) for _ in daemons]

    def process(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The rows of the next micro-batch joined, in no particular order."""
        given = [
            part
            for side, table in zip(SIDES, (left, right), strict=True)
            for rows in table.to_batches()
            for part in tagged(side, rows)
        ]
        names, identity = self._task.names(_QUERY), (f"{_QUERY}/{self._task.join}", self._batch, "")
        with (
            mock.patch.object(muntin.host.daemon.unix_client, "FrameSocket", self._counted),
            mock.patch.object(muntin.pyspark_bridge.join_task, "_partition", return_value=0),
            mock.patch.object(JoinTask, "_identity", return_value=identity),
        ):
            (sent,) = self._task.send(iter(given))
            key = PartKey(*(sent.column(name)[0].as_py() for name in PartKey._fields))

            def fetched(at: int) -> list[pa.RecordBatch]:
                with DaemonClient(self._addresses[at]) as client:
                    return list(client.fetch(names[at], self._batch, [key]))

            found = list(self._threads.map(fetched, range(len(names))))
        self._batch += 1
        return pa.Table.from_batches([batch for each in found for batch in each], self._result)

    @property
    def crossed(self) -> dict[str, int]:
        """What has crossed the sockets of all daemons together."""
        return {name: sum(of[name] for of in self.wire) for name in _CROSSED}

    def _counted(self, sock: socket.socket, max_message: int) -> FrameSocket:
        at = self._addresses.index(f"unix:{sock.getpeername()}")
        return _CountedFrames(sock, max_message, self.wire[at])

    def close(self) -> None:
        """Ends the daemons. Idempotent."""
        self._ends.close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_QUERY = "papers"
_CROSSED = ("bytes_in", "messages_in", "bytes_out", "messages_out")


class _CountedSocket:
    """A connected socket whose bytes are counted."""

    def __init__(self, sock: socket.socket, crossed: dict[str, int]):
        self._sock, self._crossed = sock, crossed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendmsg(self, parts: list[memoryview]) -> int:
        sent = self._sock.sendmsg(parts)
        self._crossed["bytes_in"] += sent
        return sent

    def recv_into(self, view: memoryview) -> int:
        got = self._sock.recv_into(view)
        self._crossed["bytes_out"] += got
        return got


class _CountedFrames(FrameSocket):
    """A connection to a daemon that counts what crosses it. Those to one daemon are used one after the other."""

    def __init__(self, sock: socket.socket, max_message: int, crossed: dict[str, int]):
        counted: Any = _CountedSocket(sock, crossed)
        super().__init__(counted, max_message)
        self._crossed = crossed

    def send(self, message: dict[str, Any], body: Body | None = None) -> None:
        self._crossed["messages_in"] += 1
        super().send(message, body)

    def receive_message(self) -> tuple[dict[str, Any], int] | None:
        received = super().receive_message()
        self._crossed["messages_out"] += received is not None
        return received
