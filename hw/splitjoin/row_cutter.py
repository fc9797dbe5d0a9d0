"""Cuts memory beats into rows."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import NUMBER_BITS, ROW_FLAGS, SplitJoinParameters, row_fields, row_words
from muntin.hw.memory.layouts import BeatLayout
from muntin.hw.splitjoin.layouts import tagged_row


class RowCutter(wiring.Component):
    """Cuts memory beats into rows, of which several may share a beat, or one may take several.

    Parameters
    ----------
    parameters : SplitJoinParameters

    Attributes
    ----------
    i : In(stream of BeatLayout)
        Whole rows, as `muntin.contract.designs.splitjoin` has them. `keep` says how many are in the last beat.
    o : Out(stream of tagged_row)

    Timing
    ------
    A row a cycle, or as many beats as one has, in the cycle of its last beat.
    """

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        super().__init__(
            {
                "i": In(stream.Signature(BeatLayout(parameters.data_bits))),
                "o": Out(stream.Signature(tagged_row(parameters))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        bits = 32 * row_words(p)
        words = Signal(bits)
        if bits <= p.data_bits:
            count = p.data_bits // bits
            at = Signal(range(count)) if count > 1 else None
            final = 1  # whether the row is the last of its beat
            row = self.i.p.data
            if at is not None:
                following = Signal(count)  # rows of the beat behind each
                m.d.comb += following.eq(Cat(self.i.p.keep[bits // 8 * n] for n in range(1, count)))
                final = ~following.bit_select(at, 1)
                row = self.i.p.data.word_select(at, bits)
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += at.eq(at + 1)
                    with m.If(final):
                        m.d.sync += at.eq(0)
            m.d.comb += [words.eq(row), self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready & final)]
        else:
            before = bits // p.data_bits - 1  # beats that are kept until the last one comes
            kept = Signal(before * p.data_bits)
            count = Signal(range(before + 1))
            whole = Signal()
            m.d.comb += [
                whole.eq(count == before),
                words.eq(Cat(kept, self.i.p.data)),
                self.o.valid.eq(self.i.valid & whole),
                self.i.ready.eq(~whole | self.o.ready),
            ]
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [kept.eq(Cat(kept, self.i.p.data)[p.data_bits :]), count.eq(count + 1)]
                with m.If(whole):
                    m.d.sync += count.eq(0)

        def field(name: str) -> Signal:
            first, length = row_fields(p)[name]
            return words[32 * first : 32 * (first + length)]

        flags = {flag.name: field("flags")[flag.lsb] for flag in ROW_FLAGS}
        m.d.comb += self.o.p.row.eq(field("row")[:NUMBER_BITS])
        for name in self.o.p.shape().members:
            if name != "row":
                m.d.comb += self.o.p[name].eq(flags[name] if name in flags else field(name))
        return m
