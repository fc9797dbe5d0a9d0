"""Memories of a simulated board: what a board must know of one, and one without DRAM timing."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from muntin.contract import ParameterError

_SOURCE = Path(__file__).with_name("fast_memory.v")
_ROW_BYTES = 4096


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


@dataclass(frozen=True, kw_only=True)
class FastMemorySettings:
    """Settings of an AXI4 memory without DRAM timing: quick to compile and to run, exact, and it can misbehave.

    It answers in order, `latency` cycles after an address was taken, and moves a beat a cycle in each
    direction at once. An address beyond its size answers DECERR. Reads see what was written before their
    beat is given, not before their address was taken.

    Parameters
    ----------
    beat_bits : int
        Bits of a beat: a power of two, from 16 to 1024.
    size : int
        Bytes: a multiple of 4096.
    latency : int
        Cycles from an address to its first beat, and from a burst's last beat to its acknowledgement, at the
        least; 2 or more.
    outstanding : int
        Bursts that may wait in each direction: a power of two.
    address_width : int
        Bits of a byte address at the port.

    Notes
    -----
    The core has inputs, which a `Board` has as ports ``channel_0_stall`` and so on. All start at 0, where
    nothing is out of order:

    ``stall``
        Share of cycles, in 256ths, in which each channel on its own does nothing new; the same cycles after
        every reset.
    ``error_start``, ``error_end``, ``error_response``
        Addresses from start to before end answer 2 (SLVERR) or 3 (DECERR). They keep what they hold, and give
        its complement.
    ``silent_start``, ``silent_end``
        Addresses from start to before end never answer, nor does anything behind them, until the next reset.

    Raises
    ------
    ParameterError
        If a value is outside what is said above.
    """

    beat_bits: int = 128
    size: int = 1 << 24
    latency: int = 20
    outstanding: int = 32
    address_width: int = 32

    def __post_init__(self) -> None:
        if self.beat_bits not in (16, 32, 64, 128, 256, 512, 1024):
            raise ParameterError(f"beat_bits must be a power of two from 16 to 1024, not {self.beat_bits!r}")
        if not 16 <= self.address_width <= 63:
            raise ParameterError(f"address_width must be from 16 to 63, not {self.address_width!r}")
        if self.size < _ROW_BYTES or self.size % _ROW_BYTES or self.size > 1 << self.address_width:
            raise ParameterError(
                f"size must be a multiple of {_ROW_BYTES} that fits address_width ({self.address_width}), "
                f"not {self.size!r}"
            )
        if not 2 <= self.latency < 1 << 16:
            raise ParameterError(f"latency must be from 2 to {(1 << 16) - 1}, not {self.latency!r}")
        if self.outstanding < 2 or self.outstanding & (self.outstanding - 1):
            raise ParameterError(f"outstanding must be a power of two, at least 2, not {self.outstanding!r}")

    def build(self, name: str) -> MemoryCore:
        """Make the memory as a Verilog module of this name."""
        beat_bytes = self.beat_bits // 8
        values = {
            "BEAT_BITS": self.beat_bits,
            "BEAT_SHIFT": beat_bytes.bit_length() - 1,
            "ADDRESS_WIDTH": self.address_width,
            "BEATS": self.size // beat_bytes,
            "LATENCY": self.latency,
            "QUEUE_SHIFT": self.outstanding.bit_length() - 1,
        }
        text = re.sub(r"\bmodule fast_memory\b", f"module {name}", _SOURCE.read_text())
        for parameter, value in values.items():
            text = re.sub(rf"(parameter {parameter}) = \d+", rf"\1 = {value}", text)
        return MemoryCore(
            verilog=text,
            address_width=self.address_width,
            ports=1,
            banks=1,
            rows=self.size // _ROW_BYTES,
            row_bytes=_ROW_BYTES,
            bank_arrays=("mem",),
            inputs={
                "stall": 8,
                "error_start": self.address_width + 1,
                "error_end": self.address_width + 1,
                "error_response": 2,
                "silent_start": self.address_width + 1,
                "silent_end": self.address_width + 1,
            },
        )
