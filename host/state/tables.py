"""Tables that streams meet, kept as Arrow IPC files that are named by their content.

A table is its parts, a file each, and one small file that lists them: whoever has its digest finds it, and reads the
same rows.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from muntin.host.errors import StateError, StateTakenError
from muntin.host.state.store import Store, open_store


@dataclass(frozen=True)
class KeptTable:
    """A table in a store.

    Parameters
    ----------
    place : str
        Of the store: a folder, or the address of an object store.
    digest : str
        Of the table's rows and columns, in their order.
    """

    place: str
    digest: str

    def rows(self, digest: str | None = None) -> pa.Table:
        """The table; or another one of the store, by its digest.

        Raises
        ------
        StateError
            If a file is missing or damaged.
        """
        return _read(open_store(self.place), digest or self.digest)


class GivenTable:
    """A table in memory, of the join of a process; what a store has of it where there is one."""

    def __init__(self, table: pa.Table, store: Store | None = None):
        self._table, self._store = table, store
        if store is None:
            self.digest = secrets.token_hex(16)
        else:
            self.digest = keep_table(store, table.schema, [keep_part(store, table)[0]])

    def rows(self, digest: str | None = None) -> pa.Table:
        """As of `KeptTable`."""
        if digest in (None, self.digest) or self._store is None:
            return self._table
        return _read(self._store, digest)


def keep_part(store: Store, rows: pa.Table) -> tuple[str, int]:
    """Keeps some rows of a table; their digest, for `keep_table`, and how many they are. Raises StateError."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    _create(store, f"{digest}.arrow", data)
    return digest, rows.num_rows


def keep_table(store: Store, schema: pa.Schema, parts: Sequence[str]) -> str:
    """Keeps a table of parts that are kept, in this order; its digest. Raises StateError."""
    if not parts:
        parts = [keep_part(store, schema.empty_table())[0]]
    text = json.dumps(list(parts)).encode()
    digest = hashlib.sha256(text).hexdigest()
    _create(store, f"{digest}.table", text)
    return digest


def _create(store: Store, name: str, data: bytes | pa.Buffer) -> None:
    with suppress(StateTakenError):  # its name says what is in it
        store.create(name, [data])


def _read(store: Store, digest: str) -> pa.Table:
    parts: Iterable[str] = json.loads(_checked(store, f"{digest}.table", digest))
    tables = []
    for part in parts:
        with pa.ipc.open_stream(pa.py_buffer(_checked(store, f"{part}.arrow", part))) as reader:
            tables.append(reader.read_all())
    return pa.concat_tables(tables)


def _checked(store: Store, name: str, digest: str) -> bytes:
    data = store.read(name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise StateError(
            f"the table's file {store.path(name)} is damaged: its checksum is not the one in its name. Delete it, and "
            "start the query again, which reads the table again"
        )
    return data
