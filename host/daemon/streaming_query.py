"""A query whose batches continue one window, each applied exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.daemon.definition import Definition
from muntin.host.daemon.query import Query, Request
from muntin.host.daemon.result import FollowedResult, KeptResult, NotKeptError, Result, Tables, keep
from muntin.host.daemon.staging import Part, PartKey, Sender, Stage, totals, totals_of
from muntin.host.daemon.windows import Windows, other_counts, query_place
from muntin.host.engine.stateless_placement import StatelessPlacement
from muntin.host.engines import Partitions
from muntin.host.errors import (
    LimitError,
    MuntinError,
    ProtocolError,
    QueryError,
    ReplayError,
    StateError,
    StateLostError,
    from_wire,
    to_wire,
)
from muntin.host.join.join_part import JoinPart
from muntin.host.join.late_rows import marked
from muntin.host.keys.content import Content, check_same, other_rows
from muntin.host.sides import Side


@dataclass
class Applied:
    """The newest batch that was applied; it becomes final when a later one is. Its result, or why it could not be
    kept."""

    batch: int
    result: KeptResult | MuntinError
    left: pa.Table
    right: pa.Table
    keys: Sequence[PartKey] | None = None  # where it came in parts

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Rows and digest of the batch in all partitions of the join."""
        return totals_of(self.left, self.right) if self.keys is None else totals(self.keys)

    @cached_property
    def content(self) -> dict[str, str]:
        """Of its rows, as `Content.digest`."""
        return Content.of(self.left, self.right).digest


def _kept_of(applied: Applied) -> KeptResult:
    """The result, or raises why it could not be kept."""
    if isinstance(applied.result, MuntinError):
        raise from_wire(to_wire(applied.result))
    return applied.result


