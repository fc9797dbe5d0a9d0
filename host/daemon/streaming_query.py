"""A query whose batches continue one window, each applied exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from host import WindowJoin
from host.daemon.query import Query
from host.daemon.request import Request
from host.errors import ReplayError, StateLostError, UnsupportedError


@dataclass(frozen=True)
class Applied:
    """The newest batch that was applied; it becomes final when a later one is."""

    batch: int
    partition: int
    result: pa.Table


class StreamingQuery(Query):
    """Holds a `WindowJoin` and the result of its newest batch.

    A repeat of the newest batch, by whatever attempt, gets the result that was kept; a batch before it is
    refused; of two attempts at once the one that is complete first is applied, and the other waits and gets
    the same result. Numbers may have gaps.

    For state that outlives the process there is one place to write, `apply` between the join and the
    assignment of `_newest`, and one to read, `prepare`.
    """

    _join: WindowJoin | None = None
    _newest: Applied | None = None

    def prepare(self) -> bool:
        with self._turn:
            self._check_open()
            if self._join is not None:
                return False
            with self._device_lock:
                self._join = WindowJoin.from_spec(
                    self.definition.spec,
                    device=self._device,
                    left_schema=self.definition.left_schema,
                    right_schema=self.definition.right_schema,
                )
            with self._state:
                self._stats = self._join.stats.as_dict()
            return True

    def begin(self, batch: int, partition: int, attempt: int) -> Request:
        with self._state:
            self._check_open()
            kept = self._kept(batch, partition)
            for other in self._open_requests:
                if other.batch == batch and other.partition != partition:
                    raise self._second_partition(batch, partition, other.partition)
            request = Request(self, batch, partition, attempt, kept)
            self._counts["requests"] += 1
            if kept is None:
                self._open_requests.add(request)
            else:
                self._counts["repeats"] += 1
            return request

    def apply(self, request: Request, left: pa.Table, right: pa.Table) -> pa.Table:
        with self._turn:
            with self._state:
                self._check_open()
                kept = self._kept(request.batch, request.partition)
                if kept is not None:
                    self._open_requests.discard(request)
                    self._counts["repeats"] += 1
                    return kept
            assert self._join is not None, "prepare() comes before begin()"
            with self._device_lock:
                result = self._join.process(left, right)
            with self._state:
                self._newest = Applied(request.batch, request.partition, result)
                self._applied(request, left, right, result)
                self._stats = self._join.stats.as_dict()
            return result

    def close(self) -> None:
        with self._state:
            self._closed = True
        with self._turn:
            self._newest = None
            if self._join is not None:
                with self._device_lock:
                    self._join.close()
                self._join = None

    def status(self) -> dict[str, Any]:
        newest = self._newest
        return {
            **super().status(),
            "batch": newest.batch if newest else None,
            "kept_rows": newest.result.num_rows if newest else 0,
            "kept_bytes": newest.result.nbytes if newest else 0,
        }

    def _kept(self, batch: int, partition: int) -> pa.Table | None:
        """The kept result where the newest batch is repeated, None where it is new; `_state` is held."""
        newest = self._newest
        if newest is None:
            if batch > 0:
                raise StateLostError(
                    f"query {self.name!r} continues with batch {batch}, but this daemon does not hold the "
                    "window of the batches before it: it was restarted since, or is another one. Start the "
                    "query with a new checkpoint, and name a long-lived daemon (mullion serve) for queries "
                    "that must survive a restart"
                )
            return None
        if batch < newest.batch:
            raise ReplayError(
                f"query {self.name!r}: batch {batch} comes after batch {newest.batch}, which made it final; "
                "its result is gone. Was the query restarted from an older copy of its checkpoint? Start it "
                "with a new one"
            )
        if batch > newest.batch:
            return None
        if partition != newest.partition:
            raise self._second_partition(batch, partition, newest.partition)
        return newest.result

    def _second_partition(self, batch: int, partition: int, first: int) -> UnsupportedError:
        return UnsupportedError(
            f"query {self.name!r}: batch {batch} comes in partition {partition} after partition {first}; a "
            "streaming query's rows must all come in one partition: coalesce(1) both sides' union before "
            "the join, and use the joined stream once in a query"
        )
