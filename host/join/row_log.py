"""The rows that are still needed for output, with all their columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from host.errors import SchemaError
from host.native import _core

MERGE_FACTOR = 4  # a block is merged into its elder while that is less than this many times larger


class RowLog:
    """Rows by arrival number, cut off at the front.

    Numbers follow one another, or ascend with gaps: those of one partition. Rows lie in blocks of geometrically growing
    size, so that a take meets few chunks. Columns of a type whose rows
    pyarrow cannot take (views, run-end encoding) are kept as a plain type of the same values.

    Parameters
    ----------
    side : str
        Named in errors.
    schema : pyarrow.Schema
        Of the columns that are kept, at least one.
    most_block_rows : int
        Blocks of at least this many rows are left as they are.
    threads : int
        The most that `take` uses.

    Raises
    ------
    SchemaError
        If a column has a type whose rows pyarrow cannot take in any way.
    """

    def __init__(self, side: str, schema: pa.Schema, most_block_rows: int = 1 << 20, threads: int = 1):
        self._schema = schema
        self._stored = stored_schema(schema)
        for field, stored in zip(schema, self._stored, strict=True):
            try:
                trial = pa.chunked_array([pa.nulls(1, field.type)] * 2)
                _returned(_stored_values(trial, stored.type).take(pa.array([1, 0])), field.type)
            except pa.ArrowException as error:
                raise SchemaError(
                    f"column {field.name!r} of the {side} side has type {field.type}, whose rows pyarrow "
                    f"{pa.__version__} cannot pick ({error}): cast it to a plain type, leave it out, or ask for "
                    "form='pairs'"
                ) from error
        self._blocks: list[tuple[int, pa.Table]] = []  # number of the first row, or its place in `_numbers`; rows
        self._numbers: np.ndarray | None = None  # of the rows kept, where there are gaps
        self._before = 0  # rows before these
        self._fixed = sum(filter(None, map(_fixed_bytes, (field.type for field in self._stored))))
        self._varies = [field.name for field in self._stored if _fixed_bytes(field.type) is None]
        self._nbytes: list[int] = []  # of each block
        self._views: list[
            dict[str, np.ndarray | None]
        ] = []  # of each block, those columns that were asked for as bytes
        self._most = most_block_rows
        self.threads = threads
        self._widths = {field.name: width for field in self._stored if (width := _plain_bytes(field.type))}

    _few = 1  # blocks that are never merged

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, as `take` gives them."""
        return self._schema

    @property
    def nbytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(self._nbytes)

    @property
    def rows(self) -> int:
        """Rows kept."""
        return sum(len(block) for _, block in self._blocks)

    def append(self, first: int, table: pa.Table, numbers: np.ndarray | None = None) -> None:
        """Adds rows, as `stored` gives them, numbered from `first`, which is past all earlier ones.

        The table may have more columns than the log keeps. `numbers`, int64, shape (n,), are those of the rows, where
        they have gaps; then every call gives them.
        """
        if not len(table):
            return
        if numbers is not None:
            known = np.zeros(0, np.int64) if self._numbers is None else self._numbers
            first = self._before + len(known)
            self._numbers = np.concatenate([known, numbers])
        if table.column_names != self._stored.names:
            table = table.select(self._stored.names)
        if self._varies:
            sizes = sum(_sizes(table.column(name)) for name in self._varies)
            table = table.append_column(_BYTES, pa.array(sizes, pa.int64()))
        self._put(first, table.combine_chunks())  # rows of one chunk are copied out by the core
        while len(self._blocks) > self._few:
            (start, elder), (_, newer) = self._blocks[-2:]
            if len(elder) >= self._most or len(elder) > MERGE_FACTOR * len(newer):
                break
            merged = pa.concat_tables([elder, newer]).combine_chunks()
            self._blocks[-2:] = [(start, merged)]
            self._nbytes[-2:] = [sum(self._nbytes[-2:])]
            self._views[-2:] = [{}]

    def _put(self, first: int, table: pa.Table) -> None:
        """Adds a block."""
        self._blocks.append((first, table))
        self._nbytes.append(self.bytes_of(table))
        self._views.append({})

    def bytes_of(self, table: pa.Table) -> int:
        """Bytes that rows take in here, but for what tells which are NULL in columns of numbers."""
        if len(self._widths) == len(self._stored):
            return len(table) * self._fixed
        return table.select([name for name in (*self._stored.names, _BYTES) if name in table.column_names]).nbytes

    def take(self, rows: np.ndarray, names: list[str], *, ascending: bool = False) -> list[pa.ChunkedArray]:
        """Columns, by their names, of the rows of these numbers, int64, shape (n,), in this order; NULLs for a number
        below 0. Slices of blocks where the rows follow one another, and are a quarter of those blocks, which stay as
        long as they. `ascending`: it is known that every number is less than the next one."""
        fields = [self._schema.field(name) for name in names]
        if not len(rows):
            return empty_table(pa.schema(fields)).columns
        if not self._blocks:  # all are missing
            return [pa.chunked_array([pa.nulls(len(rows), field.type)]) for field in fields]
        found = self._stretch(rows, names, ascending) or self._plain(rows, names)
        others = [name for name in names if name not in found]
        if others:
            found |= dict(zip(others, self._taken(rows, others).columns, strict=True))
        return [_returned(found[field.name], field.type) for field in fields]

    def _plain(self, rows: np.ndarray, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """As `take`, those columns of a fixed width that have no NULL."""
        if self._widths.keys().isdisjoint(names):
            return {}
        places, bitmap, blocks = self._places(rows), None, range(len(self._blocks))
        least = int(rows.min())
        if least < 0:
            missing = rows < 0
            if places is not rows:
                places[missing] = -1
            bitmap = pa.py_buffer(np.packbits(~missing, bitorder="little"))
        else:  # blocks before all of them are not looked at
            least = least if places is rows else int(places.min())
            blocks = range(sum(begin + len(block) <= least for begin, block in self._blocks), len(self._blocks))
        views: dict[str, list[np.ndarray]] = {}
        for name in names:
            if name in self._widths:
                found = [self._view(at, name) for at in blocks]
                if all(view is not None for view in found):
                    views[name] = found  # type: ignore[assignment]
        if not views or not blocks:
            return {}
        start = self._blocks[blocks[0]][0]
        ends = [begin + len(block) for begin, block in (self._blocks[at] for at in blocks)]
        widths = [self._widths[name] for name in views]
        values = _core.gather(list(views.values()), widths, ends, places, self.threads, start)
        kinds = (self._stored.field(name).type for name in views)
        return {
            name: pa.chunked_array([pa.Array.from_buffers(kind, len(rows), [bitmap, pa.py_buffer(of)])])
            for name, kind, of in zip(views, kinds, values, strict=True)
        }

    def _view(self, at: int, name: str) -> np.ndarray | None:
        """The column of a block as bytes, as of `_bytes_of`."""
        views = self._views[at]
        if name not in views:
            views[name] = _bytes_of(self._blocks[at][1].column(name), self._widths[name])
        return views[name]

    def _stretch(self, rows: np.ndarray, names: list[str], ascending: bool) -> dict[str, pa.ChunkedArray] | None:
        """Slices of blocks, where `take` may give them."""
        count = len(rows)
        if int(rows[0]) < 0 or int(rows[-1]) - int(rows[0]) != count - 1:
            return None
        if not ascending and not np.all(rows[1:] - rows[:-1] == 1):
            return None
        first, last = (int(place) for place in self._places(rows[[0, -1]]))
        if last - first != count - 1:  # rows of other partitions lie between them
            return None
        parts, touched = [], 0
        for begin, block in self._blocks:
            start, stop = max(first, begin), min(last + 1, begin + len(block))
            if start < stop:
                parts.append(block.slice(start - begin, stop - start))
                touched += len(block)
        if touched > 4 * count or sum(map(len, parts)) != count:
            return None
        whole = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        return {name: whole.column(name) for name in names}

    def row_bytes(self, rows: np.ndarray) -> np.ndarray | int:
        """Bytes of the columns of each of these rows, as `take` gives them, int64, shape (n,); of columns of some
        nested types their mean in a block. A number where all rows have the same."""
        if not self._varies or not self._blocks:
            return self._fixed
        return self._fixed + self._taken(rows, [_BYTES]).column(0).fill_null(0).to_numpy()

    def _taken(self, rows: np.ndarray, names: list[str]) -> pa.Table:
        missing = rows < 0
        # Blocks follow one another without a gap: every row of the stream that is kept at all has a place.
        indices = pa.array(self._places(rows) - self._blocks[0][0], mask=missing if missing.any() else None)
        return pa.concat_tables([block.select(names) for _, block in self._blocks]).take(indices)

    def trim(self, oldest: int) -> None:
        """Forgets whole blocks before row `oldest`."""
        end = int(self._places(np.array([oldest]))[0])
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= end:
            gone = len(self._blocks.pop(0)[1])
            del self._nbytes[0], self._views[0]
            if self._numbers is not None:
                self._numbers = self._numbers[gone:]
                self._before += gone

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows lie, as blocks count."""
        return rows if self._numbers is None else self._before + np.searchsorted(self._numbers, rows)


def _plain_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value of a type whose values lie one behind the other, each in whole bytes; None for others."""
    types = pa.types
    if types.is_boolean(kind) or not (types.is_primitive(kind) or types.is_decimal(kind)):
        return None
    return kind.bit_width // 8


def _bytes_of(column: pa.ChunkedArray, width: int) -> np.ndarray | None:
    """The values of a column of such a type, uint8; None where some are NULL, or they lie in several chunks."""
    if column.num_chunks != 1 or column.null_count:
        return None
    chunk = column.chunk(0)
    return np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width)


