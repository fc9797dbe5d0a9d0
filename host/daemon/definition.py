"""What defines an open query: its join, the schemas of its two sides, and whether it keeps a window."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from muntin.host.errors import MuntinError, ProtocolError
from muntin.host.join.late_rows import marked_schema
from muntin.host.spec import JoinSpec
from muntin.host.state.tables import KeptTable


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
    table : KeptTable or None
        What the rows of a stream meet, where a side is a table.
    fixed : dict of str to bool, or None
        What else its state goes on with alone, by the names of options.
    """

    spec: JoinSpec
    left_schema: pa.Schema
    right_schema: pa.Schema
    streaming: bool = True
    state: str | None = None
    table: KeptTable | None = None
    fixed: dict[str, bool] | None = None

    def sides(self, left: pa.Table, right: pa.Table) -> tuple[pa.Table | None, pa.Table | None]:
        """The rows of a batch as `WindowJoin.process` takes them: a self join has no right side, a table no rows."""
        absent = "right" if self.spec.self_join else self.spec.static
        taken = (
            None if side == absent and not rows.num_rows else rows for side, rows in (("left", left), ("right", right))
        )
        return next(taken), next(taken)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Columns of the result, with its late rows where these are kept.

        Raises what `marked_schema` does where the schemas do not fit, and for streams what
        `JoinSpec.check_endless` does.
        """
        if self.streaming:
            self.spec.check_endless()
        return marked_schema(self.spec, self.left_schema, self.right_schema)

    def schema(self, side: str) -> pa.Schema:
        """The schema of the "left" or "right" side."""
        return self.left_schema if side == "left" else self.right_schema

    @cached_property
    def digest(self) -> str:
        """What tells it from every other definition."""
        left, right = (schema.serialize().to_pybytes() for schema in (self.left_schema, self.right_schema))
        return _digest_of(self.spec.to_json(), left, right, self.streaming, self.state, self.table, self.fixed)

    def same(self, other: Definition) -> bool:
        """Whether both define the same query: the table may be another one at each start."""
        return self is other or (
            self.streaming == other.streaming
            and self.state == other.state
            and self.fixed == other.fixed
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
            "table": None if self.table is None else asdict(self.table),
            "fixed": self.fixed,
        }

    @classmethod
    def from_wire(cls, message: dict[str, Any]) -> Definition:
        """What `to_wire` made; `ProtocolError` where it cannot be read."""
        try:
            spec, left, right = (
                json.dumps(message["spec"], sort_keys=True),
                message["left_schema"],
                message["right_schema"],
            )
            streaming, state = bool(message["streaming"]), message.get("state")
            state = None if state is None else str(state)
            table = message.get("table")
            table = None if table is None else KeptTable(str(table["place"]), str(table["digest"]))
            fixed = message.get("fixed")
            fixed = None if fixed is None else {str(name): bool(value) for name, value in fixed.items()}
            schemas = schema_from_wire(left), schema_from_wire(right)
            read = cls(JoinSpec.from_json(spec), *schemas, streaming, state, table, fixed)
            # As its sender has written it: another release may write the same join otherwise.
            vars(read)["digest"] = _digest_of(spec, _decoded(left), _decoded(right), streaming, state, table, fixed)
            return read
        except MuntinError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"the definition of a query cannot be read: {error!r}") from error


def definition_digest(spec: str, left_schema: bytes, right_schema: bytes, *more: bytes) -> str:
    """The identity of a join, 64 hexadecimal digits.

    Parameters
    ----------
    spec : str
        As `JoinSpec.to_json` gives it.
    left_schema, right_schema : bytes
        Serialized Arrow schemas of the sides.
    more : bytes
        What else belongs to it.
    """
    digest = hashlib.sha256()
    for part in (spec.encode(), left_schema, right_schema, *more):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _digest_of(
    spec: str,
    left: bytes,
    right: bytes,
    streaming: bool,
    state: str | None,
    table: KeptTable | None,
    fixed: dict[str, bool] | None,
) -> str:
    more = [streaming, state, None if table is None else asdict(table), fixed]
    return definition_digest(spec, left, right, json.dumps(more).encode())


def schema_to_wire(schema: pa.Schema) -> str:
    """A schema as text: base64 of its Arrow IPC message."""
    return base64.b64encode(schema.serialize()).decode()


def schema_from_wire(text: str) -> pa.Schema:
    """The schema that `schema_to_wire` wrote."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(_decoded(text)))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise ProtocolError(f"a schema cannot be read: {error}") from error


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
