"""Model of a kernel with several lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muntin.contract.designs.bisort import Parameters
from muntin.contract.registers import LANE_STRIDE
from muntin.sim.models.kernel import KernelModel


class LanedKernelModel:
    """A kernel of any number of lanes, and their memories. It can stand in for a board: it has all of a `BoardLink`.

    Every lane is a `KernelModel` of its own: it does all that it is started for within that register write, and so
    before the next lane begins.

    Parameters
    ----------
    parameters : Parameters
    memory_bytes : int
        Of all lanes, each an equal share.
    lane : callable
        Makes a lane with its memory, as `KernelModel` does.

    Attributes
    ----------
    parameters : Parameters
    memory_bytes : int
    lanes : list of KernelModel

    Raises
    ------
    ValueError
        As `KernelModel` does.
    """

    def __init__(
        self, parameters: Parameters, memory_bytes: int, lane: Callable[[Parameters, int], KernelModel] = KernelModel
    ):
        self.parameters = parameters
        self.memory_bytes = memory_bytes
        self.lanes = [lane(parameters, memory_bytes // parameters.lanes) for _ in range(parameters.lanes)]

    def reset(self) -> None:
        """Everything but the memory as it was at first."""
        for lane in self.lanes:
            lane.reset()

    def close(self) -> None:
        """As each lane does."""
        for lane in self.lanes:
            lane.close()

    @property
    def interrupt(self) -> bool:
        """The interrupt line: that of any lane."""
        return any(lane.interrupt for lane in self.lanes)

    def read_register(self, offset: int) -> int:
        """The register at a byte offset; raises IndexError where there is no such lane."""
        number, own = divmod(offset, LANE_STRIDE)
        return self.lanes[number].read_register(own)

    def write_register(self, offset: int, value: int) -> None:
        """Writes the register at a byte offset; raises IndexError where there is no such lane."""
        number, own = divmod(offset, LANE_STRIDE)
        self.lanes[number].write_register(own, value)

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Writes words to one register, one after the other."""
        number, own = divmod(offset, LANE_STRIDE)
        self.lanes[number].push_words(own, words)

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """Writes bytes. Raises IndexError where there is no memory."""
        number, own = self._place(address)
        self.lanes[number].write_memory(own, content)

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """A copy of so many bytes. Raises IndexError where there is no memory."""
        number, own = self._place(address)
        return self.lanes[number].read_memory(own, length)

    def _place(self, address: int) -> tuple[int, int]:
        """The lane, and the address as it knows it."""
        return divmod(address, 1 << self.parameters.address_bits)

    def wait(self) -> None:
        """As each lane does."""
        for lane in self.lanes:
            lane.wait()
