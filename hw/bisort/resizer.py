"""Changes the number of items in a beat."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.bisort.layouts import item_beat


class Resizer(wiring.Component):
    """Brings arrays from beats of one width to beats of another.

    Parameters
    ----------
    bits : int
        Bits of an item.
    width_in, width_out : int
        Items in a beat, powers of two.

    Attributes
    ----------
    i : In(stream of item_beat)
    o : Out(stream of item_beat)
        The same arrays; none of their beats is empty, unless the array is.

    Raises
    ------
    ParameterError
        If a width is not a power of two.

    Timing
    ------
    One beat of the narrower side a cycle. To a narrower or a wider beat, one cycle from `i` to `o`, the wider beat
    once it is whole; with equal widths the stream passes through.
    """

    def __init__(self, *, bits: int, width_in: int, width_out: int):
        for name, width in (("width_in", width_in), ("width_out", width_out)):
            if width < 1 or width & (width - 1):
                raise ParameterError(f"{name} must be a power of two, not {width!r}")
        self._widths = width_in, width_out
        super().__init__(
            {
                "i": In(stream.Signature(item_beat(bits, width_in))),
                "o": Out(stream.Signature(item_beat(bits, width_out))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width_in, width_out = self._widths
        if width_in == width_out:
            wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        elif width_in < width_out:
            self._widen(m, width_in, width_out)
        else:
            self._narrow(m, width_in, width_out)
        return m

    def _widen(self, m: Module, width_in: int, width_out: int) -> None:
        parts = width_out // width_in
        part = Signal(range(parts))
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            whole = self.i.p.last | (part == parts - 1)
            m.d.sync += [
                part.eq(Mux(whole, 0, part + 1)),
                self.o.valid.eq(whole),
                self.o.p.last.eq(self.i.p.last),
            ]
            for number in range(parts):
                keep = self.o.p.keep[number * width_in :][:width_in]
                with m.If(part == number):
                    m.d.sync += keep.eq(self.i.p.keep)
                    for item in range(width_in):
                        m.d.sync += self.o.p.items[number * width_in + item].eq(self.i.p.items[item])
                with m.Elif(part == 0):
                    m.d.sync += keep.eq(0)

    def _narrow(self, m: Module, width_in: int, width_out: int) -> None:
        # What is left of the beat stands at its low end.
        left = Signal.like(self.i.payload)
        valid = Signal()
        ends = Signal()
        m.d.comb += [
            ends.eq(~left.keep[width_out:].any()),
            self.o.valid.eq(valid),
            self.o.p.keep.eq(left.keep),
            self.o.p.last.eq(left.last & ends),
            self.i.ready.eq(~valid | (self.o.ready & ends)),
        ]
        for item in range(width_out):
            m.d.comb += self.o.p.items[item].eq(left.items[item])
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), left.eq(self.i.payload)]
        with m.Elif(self.o.ready):
            m.d.sync += left.keep.eq(left.keep >> width_out)
            for item in range(width_in - width_out):
                m.d.sync += left.items[item].eq(left.items[item + width_out])
