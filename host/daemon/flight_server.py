"""The front end for clients on other hosts: Arrow Flight, with a bearer token, and TLS where given a
certificate.

Actions `ping`, `status`, `open` and `close` take and give JSON. A batch is one `DoExchange`: its command is
the JSON of a process request; the daemon answers with metadata that says whether it wants the rows; they come
as in `muntin.host.daemon.rows`, then metadata with the counts; the result comes back as record batches, then metadata
with its rows. The counts matter: to a Flight server, a client that was killed may look like one that sent its
last row.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import structlog
from pyarrow import flight

from muntin.host.arrow_versions import FLIGHT_SENDS_DICTIONARIES_ONCE
from muntin.host.daemon.address import Address
from muntin.host.daemon.operations import OPERATIONS, begin, commit, operate
from muntin.host.daemon.query import Request
from muntin.host.daemon.result import Result, internal_error
from muntin.host.daemon.rows import cut, unwrap
from muntin.host.daemon.service import Service
from muntin.host.errors import AuthError, DaemonError, MuntinError, ProtocolError, UnsupportedError, to_wire
from muntin.host.keys.kept_types import types_in
from muntin.host.tracing import serving, span


class TokenCheck(flight.ServerMiddlewareFactory):
    """Lets a call through where its bearer token is right."""

    def __init__(self, token: str, service: Service):
        super().__init__()
        self._expected = f"Bearer {token}".encode()
        self._service = service

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        """Check one call; `FlightUnauthenticatedError` to the client where the token is missing or wrong."""
        given = [
            str(value).encode()
            for name, values in headers.items()
            if name.lower() == "authorization"
            for value in values
        ]
        if len(given) == 1 and hmac.compare_digest(given[0], self._expected):
            return
        error = AuthError(
            "the daemon wants a token and got none; give the one in the daemon's --token-file"
            if not given
            else "the token is wrong; give the one in the daemon's --token-file"
        )
        self._service.count_error(error)
        structlog.get_logger("muntin.flight").warning("call refused", error="AuthError", message=str(error))
        raise flight.FlightUnauthenticatedError(str(error), json.dumps(to_wire(error)).encode())


class FlightServer(flight.FlightServerBase):
    """Takes calls at `host:port` as soon as it is made.

    Parameters
    ----------
    service : Service
        What answers.
    host, port : str, int
        Where to listen; port 0 lets the system choose.
    token : str
        What clients must present.
    tls : (bytes, bytes), optional
        Certificate chain and private key, PEM.

    Attributes
    ----------
    address : str
        What clients connect to.

    Raises
    ------
    DaemonError
        The address cannot be used, or the certificate cannot be read.
    """

    def __init__(self, service: Service, host: str, port: int, token: str, tls: tuple[bytes, bytes] | None = None):
        scheme = "grpc+tls" if tls else "grpc"
        self._service = service
        self._busy = 0
        self._idle = threading.Condition()
        self._log = structlog.get_logger("muntin.flight")
        try:
            super().__init__(
                str(Address(scheme, host=host, port=port)),
                tls_certificates=[tls] if tls else None,
                middleware={"token": TokenCheck(token, service)},
            )
        except (pa.ArrowException, OSError) as error:
            raise DaemonError(f"cannot listen at {host}:{port}: {error}") from error
        self.address = str(Address(scheme, host=host, port=self.port))

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        """The actions there are."""
        return [flight.ActionType(name, text) for name, text in OPERATIONS.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        """Carry out one action."""
        with self._call():
            message = {**_json(action.body or b"{}"), "op": action.type}
            with serving(message):
                return [json.dumps(operate(self._service, message)).encode()]

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Take one batch and answer with its result."""
        limits = self._service.limits
        with self._call(), ExitStack() as opened:
            message = _json(descriptor.command or b"")
            opened.enter_context(serving(message))
            with begin(self._service, message) as request:
                schema = request.query.definition.output_schema
                _check_sendable(schema)
                writer.begin(schema)
                writer.write_metadata(json.dumps(request.answer).encode())
                result: Result
                if request.kept is not None:
                    _read_end(reader)
                    result = request.kept
                else:
                    with span("receive"):
                        end = self._stage(request, reader)
                    result = commit(request, end)
                with span("send"):
                    for batch in cut(result.batches(), limits.result_rows, limits.max_message):
                        writer.write_batch(batch)
            writer.write_metadata(json.dumps({"end": result.num_rows}).encode())

    def stop(self, grace: float) -> bool:
        """Stop taking calls; returns whether every call could finish within `grace` seconds."""
        with self._idle:
            finished = self._idle.wait_for(lambda: self._busy == 0, grace)
        if finished:
            self.shutdown()
        return finished

    def _stage(self, request: Request, reader: flight.MetadataRecordBatchReader) -> dict[str, Any]:
        """Take the rows; returns the client's last message."""
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                raise ProtocolError(
                    f"query {request.query.name!r}, batch {request.batch}: the stream ended before the "
                    "client said that the batch was complete; nothing was applied"
                ) from None
            if chunk.data is not None:
                request.reserve(chunk.data.nbytes)
                for side, batch in unwrap(chunk.data):
                    request.add(side, batch)
            if chunk.app_metadata is not None:
                message = _json(chunk.app_metadata.to_pybytes())
                _read_end(reader)
                return message

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Count a call as in progress, and send its error in the form that the client reads."""
        with self._idle:
            self._busy += 1
        try:
            yield
        except MuntinError as error:
            raise self._told(error) from error
        except (flight.FlightError, pa.ArrowCancelled, OSError) as error:
            self._log.info("client went away", reason=str(error))
            raise
        except Exception as error:
            self._log.exception("request failed")
            raise self._told(internal_error(error)) from error
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def _told(self, error: MuntinError) -> flight.FlightServerError:
        self._service.count_error(error)
        self._log.info("request refused", error=type(error).__name__, message=str(error))
        return flight.FlightServerError(str(error), json.dumps(to_wire(error)).encode())


def _check_sendable(schema: pa.Schema) -> None:
    """Raises UnsupportedError where this pyarrow's Flight would send other values."""
    if not FLIGHT_SENDS_DICTIONARIES_ONCE:
        return
    for field in schema:
        if any(map(pa.types.is_dictionary, types_in(field.type))):
            raise UnsupportedError(
                f"column {field.name!r} of the result is {field.type}, and the daemon's pyarrow {pa.__version__} sends "
                "wrong values of dictionaries by Flight: install pyarrow>=22 beside the daemon, cast the column to its "
                "value type, or use the daemon's Unix socket"
            )


def _read_end(reader: flight.MetadataRecordBatchReader) -> None:
    """Wait for the client to end its stream: a call that ends before is an error to the client."""
    try:
        reader.read_chunk()
    except StopIteration:
        return
    raise ProtocolError("the client sent more after its last message")


def _json(body: Any) -> dict[str, Any]:
    try:
        message = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a request's JSON cannot be read: {error}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"a request's JSON must be an object, not {type(message).__name__}")
    return message
