"""The `muntin` command."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv
from rich.live import Live

from muntin.host import arguments
from muntin.host.daemon.address import Address, default_socket
from muntin.host.daemon.client import DaemonClient
from muntin.host.daemon.daemon import Daemon, FlightOptions, read_token
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.log import configure_log
from muntin.host.daemon.private import FAILED, READY
from muntin.host.daemon.rescale import rescale as rescale_windows
from muntin.host.devices import list_devices
from muntin.host.errors import (
    ConnectionLostError,
    MuntinError,
    SchemaError,
    UnknownQueryError,
    UnsupportedError,
    to_wire,
)
from muntin.host.files import TableReader, TableWriter, in_turns, interleave
from muntin.host.predicates.as_of import DIRECTIONS
from muntin.host.progress import Progress
from muntin.host.spec import JoinSpec
from muntin.host.top import size, top_table
from muntin.host.tracing import VARIABLE, start_tracing
from muntin.host.window_join import WindowJoin
from muntin.host.windows import Rows

LIMITS = Limits()


class _Group(click.Group):
    """Tells an error in one line, unless a traceback is asked for."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if context.params.get("debug"):
                raise
            if isinstance(error, MuntinError):
                message = self._said(str(error), context)
            else:
                message = f"{type(error).__name__}: {error} (muntin --debug shows where)"
            click.echo("error: " + " ".join(message.split()), err=True)
            context.exit(1)

    def _said(self, message: str, context: click.Context) -> str:
        """A message in the words of the command: how='full' is --how full there, left=Rows(5) --left-rows 5."""
        command = self.get_command(context, context.invoked_subcommand or "")
        options = {option.name: option.opts[0] for option in command.params} if command else {}
        message = re.sub(
            r"\b(left|right)=Rows\((\w+)\)",
            lambda found: f"{options.get(f'{found[1]}_rows', found[0])} {found[2]}",
            message,
        )
        return re.sub(
            r"(?<![\w-])([a-z_]+)=(?:[A-Z]\w*\([^)]*\)|\[[^\]]*\]|'?(\w+)\b'?|)",
            lambda found: f"{options[found[1]]} {found[2] or ''}".rstrip() if found[1] in options else found[0],
            message,
        )


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="muntin", prog_name="muntin", message="%(prog)s %(version)s")
def main(debug: bool) -> None:
    """Exact band and inequality joins of two streams over sliding windows."""


@main.command()
@click.option("--device", default="cpu", show_default=True, help="As `muntin devices` lists them.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help=f"Unix socket to listen at.  [default: {default_socket()}]",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Listen for other hosts too, over Arrow Flight; needs --token-file."
)
@click.option("--token-file", type=click.Path(path_type=Path), help="File with the token that clients must present.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain for --listen, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, PEM.")
@click.option("--metrics", type=click.IntRange(0, 65535), metavar="PORT", help="Serve Prometheus metrics at this port.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address for --metrics.")
@click.option(
    "--state",
    metavar="PLACE",
    help="Keep the windows of streams under this folder or address (s3://...), for the next daemon to go on with.",
)
@click.option(
    "--memory",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Memory for windows, rows and results of all queries.  [default: half of the machine's or container's]",
)
@click.option("--max-message", type=int, default=LIMITS.max_message, show_default=True, help="Bytes of one message.")
@click.option("--max-staged", type=int, default=LIMITS.max_staged, show_default=True, help="Bytes a query may stage.")
@click.option(
    "--max-kept", type=int, default=LIMITS.max_kept, show_default=True, help="Bytes of a result kept in memory."
)
@click.option("--max-result", type=int, default=LIMITS.max_result, show_default=True, help="Bytes of a batch's result.")
@click.option("--max-queries", type=int, default=LIMITS.max_queries, show_default=True, help="Open queries.")
@click.option(
    "--max-connections",
    type=int,
    default=LIMITS.max_connections,
    show_default=True,
    help="Socket connections.",
)
@click.option(
    "--idle-timeout",
    type=float,
    default=LIMITS.idle_timeout,
    show_default=True,
    help="Seconds of silence allowed.",
)
@click.option(
    "--grace",
    type=float,
    default=LIMITS.grace,
    show_default=True,
    help="Seconds to finish requests at the end.",
)
@click.option("--log-json/--log-text", default=False, help="The log as JSON or as text (default), on standard error.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--tracing",
    is_flag=True,
    envvar=VARIABLE,
    help=f"Send OpenTelemetry spans, as the OTEL_ environment variables say.  [env: {VARIABLE}]",
)
@click.option("--exit-with-stdin", is_flag=True, help="End when standard input is closed or the starting process ends.")
@click.option("--exit-with-process", type=int, metavar="PID", help="End when this process ends.")
@click.option("--socket-handles", hidden=True, help="Of a --socket that the starting process hands over.")
def serve(
    device: str,
    socket: Path | None,
    listen: str | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    metrics: int | None,
    metrics_host: str,
    state: str | None,
    memory: int | None,
    log_json: bool,
    log_level: str,
    tracing: bool,
    exit_with_stdin: bool,
    exit_with_process: int | None,
    socket_handles: str | None,
    **limits: Any,
) -> None:
    """Own a device and join for several clients.

    Ends on SIGTERM, after the requests in progress. Says "muntin ready: ADDRESS" on standard output once
    clients can come.
    """

    configure_log(json=log_json, level=log_level)
    if (listen is None) != (token_file is None):
        raise click.UsageError(
            "--listen and --token-file go together: a daemon that other hosts reach always wants a token"
        )
    if listen is None and (tls_cert or tls_key):
        raise click.UsageError("--tls-cert and --tls-key are for --listen")
    listener, lock = map(int, socket_handles.split(",")) if socket_handles else (-1, -1)
    try:
        if tracing:
            start_tracing("muntin-daemon")
        daemon = Daemon(
            device,
            socket or default_socket(),
            socket_handles=(listener, lock) if socket_handles else None,
            flight=FlightOptions.from_files(listen, token_file, tls_cert, tls_key) if listen and token_file else None,
            metrics=(metrics_host, metrics) if metrics is not None else None,
            limits=Limits(**limits),
            state=state,
            memory=memory,
        )
    except MuntinError as error:
        if exit_with_stdin:
            click.echo(FAILED + json.dumps(to_wire(error)))  # for `start_private`
        raise
    daemon.end_on_signals()
    if exit_with_stdin:
        daemon.end_with_stdin()
    if exit_with_process is not None:
        daemon.end_with_process(exit_with_process)
    click.echo(READY + " ".join(daemon.addresses))
    if not daemon.run():
        # A request did not end in time, and its thread may sit in a driver: leave without waiting for it.
        sys.stderr.flush()
        os._exit(1)


