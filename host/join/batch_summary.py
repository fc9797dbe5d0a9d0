"""A call as a whole, for a join that has the rows of one partition: the rows of the others count too.

Count windows go by the order of arrival over all partitions, and watermarks by the times of all rows. Each
sender makes a `SummaryPart` of its rows, which every partition is given; each makes the same `BatchSummary` of all
parts. Rows of one sequence value, and all rows of a side without a sequence, come in the order of their hashes, which
is the same however often and in whatever pieces they are sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.engine.routes import BinHistogram
from muntin.host.errors import ProtocolError
from muntin.host.keys.content import mixed, row_hashes
from muntin.host.sides import SIDES, Side, Sides

#: Places of rows as they are sent to all partitions: side (0 left, 1 right), sequence value, hash, partition.
PLACES_SCHEMA = pa.schema(
    [("side", pa.int8()), ("sequence", pa.int64()), ("hash", pa.uint64()), ("partition", pa.int32())]
)
_SALTS = {"left": np.uint64(0x5851F42D4C957F2D), "right": np.uint64(0x14057B7EF767814F)}


@dataclasses.dataclass(frozen=True)
class BatchSummary:
    """What the rows of all partitions tell of a call.

    Attributes
    ----------
    newest : dict of str to int
        The newest event time of each side that has any, in the unit of the time axis.
    sequence : tuple of int, or None
        The least and the greatest sequence value.
    order : ndarray of bool, shape (n,), or None
        For count windows: of each row of the call in the order of arrival, whether it is a right one. None: arrival
        numbers are the partition's own.
    rows : dict of str to ndarray of int64
        For count windows: the place of each row of the partition among all rows of its side, from 0.
    loads : BinHistogram or None
        How rows lie in bins, where partitions follow the data.
    """

    newest: Sides[int]
    sequence: tuple[int, int] | None = None
    order: np.ndarray | None = None
    rows: Sides[np.ndarray] = dataclasses.field(default_factory=dict)
    loads: BinHistogram | None = None

    def arrived(self, side: Side) -> int:
        """Rows of a side in all partitions, for count windows."""
        assert self.order is not None
        right = int(np.count_nonzero(self.order))
        return right if side == "right" else len(self.order) - right

    def other_position(self, side: Side) -> np.ndarray:
        """For each row of a side in all partitions, int64, how many rows of the other one came before it."""
        assert self.order is not None
        own = self.order if side == "right" else ~self.order
        return np.cumsum(~own, dtype=np.int64)[own]

    def to_tables(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """JSON-able, and tables by name; for `from_tables`."""
        values: dict[str, Any] = {"newest": self.newest, "sequence": self.sequence}
        if self.loads is not None:
            values["loads"] = self.loads.to_wire()
        if self.order is None:
            return values, {}
        tables = {f"places {side}": pa.table({"row": rows}) for side, rows in self.rows.items()}
        tables["order"] = pa.table({"bits": np.packbits(self.order)})
        return {**values, "rows": len(self.order)}, tables

    @classmethod
    def from_tables(cls, values: dict[str, Any], tables: dict[str, pa.Table]) -> BatchSummary:
        """What `to_tables` took apart."""
        sequence = None if values["sequence"] is None else (values["sequence"][0], values["sequence"][1])
        loads = BinHistogram.from_wire(values["loads"]) if "loads" in values else None
        if "rows" not in values:
            return cls(values["newest"], sequence, loads=loads)
        order = np.unpackbits(tables["order"]["bits"].to_numpy(), count=values["rows"]).astype(np.bool_)
        places = {side: tables[f"places {side}"]["row"].to_numpy() for side in SIDES if f"places {side}" in tables}
        return cls(values["newest"], sequence, order, places, loads)


def row_digest(side: Side, rows: pa.RecordBatch) -> tuple[np.ndarray, int]:
    """A hash of each row of a side, uint64, shape (n,), and their sum modulo 2**63."""
    hashes = mixed(row_hashes(rows) ^ _SALTS[side])
    return hashes, int(np.sum(hashes, dtype=np.uint64)) % (1 << 63)


def summary_of(
    parts: Sequence[dict[str, Any]], places: Iterable[pa.RecordBatch], partition: int, *, placed: bool
) -> BatchSummary:
    """The call as the partition of this number sees it.

    Parameters
    ----------
    parts : sequence of dict
        Of each sender, as `SummaryPart.to_wire` gives it.
    places : iterable of pyarrow.RecordBatch
        Of each sender in the same order, as `SummaryPart.add` gives them.
    placed : bool
        The partitions need their rows' places.

    Raises
    ------
    ProtocolError
        The parts cannot be read.
    """
    newest: Sides[int] = {}
    ends: list[int] = []
    try:
        for part in parts:
            for side, time in part["newest"].items():
                newest[side] = max(int(time), newest.get(side, int(time)))
            ends += [int(value) for value in part["sequence"] or ()]
        given = [BinHistogram.from_wire(part["loads"]) for part in parts if "loads" in part]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"the parts of a call cannot be read: {error!r}") from error
    sequence = (min(ends), max(ends)) if ends else None
    loads = BinHistogram.total(given) if given else None
    if not placed:
        return BatchSummary(newest, sequence, loads=loads)
    table = pa.Table.from_batches(places, schema=PLACES_SCHEMA)
    sides, values, hashes, numbers = (column.to_numpy() for column in table.columns)
    rows, sorted_values = {}, {}
    for at, side in enumerate(SIDES):
        chosen = np.flatnonzero(sides == at)
        order = _order(values[chosen], hashes[chosen], numbers[chosen])
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        rows[side] = ranks[numbers[chosen] == partition]
        sorted_values[side] = values[chosen][order]
    before = np.searchsorted(sorted_values["left"], sorted_values["right"], "right")  # left rows of a value come first
    interleaved = np.zeros(len(table), np.bool_)
    interleaved[before + np.arange(len(before))] = True
    return BatchSummary(newest, sequence, interleaved, rows, loads)


def _order(values: np.ndarray, hashes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    return order if (ascending[1:] > ascending[:-1]).all() else np.lexsort((numbers, hashes, values))
