"""What `muntin join` does."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv

from muntin.host import arguments
from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files import TableReader, TableWriter, in_turns, interleave
from muntin.host.predicates.as_of import DIRECTIONS
from muntin.host.progress import Progress
from muntin.host.spec import JoinSpec
from muntin.host.window_join import WindowJoin
from muntin.host.windows import Rows


def run_join(
    left: Path,
    right: Path,
    conditions: tuple[str, ...],
    all_of: bool,
    wheres: tuple[str, ...],
    times: str | None,
    direction: str | None,
    tolerance: str | None,
    by: tuple[str, ...],
    not_exact: bool,
    explain: bool,
    left_rows: int | None,
    right_rows: int | None,
    within: str | None,
    batch_rows: int,
    output: Path | None,
    device: str,
    select: str | None,
    **options: Any,
) -> None:
    """Joins two files, as the options of `muntin join` say."""

    for side in (left, right):
        if output is not None and output.exists() and output.samefile(side):
            raise UnsupportedError(f"--output {output} is the input {side}, which it would replace: name another file")
    # What is half written is removed on this signal, too.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if times is None and not conditions:
        raise click.UsageError("the join needs a condition: give --on, or --as-of")
    if times is None and (direction or tolerance is not None or by or not_exact):
        raise click.UsageError("--direction, --tolerance, --by and --not-exact are for --as-of")
    if times is not None and (conditions or all_of):
        raise click.UsageError(
            "beside its times and --by an as-of join takes parts about one side, by --where: --as-of excludes --on and "
            "--all-of"
        )
    sides = TableReader(left, batch_rows), TableReader(right, batch_rows)
    schemas = sides[0].schema, sides[1].schema
    window = arguments.within(within)
    on: Any
    if times is None:
        given = window is not None or left_rows is not None or right_rows is not None
        on, bounded = arguments.condition(conditions, wheres, *schemas, all_of=all_of, windowed=given)
        window = window if given else bounded
    else:
        on = arguments.as_of(
            times,
            *schemas,
            direction=direction or DIRECTIONS[0],
            tolerance=tolerance,
            by=by,
            exact=not not_exact,
            wheres=wheres,
        )
    spec = JoinSpec(
        on=on,
        within=window,
        select=arguments.names(select),
        **_rows(left_rows, right_rows),
        **options,
    )
    result_schema = spec.output_schema(*schemas)
    if explain:
        with WindowJoin.from_spec(spec, device=device, left_schema=schemas[0], right_schema=schemas[1]) as operator:
            click.echo(operator.explain())
        return
    sequence = options["sequence"]
    calls = interleave(*sides, sequence) if sequence else in_turns(*sides)
    total = None if sides[0].rows is None or sides[1].rows is None else sides[0].rows + sides[1].rows
    started = time.monotonic()
    rows = 0
    with (
        WindowJoin.from_spec(spec, device=device, left_schema=schemas[0], right_schema=schemas[1]) as operator,
        TableWriter(output, result_schema) if output else _StandardOutput(result_schema) as writer,
        Progress("join", total) as progress,
    ):
        for left_batch, right_batch in calls:
            for table in operator.process_blocks(left_batch, right_batch):
                if table.num_rows:
                    writer.write(table)
                    rows += table.num_rows
            read = sum(b.num_rows for b in (left_batch, right_batch) if b is not None)
            progress.advance(read, matches=f"{operator.stats.matches:,}")
        rest = operator.finish()
        writer.write(rest)
        rows += rest.num_rows
        stats = operator.stats
    seconds = time.monotonic() - started
    click.echo(
        f"{stats.rows_left:,} left and {stats.rows_right:,} right rows, {stats.matches:,} matches, "
        + (f"{rows:,} rows out, " if spec.how != "inner" else "")
        + f"{seconds:.1f} s"
        + (f", in {output}" if output else ""),
        err=True,
    )


class _StandardOutput(contextlib.AbstractContextManager["_StandardOutput"]):
    """Writes CSV to standard output, with the interface of `TableWriter`."""

    def __init__(self, schema: pa.Schema):

        try:
            self._writer = pyarrow.csv.CSVWriter(sys.stdout.buffer, schema)
        except pa.ArrowException as error:
            raise SchemaError(f"the result cannot be written as CSV: {error}; name an --output file") from error

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self._writer.write_table(table)

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _rows(left: int | None, right: int | None) -> dict[str, Any]:

    return {"left": None if left is None else Rows(left), "right": None if right is None else Rows(right)}
