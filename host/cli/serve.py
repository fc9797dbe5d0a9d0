"""`muntin serve`."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import click
import structlog

from muntin.host.daemon.address import default_socket
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.private import FAILED, READY
from muntin.host.errors import MuntinError, to_wire
from muntin.host.tracing import VARIABLE, start_tracing

LIMITS = Limits()


@click.command()
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
        if exit_with_stdin or exit_with_process is not None:
            click.echo(FAILED + json.dumps(to_wire(error)))  # for `launch`
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


def configure_log(*, json: bool, level: str = "info", file: TextIO = sys.stderr) -> None:
    """Send the events of this process to `file`.

    Parameters
    ----------
    json : bool
        One JSON object a line; else text for people, in colour on a terminal.
    level : str
        The least severe events that are written: debug, info, warning or error.
    """
    renderer = structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=file.isatty())
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        processors.append(structlog.processors.dict_tracebacks)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file),
    )
