"""A UDP core, and the buffer between it and its PHY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from liteeth.common import eth_phy_description
from liteeth.core import LiteEthUDPIPCore
from liteeth.mac.gap import LiteEthMACGap
from litex.gen import LiteXModule
from litex.soc.interconnect.packet import PacketFIFO
from migen import ClockDomain, ClockDomainsRenamer, Module, Signal

from muntin.contract.boards import EthernetLine
from muntin.hw.litex_verilog import litex_verilog

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


# The wire brings three bytes in a cycle of a design at 40 MHz, which takes one: so many bytes wait, more than all of a
# frame of the link.
_RECEIVE_BYTES = 4096
_SEND_CROSSING = 32
_PING_BYTES = 2048  # a longer packet than this is none


def udp_core(
    line: EthernetLine,
    name: str,
    clock_hz: int,
    add_phy: Callable[[Module], tuple[Any, set[Signal]]],
    overrides: dict[Any, Any] | None = None,
) -> str:
    """Make LiteEth's core: MAC, ARP, ping and one UDP port, over a physical layer.

    Parameters
    ----------
    line : EthernetLine
    name : str
        Name of the Verilog module.
    clock_hz : int
        The clock it is given, which times ARP.
    add_phy : callable
        Given the module, adds a physical layer of 8 bits with its clocks, and gives it and the ports for them.
    overrides : dict, optional
        What stands for Migen's special things on that FPGA.

    Returns
    -------
    str
        Verilog; the module takes ``clk`` and ``rst``, and has the ports of `muntin.hw.link.signatures`.
    """
    top = Module()
    top.clock_domains.cd_sys = ClockDomain("sys")
    top.cd_sys.clk.name_override, top.cd_sys.rst.name_override = "clk", "rst"
    phy, ios = add_phy(top)
    top.submodules.phy = phy = BufferedPhy(phy)
    top.submodules.core = core = LiteEthUDPIPCore(
        phy=phy,
        mac_address=line.mac,
        ip_address=line.ip,
        clk_freq=clock_hz,
        dw=8,
        icmp_fifo_depth=_PING_BYTES,
        with_ip_broadcast=False,
        # Preambles and checksums in the design's clock: in the wire's, which is three times as fast, are FIFOs alone.
        with_sys_datapath=True,
        tx_cdc_depth=_SEND_CROSSING,
        rx_cdc_depth=_RECEIVE_BYTES,
    )
    port = core.udp.crossbar.get_port(line.port, dw=8)
    ios |= {top.cd_sys.clk, top.cd_sys.rst}

    def pin(name: str, bits: int) -> Signal:
        signal = Signal(bits, name_override=name)
        ios.add(signal)
        return signal

    received, sent = port.source, port.sink
    top.comb += [
        pin("rx_valid", 1).eq(received.valid),
        pin("rx_data", 8).eq(received.data),
        pin("rx_ip", 32).eq(received.ip_address),
        pin("rx_port", 16).eq(received.src_port),
        received.ready.eq(1),
        pin("tx_ready", 1).eq(sent.ready),
        sent.valid.eq(pin("tx_valid", 1)),
        sent.last.eq(pin("tx_last", 1)),
        sent.data.eq(pin("tx_data", 8)),
        sent.ip_address.eq(pin("tx_ip", 32)),
        sent.dst_port.eq(pin("tx_port", 16)),
        sent.length.eq(pin("tx_length", 16)),
        sent.src_port.eq(line.port),
    ]
    return litex_verilog(top, name, ios, overrides)
