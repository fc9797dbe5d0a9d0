"""Merges punctuated results into one stream with one punctuation for all."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import ParameterError
from hw.splitjoin.quick_fifo import QuickFifo
from hw.splitjoin.result_layout import result_layout


class RapMerger(wiring.Component):
    """Passes pairs on, holds an input back at its punctuation, and puts out one once all inputs have it.

    Parameters
    ----------
    inputs : int
    rows : int
        Results that may wait behind it, at least 2.

    Attributes
    ----------
    in_order : In(1)
        1 to take all pairs of an input, up to its punctuation, before those of the next one; 0 to take
        whatever is here, the first input first.
    dead : In(inputs)
        Inputs that have nothing any more, and for whose punctuation nobody waits; they stay so.
    i : In(array of streams of result_layout)
        All have the same punctuation, up to where one goes dead.
    o : Out(stream of result_layout)
        Pairs between two punctuations are those between the same two of each input.
    gone : Out(1)
        All inputs are dead, and nothing waits here.
    busy : Out(1)
        Set while a result waits here.

    Raises
    ------
    ParameterError
        If there are no inputs.

    Timing
    ------
    A result a cycle, one cycle later. All punctuations that make one are taken at once, so inputs with
    nothing else cost nothing.

    Source
    ------
    SplitJoin, section 4 (algorithm 5, n-ary merger). Ours: punctuations wait at the inputs and leave
    together.
    """

    def __init__(self, *, inputs: int, rows: int):
        if type(inputs) is not int or inputs < 1:
            raise ParameterError(f"inputs must be a positive integer, not {inputs!r}")
        self._inputs = inputs
        self._rows = rows
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "in_order": In(1),
                "dead": In(inputs),
                "i": In(result).array(inputs),
                "o": Out(result),
                "gone": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.results = results = QuickFifo(width=result_layout().size, depth=self._rows)
        stars = Signal(self._inputs)  # inputs that wait at a punctuation, or are dead
        first, chosen = Signal(self._inputs), Signal(self._inputs)  # of the pairs that are here
        together = Signal()
        before = 1  # whether no input before has a pair
        for at, port in enumerate(self.i):
            pair = port.valid & ~port.p.star & ~self.dead[at]
            turn = before & (~self.in_order | stars[:at].all())
            m.d.comb += [
                stars[at].eq((port.valid & port.p.star) | self.dead[at]),
                first[at].eq(pair & before),
                chosen[at].eq(pair & turn),
                # Said without a look at `valid`: the way back is long.
                port.ready.eq(results.w_rdy & Mux(port.p.star, (stars | 1 << at).all(), turn)),
            ]
            before = before & ~pair
        m.d.comb += [
            together.eq(stars.all() & ~self.dead.all()),
            results.w_en.eq(chosen.any() | together),
            results.w_data.eq(self.i[0].payload),
        ]
        # A punctuation is that of the first input that lives. What is not taken may be anything.
        for at, port in list(enumerate(self.i))[1:]:
            with m.If(self.dead[:at].all() & ~self.dead[at]):
                m.d.comb += results.w_data.eq(port.payload)
        for at, port in enumerate(self.i):
            with m.If(first[at]):
                m.d.comb += results.w_data.eq(port.payload)
        m.d.comb += [
            self.o.payload.eq(results.r_data),
            self.o.valid.eq(results.r_rdy),
            results.r_en.eq(self.o.ready),
            self.busy.eq(results.r_rdy),
            self.gone.eq(self.dead.all() & ~results.r_rdy),
        ]
        return m
