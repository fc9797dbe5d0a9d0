"""Memories of a simulated board."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class MemoryCore:
    """A memory in Verilog, with what a board must know of it.

    Attributes
    ----------
    verilog : str
        One module with ports ``clk``, ``rst``, the `inputs` and, for each AXI4 port, ``axi0_awvalid`` and so on.
    address_width : int
        Bits of a byte address at a port.
    ports : int
        AXI4 ports.
    banks, rows, row_bytes : int
        The address space goes through row 0 of all banks, then through row 1, and so on.
    bank_arrays : tuple of str
        Names of the Verilog arrays that hold the banks, a row after the other.
    inputs : dict of str to int
        Names and bits of further inputs, which become ports of the board.
    """

    verilog: str
    address_width: int
    ports: int
    banks: int
    rows: int
    row_bytes: int
    bank_arrays: tuple[str, ...]
    inputs: dict[str, int] = field(default_factory=dict)


class MemorySettings(Protocol):
    """What a board's memory can be made from: `LitedramSettings`, `FastMemorySettings`."""

    @property
    def beat_bits(self) -> int:
        """Bits of a beat."""

    def build(self, name: str) -> MemoryCore:
        """Make the memory as a Verilog module of this name."""
