"""Merges punctuated results into one stream with one punctuation for all."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.splitjoin.result_fifo import ResultFifo, ResultFlow

MERGER_WAY = 1
"""Cycles in which a merger may still put a result out, from the one on in which there is no room first."""


class RapMerger(wiring.Component):
    """Passes pairs on, holds an input back at its punctuation, and puts out one once all inputs have it.

    Parameters
    ----------
    inputs : int
    way : int
        Cycles in which a result may still come to an input, from the one on in which its room is 0 first.
    rows : int
        Results that may wait at each input; as of `ResultFifo`.

    Attributes
    ----------
    i : In(array of ResultFlow)
        Where `in_order` is 1, all pairs of an input, up to its punctuation, are taken before those of the next one;
        where it is 0, whatever is here, the first input first. It is there two cycles before the first result. All
        have the same punctuation, up to where one has a punctuation that is `gone`, and that one for good.
    room : Out(inputs)
        For each input: there is room for all that may come.
    end : In(inputs)
        For each input: it is gone, whatever comes there.
    o : Out(ResultFlow)
        Pairs between two punctuations are those between the same two of each input. Where all inputs are gone, it is.
    o_room : In(1)
        Set while there is room for the results of `MERGER_WAY` cycles, this one included.
    busy : Out(1)
        Set while a result waits here that is not `gone`.

    Raises
    ------
    ParameterError
        If there are no inputs.

    Timing
    ------
    A result a cycle, one cycle later. All punctuations that make one are taken at once, so inputs with
    nothing else cost nothing. What is put out is decided by registers that say what stands first at each input.

    Source
    ------
    SplitJoin, section 4 (algorithm 5, n-ary merger). Ours: punctuations wait at the inputs and leave
    together.
    """

    def __init__(self, *, inputs: int, way: int, rows: int):
        if type(inputs) is not int or inputs < 1:
            raise ParameterError(f"inputs must be a positive integer, not {inputs!r}")
        self._inputs = inputs
        self._way = way
        self._rows = rows
        super().__init__(
            {
                "i": In(ResultFlow()).array(inputs),
                "room": Out(inputs, init=(1 << inputs) - 1),
                "end": In(inputs),
                "o": Out(ResultFlow()),
                "o_room": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting: list[ResultFifo] = []
        for at, port in enumerate(self.i):
            m.submodules[f"waiting_{at}"] = results = ResultFifo(way=self._way, rows=self._rows)
            wiring.connect(m, wiring.flipped(port), results.i)
            m.d.comb += [
                self.room[at].eq(results.room),
                results.end.eq(self.end[at]),
                results.ahead.eq(self.o_room),
            ]
            waiting.append(results)
        together = Cat(results.star for results in waiting).all()
        chosen = [
            results.pair & Cat(before.passes for before in waiting[:at]).all() for at, results in enumerate(waiting)
        ]
        for results, goes in zip(waiting, chosen, strict=True):
            m.d.comb += results.take.eq(goes | together)
        m.d.comb += [
            self.o.pair.eq(Cat(chosen).any()),
            self.o.star.eq(together),
            self.o.payload.eq(waiting[-1].payload),
            self.busy.eq(Cat(results.busy for results in waiting).any()),
        ]
        # A pair is the first one that is here, a punctuation that of the last input that lives. Where nothing is
        # put out it may be anything.
        for at, results in reversed(list(enumerate(waiting[:-1]))):
            with m.If(results.pair | Cat(later.payload.gone for later in waiting[at + 1 :]).all()):
                m.d.comb += self.o.payload.eq(results.payload)
        m.d.comb += self.o.payload.star.eq(together)
        return m
