"""Rows that came too late to be joined, for joins that give them (``late="keep"``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from muntin.host.engine.row_log import empty_table, picked
from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.keys.kept_types import returned
from muntin.host.sides import Side, Sides
from muntin.host.spec import JoinSpec

if TYPE_CHECKING:
    from muntin.host.join.sequencer import SequencedCall

Tables = Generator[pa.Table, None, None]

LATE = "_late"
"""The column of a result that holds late rows too: the side of these, NULL in all others."""


def late_rows(call: SequencedCall | None, schemas: Mapping[Side, pa.Schema]) -> Sides[pa.Table]:
    """The late rows of a call in the order of their arrival, by side, with these columns; of no call, none."""
    return {
        side: empty_table(schema)
        if call is None or side not in call.late_rows
        else _as_given(picked(call.tables[side], call.late_rows[side]), schema)
        for side, schema in schemas.items()
    }


def _as_given(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([returned(table.column(field.name), field.type) for field in schema], schema=schema)


def marked_schema(spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Of a result that holds the late rows too, where these are kept.

    Raises
    ------
    UnsupportedError
        A side whose rows may be late has no columns in the result.
    SchemaError
        Two columns have one name; a column that both sides share has two types.
    MuntinError
        What `JoinSpec.output_schema` raises.
    """
    schema = spec.output_schema(left, right)
    if spec.late == "drop":
        return schema
    form = "at='close'" if spec.closing else f"form={spec.form!r}"
    advice = "use form='rows', or a WindowJoin in one process, whose `late` has them whatever the form"
    if spec.form != "rows":
        raise UnsupportedError(
            f"late='keep' gives late rows in the columns of the result, and {form} has none for both sides: {advice}"
        )
    watermark = spec.watermark
    shared = spec.within is not None and spec.within.equal_times
    if spec.left_alone and watermark is not None and (watermark.right is not None or shared):
        raise UnsupportedError(
            f"late='keep' gives late rows in the columns of the result, and how={spec.how!r} has none for those of the "
            "right side, which has a watermark: use how='left' (an anti join is its rows without a match), or a "
            "WindowJoin in one process, whose `late` has them"
        )
    if LATE in schema.names:
        raise SchemaError(f"the result would have two columns {LATE!r}, of late rows too: rename yours")
    for name in spec.keys:
        if left.field(name).type != right.field(name).type:
            raise SchemaError(
                f"column {name!r} has type {left.field(name).type} on the left and {right.field(name).type} on the "
                "right side, and late rows of both are given in one column: cast one"
            )
    return pa.schema([*(field.with_nullable(True) for field in schema), pa.field(LATE, pa.string())])


def _marked_rows(spec: JoinSpec, late: Mapping[Side, pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Late rows by side, whose columns are those of the sides, as `marked_schema` has them."""
    left = late["left"].schema
    for side, rows in late.items():
        if not rows.num_rows:
            continue
        taken = [
            rows.column(column)
            if of in (side, "both") or column in spec.keys
            else pa.nulls(rows.num_rows, schema.field(name).type)
            for of, column, name in spec.output_columns(left, late["right"].schema if "right" in late else left)
        ]
        yield pa.table([*taken, pa.array([side] * rows.num_rows)], schema=schema)


class GivesLateRows(Protocol):
    """A join, as far as its late rows go."""

    @property
    def spec(self) -> JoinSpec: ...

    @property
    def late(self) -> Sides[pa.Table]: ...


def marked(
    join: GivesLateRows, tables: Tables, schema: pa.Schema, given: Callable[[Side, pa.Table], pa.Table] | None = None
) -> Tables:
    """The result of a call of a join with this schema: where late rows are kept, they come last. `given` tells which of
    those of a side do; by default all."""
    try:
        for table in tables:
            yield with_mark(table, schema)
        if join.spec.late == "keep":
            late = join.late
            if given is not None:
                late = {side: given(side, rows) for side, rows in late.items()}
            yield from _marked_rows(join.spec, late, schema)
    finally:
        tables.close()


def with_mark(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a result that are not late, as `marked_schema` has them."""
    if len(schema) == table.num_columns:
        return table
    return pa.table([*table.columns, pa.nulls(table.num_rows, pa.string())], schema=schema)
