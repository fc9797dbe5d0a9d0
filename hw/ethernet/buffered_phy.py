"""A physical layer that sends a packet once it has all of it."""

from __future__ import annotations

from liteeth.common import eth_phy_description
from liteeth.mac.gap import LiteEthMACGap
from litex.gen import LiteXModule
from litex.soc.interconnect.packet import PacketFIFO
from migen import ClockDomainsRenamer

_PACKET_BYTES = 2048
_PACKETS = 8


class BufferedPhy(LiteXModule):
    """A physical layer that sends a packet once it has all of it.

    A packet on the wire may have no gap, and the design's clock makes its bytes more slowly than the wire takes them.

    Parameters
    ----------
    phy : Module
        LiteEth's, of 8 bits, with clock domains ``eth_tx`` and ``eth_rx``.
    """

    dw = 8
    integrated_ifg_inserter = True  # here, as packets wait here; the core then has none before

    def __init__(self, phy):
        self.phy = phy
        in_line = ClockDomainsRenamer("eth_tx")
        self.packets = packets = in_line(
            PacketFIFO(eth_phy_description(8), payload_depth=_PACKET_BYTES, param_depth=_PACKETS, buffered=True)
        )
        self.gap = gap = in_line(LiteEthMACGap(8))
        self.sink, self.source = packets.sink, phy.source
        self.comb += [packets.source.connect(gap.sink), gap.source.connect(phy.sink)]
