"""Where results wait for a merger or the combiner."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.quick_fifo import QuickFifo
from muntin.hw.splitjoin.almost_full_fifo import min_depth, slack
from muntin.hw.splitjoin.layouts import result_layout


class ResultFlow(wiring.Signature):
    """Results that nothing holds up.

    Attributes
    ----------
    pair, star : Out(1)
        A pair comes, or a punctuation; never both.
    payload : Out(result_layout)
        It. Its `star` is, where one comes, as the one beside it; `in_order` is right also where none comes.
    """

    def __init__(self):
        super().__init__({"pair": Out(1), "star": Out(1), "payload": Out(result_layout())})


class ResultFifo(wiring.Component):
    """A FIFO at the end of a way, which says out of registers what its first result lets a merger do.

    Parameters
    ----------
    way : int
        As of `AlmostFullFifo`.
    rows : int
        Results that may wait here; as many as the way needs where that is more, `min_depth`.

    Attributes
    ----------
    i : In(ResultFlow)
        Results beyond the room that was said are lost.
    room : Out(1)
        Set while all that may come finds room.
    end : In(1)
        From the cycle after it is 1 on, as long as it is, a punctuation that is `gone` stands first, and what comes is
        lost.
    ahead : In(1)
        Set where what stands behind the merger has room for a result in the next cycle.
    pair, star, here : Out(1)
        The first result is a pair, a punctuation, one of them and not `gone`, and there is room for it.
    ends : Out(1)
        `here`, and it is a punctuation that ends a probing row.
    passes : Out(1)
        No pair is first here, and either a punctuation is, or order is not asked for: inputs that come after this one
        may have their turn.
    payload : Out(result_layout)
        The first result. `in_order` is right also where there is none.
    take : In(1)
        Takes it; not while `pair` and `star` are 0.
    busy : Out(1)
        Set while a result waits here that is not `gone`.
    over : Out(1)
        Set while a punctuation that is `gone` stands first.

    Timing
    ------
    A result a cycle, one cycle later. `room` is what was true in the cycle before.
    """

    def __init__(self, *, way: int, rows: int):
        self._way = way
        self._depth = max(min_depth(way), rows)
        super().__init__(
            {
                "i": In(ResultFlow()),
                "room": Out(1, init=1),
                "end": In(1),
                "ahead": In(1),
                "pair": Out(1),
                "star": Out(1),
                "here": Out(1),
                "ends": Out(1),
                "passes": Out(1),
                "payload": Out(result_layout()),
                "take": In(1),
                "busy": Out(1),
                "over": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = result_layout()
        kinds = sum(1 << layout[name].offset for name in ("star", "gone", "last"))
        m.submodules.items = items = QuickFifo(width=layout.size, depth=self._depth, sure=True, quick=kinds)
        first, behind = data.View(layout, items.r_data), data.View(layout, items.behind)
        come, comes = self.i, self.i.pair | self.i.star
        some, star, gone = Signal(), Signal(), Signal()  # of the first result, whether there is room or not
        in_order = Signal()

        def following(stands: Value, stood_behind: Value, came: Value) -> Value:
            """What is true for the result that is first in the next cycle."""
            return Mux(self.take, Mux(items.filled[1], stood_behind, came), Mux(some, stands, came))

        next_pair, next_star, next_gone, next_last, next_busy = (Signal() for _ in range(5))
        m.d.comb += [
            items.w_data.eq(come.payload),
            items.w_en.eq(comes),
            items.r_en.eq(self.take),
            next_pair.eq(following(~star, ~behind.star, come.pair) & ~self.end),
            next_star.eq(following(star, behind.star, come.star) | self.end),
            next_gone.eq(following(gone, behind.gone, come.payload.gone) | self.end),
            next_last.eq(following(first.last, behind.last, come.payload.last)),
            *(
                self.payload[name].eq(first[name])
                for name in layout.members
                if name not in ("star", "gone", "in_order")
            ),
            self.payload.star.eq(star),
            self.payload.gone.eq(gone),
            self.payload.in_order.eq(in_order),
            next_busy.eq(next_pair | (next_star & ~next_gone)),
        ]
        m.d.sync += [
            self.room.eq(~items.filled[self._depth - slack(self._way)]),
            in_order.eq(come.payload.in_order),
            some.eq(next_pair | next_star),
            star.eq(next_star),
            gone.eq(next_gone),
            self.pair.eq(next_pair & self.ahead),
            self.star.eq(next_star & self.ahead),
            self.here.eq(next_busy & self.ahead),
            self.ends.eq(next_star & ~next_gone & next_last & self.ahead),
            self.busy.eq(next_busy),
            self.over.eq(next_star & next_gone),
            self.passes.eq(next_star | ~(next_pair | in_order)),
        ]
        return m
