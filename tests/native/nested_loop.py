"""What the native core is compared with: a nested loop over the rows that its windows may hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from muntin.host.native import _core

Bounds = list[tuple[np.ndarray, np.ndarray]]


def _exists(isa: str) -> bool:
    try:
        return _core.isa(isa) == isa
    except ValueError:
        return False


#: The instruction sets that were compiled and that this processor has.
ISAS = [isa for isa in ("v2", "v3", "v4", "plain") if _exists(isa)]


def wide(value: int) -> tuple[int, int]:
    """An integer of 128 bits as the core takes it."""
    return value >> 64, value & ((1 << 64) - 1)


#: Options of engines, beside those of indexes.
OF_ENGINES = ("task_size", "blocking", "locks", "schedule", "queue_tasks", "behind_rows")


def open_engine(
    *, bands: Any = (), within: tuple[int, int] | None = None, splitjoin: dict[str, Any] | None = None, **options: Any
) -> _core.Engine:
    """An engine of the core, bands and times in plain integers; options that are not its own are the index's."""
    own = ("key_bits", "index", "window", "self_join", "isa", "engine")
    of_engine = {name: options.pop(name) for name in OF_ENGINES if name in options}
    if splitjoin is not None:
        options["engine"], of_engine = "splitjoin", splitjoin
    if options["key_bits"] == 128:
        bands = [(low << WIDER_BY, high << WIDER_BY) for low, high in bands]
    parameters = {name: options.pop(name) for name in list(options) if name not in own}
    return _core.Engine(
        parameters=parameters,
        options=of_engine,
        bands=[(wide(low), wide(high)) for low, high in bands],
        within=None if within is None else (wide(within[0]), wide(within[1])),
        **{"index": "sorted_runs", **options},
    )


WIDER_BY = 34
_WIDER_LOW, _WIDER_HIGH = (1 << 63) + 12345, -(1 << 30)


def widened(keys: np.ndarray) -> np.ndarray:
    """Keys of 64 bits, int64, as keys of 128 bits in the same order: times 2**34, plus a constant."""
    low = keys.view(np.uint64) << np.uint64(WIDER_BY)
    words = np.empty((len(keys), 2), np.uint64)
    words[:, 0] = low + np.uint64(_WIDER_LOW)
    words[:, 1] = ((keys >> (64 - WIDER_BY)) + _WIDER_HIGH + (words[:, 0] < low)).view(np.uint64)
    return words


@dataclasses.dataclass
class Batch:
    """Rows of one side for a step; shapes (n,).

    Attributes
    ----------
    keys : ndarray of int32 or int64
    rows, other_position : ndarray of int64
        As in `muntin.host.call.Batch`.
    times : ndarray of int64, or None
    bounds : list of pairs of ndarrays like `keys`, or None
        Lower and upper bounds on the other side's keys, one pair of arrays for each interval.
    order : ndarray of uint32, or None
        Places in the order of keys.
    wider : bool
        The core gets all of them `widened`.
    """

    keys: np.ndarray
    rows: np.ndarray
    other_position: np.ndarray
    times: np.ndarray | None = None
    bounds: Bounds | None = None
    order: np.ndarray | None = None
    wider: bool = False

    def take(self, chosen: np.ndarray) -> Batch:
        """Some of the rows, without bounds."""
        times = None if self.times is None else self.times[chosen]
        return Batch(self.keys[chosen], self.rows[chosen], self.other_position[chosen], times, wider=self.wider)

    def input(self, short: bool = True) -> _core.Input:
        """As the core takes it; `short`: as numbers instead of arrays, where that says the same."""
        rows, other_position = self.rows, self.other_position
        whole = short and len(rows) > 0 and rows[-1] - rows[0] + 1 == len(rows)
        alike = short and len(rows) > 0 and other_position[0] == other_position[-1]
        keys, bounds = self.keys, self.bounds
        if self.wider:
            keys = widened(keys)
            bounds = bounds and [(widened(lower), widened(upper)) for lower, upper in bounds]
        return _core.Input(
            keys,
            rows=None if whole else rows,
            first_row=int(rows[0]) if whole else 0,
            other_position=None if alike else other_position,
            same_other_position=int(other_position[0]) if alike else 0,
            times=self.times,
            bounds=bounds,
            order=self.order,
        )


