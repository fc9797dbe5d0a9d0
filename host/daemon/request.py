"""One request: the rows of one batch, staged until the sender says they are complete."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.host.daemon.limits import check_message
from muntin.host.daemon.result import KeptResult, Result
from muntin.host.daemon.rows import conform
from muntin.host.daemon.staging import Part, PartKey, Sender
from muntin.host.errors import ProtocolError
from muntin.host.join.whole_call import PLACES_SCHEMA

if TYPE_CHECKING:
    from muntin.host.daemon.query import Query

SIDES = ("left", "right")


class Request:
    """The rows of one batch as they come. Nothing is applied before `commit`; leaving the block without it discards
    them.

    Used by one thread, except that several requests of one query may be open at once.

    Attributes
    ----------
    batch : int
        As the client numbers it.
    sender : Sender
    kept : KeptResult or None
        The result, where the same batch was applied already: no rows need to be sent.
    begun : float
        When, by `time.monotonic`.
    parts : bool
        It brings one part of the batch, or names all of them.
    followed : bool
        What applies it goes on where the client has left, and discards what was staged at its end.
    """

    def __init__(
        self,
        query: Query,
        batch: int,
        sender: Sender,
        kept: KeptResult | None = None,
        *,
        parts: bool = False,
    ):
        self.query = query
        self.batch = batch
        self.sender = sender
        self.kept = kept
        self.parts = parts
        self.followed = False
        self.begun = time.monotonic()
        self._rows: dict[str, list[pa.RecordBatch]] = {side: [] for side in (*SIDES, "places")}
        self._reserved = 0

    @property
    def answer(self) -> dict[str, Any]:
        """What the client is told before it sends rows: whether they are wanted, and else what they must be."""
        answer: dict[str, Any] = {"rows_wanted": self.kept is None, "max_message": self.query.limits.max_message}
        if self.kept is not None and not self.parts:
            answer["content"] = self.query.content(self.batch)
        return answer

    def reserve(self, size: int) -> None:
        """Count `size` bytes as staged before they are read; `LimitError` where that is too much."""
        check_message(size, self.query.limits.max_message, "a message")
        self.query.reserve(size)
        self._reserved += size

    def add(self, side: str, batch: pa.RecordBatch) -> None:
        """Stage rows of one side, for which `reserve` was called.

        Raises
        ------
        ProtocolError, SchemaError
            A side that is neither "left" nor "right" (nor "places": those of a part); columns other than the query was
            opened with.
        """
        if side == "places":
            self._rows[side].append(conform(batch, PLACES_SCHEMA, side))
            return
        if side not in SIDES:
            raise ProtocolError(f"a row's side must be 'left' or 'right', not {side!r}")
        self._rows[side].append(conform(batch, self.query.definition.schema(side), side))

    def commit(self, left_rows: int, right_rows: int) -> Result:
        """Apply the rows once, or wait for the request that is applying them, and return the result.

        Parameters
        ----------
        left_rows, right_rows : int
            How many rows the sender sent: a stage that lost some is refused rather than applied.
        """
        return self.query.apply(self, *self._complete(left_rows, right_rows))

    def stage(self, left_rows: int, right_rows: int, key: PartKey, call: dict[str, Any]) -> None:
        """Keep the rows as one part of a batch, for a request that names all its parts.

        Parameters
        ----------
        left_rows, right_rows : int
            As of `commit`.
        key : PartKey
            Of the part.
        call : dict
            What it tells the partitions of the join; see `Part.call`.
        """
        left, right = self._complete(left_rows, right_rows)
        part = Part(left, right, list(self._rows["places"]), call, self.sender, self._reserved, self.begun)
        if self.query.stage(self, key, part):
            self._reserved = 0  # counted on, until the batch is applied

    def _complete(self, left_rows: int, right_rows: int) -> list[pa.Table]:
        tables = [pa.Table.from_batches(self._rows[side], schema=self.query.definition.schema(side)) for side in SIDES]
        if [table.num_rows for table in tables] != [left_rows, right_rows]:
            raise ProtocolError(
                f"the sender counts {left_rows} left and {right_rows} right rows, "
                f"but {tables[0].num_rows} and {tables[1].num_rows} arrived; nothing was applied"
            )
        return tables

    def discard(self) -> None:
        """Forget what was staged."""
        for batches in self._rows.values():
            batches.clear()
        self.query.release(self, self._reserved)
        self._reserved = 0

    def __enter__(self) -> Request:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.followed:
            self.discard()
