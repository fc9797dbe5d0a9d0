"""The requests that both front ends take, as JSON, and their answers."""

from __future__ import annotations

import json
import operator
from typing import Any

from muntin.host.daemon.definition import Definition, schema_to_wire
from muntin.host.daemon.frames import VERSION
from muntin.host.daemon.query import Request
from muntin.host.daemon.result import KeptResult, Result, internal_error
from muntin.host.daemon.service import Service
from muntin.host.daemon.staging import PartKey, Sender
from muntin.host.errors import MuntinError, ProtocolError
from muntin.host.spec import JoinSpec

OPERATIONS = {
    "ping": "Is the daemon there?",
    "status": "Device, limits, and the statistics of every query.",
    "check": "Could a query ever be opened? spec, left_schema, right_schema, streaming, state; windows: pairs of a "
    "join and its names. Takes nothing.",
    "open": "Open a query: query, title; definition (a digest), or spec, left_schema, right_schema, streaming, state, "
    "table.",
    "figures": "Those of a batch, of all queries of a name or with that before a slash: query, batch.",
    "routes": "Where the rows of a batch go: query, batch, partitions.",
    "describe": "The definition of an open query: query.",
    "close": "Close a query: query.",
}


def operate(service: Service, message: dict[str, Any]) -> dict[str, Any]:
    """Carry out one of `OPERATIONS`; raises the `MuntinError` that the client is to be told."""
    operation = message.get("op")
    if operation == "ping":
        return {"protocol": VERSION, "device": service.device_name}
    if operation == "status":
        return service.status()
    if operation == "check":
        return {"schema": schema_to_wire(service.check(Definition.from_wire(message), _windows(message)))}
    if operation == "open":
        title = None if message.get("title") is None else _text(message, "title")
        if "definition" in message:
            definition = service.known(_text(message, "definition"))
            if definition is None:
                return {"definition_wanted": True}
        else:
            definition = Definition.from_wire(message)
            service.learn(definition)
        schema = service.open_query(_text(message, "query"), definition, title)
        return {"schema": schema_to_wire(schema)}
    if operation == "routes":
        numbers = _number(message, "batch"), _number(message, "partitions")
        return {"routes": service.routes(_text(message, "query"), *numbers)}
    if operation == "figures":
        return {"figures": service.figures(_text(message, "query"), _number(message, "batch"))}
    if operation == "describe":
        return service.definition(_text(message, "query")).to_wire()
    if operation == "close":
        return {"closed": service.close_query(_text(message, "query"))}
    raise ProtocolError(f"unknown operation {operation!r}; there are {', '.join(OPERATIONS)} and process")


def begin(service: Service, message: dict[str, Any]) -> Request:
    """Open the request that a process message names: of rows, or of the parts that were staged before."""
    if "keys" in message:
        query, batch = _text(message, "query"), _number(message, "batch")
        return service.fetch(query, batch, _keys(message["keys"]), rows=bool(message.get("rows", True)))
    sender = Sender(_text(message, "run", empty=True), _text(message, "instance", empty=True))
    request = service.begin(_text(message, "query"), _number(message, "batch"), sender)
    if message.get("part"):
        request.parts = True
        request.kept = None if request.kept is None else KeptResult(request.kept.schema)
    return request


def commit(request: Request, message: dict[str, Any]) -> Result:
    """Apply a staged request whose sender says it is complete, and counts its rows; or keep it as a part of a batch."""
    left_rows, right_rows = _number(message, "left_rows"), _number(message, "right_rows")
    try:
        if "key" in message:
            (key,) = _keys([message["key"]])
            request.stage(left_rows, right_rows, key, _call(message.get("call")))
            return KeptResult(request.query.definition.output_schema)
        return request.commit(left_rows, right_rows)
    except OSError as error:
        # An OSError from here must not be taken for one of the client's connection.
        raise internal_error(error) from error


def _text(message: dict[str, Any], field: str, *, empty: bool = False) -> str:
    value = message.get(field)
    if not isinstance(value, str) or not (value or empty):
        raise ProtocolError(f"{field!r} must be a text{'' if empty else ' that is not empty'}, not {value!r}")
    return value


def _windows(message: dict[str, Any]) -> dict[str, JoinSpec] | None:
    """The joins that a query is opened in, by their names, as `DaemonClient.check` sends them."""
    if "windows" not in message:
        return None
    try:
        read = [(JoinSpec.from_json(json.dumps(spec)), names) for spec, names in message["windows"]]
        return {name: spec for spec, names in read for name in names}
    except MuntinError:
        raise
    except (TypeError, ValueError, KeyError) as error:
        raise ProtocolError(f"the windows of a query cannot be read: {error!r}") from error


def _keys(values: Any) -> list[PartKey]:
    try:
        keys = [PartKey(*map(operator.index, value)) for value in values]
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"the keys of a batch's parts cannot be read: {error}") from error
    if any(not 0 <= number < 1 << 63 for key in keys for number in key):
        raise ProtocolError("the keys of a batch's parts must be numbers from 0")
    return keys


def _call(value: Any) -> dict[str, Any]:
    """What a part tells the partitions of its join."""
    if not isinstance(value, dict):
        raise ProtocolError(f"a part's 'call' must be an object, not {value!r}")
    partition, partitions = _number(value, "partition"), _number(value, "partitions")
    if not partition < partitions:
        raise ProtocolError(f"there is no partition {partition} of {partitions}")
    return value


def _number(message: dict[str, Any], field: str) -> int:
    value = message.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ProtocolError(f"{field!r} must be a number from 0, not {value!r}")
    return value
