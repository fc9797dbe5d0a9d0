"""Reads, writes and copies runs on simulated DRAM, and counts cycles."""

from collections.abc import Iterator

import numpy as np

from bench.hardware.figures import CopyFigure
from muntin.hw.memory.layouts import CopyOperation, TransferStatus
from muntin.sim.board.copy_board import CopyBoard
from muntin.sim.board.litedram_settings import LitedramSettings

MEMORIES = {
    "as LiteDRAM's generator sets it up": LitedramSettings(
        ports=1,
        read_buffer=16,
        write_buffer=16,
        speedgrade="default",
        read_time=32,
        write_time=16,
        refresh_postponing=1,
    ),
    "rows on two ports, long turns, refreshes by eight": LitedramSettings(),
}
"""The controllers that are compared."""

TURNS = (4096, 8192, 16384)


def copy_bench(length: int) -> Iterator[CopyFigure]:
    """Measure every memory and turn.

    Parameters
    ----------
    length : int
        Bytes of a run, at most 64 MiB.

    Yields
    ------
    CopyFigure
        As soon as it is known; a board that was not used before takes about a minute to compile.

    Raises
    ------
    AssertionError
        If a copy came out wrong.
    """
    for memory, settings in MEMORIES.items():
        for turn in TURNS:
            with CopyBoard(turn_bytes=turn, settings=settings) as board:
                if turn == max(TURNS):
                    yield _figure(board, memory, 1, "read", None, length)
                    yield _figure(board, memory, 1, "write", None, length)
                yield _figure(board, memory, 1, "copy", turn, length)
    memory, settings = list(MEMORIES.items())[-1]
    with CopyBoard(channels=2, settings=settings) as board:
        for operation in ("read", "write", "copy"):
            yield _figure(board, memory, 2, operation, None, length)


def _figure(board: CopyBoard, memory: str, channels: int, operation: str, turn: int | None, length: int) -> CopyFigure:
    code = {"read": CopyOperation.READ, "write": CopyOperation.FILL, "copy": CopyOperation.COPY}[operation]
    source, destination = 0, 1 << 27
    content = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    board.write_memory(0, source, content)
    status, cycles = board.command(code, source, destination, length)
    assert status == TransferStatus.OK, f"{operation} ended with {status!r}"
    if operation == "copy":
        assert np.array_equal(board.read_memory(channels - 1, destination, length), content), "a wrong copy"
    beats = length // board.shape.beat_bytes * (2 if operation == "copy" and channels == 1 else 1)
    return CopyFigure(memory, channels, operation, turn, beats, cycles)
