"""LiteDRAM on an ECP5: controller, physical layer, clocks and resets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

from litedram.gen import LiteDRAMECP5DDRPHYCRG
from litedram.phy import GENSDRPHY, ecp5ddrphy
from litex.build.io import DDROutput
from litex.build.lattice.common import lattice_ecp5_trellis_special_overrides
from litex.soc.cores.clock import ECP5PLL
from migen import ClockDomain, ClockSignal, Module, Record, ResetSignal, Signal
from migen.genlib.cdc import MultiReg

from muntin.hw.dram.dram_settings import Ddr3Settings, DramCore, DramSettings, SdrSettings
from muntin.hw.dram.litedram_channel import litedram_channel

_INIT_HZ = 25e6
_LATER = 90  # degrees of the clock's phase at the chips, as on LiteX's ULX3S


def ecp5_dram(settings: DramSettings, name: str, *, input_hz: int, row_bits: int) -> DramCore:
    """Make LiteDRAM's controller for an ECP5, with its clocks.

    The reset ends once the clocks are locked to the board's.

    Parameters
    ----------
    settings : DramSettings
    name : str
        Name of the Verilog module.
    input_hz : int
        Clock that the board gives.
    row_bits : int
        Lines of the chips' address.

    Returns
    -------
    DramCore
        Its module takes ``clk`` and ``rst``, gives ``user_clk``, ``user_rst`` and ``pll_locked``, and has the pads
        `DramSettings.out` and `DramSettings.both`. Of pairs there is the positive half; the other is driven with it.
    """
    add = _PHYS[type(settings)]

    def add_phy(top: Module, chip: Any) -> tuple[Any, set[Signal]]:
        outside = {pin: Signal(name_override=pin) for pin in ("clk", "rst", "pll_locked", "user_clk", "user_rst")}
        widths = settings.out(row_bits, chip.geom_settings.bankbits) | settings.both()
        pads = Record(list(widths.items()), name=settings.pads)
        phy = add(top, settings, input_hz, outside, pads)
        top.comb += [outside["user_clk"].eq(ClockSignal("sys")), outside["user_rst"].eq(ResetSignal("sys"))]
        for pad, *_ in pads.layout:
            getattr(pads, pad).name_override = f"{settings.pads}_{pad}"
        return phy, {*outside.values(), *pads.flatten()}

    core = litedram_channel(settings, name, add_phy, lattice_ecp5_trellis_special_overrides)
    # What the overrides make of a pad that goes both ways looks like an input to Migen.
    both = "|".join(f"{settings.pads}_{pad}" for pad in settings.both())
    verilog = re.sub(rf"\binput  wire(.*\b(?:{both}),)", r"inout  wire\1", core.verilog)
    return dataclasses.replace(core, verilog=verilog)


def _ddr3(top: Module, settings: Ddr3Settings, input_hz: int, outside: dict[str, Signal], pads: Record) -> Any:
    # The generator's own clocks and resets, which ask a platform for the pins.
    platform = type("Pins", (), {"request": lambda self, pin: outside[pin]})()
    config = {
        "memtype": "DDR3",
        "input_clk_freq": input_hz,
        "sys_clk_freq": settings.clock_hz,
        "init_clk_freq": _INIT_HZ,
    }
    top.submodules.clocks = clocks = LiteDRAMECP5DDRPHYCRG(platform, config)
    phy = ecp5_phy(pads, settings)
    top.comb += [clocks.stop.eq(phy.init.stop), clocks.reset.eq(phy.init.reset)]
    return phy


def _sdr(top: Module, settings: SdrSettings, input_hz: int, outside: dict[str, Signal], pads: Record) -> Any:
    top.clock_domains.cd_sys = ClockDomain("sys")
    top.clock_domains.cd_chips = ClockDomain("chips", reset_less=True)
    top.submodules.clocks = clocks = ECP5PLL()
    top.comb += [clocks.reset.eq(outside["rst"]), outside["pll_locked"].eq(clocks.locked)]
    clocks.register_clkin(outside["clk"], input_hz)
    clocks.create_clkout(top.cd_sys, settings.clock_hz, margin=0)
    clocks.create_clkout(top.cd_chips, settings.clock_hz, margin=0, phase=_LATER, with_reset=False)
    top.specials += DDROutput(1, 0, pads.clk, ClockSignal("chips"))
    return GENSDRPHY(pads, sys_clk_freq=settings.clock_hz)


_PHYS: dict[type[DramSettings], Callable[..., Any]] = {Ddr3Settings: _ddr3, SdrSettings: _sdr}


class _Start(ecp5ddrphy.ECP5DDRPHYInit):
    """LiteDRAM's start of the delay-locked loop, with its pause brought into the clock of the lanes that heed it."""

    def __init__(self) -> None:
        super().__init__()
        pause, self.pause = self.pause, Signal()
        self.specials += MultiReg(pause, self.pause, "sys")


def ecp5_phy(pads: Record, settings: Ddr3Settings) -> Any:
    """Make LiteDRAM's physical layer for the ECP5.

    Parameters
    ----------
    pads : Record
        ``clk_p``, ``a``, ``dq`` and so on.
    settings : Ddr3Settings
        Its `command_delay` and `termination` are set: the latter in mode register 1 of the start.
    """
    with mock.patch.object(ecp5ddrphy, "ECP5DDRPHYInit", _Start):
        phy = ecp5ddrphy.ECP5DDRPHY(pads, sys_clk_freq=settings.clock_hz, cmd_delay=settings.command_delay)
    phy.settings.rtt_nom = settings.termination
    return phy
