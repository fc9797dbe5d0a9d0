"""Cuts the paths between a memory port and what it leads to."""

from amaranth.hdl import Cat, Module
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape

CHANNELS = {
    "ar": ("id", "addr", "len", "size", "burst"),
    "aw": ("id", "addr", "len", "size", "burst"),
    "w": ("data", "strb", "last"),
    "r": ("id", "data", "resp", "last"),
    "b": ("id", "resp"),
}
"""The channels of AXI4, with what goes over each beside its handshake."""


class PortSlice(wiring.Component):
    """Passes everything on a cycle later, so that no path leads through it.

    Parameters
    ----------
    shape : PortShape
        Widths of the port.

    Attributes
    ----------
    i : In(Axi4Signature)
    axi : Out(Axi4Signature)

    Timing
    ------
    One cycle on each channel, and one of each every cycle.
    """

    def __init__(self, shape: PortShape):
        signature = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__({"i": In(signature), "axi": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for channel, fields in CHANNELS.items():
            into, out = (self.axi, self.i) if channel in ("r", "b") else (self.i, self.axi)
            given = Cat(getattr(into, f"{channel}{field}") for field in fields)
            kept = fifo.SyncFIFO(width=len(given), depth=2)
            m.submodules[channel] = kept
            m.d.comb += [
                kept.w_data.eq(given),
                kept.w_en.eq(getattr(into, f"{channel}valid")),
                getattr(into, f"{channel}ready").eq(kept.w_rdy),
                Cat(getattr(out, f"{channel}{field}") for field in fields).eq(kept.r_data),
                getattr(out, f"{channel}valid").eq(kept.r_rdy),
                kept.r_en.eq(getattr(out, f"{channel}ready")),
            ]
        return m
