"""Writes batches to a parquet, CSV or Arrow file that appears only once it is complete."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files.table_reader import ARROW, CSV, PARQUET


class TableWriter:
    """A context manager: left without an error, the file stands at `path`; with one, nothing is left.

    Parameters
    ----------
    path : Path
        Its ending says the format, as for `TableReader`; ``.arrows`` is the stream format.
    schema : pyarrow.Schema
        Of what is written. A file has one type a column from its first row on, and tables may bring other dictionaries
        each. So a parquet file has indices of 32 bits or more, but plain values in nested columns, and an Arrow file,
        whose columns have one dictionary each, plain values everywhere.

    Raises
    ------
    UnsupportedError
        Another ending.
    SchemaError
        The format cannot hold such a column, or the file cannot be written.
    """

    def __init__(self, path: Path, schema: pa.Schema):
        self._path = path
        if path.exists() and not path.is_file():
            raise UnsupportedError(f"{path} is no plain file, and cannot be replaced by the result: name another")
        ending = path.suffix.lower()
        if ending not in PARQUET + CSV + ARROW:
            raise UnsupportedError(f"{path}: files must end in {', '.join(PARQUET + CSV + ARROW)}")
        try:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise SchemaError(f"cannot write {path}: {error.strerror}") from error
        self._temporary = Path(name)
        try:
            # mkstemp's file is for its owner alone; the result gets what any new file gets.
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(handle, 0o666 & ~mask)
            os.close(handle)
            self._schema = schema
            if ending in PARQUET or (ending in ARROW and ending != ".arrows"):
                in_file = _wide if ending in PARQUET else _plain
                self._schema = pa.schema([field.with_type(in_file(field.type)) for field in schema])
            self._writer = self._open(ending, self._schema)
        except (pa.ArrowException, OSError) as error:
            self._temporary.unlink()
            raise self._unwritable(error) from error

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        try:
            self._writer.write_table(table if table.schema.equals(self._schema) else table.cast(self._schema))
        except (pa.ArrowException, OSError) as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            try:
                self._writer.close()
                if kind is None:
                    os.replace(self._temporary, self._path)
            finally:
                self._temporary.unlink(missing_ok=True)
        except (pa.ArrowException, OSError) as failed:
            if kind is None:
                raise self._unwritable(failed) from failed

    def _open(self, ending: str, schema: pa.Schema) -> Any:
        if ending in PARQUET:
            return pyarrow.parquet.ParquetWriter(self._temporary, schema)
        if ending in CSV:
            return pyarrow.csv.CSVWriter(self._temporary, schema)
        kind = pa.ipc.new_stream if ending == ".arrows" else pa.ipc.new_file
        return kind(str(self._temporary), schema)

    def _unwritable(self, error: Exception) -> SchemaError:
        first = str(error).split("\n")[0]
        return SchemaError(f"cannot write {self._path}: {first}")


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type of a column in a parquet file."""
    if not pa.types.is_dictionary(kind):
        return _plain(kind)
    return kind if kind.index_type.bit_width >= 32 else pa.dictionary(pa.int32(), kind.value_type, kind.ordered)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type of the same values without dictionaries."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind.value_type
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if types.is_map(kind):
        parts = [field.with_type(_plain(field.type)) for field in (kind.key_field, kind.item_field)]
        return pa.map_(*parts, keys_sorted=kind.keys_sorted)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        value = kind.value_field.with_type(_plain(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(value, kind.list_size)
        return pa.list_(value) if types.is_list(kind) else pa.large_list(value)
    return kind
