"""A board with a kernel on it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.contract import ParameterError
from muntin.contract.design import design_of
from muntin.contract.registers import LANE_STRIDE, Register
from muntin.contract.simulations import MEMORY_BITS, of_memory
from muntin.hw.boards.linked_kernel import kernel_of
from muntin.hw.memory.port_shape import PortShape
from muntin.sim.board.compile_board import compile_board
from muntin.sim.board.litedram_settings import LitedramSettings
from muntin.sim.board.memories import FastMemorySettings, MemorySettings
from muntin.sim.board.simulated_board import SimulatedBoard

_LIMIT = 1 << 40  # cycles; the kernel itself reports what does not end
_TIMEOUT = 1 << 16  # cycles in which a memory may owe an answer


class KernelBoard:
    """A board with a kernel on it, as its host sees it: registers and memory.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
    channels : sequence of MemorySettings
        The memory of each port of the kernel, lane by lane.
    faults : bool
        True for a port ``fault`` of the board, with a bit for each core: while it is 1, the core is frozen.
    progress : callable, optional
        As in `compile_board`.

    Attributes
    ----------
    parameters : Parameters or SplitJoinParameters
        What was built.
    board : SimulatedBoard
        The board itself.
    memory_bytes : int
        Of all channels of all lanes together.
    channel_bytes : int
        Bytes of address space of a channel; address ``n * channel_bytes`` is where that of port n starts.
    """

    def __init__(
        self,
        parameters: Any,
        channels: Sequence[MemorySettings],
        *,
        faults: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ):
        self.parameters = parameters
        design = design_of(parameters)
        self._registers = {register.name: register for register in design.registers.registers()}
        self._lanes = design.registers.lanes(parameters)
        self.channel_bytes = (1 << parameters.address_bits) // parameters.channels
        shape = PortShape.of_kernel(parameters)
        self.board = SimulatedBoard(
            compile_board(
                lambda: kernel_of(parameters, **({"faults": True} if faults else {}))[0],
                channels,
                shape,
                f"{design.name}_faults" if faults else design.name,
                key=repr(parameters),
                progress=progress,
            )
        )
        self.memory_bytes = sum(self.board.memory_bytes)
        self._listen()

    def close(self) -> None:
        """Free the board. Idempotent."""
        self.board.close()

    def __enter__(self) -> "KernelBoard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Reset everything but the memory."""
        self.board.reset()
        self._listen()

    def _listen(self) -> None:
        """Be ready for all answers, and let the end of work interrupt."""
        self.board.poke("control__bready", 1)
        self.board.poke("control__rready", 1)
        self.board.poke("control__wstrb", 15)
        for lane in range(self._lanes):
            for name in ("GLOBAL_INTERRUPT_ENABLE", "INTERRUPT_ENABLE"):
                self.write(name, 1, lane)
            self.write("TIMEOUT_CYCLES", _TIMEOUT, lane)

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """Write 32-bit registers, in this order."""
        for offset, value in values:
            self.board.write_register(offset, [value])

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Write one word after the other to a register."""
        self.board.write_register(offset, words)

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """Read 32-bit registers, in this order."""
        return [self.board.read_register(offset) for offset in offsets]

    def read(self, name: str, lane: int = 0) -> int:
        """Read a register by name; of a counter both words."""
        if name in self._registers:
            return self.read_registers([self._registers[name].offset + lane * LANE_STRIDE])[0]
        low, high = (self.read(f"{name.upper()}_{end}", lane) for end in ("LOW", "HIGH"))
        return low | high << 32

    def write(self, name: str, value: int, lane: int = 0) -> None:
        """Write a register by name."""
        register: Register = self._registers[name]
        self.write_registers([(register.offset + lane * LANE_STRIDE, value)])

    def write_memory(self, address: int, content: NDArray[np.generic] | bytes) -> None:
        """Put bytes into memory behind the kernel's back; raises BoardMemoryError if they do not fit."""
        channel, place = divmod(address, self.channel_bytes)
        self.board.write_memory(channel, place, content)

    def read_memory(self, address: int, length: int) -> NDArray[np.uint8]:
        """Bytes of the memory; raises BoardMemoryError if there are not as many."""
        channel, place = divmod(address, self.channel_bytes)
        return self.board.read_memory(channel, place, length)

    def wait(self) -> None:
        """Let the clock run until every lane has worked off its queue, or failed; all must have been started."""
        at_work = set(range(self._lanes))
        while at_work:
            self.board.run_until("irq", 1, _LIMIT)
            for lane in sorted(at_work):
                if self.read("INTERRUPT_STATUS", lane):
                    self.write("INTERRUPT_STATUS", 1, lane)
                    self.read("CONTROL", lane)  # which clears done
                    at_work.remove(lane)


def open_board(
    parameters: Any, memory: str, *, faults: bool = False, progress: Callable[[int, int], None] | None = None
) -> KernelBoard:
    """Compile, once, and start a simulated board with the kernel that is built with these parameters.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
        The memory says how many bits an address has.
    memory : str
        Of each channel: one of `MEMORY_BITS`.
    faults, progress
        As of `KernelBoard`.

    Raises
    ------
    ParameterError
        If there is no such memory, or its beats are not as wide as `parameters` say.
    BoardBuildError
        If it cannot be compiled.
    """
    bits = MEMORY_BITS[of_memory(memory)]
    channels = parameters.channels
    built = dataclasses.replace(parameters, address_bits=bits + channels.bit_length() - 1)
    settings: Mapping[str, MemorySettings] = {
        "litedram": LitedramSettings(module="MT41K256M16"),
        "fast": FastMemorySettings(beat_bits=built.data_bits, size=1 << bits, address_width=bits),
    }
    if settings[memory].beat_bits != built.data_bits:
        raise ParameterError(f"data_bits must be {settings[memory].beat_bits}, not {built.data_bits}")
    lanes = design_of(built).registers.lanes(built)
    return KernelBoard(built, [settings[memory]] * (lanes * channels), faults=faults, progress=progress)
