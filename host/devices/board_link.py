"""What a driver needs of a board."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class BoardLink(Protocol):
    """The way to one kernel and its memory: registers by number, memory by address.

    A board in simulation, one behind PCIe and one behind a serial line each have their own. Whoever has these
    members is one; nothing needs to be inherited. Every call may cost a round trip, so callers make few and large
    ones.

    Registers of lane n begin at ``n * LANE_STRIDE``. Lanes share no memory: an address of lane n, as its commands know
    it, is ``(n << address_bits) + address`` here. The top ``log2(channels)`` bits of an address choose the channel: the
    memory of channel c begins at ``c << (address_bits - log2(channels))``. Each channel of each lane has an equal share
    of `memory_bytes`, from its start on.

    Attributes
    ----------
    parameters : Parameters or SplitJoinParameters
        What the kernel was built with, as far as this side knows; the driver compares it with BUILD_PARAMETERS.
    memory_bytes : int
        Bytes of memory on all channels of all lanes together.

    Raises
    ------
    OSError
        By every method, where the board does not answer.
    """

    @property
    @abc.abstractmethod
    def parameters(self) -> Any: ...

    @property
    @abc.abstractmethod
    def memory_bytes(self) -> int: ...

    @abc.abstractmethod
    def read_register(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""

    @abc.abstractmethod
    def write_register(self, offset: int, value: int) -> None:
        """Writes the 32-bit register at a byte offset."""

    @abc.abstractmethod
    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Writes 32-bit words to one register, one after the other."""

    @abc.abstractmethod
    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """Writes the bytes of a C-contiguous array of any type, or bytes. They must lie in one channel."""

    @abc.abstractmethod
    def read_memory(self, address: int, length: int) -> np.ndarray:
        """So many bytes from an address on, all of one channel: uint8, shape (length,), the caller's own."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Returns when CONTROL.done is set on every lane, which reading has then cleared.

        Raises
        ------
        TimeoutError
            If it is not set within the time that this link deems too long.
        """

    @abc.abstractmethod
    def reset(self) -> None:
        """Resets the kernel: registers, queue, index, insertion buffer and counters. Memory stays."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives the board back. Idempotent."""
