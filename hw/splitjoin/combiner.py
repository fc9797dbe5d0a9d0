"""Makes one stream of the results of both sides."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.almost_full_fifo import AlmostFullFifo
from hw.splitjoin.result_fifo import ResultFifo, ResultFlow
from hw.splitjoin.result_layout import ARRIVAL_BITS, result_layout
from hw.splitjoin.side import Side

_SIDES = tuple(side.name.lower() for side in Side)


class Combiner(wiring.Component):
    """Passes on the results of both sides, marked with theirs, or each side's apart.

    Ordered results say how many rows of the other stream arrived before their probing row. As many of the
    other side's probing rows must have ended before they pass, so that probing rows of both sides come out
    in the order in which they arrived. Where a side is gone, the other one waits for nothing.

    Parameters
    ----------
    way : int
        Cycles in which a result may still come, from the one on in which there is no room first.
    rows : int
        Results of each side that may wait here; as of `ResultFifo`.

    Attributes
    ----------
    apart : In(1)
        1 to use `left` and `right`, 0 to use `o`; stands still while results are under way.
    ordered : In(1)
        1 where results are punctuated, by probing row at least; stands still like `apart`. While it is 0,
        rows are not counted, here as in the regions.
    i_left, i_right : In(ResultFlow)
        The results of probing rows of the left stream, and of the right one; from one that is gone on, none.
    left_room, right_room : Out(1)
        Set while there is room for all that may come.
    left_end, right_end : In(1)
        Set where a side is gone, whatever comes.
    o : Out(stream of result_layout, tagged)
        Results of both: in order of arrival where `ordered`, else in turn where both are here.
    left, right : Out(stream of result_layout)
        Each side's results apart. Whoever takes them must not wait for one side while leaving the other.
    busy : Out(1)
        Set while a result waits here.

    Timing
    ------
    A result a cycle, two cycles later; apart one. Where `ordered`, the first result of a probing row waits a cycle
    more, unless results of the other side pass meanwhile.

    Source
    ------
    SplitJoin, section 4 (combiner), which orders each side by itself. The order over both is ours.
    """

    def __init__(self, *, way: int, rows: int):
        self._way, self._rows = way, rows
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "apart": In(1),
                "ordered": In(1),
                "i_left": In(ResultFlow()),
                "i_right": In(ResultFlow()),
                "left_room": Out(1, init=1),
                "right_room": Out(1, init=1),
                "left_end": In(1),
                "right_end": In(1),
                "o": Out(stream.Signature(result_layout(tagged=True))),
                "left": Out(result),
                "right": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.results = results = AlmostFullFifo(result_layout(tagged=True), way=1)
        waiting = [ResultFifo(way=self._way, rows=self._rows) for _ in _SIDES]
        here = [own.here for own in waiting]
        # Whose results may pass, and whose do where both may. Where ordered, both stand for the probing row whose
        # results come. Apart, the sides do not meet.
        turn = [Signal(name=f"turn_{name}") for name in _SIDES]
        favoured = [Signal(name=f"favoured_{name}") for name in _SIDES]
        goes = [Signal(name=f"goes_{name}") for name in _SIDES]
        ends = [Signal(name=f"ends_{name}") for name in _SIDES]  # a probing row's last result goes
        ended = [Signal(ARRIVAL_BITS, name=f"ended_{name}") for name in _SIDES]  # probing rows
        takes_turns, by_turns = self.ordered & ~self.apart, Signal()
        m.d.sync += by_turns.eq(takes_turns)
        side = Signal()  # of what passes; anything where nothing does
        rights_turn = Signal()  # without order: the right side's, after one of the left side's
        m.d.comb += [
            side.eq(here[1] & (favoured[1] | ~here[0])),
            rights_turn.eq(Mux(Cat(here).any(), here[0] & ~side, favoured[1])),
        ]
        reached = [Signal(name=f"reached_{name}") for name in _SIDES]
        next_up = [Signal(name=f"next_up_{name}") for name in _SIDES]
        next_turn = [Signal(name=f"next_turn_{name}") for name in _SIDES]
        for at, name in enumerate(_SIDES):
            own, other = waiting[at], 1 - at
            out = getattr(self, name)
            m.submodules[f"waiting_{name}"] = own
            wiring.connect(m, wiring.flipped(getattr(self, f"i_{name}")), own.i)
            m.d.comb += [
                getattr(self, f"{name}_room").eq(own.room),
                own.end.eq(getattr(self, f"{name}_end")),
                own.ahead.eq(self.apart | results.room),
                goes[at].eq(here[at] & turn[at] & (favoured[at] | ~here[other])),
                ends[at].eq(own.ends & turn[at] & (favoured[at] | ~here[other])),
                own.take.eq(goes[at] & (~self.apart | out.ready)),
                out.payload.eq(own.payload),
                out.valid.eq(here[at] & self.apart),
                # No row of the other side that arrived later has ended: what is not less is equal. Where the other
                # side is gone, nobody is to be waited for.
                reached[at].eq(~(ended[other] - own.payload.before)[ARRIVAL_BITS - 1]),
                next_up[at].eq(own.busy & (reached[at] | waiting[other].over)),
                next_turn[at].eq(turn[at] | (next_up[at] & ~Cat(turn[other], *next_up[:at]).any())),
            ]
            with m.If(~self.ordered):
                m.d.sync += ended[at].eq(0)
            with m.Elif(ends[at] & (~self.apart | out.ready)):
                m.d.sync += ended[at].eq(ended[at] + 1)
            with m.If(~by_turns):
                mine = rights_turn if name == _SIDES[1] else ~rights_turn
                m.d.sync += [turn[at].eq(~takes_turns), favoured[at].eq(~takes_turns & (self.apart | mine))]
            with m.Elif(ends[at] | own.over):  # of a row that is gone, no end comes
                m.d.sync += [turn[at].eq(0), favoured[at].eq(0)]
            with m.Else():
                m.d.sync += [turn[at].eq(next_turn[at]), favoured[at].eq(next_turn[at])]
        left, right = waiting
        m.d.comb += [
            results.i.valid.eq(~self.apart & ((here[0] & turn[0]) | (here[1] & turn[1]))),
            results.i.p.side.eq(side),
            *(
                results.i.p[name].eq(Mux(side, right.payload[name], left.payload[name]))
                for name in ("star", "last", "probe", "row")
            ),
            self.busy.eq(results.o.valid | left.busy | right.busy),
        ]
        wiring.connect(m, results.o, wiring.flipped(self.o))
        return m
