"""Makes the Verilog of a LiteDRAM controller with chips to talk to."""

import re
from typing import TYPE_CHECKING

from litedram import modules
from litedram.core.controller import ControllerSettings, LiteDRAMController
from litedram.core.crossbar import LiteDRAMCrossbar
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.phy.model import SDRAMPHYModel, get_sdram_phy_settings
from litex.gen.fhdl.verilog import convert
from migen import ClockDomain, Module

from muntin.sim.board.memories import MemoryCore

if TYPE_CHECKING:
    from muntin.sim.litedram.litedram_settings import LitedramSettings

_CHANNELS = {
    "aw": ("addr", "burst", "len", "size", "id"),
    "w": ("data", "strb", "last"),
    "b": ("resp", "id"),
    "ar": ("addr", "burst", "len", "size", "id"),
    "r": ("data", "resp", "last", "id"),
}


def litedram_core(settings: "LitedramSettings", name: str) -> MemoryCore:
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
        for channel, fields in _CHANNELS.items():
            endpoint = getattr(axi, channel)
            for field in ("valid", "ready", *fields):
                signal = getattr(endpoint, field)
                signal.name_override = f"axi{number}_{channel}{field}"
                ios.add(signal)
    # Without its comments, which tell the time: the same settings make the same Verilog, which is compiled once.
    text = re.sub(r"^\s*//.*\n", "", convert(top, ios, name).main_source, flags=re.M)
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
