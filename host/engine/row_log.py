"""The rows that are still needed for output, with all their columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from muntin.host.errors import SchemaError
from muntin.host.keys import kept_types
from muntin.host.keys.kept_types import (
    check_type,
    compacted,
    fixed_bytes,
    kept_schema,
    plain_bytes,
    returned,
    value_bytes,
)
from muntin.host.native import _core

_MAX_PICKED_BYTES = 1 << 28  # of rows with lists that Arrow picks at a time: it takes 8 bytes for each value in them
MERGE_FACTOR = 4  # a block is merged into its elder while that is less than this many times larger


_View = tuple[np.ndarray, np.ndarray | None]  # the second: None where all rows have values


@dataclasses.dataclass
class _Block:
    """Rows that follow one another, each column in one chunk.

    Attributes
    ----------
    start : int
        Number of the first row, or its place among those kept.
    nbytes : int
        Of all columns.
    varying : int
        Bytes of the values of varying size, and those of the row that has most.
    views : dict of str to (ndarray, ndarray), or None
        Those columns that were asked for as bytes, and of each row whether it has a value, uint8.
    """

    start: int
    table: pa.Table
    nbytes: int
    varying: int = 0
    heaviest: int = 0
    views: dict[str, _View | None] = dataclasses.field(default_factory=dict)

    @property
    def end(self) -> int:
        """One past the last row's."""
        return self.start + len(self.table)


