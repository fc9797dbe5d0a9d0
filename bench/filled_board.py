"""A simulated board whose memory a model fills."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.host.fpga.driver import BoardLink
from muntin.sim.models.kernel import KernelModel


class FilledBoard:
    """The way to a kernel's model, and from `hand_over` on to a board that goes on with what the model's memory holds.

    Windows of millions of rows are so filled in minutes, and only what is measured is simulated. It has all of a
    `BoardLink`.

    Parameters
    ----------
    board : BoardLink
        Of one lane and one channel.
    """

    def __init__(self, board: BoardLink):
        self.parameters = board.parameters
        self.memory_bytes = board.memory_bytes
        self._board = board
        self._model: KernelModel | None = KernelModel(board.parameters, board.memory_bytes)

    def hand_over(self) -> None:
        """Copies the model's memory to the board, and goes on with that.

        The board has no index on chip, so whoever drives it must load all of them again.

        Raises
        ------
        RuntimeError
            If the model is not there any more, or its insertion buffer holds rows, which no board could be given.
        """
        if self._model is None or self._model.buffered_rows:
            raise RuntimeError("there is no model to take over from, or rows are left in its insertion buffer")
        self._board.write_memory(0, self._model.memory)
        self._model = None

    @property
    def _link(self) -> BoardLink:
        return self._model or self._board

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """As `BoardLink`."""
        return self._link.read_registers(offsets)

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """As `BoardLink`."""
        self._link.write_registers(values)

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """As `BoardLink`."""
        self._link.push_words(offset, words)

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """As `BoardLink`."""
        self._link.write_memory(address, content)

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """As `BoardLink`."""
        return self._link.read_memory(address, length)

    def wait(self) -> None:
        """As `BoardLink`."""
        self._link.wait()

    def reset(self) -> None:
        """As `BoardLink`."""
        self._link.reset()

    def close(self) -> None:
        """As `BoardLink`."""
        self._board.close()
