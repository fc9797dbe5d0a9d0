"""Makes one stream of the results of both sides."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.quick_fifo import QuickFifo
from hw.splitjoin.result_layout import ARRIVAL_BITS, result_layout


class Combiner(wiring.Component):
    """Passes on the results of both sides, marked with theirs, or each side's apart.

    Ordered results say how many rows of the other stream arrived before their probing row. As many of the
    other side's probing rows must have ended before they pass, so that probing rows of both sides come out
    in the order in which they arrived.

    Attributes
    ----------
    apart : In(1)
        1 to use `left` and `right`, 0 to use `o`; stands still while results are under way.
    ordered : In(1)
        1 where results are punctuated, by probing row at least; stands still like `apart`. While it is 0,
        rows are not counted, here as in the regions.
    i_left, i_right : In(stream of result_layout)
        The results of probing rows of the left stream, and of the right one.
    o : Out(stream of result_layout, tagged)
        Results of both: in order of arrival where `ordered`, else in turn where both are here.
    left, right : Out(stream of result_layout)
        Each side's results apart. Whoever takes them must not wait for one side while leaving the other.
    busy : Out(1)
        Set while a result waits here.

    Timing
    ------
    A result a cycle, one cycle later; apart none. Where `ordered`, the first result of a probing row waits a cycle
    more, unless results of the other side pass meanwhile.

    Source
    ------
    SplitJoin, section 4 (combiner), which orders each side by itself. The order over both is ours.
    """

    def __init__(self):
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "apart": In(1),
                "ordered": In(1),
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
        m.submodules.results = results = QuickFifo(width=result_layout(tagged=True).size, depth=2)
        favoured = Signal()
        side = Signal()
        turn = [Signal(name=f"turn_{name}") for name in ("left", "right")]  # of the probing row whose results come
        ended = [Signal(ARRIVAL_BITS, name=f"ended_{name}") for name in ("left", "right")]  # probing rows
        # Said without a look at the side's own `valid`: the way back is long. No two sides with a result may pass.
        left, right = Signal(), Signal()
        m.d.comb += [
            left.eq(Mux(self.ordered, turn[0], ~favoured | ~self.i_right.valid)),
            right.eq(Mux(self.ordered, turn[1], favoured | ~self.i_left.valid)),
            side.eq(right & self.i_right.valid),
        ]
        with m.If(results.w_en & results.w_rdy):
            m.d.sync += favoured.eq(~side)
        next_up = [Signal(name=f"next_up_{name}") for name in ("left", "right")]
        for number, (port, out, may) in enumerate(
            ((self.i_left, self.left, left), (self.i_right, self.right, right)),
        ):
            m.d.comb += [
                port.ready.eq(Mux(self.apart, out.ready, results.w_rdy & may)),
                out.payload.eq(port.payload),
                out.valid.eq(port.valid & self.apart),
                next_up[number].eq(port.valid & (port.p.before == ended[1 - number])),
            ]
            with m.If(next_up[number] & ~Cat(turn[1 - number], *next_up[:number]).any()):
                m.d.sync += turn[number].eq(1)
            with m.If(port.valid & port.ready & port.p.star & port.p.last):
                m.d.sync += [ended[number].eq(ended[number] + 1), turn[number].eq(0)]
            with m.If(~self.ordered):
                m.d.sync += [ended[number].eq(0), turn[number].eq(0)]
        into = data.View(result_layout(tagged=True), results.w_data)
        m.d.comb += [
            results.w_en.eq(~self.apart & ((left & self.i_left.valid) | side)),
            into.side.eq(side),
            *(
                into[name].eq(Mux(side, self.i_right.payload[name], self.i_left.payload[name]))
                for name in ("star", "last", "probe", "row")
            ),
            self.o.payload.eq(results.r_data),
            self.o.valid.eq(results.r_rdy),
            results.r_en.eq(self.o.ready),
            self.busy.eq(results.r_rdy),
        ]
        return m
