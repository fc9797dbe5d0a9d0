"""``at="close"``: the result of a left row, once no later row can match it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from muntin.host.call import Batch, Call, Found, Want
from muntin.host.engine.engine import Engine, EngineStatus, Held, beyond_capacity
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import Sides
from muntin.host.windows.time_axis import limit_of_times


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ClosingCall(Call):
    """A call of which the right rows are stored, as the engine has admitted them, and the left ones wait."""

    stored: Call


class ClosingEngine(Engine):
    """Left rows wait here until their windows are over, and then meet all right rows, which an engine holds.

    Parameters
    ----------
    engine : Engine
        That stores right rows alone, and lets left rows alone probe. Closed with this one.
    generator : BoundaryGenerator
        Of the keys of left rows.
    """

    def __init__(self, engine: Engine, generator: BoundaryGenerator):
        self.spec = engine.spec
        self._engine = engine
        self._waiting = _ClosingBuffer(generator)

    def admit(self, call: Call) -> Call:
        left, capacity = len(self._waiting) + len(call.batches["left"]), self.spec.capacity
        if capacity is not None and left > capacity:
            raise beyond_capacity("left", left, capacity)
        stored = self._engine.admit(_of_sides(call, call.batches["left"].take(slice(0, 0)), call.batches["right"]))
        self.changed = False
        return _ClosingCall(
            batches=call.batches,
            other_position=call.other_position,
            arrived=call.arrived,
            want=call.want,
            expiry=call.expiry,
            ended=call.ended,
            stored=stored,
        )

    def run(self, call: Call) -> Iterator[Found]:
        assert isinstance(call, _ClosingCall)
        self.changed = True
        for _ in self._engine.run(call.stored):
            pass
        self._waiting.add(call.batches["left"])
        limit = call.expiry["left"]
        if limit is None and not call.ended:
            return
        left = self._waiting.take(None if call.ended else limit)
        if call.want is not Want.NOTHING and len(left):
            left.stores = np.zeros(len(left), np.bool_)
            probes = _of_sides(call, left, call.batches["right"].take(slice(0, 0)), call.want)
            yield from self._engine.run(self._engine.admit(probes))

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        limit = expiry["right"]
        if limit is not None and self.spec.within is not None:
            limit = self._waiting.expiry(limit, self.spec.within[0])
        return self._engine.expire({**expiry, "right": limit}) | {"left": Held(self._waiting.oldest_row)}

    def status(self) -> EngineStatus:
        status = self._engine.status()
        status.stored["left"] = len(self._waiting)
        return status

    def stop(self) -> None:
        self._engine.stop()

    def close(self) -> None:
        self._engine.close()


def _of_sides(call: Call, left: Batch, right: Batch, want: Want = Want.NOTHING) -> Call:
    """A call of these rows, for an engine that gives its results at once."""
    batches: Sides[Batch] = {"left": left, "right": right}
    return Call(batches=batches, other_position=call.other_position, arrived=call.arrived, want=want)


class _ClosingBuffer:
    """Left rows whose windows are not over yet.

    Parameters
    ----------
    generator : BoundaryGenerator
        Of their keys.
    """

    def __init__(self, generator: BoundaryGenerator):
        none = np.zeros(0, np.int64)
        self._rows, self._times = Batch(np.zeros(0, generator.key_types["left"].dtype), none, none), none

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def oldest_row(self) -> int | None:
        """The least of their arrival numbers; None: no row waits."""
        return int(self._rows.rows.min()) if len(self) else None

    def expiry(self, limit: int, low: int) -> int | None:
        """The greatest time, `limit` at most, of right rows that are too old for all of these: a row meets those that
        are `low` after it and later. None: there is none."""
        return limit_of_times(min(limit, int(self._times.min()) + low - 1)) if len(self) else limit

    def add(self, batch: Batch) -> None:
        """Lets rows wait."""
        assert batch.times is not None
        held = self._rows
        columns = ((held.keys, batch.keys), (held.rows, batch.rows), (held.other_position, batch.other_position))
        # Without a type, keys of 128 bits would get one with their words the other way round.
        keys, rows, other_position = (np.concatenate(parts, dtype=parts[0].dtype) for parts in columns)
        self._rows = Batch(keys, rows, other_position)
        self._times = np.concatenate([self._times, batch.times])

    def take(self, limit: int | None) -> Batch:
        """The rows of this time and before, None: all, which then wait no longer."""
        gone = np.ones(len(self), np.bool_) if limit is None else self._times <= limit
        taken = dataclasses.replace(self._rows.take(gone), times=self._times[gone])
        self._rows, self._times = self._rows.take(~gone), self._times[~gone]
        return taken
