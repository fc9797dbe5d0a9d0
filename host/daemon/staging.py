"""Parts of batches that wait until all parts of their batch are there.

A part is what one task of Spark sends. It is known by its content, so that a part that comes again, from another
attempt or a replay, is the same part, and one whose rows changed is another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.host.errors import StateLostError
from muntin.host.join.batch_summary import BatchSummary, row_digest, summary_of
from muntin.host.sides import SIDES


@dataclasses.dataclass(frozen=True)
class Sender:
    """Who sends a batch.

    Attributes
    ----------
    run : str
        One run of the client's streaming query, from its start to its end.
    instance : str
        Which join of that run: the same for all batches, repeats and tasks of one join, different for any other.
    """

    run: str = ""
    instance: str = ""


class PartKey(NamedTuple):
    """What a part is known by.

    Attributes
    ----------
    task : int
        The partition of Spark's input that its rows came from.
    rows, digest : int
        Of all rows of the task, whatever partition of the join they belong to: how many, and the sum of their hashes.
    """

    task: int
    rows: int
    digest: int


@dataclasses.dataclass
class Part:
    """The rows of a part that belong to one partition of the join.

    Attributes
    ----------
    left, right : pyarrow.Table
    places : list of pyarrow.RecordBatch
        Of all rows of the task, of `PLACES_SCHEMA`; empty where the join has no use for them.
    call : dict
        As `SummaryPart.to_wire` gives it, with ``partition`` and ``partitions`` of the join.
    sender : Sender
    size : int
        Bytes that count as staged.
    begun : float
        When the first of it came, by `time.monotonic`.
    """

    left: pa.Table
    right: pa.Table
    places: list[pa.RecordBatch]
    call: dict[str, Any]
    sender: Sender
    size: int
    begun: float

    def whole(self, parts: Iterable[Part], *, counted: bool) -> BatchSummary | None:
        """What this and the other parts tell of the batch; None where the join has one partition."""
        if self.call["partitions"] == 1:
            return None
        parts = list(parts)
        places = [batch for part in parts for batch in part.places]
        return summary_of([part.call for part in parts], places, self.call["partition"], placed=counted)


class Stage:
    """The complete parts of one query's batches; of equal ones the first."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[PartKey, Part]] = {}

    def add(self, batch: int, key: PartKey, part: Part) -> bool:
        """Take a part; False where there is one of that content."""
        parts = self._batches.setdefault(batch, {})
        return parts.setdefault(key, part) is part

    def take(self, query: str, batch: int, keys: Iterable[PartKey]) -> list[Part]:
        """The parts of these keys, in the order of their tasks.

        Raises
        ------
        StateLostError
            One is not here.
        """
        parts = self._batches.get(batch, {})
        missing = [key for key in sorted(keys) if key not in parts]
        if missing:
            raise StateLostError(
                f"query {query!r}, batch {batch}: the rows of task {missing[0].task} ({missing[0].rows:,} rows, "
                f"{missing[0].digest:016x}) are not here, and {len(missing) - 1} other parts: this daemon was started "
                "since they were sent. Start the query again from its checkpoint"
            )
        return [parts[key] for key in sorted(keys)]

    @property
    def begun_at(self) -> float | None:
        """When the first of the parts came; None where there is none."""
        return min((part.begun for parts in self._batches.values() for part in parts.values()), default=None)

    def unread(self, after: int, before: int) -> int | None:
        """The first batch between these two that has parts with rows; None where there is none."""
        found = (number for number, parts in self._batches.items() if any(key.rows for key in parts))
        return min((number for number in found if after < number < before), default=None)

    def free(self, batch: int | None = None) -> int:
        """Forget the parts of the batches up to this one, or of all; the bytes that they counted."""
        gone = [number for number in self._batches if batch is None or number <= batch]
        return sum(part.size for number in gone for part in self._batches.pop(number).values())


def totals(keys: Iterable[PartKey]) -> tuple[int, int]:
    """Rows and digest of all parts together."""
    keys = list(keys)
    return sum(key.rows for key in keys), sum(key.digest for key in keys) % (1 << 63)


def totals_of(left: pa.Table, right: pa.Table) -> tuple[int, int]:
    """The same of the rows themselves."""
    digest = 0
    for side, table in zip(SIDES, (left, right), strict=True):
        for batch in table.to_batches():
            digest += row_digest(side, batch)[1]
    return len(left) + len(right), digest % (1 << 63)
