"""Lets what is under way at a memory port end, so that what drives it can be reset."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape


class PortGuard(wiring.Component):
    """Passes everything on, until `halt` is 1; then it lets what is under way end, and no more begin.

    Parameters
    ----------
    shape : PortShape
        Widths and limits of the port.

    Attributes
    ----------
    i : In(Axi4Signature)
        From a master that takes all that it has asked for, gives all beats that it has announced, and has at most
        `outstanding` bursts of each direction under way.
    axi : Out(Axi4Signature)
        To the memory.
    halt : In(1)
        An address that the memory sees already is still taken, others wait.
    quiet : Out(1)
        Under `halt`: nothing is under way, and nothing will be until `halt` ends. The master can be reset.

    Timing
    ------
    Everything passes through in the same cycle, but that the first beat to write waits until its address was taken.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        signature = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__({"i": In(signature), "axi": Out(signature), "halt": In(1), "quiet": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, axi = self.i, self.axi
        most = range(2 * self._shape.outstanding + 2)
        reads, writes, announced = Signal(most), Signal(most), Signal(most)
        shut = {}
        for channel in ("ar", "aw"):
            shut[channel] = Signal(name=f"{channel}_shut")
            valid, ready = getattr(axi, f"{channel}valid"), getattr(axi, f"{channel}ready")
            m.d.sync += shut[channel].eq(self.halt & (shut[channel] | ~valid | ready))
            m.d.comb += [
                valid.eq(getattr(i, f"{channel}valid") & ~shut[channel]),
                getattr(i, f"{channel}ready").eq(ready & ~shut[channel]),
            ]
            for field in ("id", "addr", "len", "size", "burst"):
                m.d.comb += getattr(axi, f"{channel}{field}").eq(getattr(i, f"{channel}{field}"))
        for channel, fields, into, out in (
            ("w", ("data", "strb", "last"), i, axi),
            ("r", ("id", "data", "resp", "last"), axi, i),
            ("b", ("id", "resp"), axi, i),
        ):
            may = announced != 0 if channel == "w" else 1
            m.d.comb += [
                getattr(out, f"{channel}valid").eq(getattr(into, f"{channel}valid") & may),
                getattr(into, f"{channel}ready").eq(getattr(out, f"{channel}ready") & may),
            ]
            for field in fields:
                m.d.comb += getattr(out, f"{channel}{field}").eq(getattr(into, f"{channel}{field}"))

        wrote = axi.awvalid & axi.awready
        m.d.sync += [
            reads.eq(reads + (axi.arvalid & axi.arready) - (axi.rvalid & axi.rready & axi.rlast)),
            writes.eq(writes + wrote - (axi.bvalid & axi.bready)),
            announced.eq(announced + wrote - (axi.wvalid & axi.wready & axi.wlast)),
        ]
        m.d.comb += self.quiet.eq(shut["ar"] & shut["aw"] & (reads == 0) & (writes == 0) & (announced == 0))
        return m
