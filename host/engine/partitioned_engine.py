"""Several engines, each with a share of the rows of both windows, and a thread each.

Each row is stored in one of them, and probes those that may hold what it meets: the only ones that hold rows of its
value, or of what its band reaches, or all. So each pair is found once. Windows are limits on arrival numbers and times
of the whole streams, and hold in each partition as they do in one. What copies of a probe find is put together before
anything is made of it: pairs by the materializer, aggregates here.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from muntin.host.aggregates.folds import merged_aggregates
from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.call import (
    RUNS_OF_EVENT,
    Aggregates,
    Batch,
    Call,
    Found,
    Punctuation,
    Ranges,
    RunEvents,
    Want,
    key_order,
    ordered_within,
)
from muntin.host.engine.engine import Engine, EngineStatus, Held
from muntin.host.engine.placement import Coordinates, Hashes, Keys, Placement, Planner, VisibleRange, open_placements
from muntin.host.engines import Partitions
from muntin.host.keys.condition import Condition
from muntin.host.native import _core
from muntin.host.sides import OTHER, SIDES, Side, Sides

_INT64 = np.iinfo(np.int64)

Placements = Sides[Placement]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacedCall(Call):
    """A call whose rows have been given to partitions.

    Attributes
    ----------
    parts : list of Call
        The rows of each partition, as its engine has admitted them.
    placements : dict of str to Placement
        Those in force once it is run.
    """

    parts: list[Call]
    placements: Placements


class PartitionedEngine(Engine):
    """Joins the rows of each partition in an engine and a thread of its own.

    Parameters
    ----------
    engines : sequence of Engine
        One for each partition, at least 2; closed with this one.
    coordinates : Coordinates or None
        What rows go by; None: subwindows go to the partitions in turn.
    shared : bool
        Both sides are one stream with one key, whose rows are stored once.
    plan : AggregatePlan
        For engines of aggregates.
    subwindow_rows : int or None
        As of `Placement`.
    closing : bool
        Right rows alone are stored, and left rows alone probe, once all right rows that they meet are there.
    """

    def __init__(
        self, engines: Sequence[Engine], coordinates: Coordinates | None, *, shared: bool,
        plan: AggregatePlan | None = None, subwindow_rows: int | None = None, closing: bool = False,
    ):  # fmt: skip
        self.spec = engines[0].spec
        self.coordinates = coordinates
        self._engines = list(engines)
        self._shared, self._plan, self._closing = shared, plan, closing
        self._placements = open_placements(len(engines), coordinates, self.spec.counts, subwindow_rows, shared=shared)
        self._threads = ThreadPoolExecutor(len(engines), "muntin-partition", _core.numpy_memory)
        self._work: list[dict[str, int]] = [
            dict.fromkeys((*_WORK, "copied_bytes", "sent_bytes", "found_bytes"), 0) for _ in engines
        ]

    # What the operator asks

    def status(self) -> EngineStatus:
        """The sum of the partitions', with a ``report`` of ``partitions``: for each, the rows of both sides that it has
        been given to store, and stores now; the probes that it has received; bytes of rows sent there, of those among
        them that it does not store, and of results; and ``seconds`` of its engine. ``placement``: what rows go by, and
        how often that has changed."""
        parts = [engine.status() for engine in self._engines]
        planners = {id(p): p for placement in self._placements.values() if (p := placement.planner) is not None}
        status = functools.reduce(EngineStatus.__add__, parts)
        status.report = {
            "partitions": [
                {
                    **work,
                    **{f"stored_{side}": part.stored[side] for side in SIDES},
                    "seconds": sum(part.seconds.values()),
                }
                for part, work in zip(parts, self._work, strict=True)
            ],
            "placement": {
                "by": "subwindows" if self.coordinates is None else "ranges" if self.coordinates.by_key else "equality",
                "subwindows": sum(p.subwindows for p in {id(p): p for p in self._placements.values()}.values()),
                "plans": sum(planner.plans for planner in planners.values()),
                "heavy": sum(planner.heavy for planner in planners.values()),
            },
        }
        return status

    # A call

    def admit(self, call: Call) -> PlacedCall:
        """The call with the rows of each partition; their placements are in force once it is run."""
        placements = _copies(self._placements)
        max_pairs = None
        if call.max_pairs is not None and call.want is Want.PAIRS and self.spec.order == "none":
            max_pairs = max(call.max_pairs // len(self._engines), 1)
        cut = self._batches(call.batches, placements)
        if call.want is Want.NOTHING:
            cut = [{side: batch.stored() for side, batch in own.items()} for own in cut]
        more: dict[str, Any] = {
            "other_position": call.other_position, "arrived": call.arrived, "want": call.want, "max_pairs": max_pairs,
        }  # fmt: skip
        own = zip(self._engines, cut, strict=True)
        parts = [engine.admit(Call(batches=batches, **more)) for engine, batches in own]
        return PlacedCall(batches=call.batches, parts=parts, placements=placements, **more)

    def run(self, call: Call) -> Iterator[Found]:
        assert isinstance(call, PlacedCall)
        self._placements = call.placements
        self._take(call)
        found = self._in_turns(call) if call.max_pairs is not None else self._whole(call)
        yield from found
        self._expire_counted(call.arrived)

    def _whole(self, call: PlacedCall) -> Iterator[Found]:
        """What the partitions find, once all have ended."""
        results = self._each(lambda engine, part: list(engine.run(part)), call.parts)
        for at, (work, found) in enumerate(zip(self._work, results, strict=True)):
            work["found_bytes"] += sum(map(_nbytes, found))
            for part in found:
                if isinstance(part, Ranges):
                    part.found = part.found.copy()
                    part.found[:, 1] = part.found[:, 1] * len(results) + at
        parts = [part for found in results for part in found]
        if call.want is Want.AGGREGATES:
            yield from self._merged(call, [part for part in parts if isinstance(part, Aggregates)])
            return
        yield from (part for part in parts if not isinstance(part, RunEvents))
        if call.want is Want.RANGES:
            yield self._events(call, [part.events for part in parts if isinstance(part, RunEvents)])

    def _in_turns(self, call: PlacedCall) -> Iterator[Found]:
        """The pairs of a call as the partitions find them, a part of each at a time."""
        running: list[Iterator[Found] | None] = [
            engine.run(part) for engine, part in zip(self._engines, call.parts, strict=True)
        ]

        def more(_: Engine, parts: Iterator[Found] | None) -> Found | None:
            return None if parts is None else next((part for part in parts if not isinstance(part, Punctuation)), None)

        while any(parts is not None for parts in running):
            for at, (work, found) in enumerate(zip(self._work, self._each(more, running), strict=True)):
                if found is None:
                    running[at] = None
                    continue
                work["found_bytes"] += _nbytes(found)
                yield found

    def _events(self, call: PlacedCall, of_parts: list[dict[str, Any]]) -> RunEvents:
        """What has happened to the runs of all partitions, and where the rows of the call went."""
        events: dict[str, Any] = {side: [] for side in SIDES}
        count = len(of_parts)
        for at, own in enumerate(of_parts):
            for side in SIDES:
                for kind, *numbers in own[side]:
                    runs = RUNS_OF_EVENT[kind]  # which of its numbers name runs
                    events[side].append([kind, *(n * count + at if i < runs else n for i, n in enumerate(numbers))])
        placed: dict[str, list[list[int]]] = {}
        for side in SIDES:
            rows = call.batches[side].rows
            targets = np.full(len(rows), -1)
            for at, part in enumerate(call.parts):
                targets[np.searchsorted(rows, part.batches[side].stored().rows)] = at
            ends = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), len(targets)]
            placed[side] = [
                [int(targets[a]), int(rows[a]), int(rows[b - 1])] for a, b in itertools.pairwise(ends) if a < b
            ]
        return RunEvents({**events, "partitions": count, "placed": placed})

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        parts, held = [engine.expire(expiry) for engine in self._engines], {}
        for side in SIDES:
            own = [part[side] for part in parts]
            first = min((part.first for part in own if part.first is not None), default=None)
            held[side] = Held(first, np.sort(np.concatenate([part.beyond for part in own])))
        for side, placement in self._placements.items():
            oldest = held[side].oldest
            placement.forget(_INT64.max if oldest is None else oldest)
        return held

    def stop(self) -> None:
        for engine in self._engines:
            engine.stop()

    def close(self) -> None:
        self.stop()  # what is under way where the call that waits for it was interrupted
        self._threads.shutdown()
        for engine in self._engines:
            engine.close()

    def _expire_counted(self, arrived: Sides[int]) -> None:
        if self.spec.counts is not None:
            for side, placement in self._placements.items():
                most = max(self.spec.counts.values()) if self._shared else self.spec.counts[side]
                placement.forget(arrived[side] - most)

    def _each(self, work: Callable[..., Any], *parts: Sequence[Any]) -> list[Any]:
        """What `work` gives for each engine with its part; the first error once all have ended."""
        begun = [self._threads.submit(work, *each) for each in zip(self._engines, *parts, strict=True)]
        errors = [error for future in begun if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return [future.result() for future in begun]

    def _merged(self, call: PlacedCall, found: list[Aggregates]) -> Iterator[Aggregates]:
        """Partial aggregates of each side as those of whole windows."""
        assert self._plan is not None
        for side in SIDES[:1] if self._closing else SIDES:
            own = [part for part in found if part.side == side]
            rows = call.batches[side].rows if self._closing else None  # those too that reach no partition
            if own or rows is not None:
                other = OTHER[side]
                yield merged_aggregates(side, own, self._plan.found[other], rows, self._plan.ranks[other])

    # Rows to partitions

    def _take(self, call: PlacedCall) -> None:
        """Counts what the partitions are sent."""
        for part, work in zip(call.parts, self._work, strict=True):
            own = part.batches
            for side in SIDES[:1] if self._shared else SIDES:
                batch = own[side]
                each = _row_bytes(batch)
                work["sent_bytes"] += each * len(batch)
                if batch.stores is not None:
                    work["copied_bytes"] += each * (len(batch) - int(np.count_nonzero(batch.stores)))
            for side in SIDES:
                stores, probes = own[side].stores, own[side].probes
                work[f"rows_{side}"] += len(own[side]) if stores is None else int(np.count_nonzero(stores))
                if call.want is not Want.NOTHING:
                    work[f"probes_{side}"] += len(own[side]) if probes is None else int(np.count_nonzero(probes))

    def _batches(self, batches: Sides[Batch], placements: Placements) -> list[Sides[Batch]]:
        """The rows of each partition, in their order, which the placements learn of."""
        coordinates = self._coordinates(batches)
        if self._closing:
            return self._apart(batches, coordinates, placements)
        targets = {
            side: placements[side].place(coordinates[side], batches[side].rows, batches[side].times)
            for side in (SIDES[:1] if self._shared else SIDES)
        }
        if self._shared:
            targets["right"] = targets["left"]
        if self._alike(placements):
            return self._by_targets(batches, targets)
        return self._by_reach(batches, coordinates, targets, placements)

    def _coordinates(self, batches: Sides[Batch]) -> Sides[np.ndarray | None]:
        if self.coordinates is None:
            return dict.fromkeys(SIDES)
        left = self.coordinates.of("left", batches["left"].keys)
        return {"left": left, "right": left if self._shared else self.coordinates.of("right", batches["right"].keys)}

    def _alike(self, placements: Placements) -> bool:
        """Whether each row probes the partition that stores it, and no other."""
        if self.coordinates is None or self.coordinates.by_key:
            return False
        plans = {side: placements[side].one_plan for side in SIDES}
        return plans["left"] is not None and plans["left"] is plans["right"]

    def _by_targets(self, batches: Sides[Batch], targets: Sides[np.ndarray]) -> list[Sides[Batch]]:
        parts: list[Sides[Batch]] = [{} for _ in self._engines]
        for side in SIDES:
            if side == "right" and batches["right"] is batches["left"]:
                for part in parts:
                    part["right"] = part["left"]
                continue
            order = np.argsort(targets[side], kind="stable")
            ends = np.searchsorted(targets[side][order], np.arange(len(parts) + 1))
            for at, part in enumerate(parts):
                part[side] = batches[side].take(order[ends[at] : ends[at + 1]])
        return parts

    def _by_reach(
        self,
        batches: Sides[Batch],
        coordinates: Sides[np.ndarray | None],
        targets: Sides[np.ndarray],
        placements: Placements,
    ) -> list[Sides[Batch]]:
        reached: dict[str, list[np.ndarray | bool]] = {}
        orders: Sides[np.ndarray] = {}
        for side in SIDES:
            if self._shared and side == "right":  # both roles of a row probe where either must
                other, orders[side] = self._reached(
                    placements, "right", batches["right"], coordinates["right"], orders["left"]
                )
                reached["left"] = reached["right"] = [
                    _either(a, b) for a, b in zip(reached["left"], other, strict=True)
                ]
            else:
                reached[side], orders[side] = self._reached(placements, side, batches[side], coordinates[side], None)
        by_key = self.coordinates is None or self.coordinates.by_key
        parts: list[Sides[Batch]] = [{} for _ in self._engines]
        for at, part in enumerate(parts):
            for side in SIDES:
                if self._shared and side == "right":
                    part["right"] = part["left"]
                    continue
                stores = targets[side] == at
                part[side] = _part(batches[side], orders[side], stores, reached[side][at], by_key=by_key)
        return parts

    def _apart(
        self, batches: Sides[Batch], coordinates: Sides[np.ndarray | None], placements: Placements
    ) -> list[Sides[Batch]]:
        """Right rows where they are stored, left rows where they probe."""
        left, right = batches["left"], batches["right"]
        reached: Sequence[np.ndarray | bool] = [False] * len(self._engines)
        order = targets = np.zeros(0, np.int64)
        if len(right):
            targets = placements["right"].place(coordinates["right"], right.rows, right.times)
        if len(left):
            reached, order = self._reached(placements, "left", left, coordinates["left"], None)
        parts: list[Sides[Batch]] = []
        for at, mask in enumerate(reached):
            which = np.sort(order[mask]) if isinstance(mask, np.ndarray) else slice(0, len(left) if mask else 0)
            own = left.take(which)
            own.stores = np.zeros(len(own), np.bool_)
            parts.append({"left": own, "right": right.take(np.flatnonzero(targets == at))})
        return parts

    def _reached(
        self,
        placements: Placements,
        side: Side,
        batch: Batch,
        coordinates: np.ndarray | None,
        order: np.ndarray | None,
    ) -> tuple[list[np.ndarray | bool], np.ndarray]:
        """For each partition which rows probe it, in the order that comes with it: that of coordinates, or of keys."""
        values = batch.keys if coordinates is None else coordinates
        if order is None:
            by_key = self.coordinates is None or self.coordinates.by_key
            order = key_order(batch.keys) if by_key else np.argsort(values, kind="stable")
        placement = placements[OTHER[side]]
        intervals = None
        if self.coordinates is not None:
            intervals = self.coordinates.reach(side, batch.keys[order], values[order])
            if placement.planner is not None:
                placement.planner.probes(intervals, len(batch))
        return list(placement.reached(intervals, len(batch), self._visible(side, batch))), order

    def _visible(self, side: Side, batch: Batch) -> VisibleRange:
        """What the rows of a batch may meet of the other side, by arrival and time."""
        if not len(batch):
            return VisibleRange(0, -1, 0, 0)
        first = 0
        if self.spec.counts is not None:
            first = int(batch.other_position.min()) - self.spec.counts[OTHER[side]]
        times = (0, 0)
        if self.spec.within is not None and batch.times is not None:
            low, high = self.spec.within if side == "left" else (-self.spec.within[1], -self.spec.within[0])
            times = int(batch.times.min()) + low, int(batch.times.max()) + high
            if self._plan is not None and self._plan.prevailing:
                times = int(_INT64.min), times[1]
        if self._closing:  # whatever came first
            return VisibleRange(0, int(_INT64.max), *times)
        # A row of a self join may meet itself, as engines of aggregates find it.
        return VisibleRange(first, int(batch.other_position.max()) - (not self.spec.self_join), *times)


_WORK = tuple(f"{what}_{side}" for what in ("rows", "probes") for side in SIDES)


def _copies(placements: Sides[Placement]) -> Sides[Placement]:
    """Placements that may change while these stay."""
    planners: dict[int, Planner] = {}
    copies: dict[int, Placement] = {}
    for placement in placements.values():
        own = placement.planner
        if own is not None and id(own) not in planners:
            planners[id(own)] = own.copy()
        if id(placement) not in copies:
            copies[id(placement)] = placement.copy(None if own is None else planners[id(own)])
    return {side: copies[id(placement)] for side, placement in placements.items()}


def _either(a: np.ndarray | bool, b: np.ndarray | bool) -> np.ndarray | bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return True if a is True or b is True else b if a is False else a
    return a | b


def _part(batch: Batch, order: np.ndarray, stores: np.ndarray, reached: np.ndarray | bool, *, by_key: bool) -> Batch:
    """The rows of a batch that a partition is sent; `reached` by place in `order`."""
    if isinstance(reached, bool):
        probes = np.full(len(batch), reached)
    else:
        probes = np.empty(len(batch), np.bool_)
        probes[order] = reached
    sent = stores | probes
    places = order.astype(np.uint32) if by_key else None
    if sent.all():
        part = dataclasses.replace(batch)
    else:
        part = batch.take(np.flatnonzero(sent))
        stores, probes = stores[sent], probes[sent]
        if places is not None:
            places = ordered_within(places, sent)
    part.stores = None if stores.all() else stores
    part.probes = None if probes.all() else probes
    part.order = places
    return part


def _row_bytes(batch: Batch) -> int:
    """Bytes of a row as it is sent to a partition."""
    columns = (batch.keys, batch.rows, batch.other_position, batch.times, *batch.others, *batch.values)
    return sum(c.itemsize * (1 if c.ndim == 1 else c.shape[1]) for c in columns if c is not None)


def _nbytes(found: Found) -> int:
    """Bytes of a result as a partition sends it back."""
    arrays = [v for v in vars(found).values() if isinstance(v, np.ndarray)]
    results = [a for each in getattr(found, "results", ()) for a in (each if isinstance(each, tuple) else (each,))]
    return sum(a.nbytes for a in (*arrays, *results))


def open_partitions(
    partitions: Partitions,
    open_engine: Callable[[], Engine],
    condition: Condition,
    *,
    self_join: bool,
    plan: AggregatePlan | None = None,
    closing: bool = False,
) -> PartitionedEngine:
    """An engine of partitions, which say by what they go. Raises as `open_engine`."""
    coordinates: Coordinates | None = None
    if partitions.by != "subwindows":
        coordinates = Hashes(condition) if partitions.by == "equality" else Keys(condition.generator)
    engines: list[Engine] = []
    try:
        for _ in range(partitions.count):
            engines.append(open_engine())  # noqa: PERF401 (those opened are closed if one fails)
    except BaseException:
        for engine in engines:
            engine.close()
        raise
    shared = self_join and condition.one_column and not closing
    return PartitionedEngine(
        engines, coordinates, shared=shared, plan=plan, subwindow_rows=partitions.subwindow_rows, closing=closing
    )
