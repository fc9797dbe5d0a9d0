"""The `muntin` command, and ``python -m muntin``."""

import importlib
import sys


def main() -> None:
    """Runs the command, or names the extra that has it."""
    try:
        command = importlib.import_module("muntin.host.cli").main
    except ModuleNotFoundError as error:
        extra = {"click": "cli", "rich": "cli", "structlog": "daemon", "prometheus_client": "daemon"}
        if error.name is None or error.name not in extra:
            raise
        sys.exit(f"error: the muntin command needs {error.name}: pip install 'muntin[{extra[error.name]}]'")
    command(prog_name="muntin")


if __name__ == "__main__":
    main()
