"""Progress of long work: a bar on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

LINE_SECONDS = 10.0
BAR_SECONDS = 0.1


class Progress:
    """Counts up to a total. A context manager.

    Parameters
    ----------
    what : str
        Shown first.
    total : int, optional
        None where it is not known.
    unit : str
        What is counted.
    file : TextIO
        A bar where it is a terminal, else a line every `LINE_SECONDS`, so that a log stays readable.
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "rows", file: TextIO | None = None):
        self._what = what
        self._total = total
        self._unit = unit
        self._file = file or sys.stderr
        self._done = 0
        self._extra: dict[str, object] = {}
        self._started = self._shown = time.monotonic()
        self._bar: Bar | None = None
        if self._file.isatty():
            # Drawn by who counts: a thread of the bar's own would not outlive a fork.
            self._bar = Bar(
                BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
                console=Console(file=self._file), auto_refresh=False,
            )  # fmt: skip
            self._bar.add_task(self._said(), total=total)
            self._bar.start()

    def advance(self, count: int = 1, **extra: object) -> None:
        """Count `count` more, and show `extra` beside it."""
        self._done += count
        self._extra = extra or self._extra
        if time.monotonic() - self._shown >= (LINE_SECONDS if self._bar is None else BAR_SECONDS):
            self._shown = time.monotonic()
            self._show()

    def write(self, text: str) -> None:
        """Print a text to standard output, above the bar."""
        if self._bar is not None:
            self._bar.stop()
        print(text, flush=True)
        if self._bar is not None:
            self._bar.start()

    def close(self) -> None:
        """Show the last state."""
        self._show()
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._stop()

    def _said(self) -> str:
        seconds = time.monotonic() - self._started
        of = f" of {self._total:,}" if self._total is not None else ""
        extra = "".join(f", {name} {value}" for name, value in self._extra.items())
        rate = self._done / seconds if seconds > 0 else 0.0
        return f"{self._what}: {self._done:,}{of} {self._unit}, {rate:,.0f} a second{extra}"

    def _show(self) -> None:
        if self._bar is None:
            print(self._said(), file=self._file, flush=True)
        else:
            task = self._bar.tasks[0].id
            self._bar.update(task, completed=self._done, description=self._said(), refresh=True)
