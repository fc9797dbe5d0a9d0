"""LiteDRAM on an ECP5: controller, physical layer, clocks and resets."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from litedram.gen import LiteDRAMECP5DDRPHYCRG
from litex.build.lattice.common import lattice_ecp5_trellis_special_overrides
from migen import ClockSignal, Module, Record, ResetSignal, Signal

from muntin.hw.dram.dram_settings import DramCore, DramSettings
from muntin.hw.dram.ecp5_phy import ecp5_phy
from muntin.hw.dram.litedram_channel import litedram_channel

_INIT_HZ = 25e6


def ecp5_dram(settings: DramSettings, name: str, *, input_hz: int, row_bits: int) -> DramCore:
    """Make LiteDRAM's controller for an ECP5, with its clocks.

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
        ``ddram_a`` and so on, of which ``ddram_dq`` and ``ddram_dqs_p`` go both ways. Of pairs there is the positive
        half; the other is driven with it.
    """
    overrides = lattice_ecp5_trellis_special_overrides

    def add_phy(top: Module, chip: Any) -> tuple[Any, set[Signal]]:
        outside = {pin: Signal(name_override=pin) for pin in ("clk", "rst", "pll_locked", "user_clk", "user_rst")}
        # The generator's own clocks and resets, which ask a platform for the pins.
        platform = type("Pins", (), {"request": lambda self, pin: outside[pin]})()
        config = {
            "memtype": "DDR3",
            "input_clk_freq": input_hz,
            "sys_clk_freq": settings.clock_hz,
            "init_clk_freq": _INIT_HZ,
        }
        top.submodules.clocks = clocks = LiteDRAMECP5DDRPHYCRG(platform, config)
        lanes = settings.chip_bits // 8
        pads = Record(
            [
                ("clk_p", 1),
                ("cke", 1),
                ("odt", 1),
                ("ras_n", 1),
                ("cas_n", 1),
                ("we_n", 1),
                ("a", row_bits),
                ("ba", chip.geom_settings.bankbits),
                ("dm", lanes),
                ("dq", settings.chip_bits),
                ("dqs_p", lanes),
            ],
            name="ddram",
        )
        phy = ecp5_phy(pads, settings)
        top.comb += [
            clocks.stop.eq(phy.init.stop),
            clocks.reset.eq(phy.init.reset),
            outside["user_clk"].eq(ClockSignal("sys")),
            outside["user_rst"].eq(ResetSignal("sys")),
        ]
        for pad, *_ in pads.layout:
            getattr(pads, pad).name_override = f"ddram_{pad}"
        return phy, {*outside.values(), *pads.flatten()}

    core = litedram_channel(settings, name, add_phy, overrides)
    # What the overrides make of a pad that goes both ways looks like an input to Migen.
    verilog = re.sub(r"\binput  wire(.*\bddram_dqs?(_p)?,)", r"inout  wire\1", core.verilog)
    return dataclasses.replace(core, verilog=verilog)
