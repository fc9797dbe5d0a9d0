"""The client of a daemon: the same calls over a Unix socket and over Flight."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from muntin.host.daemon.address import Address
from muntin.host.daemon.definition import Definition, schema_from_wire
from muntin.host.daemon.staging import PartKey
from muntin.host.daemon.unix_client import UnixClient
from muntin.host.engine.routes import RoutingTable
from muntin.host.errors import DaemonError, ProtocolError
from muntin.host.spec import JoinSpec
from muntin.host.state.tables import KeptTable
from muntin.host.tracing import request_span


class Transport(Protocol):
    """What `UnixClient` and `FlightClient` both do."""

    def call(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one of the operations and return its answer."""

    def process(
        self,
        message: dict[str, Any],
        rows: Iterator[tuple[str, pa.RecordBatch]],
        closing: Callable[[], dict[str, Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Send a batch and return its result; `closing`, asked after the last row, adds to the last message."""

    def opened(self, query: str, definition: Definition) -> None:
        """Take note of what a query is open with."""

    def close(self) -> None:
        """Close the connections."""


class DaemonClient:
    """Talks to a daemon; usable from several threads. Connects when first used.

    Parameters
    ----------
    address : str
        ``unix:/path/to/socket``, ``grpc://host:port`` or ``grpc+tls://host:port``.
    token : str, optional
        For the latter two.
    timeout : float
        Seconds to wait for the daemon's next byte, the time of the join itself included.
    tls_ca : str, Path or (bytes, str), optional
        PEM file of the certificates to trust; the system's where none is named. Or such certificates themselves, with
        the name that the daemon's is for, whatever its address (`Certificate.trust`).

    Raises
    ------
    AuthError
        Certificates to trust, and an address without TLS.
    DaemonError
        Not an address; no certificates. Every method raises what the daemon raised, and `ConnectionLostError` where it
        cannot be reached.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 600.0,
        *,
        tls_ca: str | Path | tuple[bytes, str] | None = None,
    ):
        self.address = str(address)
        parsed = Address.parse(self.address)
        self._transport: Transport
        if parsed.scheme == "unix":
            if token is not None or tls_ca is not None:
                raise DaemonError("a Unix socket takes no token and no certificate; its file mode protects it")
            self._transport = UnixClient(parsed.path, timeout)
        else:
            # gRPC is only loaded where it is used.
            from muntin.host.daemon.flight_client import FlightClient

            self._transport = FlightClient(parsed, token, timeout, tls_ca or None)

    def ping(self) -> dict[str, Any]:
        """The daemon's protocol version and device."""
        return self._call({"op": "ping"})

    def status(self) -> dict[str, Any]:
        """Device, memory, limits, errors, and the statistics of every query."""
        return self._call({"op": "status"})

    def check(
        self,
        spec: JoinSpec,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        *,
        streaming: bool = True,
        state: str | None = None,
        windows: Mapping[str, JoinSpec] | None = None,
    ) -> pa.Schema:
        """Whether a query could ever be opened, whatever is open or free now. Takes nothing from the device, and
        touches no state.

        Parameters
        ----------
        spec, left_schema, right_schema, streaming, state
            As of `open_query`.
        windows : mapping of str to JoinSpec, optional
            Where it is opened in several, all at once: the name and the join of each.

        Returns
        -------
        pyarrow.Schema
            Of the result.

        Raises
        ------
        CapacityError
            The windows would not fit the device if it were empty.
        LimitError, QueryError
            There are more windows than queries may be open; a name cannot be used.
        StateError
            There can be no state at its place.
        MuntinError
            What `WindowJoin` raises for the join and the schemas.
        """
        message = {"op": "check", **Definition(spec, left_schema, right_schema, streaming, state).to_wire()}
        if windows is not None:
            joins: dict[str, list[str]] = {}
            for name, each in windows.items():
                joins.setdefault(each.to_json(), []).append(name)
            message["windows"] = [[json.loads(text), names] for text, names in joins.items()]
        answer = self._call(message)
        return schema_from_wire(answer["schema"])

    def open_query(
        self,
        query: str,
        spec: JoinSpec,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        *,
        streaming: bool = True,
        state: str | None = None,
        table: KeptTable | None = None,
        fixed: dict[str, bool] | None = None,
        title: str | None = None,
    ) -> pa.Schema:
        """Open a query, or find it open with the same definition.

        Parameters
        ----------
        query : str
            Its name, the same for all batches.
        spec : JoinSpec
            The join.
        left_schema, right_schema : pyarrow.Schema
            Of the rows that will come.
        streaming : bool
            True: batches continue one window, each counted once. False: every request is a join of its own.
        state : str, optional
            The folder, as the daemon sees it, or the address of an object store, under which the windows of a stream
            are kept for another process.
        table : KeptTable, optional
            Of a join of a stream and a table. A query that is open with another one meets this from its next batch on.
        fixed : dict of str to bool, optional
            Options without which its state does not go on.
        title : str, optional
            What people call it, for `muntin top` and the like.

        Returns
        -------
        pyarrow.Schema
            Of the result.

        Raises
        ------
        StateError
            The state is damaged, of another join, or cannot be reached.
        QueryError
            Open already with another definition.
        LimitError
            Too many queries.
        MuntinError
            What `WindowJoin` raises for the join and the schemas.
        """
        definition = Definition(spec, left_schema, right_schema, streaming, state, table, fixed)
        message = {"op": "open", "query": query, "title": title}
        answer = self._call({**message, "definition": definition.digest})
        if "definition_wanted" in answer:
            answer = self._call({**message, **definition.to_wire()})
        self._transport.opened(query, definition)
        return schema_from_wire(answer["schema"])

    def figures(self, query: str, batch: int) -> dict[str, dict[str, Any]]:
        """What the daemon knows of a batch of the query of this name, and of those whose names have it before a slash.

        Returns
        -------
        dict of str to dict
            By the query's name; without those that have not joined it, or that have joined a hundred others since. See
            `Query.figures`.
        """
        return dict(self._call({"op": "figures", "query": query, "batch": batch})["figures"])

    def routes(self, query: str, batch: int, partitions: int) -> RoutingTable:
        """Where the rows of a batch go that has so many partitions; from a daemon that holds one of them.

        Raises
        ------
        UnknownQueryError
            No such query of streams is open.
        """
        message = {"op": "routes", "query": query, "batch": batch, "partitions": partitions}
        return RoutingTable.from_wire(self._call(message)["routes"])

    def process(
        self,
        query: str,
        batch: int,
        batches: Iterable[tuple[str, pa.RecordBatch]],
        *,
        run: str = "",
        instance: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """Send one batch and return its result.

        All rows are sent before this returns; the result is read as it is iterated. `batches` is read to its
        end even where the daemon holds the result already and wants no rows: engines take
        watermarks and metrics from the rows that pass.

        Parameters
        ----------
        query : str
            An open query.
        batch : int
            From 0. A repeat of the newest batch gets the same result. There is no tag as of `WindowJoin.process`: what
            belongs to a batch, such as positions in its sources, the caller keeps under this number, before it sends
            the batch, as Spark's checkpoint does.
        batches : iterable of (str, pyarrow.RecordBatch)
            ("left" or "right", rows), in any order; within a side the order of arrival.
        run : str
            Names one run of the streaming query that sends this, from its start to its end.
        instance : str
            What tells the join that sends this from others of the same run: two of them under one query name would
            mix their windows, and are refused. In another run another instance may continue.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            None where nothing matched.

        Raises
        ------
        StateLostError
            The daemon does not hold the window that a batch above 0 continues.
        ReplayError
            A batch before the newest one.
        QueryError
            Two instances sent batches in one run.
        MuntinError
            What `WindowJoin.process` raises; nothing was applied then.
        """
        message = {"op": "process", "query": query, "batch": batch, "run": run, "instance": instance}
        return self._process(message, iter(batches))

    def stage(
        self,
        query: str,
        batch: int,
        batches: Iterable[tuple[str, pa.RecordBatch]],
        part: Callable[[], tuple[PartKey, dict[str, Any]]],
        *,
        run: str = "",
        instance: str = "",
    ) -> None:
        """Send a part of a batch, which waits for the others; nothing where the daemon has joined the batch.

        Parameters
        ----------
        query, batch, run, instance
            As of `process`.
        batches : iterable of (str, pyarrow.RecordBatch)
            As of `process`; and "places", as `SummaryPart.add` gives them. Read to its end in any case.
        part : callable
            Asked after the last row: what the part is known by, and what it tells, see `Part.call`.

        Raises
        ------
        StateLostError, ReplayError, QueryError, LimitError
            As of `process`, and where too much is staged.
        """

        def closing() -> dict[str, Any]:
            key, call = part()
            return {"key": list(key), "call": call}

        message = {"op": "process", "query": query, "batch": batch, "run": run, "instance": instance, "part": True}
        for _ in self._process(message, iter(batches), closing):
            raise ProtocolError(f"query {query!r}, batch {batch}: the daemon answered a part of a batch with rows")

    def fetch(self, query: str, batch: int, keys: Iterable[PartKey], *, rows: bool = True) -> Iterator[pa.RecordBatch]:
        """The result of a batch that consists of these parts; it is joined if it has not been.

        Parameters
        ----------
        keys : iterable of PartKey
            Of all its parts.
        rows : bool
            False: only have it joined.

        Raises
        ------
        StateLostError
            A part is not there, as the daemon was started again.
        ReplayError
            A batch before the newest one, or the newest one with other rows.
        MuntinError
            As of `process`.
        """
        message = {
            "op": "process",
            "query": query,
            "batch": batch,
            "keys": [list(key) for key in keys],
            "rows": rows,
        }
        return self._process(message, iter(()))

    def close_query(self, query: str) -> bool:
        """Close a query and free its device memory; False where none was open."""
        return bool(self._call({"op": "close", "query": query})["closed"])

    def close(self) -> None:
        """Close the connections; queries stay open."""
        self._transport.close()

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        sent = request_span(message)
        try:
            return self._transport.call(message)
        except BaseException as error:
            sent.end(error)
            raise
        finally:
            sent.end()

    def _process(
        self,
        message: dict[str, Any],
        rows: Iterator[tuple[str, pa.RecordBatch]],
        closing: Callable[[], dict[str, Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        sent = request_span(message)
        try:
            result = self._transport.process(message, rows, closing)
        except BaseException as error:
            sent.end(error)
            raise
        return sent.until_end(result)

    def __enter__(self) -> DaemonClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
