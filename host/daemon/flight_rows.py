"""Both sides' rows in the one stream of a Flight exchange.

A Flight stream has one schema, and the two sides have two. So a message is one row of three list columns,
"left", "right" and "places", each a list of structs of that side's columns: wrapping and unwrapping copy nothing, and
the list that is empty costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from muntin.host.daemon.rows import conform
from muntin.host.errors import ProtocolError
from muntin.host.join.batch_summary import PLACES_SCHEMA


def exchange_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The schema of the stream that carries rows of these two, and places of rows among all."""
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
