"""Model of an Ethernet chip: bytes of packets, as the wire has them."""

from __future__ import annotations

from liteeth.common import eth_phy_description
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import ClockDomain, ResetSignal, Signal


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