class StreamingQuery(Query):
    """Holds a `WindowJoin` and the result of its newest batch.

    A repeat of the newest batch gets the result that was kept; a batch before it is refused; of two requests at
    once for one batch the one that is complete first is applied, and the other waits and gets the same result.
    Numbers may have gaps.

    A batch may come in parts, which wait until a request names all of them.

    In one run all batches come from one instance. A second one is another join under the same name, which would get
    the first one's results and feed rows to its window. From then on that run is refused as a whole, as nothing tells
    which of the two the window belongs to; and if the run has applied a batch, the window is forgotten. In another
    run another instance is the same program, started again.

    With state the window continues in whatever process opens the query next: the newest batch can be asked for again
    there, and is then joined again from the rows that were logged of it.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._stage = Stage()

    _restored: int | None = None  # the newest batch of an earlier process, as long as none has come after it
    _restored_of: Sender | None = None  # who sent it there

    _routes: dict[str, int] | None = None  # for the status, where partitions follow the data
    _join: JoinPart | None = None
    _newest: Applied | None = None
    _sender: Sender | None = None  # of the newest run
    _shared = False  # that run has a second instance
    _fed_by: str | None = None  # the run whose rows came into the window last
    _mixed = False  # and they may be of two joins: the window is to be forgotten
    _failed = False  # a batch of that run failed half-way, and there is no state

    def prepare(self) -> bool:
        with self._turn:
            self._check_open()
            return self._open_join()

    def meet(self, definition: Definition) -> None:
        table = definition.table
        if table is None or table == self.definition.table:
            return
        with self._turn:
            self.definition = definition
            if self._join is not None and self._join.usable:
                self._join.meet(table)

    def begin(self, batch: int, sender: Sender) -> Request:
        if batch > 0 and self._newest is None and self._restored is None:
            self._catch_up()  # it was opened from a state without a batch, or the first batch is under way
        with self._state:
            self._check_open()
            self._admit(sender)
            request = Request(self, batch, sender, self._kept(batch))
            self._counts["requests"] += 1
            if request.kept is None:
                self._open_requests.add(request)
            else:
                self._counts["repeats"] += 1
            return request

    def apply(self, request: Request, left: pa.Table, right: pa.Table) -> Result:
        def applied(told: Callable[[KeptResult], None] | None) -> KeptResult:
            try:
                return self._apply(request, left, right, told)
            finally:
                request.discard()

        # A caller may go on after the first row. Without state none goes on with a window that lacks the batch, as the
        # window goes with this process; with state it would, so the batch is durable first.
        if self._folder is not None:
            return applied(None)
        request.followed = True
        return FollowedResult(applied)

    def _apply(
        self, request: Request, left: pa.Table, right: pa.Table, told: Callable[[KeptResult], None] | None
    ) -> KeptResult:
        with self._own_turn():
            self._check_open()
            self._open_join()
            with self._state:
                if self._shared and self._sender is not None and self._sender.run == request.sender.run:
                    raise self._two_instances()
                kept = self._kept(request.batch)
                newest = self._newest
                if kept is not None and newest is not None:
                    self._open_requests.discard(request)
                    self._counts["repeats"] += 1
            if kept is not None and newest is not None:
                check_same(request.batch, newest.content, Content.of(left, right).digest)
                return kept
            return self._join_batch(request.batch, left, right, request.sender, told, request=request)

    def stage(self, request: Request, key: PartKey, part: Part) -> bool:
        with self._state:
            self._check_open()
            if self._shared and self._sender is not None and self._sender.run == request.sender.run:
                raise self._two_instances()
            self._open_requests.discard(request)
            if self._newest is not None and request.batch <= self._newest.batch:
                return False
            return self._stage.add(request.batch, key, part)

    def fetch(self, batch: int, keys: Sequence[PartKey]) -> KeptResult:
        with self._own_turn():
            self._check_open()
            self._open_join()
            with self._state:
                self._counts["requests"] += 1
                if self._shared:
                    raise self._two_instances()
                newest = self._newest
                if newest is not None and batch < newest.batch:
                    raise self._replayed(batch, newest.batch)
                repeated = newest is not None and batch == newest.batch
                self._counts["repeats"] += repeated
            if repeated:
                assert newest is not None
                (rows, digest), known = totals(keys), newest.totals
                if (rows, digest) != known:
                    raise other_rows(batch, f"{rows:,} rows, {digest:016x}", f"{known[0]:,} rows, {known[1]:016x}")
                return _kept_of(newest)
            self._check_unread(batch)
            parts = self._stage.take(self.name, batch, keys)
            if not parts:
                raise ProtocolError(f"query {self.name!r}, batch {batch}: a batch has at least one part")
            left, right = (pa.concat_tables([getattr(part, side) for part in parts]) for side in ("left", "right"))
            whole = parts[0].whole(parts, counted=self.definition.spec.counted)
            result = self._join_batch(batch, left, right, parts[0].sender, keys=keys, whole=whole)
            if whole is not None and whole.loads is not None:
                assert self._join is not None
                routes = self._join.routes(batch + 1, whole.loads.partitions)
                self._routes = {"epoch": routes.epoch, "spread": int(np.count_nonzero(routes.table < 0))}
            return result

    def routes(self, batch: int, partitions: int) -> dict[str, Any]:
        """By which routes the rows of a batch come, JSON-able: `RoutingTable.to_wire`."""
        self._catch_up()
        with self._own_turn():
            self._check_open()
            self._open_join()
            assert self._join is not None
            return self._join.routes(batch, partitions).to_wire()

    def _check_unread(self, batch: int) -> None:
        """Raises StateLostError where rows of a batch before this one were sent, and are in no window: Spark reads no
        result that it finds it can do without. `_turn` is held."""
        if self.definition.spec.stateless:
            return
        for again in (False, True):
            last = self._newest.batch if self._newest is not None else self._restored
            unread = self._stage.unread(-1 if last is None else last, batch)
            if unread is None:
                return
            if not again:
                if self._join is None or not self._join.outdated:
                    break
                self._close_join()  # another process may have joined them
                self._open_join()
        raise StateLostError(
            f"query {self.name!r}: the rows of batch {unread} were sent, but no task asked for its result, and now "
            f"batch {batch} comes: pairs with those rows would be missing. Spark leaves a result out where adaptive "
            "execution finds it useless, as in a join with an empty DataFrame: use it in each micro-batch, if only by "
            "isEmpty(). Start the query with a new checkpoint"
        )

    def _join_batch(
        self,
        batch: int,
        left: pa.Table,
        right: pa.Table,
        sender: Sender,
        told: Callable[[KeptResult], None] | None = None,
        *,
        request: Request | None = None,
        keys: Sequence[PartKey] | None = None,
        **more: Any,
    ) -> KeptResult:
        """Join a batch, the first time in this process; `_turn` is held."""
        with self._state:
            self._fed_by = sender.run
        begun = time.monotonic()
        assert self._join is not None
        self._join.sender = [sender.run, sender.instance]
        result: KeptResult | MuntinError
        try:
            result = self._result(batch, left, right, told, **more)
        except StateError:
            self._close_join()  # it is opened from the state again
            raise
        except MuntinError:
            if self._join is not None and not self._join.usable:
                if self._folder is not None or self.definition.spec.stateless:
                    self._close_join()
                else:
                    self._failed = True
            raise
        except NotKeptError as failed:
            if self._folder is not None and not isinstance(failed.why, LimitError):
                self._close_join()  # and the batch, which its state has, is joined again
                raise failed.why from failed
            result = failed.why
        assert self._join is not None
        self._restored = None
        applied = Applied(batch, result, left, right, keys)
        with self._state:
            if not self._mixed:
                self._newest = applied
            self._staged -= self._stage.free(batch)
            rows_out = 0 if isinstance(result, MuntinError) else result.num_rows
            self._applied(request, batch, left, right, rows_out, self._join.stats.as_dict(), begun, self._stats)
        return _kept_of(applied)

    def _result(
        self, batch: int, left: pa.Table, right: pa.Table, told: Callable[[KeptResult], None] | None, **more: Any
    ) -> KeptResult:
        """The result of a batch; `NotKeptError` where the batch is applied, but its result is not kept."""
        join = self._join
        assert join is not None
        sides, size = self.definition.sides(left, right), self.limits.block_bytes

        def begin() -> Tables:
            if batch == self._restored:
                tables = join.repeat_blocks(*sides, block_bytes=size)
            else:
                tables = join.process_blocks(*sides, batch=batch, block_bytes=size, **more)
            return marked(join, tables, self.definition.output_schema, self._given)

        return keep(
            # A board has commands of a call under way between blocks, which another's would disturb.
            self._device_lock.between(begin, whole=not self._device.in_process),
            self.definition.output_schema,
            memory=self._device.host_memory,
            max_heap=self.limits.max_kept,
            most=self.limits.max_result,
            query=self.name,
            told=told,
        )

    @cached_property
    def _placement(self) -> StatelessPlacement | None:
        """By which rows are copied to several windows, of which this is one; None where none is."""
        windows, definition = Windows.of(self.name), self.definition
        by = (windows.placed or "").partition("-")[0]
        if by not in ("ranges", "subwindows"):
            return None
        schemas = definition.left_schema, definition.right_schema
        return StatelessPlacement(definition.spec, *schemas, Partitions(windows.count, by), windows.placed)

    def _given(self, side: Side, late: pa.Table) -> pa.Table:
        """Those of the late rows that no other window gives."""
        if self._placement is None or not late.num_rows:
            return late
        (rows,) = late.combine_chunks().to_batches()
        return late.filter(pa.array(self._placement.given(side, rows, Windows.number(self.name))))

    def _catch_up(self) -> None:
        """Waits for a batch under way, and opens the join again where another process has gone on with its state."""
        with self._turn:
            if self._folder is None:
                return
            self._check_open()
            if self._join is not None and self._join.outdated:
                self._newest = None
                self._close_join()
            self._open_join()

    def content(self, batch: int) -> dict[str, str] | None:
        with self._state:
            newest = self._newest
        return newest.content if newest is not None and newest.batch == batch else None

    def close(self) -> None:
        with self._state:
            self._closed = True
            self._staged -= self._stage.free()
        with self._turn:
            self._newest = None
            self._close_join()

    def status(self) -> dict[str, Any]:
        newest = self._newest
        kept = newest.result if newest and isinstance(newest.result, KeptResult) else None
        return {
            **super().status(),
            "batch": newest.batch if newest else None,
            "kept_rows": kept.num_rows if kept else 0,
            "kept_bytes": kept.nbytes if kept else 0,
            "kept_file_bytes": kept.file_bytes if kept else 0,
            **{f"routes_{name}": value for name, value in (self._routes or {}).items()},
        }

    def _lag(self) -> float:
        begun = self._stage.begun_at
        return max(super()._lag(), 0.0 if begun is None else time.monotonic() - begun)

    def _open_join(self) -> bool:
        """Open the join if there is none, or none that can be continued; `_turn` is held."""
        if self._join is not None and not self._mixed:
            return False
        if self._join is not None and self._mixed:
            with self._device_lock:
                self._join.forget_state()
        self._close_join()
        with self._device_lock:
            self._join = JoinPart.from_spec(
                self.definition.spec,
                device=self._device,
                left_schema=self.definition.left_schema,
                right_schema=self.definition.right_schema,
                state=self._folder,
                table=self.definition.table,
                fixed=self.definition.fixed,
            )
        with self._state:
            self._restored = self._join.last_batch if self._join.last_batch >= 0 else None
            self._restored_of = None if self._join.sender is None else Sender(*self._join.sender)
            if self._restored is not None:
                self._newest = None
            self._mixed, self._fed_by = False, None
            self._stats = self._join.stats.as_dict()
        return True

    @property
    def _folder(self) -> str | None:
        """Where the query's state lies."""
        place = self.definition.state
        return None if place is None else query_place(place, self.name)

    def _close_join(self) -> None:
        if self._join is not None:
            with self._device_lock:
                self._join.close()
            self._join = None

    def _admit(self, sender: Sender) -> None:
        """Take note of a sender; `QueryError` where its run has another instance. `_state` is held."""
        if self._sender is None or self._sender.run != sender.run:
            self._sender, self._shared = sender, False
            if self._failed:
                self._newest, self._mixed, self._failed = None, True, False
        elif self._sender.instance != sender.instance and not self._shared:
            self._shared = True
            if self._fed_by == sender.run:
                self._newest, self._mixed = None, True
            self._staged -= self._stage.free()
            self._stage = Stage()
        before = self._restored_of if self._restored is not None else None
        if before is not None and before.run == sender.run != "" and before.instance != sender.instance:
            self._shared = True  # another daemon has the state of the first one
        if self._shared:
            raise self._two_instances()

    def _kept(self, batch: int) -> KeptResult | None:
        """The kept result where the newest batch is repeated, None where it is new; `_state` is held. Raises again what
        was raised where it could not be kept."""
        newest = self._newest
        if newest is None and self._restored is not None:
            if batch < self._restored:
                raise self._replayed(batch, self._restored)
            return None
        if newest is None:
            if batch > 0 and not self.definition.spec.stateless:
                raise StateLostError(
                    f"query {self.name!r} continues with batch {batch}, but this daemon does not hold the "
                    "window of the batches before it: it was restarted since, or is another one, or two joins "
                    "shared the name. Start the query with a new checkpoint" + self._no_state()
                )
            return None
        if batch < newest.batch:
            raise self._replayed(batch, newest.batch)
        if batch > newest.batch:
            return None
        return _kept_of(newest)

    def _no_state(self) -> str:
        if self._folder is not None:
            place = str(self.definition.state)
            counts = " or ".join(map(str, other_counts(place, self.name)))
            rescaled = f"; windows of {counts} partitions are there: see `muntin rescale {place}`" if counts else ""
            return f"; its state, in {self._folder}, has no batch{rescaled}"
        return ", and give state= (or muntin serve --state) for queries that must survive a restart"

    def _replayed(self, batch: int, newest: int) -> ReplayError:
        return ReplayError(
            f"query {self.name!r}: batch {batch} comes after batch {newest}, which made it final; "
            "its result is gone. Was the query restarted from an older copy of its checkpoint? Start it "
            "with a new one"
        )

    def _two_instances(self) -> QueryError:
        return QueryError(
            f"query {self.name!r}: two joins of one streaming query have this name, and would get each other's rows. "
            "Unless it is named, a join's name is made from its condition, windows, columns and the text of its "
            "inputs' plans, and nothing in these tells the two apart: give each a name of its own, "
            "window_join(..., name=...), or use the result of one window_join twice"
        )
