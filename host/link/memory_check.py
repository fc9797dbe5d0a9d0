"""Checks that a board's memory holds what is written to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from muntin.host.errors import MemoryStartError

_BLOCK_BYTES = 256
_PATTERNS = (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x0F0F0F0F, 0x33333333)


def memory_check(
    write: Callable[[int, np.ndarray], None], read: Callable[[int, int], np.ndarray], memory_bytes: int
) -> int:
    """Write patterns and read them back: every address line, every data line, and both ends of the memory.

    Parameters
    ----------
    write, read : callable
        As of `BoardLink`.
    memory_bytes : int
        A power of two.

    Returns
    -------
    int
        Bytes written and read.

    Raises
    ------
    MemoryStartError
        If something else is read than was written, with the first address where it is so.
    """
    done = 0
    # Each line alone, and all lines but one, have words of their own: a line that is stuck, or tied to another, makes
    # two of them one.
    lines = [1 << bit for bit in range(2, memory_bytes.bit_length() - 1)]
    places = [0, *lines, memory_bytes - 4, *(memory_bytes - 4 ^ line for line in lines)]
    words = {place: np.array([(place * 2654435761 + 1) & 0xFFFFFFFF], np.uint32) for place in places}
    for place, word in words.items():
        write(place, word)
    for place, word in words.items():
        _compare(place, word, read(place, 4))
        done += 4
    # A one that walks over all lines of a beat, and patterns that change all lines at once.
    count = _BLOCK_BYTES // 4
    walking = np.left_shift(np.uint32(1), np.arange(count, dtype=np.uint32) % np.uint32(32))
    noise = np.random.default_rng(1).integers(0, 1 << 32, count, np.uint32)
    blocks = [walking, ~walking, noise, *(np.full(count, pattern, np.uint32) for pattern in _PATTERNS)]
    blocks.append(np.where(np.arange(count) % 2, 0, 0xFFFFFFFF).astype(np.uint32))
    for place in (0, memory_bytes // 2, memory_bytes - _BLOCK_BYTES):
        for block in blocks:
            write(place, block)
            _compare(place, block, read(place, _BLOCK_BYTES))
            done += _BLOCK_BYTES
    return done


def _compare(place: int, written: np.ndarray, raw: np.ndarray) -> None:
    found = raw.view(np.uint32)
    wrong = np.flatnonzero(found != written)
    if len(wrong):
        at = int(wrong[0])
        raise MemoryStartError(
            f"the memory at {place + 4 * at:#x} reads {int(found[at]):#010x}, and {int(written[at]):#010x} was "
            "written: check the board's memory, and its supply"
        )
