"""The log of a join's calls.

A call is two files: ``N-BATCH-OWNER.rows``, its rows in the order of arrival as Arrow IPC, and ``N.commit``, which
says what the join knew before the call and which file holds its rows, with a checksum of both. The commit file can be
created once: whoever does owns what follows. The log is a sliding window too: calls go when all their rows are useless.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
import re
import secrets
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from muntin.host.errors import StateError, StateTakenError
from muntin.host.keys.kept_types import kept
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.state.store import Store
from muntin.host.tracing import carried, span

FORMAT = 1
"""Of files, as it is written and read."""
UNFINISHED = "unfinished"
"""A file that lies beside a log as long as others write it."""
_COMMIT = re.compile(r"(\d{12})\.commit")
_ROWS = re.compile(r"(\d{12})-(\d+)-[0-9a-f]{16}\.rows")


@dataclasses.dataclass
class Record:
    """One call of the log.

    Attributes
    ----------
    number : int
        Of the call, from 0 on without gaps.
    batch : int
        The caller's number for it.
    join : dict
        What defines the join: its specification, and the columns of both sides.
    before : dict
        What the sequencer knew before the call, as `Sequencer.state` gives it.
    end : dict of str to int
        Arrival number of each side after the call.
    file : str
        The file with its rows.
    digest, size : str, int
        Of that file.
    parts : dict of str to list of int
        Where in it the rows of each side lie: first byte and length.
    matched : dict of str to str
        The rows that the call has matched for the first time, of each side for which that is followed: differences of
        the ascending numbers, as int64, compressed, in base 64.
    whole : dict or None
        The summary of the rows of all partitions, where the log belongs to one of them, as
        `BatchSummary.to_tables` gives it.
    pushes : str or None
        The left and right rows that arrived together, in order, as `matched`, where a call has several such.
    sender : list of str, or None
        Who sent the rows, as of `StateLog`.
    first : int or None
        The number of the oldest call that the log needs from this one on; None in states of versions before there was
        this. Files before it belong to expired calls, or to a process that did not know that it had lost the log.
    tag : str or None
        What the caller has kept with the call, in base 64.
    """

    number: int
    batch: int
    join: dict[str, Any]
    before: dict[str, Any]
    end: Sides[int]
    file: str
    digest: str
    size: int
    parts: Sides[list[int]]
    matched: Sides[str]
    whole: dict[str, Any] | None = None
    first: int | None = None
    pushes: str | None = None
    sender: list[str] | None = None
    tag: str | None = None


class StateLog:
    """The log of one join in a store.

    Parameters
    ----------
    store : Store

    Attributes
    ----------
    records : list of Record
        What lies in the log, oldest first.
    cut_short : int or None
        The caller's number of a call whose rows were written, but not its commit: it will come again.
    files : int
        Files in the store, as far as this process knows.
    seconds : float
        Time that files took to become durable.
    sender : list of str, or None
        Of the calls that come: who sends their rows, as whoever opens the log later reads it.

    Raises
    ------
    StateError
        If a file is missing, damaged, or of another format.
    """

    def __init__(self, store: Store):
        self.store = store
        self._owner = secrets.token_hex(4)
        self._writer: ThreadPoolExecutor | None = None
        self._oldest: Sides[int] | None = None  # as of `commit`
        self.cut_short: int | None = None
        self.files, self.seconds = 0, 0.0
        self.sender: list[str] | None = None
        self.records = self._found()

    def _found(self) -> list[Record]:
        names = self.store.names()
        self.files = len(names)
        if UNFINISHED in names:
            raise StateError(f"the state in {self.store.place} is not complete: run `muntin rescale` again")
        self.store.settle()
        numbers = sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
        files = set(names)
        first = self._read_commit(numbers[-1]).first if numbers else None
        if first is not None:
            for number in numbers:
                if number < first:
                    self._delete(_commit_name(number))
            numbers = [number for number in numbers if number >= first]
        for before, after in itertools.pairwise(numbers if first is None else [first - 1, *numbers]):
            if after != before + 1:
                raise StateError(f"the state's file {self.store.path(_commit_name(before + 1))} is missing")
        if not numbers:
            calls = sorted(match[1] for name in names if (match := _ROWS.fullmatch(name)))
            if calls and int(calls[-1]) > 0:  # rows of call 0 may be there without a commit: it was cut short
                raise StateError(f"the state's file {self.store.path(calls[-1] + '.commit')} is missing")
        records = []
        for number in numbers:
            record = self._read_commit(number)
            if record.file not in files:
                raise StateError(f"the state's file {self.store.path(record.file)} is missing")
            records.append(record)
        for name in names:
            match = _ROWS.fullmatch(name)
            if match and numbers and int(match[1]) < numbers[0]:  # its call went while a process died
                self._delete(name)
            elif match and (not numbers or int(match[1]) > numbers[-1]):
                self.cut_short = max(int(match[2]), self.cut_short or 0)
        return records

    def _read_commit(self, number: int) -> Record:
        name = _commit_name(number)
        data = self.store.read(name)
        text, _, digest = data.rpartition(b"\n")
        if _digest(text).encode() != digest:
            raise StateError(
                f"the state's file {self.store.path(name)} is damaged: its checksum is not that of its text. "
                "Restore it from a copy, or start with empty state"
            )
        fields = json.loads(text)
        if "rescaled" in fields:
            raise StateError(
                f"the state in {self.store.place} was rescaled: start the query with partitions={fields['rescaled']}, "
                f"or, where it has not gone on with these, delete {self.store.path(name)} to go back"
            )
        if fields.pop("format") != FORMAT:
            raise StateError(
                f"the state's file {self.store.path(name)} has format {json.loads(text)['format']}, written by Muntin "
                f"{fields.get('muntin')}; this is Muntin {version()}, which reads format {FORMAT}"
            )
        del fields["muntin"]
        return Record(**fields)

    # Reading

    def rows(self, record: Record) -> tuple[dict[str, pa.Table], Sides[np.ndarray]]:
        """The tables of a call by name, and by side the numbers of rows, int64, that it has matched for the first time.

        Raises
        ------
        StateError
            If its file is missing or damaged.
        """
        data = self.store.read(record.file)
        if len(data) != record.size or not _intact(data, record.digest):
            raise StateError(
                f"the state's file {self.store.path(record.file)} is damaged: it has {len(data):,} bytes of "
                f"{record.size:,}, or another checksum. Restore it from a copy, or start with empty state"
            )
        tables: dict[str, pa.Table] = {}
        for part, (first, length) in record.parts.items():
            with pa.ipc.open_stream(pa.py_buffer(data)[first : first + length]) as reader:
                tables[part] = reader.read_all()
        return tables, {side: _numbers(text) for side, text in record.matched.items()}

    def pushes(self, record: Record) -> list[tuple[int, int]] | None:
        """Left and right rows that arrived together, in order; None where all rows of the call did."""
        if record.pushes is None:
            return None
        return [(left, right) for left, right in _numbers(record.pushes).reshape(-1, 2).tolist()]

    @property
    def tag(self) -> bytes | None:
        """What the caller has kept with the newest call."""
        text = self.records[-1].tag if self.records else None
        return None if text is None else base64.b64decode(text)

    # Writing

    def begin(
        self,
        batch: int,
        tables: dict[str, pa.Table],
        join: dict[str, Any],
        before: dict[str, Any],
        end: Sides[int],
        *,
        whole: dict[str, Any] | None = None,
        pushes: list[tuple[int, int]] | None = None,
        tag: bytes | None = None,
    ) -> Future[dict[str, Any]]:
        """Starts to write the rows of a call, in a thread; for `commit`, or `withdraw`.

        Parameters
        ----------
        batch, join, before, end, whole
            As in `Record`.
        tables : dict of str to pyarrow.Table
            The rows of the call by side, and what belongs to them.
        pushes : list of (int, int), optional
            What `pushes` gives.
        tag : bytes, optional
            What `tag` gives.

        Raises
        ------
        StateError
            If an earlier call's commit is lost.
        """
        number, sender = self.records[-1].number + 1 if self.records else 0, self.sender
        if self.cut_short is not None and batch > self.cut_short:
            raise StateError(
                f"the state's file {self.store.path(_commit_name(number))} is missing: the rows of batch "
                f"{self.cut_short} are there, and the next one sent is {batch}"
            )
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "muntin-state")

        def write() -> dict[str, Any]:
            fields: dict[str, Any] = {"batch": batch, "join": join, "before": before, "end": end, "whole": whole}
            fields["pushes"] = None if pushes is None else _text(np.array(pushes).ravel())
            fields["sender"] = sender
            fields["tag"] = None if tag is None else base64.b64encode(tag).decode()
            with span("write state"):
                self._trim()
                return fields | self._write(number, batch, tables)

        return self._writer.submit(carried(write))

    def _write(self, number: int, batch: int, tables: dict[str, pa.Table]) -> dict[str, Any]:
        """Makes a file of a call's rows durable; what its record says of it."""
        pieces, parts, size = [], {}, 0
        for side, table in tables.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            pieces.append(sink.getvalue())
            parts[side] = [size, len(pieces[-1])]
            size += len(pieces[-1])
        name = f"{number:012d}-{batch}-{self._owner}{secrets.token_hex(4)}.rows"
        with suppress(StateTakenError):  # this name belongs to this call alone: a repeated request found it there
            self._create(name, pieces)
        return {"number": number, "file": name, "digest": _checksum(*pieces), "size": size, "parts": parts}

    def commit(
        self, begun: Future[dict[str, Any]], matched: Sides[np.ndarray], oldest: Sides[int] | None = None
    ) -> None:
        """Waits until a call is durable. The call must have its result by now: it cannot be taken back.

        Parameters
        ----------
        begun : Future
            What `begin` gave.
        matched : dict of str to ndarray of int64
            Rows that the call has matched for the first time, of the sides for which that is followed.
        oldest : dict of str to int, optional
            Calls all of whose rows are before these numbers are not needed from this one on, and go when the next one
            is written.

        Raises
        ------
        StateTakenError
            If another process has committed this call.
        StateError
            If the files cannot be written.
        """
        fields = begun.result()
        needed = (record.number for record in self.records if oldest is None or not _before(record, oldest))
        first = next(needed, fields["number"])
        self._commit(Record(matched={side: _text(rows) for side, rows in matched.items()}, first=first, **fields))
        self._oldest = oldest

    def withdraw(self, begun: Future[dict[str, Any]]) -> None:
        """Deletes what was written of a call that came to nothing before its commit. A file that cannot be deleted does
        no harm but to tell whoever opens the log that a call was cut short."""
        with suppress(StateError):
            self._delete(begun.result()["file"])

    def _commit(self, record: Record) -> None:
        pieces = _commit_pieces(vars(record))
        try:
            self._create(_commit_name(record.number), pieces)
        except StateTakenError as error:
            # An object store's client repeats a request whose answer was lost, and finds its own file there.
            if self.store.read(_commit_name(record.number)) != b"".join(pieces):
                self._delete(record.file)
                raise self._taken() from error
        if self.outdated_after(record.number):  # its name was free again: the call had gone from another process's log
            self._delete(_commit_name(record.number), record.file)
            raise self._taken()
        self.records.append(record)
        self.cut_short = None

    def _trim(self) -> None:
        """Deletes the oldest calls that are not needed since the newest commit; the newest stays."""
        while self._oldest is not None and len(self.records) > 1 and _before(self.records[0], self._oldest):
            self._delete(_commit_name(self.records[0].number), self.records[0].file)
            del self.records[0]

    def end(self, partitions: int, windows: list[str]) -> None:
        """Lets no process go on with it, nor open it: others do, for so many partitions, in windows of these names.

        Raises
        ------
        StateTakenError
            If another process has gone on with it.
        """
        number = self.records[-1].number + 1 if self.records else 0
        try:
            pieces = _commit_pieces({"rescaled": partitions, "windows": windows})
            self.store.create(_commit_name(number), pieces)
        except StateTakenError as error:
            raise self._taken() from error

    def clear(self) -> None:
        """Deletes all of it, newest calls last."""
        for record in self.records:
            self._delete(_commit_name(record.number), record.file)
        self.records = []

    def _create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        begun = time.perf_counter()
        try:
            with span("sync", file=name):
                self.store.create(name, pieces)
            self.files += 1
        finally:
            self.seconds += time.perf_counter() - begun

    def _delete(self, *names: str) -> None:
        for name in names:
            self.store.delete(name)
            self.files -= 1

    @property
    def outdated(self) -> bool:
        """Whether another process has gone on with it. Raises StateError."""
        return self.outdated_after(self.records[-1].number if self.records else -1)

    def outdated_after(self, number: int) -> bool:
        """Whether there is a call after one."""
        after = _commit_name(number) if number >= 0 else ""
        return any(_COMMIT.fullmatch(name) for name in self.store.names(after))

    def _taken(self) -> StateTakenError:
        return StateTakenError(
            f"another process has gone on with the state in {self.store.place}: this one no longer owns it"
        )

    def close(self) -> None:
        """Ends its thread."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None


def _before(record: Record, oldest: Sides[int]) -> bool:
    """Whether all rows of a call are before these numbers."""
    return all(record.end[side] <= oldest[side] for side in SIDES)


def _text(rows: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.diff(rows, prepend=0).astype("<i8").tobytes(), 1)).decode()


def _numbers(text: str) -> np.ndarray:
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8"))


def ended(store: Store) -> tuple[str, list[str]] | None:
    """The file by which `StateLog.end` has ended a log, and the names of the windows that go on; None: it goes on."""
    commits = [name for name in store.names() if _COMMIT.fullmatch(name)]
    if not commits:
        return None
    fields = json.loads(store.read(commits[-1]).rpartition(b"\n")[0] or b"{}")
    return (commits[-1], fields["windows"]) if "rescaled" in fields else None


def newest_join(store: Store) -> dict[str, Any] | None:
    """What defines the join of a log, as of `Record`, by its newest call; None where it has none. Raises StateError."""
    for name in reversed([name for name in store.names() if _COMMIT.fullmatch(name)]):
        try:
            fields = json.loads(store.read(name).rpartition(b"\n")[0])
        except ValueError as error:
            raise StateError(f"the state's file {store.path(name)} is damaged: it is no JSON") from error
        if "join" in fields:
            return dict(fields["join"])
    return None


def holds_calls(names: Sequence[str]) -> bool:
    """Whether files of these names belong to a log."""
    return any(name == UNFINISHED or _COMMIT.fullmatch(name) or _ROWS.fullmatch(name) for name in names)


def _commit_pieces(fields: dict[str, Any]) -> list[bytes]:
    text = json.dumps({"format": FORMAT, "muntin": version(), **fields}, sort_keys=True).encode()
    return [text, b"\n", _digest(text).encode()]


def _commit_name(number: int) -> str:
    return f"{number:012d}.commit"


def _digest(text: bytes) -> str:
    """Of the text of a commit."""
    return hashlib.sha256(text).hexdigest()


def _checksum(*pieces: bytes | pa.Buffer) -> str:
    """Of a file of rows: XXH3, which takes a twentieth of the time of SHA-256."""
    checksum = xxhash.xxh3_128()
    for piece in pieces:
        checksum.update(piece)
    return checksum.hexdigest()


def _intact(data: bytes, checksum: str) -> bool:
    """Whether a file of rows is as it was written."""
    return checksum == _checksum(data)


@cache
def version() -> str:
    """Of the Muntin that is installed."""
    return metadata.version("muntin")


def schema_text(schema: pa.Schema) -> str:
    """A schema as text."""
    return base64.b64encode(schema.serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    """What `schema_text` made."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def under(schema: pa.Schema, table: pa.Table, side: Side, place: str) -> pa.Table:
    """Rows of a log, of the columns that a join needs today, as it keeps them: those that were added since are NULL.

    Raises
    ------
    StateError
        If a value is NULL where none may be any more.
    """
    columns = []
    table = kept(table.select([name for name in schema.names if name in table.column_names]))  # older ones kept others
    for field in schema:
        there = field.name in table.column_names
        column = table.column(field.name) if there else pa.chunked_array([pa.nulls(len(table), field.type)])
        if column.null_count and not field.nullable:
            raise StateError(
                f"the {side} column {field.name!r} has NULL in rows of the state in {place}, and is given as not null: "
                "give a schema in which it may be NULL, as it was when these rows came"
            )
        columns.append(column)
    return pa.table(columns, schema=schema)
