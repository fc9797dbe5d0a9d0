"""Settings of one simulated DRAM channel."""

from dataclasses import dataclass

from muntin.contract.errors import ParameterError
from muntin.sim.board.memories import MemoryCore


@dataclass(frozen=True, kw_only=True)
class LitedramSettings:
    """Settings of one DRAM channel: the chips, the controller and its AXI4 ports.

    The defaults are the fastest found for runs that are read and written in order: two ports, so that the
    next row is opened while the last one is still read; enough of a read buffer that neither port ever waits
    for it at a row's end; no change of direction as long as there is work in this one; and refreshes eight at
    a time.

    Parameters
    ----------
    module : str
        Name of a DDR3 part of `litedram.modules`.
    chip_bits : int
        Bits of the chips' data bus; a beat has eight times as many.
    clock_hz : float
        The controller's clock; the chips run at four times this clock.
    speedgrade : str
        Which of the part's timings hold. The timings are in clocks or nanoseconds, so that a part run at less
        than its grade needs those of the grade it is run at: 100 MHz is DDR3-800.
    ports : int
        AXI4 ports at this channel: a power of two.
    read_buffer, write_buffer : int
        Beats that a port buffers in each direction; they bound the commands a port has under way.
    command_buffer : int
        Commands that wait at each bank.
    read_time, write_time : int
        Cycles after which the controller goes to the other direction when a port waits for it.
    refresh_postponing : int
        Refreshes done together, 1 to 8.
    with_refresh : bool
        False only to see what refresh costs.

    Attributes
    ----------
    beat_bits : int
        Bits of a beat.
    """

    module: str = "MT41K128M16"
    chip_bits: int = 16
    clock_hz: float = 100e6
    speedgrade: str = "800"
    ports: int = 2
    read_buffer: int = 96
    write_buffer: int = 32
    command_buffer: int = 16
    read_time: int = 255
    write_time: int = 255
    refresh_postponing: int = 8
    with_refresh: bool = True

    def __post_init__(self) -> None:
        if self.chip_bits not in (8, 16, 32, 64):
            raise ParameterError(f"chip_bits must be 8, 16, 32 or 64, not {self.chip_bits!r}")
        if not 1 <= self.refresh_postponing <= 8:
            raise ParameterError(f"refresh_postponing must be from 1 to 8, not {self.refresh_postponing!r}")
        for name in ("ports", "read_buffer", "write_buffer", "command_buffer", "read_time", "write_time"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1, not {getattr(self, name)!r}")

    @property
    def beat_bits(self) -> int:
        return 8 * self.chip_bits

    def build(self, name: str) -> MemoryCore:
        """Make the controller and its chips as a Verilog module of this name; LiteDRAM must be installed."""
        from muntin.sim.litedram.litedram_core import litedram_core

        return litedram_core(self, name)
