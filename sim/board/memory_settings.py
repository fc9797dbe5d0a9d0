"""What a board's memory can be made from."""

from typing import Protocol

from muntin.sim.board.memory_core import MemoryCore


class MemorySettings(Protocol):
    """What a board's memory can be made from: `LitedramSettings`, `FastMemorySettings`."""

    @property
    def beat_bits(self) -> int:
        """Bits of a beat."""

    def build(self, name: str) -> MemoryCore:
        """Make the memory as a Verilog module of this name."""
