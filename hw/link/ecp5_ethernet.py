"""LiteEth on an ECP5, at an RGMII chip."""

from __future__ import annotations

from typing import Any

from liteeth.phy.ecp5rgmii import LiteEthPHYRGMII
from litex.build.lattice.common import lattice_ecp5_trellis_special_overrides
from migen import Module, Record, Signal

from muntin.contract.boards import EthernetLine
from muntin.hw.link.udp_core import udp_core

_CLOCKS = [("tx", 1), ("rx", 1)]
_PADS = [("rst_n", 1), ("tx_ctl", 1), ("tx_data", 4), ("rx_ctl", 1), ("rx_data", 4)]

PADS_OUT = {"clk_tx": 1, "rst_n": 1, "tx_ctl": 1, "tx_data": 4}
PADS_IN = {"clk_rx": 1, "rx_ctl": 1, "rx_data": 4}
"""Pads of the module, each behind ``eth_``, and their bits."""


def ecp5_ethernet(line: EthernetLine, name: str, *, clock_hz: int) -> str:
    """Make LiteEth's UDP core for an ECP5, at an RGMII chip on a line of 1 Gbit/s.

    Parameters
    ----------
    line : EthernetLine
    name : str
        Name of the Verilog module.
    clock_hz : int
        The clock it is given.

    Returns
    -------
    str
        Verilog, with the ports of `muntin.hw.link.udp_core` and the pads `PADS_OUT` and `PADS_IN`. The chip's
        management is left at what its pins tell it.
    """

    def add_phy(top: Module) -> tuple[Any, set[Signal]]:
        clocks, pads = Record(_CLOCKS), Record(_PADS)
        for pad, _ in _CLOCKS:
            getattr(clocks, pad).name_override = f"eth_clk_{pad}"
        for pad, _ in _PADS:
            getattr(pads, pad).name_override = f"eth_{pad}"
        phy = LiteEthPHYRGMII(
            clocks, pads, tx_delay=line.transmit_delay_ps * 1e-12, rx_delay=line.receive_delay_ps * 1e-12
        )
        return phy, {*clocks.flatten(), *pads.flatten()}

    return udp_core(line, name, clock_hz, add_phy, lattice_ecp5_trellis_special_overrides)
