"""A board's UDP core, with a model of the Ethernet chip."""

from __future__ import annotations

from typing import Any

from migen import Module, Signal

from muntin.contract.boards import EthernetLine
from muntin.hw.ethernet.udp_core import udp_core
from muntin.sim.linked.ethernet_phy_model import EthernetPhyModel


def simulated_ethernet(line: EthernetLine, name: str, *, clock_hz: int) -> str:
    """Make a board's UDP core as `muntin.hw.ethernet.ecp5_ethernet` does, over a model of the chip.

    Parameters
    ----------
    line : EthernetLine
    name : str
        Name of the Verilog module.
    clock_hz : int
        The clock of the board.
    """

    def add_phy(top: Module) -> tuple[Any, set[Signal]]:
        phy = EthernetPhyModel()
        return phy, set(phy.pins.values())

    return udp_core(line, name, clock_hz, add_phy)
