"""What `muntin join` does."""

from __future__ import annotations

import functools
import signal
import sys
import threading
import time
from typing import Any

import click
import pyarrow as pa

from muntin.host import arguments
from muntin.host.files import (
    STANDARD,
    TableReader,
    TableWriter,
    in_turns,
    interleave,
    refuse_replacing,
)
from muntin.host.join import WindowJoin
from muntin.host.join.pushdown import needed, tested_early
from muntin.host.keys.condition import in_words
from muntin.host.predicates.as_of import DIRECTIONS
from muntin.host.progress import Progress
from muntin.host.sides import Sides
from muntin.host.spec import JoinSpec
from muntin.host.windows import Rows, Within


def run_join(
    left: str,
    right: str,
    on: tuple[str, ...],
    where: tuple[str, ...],
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
    output: str,
    file_format: str | None,
    output_format: str | None,
    device: str,
    select: str | None,
    state: str | None,
    name: str | None,
    dead_letters: str | None,
    to_end: bool,
    **options: Any,
) -> None:
    """Joins two tables, as the options of `muntin join` say."""
    if times is None and not on:
        raise click.UsageError("the join needs a condition: give --on, or --as-of")
    if times is None and (direction or tolerance is not None or by or not_exact):
        raise click.UsageError("--direction, --tolerance, --by and --not-exact are for --as-of")
    if times is not None and on:
        raise click.UsageError(
            "beside its times and --by an as-of join takes parts about one side, by --where: --as-of excludes --on"
        )
    parsed = functools.partial(
        _condition, on, where, times, direction=direction, tolerance=tolerance, by=by, exact=not not_exact,
        within=arguments.within(within), counted=left_rows is not None or right_rows is not None,
    )  # fmt: skip
    topics = [place for place in (left, right) if place.startswith("kafka:")]
    of_topics = state is not None or name is not None or dead_letters is not None or to_end
    if not topics and (of_topics or output.startswith("kafka:")):
        raise click.UsageError(
            "--state, --name, --dead-letters, --to-end and a topic at --output are for LEFT and RIGHT that are topics"
        )
    if topics:
        from muntin.host.cli.run_kafka import run_kafka_join

        if len(topics) == 1:
            raise click.UsageError("one of LEFT and RIGHT is a topic: both are, or none")
        run_kafka_join(
            left, right, parsed, output, explain=explain, state=state, name=name, dead_letters=dead_letters,
            to_end=to_end, batch_rows=batch_rows, output_format=output_format, device=device,
            select=arguments.names(select), **_rows(left_rows, right_rows), **options,
        )  # fmt: skip
        return
    if left == right == STANDARD:
        raise click.UsageError("LEFT and RIGHT are both standard input: one of them can be")
    end_on_sigterm()
    sides: Sides[TableReader] = {
        "left": TableReader(left, batch_rows, file_format), "right": TableReader(right, batch_rows, file_format)
    }  # fmt: skip
    for reader in sides.values():
        refuse_replacing(output, reader)
    schemas = [side.schema for side in sides.values()]
    condition, window = parsed(*schemas)
    spec = JoinSpec(
        on=condition,
        within=window,
        select=arguments.names(select),
        **_rows(left_rows, right_rows),
        **options,
    )
    result_schema = spec.output_schema(*schemas)
    columns = needed(spec, *schemas)
    early = {}
    for (side, reader), schema in zip(sides.items(), schemas, strict=True):
        early[side] = tested_early(spec, side, pa.schema([schema.field(name) for name in columns[side]]))
        reader.narrow(columns[side], early[side][1])
    left_side, right_side = sides.values()
    with WindowJoin.from_spec(
        spec, device=device, left_schema=left_side.schema, right_schema=right_side.schema
    ) as operator:
        if explain:
            click.echo(operator.explain())
            for (name, reader), schema in zip(sides.items(), schemas, strict=True):
                tests = " and ".join(in_words(part) for part in early[name][0])
                click.echo(
                    f"{name + ':':10} reads {len(columns[name])} of {len(schema)} columns of {reader.path}"
                    + (f", of the rows with {tests}" if tests else "")
                )
            return
        sequence = options["sequence"]
        calls = interleave(left_side, right_side, sequence) if sequence else in_turns(left_side, right_side)
        counts = [side.rows for side in sides.values()]
        total = None if None in counts else sum(counts)  # type: ignore[arg-type]
        started = time.monotonic()
        rows = 0
        with (
            TableWriter(output, result_schema, output_format or file_format) as writer,
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
        + (f", in {output}" if output != STANDARD else ""),
        err=True,
    )


def _condition(
    on: tuple[str, ...], where: tuple[str, ...], times: str | None, *schemas: pa.Schema, direction: str | None,
    tolerance: str | None, by: tuple[str, ...], exact: bool, within: Within | None, counted: bool,
) -> tuple[Any, Within | None]:  # fmt: skip
    """What is joined, and the time window, of columns of both sides."""
    if times is None:
        given = within is not None or counted
        condition, bounded = arguments.condition(on, where, *schemas, windowed=given)
        return condition, within if given else bounded
    direction = direction or DIRECTIONS[0]
    return arguments.as_of(
        times, *schemas, direction=direction, tolerance=tolerance, by=by, exact=exact, wheres=where
    ), within


def _rows(left: int | None, right: int | None) -> dict[str, Any]:

    return {"left": None if left is None else Rows(left), "right": None if right is None else Rows(right)}


def end_on_sigterm() -> None:
    """Has SIGTERM end the command as an error does, which removes what is half written."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
