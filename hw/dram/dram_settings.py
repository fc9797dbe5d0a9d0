"""Settings of a board's DRAM channel. Standard library only."""

from __future__ import annotations

import dataclasses
from typing import Any

from muntin.contract.errors import ParameterError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramSettings:
    """Settings of a board's DRAM channel: the chip, the controller and its AXI4 ports.

    Why the controller is set so is said in `muntin.sim.litedram.litedram_settings`, where its rate was measured.

    Parameters
    ----------
    module : str
        Name of a DDR3 part of `litedram.modules`.
    speedgrade : str
        Which of the part's timings hold.
    refresh_ns : int
        Nanoseconds that a refresh takes, by the chip's data sheet. LiteDRAM gives them in clocks of the fastest grade,
        which is several times as long for a chip that runs as slowly as here.
    chip_bits : int
        Bits of the chips' data bus.
    clock_hz : int
        The controller's clock; the chips run at twice this clock.
    ports : int
        AXI4 ports for the kernel, over which rows are spread in turn: a power of two.
    read_buffer, write_buffer : int
        Beats that such a port buffers in each direction; at least the beats of the longest burst to write.
    command_buffer : int
        Commands that wait at each bank.
    read_time, write_time : int
        Cycles after which the controller goes to the other direction when a port waits for it.
    refresh_postponing : int
        Refreshes done together, 1 to 8.

    Attributes
    ----------
    beat_bits : int
        Bits of a beat: eight transfers on the chips' bus, which take two cycles.
    """

    module: str
    speedgrade: str
    refresh_ns: int
    chip_bits: int
    clock_hz: int
    ports: int
    read_buffer: int
    write_buffer: int
    command_buffer: int
    read_time: int
    write_time: int
    refresh_postponing: int

    def __post_init__(self) -> None:
        if self.chip_bits not in (8, 16, 32, 64):
            raise ParameterError(f"chip_bits must be 8, 16, 32 or 64, not {self.chip_bits!r}")
        if not 1 <= self.refresh_postponing <= 8:
            raise ParameterError(f"refresh_postponing must be from 1 to 8, not {self.refresh_postponing!r}")

    @property
    def beat_bits(self) -> int:
        return 8 * self.chip_bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramCore:
    """A DRAM controller in Verilog, with what must be known of it.

    Attributes
    ----------
    verilog : str
        One module with ports ``axi0_awvalid`` and so on for each AXI4 port, ``csr_adr``, ``csr_we``, ``csr_re``,
        ``csr_dat_w`` and ``csr_dat_r``, and those of its clocks and pads.
    row_bytes : int
        Bytes after which the next bank follows.
    memory_bytes : int
    start : dict
        How it is started, for JSON; see `muntin.hw.dram.start_description`.
    """

    verilog: str
    row_bytes: int
    memory_bytes: int
    start: dict[str, Any]
