"""A query whose requests are joins of their own."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from muntin.host.daemon.definition import Definition
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.query import Query, Request
from muntin.host.daemon.result import FairLock, PassingResult, Tables
from muntin.host.daemon.staging import Sender
from muntin.host.devices import Device
from muntin.host.errors import CapacityError
from muntin.host.join import WindowJoin
from muntin.host.join.late_rows import marked, with_mark


class OpenJoins:
    """Lets joins that do not fit beside others wait until one of these has ended."""

    def __init__(self) -> None:
        self._open = self._ended = 0
        self._changed = threading.Condition()

    def begun(self) -> None:
        """A join takes room."""
        with self._changed:
            self._open += 1

    def ended(self) -> None:
        """It has given it back."""
        with self._changed:
            self._open -= 1
            self._ended += 1
            self._changed.notify_all()

    def wait(self) -> bool:
        """Waits until a join has ended; False, at once, where there is none."""
        with self._changed:
            if not self._open:
                return False
            ended = self._ended
            return self._changed.wait_for(lambda: self._ended > ended)


class BatchQuery(Query):
    """Each request is joined from an empty window, and nothing is kept after it.

    Its result is sent as it is made. Requests share the device, between blocks of their results; one that finds no
    memory beside others waits until one of them has ended.

    Parameters
    ----------
    As of `Query`, and:
    open_joins : OpenJoins
        Shared by all queries of the kind.
    """

    _prepared = False

    def __init__(
        self,
        name: str,
        definition: Definition,
        device: Device,
        device_lock: FairLock,
        limits: Limits,
        open_joins: OpenJoins,
    ):
        super().__init__(name, definition, device, device_lock, limits)
        self._open_joins = open_joins

    def prepare(self) -> bool:
        # Nothing to take: the service has asked for the schema of the result, which tells a wrong column.
        with self._state:
            self._check_open()
            first, self._prepared = not self._prepared, True
            return first

    def begin(self, batch: int, sender: Sender) -> Request:
        with self._state:
            self._check_open()
            request = Request(self, batch, sender)
            self._counts["requests"] += 1
            self._open_requests.add(request)
            return request

    def apply(self, request: Request, left: pa.Table, right: pa.Table) -> PassingResult:
        return PassingResult(self._joined(request, left, right))

    def _joined(self, request: Request, left: pa.Table, right: pa.Table) -> Tables:
        begun = time.monotonic()
        join, tables = self._begin(left, right)
        rows_out = 0
        try:
            for table in self._device_lock.between(lambda: tables):
                rows_out += table.num_rows
                yield table
            with self._device_lock:
                rest = join.finish()
                stats = join.stats.as_dict()
            yield with_mark(rest, self.definition.output_schema)
        finally:
            # First the join: of a result that is read no more the rest need not be found.
            with self._device_lock:
                join.close()
            self._open_joins.ended()
        with self._state:
            self._applied(request, request.batch, left, right, rows_out + rest.num_rows, stats, begun)

    def _begin(self, left: pa.Table, right: pa.Table) -> tuple[WindowJoin, Tables]:
        """A join that has begun its one call."""
        while True:
            try:
                with self._device_lock:
                    join = WindowJoin.from_spec(
                        self.definition.spec,
                        device=self._device,
                        left_schema=self.definition.left_schema,
                        right_schema=self.definition.right_schema,
                    )
                    try:
                        tables = join.process_blocks(
                            *self.definition.sides(left, right), block_bytes=self.limits.block_bytes
                        )
                        tables = marked(join, tables, self.definition.output_schema)
                        if not self._device.in_process:  # a board's commands must not be disturbed between blocks
                            tables = _made(list(tables))
                    except BaseException:
                        join.close()
                        raise
                    self._open_joins.begun()
                    return join, tables
            except CapacityError:
                if not self._open_joins.wait():
                    raise

    def close(self) -> None:
        with self._state:
            self._closed = True


def _made(tables: list[pa.Table]) -> Tables:
    yield from tables
