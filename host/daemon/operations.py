"""The requests that both front ends take, as JSON, and their answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from host.daemon.definition import Definition, schema_to_wire
from host.daemon.frames import VERSION
from host.daemon.request import Request, Sender
from host.daemon.service import Service
from host.errors import DaemonError, ProtocolError
from host.windows.watermark_tracker import Mark

OPERATIONS = {
    "ping": "Is the daemon there?",
    "status": "Device, limits, and the statistics of every query.",
    "check": "Could a query ever be opened? spec, left_schema, right_schema, streaming. Takes nothing.",
    "open": "Open a query: query, spec, left_schema, right_schema, streaming.",
    "describe": "The definition of an open query: query.",
    "mark": "How far an open query has come, for other partitions of its join: query.",
    "close": "Close a query: query.",
}


def operate(service: Service, message: dict[str, Any]) -> dict[str, Any]:
    """Carry out one of `OPERATIONS`; raises the `MullionError` that the client is to be told."""
    operation = message.get("op")
    if operation == "ping":
        return {"protocol": VERSION, "device": service.device_name}
    if operation == "status":
        return service.status()
    if operation == "check":
        return {"schema": schema_to_wire(service.check(Definition.from_wire(message)))}
    if operation == "open":
        schema = service.open_query(_text(message, "query"), Definition.from_wire(message))
        return {"schema": schema_to_wire(schema)}
    if operation == "describe":
        return service.definition(_text(message, "query")).to_wire()
    if operation == "mark":
        mark = service.mark(_text(message, "query"))
        return {"mark": None if mark is None else asdict(mark)}
    if operation == "close":
        return {"closed": service.close_query(_text(message, "query"))}
    raise ProtocolError(f"unknown operation {operation!r}; there are {', '.join(OPERATIONS)} and process")


def begin(service: Service, message: dict[str, Any]) -> Request:
    """Open the request that a process message names."""
    sender = Sender(_text(message, "run", empty=True), _text(message, "instance", empty=True))
    return service.begin(_text(message, "query"), _number(message, "batch"), sender, _marks(message))


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


def _text(message: dict[str, Any], field: str, *, empty: bool = False) -> str:
    value = message.get(field)
    if not isinstance(value, str) or not (value or empty):
        raise ProtocolError(f"{field!r} must be a text{'' if empty else ' that is not empty'}, not {value!r}")
    return value


def _marks(message: dict[str, Any]) -> list[Mark]:
    try:
        return [Mark(**mark) for mark in message.get("marks", ())]
    except TypeError as error:
        raise ProtocolError(f"the marks of a join's partitions cannot be read: {error}") from error


def _number(message: dict[str, Any], field: str) -> int:
    value = message.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ProtocolError(f"{field!r} must be a number from 0, not {value!r}")
    return value
