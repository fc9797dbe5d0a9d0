"""LiteDRAM's controller, its ports and its registers, for any physical layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from litedram import modules
from litedram.core import LiteDRAMCore
from litedram.core.controller import ControllerSettings
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litex.soc.interconnect import csr_bus
from migen import If, Module, Signal

from muntin.hw.dram.dram_settings import DramCore, DramSettings
from muntin.hw.dram.start_description import start_description
from muntin.hw.litex_verilog import litex_verilog

CHANNELS = {
    "aw": ("addr", "burst", "len", "size", "id"),
    "w": ("data", "strb", "last"),
    "b": ("resp", "id"),
    "ar": ("addr", "burst", "len", "size", "id"),
    "r": ("data", "resp", "last", "id"),
}
_BANKS = {"phy": 0, "dram": 1}
_LINK_BUFFER = 4  # beats; the link has one under way


def dram_chip(settings: DramSettings) -> Any:
    """The chip of a channel, as LiteDRAM describes it: a `litedram.modules.SDRAMModule`."""
    part = getattr(modules, settings.module)
    timings = copy.copy(part.speedgrade_timings[settings.speedgrade])
    timings.tRFC = (None, settings.refresh_ns)
    chip_type = type(part.__name__, (part,), {"speedgrade_timings": {settings.speedgrade: timings, "default": timings}})
    return chip_type(settings.clock_hz, settings.rate, speedgrade=settings.speedgrade)


def litedram_channel(
    settings: DramSettings,
    name: str,
    add_phy: Callable[[Module, Any], tuple[Any, set[Signal]]],
    overrides: dict[Any, Any] | None = None,
) -> DramCore:
    """Make LiteDRAM's controller, with its ports and its registers, over a physical layer.

    `litedram_gen` makes much the same with a system on a chip round it; this takes the parts of the library
    themselves, because the generator fixes the depth of the AXI buffers and brings a bus that nobody uses here.

    Parameters
    ----------
    settings : DramSettings
    name : str
        Name of the Verilog module.
    add_phy : callable
        Given the module and the chip, adds clocks and a physical layer with its registers, and gives it and the ports
        for clocks and pads.
    overrides : dict, optional
        What stands for Migen's special things on that FPGA.

    Returns
    -------
    DramCore
        Its module has a port ``memory_started``, too: 1 once the memory was started, and levelled where it has to be.
    """
    chip = dram_chip(settings)
    top = Module()
    phy, ios = add_phy(top, chip)
    top.submodules.phy = phy
    top.submodules.dram = dram = LiteDRAMCore(
        phy,
        chip.geom_settings,
        chip.timing_settings,
        settings.clock_hz,
        controller_settings=ControllerSettings(
            cmd_buffer_depth=settings.command_buffer,
            read_time=settings.read_time,
            write_time=settings.write_time,
            refresh_postponing=settings.refresh_postponing,
        ),
    )

    # Registers.
    bus = csr_bus.Interface(data_width=32, address_width=14)
    top.submodules.registers = registers = csr_bus.CSRBankArray(
        top, lambda bank, memory: _BANKS[bank], data_width=32, address_width=14
    )
    top.submodules.register_bus = csr_bus.InterconnectShared([bus], registers.get_buses())
    for field in ("adr", "re", "we", "dat_w", "dat_r"):
        signal = getattr(bus, field)
        signal.name_override = f"csr_{field}"
        ios.add(signal)

    # Whoever starts the memory takes it from the controller, and gives it back once it is levelled.
    started, taken = Signal(name_override="memory_started"), Signal()
    given = dram.dfii._control.fields.sel
    top.sync += If(~given, taken.eq(1))
    top.comb += started.eq(given & taken)
    ios.add(started)

    # Memory: the kernel's ports, then the link's.
    for number in range(settings.ports + 1):
        native = dram.crossbar.get_port(data_width=settings.beat_bits)
        address_width = native.address_width + (native.data_width // 8).bit_length() - 1
        axi = LiteDRAMAXIPort(data_width=native.data_width, address_width=address_width, id_width=1)
        own = number < settings.ports
        top.submodules += LiteDRAMAXI2Native(
            axi,
            native,
            w_buffer_depth=settings.write_buffer if own else _LINK_BUFFER,
            r_buffer_depth=settings.read_buffer if own else _LINK_BUFFER,
        )
        for channel, fields in CHANNELS.items():
            endpoint = getattr(axi, channel)
            for field in ("valid", "ready", *fields):
                signal = getattr(endpoint, field)
                signal.name_override = f"axi{number}_{channel}{field}"
                ios.add(signal)

    row_bytes = (1 << chip.geom_settings.colbits) * settings.chip_bits // 8
    verilog = litex_verilog(top, name, ios, overrides)
    return DramCore(
        verilog=verilog,
        row_bytes=row_bytes,
        memory_bytes=(1 << (chip.geom_settings.bankbits + chip.geom_settings.rowbits + chip.geom_settings.colbits))
        * settings.chip_bits
        // 8,
        start=start_description(
            phy.settings,
            chip.timing_settings,
            [(bank, csrs, number) for bank, csrs, number, _ in registers.banks],
            banks_of_rows=[1 << chip.geom_settings.bankbits, row_bytes],
        ),
    )
