"""The engine of the native core: whole steps in C++, on all cores.

Source: PanJoin, section III, for the subwindow chain and sorted runs; PIM-Tree, section 4.2, for merges that no call
waits for. What a step does stands in host/native/engine/engine.hpp.
"""

from __future__ import annotations

import dataclasses
import math
import os
import weakref
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np

from muntin.host.call import Batch, Call, Counts, Found, OrderedPairs, Pairs, Punctuation, Ranges, RunEvents, Want
from muntin.host.engine.engine import (
    PAIR_BYTES,
    Engine,
    EngineSpec,
    EngineStatus,
    Held,
    beyond_capacity,
    beyond_memory,
)
from muntin.host.engine.pacer import Pacer, cut_pairs, cut_steps
from muntin.host.engines import Shared, Steps
from muntin.host.errors import DeviceError, UnsupportedError, WindowError
from muntin.host.index import BiSort, BPlusTree, Chain, ImTree, Index, Slices, SortedRuns
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.durations import nanoseconds
from muntin.host.keys.key_type import LONG
from muntin.host.memory import Cores
from muntin.host.native import _core
from muntin.host.sides import SIDES, Side, Sides

MIN_STEP_ROWS = 1 << 14  # of both sides, that are joined and stored at a time
MAX_STEP_ROWS = 1 << 20
MAX_STEP_SHARE = (
    4  # a step's pairs take at most the free memory over this: its matches, and other parts, lie beside them
)
_REFUSED = 2  # a step is refused that finds more than so many times the pairs it should: it is probed once more
_ROW_OVERHEAD = 1.2  # bytes of a stored row over those of its key and number: the index, and what blocks are rounded to
_TREE_OVERHEAD = 1.6  # the same of trees: nodes that are not full, the order of arrival, and what a merge writes
_TEMPORAL_OVERHEAD = {
    "csb_tree": 4.0,
    "burst_trie": 8.0,
    "radix_tree": 8.0,
    "judy": 4.0,
}  # as `_ROW_OVERHEAD`, logs of keys included
_FIRST_TIME_ROWS = 1 << 14  # of a time window, that memory is set aside for at first
_FAR = 1 << 100  # beyond this no bound differs from another
_FAR_ROWS = 1 << 62  # beyond all windows
_STEPS = ("sort", "probe", "copy", "store")


def _halves(value: int | None, default: int) -> tuple[int, int]:
    """The upper and the lower 64 bits of an integer, signed and unsigned, as the core takes integers of 128 bits."""
    value = default if value is None else max(-_FAR, min(_FAR, value))
    return value >> 64, value & ((1 << 64) - 1)


Option: TypeAlias = bool | int | float | str


def core_index(index: Index, time_unit: Fraction | None = None) -> tuple[str, dict[str, Option]]:
    """An index's name and parameters as the core takes them; those of an index within it begin with "of.".

    Parameters
    ----------
    index : Index
    time_unit : Fraction or None
        Nanoseconds of a unit of times; None where lengths are plain numbers.

    Raises
    ------
    WindowError
        If the stride of slices is a duration where the window has none, or the other way round.
    """
    values = {field.name: getattr(index, field.name) for field in dataclasses.fields(index)}
    inner = values.pop("of", None)
    name = index.name
    if isinstance(index, Slices):
        values["stride"] = _stride(index.stride, time_unit)
    parameters: dict[str, Option] = {
        name: min(value, _FAR_ROWS) if isinstance(value, int) else value
        for name, value in values.items()
        if value is not None
    }
    if isinstance(index, SortedRuns):
        parameters["adaptive"] = index == SortedRuns()
    if inner is not None:
        _, within = core_index(inner)
        name = f"{name}/{inner.name}"
        parameters |= {f"of.{parameter}": value for parameter, value in within.items()}
    return name, parameters


