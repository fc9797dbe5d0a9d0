"""The files of a place, each read for itself: as Arrow's datasets read it, or from its beginning to its end."""

from __future__ import annotations

import functools
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json

from muntin.host.arrow_versions import CSV_WRAPS_FAR_TIMES
from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files.places import STANDARD, STREAMS, format_of

BLOCK_BYTES = 1 << 20
_MAX_ROWS = 1 << 17  # that a file gives at a time, whatever a batch is


class Part:
    """A file, or what else is read.

    Attributes
    ----------
    path : str
    schema : pyarrow.Schema
        Of its own columns.
    keys : dict of str to pyarrow.Scalar
        Columns that stand in the names of its folders.
    rows : int or None
        None where only reading would tell.
    guessed : bool
        Its types are guesses.
    sparse : bool
        A column that it has not is NULL.
    """

    path: str
    schema: pa.Schema
    keys: dict[str, pa.Scalar]
    rows: int | None = None
    guessed = False
    sparse = False

    def batches(self, schema: pa.Schema, columns: list[str], condition: Any, rows: int) -> Iterator[pa.RecordBatch]:
        """Its rows, so many at a time at most.

        Parameters
        ----------
        schema : pyarrow.Schema
            Of the whole place.
        columns : list of str
            Those to read, of which those in `keys` may be missing in the batches.
        condition : pyarrow.dataset.Expression or None
            Rows that fail it need not be there.
        """
        raise NotImplementedError


class Fragment(Part):
    """A file as Arrow's datasets have it."""

    def __init__(self, system: Any, path: str, form: Any, keys: dict[str, pa.Scalar]):
        self.path, self.keys = path, keys
        self.guessed = isinstance(form, pyarrow.dataset.CsvFileFormat)
        tests = [
            pyarrow.dataset.field(name) == value if value.is_valid else pyarrow.dataset.field(name).is_null()
            for name, value in keys.items()
        ]
        self._fragment = form.make_fragment(
            path, system, functools.reduce(lambda a, b: a & b, tests) if tests else None
        )
        self.schema = self._fragment.physical_schema
        if self.guessed and CSV_WRAPS_FAR_TIMES:
            self.schema = _in_microseconds(self.schema)
        self._system, self._form = system, form
        if not self.guessed:
            self.rows = self._fragment.count_rows()

    def batches(self, schema: pa.Schema, columns: list[str], condition: Any, rows: int) -> Iterator[pa.RecordBatch]:
        dataset = pyarrow.dataset.FileSystemDataset([self._fragment], schema, self._form, self._system)
        for fragment in dataset.get_fragments(condition):  # none where the names of its folders fail it
            scanner = fragment.scanner(
                schema=schema, columns=columns, filter=condition, batch_size=min(rows, _MAX_ROWS), batch_readahead=1
            )
            yield from scanner.to_batches()


def _in_microseconds(schema: pa.Schema) -> pa.Schema:
    """What was guessed, with microseconds for nanoseconds: finer texts are an error then."""
    kinds = [pa.timestamp("us", kind.tz) if str(kind).startswith("timestamp[ns") else kind for kind in schema.types]
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)])


class _Begun(NamedTuple):
    schema: pa.Schema
    batches: Callable[[pa.Schema], Iterator[pa.RecordBatch]]  # with the types of the place


class Stream(Part):
    """What is read from its beginning to its end; once, where it cannot be opened `again`."""

    def __init__(self, path: str, kind: str, opened: Callable[[], Any], keys: dict[str, pa.Scalar], again: bool = True):
        self.path, self.keys = path, keys
        self.guessed, self.sparse = kind != "arrows", kind == "json"
        self._begin = functools.partial(_BEGIN[kind], opened)
        begun = self._begin()
        self.schema = begun.schema
        if kind == "csv" and CSV_WRAPS_FAR_TIMES:
            self.schema = _in_microseconds(begun.schema)
            self._begin = functools.partial(_begin_csv, opened, self.schema)
        self._begun = None if again else begun

    def batches(self, schema: pa.Schema, columns: list[str], condition: Any, rows: int) -> Iterator[pa.RecordBatch]:
        begun = self._begun or self._begin()
        own = [name for name in columns if name not in self.keys]
        for batch in begun.batches(pa.schema([field for field in schema if field.name not in self.keys])):
            for at in range(0, batch.num_rows, _MAX_ROWS):
                yield batch.slice(at, _MAX_ROWS).select(own)


def _begin_arrows(opened: Callable[[], Any]) -> _Begun:
    reader = pa.ipc.open_stream(opened())
    return _Begun(reader.schema, lambda _: iter(reader))


def _begin_csv(opened: Callable[[], Any], known: pa.Schema | None = None) -> _Begun:
    source = io.BufferedReader(opened(), BLOCK_BYTES)
    one_column = b"," not in source.peek().split(b"\n", 1)[0]
    reader = pyarrow.csv.open_csv(source, parse_options=_parse(one_column), convert_options=_convert(known))
    return _Begun(reader.schema, lambda _: iter(reader))


