"""`muntin devices` and `muntin selftest`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from muntin.host.cli.top import size
from muntin.host.devices import list_devices


@click.command()
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


@click.command()
@click.option("--device", required=True, help="As `muntin devices` lists them.")
@click.option(
    "--hold",
    type=click.FloatRange(min=0),
    default=0.5,
    show_default=True,
    help="Seconds for which a board's memory must hold what is written; minutes find more.",
)
def selftest(device: str, hold: float) -> None:
    """Try a device: what it is, whether its memory holds what is written, and whether it joins right."""
    from muntin.host.selftest import selftest as selftest_lines  # loads what hardware needs

    for line in selftest_lines(device, hold=hold):
        click.echo(line)
    click.echo("passed")
