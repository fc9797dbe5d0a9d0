"""The papers' clusters, over the partitions of one process: PanJoin's manager and workers, SPO-Join's elements."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from muntin import Partitions, WindowJoin
from muntin.host.call import Call, Found
from muntin.host.index import SpoJoin
from muntin.host.join.collector import MAX_ROWS, Collector
from muntin.host.join.range_mirror import RangeMirror
from muntin.host.sides import SIDES, Sides

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
