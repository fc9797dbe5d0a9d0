"""What defines an open query: its join, the schemas of its two sides, and whether it keeps a window."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from muntin.host.errors import MuntinError, ProtocolError
from muntin.host.spec import JoinSpec


@dataclass(frozen=True)
class Definition:
    """What a client opens a query with.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    left_schema, right_schema : pyarrow.Schema
        Of the rows that will come.
    streaming : bool
        True: batches continue one window. False: each request is a join of its own.
    state : str or None
        The place under which the daemon keeps the window's state, for streams; by default the daemon's own, if any.
    """

    spec: JoinSpec
    left_schema: pa.Schema
    right_schema: pa.Schema
    streaming: bool = True
    state: str | None = None

    def sides(self, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """The rows of a batch as `WindowJoin.process` takes them: a self join has no right side."""
        return left, None if self.spec.self_join and not right.num_rows else right

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Columns of the result.

        Raises what `JoinSpec.output_schema` does where the schemas do not fit, and for streams what
        `JoinSpec.check_endless` does.
        """
        if self.streaming:
            self.spec.check_endless()
        return self.spec.output_schema(self.left_schema, self.right_schema)

    def schema(self, side: str) -> pa.Schema:
        """The schema of the "left" or "right" side."""
        return self.left_schema if side == "left" else self.right_schema

    def same(self, other: Definition) -> bool:
        """Whether both define the same query."""
        return self is other or (
            self.streaming == other.streaming
            and self.state == other.state
            and (
                self.spec.to_json() == other.spec.to_json()
                or json.loads(self.spec.to_json()) == json.loads(other.spec.to_json())
            )
            and self.left_schema.equals(other.left_schema)
            and self.right_schema.equals(other.right_schema)
        )

    def to_wire(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "spec": json.loads(self.spec.to_json()),
            "left_schema": schema_to_wire(self.left_schema),
            "right_schema": schema_to_wire(self.right_schema),
            "streaming": self.streaming,
            "state": self.state,
        }

    @classmethod
    def from_wire(cls, message: dict[str, Any]) -> Definition:
        """What `to_wire` made; `ProtocolError` where it cannot be read."""
        try:
            return _read(
                json.dumps(message["spec"]),
                message["left_schema"],
                message["right_schema"],
                bool(message["streaming"]),
                None if message.get("state") is None else str(message["state"]),
            )
        except MuntinError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"the definition of a query cannot be read: {error!r}") from error


@lru_cache(maxsize=256)  # every task of a query opens it with the same definition
def _read(spec: str, left: str, right: str, streaming: bool, state: str | None) -> Definition:
    return Definition(JoinSpec.from_json(spec), schema_from_wire(left), schema_from_wire(right), streaming, state)


def schema_to_wire(schema: pa.Schema) -> str:
    """A schema as text: base64 of its Arrow IPC message."""
    return base64.b64encode(schema.serialize()).decode()


def schema_from_wire(text: str) -> pa.Schema:
    """The schema that `schema_to_wire` wrote."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise ProtocolError(f"a schema cannot be read: {error}") from error