def _begin_json(opened: Callable[[], Any]) -> _Begun:
    blocks = _blocks_of_lines(opened())
    first = next(blocks, None)
    if first is None:
        raise pa.ArrowInvalid("it is empty, and so has no columns")

    def batches(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        block: bytes | None = first
        while block is not None:
            yield from _read_lines(block, options).to_batches()
            block = next(blocks, None)

    return _Begun(_read_lines(first, None).schema, batches)


def _read_lines(block: bytes, options: Any) -> pa.Table:
    # Arrow takes 100,000 lines in a block of its own, and no line that is longer than that.
    size = max(100_000, max(map(len, block.split(b"\n"))) + 1)
    read = pyarrow.json.ReadOptions(block_size=size)
    return pyarrow.json.read_json(pa.BufferReader(block), read_options=read, parse_options=options)


def _blocks_of_lines(source: Any) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    while data := source.read(BLOCK_BYTES):
        lines, end, more = data.rpartition(b"\n")
        if end:
            if (block := rest + lines).strip():
                yield block
            rest = more
        else:
            rest += more
    if rest.strip():
        yield rest


_BEGIN = {"arrows": _begin_arrows, "csv": _begin_csv, "json": _begin_json}


def _convert(known: pa.Schema | None = None) -> pyarrow.csv.ConvertOptions:
    """Of CSV: an empty field is NULL, an empty text stands in quotes, and no word is NULL, not even NA."""
    return pyarrow.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=known
    )


def _parse(one_column: bool) -> pyarrow.csv.ParseOptions:
    """Of CSV; in one column an empty line is a NULL."""
    return pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not one_column)


def standard_input(place: str, kind: str | None) -> Part:
    """Standard input, or a pipe. Raises UnsupportedError."""
    if kind not in STREAMS:
        raise UnsupportedError(
            f"{place} is read from its beginning to its end: give --format csv, json or arrows"
            + (f", rather than {kind}" if kind else ", which no ending says here")
        )
    opened = (lambda: sys.stdin.buffer) if place == STANDARD else functools.partial(open, place, "rb")
    if kind == "csv" and CSV_WRAPS_FAR_TIMES:  # it is begun twice
        copy = tempfile.NamedTemporaryFile(prefix="muntin-")  # noqa: SIM115 - it goes with the function that opens it
        shutil.copyfileobj(opened(), copy)
        copy.flush()
        return Stream(place, kind, lambda: open(copy.name, "rb"), {})
    return Stream(place, kind, opened, {}, again=False)


def open_part(system: Any, path: str, given: str | None, keys: dict[str, pa.Scalar]) -> Part:
    """A file, of the format that its ending says or is given."""
    kind, compression = format_of(path, given)
    if kind == "arrow":
        with system.open_input_file(path) as file:
            kind = "arrow" if file.read(6) == b"ARROW1" else "arrows"  # as some name it
    if kind in ("json", "arrows") or compression == "zstd":  # which datasets do not unpack
        return Stream(path, kind, functools.partial(system.open_input_stream, path, compression=compression), keys)
    if kind == "arrow":
        return Fragment(system, path, pyarrow.dataset.IpcFileFormat(), keys)
    if kind == "parquet":
        return Fragment(
            system, path, pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=_parquet(system)), keys
        )
    found = Fragment(system, path, _csv(one_column=False), keys)
    return found if len(found.schema) > 1 else Fragment(system, path, _csv(one_column=True), keys)


def _csv(one_column: bool) -> pyarrow.dataset.CsvFileFormat:
    return pyarrow.dataset.CsvFileFormat(
        parse_options=_parse(one_column),
        default_fragment_scan_options=pyarrow.dataset.CsvFragmentScanOptions(convert_options=_convert()),
    )


def _parquet(system: Any) -> Any:
    """A row group's pages as they are needed; of what is far away, its whole columns at once."""
    near = system.type_name == "local"
    return pyarrow.dataset.ParquetFragmentScanOptions(use_buffered_stream=near, pre_buffer=not near)


def damaged(path: str, error: Exception, part: Part | None = None) -> SchemaError:
    """What to raise where a file cannot be read: nothing of it, or no more of a part."""
    reason = re.sub(r"^Could not open \w+ input source '.*?': (\w+: )?", "", " ".join(str(error).split()))
    if part is not None and part.guessed:
        names = dict(enumerate(part.schema.names))
        reason = re.sub(r"CSV column #(\d+)", lambda at: f"column {names.get(int(at[1]), at[0])!r}", reason)
        reason += "; types and columns are those of its first megabyte: write it as parquet or Arrow, which tell them"
    return SchemaError(f"cannot read {path}: {reason}")
