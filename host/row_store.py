"""The stored rows of one side with all their columns, for output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MERGE_FACTOR = 4  # a block is merged into its elder while that is less than this many times larger


class RowStore:
    """Rows by arrival number, cut off at the front.

    Rows lie in blocks of geometrically growing size, so that a take meets few chunks.

    Parameters
    ----------
    schema : pyarrow.Schema
    most_block_rows : int
        Blocks of at least this many rows are left as they are.
    """

    def __init__(self, schema: pa.Schema, most_block_rows: int = 1 << 20):
        self._schema = schema
        self._blocks: list[tuple[int, pa.Table]] = []  # first row number, rows
        self._most = most_block_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(block.nbytes for _, block in self._blocks)

    @property
    def rows(self) -> int:
        """Rows kept."""
        return sum(len(block) for _, block in self._blocks)

    def append(self, first: int, table: pa.Table) -> None:
        """Adds rows numbered from `first`, which is past all earlier ones."""
        if not len(table):
            return
        self._blocks.append((first, table))
        while len(self._blocks) > 1:
            (start, elder), (_, newer) = self._blocks[-2:]
            if len(elder) >= self._most or len(elder) > MERGE_FACTOR * len(newer):
                break
            merged = pa.concat_tables([elder, newer]).combine_chunks()
            self._blocks[-2:] = [(start, merged)]

    def take(self, rows: np.ndarray) -> pa.Table:
        """The rows of these numbers, int64, shape (n,), in this order."""
        if not len(rows):
            return self._schema.empty_table()
        if not self._blocks:
            raise IndexError("the row store is empty")
        # Blocks follow one another without a gap: every row of the stream that is kept at all has a place.
        base = self._blocks[0][0]
        table = pa.concat_tables([block for _, block in self._blocks])
        return table.take(pa.array(rows - base))

    def trim(self, oldest: int) -> None:
        """Forgets whole blocks before row `oldest`."""
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= oldest:
            del self._blocks[0]
