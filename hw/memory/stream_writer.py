"""Writes streams of unknown length to memory."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_sender import BurstSender
from muntin.hw.memory.layouts import BeatLayout, BurstLayout, TransferLayout, TransferStatus, WrittenLayout
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.quick_fifo import QuickFifo


class StreamWriter(wiring.Component):
    """Writes streams of beats to memory whose length is only known at their end.

    The beats go to consecutive addresses. A burst is announced once it reaches a multiple of `burst_bytes`, or
    the stream has ended, so that this writer never makes the memory wait either.

    Parameters
    ----------
    shape : PortShape
        Widths and limits; `max_transfer_bytes` does not count here.

    Attributes
    ----------
    transfer : In(stream of TransferLayout)
        Where each stream goes: `address`, a multiple of the beat, and the room there in bytes as `length`, of
        which whole beats are used; 0 is a place for an empty stream.
    i : In(stream of BeatLayout)
        The beats of all streams, each ending with `last`. `keep` counts in the last beat only; a last beat
        that keeps nothing is not written, so that a stream may be empty.
    written : Out(stream of WrittenLayout)
        How each stream ended and its bytes, in order, once the memory has acknowledged its last burst; or why
        it was refused, once it has passed: MISALIGNED, OUT_OF_RANGE (the room ends beyond the memory), both
        without a byte written; or TOO_LONG, where as many beats as have room were written and the rest was
        dropped. An error of the memory is reported before TOO_LONG.
    axi : Out(Axi4Signature with write channels)
        To the memory.

    Timing
    ------
    One beat a cycle, as long as `outstanding` bursts cover the latency of the acknowledgements. Two beats are taken
    before their transfer, others from two cycles after it was. A burst is announced four cycles after its last beat was
    taken. Two streams may wait for their acknowledgements; a third one waits with its last beat.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "transfer": In(stream.Signature(TransferLayout(shape.address_width, shape.length_width))),
                "i": In(stream.Signature(BeatLayout(shape.data_width))),
                "written": Out(stream.Signature(WrittenLayout(shape.length_width))),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        beat_bits = exact_log2(shape.beat_bytes)
        burst_bits = exact_log2(shape.burst_beats)
        memory_bytes = shape.memory_bytes or 1 << shape.address_width

        m.submodules.sender = sender = BurstSender(shape)
        wiring.connect(m, sender.axi, wiring.flipped(self.axi))
        burst_layout = BurstLayout(shape.address_width, shape.data_width)
        m.submodules.bursts = bursts = fifo.SyncFIFO(width=burst_layout.size, depth=shape.outstanding)
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=shape.length_width, depth=2)
        m.d.comb += [
            sender.burst.payload.eq(data.View(burst_layout, bursts.r_data)),
            sender.burst.valid.eq(bursts.r_rdy),
            bursts.r_en.eq(sender.burst.ready),
        ]

        m.submodules.items = items = QuickFifo(width=self.i.p.shape().size, depth=2)
        item = stream.Signature(self.i.p.shape()).create(path=("item",))
        m.d.comb += [
            items.w_data.eq(self.i.payload),
            items.w_en.eq(self.i.valid),
            self.i.ready.eq(items.w_rdy),
            item.payload.eq(data.View(self.i.p.shape(), items.r_data)),
            item.valid.eq(items.r_rdy),
            items.r_en.eq(item.ready),
        ]

        transfer = Signal(TransferLayout(shape.address_width, shape.length_width))
        end = Signal(max(shape.address_width, shape.length_width) + 1)
        room = Signal(shape.length_width)  # beats
        status = Signal(TransferStatus)
        length = Signal(shape.length_width)
        beat_address = Signal(shape.address_width - beat_bits)
        count = Signal(range(shape.burst_beats + 1))  # beats of the burst that is being filled

        # The bytes of the beat at hand, less one.
        tail = Signal(beat_bits)
        kept = Signal()
        m.d.comb += kept.eq(~item.p.last | item.p.keep[0])
        m.d.comb += tail.eq(shape.beat_bytes - 1)
        with m.If(item.p.last):
            for byte in range(shape.beat_bytes):
                with m.If(item.p.keep[byte]):
                    m.d.comb += tail.eq(byte)

        burst = Signal(burst_layout)
        closes = Signal()
        fits = Signal()
        m.d.comb += [
            bursts.w_data.eq(burst),
            burst.final.eq(item.p.last),
            burst.tail.eq(tail),
            burst.last_beat.eq(count),
            burst.address.eq((beat_address - count) << beat_bits),
            lengths.w_data.eq(length),
            sender.i.p.eq(item.p.data),
            end.eq(transfer.address + transfer.length),
            fits.eq((status == TransferStatus.OK) & (room != 0)),
            closes.eq(item.p.last | (beat_address[:burst_bits] == shape.burst_beats - 1)),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.transfer.ready.eq(1)
                m.d.sync += [transfer.eq(self.transfer.payload), length.eq(0), count.eq(0)]
                with m.If(self.transfer.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(transfer.address[:beat_bits] != 0):
                    m.d.sync += status.eq(TransferStatus.MISALIGNED)
                with m.Elif(C(memory_bytes) < end):
                    m.d.sync += status.eq(TransferStatus.OUT_OF_RANGE)
                with m.Else():
                    m.d.sync += status.eq(TransferStatus.OK)
                m.d.sync += [beat_address.eq(transfer.address >> beat_bits), room.eq(transfer.length >> beat_bits)]
                m.next = "FILL"
            with m.State("FILL"):
                with m.If(kept & fits):
                    m.d.comb += [
                        sender.i.valid.eq(item.valid & (~closes | bursts.w_rdy) & (~item.p.last | lengths.w_rdy)),
                        item.ready.eq(sender.i.ready & (~closes | bursts.w_rdy) & (~item.p.last | lengths.w_rdy)),
                        bursts.w_en.eq(item.valid & item.ready & closes),
                        lengths.w_en.eq(item.valid & item.ready & item.p.last),
                        lengths.w_data.eq(length + tail + 1),
                    ]
                    with m.If(item.valid & item.ready):
                        m.d.sync += [
                            beat_address.eq(beat_address + 1),
                            room.eq(room - 1),
                            length.eq(length + tail + 1),
                            count.eq(Mux(closes, 0, count + 1)),
                        ]
                        with m.If(item.p.last):
                            m.next = "TAKE"
                with m.Else():
                    # The end of a stream, or what does not fit.
                    m.d.comb += item.ready.eq(1)
                    with m.If(item.valid):
                        with m.If(kept & (status == TransferStatus.OK)):
                            m.d.sync += status.eq(TransferStatus.TOO_LONG)
                        with m.If(item.p.last):
                            m.next = "CLOSE"
            with m.State("CLOSE"):
                # First the burst that was begun, if any, then the end, which has no beats.
                with m.If(count != 0):
                    m.d.comb += [
                        burst.final.eq(0),
                        burst.tail.eq(shape.beat_bytes - 1),
                        burst.last_beat.eq(count - 1),
                        bursts.w_en.eq(1),
                    ]
                    with m.If(bursts.w_rdy):
                        m.d.sync += count.eq(0)
                with m.Else():
                    m.d.comb += [
                        burst.final.eq(1),
                        burst.empty.eq(1),
                        burst.status.eq(status),
                        bursts.w_en.eq(lengths.w_rdy),
                        lengths.w_en.eq(bursts.w_rdy),
                    ]
                    with m.If(bursts.w_rdy & lengths.w_rdy):
                        m.next = "TAKE"

        m.d.comb += [
            self.written.p.length.eq(lengths.r_data),
            self.written.p.status.eq(sender.status.p),
            self.written.valid.eq(sender.status.valid),
            sender.status.ready.eq(self.written.ready),
            lengths.r_en.eq(sender.status.valid & sender.status.ready),
        ]
        return m
