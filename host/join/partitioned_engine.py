"""An engine for a join with an equality part: several engines, each with the rows of some of its values.

Rows that are equal have one partition, so each pair is found once, in it. Windows are limits on arrival numbers and
times of the whole streams, so they hold in each partition as they do in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from host.join.condition import Condition
from host.join.engine import SIDES, Batch, Engine, Found


class PartitionedEngine(Engine):
    """Joins the rows of each partition in an engine and a thread of its own.

    Parameters
    ----------
    engines : sequence of Engine
        One for each partition, at least 2; closed with this one.
    hashes : callable
        ``hashes(side, keys)``: for each driving key of a side, uint64, the same for keys that are equal.
    """

    def __init__(self, engines: Sequence[Engine], hashes: Callable[[str, np.ndarray], np.ndarray]):
        self.spec = engines[0].spec
        self._engines = list(engines)
        self._hashes = hashes
        self._threads = ThreadPoolExecutor(len(engines), "mullion-partition")
        self._arrived = [dict.fromkeys(SIDES, 0) for _ in engines]
        self._cut: tuple[dict[str, Batch], list[dict[str, Batch]]] | None = None  # the last call's rows

    # What the operator asks

    @property
    def seconds(self) -> dict[str, float]:  # type: ignore[override]
        """Time per step, summed over partitions."""
        total: dict[str, float] = {}
        for engine in self._engines:
            for step, seconds in engine.seconds.items():
                total[step] = total.get(step, 0.0) + seconds
        return total

    @property
    def probed_runs(self) -> int:  # type: ignore[override]
        return sum(engine.probed_runs for engine in self._engines)

    @property
    def device_bytes(self) -> int:
        return sum(engine.device_bytes for engine in self._engines)

    def stored_rows(self, side: str) -> int:
        return sum(engine.stored_rows(side) for engine in self._engines)

    def figures(self, side: str) -> dict[str, Any]:
        """Of the first partition; the others' are alike."""
        return self._engines[0].figures(side)

    def report(self) -> dict[str, Any]:
        """``partitions``: for each, the rows of both sides that came to it, and those it stores."""
        return {
            "partitions": [
                {
                    **{f"rows_{side}": arrived[side] for side in SIDES},
                    **{f"stored_{side}": engine.stored_rows(side) for side in SIDES},
                }
                for engine, arrived in zip(self._engines, self._arrived, strict=True)
            ]
        }

    def oldest_row(self, side: str) -> int | None:
        oldest = [row for engine in self._engines if (row := engine.oldest_row(side)) is not None]
        return min(oldest, default=None)

    def make_room(self, new_rows: dict[str, int]) -> None:
        for engine in self._engines:
            engine.make_room(new_rows)  # all may have one value

    def room_for(self, batches: dict[str, Batch]) -> None:
        for engine, own in zip(self._engines, self._parts(batches), strict=True):
            engine.room_for(own)

    # A call

    def process(
        self,
        batches: dict[str, Batch],
        opposite: dict[str, np.ndarray],
        arrived: dict[str, int],
        *,
        counting: bool = False,
    ) -> Iterator[Found]:
        def join(engine: Engine, own: dict[str, Batch]) -> list[Found]:
            return list(engine.process(own, opposite, arrived, counting=counting))

        for found in self._each(join, batches):
            yield from found

    def load(self, batches: dict[str, Batch], opposite: dict[str, np.ndarray], arrived: dict[str, int]) -> None:
        def load(engine: Engine, own: dict[str, Batch]) -> None:
            engine.load(own, opposite, arrived)

        self._each(load, batches)

    def expire_times(self, last_useless: dict[str, int | None]) -> None:
        for engine in self._engines:
            engine.expire_times(last_useless)

    def close(self) -> None:
        self._threads.shutdown()
        for engine in self._engines:
            engine.close()

    def _each(self, work: Callable[[Engine, dict[str, Batch]], Any], batches: dict[str, Batch]) -> list[Any]:
        """What `work` gives for each engine with its rows; the first error once all have ended."""
        parts = self._parts(batches)
        self._cut = None
        for own, arrived in zip(parts, self._arrived, strict=True):
            for side in SIDES:
                arrived[side] += len(own[side])
        begun = [self._threads.submit(work, *each) for each in zip(self._engines, parts, strict=True)]
        errors = [error for future in begun if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return [future.result() for future in begun]

    def _parts(self, batches: dict[str, Batch]) -> list[dict[str, Batch]]:
        """The rows of each partition, in their order."""
        if self._cut is not None and self._cut[0] is batches:
            return self._cut[1]
        count = len(self._engines)
        parts: list[dict[str, Batch]] = [{} for _ in range(count)]
        for side, batch in batches.items():
            if side == "right" and batch is batches["left"]:  # of a self join on one key: an engine knows it by this
                for part in parts:
                    part["right"] = part["left"]
                continue
            numbers = partition_numbers(self._hashes(side, batch.keys), count)
            order = np.argsort(numbers, kind="stable")
            ends = np.searchsorted(numbers[order], np.arange(count + 1))
            for at, part in enumerate(parts):
                part[side] = batch.take(order[ends[at] : ends[at + 1]])
        self._cut = batches, parts
        return parts


def partition_numbers(hashes: np.ndarray, count: int) -> np.ndarray:
    """Numbers from 0 to `count` - 1 for values, uint64, that need not be spread evenly; int64, shape (n,)."""
    mixed = hashes * np.uint64(0x9E3779B97F4A7C15)  # splitmix64
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(count)).astype(np.int64)


def open_partitions(count: int, open_engine: Callable[[], Engine], condition: Condition) -> PartitionedEngine:
    """An engine of so many partitions for a condition with an equality part. Raises as `open_engine`."""
    engines: list[Engine] = []
    try:
        for _ in range(count):
            engines.append(open_engine())  # noqa: PERF401 (those opened are closed if one fails)
    except BaseException:
        for engine in engines:
            engine.close()
        raise
    return PartitionedEngine(engines, condition.equality_hashes)
