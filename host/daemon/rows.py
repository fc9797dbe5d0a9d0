"""Rows on the wire: record batches to and from Arrow IPC, cut to size, and checked on arrival."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from muntin.host.errors import LimitError, ProtocolError, SchemaError
from muntin.host.join.batch_summary import PLACES_SCHEMA


class Body:
    """Bytes that lie in several places, in order: what an IPC stream consists of, with the buffers of its rows as they
    are in memory.

    Attributes
    ----------
    parts : list of bytes-like
    size : int
        Bytes of all of them.
    """

    def __init__(self, *parts: Any):
        self.parts = list(parts)
        self.size = sum(map(len, parts))

    # What pyarrow asks of a file that it writes to.
    closed = False

    def write(self, part: Any) -> int:
        """Adds bytes at the end; keeps them without a copy."""
        self.parts.append(part)
        self.size += len(part)
        return len(part)

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def encode(batches: Sequence[pa.RecordBatch]) -> Body:
    """Record batches of one schema as a complete IPC stream, which shares their memory."""
    body = Body()
    with pa.ipc.new_stream(pa.PythonFile(body, mode="w"), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return body


def decode(body: pa.Buffer) -> list[pa.RecordBatch]:
    """The record batches of one body, every offset and length in them checked.

    Raises
    ------
    ProtocolError
        Not an IPC stream, cut short, compressed, or with offsets that point outside of its buffers.
        Compressed bodies are refused because what they unpack to is not known before it is allocated.
    """
    try:
        if _is_compressed(body):
            raise ProtocolError("compressed Arrow bodies are not taken; write the IPC stream without compression")
        with pa.ipc.open_stream(body) as reader:
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise ProtocolError(f"a frame's Arrow data cannot be read: {error}") from error
    return batches


def conform(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """The batch under the schema that was declared; `SchemaError` names the first column that differs.

    Nullability and metadata may differ: engines set them freely, and they do not change a value.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise SchemaError(
            f"the {what} rows have the columns {', '.join(batch.schema.names)}; "
            f"the query was opened with {', '.join(schema.names)}"
        )
    for got, declared in zip(batch.schema, schema, strict=True):
        if got.type != declared.type:
            raise SchemaError(
                f"{what} column {got.name!r} is {got.type}; the query was opened with {declared.type}: "
                "cast it, or open a new query"
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def cut(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most `rows` rows and about `size` bytes; empty batches are left out."""
    for batch in batches:
        if batch.num_rows == 0:
            continue
        per_row = max(1, batch.nbytes // batch.num_rows)
        step = max(1, min(rows, size // per_row))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def encode_within(batches: Sequence[pa.RecordBatch], limit: int) -> Iterator[tuple[int, Body]]:
    """The batches, of one schema, as (rows, body) pairs, each body at most `limit` bytes: what is larger is halved.

    Raises
    ------
    LimitError
        A single row is above the limit.
    """
    body = encode(batches)
    if body.size <= limit:
        yield sum(batch.num_rows for batch in batches), body
    elif len(batches) > 1:
        for batch in batches:
            yield from encode_within([batch], limit)
    elif batches[0].num_rows > 1:
        half = batches[0].num_rows // 2
        yield from encode_within([batches[0].slice(0, half)], limit)
        yield from encode_within([batches[0].slice(half)], limit)
    else:
        raise LimitError(
            f"one row of {body.size:,} bytes is above the limit of {limit:,} bytes a message; "
            "start the daemon with a larger --max-message"
        )


def _is_compressed(body: pa.Buffer) -> bool:
    """Whether any record batch in an IPC stream names a compression (its flatbuffer's fourth field)."""
    messages = pa.ipc.MessageReader.open_stream(body)
    return any(m.type in ("record batch", "dictionary") and _names_compression(m) for m in messages)


def _names_compression(message: pa.Message) -> bool:
    # Schema.fbs and Message.fbs of Arrow: Message.header is field 2; RecordBatch.compression is field 3, and
    # a DictionaryBatch holds its RecordBatch in field 1.
    data = memoryview(message.metadata).tobytes()
    table = _indirect(data, 0)
    header = _field(data, table, 2)
    if header is not None and message.type == "dictionary":
        header = _field(data, header, 1)
    return header is not None and _field(data, header, 3) is not None


def _field(data: bytes, table: int, index: int) -> int | None:
    """Where the table that a flatbuffer table's field points to begins; None where the field is absent."""
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    entry = 4 + 2 * index
    if entry + 2 > int.from_bytes(data[vtable : vtable + 2], "little"):
        return None
    offset = int.from_bytes(data[vtable + entry : vtable + entry + 2], "little")
    return _indirect(data, table + offset) if offset else None


def _indirect(data: bytes, position: int) -> int:
    return position + int.from_bytes(data[position : position + 4], "little")


def exchange_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The schema of the one stream of a Flight exchange that carries rows of these two, and places of rows among all.

    A Flight stream has one schema, and the two sides have two. So a message is one row of three list columns, "left",
    "right" and "places", each a list of structs of that side's columns: wrapping and unwrapping copy nothing, and the
    list that is empty costs nothing.
    """
    sides = (("left", left), ("right", right), ("places", PLACES_SCHEMA))
    return pa.schema([pa.field(side, pa.large_list(pa.struct(list(s)))) for side, s in sides])


def wrap(side: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of one side as a message of the stream; `SchemaError` where they are not what was declared."""
    column = schema.get_field_index(side)
    fields = list(schema.field(column).type.value_type)
    batch = conform(batch, pa.schema(fields), side)
    arrays = [pa.array([[]], field.type) for field in schema]
    offsets = pa.array([0, batch.num_rows], pa.int64())
    rows = pa.StructArray.from_arrays(batch.columns, fields=fields)
    arrays[column] = pa.LargeListArray.from_arrays(offsets, rows, type=schema.field(column).type)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def unwrap(message: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a message, by side; `ProtocolError` where it is not one."""
    try:
        message.validate(full=True)
        for name, column in zip(message.schema.names, message.columns, strict=True):
            rows = column.flatten()
            if len(rows):
                yield name, pa.RecordBatch.from_struct_array(rows)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise ProtocolError(f"a message must hold a list of structs for left and for right: {error}") from error
