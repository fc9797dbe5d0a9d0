"""AXI4 writes, on an Avalon memory-mapped port."""

from amaranth import Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.memory.avalon_signature import AvalonSignature
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape


class AvalonWriter(wiring.Component):
    """AXI4 writes, on an Avalon memory-mapped port.

    A burst counts as written when the memory has acknowledged it. Whether it acknowledges bursts or beats is found
    out: as long as it is not known, one burst is under way at a time, and a single acknowledgement of several beats,
    followed by `settle_cycles` without another, is one of the burst.

    Parameters
    ----------
    shape : PortShape
        Of the AXI4 port. All bursts must be aligned to their beats, and carry identifier 0.
    address_width : int
        Bits of an Avalon address.
    settle_cycles : int
        Cycles from one acknowledgement of a burst to the next at most: a power of two, of more cycles than any pause
        of the memory (a refresh, another's bursts), as a burst of which beats are still due would else count as
        written. They are waited for once after a reset.

    Attributes
    ----------
    axi : In(Axi4Signature with write channels)
        Every answer is OKAY: Avalon knows no other here.
    base : In(address_width)
        Is added to the addresses of `axi`; must stand still while `busy`.
    avalon : Out(AvalonSignature that writes)
    busy : Out(1)
        A burst waits, is under way or is not acknowledged.

    Timing
    ------
    One cycle for addresses, none for beats; a cycle without a write lies between two bursts, in which others who share
    the memory have theirs. An answer comes a cycle after the acknowledgement that completes it.

    Raises
    ------
    ParameterError
        If `settle_cycles` is not a power of two.

    Source
    ------
    The OpenCL SDK's Programming Guide names `writeack` and does not say what it acknowledges.
    """

    def __init__(self, shape: PortShape, address_width: int, *, settle_cycles: int):
        if settle_cycles < 2 or settle_cycles & (settle_cycles - 1):
            raise ParameterError(f"settle_cycles must be a power of two, not {settle_cycles!r}")
        self._shape = shape
        self._settle_cycles = settle_cycles
        super().__init__(
            {
                "axi": In(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, read=False)),
                "base": In(address_width),
                "avalon": Out(
                    AvalonSignature(address_width, shape.data_width, shape.burst_beats.bit_length(), write=True)
                ),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, axi, avalon = self._shape, self.axi, self.avalon
        # Bursts that wait for their acknowledgement.
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=8, depth=shape.outstanding)
        owed = Signal(range(shape.outstanding + 1))  # answers to bursts that were acknowledged
        sending = Signal()
        left = Signal(8)  # beats behind the one that is sent
        known, by_burst = Signal(), Signal()
        unanswered = Signal(range(shape.outstanding + 1))
        begun, sent, answered = Signal(), Signal(), Signal()
        m.d.comb += [
            axi.awready.eq(~sending & lengths.w_rdy & Mux(known, unanswered < shape.outstanding, unanswered == 0)),
            begun.eq(axi.awvalid & axi.awready),
            lengths.w_en.eq(begun),
            lengths.w_data.eq(axi.awlen),
            avalon.write.eq(sending & axi.wvalid),
            avalon.writedata.eq(axi.wdata),
            avalon.byteenable.eq(axi.wstrb),
            axi.wready.eq(sending & ~avalon.waitrequest),
            sent.eq(avalon.write & ~avalon.waitrequest),
        ]
        with m.If(begun):
            m.d.sync += [
                sending.eq(1),
                left.eq(axi.awlen),
                avalon.address.eq(self.base + axi.awaddr),
                avalon.burstcount.eq(axi.awlen + 1),
            ]
        with m.If(sent):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.d.sync += sending.eq(0)

        # Acknowledgements of the oldest burst. One of a beat may come before the burst's last beat is sent.
        came = Signal(9)
        whole, several = Signal(), Signal()
        quiet = Signal(range(self._settle_cycles))
        m.d.comb += [
            several.eq(lengths.r_data != 0),
            whole.eq(came + avalon.writeack == lengths.r_data + 1),
            answered.eq(
                lengths.r_rdy
                & Mux(
                    known & by_burst,
                    (came != 0) | avalon.writeack,
                    whole | (~known & several & ~sending & (came == 1) & (quiet == self._settle_cycles - 1)),
                )
            ),
            lengths.r_en.eq(answered),
            axi.bvalid.eq(owed != 0),
            self.busy.eq(sending | (unanswered != 0)),
        ]
        m.d.sync += [
            came.eq(came + avalon.writeack - Mux(answered, Mux(known & by_burst, 1, lengths.r_data + 1), 0)),
            owed.eq(owed + answered - (axi.bvalid & axi.bready)),
            unanswered.eq(unanswered + begun - (axi.bvalid & axi.bready)),
            quiet.eq(Mux(avalon.writeack | sending, 0, quiet + 1)),
        ]
        with m.If(answered & ~known & several):
            m.d.sync += [known.eq(1), by_burst.eq(~whole)]
            with m.If(~whole):
                m.d.sync += came.eq(0)
        return m
