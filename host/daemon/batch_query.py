"""A query whose requests are joins of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from host import WindowJoin
from host.daemon.query import Query
from host.daemon.request import Request
from host.daemon.staging import Sender
from host.windows.watermark_tracker import Mark


class BatchQuery(Query):
    """Each request is joined from an empty window, and nothing is kept after it.

    The device is held for one request at a time, so its memory bounds the work in progress;
    `Limits.max_staged` bounds what waits.
    """

    _prepared = False

    def prepare(self) -> bool:
        # Nothing to take: the service has asked for the schema of the result, which tells a wrong column.
        with self._state:
            self._check_open()
            first, self._prepared = not self._prepared, True
            return first

    def begin(self, batch: int, sender: Sender, marks: Sequence[Mark] = ()) -> Request:
        with self._state:
            self._check_open()
            request = Request(self, batch, sender)
            self._counts["requests"] += 1
            self._open_requests.add(request)
            return request

    def apply(self, request: Request, left: pa.Table, right: pa.Table) -> pa.Table:
        with self._device_lock:
            join = WindowJoin.from_spec(
                self.definition.spec,
                device=self._device,
                left_schema=self.definition.left_schema,
                right_schema=self.definition.right_schema,
            )
            with join:
                result = pa.concat_tables([join.process(*self.definition.sides(left, right)), join.finish()])
                stats = join.stats.as_dict()
        with self._state:
            self._applied(request, left, right, result)
            self._stats = stats
        return result

    def close(self) -> None:
        with self._state:
            self._closed = True
