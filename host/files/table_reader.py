"""Reads a parquet, CSV or Arrow file in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from muntin.host.errors import SchemaError, UnsupportedError

PARQUET = (".parquet", ".pq")
CSV = (".csv",)
ARROW = (".arrow", ".feather", ".ipc", ".arrows")


class TableReader:
    """A file as a schema and tables of a fixed number of rows.

    Parameters
    ----------
    path : Path
        ``.parquet``/``.pq``, ``.csv`` (types are guessed from its first block) or
        ``.arrow``/``.feather``/``.ipc``/``.arrows`` (the IPC file or stream format).
    batch_rows : int
        Rows of every batch but the last.

    Attributes
    ----------
    schema : pyarrow.Schema
    rows : int or None
        In all; None where only reading would tell.

    Raises
    ------
    UnsupportedError
        Another ending.
    SchemaError
        The file cannot be read as what its ending says; also while iterating.
    """

    def __init__(self, path: Path, batch_rows: int):
        self.path = path
        self.batch_rows = batch_rows
        self.rows: int | None = None
        try:
            self._batches = self._open()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        for name, count in Counter(self.schema.names).items():
            if count > 1:
                raise SchemaError(f"{path} has {count} columns {name!r}: rename all but one")

    def __iter__(self) -> Iterator[pa.Table]:
        pending: list[pa.RecordBatch] = []
        count = 0
        try:
            for batch in self._batches:
                while count + batch.num_rows >= self.batch_rows:
                    take = self.batch_rows - count
                    yield pa.Table.from_batches([*pending, batch.slice(0, take)])
                    batch, pending, count = batch.slice(take), [], 0
                if batch.num_rows:
                    pending.append(batch)
                    count += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if pending:
            yield pa.Table.from_batches(pending)

    def _open(self) -> Iterator[pa.RecordBatch]:
        ending = self.path.suffix.lower()
        if ending in PARQUET:
            parquet = pyarrow.parquet.ParquetFile(self.path)
            self.schema, self.rows = parquet.schema_arrow, parquet.metadata.num_rows
            return parquet.iter_batches(batch_size=self.batch_rows)
        if ending in CSV:
            csv = pyarrow.csv.open_csv(self.path)
            self.schema = csv.schema
            return iter(csv)
        if ending in ARROW:
            source = pa.memory_map(str(self.path))
            if source.read(6) == b"ARROW1":
                file = pa.ipc.open_file(source)
                self.schema = file.schema
                return (file.get_batch(i) for i in range(file.num_record_batches))
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            self.schema = stream.schema
            return iter(stream)
        raise UnsupportedError(f"{self.path}: files must end in {', '.join(PARQUET + CSV + ARROW)}")

    def _unreadable(self, error: Exception) -> SchemaError:
        return SchemaError(f"cannot read {self.path}: {error}")
