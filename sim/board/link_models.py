"""What stands in for hard cells of a linked board."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from litedram.phy import GENSDRPHY
from liteeth.common import eth_phy_description
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import ClockDomain, ClockSignal, Instance, Module, Record, ResetSignal, Signal

from muntin.contract.boards import EthernetLine
from muntin.hw.dram.dram_settings import Ddr3Settings, DramCore, DramSettings, SdrSettings
from muntin.hw.dram.litedram_channel import dram_chip, litedram_channel
from muntin.hw.link.udp_core import udp_core
from muntin.sim.board.ecp5_phy_model import Ecp5PhyModel


class EthernetPhyModel(LiteXModule):
    """Model of LiteEth's physical layers: a byte in each cycle of the wire's clock, while there is a packet.

    Unlike on a board, a byte comes whole and not as two halves at the edges of the clock.

    Attributes
    ----------
    pins : dict of str to Signal
        ``eth_clk``; ``eth_rx_valid`` and ``eth_rx_data`` from the wire, ``eth_tx_valid`` and ``eth_tx_data`` to it.
    """

    def __init__(self):
        self.cd_eth_rx = ClockDomain("eth_rx")
        self.cd_eth_tx = ClockDomain("eth_tx")
        bits = {"clk": 1, "rx_valid": 1, "rx_data": 8, "tx_valid": 1, "tx_data": 8}
        self.pins = pins = {
            name: Signal(width, name_override=name) for name, width in ((f"eth_{pin}", bits[pin]) for pin in bits)
        }
        self.sink = sink = stream.Endpoint(eth_phy_description(8))
        self.source = source = stream.Endpoint(eth_phy_description(8))
        for domain in (self.cd_eth_rx, self.cd_eth_tx):
            self.comb += [domain.clk.eq(pins["eth_clk"]), domain.rst.eq(ResetSignal("sys"))]
        self.sync.eth_rx += [source.valid.eq(pins["eth_rx_valid"]), source.data.eq(pins["eth_rx_data"])]
        self.comb += [
            source.last.eq(~pins["eth_rx_valid"]),
            sink.ready.eq(1),
            pins["eth_tx_valid"].eq(sink.valid),
            pins["eth_tx_data"].eq(sink.data),
        ]


def simulated_dram(settings: DramSettings, name: str) -> DramCore:
    """Make a memory controller as `muntin.hw.dram.ecp5_dram` does, over a model of its chips.

    The physical layer of DDR3, which is made of hard cells, is a model too (`Ecp5PhyModel`); that of SDR SDRAM is what
    is built for the board, with registers for its pins.

    Parameters
    ----------
    settings : DramSettings
    name : str
        Name of the Verilog module, which takes ``clk`` and ``rst``.
    """
    make = _PHYS[type(settings)]

    def add_phy(top: Module, chip: Any) -> tuple[Any, set[Signal]]:
        top.clock_domains.cd_sys = ClockDomain("sys")
        top.cd_sys.clk.name_override, top.cd_sys.rst.name_override = "clk", "rst"
        return make(top, chip, settings), {top.cd_sys.clk, top.cd_sys.rst}

    core = litedram_channel(settings, name, add_phy)
    return dataclasses.replace(core, verilog=core.verilog + _CHIPS[type(settings)])


def _ddr3(top: Module, chip: Any, settings: Ddr3Settings) -> Any:
    return Ecp5PhyModel(chip, settings)


def _sdr(top: Module, chip: Any, settings: SdrSettings) -> Any:
    geometry = chip.geom_settings
    widths = settings.out(geometry.rowbits, geometry.bankbits) | settings.both()
    pads = Record([(pad, width) for pad, width in widths.items() if pad != "clk"], name=settings.pads)
    pins = {f"{'io' if pad in settings.both() else 'i'}_{pad}": getattr(pads, pad) for pad, *_ in pads.layout}
    top.specials += Instance(
        "sdr_chip",
        **{f"p_{name}": value for name, value in chip_parameters(settings).items()},
        i_clk=~ClockSignal("sys"),  # behind the controller's, as on the board
        **pins,
    )
    return GENSDRPHY(pads, sys_clk_freq=settings.clock_hz)


_PHYS: dict[type[DramSettings], Callable[..., Any]] = {Ddr3Settings: _ddr3, SdrSettings: _sdr}
_CHIPS = {Ddr3Settings: "", SdrSettings: Path(__file__).with_name("sdr_chip.v").read_text()}
_TIMINGS: dict[type[DramSettings], tuple[str, ...]] = {
    SdrSettings: ("RCD", "RP", "RAS", "RFC"),
    Ddr3Settings: ("RCD", "RP", "RAS", "RFC", "WR"),
}


def chip_parameters(settings: DramSettings) -> dict[str, int]:
    """Parameters of ``sdr_chip.v`` or ``ddr3_chip.v``: bits of its address and data, and its timings in its cycles."""
    chip = dram_chip(settings)
    geometry = chip.geom_settings
    bits = {"ROW_BITS": geometry.rowbits, "COLUMN_BITS": geometry.colbits, "BANK_BITS": geometry.bankbits}
    timings = {}
    for timing in _TIMINGS[type(settings)]:
        cycles, nanoseconds = chip.get(f"t{timing}")
        timings[timing] = max(cycles or 0, math.ceil((nanoseconds or 0) * settings.chip_hz / 1e9))
    return {**bits, "WIDTH": settings.chip_bits, **timings}


def simulated_ethernet(line: EthernetLine, name: str, *, clock_hz: int) -> str:
    """Make a board's UDP core as `muntin.hw.link.ecp5_ethernet` does, over a model of the chip.

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
