"""Reads the files of a place in batches, one file after the other, in bounded memory."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files.parts import Part, damaged, open_part, standard_input
from muntin.host.files.places import File, find, format_of, is_stream


class TableReader:
    """Files as a schema and tables of a fixed number of rows.

    Parameters
    ----------
    place : str or Path
        As of `places.find`; ``-`` or a pipe is read as a stream. The endings say the format: parquet, CSV (types are
        guessed from the first block of each file), JSON (an object a line; likewise), or the IPC file or stream format
        of Arrow. CSV, JSON and streams may be compressed. Folders named as in ``year=2024`` are columns.
    batch_rows : int
        Rows of every batch but the last.
    format : str, optional
        One of `places.FORMATS`, where the ending says none.

    Attributes
    ----------
    path : str
        The place.
    schema : pyarrow.Schema
    files : list of str
        The paths of local files.
    rows : int or None
        In all; None where only reading would tell.

    Raises
    ------
    UnsupportedError
        Another ending, or files of several formats.
    SchemaError
        Nothing is there; a file cannot be read as what its ending says, also while iterating; files differ in their
        columns.
    """

    def __init__(self, place: Any, batch_rows: int, format: str | None = None):
        self.path = str(place)
        self.batch_rows = batch_rows
        self.files: list[str] = []
        with _named(self.path):
            self._parts = [standard_input(self.path, format)] if is_stream(self.path) else self._found(format)
            own = _united(self._parts)
        keys = [pa.field(name, value.type) for name, value in self._parts[0].keys.items()]
        self._all = self.schema = pa.schema([*own, *keys])
        counts = [part.rows for part in self._parts]
        self.rows: int | None = None if None in counts else sum(counts)  # type: ignore[arg-type]
        self._condition: Any = None

    def narrow(self, columns: list[str], condition: Any = None) -> None:
        """Read these columns alone; and pass over rows that fail an expression of Arrow's, where the format allows."""
        self.schema = pa.schema([self._all.field(name) for name in columns])
        self._condition = condition
        if condition is not None:
            self.rows = None

    def read(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches([batch for table in self for batch in table.to_batches()], self.schema)

    def __iter__(self) -> Iterator[pa.Table]:
        pending: list[pa.RecordBatch] = []
        count = 0
        for batch in self._batches():
            while count + batch.num_rows >= self.batch_rows:
                take = self.batch_rows - count
                yield pa.Table.from_batches([*pending, batch.slice(0, take)])
                batch, pending, count = batch.slice(take), [], 0
            if batch.num_rows:
                pending.append(batch)
                count += batch.num_rows
        if pending:
            yield pa.Table.from_batches(pending)

    def _found(self, given: str | None) -> list[Part]:
        system, files = find(self.path)
        kinds = [format_of(file.path, given)[0] for file in files]
        other = next((file for file, kind in zip(files, kinds, strict=True) if kind != kinds[0]), None)
        if other is not None:
            raise UnsupportedError(
                f"{self.path} has files of several formats, {files[0].path} and {other.path}: give a pattern such as "
                f"{self.path.rstrip('/')}/*.{kinds[0]}"
            )
        if "://" not in self.path:
            self.files = [file.path for file in files]
        made = []
        for file, keys in zip(files, _typed_keys(files), strict=True):
            with _named(file.path):
                made.append(open_part(system, file.path, given, keys))
        return made

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            with _named(part.path, part):
                for batch in part.batches(self._all, self.schema.names, self._condition, self.batch_rows):
                    columns = []
                    for field in self.schema:
                        if field.name in batch.schema.names:
                            column = batch.column(field.name)
                        else:
                            column = pa.repeat(part.keys[field.name], batch.num_rows)
                        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def refuse_replacing(output: str, reader: TableReader) -> None:
    """Raises UnsupportedError where a result would go to a file that is read."""
    for file in reader.files:
        if os.path.exists(output) and os.path.samefile(output, file):
            raise UnsupportedError(f"--output {output} is the input {file}, which it would replace: name another file")


def _typed_keys(files: list[File]) -> list[dict[str, pa.Scalar]]:
    """The values that stand in the names of folders: whole numbers where all of a name are, else text."""
    texts: dict[str, list[str | None]] = {name: [] for file in files for name in file.keys}
    for file in files:
        missing = next((name for name in texts if name not in file.keys), None)
        if missing is not None:
            raise SchemaError(f"{file.path} lies in no folder {missing}=..., as others beside it do")
        for name, values in texts.items():
            values.append(file.keys[name])
    found: list[dict[str, pa.Scalar]] = [{} for _ in files]
    for name, values in texts.items():
        given = [value for value in values if value is not None]
        whole = bool(given) and all(re.fullmatch(r"-?\d{1,18}", value) for value in given)
        for made, value in zip(found, values, strict=True):
            if whole:
                made[name] = pa.scalar(None if value is None else int(value), pa.int64())
            else:
                made[name] = pa.scalar(value, pa.string())
    return found


def _united(parts: list[Part]) -> pa.Schema:
    """The columns that all files have, in the order of the first."""
    first = parts[0]
    fields = {field.name: field for field in first.schema}
    for part in parts:
        for name, count in Counter([*part.schema.names, *part.keys]).items():
            if count > 1:
                of_folder = ", one of them in the names of its folders" if name in part.keys else ""
                raise SchemaError(f"{part.path} has {count} columns {name!r}{of_folder}: rename all but one")
        for here, there, names in (
            (part, first, fields.keys() - set(part.schema.names)),
            (first, part, set(part.schema.names) - fields.keys()),
        ):
            if names and not part.sparse:
                raise SchemaError(
                    f"{here.path} has no column {min(names)!r}, which {there.path} has: join files of the same columns"
                )
        for field in part.schema:
            known = fields.setdefault(field.name, field)
            kind = _common(known.type, field.type, part.guessed)
            if kind is None:
                raise SchemaError(
                    f"column {field.name!r} is {known.type} in {first.path} and {field.type} in {part.path}: "
                    "write it with one type"
                )
            fields[field.name] = known.with_type(kind).with_nullable(known.nullable or field.nullable or part.sparse)
    return pa.schema(fields.values())


def _common(one: pa.DataType, other: pa.DataType, guessed: bool) -> pa.DataType | None:
    """The type of both; of guessed ones what would have been guessed of both files as one."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if not guessed:
        return None
    try:
        return (
            pa.unify_schemas([pa.schema([("x", one)]), pa.schema([("x", other)])], promote_options="permissive")
            .field(0)
            .type
        )
    except pa.ArrowException:
        return None


@contextlib.contextmanager
def _named(path: str, part: Part | None = None) -> Iterator[None]:
    """Names the file where it cannot be read."""
    try:
        yield
    except (SchemaError, UnsupportedError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error, part) from error
