"""Which part of a conjunction without equality drives, chosen from the shares of pairs that the parts keep."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from muntin.host.call import Batch, Call, Found, Want
from muntin.host.engine.engine import Engine, EngineStatus, Held
from muntin.host.engine.residual import ResidualPart, RowColumn, TimeWindow
from muntin.host.engine.residual_engine import ResidualEngine
from muntin.host.errors import CapacityError, UnsupportedError
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import OTHER, SIDES, Side, Sides

_MIN_PAIRS, _MAX_PAIRS = 1 << 10, 1 << 16  # of a sample
_HITS = 32  # of the driver, that a sample should hold
_MIN_ROWS = 64  # of either side, that a sample is taken from
_PAIRS_OF_ROW = 16  # that a row is in, on average
_FIRST_GAP, _MAX_GAP = 1, 64  # calls between two samples
_CLEARLY = 2  # times the pairs


class ChoosingEngine(ResidualEngine):
    """An engine for a conjunction of which any part may drive.

    Now and then pairs of rows in the windows are drawn, those that arrived since the last sample with all of the other
    side, and each part is asked of them. Where another part keeps clearly fewer of them than the one that drives, an
    index of its keys is made from the rows in the windows, and takes the place of the one there is: pairs are the same
    whatever drives. Samples are taken after the calls 1, 3, 7 and so on, at last every 64 calls. Each change doubles
    the calls that must pass until the next, so there are few of them however the rows change.

    What is drawn depends on arrival numbers alone.

    Parameters
    ----------
    open_engine : callable
        ``open_engine(generator)``: an engine whose index is on the keys of a part.
    parts : sequence of ResidualPart
        All parts, whose keys are those of `Batch.keys` and then `Batch.others`, in this order. The first one drives at
        first.

    Attributes
    ----------
    driver : int
        Which part drives.
    changes : int
        How often the driver has changed.
    """

    def __init__(self, open_engine: Callable[[BoundaryGenerator], Engine], parts: Sequence[ResidualPart]):
        self._open, self._parts = open_engine, list(parts)
        self.driver, self.changes = 0, 0
        super().__init__(open_engine(parts[0].generator), parts[1:])
        shared = parts[0].shared
        self._present = {side: RowColumn(np.bool_) for side in self._stored}  # which rows may match at all
        if shared:
            self._present["right"] = self._present["left"]
        within = self.spec.within
        self._window = None if within is None else TimeWindow(*within, shared=shared)
        self._limits: Sides[int | None] = dict.fromkeys(SIDES)
        self._arrived, self._sampled = dict.fromkeys(SIDES, 0), dict.fromkeys(SIDES, 0)
        self._calls, self._next, self._gap, self._hold = 0, _FIRST_GAP, _FIRST_GAP, 2 * _FIRST_GAP
        self._drawn, self._hits = 0.0, np.zeros(len(parts))
        self._no_room: set[int] = set()  # parts whose index was refused
        self._choice_seconds, self._past_seconds, self._past_runs = 0.0, dict[str, float](), 0

    def status(self) -> EngineStatus:
        """``seconds`` with choice: samples and new indexes. ``report`` with ``driver``, ``shares`` (of the pairs in the
        windows, that each part keeps, by the samples so far) and ``driver_changes``; the part that drives at first has
        the place 0."""
        status = super().status()
        for step, past in self._past_seconds.items():
            status.seconds[step] = status.seconds.get(step, 0.0) + past
        status.seconds["choice"] = self._choice_seconds
        status.probed_runs += self._past_runs
        shares = (self._hits / self._drawn).tolist() if self._drawn else None
        status.report |= {"driver": self.driver, "shares": shares, "driver_changes": self.changes}
        return status

    @property
    def _residual_bytes(self) -> int:
        """Of the keys of all parts, and of what a new index is made from."""
        columns = {id(column): column for column in self._present.values()}.values()
        times = 0 if self._window is None else self._window.nbytes
        return sum(part.nbytes for part in self._parts) + sum(column.nbytes for column in columns) + times

    def run(self, call: Call) -> Iterator[Found]:
        yield from super().run(dataclasses.replace(call, batches=self._turned(call.batches)))
        self._arrived = dict(call.arrived)
        if call.want is Want.NOTHING:
            return
        start = time.perf_counter()
        self._consider()
        self._choice_seconds += time.perf_counter() - start

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        self._limits = dict(expiry)
        return super().expire(expiry)

    def change(self, driver: int) -> None:
        """Lets another part drive, from the next call on. Raises as `open_engine`, and changes nothing then."""
        engine = self._open(self._parts[driver].generator)
        try:
            batches = {side: self._rows(side, driver) for side in self._stored}
            batches.setdefault("right", batches["left"])
            other_position = {side: batch.other_position for side, batch in batches.items()}
            stored = Call(batches=batches, other_position=other_position, arrived=self._arrived, want=Want.NOTHING)
            for _ in engine.run(engine.admit(stored)):
                pass
            if self._window is not None:
                engine.expire(self._limits)
        except BaseException:
            engine.close()
            raise
        past = self.engine.status()
        for step, seconds in past.seconds.items():
            self._past_seconds[step] = self._past_seconds.get(step, 0.0) + seconds
        self._past_runs += past.probed_runs
        self.engine.close()
        self.engine, self.driver = engine, driver
        self._residuals = [part for part in self._parts if part is not self._parts[driver]]
        self._asked = self._kept = 0
        self.changes += 1

    # Rows

    def _turned(self, batches: Sides[Batch]) -> Sides[Batch]:
        """Batches whose keys are the driver's, and whose others those of all parts."""
        turned = {}
        for side, batch in batches.items():
            columns = (batch.keys, *batch.others)
            order = batch.order if self.driver == 0 else None
            turned[side] = dataclasses.replace(batch, keys=columns[self.driver], others=columns, order=order)
        return turned

    def _put(self, batches: Sides[Batch]) -> None:
        for side in self._stored:
            batch = batches[side]
            if not len(batch):
                continue
            for part in self._parts:
                part.put(side, batch)
            self._present[side].put(batch.rows, np.ones(len(batch), np.bool_))
            if self._window is not None:
                self._window.put(side, batch)

    def _trim(self, side: Side, oldest: int) -> None:
        for part in self._parts:
            part.trim(side, oldest)
        self._present[side].trim(oldest)
        if self._window is not None:
            self._window.trim(side, oldest)

    def _span(self, side: Side) -> tuple[int, int]:
        """The first row of a side in its window that may be there, and one past the last."""
        column, counts = self._present[side], self.spec.counts
        if counts is None:
            return column.start, column.end
        most = max(counts.values()) if len(self._stored) == 1 else counts[side]
        return max(column.start, self._arrived[side] - most), column.end

    def _rows(self, side: Side, driver: int) -> Batch:
        """The rows of a side that later ones may meet, with the keys of a part."""
        first, end = self._span(side)
        numbers = np.arange(first, max(end, first))
        rows = numbers[self._present[side].get(numbers)]
        times = None
        if self._window is not None:
            times = self._window.times(side, rows)
            limits = [self._limits[of] for of in (SIDES if len(self._stored) == 1 else (side,))]
            if None not in limits:  # a stream in both roles: useless in both
                kept = times > min(limits)  # type: ignore[type-var]
                rows, times = rows[kept], times[kept]
        return Batch(self._parts[driver].keys(side, rows), rows, np.zeros(len(rows), np.int64), times)

    # The choice

    def _consider(self) -> None:
        self._calls += 1
        if self._calls < self._next:
            return
        self._gap = min(2 * self._gap, _MAX_GAP)
        self._next = self._calls + self._gap
        if not self._sample():
            return
        best = min((part for part in range(len(self._parts)) if part not in self._no_room), key=self._hits.__getitem__)
        if best == self.driver:
            return
        # Twice the standard error to either side, of numbers that are about Poisson distributed.
        most = self._hits[best] + 2 * np.sqrt(self._hits[best] + 1) + 2
        least = self._hits[self.driver] - 2 * np.sqrt(self._hits[self.driver])
        if most * _CLEARLY >= least:
            return
        try:
            self.change(best)
        except (CapacityError, UnsupportedError):  # both indexes must fit for a moment; the one there is serves on
            self._no_room.add(best)
            return
        self._hold *= 2
        self._next = self._calls + max(self._gap, self._hold)

    def _sample(self) -> bool:
        """Asks all parts of some pairs; whether there were enough of them."""
        hits, drawn = np.zeros(len(self._parts)), 0
        share = max(self._hits[self.driver], 1) / self._drawn if self._drawn else 1.0
        wanted = int(min(max(_HITS / share, _MIN_PAIRS), _MAX_PAIRS)) // 2
        chance = np.random.default_rng([self._arrived[side] for side in SIDES])
        for side in SIDES:
            first, end = self._span(side)
            first = max(first, self._sampled[side])
            first_stored, end_stored = self._span(OTHER[side])
            fewest = min(end - first, end_stored - first_stored)
            if fewest < _MIN_ROWS:
                continue
            count = min(wanted, _PAIRS_OF_ROW * fewest)
            probing, stored = chance.integers(first, end, count), chance.integers(first_stored, end_stored, count)
            there = self._present[side].get(probing) & self._present[OTHER[side]].get(stored)
            if self.spec.self_join:
                there &= probing != stored
            probing, stored = probing[there], stored[there]
            if self._window is not None:
                met = self._window.keep(side, probing, stored)
                probing, stored = probing[met], stored[met]
            drawn += len(probing)
            hits += [np.count_nonzero(part.keep(side, probing, stored)) for part in self._parts]
        if drawn < _MIN_PAIRS // 4:
            return False
        self._drawn, self._hits = self._drawn / 2 + drawn, self._hits / 2 + hits
        self._sampled = dict(self._arrived)
        return True
