"""Writes batches to a file that appears only once it is complete, or to standard output."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet

from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files.places import STANDARD, file_system, format_of, is_stream
from muntin.host.keys.kept_types import in_types, kept_type, plain_type, types_in

_ELSE = "choose .parquet or .arrow, leave it out by --select, or cast it in a SELECT"


class TableWriter:
    """A context manager: left without an error, the file stands at its place; with one, nothing is left.

    Parameters
    ----------
    place : str or Path
        Its ending says the format and the compression, as for `TableReader`; ``.arrows`` is the stream format. A file
        in an object store is made in the folder for temporary files before. ``-`` is standard output.
    schema : pyarrow.Schema
        Of what is written. A file has one type a column from its first row on, and tables may bring other dictionaries
        each. So a parquet file has indices of 32 bits or more, but plain values in nested columns, and an Arrow file,
        whose columns have one dictionary each, plain values everywhere.
    format : str, optional
        One of `places.FORMATS`, where the ending says none; by default CSV on standard output.

    Raises
    ------
    UnsupportedError
        Another ending, a folder, a format that cannot be written there.
    SchemaError
        The format cannot hold a column, or the file cannot be written.
    """

    def __init__(self, place: Any, schema: pa.Schema, format: str | None = None):
        self._place = str(place)
        stream = is_stream(self._place)
        kind, compression = format_of(self._place, format or ("csv" if stream else None))
        own = _FILE_TYPES.get(kind)
        self._schema = schema if own is None else pa.schema([field.with_type(own(field.type)) for field in schema])
        _check_columns(self._place, kind, self._schema)
        self._temporary: Path | None = None
        self._sink: Any = None
        self._system, self._path = file_system(self._place)
        try:
            with self._named():
                if stream:
                    self._sink = sys.stdout.buffer if self._place == STANDARD else open(self._place, "wb")  # noqa: SIM115
                else:
                    self._make_temporary()
                    self._sink = pa.output_stream(str(self._temporary), compression=compression)
                self._writer = _OPEN[kind](self._sink, self._schema)
        except BaseException:
            self._forget()
            raise

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        with self._named():
            self._writer.write_table(table if table.schema.equals(self._schema) else in_types(table, self._schema))

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            with self._named():
                self._writer.close()
                if self._place == STANDARD:
                    self._sink.flush()  # raises BrokenPipeError where the reader is gone
                else:
                    self._sink.close()
                if kind is None and self._temporary is not None:
                    self._appear(self._temporary)
        except (SchemaError, BrokenPipeError):
            if kind is None:
                raise
        finally:
            self._forget()

    def _make_temporary(self) -> None:
        """An empty file that can be renamed to the place; for an object store, one on this machine."""
        local = self._system.type_name == "local"
        path = Path(self._path)
        if local and path.exists() and not path.is_file():
            raise UnsupportedError(
                f"{self._place} is no plain file, and cannot be replaced by the result: name another"
            )
        folder = path.parent if local else Path(tempfile.gettempdir())
        self._temporary = folder / f".{path.name}.{secrets.token_hex(4)}"
        os.close(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))

    def _appear(self, temporary: Path) -> None:
        if self._system.type_name == "local":
            os.replace(temporary, self._path)
        else:
            pyarrow.fs.copy_files(
                str(temporary), self._path, pyarrow.fs.LocalFileSystem(), destination_filesystem=self._system
            )

    def _forget(self) -> None:
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except (pa.ArrowException, OSError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).split("\n")[0]
            raise SchemaError(f"cannot write {self._place}: {reason}") from error


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class _JsonLines:
    """Writes an object a line."""

    def __init__(self, sink: Any, schema: pa.Schema):
        self._sink = sink
        self._text = pa.schema([field.with_type(_as_text(field.type)) for field in schema])

    def write_table(self, table: pa.Table) -> None:
        rows = in_types(table, self._text).to_pylist()
        try:
            lines = [_encode(row) for row in rows]
        except ValueError as error:
            found = next((name, each) for row in rows for name, each in row.items() if not _finite(each))
            raise SchemaError(f"column {found[0]!r} has {found[1]}, for which JSON has no word: {_ELSE}") from error
        self._sink.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing waits."""


def _finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


_OPEN: dict[str, Callable[[Any, pa.Schema], Any]] = {
    "parquet": pyarrow.parquet.ParquetWriter,
    "csv": pyarrow.csv.CSVWriter,
    "json": _JsonLines,
    "arrow": pa.ipc.new_file,
    "arrows": pa.ipc.new_stream,
}


def _check_columns(place: str, kind: str, schema: pa.Schema) -> None:
    """Refuses a column that a format cannot hold, by its name."""
    for field in schema:
        reason = ""
        if kind in ("csv", "json") and _has(field.type, _is_bytes):
            reason = "which is no text"
        elif kind == "json" and _has(field.type, lambda each: pa.types.is_decimal(each) or pa.types.is_map(each)):
            reason = (
                "which JSON's readers would round" if not _has(field.type, pa.types.is_map) else "which JSON has not"
            )
        elif kind == "parquet" and _has(field.type, _is_of_none):
            reason = "of lists of size 0 parquet's readers cannot read it back"
        else:
            try:
                one = pa.table([pa.nulls(1, field.type)], names=["x"])
                writer = _OPEN[kind](pa.BufferOutputStream(), one.schema)
                writer.write_table(one)
                writer.close()
            except (pa.ArrowException, OSError, KeyError) as error:
                reason = str(error).split("\n")[0]
        if reason:
            raise SchemaError(
                f"column {field.name!r} of type {field.type} cannot be written to {place} as {kind}: {reason}; {_ELSE}"
            )


def _is_bytes(kind: pa.DataType) -> bool:
    return str(kind).startswith(("binary", "large_binary", "fixed_size_binary"))


def _is_of_none(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(kind) and kind.list_size == 0


def _has(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type or one within it passes a test."""
    return any(test(part) or (pa.types.is_dictionary(part) and _has(part.value_type, test)) for part in types_in(kind))


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type of a column in a parquet file, whose writer cannot cut views within others."""
    if pa.types.is_dictionary(kind):
        index = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, kept_type(kind.value_type), kind.ordered)
    return plain_type(kind, kept_type) if any(map(pa.types.is_nested, types_in(kind))) else plain_type(kind)


def _as_text(kind: pa.DataType) -> pa.DataType:
    """The type of a column in JSON: times are text, and there are neither run ends nor extension types."""
    return plain_type(
        kind, lambda each: pa.string() if pa.types.is_temporal(each) else each, bare=True, extensions=False
    )


_FILE_TYPES: dict[str, Callable[[pa.DataType], pa.DataType]] = {"parquet": _wide, "arrow": plain_type}
