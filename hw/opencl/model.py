"""The model in C of an RTL module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muntin.hw.register_map import SPLITJOIN, kernel_map


def model(parameters: Any) -> str:
    """The model in C of a kernel, as one source; its header is `build_header`."""
    kernel = "splitjoin" if kernel_map(parameters) is SPLITJOIN else "bisort"
    here = Path(__file__).parent
    return "\n".join((here / f"model_{part}.cl").read_text() for part in ("memory", kernel, "registers"))
