"""The daemon's log: one event a line, with fields, as text or JSON."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


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
