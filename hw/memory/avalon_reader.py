"""AXI4 reads, on an Avalon memory-mapped port."""

from amaranth import Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.avalon_signature import AvalonSignature
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape


class AvalonReader(wiring.Component):
    """AXI4 reads, on an Avalon memory-mapped port.

    Avalon hands over a beat when it is there, whether or not it is wanted, so a burst is asked for only once there is
    room for all of it. Between two requests lies a cycle without one, in which others who share the memory have
    theirs.

    Parameters
    ----------
    shape : PortShape
        Of the AXI4 port. All bursts must be aligned to their beats, and carry identifier 0.
    address_width : int
        Bits of an Avalon address.

    Attributes
    ----------
    axi : In(Axi4Signature with read channels)
        Every answer is OKAY: Avalon knows no other here.
    base : In(address_width)
        Is added to the addresses of `axi`; must stand still while `busy`.
    avalon : Out(AvalonSignature that reads)
    busy : Out(1)
        A request waits, or beats are due.

    Timing
    ------
    One cycle for addresses, two for beats. One beat a cycle, as long as `outstanding` bursts cover the latency of the
    memory.
    """

    def __init__(self, shape: PortShape, address_width: int):
        self._shape = shape
        super().__init__(
            {
                "axi": In(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, write=False)),
                "base": In(address_width),
                "avalon": Out(
                    AvalonSignature(address_width, shape.data_width, shape.burst_beats.bit_length(), write=False)
                ),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, axi, avalon = self._shape, self.axi, self.avalon
        room = shape.outstanding * shape.burst_beats
        m.submodules.beats = beats = fifo.SyncFIFOBuffered(width=shape.data_width, depth=room)
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=8, depth=shape.outstanding)
        claimed = Signal(range(room + 1))  # beats that are asked for and not yet taken by `axi`
        wanted = Signal(range(257))
        asked, taken = Signal(), Signal()
        m.d.comb += [
            wanted.eq(axi.arlen + 1),
            axi.arready.eq(~avalon.read & lengths.w_rdy & (claimed + wanted <= room)),
            asked.eq(axi.arvalid & axi.arready),
            lengths.w_en.eq(asked),
            lengths.w_data.eq(axi.arlen),
        ]
        with m.If(~avalon.waitrequest):
            m.d.sync += avalon.read.eq(0)
        with m.If(asked):
            m.d.sync += [
                avalon.read.eq(1),
                avalon.address.eq(self.base + axi.araddr),
                avalon.burstcount.eq(wanted),
            ]
        m.d.sync += claimed.eq(claimed + Mux(asked, wanted, 0) - taken)

        # Beats come back in the order they were asked for.
        gone = Signal(8)  # beats of the burst that `axi` has taken
        m.d.comb += [
            beats.w_data.eq(avalon.readdata),
            beats.w_en.eq(avalon.readdatavalid),
            axi.rvalid.eq(beats.r_rdy),
            axi.rdata.eq(beats.r_data),
            axi.rlast.eq(gone == lengths.r_data),
            taken.eq(axi.rvalid & axi.rready),
            beats.r_en.eq(taken),
            lengths.r_en.eq(taken & axi.rlast),
            self.busy.eq(avalon.read | (claimed != 0)),
        ]
        with m.If(taken):
            m.d.sync += gone.eq(Mux(axi.rlast, 0, gone + 1))
        return m
