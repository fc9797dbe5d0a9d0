"""What runs inside Spark's task: one micro-batch to the daemon, its result back."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from host.daemon import DaemonClient
from host.daemon.client import marks_of
from host.errors import ConnectionLostError, StateLostError, UnsupportedError
from host.spec import JoinSpec
from host.windows.watermark_tracker import Mark
from pyspark_bridge.tagged_union import checked_partition, split_union


@dataclass(frozen=True)
class JoinTask:
    """The part of a Spark query that one task carries out. Plain values only: it travels inside Spark's plan.

    Attributes
    ----------
    address, token, tls_ca : str
        Of the daemon.
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
        Tasks, each with a window of its own.
    daemons : tuple of str
        Addresses where partitions live, in turn; `address` is the first.
    """

    address: str
    token: str | None
    tls_ca: str | None
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
    daemons: tuple[str, ...] = ()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send a task's rows, yield their matches.

        Raises
        ------
        DaemonError
            The daemon is gone, or does not hold the window that this micro-batch continues.
        MullionError
            What the join itself raises, such as `OrderError` or `CapacityError`.
        """
        query, batch, run = self._identity()
        number = 0
        if self.partitions > 1:
            number = _partition()
            batches = checked_partition(batches, number, self.partitions)
        left, right = (pa.ipc.read_schema(pa.py_buffer(schema)) for schema in (self.left_schema, self.right_schema))
        try:
            with ExitStack() as clients:
                spec = JoinSpec.from_json(self.spec)

                def client_of(partition: int) -> DaemonClient:
                    address = self.daemons[partition % len(self.daemons)] if self.daemons else self.address
                    return clients.enter_context(DaemonClient(address, token=self.token, tls_ca=self.tls_ca))

                def open_part(client: DaemonClient, name: str) -> None:
                    client.open_query(name, spec, left, right, streaming=self.streaming, state=self.state)

                client = client_of(number)
                marks: list[Mark] = []
                if self.partitions > 1:
                    names = [f"{query}/{at}-of-{self.partitions}" for at in range(self.partitions)]
                    query = names[number]
                    if self.streaming and spec.watermark is not None:
                        others = [(client_of(at), name) for at, name in enumerate(names) if at != number]
                        marks = marks_of(others, open_part)
                open_part(client, query)
                try:
                    rows = split_union(batches, left, right)
                    yield from client.process(query, batch, rows, run=run, instance=self.instance, marks=marks)
                finally:
                    if not self.streaming:
                        client.close_query(query)
        except (ConnectionLostError, StateLostError) as error:
            if not self.private:
                if self.named or isinstance(error, ConnectionLostError):
                    raise
                raise StateLostError(
                    f"{error} (This join has no name of its own, so changed inputs make it another one to the daemon, "
                    "and so may a new release of Spark: with the program as it was it is found again. "
                    "window_join(..., name=...) keeps its name whatever changes.)"
                ) from error
            raise type(error)(
                f"{error} (The windows of this query were in the daemon that window_join started for it at "
                f"{self.address}, which ends with the query. "
                + (
                    "They are in its state too: call window_join again, and start the query from its checkpoint.)"
                    if self.state
                    else "For a query that is started more than once, give window_join(..., state=FOLDER), or start "
                    '`mullion serve` and name it: window_join(..., daemon="unix:/path"). Otherwise call window_join '
                    "again and use a new checkpoint.)"
                )
            ) from error

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
                "a window join of streams runs in micro-batches (triggers processingTime, once and "
                "availableNow); this "
                "task carries no micro-batch number"
            )
        return f"{spark_query}/{self.join}", int(spark_batch), _run(context)


def _partition() -> int:
    """The number of this task's partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _run(context: Any) -> str:
    """What is the same in all tasks of one run of a streaming query, and different in every other run."""
    # Each run has a session of its own, with which Spark tags its jobs. The job group, the run's id, is less reliable:
    # it is what the caller's function for foreachBatch has last set.
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = sorted(tag for tag in tags if re.fullmatch(r"spark-session-[0-9a-f-]{36}", tag))
    return ",".join(sessions) or context.getLocalProperty("spark.jobGroup.id") or ""


def task_function(task: JoinTask, root: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`.

    It is pickled by value, and holds plain values only, so that it can say what is wrong where Mullion is not
    installed for Spark's Python workers.

    Parameters
    ----------
    task : JoinTask
        What to run.
    root : str
        Folder of the packages `host` and `pyspark_bridge` here; used where a worker cannot import them
        otherwise and sees the same folder, as in local mode from a source tree.
    """
    values: dict[str, Any] = dict(vars(task))

    def join_in_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        try:
            import pyspark_bridge.join_task
        except ImportError:
            sys.path.append(root)
            try:
                import pyspark_bridge.join_task
            except ImportError as error:
                raise ImportError(
                    f"Spark's Python worker ({sys.executable}) cannot import mullion: {error}. Install "
                    "mullion where the "
                    "workers run, or set PYSPARK_PYTHON to a Python that has it before the session starts"
                ) from error
        yield from pyspark_bridge.join_task.JoinTask(**values).run(batches)

    return join_in_daemon
