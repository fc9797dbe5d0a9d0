"""Reads runs of bytes from memory in bursts."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_splitter import BurstRegister, BurstSplitter
from muntin.hw.memory.layouts import BeatLayout, TransferLayout, TransferStatus
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.quick_fifo import BlockFifo, QuickFifo
from muntin.hw.memory.status_collector import StatusCollector


class BurstReader(wiring.Component):
    """Reads runs of bytes from memory in bursts, many at a time, and hands the beats out in order.

    A burst is asked for only once there is room for it, so the reader never makes the memory wait: several
    readers can share a port, and one whose beats are not taken does not stop the others.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.

    Attributes
    ----------
    transfer : In(stream of TransferLayout)
        What to read. Transfers are taken ahead: the next one's bursts follow those of the last without a gap.
    o : Out(stream of BeatLayout)
        The beats.
    status : Out(stream of TransferStatus)
        How each transfer ended, in order, once its last beat has arrived from the memory. A refused transfer
        has a status and no beats. Two statuses are kept; while nobody takes them, the next transfer's last
        beat waits.
    axi : Out(Axi4Signature with read channels)
        To the memory.

    Timing
    ------
    `arvalid`, a register, rises four cycles after a transfer was taken; a beat from the memory is on `o` three cycles
    later. A burst every three cycles and one beat a cycle, as long as `buffer_bytes` and `outstanding` bursts cover the
    latency of the memory.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "transfer": In(stream.Signature(TransferLayout(shape.address_width, shape.length_width))),
                "o": Out(stream.Signature(BeatLayout(shape.data_width))),
                "status": Out(stream.Signature(TransferStatus)),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        tail_width = exact_log2(shape.beat_bytes)

        m.submodules.splitter = splitter = BurstSplitter(shape)
        m.submodules.bursts = bursts = BurstRegister(shape)
        wiring.connect(m, wiring.flipped(self.transfer), splitter.transfer)
        wiring.connect(m, splitter.burst, bursts.i)
        burst = bursts.o

        pending_layout = data.StructLayout({"tail": tail_width, "final": 1})
        m.submodules.pending = pending = QuickFifo(width=pending_layout.size, depth=shape.outstanding)
        beat_layout = data.StructLayout({"data": shape.data_width, "tail": tail_width, "last": 1})
        # One more, so that there is a place even while a beat is on its way out of the block.
        m.submodules.beats = beats = BlockFifo(width=beat_layout.size, depth=shape.buffer_beats + 1)

        # Room in the buffer that no burst has claimed yet. A burst claims its room, and is asked for from then on.
        room = Signal(range(shape.buffer_beats + 1), init=shape.buffer_beats)
        claims = Signal()
        beats_claimed = Signal(range(shape.burst_beats + 1))
        m.d.comb += [
            claims.eq(burst.valid & ~burst.p.empty & (burst.p.last_beat < room) & pending.w_rdy & ~self.axi.arvalid),
            beats_claimed.eq(Mux(claims, burst.p.last_beat + 1, 0)),
        ]
        m.d.sync += room.eq(room - beats_claimed + (self.o.valid & self.o.ready))

        # Addresses.
        asked = Signal(pending_layout)
        m.d.comb += [
            self.axi.arsize.eq(tail_width),
            self.axi.arburst.eq(1),
            asked.tail.eq(burst.p.tail),
            asked.final.eq(burst.p.final),
            pending.w_data.eq(asked),
            pending.w_en.eq(claims),
        ]
        with m.If(self.axi.arready):
            m.d.sync += self.axi.arvalid.eq(0)
        with m.If(claims):
            m.d.sync += self.axi.arvalid.eq(1)
        with m.If(~self.axi.arvalid):
            m.d.sync += [self.axi.araddr.eq(burst.p.address), self.axi.arlen.eq(burst.p.last_beat)]

        # Data: there is room. A refusal waits for the transfers before it, so that the statuses stay in order.
        m.submodules.collector = collector = StatusCollector()
        wiring.connect(m, collector.status, wiring.flipped(self.status))
        head = data.View(pending_layout, pending.r_data)
        beat_in = Signal(beat_layout)
        ends = Signal()
        m.d.comb += [
            ends.eq(self.axi.rlast & head.final),
            beat_in.data.eq(self.axi.rdata),
            beat_in.tail.eq(head.tail),
            beat_in.last.eq(ends),
            beats.w_data.eq(beat_in),
            collector.answer.p.response.eq(self.axi.rresp),
            collector.answer.p.final.eq(ends),
            collector.answer.valid.eq(self.axi.rvalid & pending.r_rdy),
            self.axi.rready.eq(collector.answer.ready & pending.r_rdy),
            beats.w_en.eq(self.axi.rvalid & self.axi.rready),
            pending.r_en.eq(self.axi.rvalid & self.axi.rready & self.axi.rlast),
            collector.end.p.eq(burst.p.status),
            collector.end.valid.eq(burst.valid & burst.p.empty & ~pending.r_rdy),
            burst.ready.eq(Mux(burst.p.empty, collector.end.ready & ~pending.r_rdy, claims)),
        ]

        # Out.
        beat_out = data.View(beat_layout, beats.r_data)
        keep = Signal(shape.beat_bytes)
        for byte in range(shape.beat_bytes):
            m.d.comb += keep[byte].eq(~beat_out.last | ~(beat_out.tail < byte))
        m.d.comb += [
            self.o.p.data.eq(beat_out.data),
            self.o.p.keep.eq(keep),
            self.o.p.last.eq(beat_out.last),
            self.o.valid.eq(beats.r_rdy),
            beats.r_en.eq(self.o.ready),
        ]
        return m
