"""Faults that are put into the program itself, which schedules must find."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from muntin import WindowJoin
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.query import Request
from muntin.host.daemon.staging import Part, PartKey, Stage
from muntin.host.daemon.streaming_query import StreamingQuery
from muntin.host.engine.routes import BinHistogram, RoutePlanner, RoutingTable
from muntin.host.engine.stateless_placement import StatelessPlacement
from muntin.host.errors import StateError
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.join_part import JoinPart
from muntin.host.join.sequencer import Sequencer
from muntin.host.state.log import StateLog
from muntin.host.state.store import LocalStore
from muntin.pyspark_bridge.join_task import Shipment
from tests.fault.world import World


@dataclasses.dataclass(frozen=True)
class Planted:
    """Each fault is the absence of what its name says.

    Attributes
    ----------
    synced : bool
        Files and folders are synced.
    checked : bool
        Files are compared with their checksums.
    repeats : bool
        The daemon knows a batch that it has applied.
    fenced : bool
        A file's name can be taken once.
    written_first : bool
        Rows are written before they are committed.
    awaited : bool
        A batch is durable before its result is given out.
    final : bool
        A kept result is given for its own batch alone.
    discarded : bool
        What was staged of a request that ended is forgotten.
    timed_out : bool
        A connection that is silent is closed.
    settled : bool
        Names that are found in a folder are made durable before anyone relies on them.
    by_content : bool
        A part is known by its rows, and not by its task alone.
    first_wins : bool
        Of parts with one key the first is kept.
    all_there : bool
        A batch is joined once all its parts are there.
    in_time : bool
        Parts of a batch that was joined are not taken.
    freed : bool
        Parts of a batch that was joined are forgotten.
    kept_on : bool
        A result stays after it was given out.
    empty_count : bool
        Partitions without a row of a part hear of its times and places.
    joined_by_all : bool
        Whoever asks for one partition has all join the batch.
    window_known : bool
        A daemon that has no window joins no batch but the first.
    cancelled : bool
        A task that fails does not pass off as all its rows what was left of them to send.
    placed : bool
        Rows go to partitions by what is in them, and not by their place in a task.
    copied : bool
        A copied row goes to all partitions that it reaches.
    in_force : bool
        Rows by other routes than those in force are refused, and a daemon looks whether another one has gone on with
        its state before it tells routes.
    announced : bool
        Divided rows go by a new table once copied ones have gone by it for a window.
    settled_down : bool
        Copied rows go by the old table for another window.
    newest_counts : bool
        The newest batch of a state that is opened again counts for the routes of the next.
    """

    synced: bool = True
    checked: bool = True
    repeats: bool = True
    fenced: bool = True
    written_first: bool = True
    awaited: bool = True
    final: bool = True
    discarded: bool = True
    timed_out: bool = True
    settled: bool = True
    by_content: bool = True
    first_wins: bool = True
    all_there: bool = True
    in_time: bool = True
    freed: bool = True
    kept_on: bool = True
    empty_count: bool = True
    joined_by_all: bool = True
    window_known: bool = True
    cancelled: bool = True
    placed: bool = True
    copied: bool = True
    in_force: bool = True
    announced: bool = True
    settled_down: bool = True
    newest_counts: bool = True

    def patches(self) -> Iterator[Any]:
        """What puts them in."""
        if not self.checked:
            yield mock.patch("muntin.host.state.log._digest", return_value="0")
            yield mock.patch("muntin.host.state.log._intact", return_value=True)
        if not self.repeats:
            yield mock.patch.object(StreamingQuery, "_kept", return_value=None)
            yield mock.patch.object(WindowJoin, "last_batch", property(lambda _: -1))
        if not self.written_first:
            yield mock.patch.object(StateLog, "_commit", _commit_first(StateLog._commit))
            yield mock.patch.object(StateLog, "_write", _write_later(StateLog._write))
        if not self.awaited:
            yield mock.patch.object(StateLog, "commit", _never_raises(StateLog.commit))
            yield mock.patch.object(StateLog, "_commit", _now_and_then(StateLog._commit))
        if not self.final:
            yield mock.patch.object(StreamingQuery, "_kept", _kept_past(StreamingQuery._kept))
        if not self.discarded:
            yield mock.patch.object(Request, "discard", return_value=None)
        if not self.settled:
            yield mock.patch.object(LocalStore, "settle", return_value=None)
        if not self.by_content:
            yield mock.patch.object(Stage, "add", _by_task(Stage.add))
            yield mock.patch.object(Stage, "take", _taken_by_task(Stage.take))
        if not self.first_wins:
            yield mock.patch.object(Stage, "add", _last_wins)
        if not self.all_there:
            yield mock.patch.object(Stage, "take", _what_is_there)
        if not self.in_time:
            yield mock.patch.object(StreamingQuery, "stage", _at_any_time)
        if not self.freed:
            yield mock.patch.object(Stage, "free", return_value=0)
        if not self.kept_on:
            yield mock.patch.object(StreamingQuery, "fetch", _given_once(StreamingQuery.fetch))
        if not self.empty_count:
            yield mock.patch.object(Part, "whole", _of_own_rows(Part.whole))
        if not self.joined_by_all:
            yield mock.patch.object(DaemonClient, "fetch", _alone(DaemonClient.fetch))
        if not self.window_known:
            yield mock.patch.object(StreamingQuery, "_kept", _in_any_window(StreamingQuery._kept))
        if not self.cancelled:
            yield mock.patch.object(Shipment, "_items", lambda shipment: iter(shipment._waiting.get, None))
        if not self.placed:
            yield mock.patch.object(StatelessPlacement, "targets", _in_turn(StatelessPlacement.targets))
        if not self.copied:
            yield mock.patch.object(StatelessPlacement, "targets", _to_one(StatelessPlacement.targets))
        if not self.in_force:
            yield mock.patch.object(StreamingQuery, "routes", _as_known)
            yield mock.patch.object(Sequencer, "sequence", _by_any_routes(Sequencer.sequence))
            yield mock.patch.object(BinHistogram, "total", _of_any_routes(BinHistogram.total))
        if not self.announced:
            yield mock.patch.object(RoutePlanner, "advance", _without_wait(RoutePlanner.advance, settling=False))
        if not self.settled_down:
            yield mock.patch.object(RoutePlanner, "advance", _without_wait(RoutePlanner.advance, settling=True))
        if not self.newest_counts:
            yield mock.patch.object(JoinPart, "routes", _of_before_newest(JoinPart.routes))


def _write_later(write: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def planted(log: StateLog, number: int, batch: int, tables: dict[str, pa.Table]) -> dict[str, Any]:
        create, waiting = log.store.create, []
        log.store.create = lambda *given: waiting.append(given)  # type: ignore[assignment,method-assign,misc]
        try:
            return write(log, number, batch, tables)
        finally:
            log.store.create = create  # type: ignore[method-assign]
            log.waiting = waiting  # type: ignore[attr-defined]

    return planted


def _commit_first(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, record: Any) -> None:
        commit(log, record)
        for given in log.waiting:  # type: ignore[attr-defined]
            log.store.create(*given)

    return planted


def _never_raises(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, begun: Any, matched: Any) -> None:
        try:
            commit(log, begun, matched)
        except StateError:
            return

    return planted


def _now_and_then(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, record: Any) -> None:
        if World.current.rng.random() < 0.8:
            commit(log, record)
        else:
            log.records.append(record)  # it would be written later

    return planted


def _kept_past(kept: Callable[..., Any]) -> Callable[..., Any]:
    def planted(query: StreamingQuery, batch: int) -> Any:
        newest = query._newest
        if newest is not None and batch == newest.batch + 1 and World.current.rng.random() < 0.2:
            return newest.result
        return kept(query, batch)

    return planted


def _by_task(add: Callable[..., bool]) -> Callable[..., bool]:
    def planted(stage: Stage, batch: int, key: PartKey, part: Part) -> bool:
        return add(stage, batch, PartKey(key.task, 0, 0), part)

    return planted


def _taken_by_task(take: Callable[..., list[Part]]) -> Callable[..., list[Part]]:
    def planted(stage: Stage, query: str, batch: int, keys: Iterable[PartKey]) -> list[Part]:
        return take(stage, query, batch, [PartKey(key.task, 0, 0) for key in keys])

    return planted


def _last_wins(stage: Stage, batch: int, key: PartKey, part: Part) -> bool:
    stage._batches.setdefault(batch, {})[key] = part
    return True


def _what_is_there(stage: Stage, query: str, batch: int, keys: Iterable[PartKey]) -> list[Part]:
    parts = stage._batches.get(batch, {})
    return [parts[key] for key in sorted(keys) if key in parts]


def _at_any_time(query: StreamingQuery, request: Request, key: PartKey, part: Part) -> bool:
    query._open_requests.discard(request)
    return query._stage.add(request.batch, key, part)


def _given_once(fetch: Callable[..., Any]) -> Callable[..., Any]:
    def planted(query: StreamingQuery, batch: int, keys: Any) -> Any:
        result = fetch(query, batch, keys)
        query._newest = None
        return result

    return planted


def _of_own_rows(whole: Callable[..., Any]) -> Callable[..., Any]:
    def planted(part: Part, parts: Iterable[Part], *, counted: bool) -> Any:
        return whole(part, [each for each in parts if len(each.left) + len(each.right)] or [part], counted=counted)

    return planted


def _alone(fetch: Callable[..., Any]) -> Callable[..., Any]:
    def planted(client: DaemonClient, query: str, batch: int, keys: Any, *, rows: bool = True) -> Any:
        return fetch(client, query, batch, keys) if rows else iter(())

    return planted


def _in_any_window(kept: Callable[..., Any]) -> Callable[..., Any]:
    def planted(query: StreamingQuery, batch: int) -> Any:
        return None if query._newest is None and query._restored is None else kept(query, batch)

    return planted


Targets = Callable[..., tuple[np.ndarray, np.ndarray]]


def _in_turn(targets: Targets) -> Targets:
    def planted(
        placement: StatelessPlacement, side: str, rows: pa.RecordBatch, *more: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers, masks = targets(placement, side, rows, *more)
        if side == placement.divided:
            numbers = (np.arange(rows.num_rows) % len(masks)).astype(np.int32)
            masks = numbers == np.arange(len(masks))[:, None]
        return numbers, masks

    return planted


def _to_one(targets: Targets) -> Targets:
    def planted(
        placement: StatelessPlacement, side: str, rows: pa.RecordBatch, *more: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers, masks = targets(placement, side, rows, *more)
        return numbers, masks & (np.cumsum(masks, axis=0) == 1)

    return planted


def _as_known(query: StreamingQuery, batch: int, partitions: int) -> dict[str, Any]:
    with query._own_turn():
        query._check_open()
        query._open_join()
        assert query._join is not None
        return query._join.routes(batch, partitions).to_wire()


def _by_any_routes(sequence: Callable[..., Any]) -> Callable[..., Any]:
    def planted(sequencer: Sequencer, tables: Any, pushes: Any = None, whole: BatchSummary | None = None) -> Any:
        if whole is not None and whole.loads is not None:
            epoch = sequencer.planner.routes(whole.loads.partitions).epoch
            whole = dataclasses.replace(whole, loads=dataclasses.replace(whole.loads, epoch=epoch))
        return sequence(sequencer, tables, pushes, whole)

    return planted


def _of_any_routes(total: Callable[..., BinHistogram]) -> Callable[..., BinHistogram]:
    return lambda parts: total([dataclasses.replace(part, epoch=parts[0].epoch) for part in parts])


def _without_wait(advance: Callable[..., None], *, settling: bool) -> Callable[..., None]:
    def planted(planner: RoutePlanner, *given: Any) -> None:
        advance(planner, *given)
        routes = planner._routes
        if routes is not None and routes.also is not None and planner._settling == settling:
            table, also = (routes.table, None) if settling else (routes.also, routes.table)
            planner._routes, planner._settling = RoutingTable(routes.epoch + 1, table, also), not settling

    return planted


def _of_before_newest(routes: Callable[..., RoutingTable]) -> Callable[..., RoutingTable]:
    def planted(join: JoinPart, batch: int, partitions: int) -> RoutingTable:
        record = join._calls.journal.repeatable
        return routes(join, batch if record is None else record.batch, partitions)

    return planted
