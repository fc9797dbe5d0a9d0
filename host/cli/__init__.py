"""The `muntin` command. Each command is a module here, loaded when it is asked for; `muntin --help` loads none."""

from __future__ import annotations

import importlib
import re
from typing import Any

import click

from muntin.__main__ import EXTRAS, needed
from muntin.host.errors import MuntinError

#: The commands, and what they do in a line; each is a function of its name.
COMMANDS = {
    "close": ("daemons", "Close a query of a daemon."),
    "devices": ("devices", "List the devices that --device takes."),
    "join": ("join", "Join two tables: files, folders, object stores, standard input."),
    "rescale": ("daemons", "Let a stopped Spark query go on with another number of partitions."),
    "selftest": ("devices", "Try a device."),
    "serve": ("serve", "Own a device and join for several clients."),
    "sql": ("sql", "Join tables as a SELECT says."),
    "status": ("daemons", "Show what a daemon is doing."),
    "top": ("daemons", "Show what the queries of daemons do, over and over."),
}


class _Group(click.Group):
    """Loads a command when it is asked for, and tells an error in one line, unless a traceback is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"{__name__}.{COMMANDS[name][0]}"), name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

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
            elif isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
                message = needed(error.name)
            else:
                message = f"{type(error).__name__}: {error} (muntin --debug shows where)"
            click.echo("error: " + " ".join(message.split()), err=True)
            context.exit(1)

    def _said(self, message: str, context: click.Context) -> str:
        """A message in the words of the command: how='full' is --how full there, left=Rows(5) --left-rows 5."""
        command = self.get_command(context, context.invoked_subcommand or "")
        found_options = [option for option in command.params if isinstance(option, click.Option)] if command else []
        options = {str(option.name).removesuffix("_rows"): option.opts[0] for option in found_options}
        message = re.sub(
            r"\b(left|right)=Rows\((\w+)\)", lambda found: f"{options.get(found[1], found[0])} {found[2]}", message
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
