"""One simulated DRAM channel: the settings of a LiteDRAM controller, and its Verilog with chips to talk to."""

from dataclasses import dataclass

from muntin.contract import ParameterError
from muntin.hw.dram.litedram_channel import CHANNELS
from muntin.hw.litex_verilog import litex_verilog
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
        return _controller(self, name)


def _controller(settings: LitedramSettings, name: str) -> MemoryCore:
    """Make a LiteDRAM controller with a model of its chips.

    `litedram_gen --sim` makes the same, with a system on a chip around it; this takes the parts of the
    library themselves, because the generator fixes the depth of the AXI buffers and the speed grade, which
    bound the rate. The chips need no training, so that the controller is ready at once.

    Parameters
    ----------
    settings : LitedramSettings
    name : str
        Name of the Verilog module.
    """
    from litedram import modules
    from litedram.core.controller import ControllerSettings, LiteDRAMController
    from litedram.core.crossbar import LiteDRAMCrossbar
    from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
    from litedram.phy.model import SDRAMPHYModel, get_sdram_phy_settings
    from migen import ClockDomain, Module

    top = Module()
    top.clock_domains.cd_sys = ClockDomain("sys")
    chips = getattr(modules, settings.module)(settings.clock_hz, "1:4", speedgrade=settings.speedgrade)
    phy_settings = get_sdram_phy_settings(chips.memtype, settings.chip_bits, settings.clock_hz)
    top.submodules.phy = phy = SDRAMPHYModel(chips, phy_settings, clk_freq=settings.clock_hz)
    top.submodules.controller = controller = LiteDRAMController(
        phy_settings,
        chips.geom_settings,
        chips.timing_settings,
        settings.clock_hz,
        ControllerSettings(
            cmd_buffer_depth=settings.command_buffer,
            read_time=settings.read_time,
            write_time=settings.write_time,
            with_refresh=settings.with_refresh,
            refresh_postponing=settings.refresh_postponing,
        ),
    )
    top.comb += controller.dfi.connect(phy.dfi)
    top.submodules.crossbar = crossbar = LiteDRAMCrossbar(controller.interface)
    ios = {top.cd_sys.clk, top.cd_sys.rst}
    top.cd_sys.clk.name_override, top.cd_sys.rst.name_override = "clk", "rst"
    address_width = 0
    for number in range(settings.ports):
        native = crossbar.get_port()
        address_width = native.address_width + (native.data_width // 8).bit_length() - 1
        axi = LiteDRAMAXIPort(data_width=native.data_width, address_width=address_width, id_width=1)
        top.submodules += LiteDRAMAXI2Native(
            axi, native, w_buffer_depth=settings.write_buffer, r_buffer_depth=settings.read_buffer
        )
        for channel, fields in CHANNELS.items():
            endpoint = getattr(axi, channel)
            for field in ("valid", "ready", *fields):
                signal = getattr(endpoint, field)
                signal.name_override = f"axi{number}_{channel}{field}"
                ios.add(signal)
    text = litex_verilog(top, name, ios)
    banks, rows, columns = (
        chips.geom_settings.bankbits,
        chips.geom_settings.rowbits,
        chips.geom_settings.colbits,
    )
    return MemoryCore(
        verilog=text,
        address_width=address_width,
        ports=settings.ports,
        banks=1 << banks,
        rows=1 << rows,
        row_bytes=(1 << columns) * settings.chip_bits // 8,
        bank_arrays=tuple("mem" if bank == 0 else f"mem_{bank}" for bank in range(1 << banks)),
    )
