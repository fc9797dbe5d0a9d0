"""Checks that a board's memory holds what is written to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from muntin.host.errors import MemoryStartError

_BLOCK_BYTES = 256
_SOAKED_BYTES = 64
ANY_BANKS = 64, 1 << 10
"""Banks and the bytes between them where neither is known: of each common geometry, some of these blocks are in each
bank."""
_PATTERNS = (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x0F0F0F0F, 0x33333333)


def memory_check(
    write: Callable[[int, np.ndarray], None],
    read: Callable[[int, int], np.ndarray],
    memory_bytes: int,
    starts: Sequence[int] = (0,),
) -> int:
    """Write patterns and read them back: every address line, every data line, and both ends of the memory.

    Parameters
    ----------
    write, read : callable
        As of `BoardLink`.
    memory_bytes : int
        A power of two.
    starts : sequence of int
        Where memories of so many bytes begin, as of `muntin.host.fpga.driver.memories`.

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
    words = {
        start + place: np.array([(place * 2654435761 + 1 + number) & 0xFFFFFFFF], np.uint32)
        for number, start in enumerate(starts)
        for place in places
    }
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
    for place in (start + within for start in starts for within in (0, memory_bytes // 2, memory_bytes - _BLOCK_BYTES)):
        for block in blocks:
            write(place, block)
            _compare(place, block, read(place, _BLOCK_BYTES))
            done += _BLOCK_BYTES
    return done


def memory_soak(
    write: Callable[[int, np.ndarray], None],
    read: Callable[[int, int], np.ndarray],
    memory_bytes: int,
    starts: Sequence[int] = (0,),
    *,
    banks: tuple[int, int] = ANY_BANKS,
    hold: float,
    wait: Callable[[float], None] = time.sleep,
    seed: int = 1,
) -> int:
    """Write noise into every bank at both ends and in the middle, let it lie, read it back; then its complement.

    Memory that is not refreshed loses bits, memory that is refreshed too late loses some: a row must hold for 64 ms
    without it, and most hold for seconds.

    Parameters
    ----------
    write, read : callable
        As of `BoardLink`.
    memory_bytes, starts
        As of `memory_check`.
    banks : (int, int)
        The memory's banks, and the bytes after which the next one follows.
    hold : float
        Seconds for which the memory is left alone, twice.
    wait : callable
        Waits so many seconds.
    seed : int
        Of the noise.

    Returns
    -------
    int
        Bytes written and read.

    Raises
    ------
    MemoryStartError
        If something else is read than was written, with the first address, and whether it was read right at first.
    """
    generator = np.random.default_rng(seed)
    count, bank_bytes = banks
    row = count * bank_bytes
    rows = sorted({0, memory_bytes // 2, memory_bytes - row})
    places = [start + at + bank * bank_bytes for start in starts for at in rows for bank in range(count)]
    noise = {place: generator.integers(0, 1 << 32, _SOAKED_BYTES // 4, np.uint32) for place in places}
    for held in (noise, {place: ~words for place, words in noise.items()}):
        for place, words in held.items():
            write(place, words)
        for place, words in held.items():
            _compare(place, words, read(place, _SOAKED_BYTES))
        wait(hold)
        for place, words in held.items():
            later = f" and was read right {hold:g} s before; it is refreshed too late, or not at all"
            _compare(place, words, read(place, _SOAKED_BYTES), later)
    return 2 * len(places) * _SOAKED_BYTES


def _compare(place: int, written: np.ndarray, raw: np.ndarray, later: str = "") -> None:
    found = raw.view(np.uint32)
    wrong = np.flatnonzero(found != written)
    if len(wrong):
        at = int(wrong[0])
        raise MemoryStartError(
            f"the memory at {place + 4 * at:#x} reads {int(found[at]):#010x}, and {int(written[at]):#010x} was "
            f"written{later}: check the board's memory, and its supply"
        )
