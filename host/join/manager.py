"""PanJoin's manager node: it collects rows while its workers join those before.

Source: PanJoin (Pan and Jacobsen), section III-A, steps 1 to 5.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from muntin.host.engines import Partitions
from muntin.host.join.collector import MAX_ROWS, Collector
from muntin.host.join.range_mirror import RangeMirror
from muntin.host.window_join import WindowJoin

_MOST_UNDER_WAY = 2  # batches that workers have before `push` waits for them


class Manager:
    """A join whose subwindows lie on workers in turn, and that takes rows while they work.

    A batch is sorted once. Probes go to workers that hold rows of the other side which they can see, inserts to the
    worker of the newest subwindow, and nothing goes from worker to worker. With ``form="ranges"`` workers send
    ``<start, end>`` records, and a mirror here gives the pairs.

    Parameters
    ----------
    workers : int
        At least 1; each is a partition of `WindowJoin`.
    left_schema, right_schema : pyarrow.Schema
    subwindow_rows : int, optional
        As of `Partitions`.
    max_rows, max_delay
        Of a batch, as of `WindowJoin`.
    **options
        Of `WindowJoin`.

    Raises
    ------
    MuntinError
        What `WindowJoin` raises.
    """

    def __init__(
        self, workers: int, left_schema: pa.Schema, right_schema: pa.Schema, *, subwindow_rows: int | None = None,
        max_rows: int = MAX_ROWS, max_delay: str | dt.timedelta | None = None, **options: Any,
    ):  # fmt: skip
        self._collector = Collector(max_rows, max_delay)
        partitions = Partitions(workers, "subwindows" if workers > 1 else "auto", subwindow_rows)
        schemas = {"left_schema": left_schema, "right_schema": right_schema}
        self.join = WindowJoin(partitions=partitions, **schemas, **options)
        self._mirror = None
        if self.join.spec.form == "ranges":
            self._mirror = RangeMirror(self.join.spec, left_schema, right_schema)
        self._empty = left_schema.empty_table(), right_schema.empty_table()
        self._thread = ThreadPoolExecutor(1, "muntin-manager")
        self._under_way: deque[Future[pa.Table]] = deque()

    def push(self, left: pa.Table | None = None, right: pa.Table | None = None) -> list[pa.Table]:
        """Takes rows, left before right, and hands a batch that is full to the workers.

        Returns the results that are there, in order; waits for the oldest where workers are two batches behind. Raises
        as `WindowJoin.process`, for an earlier batch.
        """
        sides = zip(("left", "right"), (left, right), self._empty, strict=True)
        self._collector.add({side: empty if rows is None else rows for side, rows, empty in sides})
        if self._collector.due == 0:
            self._hand_over()
        return self._taken(_MOST_UNDER_WAY)

    def flush(self) -> list[pa.Table]:
        """Has all rows joined; the results since the last call, in order. Raises as `push`."""
        if self._collector.pushes:
            self._hand_over()
        return self._taken(0)

    def _hand_over(self) -> None:
        waiting, pushes = self._collector.waiting(), self._collector.pushes
        self._collector.clear()
        self._under_way.append(self._thread.submit(self._process, waiting, pushes))

    def _process(self, waiting: dict[str, pa.Table | None], pushes: list[tuple[int, int]]) -> pa.Table:
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
