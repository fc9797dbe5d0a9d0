"""The daemon's core: queries on one device. The front ends carry bytes to it and know nothing of joins."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import structlog

from muntin.host.daemon.batch_query import BatchQuery, OpenJoins
from muntin.host.daemon.definition import Definition
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.query import Query, Request
from muntin.host.daemon.result import FairLock, KeptResult
from muntin.host.daemon.staging import PartKey, Sender
from muntin.host.daemon.streaming_query import StreamingQuery
from muntin.host.daemon.windows import quoted
from muntin.host.devices import Device, open_device
from muntin.host.errors import LimitError, QueryError, StateLostError, UnknownQueryError
from muntin.host.join import WindowJoin
from muntin.host.spec import JoinSpec
from muntin.host.state import check_place
from muntin.host.tracing import failed

MAX_NAME = 300  # Spark's id of a query, the caller's name of a join, and what a partition goes by
MAX_DEFINITIONS = 256  # that it knows by their digest
MAX_LOST = 64  # queries whose loss it knows


class Service:
    """Owns a device and the queries on it. Every method may be called from any thread.

    Parameters
    ----------
    device : str or Device
        As `muntin.hardware.open_device` takes it.
    limits : Limits
        What clients may ask for.
    state : str or None
        The place under which streaming queries keep their state, if they do not name one.
    memory : int or None
        Bytes of this process's memory for the windows, rows and results of all queries; by default what the device has,
        or where it has memory of its own, half of the machine's. See `Device.host_memory`.

    Attributes
    ----------
    device : Device
    more_status : callable
        Returns what the front ends add to the status.

    Raises
    ------
    DeviceError
        No such device.
    """

    def __init__(
        self,
        device: str | Device = "cpu",
        limits: Limits | None = None,
        state: str | None = None,
        memory: int | None = None,
    ):
        self._state = state
        self.limits = limits or Limits()
        self.device = open_device(device) if isinstance(device, str) else device
        if memory is not None:
            self.device.limit_host_memory(memory)
        self._device_lock = FairLock()
        self._open_joins = OpenJoins()
        self._lock = threading.Lock()
        self._queries: dict[str, Query] = {}
        self._known: dict[str, Definition] = {}
        self._lost: dict[str, str] = {}  # why queries were closed as they began
        self._errors: Counter[str] = Counter()
        self._started = time.time()
        self._log = structlog.get_logger("muntin")
        self.more_status: Callable[[], dict[str, Any]] = dict

    @property
    def device_name(self) -> str:
        """The name of the device, as `muntin.hardware.list_devices` has it."""
        return self.device.info.name

    def check(self, definition: Definition, windows: Mapping[str, JoinSpec] | None = None) -> pa.Schema:
        """Whether a query could ever be opened here; returns the schema of its results.

        Takes neither device memory nor a query's place, touches no state, and says nothing about what is free now.

        Parameters
        ----------
        definition : Definition
        windows : mapping of str to JoinSpec, optional
            Where it is opened in several, all at once: the name and the join of each.

        Raises
        ------
        QueryError, LimitError
            An unusable name; more windows than queries may be open.
        StateError
            Its state could not be where it says.
        MuntinError
            What `WindowJoin` raises: wrong columns, types or windows, a join that this device cannot carry out, or
            `CapacityError` where it would not fit the device even if that were empty.
        """
        schema = definition.output_schema
        for name in windows or ():
            _check_name(name)
        if windows and len(windows) > self.limits.max_queries:
            raise LimitError(
                f"the join has {len(windows)} windows in one daemon, in which {self.limits.max_queries} queries may be "
                "open: give fewer partitions, or name more daemons, or one that was started with a larger --max-queries"
            )
        place = definition.state or self._state
        if definition.streaming and place is not None:
            check_place(place, [quoted(name) for name in windows or ()])
        device = self.device.trial()
        with ExitStack() as opened:
            for spec in (windows or {"": definition.spec}).values():
                each = replace(definition, spec=spec)
                _ = each.output_schema
                join = WindowJoin.from_spec(
                    spec, device=device, left_schema=each.left_schema, right_schema=each.right_schema
                )
                opened.callback(join.close)
        return schema

    def open_query(self, name: str, definition: Definition, title: str | None = None) -> pa.Schema:
        """Open a query, or find it open with the same definition; returns the schema of its results.

        `title` is what people call it, or None where that is not known.

        Raises
        ------
        QueryError
            Open already with another definition, or an unusable name.
        LimitError
            Too many queries are open.
        MuntinError
            What `WindowJoin` raises: wrong columns, types, windows, or not enough device memory.
        """
        _check_name(name)
        schema = definition.output_schema
        if definition.streaming and definition.state is None:
            definition = replace(definition, state=self._state)
        with self._lock:
            query = self._queries.get(name)
            if query is None:
                if len(self._queries) >= self.limits.max_queries:
                    raise LimitError(
                        f"{len(self._queries)} queries are open, the limit; close one, or start the daemon "
                        "with a larger --max-queries"
                    )
                given = name, definition, self.device, self._device_lock, self.limits
                query = StreamingQuery(*given) if definition.streaming else BatchQuery(*given, self._open_joins)
                self._queries[name] = query
                self._lost.pop(name, None)
        if not query.definition.same(definition):
            raise QueryError(
                f"query {name!r} is open with another join, schema or kind; close it first, or use another name"
            )
        if title is not None:  # people see it in a terminal
            query.title = "".join(letter if letter.isprintable() else "?" for letter in title[:MAX_NAME])
        query.meet(definition)
        try:
            if query.prepare():
                self._log.info("query opened", query=name, streaming=definition.streaming)
        except BaseException:
            self._forget(name, query)
            raise
        return schema

    def learn(self, definition: Definition) -> None:
        """Keep a definition for clients that name its digest."""
        with self._lock:
            self._known.pop(definition.digest, None)
            self._known[definition.digest] = definition
            while len(self._known) > MAX_DEFINITIONS:
                del self._known[next(iter(self._known))]

    def known(self, digest: str) -> Definition | None:
        """The definition of a digest; None where it was not told, or too many others were since."""
        with self._lock:
            return self._known.get(digest)

    def definition(self, name: str) -> Definition:
        """What an open query was opened with; `UnknownQueryError` where none of that name is open."""
        with self._lock:
            query = self._queries.get(name)
        if query is None:
            raise UnknownQueryError(f"no query {name!r} is open; open it first")
        return query.definition

    def figures(self, prefix: str, batch: int) -> dict[str, dict[str, Any]]:
        """The figures of a batch of all queries of a name, or of that and something behind a slash, by their names;
        without those that do not know it. See `Query.figures`."""
        with self._lock:
            queries = {name: query for name, query in self._queries.items() if f"{name}/".startswith(f"{prefix}/")}
        found = {name: query.figures(batch) for name, query in sorted(queries.items())}
        return {name: figures for name, figures in found.items() if figures is not None}

    def routes(self, name: str, batch: int, partitions: int) -> dict[str, Any]:
        """Where the rows of a batch go that has so many partitions; raises UnknownQueryError."""
        with self._lock:
            query, lost = self._queries.get(name), self._lost.get(name)
        if query is None and lost is not None:  # another task of the batch was refused meanwhile
            raise StateLostError(lost)
        if not isinstance(query, StreamingQuery):
            raise UnknownQueryError(f"no query {name!r} of streams is open; open it first")
        return query.routes(batch, partitions)

    def begin(self, name: str, batch: int, sender: Sender) -> Request:
        """Open a request of an open query; see `Request`.

        Raises
        ------
        UnknownQueryError, StateLostError
            No such query; a batch that continues a window which is not here.
        ReplayError, QueryError
            A batch before the newest one; a second instance in one run of a streaming query.
        """
        with self._lock:
            query, lost = self._queries.get(name), self._lost.get(name)
        if query is None:
            if lost is not None:
                raise StateLostError(lost)
            if batch > 0 and self._state is None:
                raise StateLostError(
                    f"no query {name!r} is open here, and batch {batch} continues a window that this daemon "
                    "does not hold: it was restarted since, or is another one. Start the query with a new "
                    "checkpoint, and give state= (or muntin serve --state) for queries that must survive a restart"
                )
            raise UnknownQueryError(
                f"no query {name!r} is open; open it first, also where this daemon is in the place of one that had it"
            )
        try:
            return query.begin(batch, sender)
        except StateLostError as error:
            if not query.status()["requests"]:  # opened for a window that is not here: it holds nothing
                with self._lock:
                    self._lost[name] = str(error)
                    while len(self._lost) > MAX_LOST:
                        del self._lost[next(iter(self._lost))]
                self.close_query(name)
            raise

    def fetch(self, name: str, batch: int, keys: Sequence[PartKey], *, rows: bool) -> Request:
        """The request for the result of a batch whose parts are staged; without its rows where these are not wanted.

        Raises
        ------
        StateLostError
            The query or a part is not here.
        ReplayError
            A batch before the newest one, or the newest one with other rows.
        MuntinError
            What the join raises.
        """
        with self._lock:
            query = self._queries.get(name)
        if query is None:
            raise StateLostError(
                f"no query {name!r} is open here, which was sent rows of batch {batch}: the daemon was restarted "
                "since. Start the query again from its checkpoint"
            )
        result = query.fetch(batch, keys)
        return Request(query, batch, Sender(), result if rows else KeptResult(result.schema), parts=True)

    def close_query(self, name: str) -> bool:
        """Close a query and free its device memory; False where none was open."""
        with self._lock:
            query = self._queries.pop(name, None)
        if query is None:
            return False
        query.close()
        self._log.info("query closed", query=name)
        return True

    def count_error(self, error: BaseException) -> None:
        """Count an error that a client was told, by class; the request's span tells it too."""
        failed(error)
        with self._lock:
            self._errors[type(error).__name__] += 1

    def status(self) -> dict[str, Any]:
        """What `muntin status` shows, JSON-able; never waits for a batch."""
        with self._lock:
            queries = dict(self._queries)
            errors = dict(self._errors)
        return {
            "pid": os.getpid(),
            "started_at": self._started,
            "uptime_seconds": time.time() - self._started,
            "device": {
                **asdict(self.device.info),
                "indexes": list(self.device.indexes),
                "used_bytes": self.device.used_bytes,
                "host_bytes": self.device.host_memory.limit,
                "host_used_bytes": self.device.host_memory.used,
            },
            "memory_bytes": resident_bytes(),
            "state": self._state,
            "limits": vars(self.limits).copy(),
            "errors": errors,
            "queries": {name: query.status() for name, query in sorted(queries.items())},
            **self.more_status(),
        }

    def close(self) -> None:
        """Close every query, then the device."""
        with self._lock:
            names = list(self._queries)
        for name in names:
            self.close_query(name)
        self.device.close()

    def _forget(self, name: str, query: Query) -> None:
        with self._lock:
            if self._queries.get(name) is query:
                del self._queries[name]
        query.close()


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise QueryError(f"a query's name must be text of 1 to {MAX_NAME} printable characters, not {str(name)[:80]!a}")


def resident_bytes() -> int | None:
    """Memory that this process holds, in bytes; None where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
