"""The calls to `WindowJoin.process` that two files amount to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from muntin.host.errors import OrderError, SchemaError
from muntin.host.files.table_reader import TableReader


def in_turns(left: Iterable[pa.Table], right: Iterable[pa.Table]) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """Batch i of the left with batch i of the right, until both have ended."""
    yield from zip_longest(left, right)


def interleave(
    left: TableReader, right: TableReader, sequence: str
) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """The rows of both files in the order of their sequence column, cut so that no later call holds an
    earlier row.

    A call takes from each file the rows below the least sequence that may still come, so rows with an equal
    sequence, which `WindowJoin` orders left first, always come in one call. What is held in between is a
    batch of each file, and more only where a sequence repeats over batches.

    Parameters
    ----------
    left, right : TableReader
    sequence : str
        A column that `JoinSpec.output_schema` has accepted.

    Raises
    ------
    SchemaError, OrderError
        Its type differs between the files; NULL in it, or a file that does not ascend by it.
    """
    sides = [_Side(left, sequence), _Side(right, sequence)]
    types = [side.type for side in sides]
    if types[0] != types[1] and not all(map(pa.types.is_integer, types)) and not any(map(pa.types.is_null, types)):
        raise SchemaError(
            f"the sequence {sequence!r} is {types[0]} in {left.path} and {types[1]} in {right.path}; they must agree"
        )
    while True:
        # Reading on the side that is behind moves the bound: the other one already lies beyond it.
        behind = min((side for side in sides if not side.ended), key=lambda side: side.position, default=None)
        if behind is not None:
            behind.read()
        open_sides = [side for side in sides if not side.ended]
        bounds = [side.last for side in open_sides if side.last is not None]
        if len(bounds) < len(open_sides):
            continue  # a side has not been read yet
        cut = [side.take(min(bounds, default=None)) for side in sides]
        if any(table is not None for table in cut):
            yield cut[0], cut[1]
        if not bounds:
            return


class _Side:
    """One file: the rows read and not yet taken, and the last sequence seen."""

    def __init__(self, reader: TableReader, sequence: str):
        self.type = reader.schema.field(sequence).type
        self._path = reader.path
        self._sequence = sequence
        self._batches = iter(reader)
        self._held: list[pa.Table] = []
        self.last: int | None = None
        self.ended = False

    @property
    def position(self) -> tuple[bool, int]:
        """Sorts a side that was not read yet first."""
        return self.last is not None, self.last or 0

    def read(self) -> None:
        """Hold one more batch."""
        batch = next(self._batches, None)
        if batch is None:
            self.ended = True
            return
        values = self._values(batch)
        if (self.last is not None and values[0] < self.last) or np.any(values[1:] < values[:-1]):
            raise OrderError(f"{self._path} does not ascend by {self._sequence!r}: sort the file by it first")
        self._held.append(batch)
        self.last = int(values[-1])

    def take(self, bound: int | None) -> pa.Table | None:
        """The rows held below `bound`, or all where it is None."""
        taken: list[pa.Table] = []
        while self._held:
            batch = self._held[0]
            rows = batch.num_rows if bound is None else _rows_below(self._values(batch), bound)
            if rows:
                taken.append(batch.slice(0, rows))
            if rows < batch.num_rows:
                self._held[0] = batch.slice(rows)
                break
            self._held.pop(0)
        return pa.concat_tables(taken) if taken else None

    def _values(self, batch: pa.Table) -> np.ndarray:
        column = batch.column(self._sequence)
        if column.null_count:
            raise OrderError(f"{self._path} has a NULL in {self._sequence!r}, the sequence")
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
        return column.to_numpy()


def _rows_below(values: np.ndarray, bound: int) -> int:
    # The bound may come from a wider type, in which NumPy would compare as float64.
    if bound > np.iinfo(values.dtype).max:
        return len(values)
    if bound <= np.iinfo(values.dtype).min:
        return 0
    return int(np.searchsorted(values, values.dtype.type(bound)))
