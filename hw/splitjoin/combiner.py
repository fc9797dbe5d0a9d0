"""Makes one stream of the results of both sides."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.splitjoin.almost_full_fifo import AlmostFullFifo
from muntin.hw.splitjoin.layouts import ARRIVAL_BITS, Side, result_layout
from muntin.hw.splitjoin.result_fifo import ResultFifo, ResultFlow

_SIDES = tuple(side.name.lower() for side in Side)


class Combiner(wiring.Component):
    """Passes on the results of both sides, marked with theirs, or each side's apart.

    A punctuation ends a group of a side's probing rows, be it of one row. Ordered results say how many groups of the
    other side had ended when their probing row arrived. As many must have passed before the first result of a group
    does, so that it comes behind all groups that ended before it began. Results of two groups that overlap pass in
    turn: neither side waits for the other one's punctuation. Fewer than ``2**(ARRIVAL_BITS - 1)`` groups of one side
    may end within one of the other side. Where a side is gone, the other one waits for nothing.

    Parameters
    ----------
    way : int
        Cycles in which a result may still come, from the one on in which there is no room first.
    rows : int
        Results of each side that may wait here; as of `ResultFifo`.

    Attributes
    ----------
    apart : In(1)
        1 to use `left` and `right`, 0 to use `o`; stable while results are in flight.
    ordered : In(1)
        1 where results are punctuated; stable like `apart`. While it is 0, groups are not counted, here as in
        the regions.
    i_left, i_right : In(ResultFlow)
        The results of probing rows of the left stream, and of the right one; from one that is gone on, none.
    left_room, right_room : Out(1)
        Set while there is room for all that may come.
    left_end, right_end : In(1)
        Set where a side is gone, whatever comes.
    o : Out(stream of result_layout, tagged)
        Results of both: in order of arrival where `ordered`; in turn where both are here and may pass.
    left, right : Out(stream of result_layout)
        Each side's results apart. Whoever takes them must not wait for one side while leaving the other.
    busy : Out(1)
        Set while a result waits here.

    Timing
    ------
    A result a cycle, two cycles later; apart one. Where `ordered`, the first result of a group waits a cycle more,
    unless results of the other side pass meanwhile.

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
        # Whose results may pass, and whose do where both may. Where ordered, a side has its turn up to the end of the
        # group whose results come. Apart, the sides do not meet.
        turn = [Signal(name=f"turn_{name}") for name in _SIDES]
        favoured = [Signal(name=f"favoured_{name}") for name in _SIDES]
        goes = [Signal(name=f"goes_{name}") for name in _SIDES]
        ends = [Signal(name=f"ends_{name}") for name in _SIDES]  # a group's last result goes
        ended = [Signal(ARRIVAL_BITS, name=f"ended_{name}") for name in _SIDES]  # groups
        takes_turns, by_turns = self.ordered & ~self.apart, Signal()
        m.d.sync += by_turns.eq(takes_turns)
        side = Signal()  # of what passes; anything where nothing does
        rights_turn = Signal()  # where both may pass: the right side's, after one of the left side's
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
                # Of the other side, few groups that ended later may have passed. Where it is gone, there is
                # nothing to wait for.
                reached[at].eq(~(ended[other] - own.payload.before)[ARRIVAL_BITS - 1]),
                next_up[at].eq(own.busy & (reached[at] | waiting[other].over)),
                # Of a row that is gone, no end comes.
                next_turn[at].eq((turn[at] | next_up[at]) & ~(ends[at] | own.over)),
            ]
            with m.If(~self.ordered):
                m.d.sync += ended[at].eq(0)
            with m.Elif(ends[at] & (~self.apart | out.ready)):
                m.d.sync += ended[at].eq(ended[at] + 1)
            mine = rights_turn if name == _SIDES[1] else ~rights_turn
            with m.If(~by_turns):
                m.d.sync += [turn[at].eq(~takes_turns), favoured[at].eq(~takes_turns & (self.apart | mine))]
            with m.Else():
                m.d.sync += [turn[at].eq(next_turn[at]), favoured[at].eq(next_turn[at] & (mine | ~next_turn[other]))]
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
