"""How a join is carried out: each choice, and each refusal of one, made once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.devices import Device
from muntin.host.engine.row_log import check_columns, empty_table
from muntin.host.engines import EngineKind, Partitions, Steps, open_partitioning
from muntin.host.errors import SchemaError, StateError, UnsupportedError
from muntin.host.index import Index, SortedRuns
from muntin.host.keys.condition import in_words
from muntin.host.keys.kept_types import fields_in, is_kept_as_is, kept
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.spec import JoinSpec, OutputColumn
from muntin.host.state.log import Record, schema_of, schema_text

FIRST_ROW = 0
"""The arrival number of the first row of each stream."""

_UNREGISTERED = ": have pyarrow.register_extension_type register it before the join is opened"
_MAY_CHANGE = ("index", "engine", "capacity")  # what a join that goes on from its state may have otherwise


def plan_join(
    spec: JoinSpec,
    schemas: Mapping[Side, pa.Schema],
    device: Device,
    *,
    partitions: int | Partitions = 1,
    state: bool = False,
) -> JoinPlan:
    """How a join is carried out on a device.

    Parameters
    ----------
    spec : JoinSpec
    schemas : mapping of str to pyarrow.Schema
        Columns of the sides that are known, by "left" and "right"; `JoinPlan.with_columns` adds others.
    device : Device
    partitions : int or Partitions
        As of `WindowJoin`.
    state : bool
        Its calls are logged.

    Raises
    ------
    PredicateError, WindowError, SchemaError, KeyTypeError, UnsupportedError
        The join makes no sense, or what was chosen does not go together.
    """
    partitions = open_partitioning(partitions)
    kind = device.engine(spec.engine)
    index = device.index(spec.index, kind)
    _check_partitions(spec, device, kind, partitions)
    _check_form(spec, device, index, kind, state=state)
    return JoinPlan(spec, device, kind, index, partitions).with_sides(schemas)


@dataclasses.dataclass(frozen=True)
class SideColumns:
    """The columns of one side that the join reads or gives out.

    Attributes
    ----------
    side : str
    schema : pyarrow.Schema
    strict : tuple of str
        Those that are not null.
    as_is : bool
        They are kept with the types that they have.
    """

    side: Side
    schema: pa.Schema
    strict: tuple[str, ...]
    as_is: bool

    @classmethod
    def of(cls, side: Side, schema: pa.Schema) -> SideColumns:
        """Raises SchemaError, KeyTypeError."""
        check_columns(side, schema)  # a sequence puts them in order, in any form
        strict = tuple(field.name for field in schema if not field.nullable)
        return cls(side, schema, strict, all(is_kept_as_is(field.type) for field in schema))

    def kept(self, table: pa.Table | None) -> pa.Table:
        """These columns of a batch, as they are kept; of none, no rows. Raises SchemaError."""
        if table is None:
            table = empty_table(self.schema)
        elif not table.schema.equals(self.schema):
            table = table.select(self.schema.names)
        for name in self.strict:
            if (column := table.column(name)).null_count:
                raise SchemaError(
                    f"column {name!r} of the {self.side} batch has NULL, and is not null by the columns that the join "
                    "was opened with: give them as they may be, by left_schema= and right_schema="
                ).of_rows(self.side, np.flatnonzero(column.is_null().to_numpy()), name)
        if not table.schema.equals(self.schema):
            table = pa.table(table.columns, schema=self.schema)
        return table if self.as_is else kept(table)


@dataclasses.dataclass(frozen=True)
class JoinPlan:
    """A join, and what was chosen for it.

    Attributes
    ----------
    spec : JoinSpec
    device : Device
    engine_kind : EngineKind
    index : Index
    partitions : Partitions
        With what rows go by, once both sides are known.
    schemas : mapping of str to pyarrow.Schema
        All columns of each side, as far as they are known.
    columns : mapping of str to SideColumns
        The needed ones, once both sides are known.
    output_schema : pyarrow.Schema or None
        Of the result, once both sides are known.
    """

    spec: JoinSpec
    device: Device
    engine_kind: EngineKind
    index: Index
    partitions: Partitions
    schemas: Mapping[Side, pa.Schema] = dataclasses.field(default_factory=dict)
    columns: Mapping[Side, SideColumns] = dataclasses.field(default_factory=dict)
    output_schema: pa.Schema | None = None

    # Choices

    @property
    def key_bits(self) -> int:
        """Of the widest composite key."""
        if self.spec.form == "ranges":  # a mirror has keys of 64 bits
            return 64
        return self.device.key_bits(self.index, self.engine_kind)

    @property
    def _beside(self) -> tuple[int, ...]:
        """As of `Device.beside`, of the residual parts of the condition; an index that takes all says so itself."""
        if self.spec.as_of is not None or self.index.conjunctive:
            return ()
        condition = self.spec.condition(self.schemas["left"], self.schemas["right"], self.key_bits)
        return self.device.beside(self.index, condition.residuals)

    @property
    def engine_name(self) -> str:
        """What runs the join."""
        return self.engine_kind.name if self.spec.as_of is None else "as-of"

    @property
    def index_name(self) -> str:
        """What the windows are kept in; an as-of join has its own."""
        return self.index.name if self.spec.as_of is None else ""

    @cached_property
    def paired(self) -> bool:
        """Whether pairs come out as the engine finds them."""
        return self.spec.form in ("rows", "pairs") and self.spec.as_of is None

    @cached_property
    def streams(self) -> tuple[Side, ...]:
        """The sides that have rows of their own: of a self join the left one."""
        return SIDES[:1] if self.spec.self_join else SIDES

    @cached_property
    def roles(self) -> Sides[tuple[Side, ...]]:
        """Of each side the sides whose rows are its own."""
        return {side: SIDES if self.spec.self_join else (side,) for side in SIDES}

    @cached_property
    def waits(self) -> bool:
        """Whether the engine lets rows wait until the watermark, or the end of the streams, decides their result."""
        return self.spec.closing or self.spec.as_of is not None

    @property
    def output_columns(self) -> list[OutputColumn]:
        """Of a result of rows, as of `JoinSpec.output_columns`."""
        return self.spec.output_columns(self.schemas["left"], self.schemas["right"]) if self.spec.form == "rows" else []

    def aggregates(self) -> AggregatePlan | None:
        """How aggregates are made, for ``form="aggregate"``. Raises SchemaError, KeyTypeError."""
        if self.spec.form != "aggregate":
            return None
        return self.spec.plan(self.schemas["left"], self.schemas["right"], apart=self.partitions.count > 1)

    def logged(self, aggregates: AggregatePlan | None) -> Sides[pa.Schema]:
        """The columns of each side whose rows are kept for output; of a self join, of the left one."""
        left, right = self.schemas["left"], self.schemas["right"]
        given = self.spec.form == "rows" or self.spec.closing
        columns = self.spec.output_columns(left, right) if given else []
        logged: Sides[pa.Schema] = {}
        for side in self.streams:
            roles = self.roles[side]
            names = {name for taken, name, _ in columns if taken in (*roles, "both")}
            if aggregates is not None:
                names |= {name for role in roles for name in aggregates.logged.get(role, ())}
            if names:
                logged[side] = _only(self.schemas[side], names)
        return logged

    # Columns

    @property
    def complete(self) -> bool:
        """Whether the columns of both sides are known."""
        return self.output_schema is not None

    def with_sides(self, schemas: Mapping[Side, pa.Schema]) -> JoinPlan:
        """The plan where these sides have these columns. Raises as `with_columns`."""
        if self.spec.self_join and len(schemas) == len(SIDES) and schemas["left"] != schemas["right"]:
            raise SchemaError("the two sides of a self join are one stream, but their columns differ")
        plan = self
        for side, schema in schemas.items():
            plan = plan.with_columns(side, schema)
        return plan

    def with_columns(self, side: Side, schema: pa.Schema) -> JoinPlan:
        """The plan where a side has these columns.

        Raises
        ------
        SchemaError, KeyTypeError, PredicateError, WindowError, UnsupportedError
            They are not those that the side has had before, or do not go with the join.
        """
        known = self.schemas.get(side)
        if known is not None:
            if not schema.equals(known):
                _check_same(side, schema, known)
            return self
        schema = schema.remove_metadata()
        self.spec.check_side(side, schema)
        schemas = {**self.schemas, **dict.fromkeys(self.roles[side], schema)}
        plan = dataclasses.replace(self, schemas=schemas)
        return plan._completed() if len(schemas) == len(SIDES) else plan

    def _completed(self) -> JoinPlan:
        left, right = self.schemas["left"], self.schemas["right"]
        schema = self.spec.output_schema(left, right)
        self.aggregates()
        partitions = self._placed()
        columns = {}
        for side in SIDES:
            names = {name for role in self.roles[side] for name in self.spec.kept_columns(role, left, right)}
            columns[side] = SideColumns.of(side, _only(self.schemas[side], names))
        return dataclasses.replace(self, columns=columns, output_schema=schema, partitions=partitions)

    def _placed(self) -> Partitions:
        """The partitions with what their rows go by. Raises UnsupportedError."""
        by = self.partitions.by
        if self.partitions.count == 1 or self.spec.as_of is not None:
            return self.partitions
        condition = self.spec.condition(self.schemas["left"], self.schemas["right"], self.key_bits)
        if self.spec.form == "ranges":  # whose rows a mirror can follow
            by = "subwindows"
        elif by == "auto":
            by = "equality" if condition.has_equality else "ranges" if condition.bounded else "subwindows"
        if by == "equality" and not condition.has_equality:
            raise UnsupportedError(
                "partitions by equality need a part of the condition that compares for equality, and this one has "
                "none: use by='ranges' or by='subwindows'"
            )
        return dataclasses.replace(self.partitions, by=by)

    def unknown_columns(self) -> SchemaError:
        """The error of a call before the columns of both sides are known."""
        side = "right" if "left" in self.schemas else "left"
        return SchemaError(
            f"the columns of the {side} side are not known yet: give {side}_schema= when the join is made, "
            f"or a batch of the {side} side, which may be empty, in the first call"
        )

    # State

    def definition(self, fixed: dict[str, Any], table: str | None) -> dict[str, Any]:
        """What defines the join, for its state: with what is `fixed`, and the digest of the table that is met."""
        more = {name: value for name, value in (("table", table), ("fixed", fixed)) if value}
        return {"spec": self._kept_spec(), "schemas": self._schema_texts(), **more}

    def check_kept(self) -> None:
        """Raises SchemaError if a state would give a column back in another type."""
        for side, schema in self.schemas.items():
            for field in schema:
                kept = schema_of(schema_text(pa.schema([field]))).field(0).type
                if kept != field.type:
                    raise SchemaError(
                        f"column {field.name!r} of the {side} side has type {field.type}, which a state would give "
                        f"back as {kept}{_UNREGISTERED}"
                    )

    def _kept_spec(self) -> dict[str, Any]:
        return {name: value for name, value in json.loads(self.spec.to_json()).items() if name not in _MAY_CHANGE}

    def _schema_texts(self) -> dict[str, str]:
        return {side: schema_text(schema) for side, schema in self.schemas.items()}

    def going_on(
        self, record: Record, place: str, schemas: Mapping[Side, pa.Schema], fixed: dict[str, Any]
    ) -> Sides[pa.Schema]:
        """The columns of both sides, where a join goes on from the newest call of its state: those in the state where
        none are given.

        Raises
        ------
        StateError
            The state belongs to another join, has other columns, or an extension type that is not registered now, of a
            side whose columns are not given.
        """
        now, then = self._kept_spec() | fixed, record.join["spec"] | record.join.get("fixed", {})
        for name in sorted({*now, *then}):
            if now.get(name) != then.get(name):
                raise StateError(
                    f"the state in {place} belongs to a join with {name}={then.get(name)!r}, not {now.get(name)!r}: "
                    "go on with the join as it was, or start with empty state"
                )
        found = {}
        for side in SIDES:
            logged = schema_of(record.join["schemas"][side])
            given = next((schemas[role] for role in (side, *self.roles[side]) if role in schemas), None)
            if given is None:
                _check_registered(side, logged, place)
            found[side] = logged if given is None else given.remove_metadata()
            _check_logged(side, found[side], logged, place)
        return found

    # In words

    def explain(self, memory: int | None = None, report: Mapping[str, Any] | None = None) -> str:
        """What was chosen, a line each.

        Parameters
        ----------
        memory : int, optional
            Bytes on the device, of a join that is open.
        report : mapping of str to Any, optional
            As of `EngineStatus.report`, of one that is.

        Raises
        ------
        SchemaError
            The columns of a side are not known yet.
        """
        for side in SIDES:
            if side not in self.schemas:
                raise SchemaError(f"the columns of the {side} side are not known yet: give {side}_schema=")
        report = report or {}
        lines = [f"device:    {self.device.info.name}", f"engine:    {self.engine_name}"]
        if self.index_name:
            lines.append(f"index:     {self.index_name}")
        if self.partitions.count > 1:
            by = "equality" if self.spec.as_of is not None else self.partitions.by
            lines.append(f"spread:    over {self.partitions.count} partitions, by {by}")
        if memory is not None:
            residual = report.get("residual_bytes", 0)
            lines.append(f"memory:    {memory:,} bytes on the device")
            lines[-1] += f", {residual:,} for residual keys" if residual else ""
        driver = report.get("driver", 0)
        left, right = self.schemas["left"], self.schemas["right"]
        lines.append(self.spec.explain(left, right, self.key_bits, driver, self._beside))
        if report.get("selectivity") is not None:
            lines.append(f"kept:      {report['selectivity']:.3%} of the pairs that the driver found")
        if report.get("shares") is not None:
            shares = list(report["shares"])
            shares = [shares.pop(driver), *shares]
            lines.append(f"shares:    {', '.join(f'{share:.3%}' for share in shares)} of all pairs in the windows,")
            lines[-1] += f" by samples, in this order; the driver was changed {report['driver_changes']} times"
        return "\n".join(lines)

    def __str__(self) -> str:
        if not self.complete:
            return f"condition: {in_words(self.spec.on)}\nThe columns of the sides are not known yet."
        return self.explain()


# What does not go together


def _check_form(spec: JoinSpec, device: Device, index: Index, kind: EngineKind, *, state: bool) -> None:
    """Raises UnsupportedError."""
    if spec.form == "ranges":
        if index.name not in device.range_indexes or kind.name != Steps.name:
            raise UnsupportedError(
                f"form='ranges' is for device 'cpu' with index='sorted_runs' or 'bisort', not for "
                f"{index.name!r} on {device.info.name!r}: use 'pairs'"
            )
        if state:
            raise UnsupportedError("form='ranges' has no state: what a mirror knows of the runs would be lost")
    if spec.as_of is not None and not device.as_of:
        raise UnsupportedError(f"as-of joins run on device 'cpu', not on {device.info.name!r}: leave device= out")
    plain = kind.name == Steps.name and index.name == SortedRuns.name
    if spec.form == "aggregate" and not (device.aggregates and plain):
        raise UnsupportedError(
            f"form='aggregate' is for device 'cpu' with index='sorted_runs' and engine='steps', not for "
            f"{index.name!r} and {kind.name!r} on {device.info.name!r}: use 'rows', and group by"
        )


def _check_partitions(spec: JoinSpec, device: Device, kind: EngineKind, partitions: Partitions) -> None:
    """Raises UnsupportedError."""
    count = partitions.count
    if partitions.width is not None:
        raise UnsupportedError(
            f"width={partitions.width!r} is for partitions in Spark; in one process ranges follow the data: omit it"
        )
    if count == 1:
        return
    if spec.as_of is not None:
        if not spec.as_of.by or partitions.by not in ("auto", "equality"):
            raise UnsupportedError(
                f"partitions={count} of an as-of join go by its by= columns alone: give some, or leave partitions out"
            )
        return
    if spec.capacity:
        raise UnsupportedError(
            f"capacity={spec.capacity!r} is for one window, not for partitions={count}: leave one out"
        )
    if spec.form == "ranges" and partitions.by not in ("auto", "subwindows"):
        raise UnsupportedError(
            "form='ranges' is for partitions by subwindows, whose rows a mirror can follow: leave by= out"
        )
    if kind.name != Steps.name:
        what = f"engine={kind.name!r} of device {device.info.name!r} has parts of its own, and no partitions"
        other = "use engine='steps'" if Steps.name in device.engines else "leave partitions out, or choose device='cpu'"
        raise UnsupportedError(f"{what}: {other}")


def _check_same(side: Side, schema: pa.Schema, known: pa.Schema) -> None:
    """Raises SchemaError unless a batch has the columns that its side has had, in any order."""
    for name in known.names:
        if name not in schema.names:
            raise SchemaError(f"the {side} batch lacks the column {name!r} that earlier ones had")
        if schema.field(name).type != known.field(name).type:
            now, before = str(schema.field(name).type), str(known.field(name).type)
            where = ": they differ in which parts may be NULL" if now == before else ""
            raise SchemaError(f"column {name!r} of the {side} batch has type {now}, but had {before} before{where}")
    extra = [name for name in schema.names if name not in known.names]
    if extra:
        raise SchemaError(f"the {side} batch has a column {extra[0]!r} that earlier ones had not")


def _check_registered(side: Side, logged: pa.Schema, place: str) -> None:
    """Raises StateError where the state has a column of an extension type that is not registered now."""
    for field in logged:
        for part in fields_in(field):
            name = (part.metadata or {}).get(b"ARROW:extension:name")
            if name is not None and not isinstance(part.type, pa.BaseExtensionType):
                raise StateError(
                    f"the {side} column {field.name!r} has the extension type {name.decode()!r} in the state in "
                    f"{place}{_UNREGISTERED}, or give {side}_schema= with type {field.type} to take its storage"
                )


def _check_logged(side: Side, schema: pa.Schema, logged: pa.Schema, place: str) -> None:
    """Raises StateError unless a side has the columns that are in the state, and others that may be NULL."""
    for field in logged:
        if field.name not in schema.names:
            raise StateError(f"the state in {place} has the {side} column {field.name!r}, which is gone now")
        kind = schema.field(field.name).type
        if kind != field.type:
            unknown = isinstance(kind, pa.BaseExtensionType) and kind.storage_type == field.type
            raise StateError(
                f"the {side} column {field.name!r} has type {field.type} in the state in {place}, now {kind}"
                + (_UNREGISTERED if unknown else "")
            )
    for field in schema:
        if field.name not in logged.names and not field.nullable:
            raise StateError(
                f"the {side} column {field.name!r} is not in the state in {place}: a column that is added must "
                "allow NULL"
            )


def _only(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """The fields of these names."""
    return pa.schema([field for field in schema if field.name in names])
