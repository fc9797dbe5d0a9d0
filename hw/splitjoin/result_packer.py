"""Puts results together to memory beats."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import NUMBER_BITS, RESULT_BYTES
from muntin.hw.memory.layouts import BeatLayout
from muntin.hw.splitjoin.layouts import result_layout


class ResultPacker(wiring.Component):
    """Puts results together to beats, until there is no more room or no more is to come.

    Parameters
    ----------
    data_bits : int
        Bits of a beat.

    Attributes
    ----------
    start : In(1)
        Begins with room for `room` beats, one at least; high for one cycle, in which nothing is under way.
    room : In(32)
    finish : In(1)
        No result comes any more: the rest goes out. It stays until `closed`.
    i : In(stream of result_layout, tagged)
    o : Out(stream of BeatLayout)
        As `muntin.contract.designs.splitjoin` has them. The last beat is one that fills the room, or one with what was
        left when `finish` was set, which may be nothing.
    full : Out(1)
        Every place has been taken; no more results are taken.
    closed : Out(1)
        The last beat has been made; it is not taken back.

    Timing
    ------
    A result a cycle; a beat comes out in the cycle after its last result was taken.
    """

    def __init__(self, data_bits: int):
        self._data_bits = data_bits
        super().__init__(
            {
                "start": In(1),
                "room": In(32),
                "finish": In(1),
                "i": In(stream.Signature(result_layout(tagged=True))),
                "o": Out(stream.Signature(BeatLayout(data_bits))),
                "full": Out(1, init=1),
                "closed": Out(1, init=1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = 8 * RESULT_BYTES
        count = self._data_bits // bits
        result = self.i.p
        word = Signal(bits)
        m.d.comb += word.eq(
            Cat(
                result.probe[:NUMBER_BITS],
                result.side,
                Mux(result.star, result.last, result.row[:NUMBER_BITS]),
                result.star,
            )
        )
        # Results wait here until their beat is whole.
        kept = [Signal(bits, name=f"kept_{at}") for at in range(count - 1)]
        at = Signal(range(count))
        left = Signal(32)  # beats
        final = at == count - 1
        free = Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(~self.full & ~self.closed & ~self.finish & (~final | free)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += at.eq(at + 1)
            with m.Switch(at):
                for number, place in enumerate(kept):
                    with m.Case(number):
                        m.d.sync += place.eq(word)
            with m.If(final):
                m.d.sync += [
                    at.eq(0),
                    left.eq(left - 1),
                    self.full.eq(left == 1),
                    self.closed.eq(left == 1),
                    self.o.valid.eq(1),
                    self.o.p.data.eq(Cat(*kept, word)),
                    self.o.p.keep.eq(-1),
                    self.o.p.last.eq(left == 1),
                ]
        with m.Elif(self.finish & ~self.closed & free):
            m.d.sync += [
                at.eq(0),
                self.closed.eq(1),
                self.o.valid.eq(1),
                self.o.p.data.eq(Cat(*kept)),
                self.o.p.keep.eq(Cat((at > number).replicate(RESULT_BYTES) for number in range(count - 1))),
                self.o.p.last.eq(1),
            ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.room), self.full.eq(0), self.closed.eq(0)]
        return m
