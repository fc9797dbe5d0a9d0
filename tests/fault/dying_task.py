"""Tasks of a join that carry out `Orders` in their phases.

As Spark's ``spark.python.daemon.module`` it starts Python workers that have loaded it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import muntin.pyspark_bridge.executor_daemon as executor_daemon
from muntin.host.errors import MuntinError
from muntin.pyspark_bridge.join_task import SENT_SCHEMA, JoinTask
from tests.fault.orders import Orders, Victims


@dataclass(frozen=True)
class DyingTask(JoinTask):
    """A task of two stages; the daemons that it starts carry out orders too.

    Attributes
    ----------
    folder : str
        Of the orders.
    """

    folder: str = ""

    def send(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As of `JoinTask`."""
        query, batch, _ = self._identity()
        reached = self._phases(query, batch)

        def given() -> Iterator[pa.RecordBatch]:
            for rows in batches:
                yield rows
                reached("while the rows are sent")  # those of the first one are on their way

        reached("before the rows are sent")
        for row in super().send(given()):
            reached("before the barrier")
            yield row
        reached("after the row for the barrier")

    def fetch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As of `JoinTask`."""
        sent = list(batches)
        told = pa.Table.from_batches(sent, schema=SENT_SCHEMA)
        if not told.num_rows:
            return
        query, batch = told["query"][0].as_py(), told["batch"][0].as_py()
        reached = self._phases(query, batch)
        with Orders(self.folder).fetching(batch, executor_daemon._executor()):
            reached("before the result is asked for")
            for rows in super().fetch(iter(sent)):
                yield rows
                reached("within the fetched rows")
        reached("after the fetched rows")

    def _phases(self, query: str, batch: int) -> Callable[[str], None]:
        executor_daemon.MODULE = ["tests.fault.dying_daemon", self.folder]
        orders = Orders(self.folder)

        def daemon() -> list[int]:
            partition = batch % self.partitions
            with contextlib.suppress(MuntinError), self._client(partition, self._names(query)[partition]) as client:
                return [client.status()["pid"]]
            return []

        victims: Victims = {
            "task": lambda: [os.getpid()],
            "executor": lambda: [executor_daemon._executor()],
            "driver": lambda: orders.driver,
            "daemon": daemon,
        }
        return lambda phase: orders.reached(phase, batch, victims)


def dying_tasks(folder: str) -> Callable[..., Any]:
    """What takes the place of `task_function`."""

    def task_function(task: JoinTask, root: str, stage: str = "run") -> Callable[..., Any]:
        values: dict[str, Any] = dict(vars(task))

        def join_in_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import sys

            if root not in sys.path:
                sys.path.insert(0, root)
            from tests.fault.dying_task import DyingTask

            yield from getattr(DyingTask(**values, folder=folder), stage)(batches)

        return join_in_daemon

    return task_function


if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
