"""The commands that ask daemons, or change the state that they left."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from muntin.host.cli.top import size, top_table
from muntin.host.daemon.address import Address, default_socket
from muntin.host.daemon.client import DaemonClient
from muntin.host.daemon.daemon import read_token
from muntin.host.daemon.rescale import rescale as rescale_windows
from muntin.host.errors import ConnectionLostError, UnknownQueryError
from muntin.host.progress import Progress

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


@click.command()
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


@click.command()
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


@click.command()
@click.argument("query")
@_of_a_daemon
def close(query: str, address: str | None, token_file: Path | None, tls_ca: Path | None, timeout: float) -> None:
    """Close a QUERY of a daemon, named as in `muntin status`: its windows are dropped, its memory is freed."""

    with _client(address, token_file, tls_ca, timeout) as client:
        if not client.close_query(query):
            raise UnknownQueryError(f"the daemon has no query {query!r}: `muntin status` lists those it has")


@click.command()
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
