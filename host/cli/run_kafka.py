"""What `muntin join` does with topics of Kafka."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import click
import pyarrow as pa

from muntin.host.errors import KafkaError, SchemaError
from muntin.host.files import STANDARD, TableWriter
from muntin.host.join import WindowJoin
from muntin.host.kafka import Arrow, Avro, Format, Json, KafkaJoin
from muntin.host.progress import Progress
from muntin.host.sides import Side
from muntin.host.windows import Watermark, Within

FORM = "kafka://HOST:PORT/TOPIC?columns=id int64,at timestamp[ms]"
#: Of an address, beside host and topic.
_SETTINGS = {"columns", "format", "avro", "schema_id", "delay"}
_COLUMN = re.compile(r'\s*("[^"]+"|[^\s,"]+)\s+([^,\[(]+(?:\[[^\]]*\]|\([^)]*\))?[^,]*)(?:,(?!\s*$)|$)')


class Topic:
    """A topic, as the address ``kafka://HOST:PORT[,HOST:PORT]/TOPIC?columns=...&format=...&delay=...`` names it.

    Parameters
    ----------
    address : str

    Raises
    ------
    KafkaError, SchemaError
        It is none; its columns or its Avro schema cannot be read.
    """

    def __init__(self, address: str):
        parts = urlsplit(address)
        settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.servers, self.name = parts.netloc, parts.path.strip("/")
        if parts.scheme != "kafka" or not self.servers or not self.name or "/" in self.name:
            raise KafkaError(f"{address!r} is no address of a topic: give {FORM}")
        if unknown := sorted(set(settings) - _SETTINGS):
            raise KafkaError(f"{address!r} has {unknown[0]!r}: it may have {', '.join(sorted(_SETTINGS))}")
        self.format = _format(address, settings)
        text = settings.get("columns")
        self.columns = self.format.schema if text is None else _columns(text)
        delay = settings.get("delay")
        self.delay: Any = int(delay) if delay and delay.isdecimal() else delay

    def known_columns(self, side: Side) -> pa.Schema:
        """The columns; SchemaError where the address names none."""
        if self.columns is None:
            raise SchemaError(f"the columns of the {side} topic {self.name!r} are not known: give {FORM}")
        return self.columns


def _format(address: str, settings: dict[str, str]) -> Format:
    avro, number = settings.get("avro"), settings.get("schema_id")
    if avro is not None:
        try:
            return Avro(Path(avro).read_text(), schema_id=None if number is None else int(number))
        except (OSError, ValueError, OverflowError) as error:
            raise SchemaError(f"{address!r}: {error}") from error
    kinds: dict[str, type[Format]] = {"json": Json, "arrow": Arrow}
    if (name := settings.get("format", "json")) not in kinds:
        raise KafkaError(f"{address!r}: format={name} is neither json nor arrow; Avro has avro=FILE, its schema")
    return kinds[name]()


def _columns(text: str) -> pa.Schema:
    """Columns as ``id int64 not null, "at" timestamp[ms, UTC], price decimal(9, 2)`` names them. Raises SchemaError."""
    fields, end = [], 0
    for found in _COLUMN.finditer(text):
        if found.start() != end:
            break
        end = found.end()
        kind, nullable = re.subn(r"\s+not\s+null$", "", found[2].strip(), flags=re.IGNORECASE)
        fields.append(pa.field(found[1].strip('"'), _type(kind), not nullable))
    if end != len(text) or not fields:
        raise SchemaError(f"columns={text!r} must be like 'id int64, at timestamp[ms], price double not null'")
    return pa.schema(fields)


def _type(text: str) -> pa.DataType:
    if found := re.fullmatch(r"timestamp\[(s|ms|us|ns)\s*,\s*([\w/+:-]+)\]", text):
        return pa.timestamp(found[1], found[2])
    if found := re.fullmatch(r"decimal\((\d+)\s*,\s*(\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError as error:
        raise SchemaError(f"there is no type {text!r}: use Arrow's names, such as int64, double, string") from error


def run_kafka_join(
    left_address: str,
    right_address: str,
    parsed: Callable[[pa.Schema, pa.Schema], tuple[Any, Within | None]],
    output: str,
    *,
    explain: bool,
    state: str | None,
    name: str | None,
    to_end: bool,
    dead_letters: str | None,
    batch_rows: int,
    output_format: str | None,
    **options: Any,
) -> None:
    """Joins two topics until a signal, as the options of `muntin join` say; `parsed` reads its condition."""
    left, right = Topic(left_address), Topic(right_address)
    if left.servers != right.servers:
        raise click.UsageError("LEFT and RIGHT are topics of different clusters: one join reads one")
    sides = {"left": left, "right": right}
    delays: dict[str, Any] = {side: topic.delay for side, topic in sides.items() if topic.delay is not None}
    schemas = left.known_columns("left"), right.known_columns("right")
    condition, within = parsed(*schemas)
    options |= {
        "within": within, "watermark": Watermark(**delays) if delays else None, "left_schema": schemas[0],
        "right_schema": schemas[1],
    }  # fmt: skip
    if explain:
        with WindowJoin(on=condition, **options) as operator:
            click.echo(operator.explain())
        return
    to_topic = output.startswith("kafka:")
    target = Topic(output) if to_topic else None
    if target is not None and target.servers != left.servers:
        raise click.UsageError("--output is a topic of another cluster: one transaction is of one")
    letters = None if dead_letters is None else Topic(dead_letters)
    if letters is not None and (target is None or letters.servers != left.servers):
        raise click.UsageError(
            "--dead-letters is written in the transaction of --output: both are topics of the cluster of LEFT and RIGHT"
        )
    if state is not None and target is None and output != STANDARD:
        raise click.UsageError(
            f"{output} is complete once this ends, and what is in it before would be lost with the process, but not be "
            "given out again: leave out --state, or write to a topic or to standard output"
        )
    started, rows = time.monotonic(), 0
    with ExitStack() as opened:
        writer: TableWriter | None = None

        def write(table: pa.Table, number: int) -> None:
            nonlocal writer, rows
            if writer is None:
                writer = opened.enter_context(TableWriter(output, table.schema, output_format))
            if table.num_rows:
                writer.write(table)
                rows += table.num_rows
            if output == STANDARD:
                sys.stdout.buffer.flush()

        join = opened.enter_context(
            KafkaJoin(
                (left.name, right.name), condition, servers=left.servers, output=target.name if target else write,
                left_format=left.format, right_format=right.format, output_format=target.format if target else None,
                state=state, name=name, dead_letters=letters.name if letters else None, max_rows=batch_rows, **options,
            )
        )  # fmt: skip
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                opened.callback(signal.signal, number, signal.signal(number, lambda *_: join.stop()))
        with Progress("join") as progress:
            read = 0
            for _ in join.batches(to_end=to_end):
                stats = join.stats
                progress.advance(stats.rows_left + stats.rows_right - read, matches=f"{stats.matches:,}")
                read = stats.rows_left + stats.rows_right
        stats, last = join.stats, join.last_batch
    seconds = time.monotonic() - started
    click.echo(
        f"{stats.rows_left:,} left and {stats.rows_right:,} right rows, {stats.matches:,} matches, {seconds:.1f} s; "
        f"batch {last} is the newest" + (f", in {output}" if output != STANDARD else ""),
        err=True,
    )
