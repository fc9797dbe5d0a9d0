"""Sends bursts of beats to memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_splitter import BurstRegister
from muntin.hw.memory.layouts import BurstLayout, TransferStatus
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.quick_fifo import BlockFifo, QuickFifo
from muntin.hw.memory.status_collector import StatusCollector


class BurstSender(wiring.Component):
    """Sends bursts of beats to memory, many at a time: what all writers have in common.

    A burst is announced only once all its beats are here, so a writer never makes the memory wait: several
    writers can share a port.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.

    Attributes
    ----------
    burst : In(stream of BurstLayout)
        The bursts, those of a transfer one after the other.
    i : In(stream of unsigned(data_width))
        The beats of all bursts. They may come before their burst; `buffer_bytes` of them are kept.
    status : Out(stream of TransferStatus)
        How each transfer ended, in order, once the memory has acknowledged its last burst. Two statuses are
        kept; while nobody takes them, the next transfer's last acknowledgement waits.
    axi : Out(Axi4Signature with write channels)
        To the memory.

    Timing
    ------
    A burst is announced two cycles after it was offered, at the earliest two cycles after its last beat was taken;
    its first beat is on `axi` one cycle after the announcement was taken. A burst every three cycles and one beat a
    cycle, as long as `outstanding` bursts cover the latency of the acknowledgements.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "burst": In(stream.Signature(BurstLayout(shape.address_width, shape.data_width))),
                "i": In(stream.Signature(shape.data_width)),
                "status": Out(stream.Signature(TransferStatus)),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        m.submodules.bursts = bursts = BurstRegister(shape)
        wiring.connect(m, wiring.flipped(self.burst), bursts.i)
        burst = bursts.o
        tail_width = exact_log2(shape.beat_bytes)

        announced_layout = data.StructLayout({"last_beat": 8, "tail": tail_width, "final": 1})
        m.submodules.announced = announced = QuickFifo(width=announced_layout.size, depth=shape.outstanding)
        m.submodules.pending = pending = QuickFifo(width=1, depth=shape.outstanding)
        m.submodules.beats = beats = BlockFifo(width=shape.data_width, depth=shape.buffer_beats)
        m.d.comb += [beats.w_data.eq(self.i.p), beats.w_en.eq(self.i.valid), self.i.ready.eq(beats.w_rdy)]

        # Beats in the buffer that no burst has claimed yet. A burst claims its beats, and is announced from then on.
        unclaimed = Signal(range(shape.buffer_beats + 1))
        claims = Signal()
        beats_claimed = Signal(range(shape.burst_beats + 1))
        m.d.comb += [
            claims.eq(
                burst.valid
                & ~burst.p.empty
                & (burst.p.last_beat < unclaimed)
                & pending.w_rdy
                & announced.w_rdy
                & ~self.axi.awvalid
            ),
            beats_claimed.eq(Mux(claims, burst.p.last_beat + 1, 0)),
        ]
        m.d.sync += unclaimed.eq(unclaimed - beats_claimed + (self.i.valid & self.i.ready))

        # Addresses. The data follow theirs, so their place is kept when it is taken: for that there is room by then.
        asked, tail, final = Signal(announced_layout), Signal(tail_width), Signal()
        m.d.comb += [
            self.axi.awsize.eq(tail_width),
            self.axi.awburst.eq(1),
            asked.last_beat.eq(self.axi.awlen),
            asked.tail.eq(tail),
            asked.final.eq(final),
            announced.w_data.eq(asked),
            announced.w_en.eq(self.axi.awvalid & self.axi.awready),
            pending.w_data.eq(burst.p.final),
            pending.w_en.eq(claims),
        ]
        with m.If(self.axi.awready):
            m.d.sync += self.axi.awvalid.eq(0)
        with m.If(claims):
            m.d.sync += self.axi.awvalid.eq(1)
        with m.If(~self.axi.awvalid):
            m.d.sync += [
                self.axi.awaddr.eq(burst.p.address),
                self.axi.awlen.eq(burst.p.last_beat),
                tail.eq(burst.p.tail),
                final.eq(burst.p.final),
            ]

        # Data.
        head = data.View(announced_layout, announced.r_data)
        beat = Signal(8)
        m.d.comb += [
            self.axi.wdata.eq(beats.r_data),
            self.axi.wlast.eq(beat == head.last_beat),
            self.axi.wvalid.eq(announced.r_rdy & beats.r_rdy),
            beats.r_en.eq(announced.r_rdy & self.axi.wready),
        ]
        for byte in range(shape.beat_bytes):
            m.d.comb += self.axi.wstrb[byte].eq(~(self.axi.wlast & head.final) | ~(head.tail < byte))
        with m.If(self.axi.wvalid & self.axi.wready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(self.axi.wlast):
                m.d.sync += beat.eq(0)
                m.d.comb += announced.r_en.eq(1)

        # Acknowledgements. An end without beats waits for the bursts before it, so that the statuses stay in order.
        m.submodules.collector = collector = StatusCollector()
        wiring.connect(m, collector.status, wiring.flipped(self.status))
        m.d.comb += [
            collector.answer.p.response.eq(self.axi.bresp),
            collector.answer.p.final.eq(pending.r_data),
            collector.answer.valid.eq(self.axi.bvalid & pending.r_rdy),
            self.axi.bready.eq(collector.answer.ready & pending.r_rdy),
            pending.r_en.eq(self.axi.bvalid & self.axi.bready),
            collector.end.p.eq(burst.p.status),
            collector.end.valid.eq(burst.valid & burst.p.empty & ~pending.r_rdy),
            burst.ready.eq(Mux(burst.p.empty, collector.end.ready & ~pending.r_rdy, claims)),
        ]
        return m
