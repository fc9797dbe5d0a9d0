"""Turns keys into bounds."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.bisort.layouts import bound_layout


class BoundaryGenerator(wiring.Component):
    """Adds the offset of the loaded predicate to every probing key, and saturates.

    Two of these, one for each end, make the bounds of a band ``low <= stored - probing <= high``: the offset
    is `low` for the lower end and ``high + 1`` for the upper one. An end that is open, and with it ``<``,
    ``<=``, ``>`` and ``>=``, has the offset -2**key_bits (lower) or 2**key_bits (upper). With the offset 0
    and 1 the keys themselves are the ends of closed intervals.

    Parameters
    ----------
    key_bits : int

    Attributes
    ----------
    i : In(stream of {key, last})
        Keys, ascending.
    offset : In(signed(key_bits + 2))
        Stands still during a batch.
    upper : In(1)
        Copied into every bound.
    o : Out(stream of bound_layout)
        Ascending; ``below = min(max(key + offset, 0), 2**key_bits)``.

    Timing
    ------
    Two cycles; one bound a cycle.

    Source
    ------
    PanJoin, section IV (boundary generator). Saturation, and bounds that count what lies below them, are
    ours.
    """

    def __init__(self, *, key_bits: int):
        self._key_bits = key_bits
        item = data.StructLayout({"key": key_bits, "last": 1})
        super().__init__(
            {
                "i": In(stream.Signature(item)),
                "offset": In(signed(key_bits + 2)),
                "upper": In(1),
                "o": Out(stream.Signature(bound_layout(key_bits))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(signed(self._key_bits + 3))
        valid, last = Signal(), Signal()
        enable = Signal()
        m.d.comb += [enable.eq(~self.o.valid | self.o.ready), self.i.ready.eq(enable)]
        over = total[self._key_bits : -1].any()  # 2**key_bits or more, where not negative
        with m.If(enable):
            m.d.sync += [
                total.eq(self.i.p.key + self.offset),
                valid.eq(self.i.valid),
                last.eq(self.i.p.last),
                self.o.valid.eq(valid),
                self.o.p.last.eq(last),
                self.o.p.upper.eq(self.upper),
                self.o.p.below.eq(Mux(total[-1], 0, Mux(over, 1 << self._key_bits, total[: self._key_bits]))),
            ]
        return m