class NestedLoop:
    """The join by its definition; `step` takes what the core's step takes.

    Parameters
    ----------
    window : tuple of int
        Rows of each side's count window; not used with `within`.
    within : tuple of int, or None
        Of right time less left time.
    bands : list of tuple of int
        Of right key less left key.
    self_join : bool
        One stream, in both roles.
    """

    def __init__(
        self,
        window: tuple[int, int],
        within: tuple[int, int] | None,
        bands: list[tuple[int, int]],
        self_join: bool = False,
    ):
        self.window, self.within, self.bands, self.self_join = window, within, bands, self_join
        self.stored: list[Batch | None] = [None, None]

    def step(self, batches: tuple[Batch, Batch]) -> list[np.ndarray]:
        """For each side, (probing row, stored row) of all pairs, shape (pairs, 2), in ascending order."""
        for side in range(1 if self.self_join else 2):
            self.stored[side] = _joined(self.stored[side], batches[side])
        return [self._probe(side, batches[side]) for side in (0, 1)]

    def _probe(self, side: int, probing: Batch) -> np.ndarray:
        other = self.stored[0 if self.self_join else 1 - side]
        assert other is not None
        parts = [np.empty((0, 2), np.int64)]
        for lower, upper in self._bounds(side, probing):
            each = max((1 << 20) // max(len(other.rows), 1), 1)
            for start in range(0, len(probing.rows), each):
                some = np.s_[start : start + each]
                met = (lower[some, None] <= other.keys) & (other.keys <= upper[some, None])
                met &= other.rows < probing.other_position[some, None]
                if self.within is None:
                    met &= other.rows >= probing.other_position[some, None] - self.window[1 - side]
                else:
                    met &= self._in_time(side, probing.times[some], other.times)
                at, stored = np.nonzero(met)
                parts.append(np.stack([probing.rows[some][at], other.rows[stored]], axis=1))
        pairs = np.concatenate(parts)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def _in_time(self, side: int, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        low, high = self.within if side == 0 else (-self.within[1], -self.within[0])
        return (_shifted(probing, low)[:, None] <= stored) & (stored <= _shifted(probing, high)[:, None])

    def _bounds(self, side: int, batch: Batch) -> Bounds:
        if batch.bounds is not None:
            return batch.bounds
        bands = self.bands if side == 0 else [(-high, -low) for low, high in self.bands]
        full = np.iinfo(batch.keys.dtype)
        bounds = []
        for low, high in bands:
            lower, upper = _shifted(batch.keys, low), _shifted(batch.keys, high)
            # A band that lies beyond all keys ends at the last of them, and must not include it.
            none = np.array([k + low > full.max or k + high < full.min for k in batch.keys.tolist()], bool)
            bounds.append((np.where(none, 1, lower), np.where(none, 0, upper)))
        return bounds


def _shifted(values: np.ndarray, by: int) -> np.ndarray:
    """Integers plus another one, clipped to 64 bits."""
    full = np.iinfo(np.int64)
    return np.array([min(max(value + by, full.min), full.max) for value in values.tolist()], np.int64)


def _joined(one: Batch | None, other: Batch) -> Batch:
    if one is None:
        return other
    times = None if other.times is None else np.concatenate([one.times, other.times])
    rows, other_position = (
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.other_position, other.other_position]),
    )
    return Batch(np.concatenate([one.keys, other.keys]), rows, other_position, times)


def in_order(side: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The pairs of one side of a result, shape (pairs, 2), in ascending order."""
    pairs = np.stack(side, axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
