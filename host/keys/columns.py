"""Columns by name, and fields of structs by a path with dots (``"window.end"``)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.errors import SchemaError


def _steps(names: list[str], path: str) -> tuple[str, list[str]] | None:
    """The column that a path begins with, the longest one that there is, and the fields behind it."""
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        if (name := ".".join(parts[:at])) in names:
            return name, parts[at:]
    return None


def has_column(schema: pa.Schema, path: str) -> bool:
    """Whether a schema has a column or a field of a struct of this name."""
    steps = _steps(schema.names, path)
    if steps is None:
        return False
    kind = schema.field(steps[0]).type
    for name in steps[1]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return False
        kind = kind.field(name).type
    return True


def column_type(schema: pa.Schema, path: str) -> pa.DataType:
    """The type of a column, or of a field of a struct. Raises SchemaError if there is none."""
    if not has_column(schema, path):
        raise SchemaError(f"there is no column {path!r}: there are {', '.join(schema.names) or 'none'}")
    name, fields = _steps(schema.names, path)  # type: ignore[misc]
    kind = schema.field(name).type
    for field in fields:
        kind = kind.field(field).type
    return kind


def root_column(schema: pa.Schema, path: str) -> str:
    """The column that holds a column or field."""
    steps = _steps(schema.names, path)
    return path if steps is None else steps[0]


def column_of(table: pa.Table, path: str) -> pa.ChunkedArray:
    """The values of a column, or of a field of a struct: NULL where the struct is."""
    at = table.schema.get_field_index(path)
    if at >= 0:
        return table.column(at)
    name, fields = _steps(table.column_names, path)  # type: ignore[misc]
    column = table.column(name)
    for field in fields:
        at = column.type.get_field_index(field)
        column = pa.chunked_array([pc.struct_field(chunk, [at]) for chunk in column.chunks], column.type.field(at).type)
    return column
