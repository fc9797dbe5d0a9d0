"""Writes runs of bytes to memory in bursts."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.memory.axi4_write_signature import Axi4WriteSignature
from hw.memory.burst_splitter import BurstSplitter
from hw.memory.port_shape import PortShape
from hw.memory.transfer_layout import TransferLayout
from hw.memory.transfer_status import TransferStatus


class BurstWriter(wiring.Component):
    """Writes runs of bytes to memory in bursts, many at a time.

    A burst is announced only once all its beats are here, so the writer never makes the memory wait: several
    writers can share a port.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.

    Attributes
    ----------
    transfer : In(stream of TransferLayout)
        Where to write. Transfers are taken ahead.
    i : In(stream of unsigned(data_width))
        The beats of all transfers one after the other; each transfer takes `length` divided by the beat,
        rounded up. Beats are taken from when their transfer was found good until it has them all.
    status : Out(stream of TransferStatus)
        How each transfer ended, in order, once the memory has acknowledged its last burst. A refused transfer
        takes no beats. Two statuses are kept; while nobody takes them, the next transfer's last
        acknowledgement waits.
    axi : Out(Axi4WriteSignature)
        To the memory.

    Timing
    ------
    The first beat is on `axi` once the whole burst is in the buffer, at the earliest four cycles after its
    transfer was taken. One beat a cycle, as long as `outstanding` bursts cover the latency of the
    acknowledgements.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "transfer": In(stream.Signature(TransferLayout(shape.address_width, shape.length_width))),
                "i": In(stream.Signature(shape.data_width)),
                "status": Out(stream.Signature(TransferStatus)),
                "axi": Out(Axi4WriteSignature(shape.address_width, shape.data_width, shape.id_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        tail_width = exact_log2(shape.beat_bytes)

        m.submodules.splitter = splitter = BurstSplitter(shape)
        wiring.connect(m, wiring.flipped(self.transfer), splitter.transfer)
        burst = splitter.burst

        announced_layout = data.StructLayout({"last_beat": 8, "tail": tail_width, "final": 1})
        m.submodules.announced = announced = fifo.SyncFIFO(width=announced_layout.size, depth=shape.outstanding)
        m.submodules.pending = pending = fifo.SyncFIFO(width=1, depth=shape.outstanding)
        m.submodules.beats = beats = fifo.SyncFIFOBuffered(width=shape.data_width, depth=shape.buffer_beats)
        m.submodules.results = results = fifo.SyncFIFO(width=len(self.status.p), depth=2)

        # A transfer is admitted after the last burst of the one before was announced, hence after its last
        # beat was taken: the count is then 0.
        due = Signal(shape.length_width)
        m.d.comb += [
            beats.w_data.eq(self.i.p),
            beats.w_en.eq(self.i.valid & (due != 0)),
            self.i.ready.eq(beats.w_rdy & (due != 0)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += due.eq(due - 1)
        with m.If(splitter.admitted):
            m.d.sync += due.eq(splitter.admitted_beats)

        # Beats in the buffer that no announced burst has claimed yet.
        unclaimed = Signal(range(shape.buffer_beats + 1))
        claimed = Signal(range(shape.burst_beats + 1))
        with m.If(self.axi.awvalid & self.axi.awready):
            m.d.comb += claimed.eq(burst.p.last_beat + 1)
        m.d.sync += unclaimed.eq(unclaimed - claimed + (self.i.valid & self.i.ready))

        # Addresses.
        refused = burst.p.status != TransferStatus.OK
        asked = Signal(announced_layout)
        m.d.comb += [
            self.axi.awaddr.eq(burst.p.address),
            self.axi.awlen.eq(burst.p.last_beat),
            self.axi.awsize.eq(tail_width),
            self.axi.awburst.eq(1),
            self.axi.awvalid.eq(
                burst.valid & ~refused & (burst.p.last_beat < unclaimed) & pending.w_rdy & announced.w_rdy
            ),
            asked.last_beat.eq(burst.p.last_beat),
            asked.tail.eq(burst.p.tail),
            asked.final.eq(burst.p.final),
            announced.w_data.eq(asked),
            announced.w_en.eq(self.axi.awvalid & self.axi.awready),
            pending.w_data.eq(burst.p.final),
            pending.w_en.eq(self.axi.awvalid & self.axi.awready),
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

        # Acknowledgements. The first error of a transfer is the one reported.
        error = Signal(TransferStatus)
        current = Signal(TransferStatus)
        ends = pending.r_data
        m.d.comb += [
            current.eq(error),
            self.axi.bready.eq(pending.r_rdy & (~ends | results.w_rdy)),
            pending.r_en.eq(self.axi.bvalid & self.axi.bready),
        ]
        with m.If((error == TransferStatus.OK) & self.axi.bresp[1]):
            m.d.comb += current.eq(Mux(self.axi.bresp[0], TransferStatus.DECODE_ERROR, TransferStatus.MEMORY_ERROR))
        with m.If(self.axi.bvalid & self.axi.bready):
            m.d.sync += error.eq(Mux(ends, TransferStatus.OK, current))
            m.d.comb += [results.w_data.eq(current), results.w_en.eq(ends)]
        # A refusal waits for the transfers before it, so that the statuses stay in order.
        refuse = Signal()
        m.d.comb += refuse.eq(burst.valid & refused & ~pending.r_rdy & results.w_rdy)
        with m.If(refuse):
            m.d.comb += [results.w_data.eq(burst.p.status), results.w_en.eq(1)]
        m.d.comb += burst.ready.eq(refuse | (self.axi.awvalid & self.axi.awready))

        m.d.comb += [
            self.status.p.eq(results.r_data),
            self.status.valid.eq(results.r_rdy),
            results.r_en.eq(self.status.ready),
        ]
        return m
