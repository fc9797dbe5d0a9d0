"""The end of a way on which nothing can be held up."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from hw.splitjoin.quick_fifo import QuickFifo


class AlmostFullFifo(wiring.Component):
    """Says early that it fills up, so that what is on the way by then still finds room.

    Parameters
    ----------
    shape : StructLayout
        Of an item.
    way : int
        Cycles in which an item may still come, from the one on in which `room` is 0 first. When it is 1 again, there
        are items for as many cycles here: none is missing until the next ones come.
    last : tuple of str
        Fields of one bit; not empty to build `end`: those that are 1 in the item that then stands first for good.

    Attributes
    ----------
    end : In(1)
        As of `QuickFifo`. There with `last` only.
    i : In(stream, always ready)
        Items beyond the room that was said are lost.
    o : Out(stream)
    room : Out(1)
        Set while all that may come finds room.

    Timing
    ------
    An item a cycle, one cycle later. `room` is what was true in the cycle before.
    """

    def __init__(self, shape: StructLayout, *, way: int, last: tuple[str, ...] = ()):
        self._shape = shape
        self._last = sum(1 << shape[name].offset for name in last)
        self._slack = way + 2  # what comes before `room` tells of it counts as well
        super().__init__(
            {
                "i": In(stream.Signature(shape, always_ready=True)),
                "o": Out(stream.Signature(shape)),
                "room": Out(1, init=1),
            }
            | ({"end": In(1)} if last else {})
        )

    @property
    def depth(self) -> int:
        """Items that there is room for."""
        return 2 * self._slack

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.items = items = QuickFifo(width=self._shape.size, depth=self.depth, last=self._last)
        m.d.comb += [
            items.w_data.eq(self.i.payload),
            items.w_en.eq(self.i.valid),
            self.o.payload.eq(items.r_data),
            self.o.valid.eq(items.r_rdy),
            items.r_en.eq(self.o.ready),
        ]
        if self._last:
            m.d.comb += items.end.eq(self.end)
        m.d.sync += self.room.eq(items.w_level <= self.depth - self._slack)
        return m
