"""What runs inside Spark's task: one micro-batch to the daemon, its result back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from host.daemon import DaemonClient
from host.errors import ConnectionLostError, StateLostError, UnsupportedError
from host.spec import JoinSpec
from pyspark_bridge.tagged_union import split_union


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
        What tells this join from others in the same Spark query.
    spec : str
        The join, as `JoinSpec.to_json` writes it.
    left_schema, right_schema : bytes
        Serialized Arrow schemas of the sides.
    streaming : bool
        Whether the DataFrames are streams.
    """

    address: str
    token: str | None
    tls_ca: str | None
    private: bool
    join: str
    spec: str
    left_schema: bytes
    right_schema: bytes
    streaming: bool

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send a task's rows, yield their matches.

        Raises
        ------
        DaemonError
            The daemon is gone, or does not hold the window that this micro-batch continues.
        MullionError
            What the join itself raises, such as `OrderError` or `CapacityError`.
        """
        query, batch, attempt = self._identity()
        left, right = (pa.ipc.read_schema(pa.py_buffer(schema)) for schema in (self.left_schema, self.right_schema))
        try:
            with DaemonClient(self.address, token=self.token, tls_ca=self.tls_ca) as client:
                client.open_query(query, JoinSpec.from_json(self.spec), left, right, streaming=self.streaming)
                try:
                    # The join runs in one partition whose number Spark may change between micro-batches (in
                    # a union with other data), so it is always 0 to the daemon.
                    yield from client.process(query, batch, 0, attempt, split_union(batches, left, right))
                finally:
                    if not self.streaming:
                        client.close_query(query)
        except (ConnectionLostError, StateLostError) as error:
            if not self.private:
                raise
            raise type(error)(
                f"{error} (The windows of this query were in the daemon that window_join started for it, which "
                "ends with the query. For a query that is started more than once, start `mullion serve` and name "
                'it: window_join(..., daemon="unix:/path"). Otherwise call window_join again and use a new '
                "checkpoint.)"
            ) from error

    def _identity(self) -> tuple[str, int, int]:
        """Query name, batch number and attempt number for the daemon."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "run() is called inside a Spark task"
        if not self.streaming:
            return f"batch/{uuid.uuid4()}", 0, context.attemptNumber()
        spark_query = context.getLocalProperty("sql.streaming.queryId")
        spark_batch = context.getLocalProperty("streaming.sql.batchId")
        if not spark_query or not spark_batch:
            raise UnsupportedError(
                "a window join of streams runs in micro-batches (triggers processingTime, once and "
                "availableNow); this "
                "task carries no micro-batch number"
            )
        return f"{spark_query}/{self.join}", int(spark_batch), context.attemptNumber()


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
