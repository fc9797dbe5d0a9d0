"""Progress of long work: a bar on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

LINE_SECONDS = 10.0


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
        self._bar: tqdm | None = None
        if self._file.isatty():
            self._bar = tqdm(
                desc=what, total=total, unit=f" {unit}", unit_scale=True, file=self._file, dynamic_ncols=True
            )

    def advance(self, count: int, **extra: object) -> None:
        """Count `count` more, and show `extra` beside it."""
        self._done += count
        self._extra = extra
        if self._bar is not None:
            self._bar.set_postfix(extra, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self._line()

    def close(self) -> None:
        """Show the last state."""
        if self._bar is not None:
            self._bar.close()
        else:
            self._line()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.close()
        elif self._bar is not None:
            self._bar.close()

    def _line(self) -> None:
        seconds = time.monotonic() - self._started
        of = f" of {self._total:,}" if self._total is not None else ""
        extra = "".join(f", {name} {value}" for name, value in self._extra.items())
        rate = self._done / seconds if seconds > 0 else 0.0
        print(
            f"{self._what}: {self._done:,}{of} {self._unit}, {rate:,.0f} a second{extra}",
            file=self._file,
            flush=True,
        )
