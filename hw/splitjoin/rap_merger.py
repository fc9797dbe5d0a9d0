"""Merges punctuated results into one stream with one punctuation for all."""

from amaranth.hdl import Cat, Module, Mux, Signal
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
    i : In(array of streams of result_layout)
        Where `in_order` is 1, all pairs of an input, up to its punctuation, are taken before those of the next one;
        where it is 0, whatever is here, the first input first. All have the same punctuation, up to where one has a
        punctuation that is `gone`, and that one for good.
    o : Out(stream of result_layout)
        Pairs between two punctuations are those between the same two of each input. Where all inputs are gone, it is.
    busy : Out(1)
        Set while a result waits here that is not `gone`.

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
                "i": In(result).array(inputs),
                "o": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.results = results = QuickFifo(width=result_layout().size, depth=self._rows)
        stars, pairs = Signal(self._inputs), Signal(self._inputs)  # inputs that wait at a punctuation, at a pair
        chosen = Signal(self._inputs)
        for at, port in enumerate(self.i):
            over = Cat(stars[before] | ~self.i[before].p.in_order for before in range(at))
            turn = ~pairs[:at].any() & over.all()
            m.d.comb += [
                stars[at].eq(port.valid & port.p.star),
                pairs[at].eq(port.valid & ~port.p.star),
                chosen[at].eq(pairs[at] & turn),
                # Said without a look at `valid`: the way back is long.
                port.ready.eq(results.w_rdy & Mux(port.p.star, (stars | 1 << at).all(), turn)),
            ]
        m.d.comb += [
            results.w_en.eq(chosen.any() | stars.all()),
            results.w_data.eq(self.i[-1].payload),
        ]
        # A pair is the first one that is here, a punctuation that of the first input that lives. Where nothing is
        # taken it may be anything, so the last input, where it is looked at, need not be valid.
        for at, port in reversed(list(enumerate(self.i[:-1]))):
            later = ~self.i[-1].p.star | pairs[at + 1 : -1].any()
            with m.If(pairs[at] | (port.valid & ~port.p.gone & ~later)):
                m.d.comb += results.w_data.eq(port.payload)
        m.d.comb += [
            self.o.payload.eq(results.r_data),
            self.o.valid.eq(results.r_rdy),
            results.r_en.eq(self.o.ready),
            self.busy.eq(self.o.valid & ~self.o.p.gone),
        ]
        return m
