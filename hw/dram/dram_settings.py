"""Settings of a board's DRAM channel. Standard library only."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

from muntin.contract import ParameterError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramSettings(abc.ABC):
    """Settings of a board's DRAM channel: the chip, the controller and its AXI4 ports.

    Why the controller is set so is said in `muntin.sim.board.litedram_settings`, where its rate was measured.

    Parameters
    ----------
    module : str
        Name of a part of `litedram.modules`.
    speedgrade : str
        Which of the part's timings hold.
    refresh_ns : int
        Nanoseconds that a refresh takes, by the chip's data sheet. LiteDRAM gives those of DDR3 in clocks of the
        fastest grade, which is several times as long for a chip that runs as slowly as here.
    chip_bits : int
        Bits of the chips' data bus.
    beat_transfers : int
        Transfers on that bus that make a beat of the ports; DDR3 gives eight at a time.
    clock_hz : int
        The controller's clock.
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
    rate : str
        Cycles of the controller to cycles of the chips, as LiteDRAM writes it.
    transfers : int
        Of the chips' bus in a cycle of the controller.
    pads : str
        What the names of the pads begin with.
    chip_hz : int
        The chips' clock.
    beat_bits : int
        Bits of a beat of the ports.
    bytes_per_cycle : int
        What the chips' bus moves in a cycle, in one direction or the other.
    """

    rate: ClassVar[str]
    transfers: ClassVar[int]
    pads: ClassVar[str]

    module: str
    speedgrade: str
    refresh_ns: int
    chip_bits: int
    beat_transfers: int
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
    def chip_hz(self) -> int:
        of_controller, of_chips = self.rate.split(":")
        return self.clock_hz // int(of_controller) * int(of_chips)

    @property
    def beat_bits(self) -> int:
        return self.beat_transfers * self.chip_bits

    @property
    def bytes_per_cycle(self) -> int:
        return self.transfers * self.chip_bits // 8

    @abc.abstractmethod
    def out(self, row_bits: int, bank_bits: int) -> dict[str, int]:
        """Bits of the pads to the chips, which have so many lines of an address."""

    @abc.abstractmethod
    def both(self) -> dict[str, int]:
        """Bits of the pads that are driven by either side."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ddr3Settings(DramSettings):
    """Settings of a channel of DDR3; the chips run at twice the controller's clock.

    Attributes
    ----------
    command_delay : int
        Steps of the delay, of some 25 ps each and at most 127, of the clock and the commands at their pins.
    termination : str
        RTT_NOM of the chips, as LiteDRAM calls it.

    Both follow the clock, as in the boards of LiteX that run: its OrangeCrab and its Kopflos delay commands and switch
    the termination off at 64 MHz and less; its ECPIX-5, tested at 75 MHz, has neither.
    """

    rate = "1:2"
    transfers = 4
    pads = "ddram"

    @property
    def command_delay(self) -> int:
        return 100 if self._slow else 0

    @property
    def termination(self) -> str:
        return "disabled" if self._slow else "60ohm"

    @property
    def _slow(self) -> bool:
        return self.clock_hz <= 64_000_000

    def out(self, row_bits: int, bank_bits: int) -> dict[str, int]:
        single = dict.fromkeys(("clk_p", "cke", "odt", "ras_n", "cas_n", "we_n"), 1)
        return {**single, "a": row_bits, "ba": bank_bits, "dm": self.chip_bits // 8}

    def both(self) -> dict[str, int]:
        return {"dq": self.chip_bits, "dqs_p": self.chip_bits // 8}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SdrSettings(DramSettings):
    """Settings of a channel of SDR SDRAM, whose chips have the controller's clock, a quarter of a cycle later."""

    rate = "1:1"
    transfers = 1
    pads = "sdram"

    def out(self, row_bits: int, bank_bits: int) -> dict[str, int]:
        single = dict.fromkeys(("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n"), 1)
        return {**single, "a": row_bits, "ba": bank_bits, "dm": self.chip_bits // 8}

    def both(self) -> dict[str, int]:
        return {"dq": self.chip_bits}


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
