"""Results of requests: kept in blocks until a later batch makes them final, or passed on as they are made."""

from __future__ import annotations

import io
import os
import queue
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from muntin.host.errors import CapacityError, DaemonError, LimitError, MuntinError
from muntin.host.memory import Memory
from muntin.host.tracing import carried, span

Tables = Generator[pa.Table, None, None]


class Result(Protocol):
    """What a request answers with.

    Attributes
    ----------
    num_rows : int
        Known once all batches are taken.
    """

    num_rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in pieces of bounded size. Raises MuntinError where making them fails."""


class NotKeptError(Exception):
    """A batch was applied, but its result could not be kept.

    Attributes
    ----------
    why : MuntinError
        What a client is told.
    """

    def __init__(self, why: MuntinError):
        super().__init__(str(why))
        self.why = why


class KeptResult:
    """A result that can be read again, by several readers at once: in memory up to a limit, and from there on in a
    temporary file without a name, which is gone with this object.

    Made by `keep`.

    Attributes
    ----------
    num_rows, nbytes, heap_bytes, file_bytes : int
        Rows; bytes in all, in memory and in the file.
    """

    def __init__(self, schema: pa.Schema):
        self.schema = schema
        self.num_rows = self.nbytes = self.heap_bytes = self.file_bytes = 0
        self._heap: list[pa.RecordBatch] = []
        self._file: BinaryIO | None = None
        self._free: weakref.finalize[..., Any] = weakref.finalize(self, int)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in order."""
        yield from self._heap
        if self._file is not None:
            with pa.ipc.open_stream(pa.PythonFile(_Reader(self._file), mode="r")) as reader:
                yield from reader

    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def close(self) -> None:
        """Gives memory and file back. Idempotent; done also when the object is dropped."""
        self._heap, self._file = [], None
        self._free()


def keep(
    tables: Tables,
    schema: pa.Schema,
    *,
    memory: Memory,
    max_heap: int,
    most: int,
    query: str,
    told: Callable[[KeptResult], None] | None = None,
) -> KeptResult:
    """Keeps a result.

    Parameters
    ----------
    tables : generator of pyarrow.Table
        Its rows, in blocks; read to the end.
    memory : Memory
        What the part in memory is taken from. Where it has no room, the rest goes to the file.
    max_heap, most : int
        Bytes in memory at most, and in all.
    query : str
        Named in errors.
    told : callable, optional
        Given the result each time that a batch more of it can be read.

    Raises
    ------
    NotKeptError
        The result is larger than `most`, or the temporary file cannot be written. The tables have been read to the end.
    """
    result = KeptResult(schema)
    ticket: int | None = None
    writer: pa.RecordBatchFileWriter | None = None
    spilling: BinaryIO | None = None
    try:
        for table in tables:
            for batch in table.to_batches():
                if not batch.num_rows:
                    continue
                result.nbytes += batch.nbytes
                result.num_rows += batch.num_rows
                if result.nbytes > most:
                    raise NotKeptError(
                        LimitError(
                            f"query {query!r}: the result of one batch has {result.nbytes:,} bytes or more, above the "
                            f"limit of {most:,}: narrow the condition, send smaller micro-batches, select fewer "
                            "columns, or start the daemon with a larger --max-result"
                        )
                    )
                if spilling is None and result.nbytes <= max_heap:
                    try:
                        ticket = memory.reserve(result.nbytes, f"the result of query {query!r}", ticket)
                    except CapacityError:
                        max_heap = result.heap_bytes
                    else:
                        result._free.detach()
                        result._free = weakref.finalize(result, memory.release, ticket)
                if spilling is None and result.nbytes <= max_heap:
                    result._heap.append(batch)
                    result.heap_bytes = result.nbytes
                else:
                    if writer is None:
                        spilling = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115 - it lives with the result
                        writer, result._file = pa.ipc.new_stream(spilling, schema), spilling
                    writer.write_batch(batch)
                if told is not None:
                    told(result)
        if writer is not None and spilling is not None:
            writer.close()
            result.file_bytes = spilling.tell()
    except OSError as error:
        raise NotKeptError(
            DaemonError(
                f"query {query!r}: a result of {result.nbytes:,} bytes so far cannot be kept in "
                f"{tempfile.gettempdir()} ({error.strerror or error}): free space there, or start the daemon with "
                "TMPDIR at another folder"
            )
        ) from error
    finally:
        for _ in tables:  # the rest of one that is not kept is made all the same, in turns with others
            pass
    return result


class FollowedResult:
    """A result that is read, once, while a thread makes and keeps it. A slow reader, or one that leaves, stops nothing.

    Parameters
    ----------
    make : callable
        Called in the thread with what `keep` is to tell of it; returns what was kept.
    """

    def __init__(self, make: Callable[[Callable[[KeptResult], None]], KeptResult]):
        self.num_rows = 0
        self._kept: KeptResult | None = None
        self._error: BaseException | None = None
        self._told: queue.Queue[KeptResult | None] = queue.Queue()  # for each batch that is there; None is the end
        code = carried(partial(self._make, make))
        threading.Thread(target=code, name="muntin-join", daemon=True).start()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as they are kept. The end comes once the result is complete, else what `make` has raised."""
        stored: Iterator[pa.RecordBatch] = iter(())
        begun = False
        while (growing := self._told.get()) is not None:
            if not begun:
                stored, begun = growing.batches(), True
            batch = next(stored)
            self.num_rows += batch.num_rows
            yield batch
        if isinstance(self._error, OSError):  # not to be taken for one of the client's connection
            raise internal_error(self._error) from self._error
        if self._error is not None:
            raise self._error
        assert self._kept is not None
        self.num_rows = self._kept.num_rows
        if not begun:  # it was there already
            yield from self._kept.batches()

    def _make(self, make: Callable[[Callable[[KeptResult], None]], KeptResult]) -> None:
        try:
            self._kept = make(self._told.put)
        except BaseException as error:
            self._error = error
        self._told.put(None)


class PassingResult:
    """A result that is made as it is read, once."""

    def __init__(self, tables: Tables):
        self.num_rows = 0
        self._tables = tables

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as they are made."""
        try:
            for table in self._tables:
                self.num_rows += table.num_rows
                yield from table.to_batches()
        finally:
            self._tables.close()


def internal_error(error: Exception) -> DaemonError:
    """The error that a client gets where the daemon itself failed."""
    return DaemonError(f"the daemon failed ({type(error).__name__}: {error}); its log has the details")


class _Reader(io.RawIOBase):
    """Reads a file from its start, whatever other readers of it do."""

    def __init__(self, file: BinaryIO):
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = os.preadv(self._file.fileno(), [buffer], self._at)
        self._at += count
        return count


class FairLock:
    """A lock that goes to those who wait in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[threading.Lock] = []  # the first one has the lock
        self._guard = threading.Lock()

    def __enter__(self) -> None:
        own = threading.Lock()
        own.acquire()
        with self._guard:
            self._waiting.append(own)
            if len(self._waiting) == 1:
                own.release()
        if own.locked():
            with span("wait for the device"):
                own.acquire()
        else:
            own.acquire()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            del self._waiting[0]
            if self._waiting:
                self._waiting[0].release()

    def between(self, begin: Callable[[], Tables], *, whole: bool = False) -> Tables:
        """The tables that `begin` gives, begun and each made with the lock held, which is free between them; with
        `whole` it is held until the last."""
        if whole:
            with self:
                yield from begin()
            return
        with self:
            tables = begin()
        try:
            while True:
                with self:
                    table = next(tables, None)
                if table is None:
                    return
                yield table
        finally:
            with self:
                tables.close()