def _stride(stride: int | str | None, time_unit: Fraction | None) -> int | None:
    """A slice's length in the window's unit, at least 1."""
    if stride is None:
        return None
    if isinstance(stride, int):
        if time_unit is not None:
            raise WindowError(
                f"stride={stride!r} needs a unit, such as '{stride} seconds': the window's times are no integers"
            )
        return stride
    if time_unit is None:
        raise WindowError(f"stride={stride!r} is a duration, but the window has rows or integer times: give an integer")
    return max(1, math.ceil(nanoseconds(stride) / time_unit))


def halved(bands: list[tuple[int | None, int | None]] | None) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Bands as the core takes them; None where bounds come with the rows."""
    return [(_halves(low, -_FAR), _halves(high, _FAR)) for low, high in bands or ()]


class NativeEngine(Engine):
    """Joins batches in the native core.

    Results depend on the rows alone, their order too: not on the number of threads, nor on how far merges have come.

    Parameters
    ----------
    device : Cores
        Whose memory and threads it takes.
    spec : EngineSpec
    generator : BoundaryGenerator
    key_bits : dict of str to int
        Width of the encoded keys of each side. Where they differ, all are widened to 64 bits.
    index : Index
        One that the device has, for the engine that `spec` names.

    Raises
    ------
    CapacityError
        If the windows do not fit the device.
    WindowError
        If the stride of slices has another unit than the window.
    """

    def __init__(
        self,
        device: Cores,
        spec: EngineSpec,
        generator: BoundaryGenerator,
        key_bits: Sides[int],
        index: Index,
    ):
        self.spec = spec
        self._device = device
        self._index = index
        self._generator = generator
        bits = max(key_bits.values())
        self._dtype = LONG if bits == 128 else np.dtype(np.int32 if bits == 32 and not index.conjunctive else np.int64)
        self._shared = self._stores_once and spec.self_join and generator.one_column
        self._stored = SIDES[:1] if self._shared else SIDES  # whose rows are stored
        self._pid = os.getpid()
        name, parameters = core_index(index, self.spec.time_unit)
        bands = generator.constant_bands()
        self._complement = False  # ranges hold what does not match
        if spec.ranges:
            if isinstance(index, BiSort) and index.partitions is not None:
                raise UnsupportedError(
                    "form='ranges' keeps BI-Sort's main array and buffer as two runs, each with an index of its own: "
                    "leave out partitions of the index 'bisort'"
                )
            band = generator.constant_band()
            if band is not None and band[2]:
                bands, self._complement = [band[:2]], True
        self._bounded = bands is None  # bounds come with the rows
        structure = getattr(index, "of", index)
        row_bytes = self._bytes_per_row() * _TEMPORAL_OVERHEAD.get(structure.name, _ROW_OVERHEAD)
        if isinstance(structure, BPlusTree | Chain | ImTree):
            row_bytes = 2 * self._dtype.itemsize * _TREE_OVERHEAD
        self._row_bytes = row_bytes + (8 if spec.counts is None else 0)
        self._ticket: int | None = None
        self._reserve({side: self._window_rows(side) for side in self._stored})
        low, high = spec.within or (None, None)
        self._core: _core.Engine | None = _core.Engine(
            key_bits=8 * self._dtype.itemsize,
            index=name,
            parameters=parameters,
            window=(0, 0) if spec.counts is None else (spec.counts["left"], spec.counts["right"]),
            within=None if spec.within is None else (_halves(low, 0), _halves(high, 0)),
            bands=halved(bands),
            self_join=self._shared or (spec.self_join and not self._stores_once),
            engine=self._kind,
            options=self._options(),
            recording=spec.ranges,
            others=[halved(other.constant_bands()) for other in spec.others],
        )
        step_rows = MAX_STEP_ROWS
        if spec.counts is not None:
            step_rows = min(max(min(spec.counts.values()), MIN_STEP_ROWS), MAX_STEP_ROWS)
        self._pacer = self._open_pacer(step_rows)

    def _open_pacer(self, step_rows: int) -> Pacer:
        return Pacer(step_rows, counts=self.spec.counts)

    _applied = 0  # of the core, when the newest call was admitted
    _kind = Steps.name  # as the core names it
    _stores_once = True  # the rows of a self join on one key
    _refuses = True  # whether the core can refuse a step, which then has changed nothing
    _by_arrival = False  # whether pairs come in the order of arrival of the rows that find them
    _finders = True  # whether the core counts pairs by the side of the rows that find them

    def _options(self) -> dict[str, Option]:
        """Those of the engine, as the core takes them."""
        return {}

    # Memory

    def _bytes_per_row(self) -> int:
        """Bytes of a stored row's key and number."""
        return self._dtype.itemsize + 4

    def _window_rows(self, side: Side) -> int:
        """Rows that memory is set aside for: those of the window, some that have expired, and what an index needs."""
        if self.spec.counts is None:
            return _FIRST_TIME_ROWS
        return self._index.room(-(-self._max_rows(side) // self.spec.partitions))

    def _max_rows(self, side: Side) -> int:
        """Rows of a count window."""
        assert self.spec.counts is not None
        return max(self.spec.counts.values()) if self._shared else self.spec.counts[side]

    def _reserve(self, rows: Sides[int]) -> None:
        needed = int(sum(rows.values()) * self._row_bytes)
        windows = "the window" if self._shared else "the windows"
        self._ticket = self._device.reserve(needed, windows, self._ticket)
        if self._ticket is not None and not hasattr(self, "_finalizer"):
            self._finalizer = weakref.finalize(self, self._device.release, self._ticket)
        self._reserved_rows = rows

    @property
    def _engine(self) -> _core.Engine:
        if self._core is None:
            raise DeviceError("this join was closed")
        if os.getpid() != self._pid:
            raise DeviceError(
                "this join was opened in the process that forked this one: open one here, or send rows to that process"
            )
        return self._core

    def status(self) -> EngineStatus:
        """With ``seconds`` of sort, probe (bounds included), copy (pairs to the result) and store (merges included)."""
        core = self._core
        if core is None:
            return EngineStatus(dict.fromkeys(SIDES, 0), seconds=dict.fromkeys(_STEPS, 0.0))
        return EngineStatus(
            {side: core.rows(at) for at, side in enumerate(SIDES)},
            core.bytes,
            seconds=dict(zip(_STEPS, core.seconds, strict=True)),
            probed_runs=core.probed_runs,
            index={side: core.figures(at) for at, side in enumerate(SIDES)},
            report=core.report(),
        )

    @property
    def changed(self) -> bool:  # type: ignore[override]
        return self._core is None or self._core.applied != self._applied

    def admit(self, call: Call) -> Call:
        self._applied = self._engine.applied
        if self.spec.counts is None or self.spec.partitions > 1:
            self._make_room(call.new_rows)
        return call

    def _make_room(self, new_rows: Sides[int]) -> None:
        engine, needed = self._engine, {}
        for side in self._stored:
            rows = engine.rows(SIDES.index(side)) + new_rows[side]
            if self.spec.capacity is not None and rows > self.spec.capacity:
                limit = self._expired[side]
                if limit is not None:  # rows that have expired may lie with others that have not
                    engine.purge(SIDES.index(side), limit)
                    rows = engine.rows(SIDES.index(side)) + new_rows[side]
                if rows > self.spec.capacity:
                    raise beyond_capacity(side, rows, self.spec.capacity)
            if self.spec.counts is not None:
                rows = min(rows, self._max_rows(side))
            needed[side] = self._index.room(rows)
        if sum(needed.values()) > sum(self._reserved_rows.values()):
            self._reserve(needed)

    # A call

    def run(self, call: Call) -> Iterator[Found]:
        if call.want is Want.NOTHING:
            self._store(call)
            return
        engine, left, counting = self._engine, 0, call.want is Want.COUNTS
        whole = self._by_arrival or self.spec.order == "none"
        for step, found in self._joined(call, whole=whole):
            if call.want is Want.RANGES:
                yield from (
                    Ranges(side, part.reshape(-1, 4), self._complement) for side, part in zip(SIDES, found, strict=True)
                )
                continue
            if counting:
                probing = (step.batches[side].probing().rows for side in SIDES)
                yield from (Counts(*each) for each in zip(SIDES, probing, found, strict=True))
            elif self._by_arrival and self.spec.order != "none" and self.spec.self_join and not self._shared:
                yield OrderedPairs(*_by_stream(*found))
            elif whole:
                yield OrderedPairs(*found)
            else:
                yield from (Pairs(side, *part) for side, part in zip(SIDES, found, strict=True))
            if call.max_pairs is not None and not counting:
                left = int(rows[-1]) + 1 if len(rows := step.batches["left"].rows) else left
                yield Punctuation(left)
        for side in self._stored:
            engine.arrived(SIDES.index(side), call.arrived[side])
        if call.want is Want.RANGES:
            yield RunEvents({side: self._events(side) for side in SIDES})

    def _joined(self, call: Call, *, whole: bool) -> Iterator[tuple[Call, tuple[Any, ...]]]:
        """Parts of a call, with what the core gives for each: steps, or parts of one that finds too many pairs."""
        most: int | None = None
        for step in self._steps(call):
            if call.want is Want.PAIRS:
                most = self._max_step_pairs(call)
            found = self._step(step, most, whole=whole)
            if found[0] is not None:
                yield step, found
                continue
            counts = {}
            for side, own in zip(SIDES, found[1:], strict=True):
                counts[side], probes = own, step.batches[side].probes
                if probes is not None:
                    counts[side] = np.zeros(len(probes), np.int64)
                    counts[side][probes] = own
            assert most is not None
            for part in cut_pairs(step, counts, call.max_pairs or most):
                yield part, self._step(part, None, whole=whole)

    def _max_step_pairs(self, call: Call) -> int:
        """Pairs that a step may find; where the core refuses none, those that there is memory for."""
        if self._refuses and call.max_pairs is not None:
            return _REFUSED * call.max_pairs
        room = max(self._device.host_memory.room // PAIR_BYTES, 1)
        # In one step, if it can be: what is refused is probed twice, and results of several parts are put together.
        return max(room // MAX_STEP_SHARE, 1) if self._refuses else room

    def _step(self, call: Call, most: int | None, *, whole: bool) -> tuple[Any, ...]:
        step, want = call.batches, call.want
        apart = any(batch.stores is not None or batch.probes is not None for batch in step.values())
        inputs = [self._input(side, step[side].probing() if apart else step[side]) for side in SIDES]
        options: dict[str, Any] = {} if most is None else {"most": most}
        if apart:
            options |= {f"stored_{side}": self._input(side, step[side].stored(), probes=False) for side in SIDES}
        if want is Want.RANGES:
            return self._engine.step(*inputs, ranges=self._complement, threads=self._device.threads, **options)
        counting = want is Want.COUNTS
        try:
            found = self._engine.step(*inputs, counting=counting, whole=whole, threads=self._device.threads, **options)
        except _core.TooManyPairs as error:
            assert most is not None
            raise beyond_memory("a step", most + 1, PAIR_BYTES * most) from error
        if not counting and found[0] is not None:
            pairs = self._engine.pairs
            self._pacer.add(dict(zip(SIDES, pairs, strict=True)) if self._finders else sum(pairs))
        return found

    def _events(self, side: Side) -> list[list[int]]:
        return np.array(self._engine.take_events(SIDES.index(side)), np.int64).reshape(-1, 4).tolist()

    def _store(self, call: Call) -> None:
        engine = self._engine
        for step in cut_steps(call, MAX_STEP_ROWS):
            inputs = [self._input(side, step.batches[side]) for side in SIDES]
            engine.step(*inputs, probing=False, threads=self._device.threads)
        for side in self._stored:
            engine.arrived(SIDES.index(side), call.arrived[side])

    def _steps(self, call: Call) -> Iterator[Call]:
        stored = None
        if call.max_pairs is not None:
            stored = {side: self._engine.rows(at) for at, side in enumerate(SIDES)}
        return self._pacer.steps(call, stored)

    def _words(self, keys: np.ndarray) -> np.ndarray:
        """Keys or bounds as the core takes them."""
        return keys.view(np.uint64).reshape(-1, 2) if self._dtype == LONG else keys

    def _bounds(
        self, generator: BoundaryGenerator, side: Side, keys: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """The bounds of some rows by their places, for each interval; None where constant bands say the same."""
        if generator.constant_bands() is not None:
            return None
        found = generator.row_bounds(side, keys, self._dtype)
        return [(self._words(lower), self._words(upper)) for lower, upper in found]

    def _input(self, side: Side, batch: Batch, *, probes: bool = True) -> _core.Input:
        count = len(batch.keys)
        keys = self._words(np.ascontiguousarray(batch.keys, self._dtype))
        # Both ascend: where the ends say that nothing is left out, or that all are alike, no array need be read.
        whole = count > 0 and int(batch.rows[-1]) - int(batch.rows[0]) + 1 == count
        alike = count > 0 and batch.other_position[0] == batch.other_position[-1]
        return _core.Input(
            keys,
            rows=None if whole else np.ascontiguousarray(batch.rows),
            first_row=int(batch.rows[0]) if whole else 0,
            other_position=None if alike else np.ascontiguousarray(batch.other_position),
            same_other_position=int(batch.other_position[0]) if alike else 0,
            times=None if batch.times is None or not count else np.ascontiguousarray(batch.times),
            bounds=self._bounds(self._generator, side, batch.keys) if probes and self._bounded else None,
            others=[
                (np.ascontiguousarray(other, self._dtype), self._bounds(generator, side, other) if probes else None)
                for generator, other in zip(self.spec.others, batch.others, strict=True)
            ],
            order=batch.order,
        )

    _expired: Sides[int | None] = dict.fromkeys(SIDES)

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        limits = dict(expiry)
        if self._shared:  # what serves both roles goes when it is useless in both
            both = [limits[side] for side in SIDES]
            limits["left"] = None if None in both else min(both)  # type: ignore[type-var]
        self._expired = limits
        for side in self._stored:
            limit = self._expired[side]
            if limit is not None:
                self._engine.expire_times(SIDES.index(side), limit)
        oldest = (self._engine.oldest(at, -1) for at in range(len(SIDES)))
        return {side: Held(None if row < 0 else row) for side, row in zip(SIDES, oldest, strict=True)}

    def stop(self) -> None:
        if self._core is not None:
            self._core.stop()

    def close(self) -> None:
        self._core = None
        self._finalizer()


class SharedEngine(NativeEngine):
    """Joins batches row by row, on threads that share one index a side. See `NativeEngine` and `Shared`."""

    _kind = Shared.name
    _refuses = False
    _by_arrival = True
    _finders = False

    def _options(self) -> dict[str, Option]:
        kind = cast(Shared, self.spec.engine)
        return {"task_size": min(kind.task_size, _FAR_ROWS), "blocking": kind.merge == "blocking"}


def _by_stream(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a self join by the later row, then by the earlier one; those that it finds as a left row first."""
    order = np.lexsort((right > left, np.minimum(left, right), np.maximum(left, right)))
    return left[order], right[order]


_FIRST_ROWS = 1 << 14  # of both sides, that are joined at a time before it is known how many pairs they find
_MIN_ROWS, _MAX_ROWS = 1 << 9, 1 << 18
_PAIRS = 1 << 23  # that a step should find at most: bounds its memory


class SpoEngine(NativeEngine):
    """Joins batches on all parts of a conjunction, those of `EngineSpec.others` too, all of them indexed at once. See
    `NativeEngine`.

    Calls are cut in steps along the order of arrival, as long as the pairs found so far suggest.

    Source: SPO-Join, section 3. What a step does stands in host/native/engine/spo_engine.cpp.
    """

    _refuses = False

    def _bytes_per_row(self) -> int:
        """Of a run: keys, permutation and ranks of each condition, and the number; trees take no more."""
        return 16 * (1 + len(self.spec.others)) + 4

    def _open_pacer(self, step_rows: int) -> Pacer:
        return Pacer(
            min(step_rows, _MAX_ROWS),
            pairs=_PAIRS,
            min_rows=_MIN_ROWS,
            first_rows=_FIRST_ROWS,
            counts=self.spec.counts,
        )