class RowLog:
    """Rows by arrival number, cut off at the front.

    Numbers follow one another, or ascend with gaps: those of one partition. Rows lie in blocks of geometrically growing
    size, so that a take meets few of them, of no more bytes than offsets of 32 bits number. Columns are kept as
    `kept_type` says.

    Parameters
    ----------
    side : str
        Named in errors.
    schema : pyarrow.Schema
        Of the columns that are kept, at least one.
    max_block_rows : int
        Blocks of at least this many rows are left as they are.
    threads : int
        The most that `take` uses.

    Raises
    ------
    SchemaError
        If a column has a type whose rows pyarrow cannot take in any way.
    """

    def __init__(self, side: str, schema: pa.Schema, max_block_rows: int = 1 << 20, threads: int = 1):
        self._schema = schema
        self._kept = kept_schema(schema)
        check_columns(side, schema)
        self._blocks: list[_Block] = []
        self._numbers: np.ndarray | None = None  # of the rows kept, where there are gaps
        self._before = 0  # rows before these
        self._fixed = sum(filter(None, map(fixed_bytes, (field.type for field in self._kept))))
        self._varies = [field.name for field in self._kept if fixed_bytes(field.type) is None]
        self._coded = [field.name for field in self._kept if pa.types.is_dictionary(field.type)]
        self._listed = any(pa.types.is_nested(field.type) for field in self._kept)
        self._most = max_block_rows
        self.threads = threads
        self._widths = {field.name: width for field in self._kept if (width := plain_bytes(field.type))}

    _few = 1  # blocks that are never merged

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, as `take` gives them."""
        return self._schema

    @property
    def nbytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(block.nbytes for block in self._blocks)

    @property
    def rows(self) -> int:
        """Rows kept."""
        return sum(len(block.table) for block in self._blocks)

    @property
    def max_row_bytes(self) -> int:
        """Bytes of the columns of a row, as `take` gives them, that no row has more than."""
        return self._fixed + max((block.heaviest for block in self._blocks), default=0)

    def append(self, first: int, table: pa.Table, numbers: np.ndarray | None = None) -> None:
        """Adds rows, as `kept` gives them, numbered from `first`, which is past all earlier ones.

        The table may have more columns than the log keeps. `numbers`, int64, shape (n,), are those of the rows, where
        they have gaps; then every call gives them.
        """
        if not len(table):
            return
        if numbers is None and self._numbers is not None:
            numbers = np.arange(first, first + len(table), dtype=np.int64)
        if numbers is not None:
            known = np.zeros(0, np.int64) if self._numbers is None else self._numbers
            first = self._before + len(known)
            self._numbers = np.concatenate([known, numbers])
        if table.column_names != self._kept.names:
            table = table.select(self._kept.names)
        self._put(first, table)
        while len(self._blocks) > self._few:
            elder, newer = self._blocks[-2:]
            if len(elder.table) >= self._most or len(elder.table) > MERGE_FACTOR * len(newer.table):
                break
            if elder.varying + newer.varying > kept_types.MAX_CHUNK_BYTES:
                break
            self._blocks[-2:] = [
                _Block(
                    elder.start,
                    self._merged(elder, newer),
                    elder.nbytes + newer.nbytes,
                    elder.varying + newer.varying,
                    max(elder.heaviest, newer.heaviest),
                )
            ]

    def _merged(self, elder: _Block, newer: _Block) -> pa.Table:
        """The rows of two blocks, each column in one chunk."""
        columns = []
        for field in elder.table.schema:
            if field.name in self._widths or field.name == _BYTES:
                a, b = self._view(elder, field.name), self._view(newer, field.name)
                if a is not None and b is not None:  # to where arrays of a call lie, not to memory that is new
                    valid, rows = None, len(elder.table) + len(newer.table)
                    if a[1] is not None or b[1] is not None:
                        valid = _bitmap(np.concatenate([_validity(elder, a), _validity(newer, b)]))
                    values = pa.py_buffer(np.concatenate([a[0], b[0]]))
                    columns.append(pa.chunked_array([pa.Array.from_buffers(field.type, rows, [valid, values])]))
                    continue
            both = elder.table.column(field.name).chunks + newer.table.column(field.name).chunks
            columns.append(pa.chunked_array(both, field.type).combine_chunks())
        return pa.table(columns, schema=elder.table.schema)

    def _put(self, start: int, table: pa.Table) -> None:
        """Adds rows as blocks: as one, unless values of varying size have too many bytes for that."""
        if not self._varies:
            # Rows of one chunk are copied out by the core.
            self._blocks.append(_Block(start, table.combine_chunks(), self.bytes_of(table)))
            return
        sizes = np.zeros(len(table), np.int64)
        for name in self._varies:
            sizes += _column_bytes(table.column(name))
        table = table.append_column(_BYTES, pa.array(sizes, pa.int64()))
        whole = int(sizes.sum()) <= kept_types.MAX_CHUNK_BYTES
        for rows in [slice(0, len(table))] if whole else _cuts(sizes, kept_types.MAX_CHUNK_BYTES):
            part = table.slice(rows.start, rows.stop - rows.start).combine_chunks()
            own = sizes[rows]
            self._blocks.append(_Block(start + rows.start, part, self.bytes_of(part), int(own.sum()), int(own.max())))

    def bytes_of(self, table: pa.Table) -> int:
        """Bytes that rows take in here, but for what tells which are NULL in columns of numbers."""
        if len(self._widths) == len(self._kept):
            return len(table) * self._fixed
        return table.select([name for name in (*self._kept.names, _BYTES) if name in table.column_names]).nbytes

    def take(self, rows: np.ndarray, names: list[str]) -> list[pa.ChunkedArray]:
        """Columns, by their names, of the rows of these numbers, int64, shape (n,), in this order; NULLs for a number
        below 0.

        In one chunk, but for what has more bytes than that may have, and dictionaries with more values than their
        indices number. Slices of blocks where the rows follow one another, and are a quarter of those blocks, which
        stay as long as they.
        """
        fields = [self._schema.field(name) for name in names]
        if not len(rows):
            return empty_table(pa.schema(fields)).columns
        if not self._blocks:  # all are missing
            return [pa.chunked_array([pa.nulls(len(rows), field.type)]) for field in fields]
        found = self._stretch(rows, names)
        found |= self._plain(rows, [name for name in names if name in self._widths and name not in found])
        others = [name for name in names if name not in found]
        if others:
            found |= dict(zip(others, self._taken(rows, others).columns, strict=True))
        return [returned(found[field.name], field.type) for field in fields]

    def _plain(self, rows: np.ndarray, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """As `take`, those of these columns, of a fixed width, that lie in one chunk a block."""
        if not names:
            return {}
        places, bitmap, blocks = self._places(rows), None, self._blocks
        least = int(rows.min())
        if least < 0:
            missing = rows < 0
            if places is not rows:
                places[missing] = -1
            bitmap = _bitmap(~missing)
        else:  # blocks before all of them are not looked at
            least = least if places is rows else int(places.min())
            blocks = blocks[sum(block.end <= least for block in blocks) :]
        views: dict[str, list[np.ndarray]] = {}
        widths, marks = [], {}  # marks: whether rows have values, where some have none
        for name in names:
            found = [view for block in blocks if (view := self._view(block, name)) is not None]
            if len(found) < len(blocks):
                continue
            views[name] = [values for values, _ in found]
            widths.append(self._widths.get(name, _SIZE_WIDTH))
            if any(valid is not None for _, valid in found):
                marks[name] = [_validity(block, view) for block, view in zip(blocks, found, strict=True)]
        if not views or not blocks:
            return {}
        ends = [block.end for block in blocks]
        columns = [*views.values(), *marks.values()]
        values = _core.gather(columns, widths + [1] * len(marks), ends, places, self.threads, blocks[0].start)
        kinds = (pa.int64() if name == _BYTES else self._kept.field(name).type for name in views)
        bitmaps = dict.fromkeys(views, bitmap) | dict(zip(marks, map(_bitmap, values[len(views) :]), strict=True))
        return {
            name: pa.chunked_array([pa.Array.from_buffers(kind, len(rows), [bitmaps[name], pa.py_buffer(of)])])
            for name, kind, of in zip(views, kinds, values, strict=False)
        }

    def _view(self, block: _Block, name: str) -> _View | None:
        """The column of a block as bytes, as of `_bytes_of`."""
        if name not in block.views:
            block.views[name] = _bytes_of(block.table.column(name), self._widths.get(name, _SIZE_WIDTH))
        return block.views[name]

    def _stretch(self, rows: np.ndarray, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """Slices of blocks, where `take` may give them; of several blocks put together, unless they are too large."""
        count = len(rows)
        if int(rows[0]) < 0 or int(rows[-1]) - int(rows[0]) != count - 1:
            return {}
        if not np.all(rows[1:] - rows[:-1] == 1):
            return {}
        first, last = (int(place) for place in self._places(rows[[0, -1]]))
        if last - first != count - 1:  # rows of other partitions lie between them
            return {}
        parts, touched, varying = [], 0, 0
        for block in self._blocks:
            start, stop = max(first, block.start), min(last + 1, block.end)
            if start < stop:
                parts.append(block.table.select(names).slice(start - block.start, stop - start))
                touched, varying = touched + len(block.table), varying + block.varying
        if touched > 4 * count or sum(map(len, parts)) != count:
            return {}
        whole = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        if varying > kept_types.MAX_CHUNK_BYTES:
            names = [name for name in names if name in self._varies]
        elif len(parts) > 1:
            whole = whole.combine_chunks()
        return {name: whole.column(name) for name in names}

    def row_bytes(self, rows: np.ndarray) -> np.ndarray | int:
        """Bytes of the columns of each of these rows, as `take` gives them, dictionaries aside, int64, shape (n,). A
        number where all rows have the same."""
        if not self._varies or not self._blocks:
            return self._fixed
        return self._fixed + self._varying(rows)

    def _varying(self, rows: np.ndarray) -> np.ndarray:
        """Bytes of the values of varying size of each of these rows, int64."""
        if not len(rows):
            return np.zeros(0, np.int64)
        column = self._plain(rows, [_BYTES])[_BYTES].chunk(0)
        return np.frombuffer(column.buffers()[1], np.int64, len(rows))  # 0 where rows are missing

    def _taken(self, rows: np.ndarray, names: list[str]) -> pa.Table:
        places = np.where(rows < 0, -1, self._places(rows))
        coded = [name for name in names if name in self._coded]
        most = len(rows) * max(block.heaviest for block in self._blocks)
        if most <= min(_MAX_PICKED_BYTES, kept_types.MAX_CHUNK_BYTES):
            return _gathered(self._blocks, places, names, coded)
        sizes, chunks = self._varying(rows), []
        for chunk in _cuts(sizes, kept_types.MAX_CHUNK_BYTES):
            own = places[chunk]
            picks = _cuts(sizes[chunk], _MAX_PICKED_BYTES) if self._listed else [slice(0, len(own))]
            parts = [_gathered(self._blocks, own[part], names, coded) for part in picks]
            chunks.append(parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks())
        return pa.concat_tables(chunks)

    def trim(self, oldest: int) -> None:
        """Forgets whole blocks before row `oldest`."""
        end = int(self._places(np.array([oldest]))[0])
        while self._blocks and self._blocks[0].end <= end:
            gone = len(self._blocks.pop(0).table)
            if self._numbers is not None:
                self._numbers = self._numbers[gone:]
                self._before += gone

    def thin(self, few: np.ndarray, first: int) -> None:
        """Forgets the rows before `first` but a few, int64, ascending, as soon as they are more than half of all."""
        gone = int(self._places(np.array([first]))[0]) - self._blocks[0].start if self._blocks else 0
        few = few[few < first]
        if gone - len(few) <= max(self.rows // 2, _FEW_ROWS):
            return
        end = self._blocks[-1].end
        newer = np.arange(first, end, dtype=np.int64)
        if self._numbers is not None:
            newer = self._numbers[np.searchsorted(self._numbers, first) :]
        numbers = np.concatenate([few, newer])
        table = kept_types.kept(pa.table(self.take(numbers, self._schema.names), schema=self._schema))
        self._blocks, self._before, self._numbers = [], 0, numbers
        if len(table):
            self._put(0, table)

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows lie, as blocks count."""
        return rows if self._numbers is None else self._before + np.searchsorted(self._numbers, rows)


