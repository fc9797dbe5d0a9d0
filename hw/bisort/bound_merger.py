"""Brings lower and upper bounds into one order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.bisort.layouts import bound_layout


class BoundMerger(wiring.Component):
    """Merges the lower and the upper bounds of a batch into one ascending stream.

    One stream of bounds needs one partitioner and one prober, and no partition is asked for twice, however
    far the two ends of the ranges lie apart.

    Parameters
    ----------
    key_bits : int

    Attributes
    ----------
    lower, upper : In(stream of bound_layout)
        Each ascending, a batch of at least one.
    o : Out(stream of bound_layout)
        Ascending, of equal bounds the lower ones first; `last` is set once, in the last bound of both.

    Timing
    ------
    One cycle; one bound a cycle.

    Source
    ------
    Ours; the paper's probers each take one kind of bound.
    """

    def __init__(self, *, key_bits: int):
        bound = stream.Signature(bound_layout(key_bits))
        super().__init__({"lower": In(bound), "upper": In(bound), "o": Out(bound)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lower_done, upper_done = Signal(), Signal()
        ready, take_lower, take = Signal(), Signal(), Signal()
        m.d.comb += [
            ready.eq(
                (~self.o.valid | self.o.ready) & (self.lower.valid | lower_done) & (self.upper.valid | upper_done)
            ),
            take_lower.eq(upper_done | (~lower_done & ~(self.upper.p.below < self.lower.p.below))),
            self.lower.ready.eq(ready & take_lower),
            self.upper.ready.eq(ready & ~take_lower),
            take.eq(ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(take):
            chosen_last = Mux(take_lower, self.lower.p.last, self.upper.p.last)
            last = chosen_last & Mux(take_lower, upper_done, lower_done)
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.p.below.eq(Mux(take_lower, self.lower.p.below, self.upper.p.below)),
                self.o.p.upper.eq(~take_lower),
                self.o.p.last.eq(last),
                lower_done.eq(~last & (lower_done | (take_lower & chosen_last))),
                upper_done.eq(~last & (upper_done | (~take_lower & chosen_last))),
            ]
        return m
