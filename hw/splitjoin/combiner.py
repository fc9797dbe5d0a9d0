"""Makes one stream of the results of both sides."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.result_layout import result_layout


class Combiner(wiring.Component):
    """Passes on the results of both sides, marked with theirs, or each side's apart.

    Attributes
    ----------
    apart : In(1)
        1 to use `left` and `right`, 0 to use `o`; stands still while results are under way.
    i_left, i_right : In(stream of result_layout)
        The results of probing rows of the left stream, and of the right one.
    o : Out(stream of result_layout, tagged)
        Results of both in turn, where both are here; each side keeps its order, and its punctuation holds
        for it alone.
    left, right : Out(stream of result_layout)
        Each side's results apart. Whoever takes them must not wait for one side while leaving the other.
    busy : Out(1)
        Set while a result waits here.

    Timing
    ------
    A result a cycle, one cycle later; apart none.

    Source
    ------
    SplitJoin, section 4 (combiner).
    """

    def __init__(self):
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "apart": In(1),
                "i_left": In(result),
                "i_right": In(result),
                "o": Out(stream.Signature(result_layout(tagged=True))),
                "left": Out(result),
                "right": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.results = results = fifo.SyncFIFO(width=result_layout(tagged=True).size, depth=2)
        favoured = Signal()
        side = Signal()
        m.d.comb += side.eq(Mux(favoured, self.i_right.valid, ~self.i_left.valid))
        with m.If(results.w_en & results.w_rdy):
            m.d.sync += favoured.eq(~side)
        for number, (port, out) in enumerate(((self.i_left, self.left), (self.i_right, self.right))):
            m.d.comb += [
                port.ready.eq(Mux(self.apart, out.ready, results.w_rdy & (side == number))),
                out.payload.eq(port.payload),
                out.valid.eq(port.valid & self.apart),
            ]
        chosen = Mux(side, self.i_right.payload.as_value(), self.i_left.payload.as_value())
        m.d.comb += [
            results.w_en.eq(~self.apart & (self.i_left.valid | self.i_right.valid)),
            results.w_data[: len(chosen)].eq(chosen),
            results.w_data[len(chosen)].eq(side),
            self.o.payload.eq(results.r_data),
            self.o.valid.eq(results.r_rdy),
            results.r_en.eq(self.o.ready),
            self.busy.eq(results.r_rdy),
        ]
        return m