def picked(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Rows of a table, as `kept` gives it, by their places, int64, shape (n,), each at most once."""
    if table.nbytes <= kept_types.MAX_CHUNK_BYTES:
        return table.take(pa.array(rows))
    log = RowLog("given", table.schema)
    log.append(0, table)
    return pa.table(log.take(rows, table.column_names), schema=table.schema)


def _gathered(blocks: Sequence[_Block], places: np.ndarray, names: list[str], coded: list[str]) -> pa.Table:
    """Rows by their places, NULLs for -1, in one chunk."""
    missing = places < 0 if int(places.min()) < 0 else None
    rows, varying = blocks[-1].end - blocks[0].start, sum(block.varying for block in blocks)
    if len(blocks) == 1 or (rows <= 4 * len(places) and varying <= kept_types.MAX_CHUNK_BYTES):
        joined = pa.concat_tables([block.table.select(names) for block in blocks])
        return joined.take(pa.array(places - blocks[0].start, mask=missing)).combine_chunks()
    # Only the rows wanted are copied from each block, then put in order.
    which = np.searchsorted([block.start for block in blocks], places, "right")  # 0 of missing ones
    ends = np.cumsum(np.bincount(which, minlength=len(blocks) + 1))
    if ends[0] != (0 if missing is None else np.count_nonzero(missing)):
        raise IndexError("a row has a number before the first")
    order = np.argsort(which.astype(np.int16) if len(blocks) < 1 << 15 else which, kind="stable")
    parts = []
    for block, begin, end in zip(blocks, ends, ends[1:], strict=False):
        if begin == end:
            continue
        own = order[begin:end]
        part = block.table.select(names).take(pa.array(places[own] - block.start))
        for name in coded:
            if len(part.column(name).chunk(0).dictionary) > len(part):
                part = part.set_column(names.index(name), name, compacted(part.column(name).chunk(0)))
        parts.append(part)
    if not parts:
        parts.append(blocks[0].table.select(names).slice(0, 0))
    order = order[ends[0] :]
    joined = pa.concat_tables(parts).combine_chunks()
    if missing is None and (order[1:] > order[:-1]).all():
        return joined
    indices = np.zeros(len(places), np.int64)
    indices[order] = np.arange(len(order))
    return joined.take(pa.array(indices, mask=missing))


def _cuts(sizes: np.ndarray, most: int) -> Iterator[slice]:
    """Rows of these bytes, in parts of so many at most, or of one row."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + most, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def _bytes_of(column: pa.ChunkedArray, width: int) -> _View | None:
    """The values of a column of such a type, uint8, and which rows have any, if not all; None where they lie in several
    chunks."""
    if column.num_chunks != 1:
        return None
    chunk = column.chunk(0)
    if chunk.buffers()[1] is None:  # as there may be where no row has a value
        return None
    values = np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width)
    if not chunk.null_count:
        return values, None
    first = chunk.offset // 8
    bits = np.frombuffer(chunk.buffers()[0], np.uint8, (chunk.offset + len(chunk) + 7) // 8 - first, first)
    begin = chunk.offset % 8
    return values, np.unpackbits(bits, bitorder="little")[begin : begin + len(chunk)]


def _validity(block: _Block, view: _View) -> np.ndarray:
    """Which rows of a column have a value, uint8."""
    return np.ones(len(block.table), np.uint8) if view[1] is None else view[1]


def _bitmap(valid: np.ndarray) -> pa.Buffer:
    """Truth values as Arrow has them."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


_FEW_ROWS = 1 << 12  # that are not worth a copy of the others
_BYTES = "\0bytes"  # no name of a column that Spark, SQL or a file could have
_SIZE_WIDTH = 8  # bytes of a value in it


def _column_bytes(column: pa.ChunkedArray) -> np.ndarray:
    """Bytes of each value of a column of varying size, int64, shape (n,)."""
    each = [np.broadcast_to(value_bytes(chunk), len(chunk)) for chunk in column.chunks]
    return np.concatenate(each) if len(each) != 1 else each[0]


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows, whatever the types; pyarrow's own `Schema.empty_table` knows no unions."""
    return pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)


def check_columns(side: str, schema: pa.Schema) -> None:
    """Raises SchemaError if a column of a side has a type whose rows cannot be picked in any way."""
    for field in schema:
        try:
            check_type(field.type)
        except pa.ArrowException as error:
            raise SchemaError(
                f"column {field.name!r} of the {side} side has type {field.type}, whose rows pyarrow {pa.__version__} "
                f"cannot pick ({error}): cast it to a plain type, or leave it out of condition and result"
            ) from error
