"""The requests that both front ends take, as JSON, and their answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from host.daemon.definition import Definition, schema_to_wire
from host.daemon.frames import VERSION
from host.daemon.request import Request
from host.daemon.service import Service
from host.errors import DaemonError, ProtocolError

OPERATIONS = {
    "ping": "Is the daemon there?",
    "status": "Device, limits, and the statistics of every query.",
    "open": "Open a query: query, spec, left_schema, right_schema, streaming.",
    "describe": "The definition of an open query: query.",
    "close": "Close a query: query.",
}


def operate(service: Service, message: dict[str, Any]) -> dict[str, Any]:
    """Carry out one of `OPERATIONS`; raises the `MullionError` that the client is to be told."""
    operation = message.get("op")
    if operation == "ping":
        return {"protocol": VERSION, "device": service.device_name}
    if operation == "status":
        return service.status()
    if operation == "open":
        schema = service.open_query(_text(message, "query"), Definition.from_wire(message))
        return {"schema": schema_to_wire(schema)}
    if operation == "describe":
        return service.definition(_text(message, "query")).to_wire()
    if operation == "close":
        return {"closed": service.close_query(_text(message, "query"))}
    raise ProtocolError(f"unknown operation {operation!r}; there are {', '.join(OPERATIONS)} and process")


def begin(service: Service, message: dict[str, Any]) -> Request:
    """Open the request that a process message names."""
    numbers = [_number(message, field) for field in ("batch", "partition", "attempt")]
    return service.begin(_text(message, "query"), *numbers)


def commit(request: Request, message: dict[str, Any]) -> pa.Table:
    """Apply a staged request whose sender says it is complete, and counts its rows."""
    left_rows, right_rows = _number(message, "left_rows"), _number(message, "right_rows")
    try:
        return request.commit(left_rows, right_rows)
    except OSError as error:
        # An OSError from here must not be taken for one of the client's connection.
        raise internal_error(error) from error


def internal_error(error: Exception) -> DaemonError:
    """What a client is told where the daemon itself failed."""
    return DaemonError(f"the daemon failed ({type(error).__name__}: {error}); its log has the details")


def _text(message: dict[str, Any], field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str) or not value:
        raise ProtocolError(f"{field!r} must be a text that is not empty, not {value!r}")
    return value


def _number(message: dict[str, Any], field: str) -> int:
    value = message.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ProtocolError(f"{field!r} must be a number from 0, not {value!r}")
    return value
