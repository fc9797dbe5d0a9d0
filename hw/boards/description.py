"""What a design says of itself, for whoever opens it over the link. Standard library only."""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any


def to_description(
    *, board: str, design: str, parameters: Any, clock_hz: int, memory_bytes: int, start: dict[str, Any]
) -> bytes:
    """What a design says of itself: JSON, compressed.

    Parameters
    ----------
    board, design : str
        As in ``BOARD=`` and ``DESIGN=``.
    parameters : dataclass
        What the kernel is built with.
    clock_hz : int
        The kernel's clock.
    memory_bytes : int
    start : dict
        How the memory is started; see `muntin.hw.dram.start_description`.
    """
    content = {
        "board": board,
        "design": design,
        "parameters": dataclasses.asdict(parameters),
        "clock_hz": clock_hz,
        "memory_bytes": memory_bytes,
        "start": start,
    }
    return zlib.compress(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), 9)


def from_description(raw: bytes) -> dict[str, Any]:
    """What `to_description` was given.

    Raises
    ------
    ValueError
        If this is no such description.
    """
    try:
        content = json.loads(zlib.decompress(raw))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"this is no description of a design: {error}") from error
    missing = {"board", "design", "parameters", "clock_hz", "memory_bytes", "start"} - set(content)
    if missing:
        raise ValueError(f"the description lacks {', '.join(sorted(missing))}")
    return content
