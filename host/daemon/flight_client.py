"""A daemon's client over Arrow Flight."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from muntin.host.daemon.address import Address
from muntin.host.daemon.certificate import check_trusted, read_file
from muntin.host.daemon.definition import Definition
from muntin.host.daemon.frames import VERSION, other_version
from muntin.host.daemon.rows import cut, exchange_schema, wrap
from muntin.host.errors import (
    AuthError,
    ConnectionLostError,
    DaemonError,
    ProtocolError,
    UnknownQueryError,
    from_wire,
)
from muntin.host.keys.content import check_repeat
from muntin.host.tracing import context_of

ROWS_OF_A_MESSAGE = 1 << 20
BYTES_OF_A_MESSAGE = 16 << 20


class FlightClient:
    """Talks to `FlightServer`; see there for the exchange.

    Parameters
    ----------
    address : Address
        The daemon.
    token : str, optional
        Its token.
    timeout : float
        Seconds that one call may take.
    tls_ca : str, Path or (bytes, str), optional
        As of `DaemonClient`.
    """

    def __init__(
        self, address: Address, token: str | None, timeout: float, tls_ca: str | Path | tuple[bytes, str] | None
    ):
        self._address = address
        self._timeout = timeout
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self._options = flight.FlightCallOptions(timeout=timeout, headers=headers)
        self._schemas: dict[str, pa.Schema] = {}
        options: dict[str, Any] = {}
        if tls_ca is not None:
            if address.scheme != "grpc+tls":
                raise AuthError(
                    f"a certificate to trust is given (tls_ca), and rows and token would go to {address} unencrypted: "
                    "name the daemon by grpc+tls:, or leave tls_ca out"
                )
            if isinstance(tls_ca, tuple):
                trusted, options["override_hostname"] = tls_ca
            else:
                trusted = read_file(Path(tls_ca))
            options["tls_root_certs"] = check_trusted(trusted, str("tls_ca" if isinstance(tls_ca, tuple) else tls_ca))
        if address.host in ("localhost", "127.0.0.1", "::1"):
            # An http_proxy in the environment is not meant for this machine.
            options["generic_options"] = [("grpc.enable_http_proxy", 0)]
        self._client = flight.FlightClient(str(address), **options)
        self._free = weakref.finalize(self, self._client.close)

    def call(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one operation and return its answer."""
        try:
            return self._call(message)
        except ProtocolError as error:
            # Flight's own messages have no version of ours: where one is not understood, it may be that.
            version = VERSION if message["op"] == "ping" else self._call({"op": "ping"})["protocol"]
            if version != VERSION:
                raise ProtocolError(other_version(version)) from error
            raise

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._errors():
            action = flight.Action(message["op"], json.dumps(message).encode())
            (answer,) = self._client.do_action(action, self._options)
            if message["op"] == "close":
                self._schemas.pop(message["query"], None)
            return json.loads(answer.body.to_pybytes())

    def opened(self, query: str, definition: Definition) -> None:
        """Rows of the query go in a stream of these columns."""
        self._schemas[query] = exchange_schema(definition.left_schema, definition.right_schema)

    def process(
        self,
        message: dict[str, Any],
        rows: Iterator[tuple[str, pa.RecordBatch]],
        closing: Callable[[], dict[str, Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Send a batch, and return its result as it comes."""
        schema = self._schema(message)
        try:
            return self._exchange(message, rows, schema, closing)
        except BaseException:
            # Perhaps the query was closed and opened again with other columns: ask again next time.
            self._schemas.pop(message["query"], None)
            raise

    def close(self) -> None:
        """Close the connection. Idempotent; done also when the client is dropped."""
        self._free()

    def _exchange(
        self,
        message: dict[str, Any],
        rows: Iterator[tuple[str, pa.RecordBatch]],
        schema: pa.Schema,
        closing: Callable[[], dict[str, Any]] | None,
    ) -> Iterator[pa.RecordBatch]:
        descriptor = flight.FlightDescriptor.for_command(json.dumps(message).encode())
        with self._errors():
            writer, reader = self._client.do_exchange(descriptor, self._options)
            writer.begin(schema)
            answer = _metadata(reader.read_chunk())
        if not answer["rows_wanted"]:
            try:
                check_repeat(message["batch"], answer.get("content"), rows)
            except BaseException:
                reader.cancel()
                raise
        else:
            try:
                self._send_rows(writer, rows, schema, answer["max_message"], closing)
            except BaseException:
                reader.cancel()
                raise
        with self._errors():
            writer.done_writing()
        return self._results(writer, reader)

    def _send_rows(
        self,
        writer: flight.FlightStreamWriter,
        rows: Iterator[tuple[str, pa.RecordBatch]],
        schema: pa.Schema,
        limit: int,
        closing: Callable[[], dict[str, Any]] | None,
    ) -> None:
        counts = {"left": 0, "right": 0, "places": 0}
        for side, batch in rows:
            if side not in counts:
                raise ProtocolError(f"a row's side must be 'left' or 'right', not {side!r}")
            # Half: the daemon counts the message as it lies in memory there, with its validity bitmaps.
            for piece in cut([batch], ROWS_OF_A_MESSAGE, min(limit // 2, BYTES_OF_A_MESSAGE)):
                message = wrap(side, piece, schema)
                with self._sending(writer):
                    writer.write_batch(message)
                counts[side] += piece.num_rows
        end = {"left_rows": counts["left"], "right_rows": counts["right"], **(closing() if closing else {})}
        with self._sending(writer):
            writer.write_metadata(json.dumps(end).encode())

    def _results(
        self, writer: flight.FlightStreamWriter, reader: flight.FlightStreamReader
    ) -> Iterator[pa.RecordBatch]:
        got = 0
        end = None
        try:
            while end is None:
                with self._errors():
                    chunk = reader.read_chunk()
                if chunk.data is not None:
                    got += chunk.data.num_rows
                    yield chunk.data
                if chunk.app_metadata is not None:
                    end = _metadata(chunk).get("end")
            if got != end:
                raise ProtocolError(f"the daemon announces {end} rows of result, {got} arrived")
        except BaseException:
            reader.cancel()
            raise
        with self._errors():
            writer.close()

    def _schema(self, message: dict[str, Any]) -> pa.Schema:
        query = message["query"]
        if query not in self._schemas:
            try:
                definition = Definition.from_wire(self.call({"op": "describe", "query": query, **context_of(message)}))
            except UnknownQueryError:
                # The request itself gets the better answer: for a batch above 0 it is that the window was
                # lost.
                return pa.schema([])
            self._schemas[query] = exchange_schema(definition.left_schema, definition.right_schema)
        return self._schemas[query]

    @contextmanager
    def _sending(self, writer: flight.FlightStreamWriter) -> Iterator[None]:
        """Where the daemon ended the call while rows were sent, raise its reason."""
        try:
            yield
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            # Flight may only say that the stream broke; the reason, if there is one, comes with the call's end.
            with self._errors():
                writer.close()
            raise ConnectionLostError(f"the daemon at {self._address} went away: {error}") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn Flight's exceptions into ours."""
        try:
            yield
        except flight.FlightTimedOutError as error:
            raise ConnectionLostError(
                f"the daemon at {self._address} did not finish in {self._timeout:g} seconds; see its log, "
                "or give the client a larger timeout"
            ) from error
        except (flight.FlightUnavailableError, flight.FlightCancelledError) as error:
            if "handshake failed" in str(error) or "is not in peer certificate" in str(error):
                raise AuthError(
                    f"the daemon at {self._address} does not show a certificate that is trusted here: {error} (Give "
                    "tls_ca the certificate of the daemon's --tls-cert, or of its authority, and the address a name "
                    "that it is for; a daemon without --tls-cert is named by grpc:)"
                ) from error
            raise ConnectionLostError(
                f"the daemon at {self._address} cannot be reached, or went away: {error}"
                + (" (One with --tls-cert is named by grpc+tls:)" if self._address.scheme == "grpc" else "")
            ) from error
        except flight.FlightError as error:
            raise self._told(error) from error
        except StopIteration:
            raise ConnectionLostError(f"the daemon at {self._address} ended the stream before its result") from None
        except (pa.ArrowException, OSError) as error:
            raise ConnectionLostError(f"the exchange with the daemon at {self._address} failed: {error}") from error

    @staticmethod
    def _told(error: flight.FlightError) -> Exception:
        try:
            wire = json.loads(error.extra_info or b"")
        except ValueError:
            unknown = AuthError if isinstance(error, flight.FlightUnauthenticatedError) else DaemonError
            return unknown(str(error))
        return from_wire(wire)


def _metadata(chunk: flight.FlightStreamChunk) -> dict[str, Any]:
    if chunk.app_metadata is None:
        raise ProtocolError("the daemon sent rows where metadata must come")
    return json.loads(chunk.app_metadata.to_pybytes())
