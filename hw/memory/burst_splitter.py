"""Cuts transfers into bursts."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.hw.memory.layouts import BurstLayout, TransferLayout, TransferStatus
from muntin.hw.memory.port_shape import PortShape


class BurstSplitter(wiring.Component):
    """Cuts transfers into bursts that end at multiples of the longest burst, and refuses what cannot be sent.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.

    Attributes
    ----------
    transfer : In(stream of TransferLayout)
        What to transfer.
    burst : Out(stream of BurstLayout)
        Its bursts in order, or one refusal.
    admitted : Out(1)
        A transfer was found good; `admitted_beats` has its beats. One cycle before its first burst is valid.
    admitted_beats : Out(length_width)
        See `admitted`.

    Timing
    ------
    The first burst of a transfer is valid two cycles after the transfer was taken; then one burst a cycle.
    Between the last burst of a transfer and the first of the next one lie two cycles.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "transfer": In(stream.Signature(TransferLayout(shape.address_width, shape.length_width))),
                "burst": Out(stream.Signature(BurstLayout(shape.address_width, shape.data_width))),
                "admitted": Out(1),
                "admitted_beats": Out(shape.length_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        beat_bits = exact_log2(shape.beat_bytes)
        burst_bits = exact_log2(shape.burst_beats)
        memory_bytes = shape.memory_bytes or 1 << shape.address_width
        longest = shape.max_transfer_bytes or (1 << shape.length_width) - 1

        transfer = Signal(TransferLayout(shape.address_width, shape.length_width))
        verdict = Signal(TransferStatus)
        status = Signal(TransferStatus)
        beat_address = Signal(shape.address_width - beat_bits)
        beats = Signal(shape.length_width)  # still to go; a length of n bytes never needs more bits
        end = Signal(max(shape.address_width, shape.length_width) + 1)

        burst = Signal(BurstLayout(shape.address_width, shape.data_width))
        to_boundary = Signal(burst_bits + 1)
        count = Signal(burst_bits + 1)
        final = Signal()
        m.d.comb += [
            end.eq(transfer.address + transfer.length),
            to_boundary.eq(shape.burst_beats - beat_address[:burst_bits]),
            final.eq(~(to_boundary < beats)),
            count.eq(Mux(final, beats, to_boundary)),
            burst.address.eq(beat_address << beat_bits),
            burst.last_beat.eq(count - 1),
            burst.final.eq(final | burst.empty),
            burst.tail.eq((transfer.length - 1)[:beat_bits]),
            burst.empty.eq(status != TransferStatus.OK),
            burst.status.eq(status),
            self.burst.payload.eq(burst),
        ]

        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.transfer.ready.eq(1)
                m.d.sync += transfer.eq(self.transfer.payload)
                with m.If(self.transfer.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(transfer.length == 0):
                    m.d.comb += verdict.eq(TransferStatus.ZERO_LENGTH)
                with m.Elif(transfer.address[:beat_bits] != 0):
                    m.d.comb += verdict.eq(TransferStatus.MISALIGNED)
                with m.Elif(C(longest) < transfer.length):
                    m.d.comb += verdict.eq(TransferStatus.TOO_LONG)
                with m.Elif(C(memory_bytes) < end):
                    m.d.comb += verdict.eq(TransferStatus.OUT_OF_RANGE)
                m.d.comb += [
                    self.admitted.eq(verdict == TransferStatus.OK),
                    self.admitted_beats.eq((transfer.length + (shape.beat_bytes - 1)) >> beat_bits),
                ]
                m.d.sync += [
                    status.eq(verdict),
                    beat_address.eq(transfer.address >> beat_bits),
                    beats.eq(self.admitted_beats),
                ]
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.burst.valid.eq(1)
                with m.If(self.burst.ready):
                    m.d.sync += [
                        beat_address.eq(beat_address + count),
                        beats.eq(beats - count),
                    ]
                    with m.If(burst.final):
                        m.next = "TAKE"
        return m


class BurstRegister(wiring.Component):
    """Keeps a burst, so that no path leads through it.

    Parameters
    ----------
    shape : PortShape
        Widths.

    Attributes
    ----------
    i : In(stream of BurstLayout)
    o : Out(stream of BurstLayout)

    Timing
    ------
    One cycle, and a burst every other cycle.
    """

    def __init__(self, shape: PortShape):
        burst = stream.Signature(BurstLayout(shape.address_width, shape.data_width))
        super().__init__({"i": In(burst), "o": Out(burst)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(~self.o.valid)
        with m.If(~self.o.valid):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
