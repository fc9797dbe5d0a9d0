"""Tells which step of a build is under way, and how long each took."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO


class Steps:
    """The steps of a build, told as they begin and end.

    Parameters
    ----------
    out : file, optional
        Where they are told; standard error by default.

    Attributes
    ----------
    seconds : dict of str to float
        What each step that is done took.
    """

    def __init__(self, out: TextIO | None = None):
        self._out = out or sys.stderr
        self.seconds: dict[str, float] = {}

    def tell(self, line: str) -> None:
        """Tells a line."""
        print(line, file=self._out, flush=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step: its name is told when it begins, its time when it is done, or that it failed."""
        self.tell(f"{name} ...")
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self.tell(f"{name}: failed after {time.monotonic() - began:.1f} s")
            raise
        self.seconds[name] = time.monotonic() - began
        self.tell(f"{name}: {self.seconds[name]:.1f} s")