@main.command()
@click.argument("left", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("right", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="See above; given again: or, with --all-of: and.",
)
@click.option("--all-of", is_flag=True, help="All --on must hold, rather than one of them.")
@click.option(
    "--where",
    "wheres",
    multiple=True,
    metavar="TEST",
    help='Rows that fail it match nothing: "left.price > 10"; given again: and.',
)
@click.option(
    "--as-of",
    "times",
    metavar="L_TIME,R_TIME",
    help="Instead of --on: each left row meets the right row nearest in time.",
)
@click.option(
    "--direction",
    type=click.Choice(DIRECTIONS),
    help="For --as-of: right rows at or before a left row, at or after it, or both.  [default: backward]",
)
@click.option("--tolerance", metavar="DISTANCE", help='For --as-of: the greatest distance, such as "10 seconds" or 5.')
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help='For --as-of: must be equal; "venue,market" for left and right; given again: and.',
)
@click.option("--not-exact", is_flag=True, help="For --as-of: rows of equal times do not match.")
@click.option("--left-rows", type=click.IntRange(1), metavar="N", help="Window of the left side: its last N rows.")
@click.option("--right-rows", type=click.IntRange(1), metavar="N", help="Window of the right side: its last N rows.")
@click.option("--within", metavar="L_TIME,R_TIME,LOW,HIGH", help="Time window: LOW <= R_TIME - L_TIME <= HIGH.")
@click.option("--sequence", metavar="COLUMN", help="Arrival order over both files; each must ascend by it.")
@click.option("--device", default="cpu", show_default=True, help="As `muntin devices` lists them.")
@click.option(
    "--form",
    type=click.Choice(["rows", "pairs", "counts", "aggregate"]),
    default="rows",
    show_default=True,
    help="Of the result.",
)
@click.option(
    "--aggregate",
    "aggregates",
    multiple=True,
    metavar="AGGREGATE",
    help='For --form aggregate: "count(*)", "sum(price) as total", "last(bid) filter (where size > 5)" and others, as '
    "docs/contract.md has them; given again: and.",
)
@click.option(
    "--at",
    type=click.Choice(["arrival", "close"]),
    default="arrival",
    show_default=True,
    help="For --form aggregate: of each row's matches as it arrives, or of all those of a left row in a time window.",
)
@click.option(
    "--order",
    type=click.Choice(["none", "outer", "inner"]),
    default="none",
    show_default=True,
    help="Of the result.",
)
@click.option(
    "--index",
    default="auto",
    show_default=True,
    help="What the windows are kept in, as `muntin devices` lists them; auto: the device's default.",
)
@click.option("--suffix", default="_right", show_default=True, help="For right columns whose name the left has too.")
@click.option(
    "--select", metavar="COLUMNS", help="Columns of the result, by their names there and in this order: a,b,b_right."
)
@click.option(
    "--how",
    default="inner",
    show_default=True,
    help="inner (or cross), left, right, full, left_semi, left_anti or right_anti.",
)
@click.option("--explain", is_flag=True, help="Tell how the join is carried out, and read no rows.")
@click.option(
    "--batch-rows", type=click.IntRange(1, 1 << 31), default=65_536, show_default=True, help="Rows of a batch."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File; CSV to standard output without.",
)
def join(
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
    """Join two files: parquet, CSV or Arrow, by their ending.

    \b
    CONDITION is one of
      "limit,price,-5,5"     a band: -5 <= right price - left limit <= 5; either end may be empty (open),
                             durations such as "-10 minutes" for dates and timestamps
      "limit < price"        left column, one of = < <= > >= != <=>, right column
      "left.venue = right.venue AND right.price BETWEEN left.limit - 5 AND left.limit + 5"
                             in SQL; a column that one side alone has may stand by its name alone;
                             TRUE joins every pair of rows of the windows
    Give --left-rows and --right-rows, or --within, of which one end may be empty (open). Without, the first pair
    of timestamps, one of each side, whose difference --on bounds at both ends is the time window (all of them with
    --all-of); else there is no window, and every row is kept.

    \b
    An as-of join has --as-of instead, and no window:
      --as-of bid_time,ask_time --by venue --tolerance "10 seconds" --how left
    Its rows come out at the end, as the files need not be in order of time.

    \b
    Which rows a count window holds depends on the order of arrival:
      with --sequence     both files are merged by that column; where it is equal, left rows come first
      without             batch i of LEFT arrives before batch i of RIGHT, --batch-rows each: rows of the two
                          files that stand at about the same place meet. Choose a sequence where there is one.
    A time window is the same in any order. No watermark is used over files: no row is late, none is dropped,
    and the device must hold both files' keys.

    \b
    The rows of an outer or anti join that match nothing come out as soon as no later row can match them,
    in a time window at the end.

    The result appears at --output once it is complete; a file that stood there is replaced then.
    """

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


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def devices(as_json: bool) -> None:
    """List the devices that --device takes, each with what --index takes there, the default first."""

    found = list_devices()
    if as_json:
        click.echo(json.dumps([asdict(info) for info in found], indent=2))
        return
    width = max((len(info.name) for info in found), default=0)
    for info in found:
        if info.available:
            indexes = ", ".join(info.indexes)
            click.echo(f"{info.name:{width}}  {size(info.memory_bytes):>9}  {info.description} (index: {indexes})")
        else:
            click.echo(f"{info.name:{width}}  {'absent':>9}  {info.reason}")


@main.command()
@click.option("--device", required=True, help="As `muntin devices` lists them.")
def selftest(device: str) -> None:
    """Try a device: what it is, whether its memory holds what is written, and whether it joins right."""
    from muntin.host.selftest import selftest as selftest_lines  # loads what hardware needs

    for line in selftest_lines(device):
        click.echo(line)
    click.echo("passed")


_OF_A_DAEMON = (
    click.option("--daemon", "address", metavar="ADDRESS", help="unix:PATH, grpc://HOST:PORT or grpc+tls://HOST:PORT."),
    click.option("--token-file", type=click.Path(path_type=Path), help="File with the daemon's token."),
    click.option("--tls-ca", type=click.Path(path_type=Path), help="Certificates to trust, PEM."),
    click.option("--timeout", type=float, default=10.0, show_default=True, help="Seconds to wait for the answer."),
)


def _of_a_daemon(command: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that ask a daemon."""
    return _OF_A_DAEMON[0](_of_daemons(command))


def _of_daemons(command: Callable[..., None]) -> Callable[..., None]:
    """Those of them that are not its address."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(_OF_A_DAEMON[1:]), command)


def _client(address: str | None, token_file: Path | None, tls_ca: Path | None, timeout: float) -> DaemonClient:
    address = address or str(Address("unix", path=str(default_socket())))
    return DaemonClient(address, read_token(token_file) if token_file else None, timeout, tls_ca=tls_ca)


@main.command()
@_of_a_daemon
@click.option("--json", "as_json", is_flag=True, help="As JSON, with everything the daemon tells.")
def status(address: str | None, token_file: Path | None, tls_ca: Path | None, timeout: float, as_json: bool) -> None:
    """Show what a daemon is doing; the one at the default socket where none is named."""

    with _client(address, token_file, tls_ca, timeout) as client:
        told = client.status()
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    device = told["device"]
    click.echo(f"daemon   {address or default_socket()}, process {told['pid']}, up {told['uptime_seconds']:,.0f} s")
    click.echo(f"device   {device['name']}: {size(device['used_bytes'])} of {size(device['memory_bytes'])} in use")
    if told["memory_bytes"] is not None:
        click.echo(f"memory   {size(told['memory_bytes'])}")
    click.echo(f"errors   {', '.join(f'{name} {count}' for name, count in told['errors'].items()) or 'none'}")
    click.echo(f"queries  {len(told['queries'])}")
    for name, query in told["queries"].items():
        kind = f"batch {query['batch']}" if query["streaming"] else "not streaming"
        title = f" ({query['title']})" if query["title"] else ""
        click.echo(
            f"  {name}{title}: {kind}, {query['rows_left']:,} left and {query['rows_right']:,} right rows, "
            f"{query['rows_out']:,} rows out, {query['requests']:,} requests ({query['repeats']:,} "
            f"repeats), {size(query['staged_bytes'])} staged"
        )


@main.command()
@click.option("--daemon", "addresses", multiple=True, metavar="ADDRESS", help="As of `muntin status`; repeatable.")
@_of_daemons
@click.option("--seconds", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Between two looks.")
@click.option("--times", type=click.IntRange(min=1), help="Looks before it ends.  [default: until Ctrl-C]")
def top(
    addresses: tuple[str, ...],
    token_file: Path | None,
    tls_ca: Path | None,
    timeout: float,
    seconds: float,
    times: int | None,
) -> None:
    """Show what the queries of daemons do, over and over: rates, lag, windows, late rows, the watermark and how far
    behind the clock it is, memory, state, and of a join in partitions which daemon has which."""

    before: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as opened:
        clients = [
            opened.enter_context(_client(address, token_file, tls_ca, timeout)) for address in addresses or (None,)
        ]
        live = opened.enter_context(Live(auto_refresh=False, screen=times is None))
        for look in itertools.count(1):
            told = {client.address: _told(client, only=len(clients) == 1) for client in clients}
            live.update(top_table(told, before), refresh=True)
            before = told
            if look == times:
                return
            time.sleep(seconds)


def _told(client: DaemonClient, *, only: bool) -> dict[str, Any]:
    """A daemon's status, with the time; where it is one of several, one that does not answer has no queries."""
    try:
        return {"asked": time.monotonic(), **client.status()}
    except ConnectionLostError:
        if only:
            raise
        return {"asked": time.monotonic(), "queries": {}, "device": None}


@main.command()
@click.argument("query")
@_of_a_daemon
def close(query: str, address: str | None, token_file: Path | None, tls_ca: Path | None, timeout: float) -> None:
    """Close a QUERY of a daemon, named as in `muntin status`: its windows are dropped, its memory is freed."""

    with _client(address, token_file, tls_ca, timeout) as client:
        if not client.close_query(query):
            raise UnknownQueryError(f"the daemon has no query {query!r}: `muntin status` lists those it has")


@main.command()
@click.argument("state", metavar="STATE")
@click.option("--partitions", type=click.IntRange(1), required=True, help="As the query will have: partitions=.")
@click.option("--query", metavar="QUERY/JOIN", help="Which one, where STATE has several; one of the two will do.")
@click.option(
    "--by",
    type=click.Choice(["equality", "ranges", "subwindows"]),
    help="As of Partitions, where the query names it.  [default: as before]",
)
@click.option("--width", help="As of Partitions, where the query names it with --by.")
@click.option("--delete-old", is_flag=True, help="Delete the state of the old partitions.")
def rescale(
    state: str, partitions: int, query: str | None, by: str | None, width: str | None, delete_old: bool
) -> None:
    """Let a stopped Spark query go on with another number of partitions.

    STATE is the folder or address (s3://...) that window_join(..., state=) or `muntin serve --state` has. Writes the
    windows of so many partitions there, from those of the old ones; started again from its checkpoint with this
    partitions=, the query goes on exactly. From now on it cannot be started with the old number.
    """

    with Progress("rescale") as progress:
        done = rescale_windows(
            state, partitions, query, by=by, width=_width(width), delete_old=delete_old, progress=progress
        )
    click.echo(
        f"{done.after.query}: {done.before.count} windows are {done.after.count} now, with {done.rows:,} rows of "
        f"{done.calls:,} batches up to {done.batch}; start the query with partitions={partitions}"
        + (", stages=2" if partitions == 1 else "")
    )
    for place in done.old:
        click.echo(f"{'deleted' if delete_old else 'may be deleted'}: {place}")


def _width(text: str | None) -> Any:
    """A number or a duration."""
    for kind in (int, float):
        with contextlib.suppress(TypeError, ValueError):
            return kind(text)  # type: ignore[arg-type]
    return text


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


if __name__ == "__main__":
    main()
