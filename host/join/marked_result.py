"""Results with the late rows of their call, for whoever has them as one stream of rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from muntin.host.join import Tables, WindowJoin
from muntin.host.join.late_rows import marked_rows
from muntin.host.sides import Side


def marked(
    join: WindowJoin, tables: Tables, schema: pa.Schema, given: Callable[[Side, pa.Table], pa.Table] | None = None
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
            yield from marked_rows(join.spec, late, schema)
    finally:
        tables.close()


def with_mark(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a result that are not late, as `marked_schema` has them."""
    if len(schema) == table.num_columns:
        return table
    return pa.table([*table.columns, pa.nulls(table.num_rows, pa.string())], schema=schema)