_BYTES = "\0bytes"  # no name of a column that Spark, SQL or a file could have


def _fixed_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value of a type; None where they vary."""
    try:
        return (kind.bit_width + 7) // 8
    except ValueError:
        return None


def _sizes(column: pa.ChunkedArray) -> np.ndarray:
    """Bytes of each value of a column whose type has no fixed size, offsets included, int64, shape (n,)."""
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        return pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64) + 4
    mean = -(-column.nbytes // max(len(column), 1))
    if types.is_list(kind) or types.is_large_list(kind):
        lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        return lengths * -(-column.nbytes // max(int(lengths.sum()), 1)) + 4
    return np.full(len(column), mean, np.int64)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of rows as a `RowLog` keeps them."""
    return pa.schema([field.with_type(_stored_type(field.type)) for field in schema])


def stored(table: pa.Table) -> pa.Table:
    """Rows as a `RowLog` keeps them, and as its `append` takes them."""
    schema = stored_schema(table.schema)
    if schema.equals(table.schema):
        return table
    columns = [_stored_values(table.column(at), field.type) for at, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows, whatever the types; pyarrow's own `Schema.empty_table` knows no unions."""
    return pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """A type of the same values that has neither views nor run-end encoding in it, as far as pyarrow can cast to it."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_run_end_encoded(kind):
        return _stored_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        stored = _stored_type(kind.storage_type)
        return kind if stored.equals(kind.storage_type) else stored
    if types.is_struct(kind):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in kind])
    if types.is_map(kind):
        parts = (kind.key_field, kind.item_field)
        return pa.map_(*(part.with_type(_stored_type(part.type)) for part in parts), keys_sorted=kind.keys_sorted)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        value = kind.value_field.with_type(_stored_type(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(value, kind.list_size)
        return pa.list_(value) if types.is_list(kind) else pa.large_list(value)
    return kind


def _stored_values(column: pa.ChunkedArray, stored: pa.DataType) -> pa.ChunkedArray:
    """A column as the type that `_stored_type` gave for its own."""
    kind = column.type
    if stored.equals(kind):
        return column
    if pa.types.is_run_end_encoded(kind):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return _stored_values(pa.chunked_array(chunks, kind.value_type), stored)
    if isinstance(kind, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return _stored_values(pa.chunked_array(chunks, kind.storage_type), stored)
    return column.cast(stored)


def _returned(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """What `_stored_values` made, as the type that it was made from."""
    if column.type.equals(kind):
        return column
    if pa.types.is_run_end_encoded(kind):
        values = _returned(column, kind.value_type)
        most = (1 << (kind.run_end_type.bit_width - 1)) - 1  # rows that a chunk's run ends can number
        chunks = [
            pc.run_end_encode(chunk.slice(start, most), run_end_type=kind.run_end_type)
            for chunk in values.chunks
            for start in range(0, len(chunk), most)
        ]
        return pa.chunked_array(chunks, kind)
    if isinstance(kind, pa.BaseExtensionType):
        storage = _returned(column, kind.storage_type)
        return pa.chunked_array([kind.wrap_array(chunk) for chunk in storage.chunks], kind)
    return column.cast(kind)
