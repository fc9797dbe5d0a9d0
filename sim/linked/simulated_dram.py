"""A board's memory controller, with a model of the physical layer and the chips."""

from __future__ import annotations

from typing import Any

from migen import ClockDomain, Module, Signal

from muntin.hw.dram.dram_core import DramCore
from muntin.hw.dram.dram_settings import DramSettings
from muntin.hw.dram.litedram_channel import litedram_channel
from muntin.sim.linked.ecp5_phy_model import Ecp5PhyModel


def simulated_dram(settings: DramSettings, name: str) -> DramCore:
    """Make a memory controller as `muntin.hw.dram.ecp5_dram` does, over a model of its physical layer and chips.

    Parameters
    ----------
    settings : DramSettings
    name : str
        Name of the Verilog module, which takes ``clk`` and ``rst``.
    """

    def add_phy(top: Module, chip: Any) -> tuple[Any, set[Signal]]:
        top.clock_domains.cd_sys = ClockDomain("sys")
        top.cd_sys.clk.name_override, top.cd_sys.rst.name_override = "clk", "rst"
        return Ecp5PhyModel(chip, settings.chip_bits, settings.clock_hz), {top.cd_sys.clk, top.cd_sys.rst}

    return litedram_channel(settings, name, add_phy)
