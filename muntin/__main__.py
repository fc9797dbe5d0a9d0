"""The `muntin` command, and ``python -m muntin``."""

import importlib
import sys

#: The extras that have what the command imports.
EXTRAS = {"click": "cli", "rich": "cli", "structlog": "daemon", "prometheus_client": "daemon"}


def needed(module: str) -> str:
    """What to say where a module of `EXTRAS` is missing."""
    return f"the muntin command needs {module}: pip install 'muntin[{EXTRAS[module]}]'"


def main() -> None:
    """Runs the command, or names the extra that has it."""
    try:
        command = importlib.import_module("muntin.host.cli").main
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        sys.exit(f"error: {needed(error.name)}")
    command(prog_name="muntin")


if __name__ == "__main__":
    main()
