"""What one sender of rows adds to the summary of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.engine.routes import BinHistogram
from muntin.host.join.batch_summary import PLACES_SCHEMA, row_digest
from muntin.host.join.sequencer import Sequencer
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.spec import JoinSpec


class SummaryPart:
    """What one sender's rows add to a `BatchSummary`, gathered as they pass.

    Parameters
    ----------
    spec : JoinSpec
    left, right : pyarrow.Schema
        Of the sides.
    partitions : int
        Into how many the rows go.
    loads : BinHistogram, optional
        Without rows, where partitions follow the data.

    Attributes
    ----------
    rows : int
        How many there were.
    digest : int
        Sum of their hashes modulo 2**63: the same for the same rows in any order.
    """

    def __init__(
        self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, partitions: int, loads: BinHistogram | None = None
    ):
        self._loads = loads
        self._sequencer = Sequencer(spec, left, right)
        self._roles: Sides[tuple[Side, ...]] = {"left": SIDES if spec.self_join else ("left",), "right": ("right",)}
        self._alone = partitions == 1  # it sees all rows by itself
        self._placed = spec.counted and not self._alone
        self._newest: Sides[int] = {}
        self._sequence: tuple[int, int] | None = None
        self.rows = 0
        self.digest = 0

    def add(
        self, side: Side, rows: pa.RecordBatch, numbers: np.ndarray | None = None, loads: np.ndarray | None = None
    ) -> pa.RecordBatch | None:
        """Takes rows of a side.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
        numbers : ndarray of int64, optional
            Their partitions, where there are several; -1: of rows that go to more than one.
        loads : ndarray of int64, shape (2, bins), optional
            How many of the rows lie in each bin, as divided and as copied ones.

        Returns
        -------
        pyarrow.RecordBatch or None
            Their places, of `PLACES_SCHEMA`, for all partitions; None where these need none.
        """
        hashes, digest = row_digest(side, rows)
        self.rows += rows.num_rows
        self.digest = (self.digest + digest) % (1 << 63)
        if self._alone:
            return None
        table = pa.Table.from_batches([rows])
        for role in self._roles[side]:
            newest = self._sequencer.newest_time(role, table)
            if newest is not None:
                self._newest[role] = max(newest, self._newest.get(role, newest))
        if self._loads is not None:
            greatest = self._sequencer.greatest_time(side, table)
            if greatest is not None:
                self._loads.greatest[side] = max(greatest, self._loads.greatest.get(side, greatest))
            assert loads is not None
            for counts, more in zip(self._loads.rows.values(), loads, strict=False):
                counts += more
        values = self._sequencer.sequence_values(side, table)
        if values is not None and len(values):
            ends = (int(values.min()), int(values.max()))
            known = self._sequence or ends
            self._sequence = (min(ends[0], known[0]), max(ends[1], known[1]))
        if not self._placed:
            return None
        assert numbers is not None
        columns = (
            np.full(rows.num_rows, SIDES.index(side), np.int8),
            np.zeros(rows.num_rows, np.int64) if values is None else values.astype(np.int64, casting="safe"),
            hashes,
            numbers.astype(np.int32),
        )
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=PLACES_SCHEMA)

    def to_wire(self) -> dict[str, Any]:
        """JSON-able, for `summary_of`."""
        values: dict[str, Any] = {"newest": self._newest, "sequence": self._sequence}
        return values if self._loads is None else {**values, "loads": self._loads.to_wire()}


def places_in(places: pa.RecordBatch, partition: int, own: np.ndarray) -> pa.RecordBatch:
    """Places as a partition gets them that has these rows, bool, shape (n,): rows may be in several partitions."""
    numbers = places.column("partition").to_numpy()
    told = pa.array(np.where(own, np.int32(partition), numbers), pa.int32())
    return pa.RecordBatch.from_arrays([*places.columns[:-1], told], schema=PLACES_SCHEMA)
