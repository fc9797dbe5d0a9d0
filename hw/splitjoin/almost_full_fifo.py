"""The end of a way on which nothing can be held up."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.quick_fifo import QuickFifo


def slack(way: int) -> int:
    """Items that still come once `way` cycles on the way are filled: what comes before word of the room is there
    counts as well."""
    return way + 2


def min_depth(way: int) -> int:
    """Items that must find room at the end of a way of so many cycles, for an item a cycle."""
    return 2 * slack(way)


class AlmostFullFifo(wiring.Component):
    """Says early that it fills up, so that what is on the way by then still finds room.

    Parameters
    ----------
    shape : StructLayout
        Of an item.
    way : int
        Cycles in which an item may still come, from the one on in which `room` is 0 first. When it is 1 again, there
        are items for as many cycles here: none is missing until the next ones come.
    eager : bool
        True where `o.ready` is set whenever there is no item.

    Attributes
    ----------
    i : In(stream, always ready)
        Items beyond the room that was said are lost.
    o : Out(stream)
    room : Out(1)
        Set while all that may come finds room.

    Timing
    ------
    An item a cycle, one cycle later. `room` is what was true in the cycle before.
    """

    def __init__(self, shape: StructLayout, *, way: int, eager: bool = False):
        self._shape = shape
        self._way = way
        self._eager = eager
        super().__init__(
            {
                "i": In(stream.Signature(shape, always_ready=True)),
                "o": Out(stream.Signature(shape)),
                "room": Out(1, init=1),
            }
        )

    @property
    def depth(self) -> int:
        """Items that there is room for."""
        return min_depth(self._way)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.items = items = QuickFifo(width=self._shape.size, depth=self.depth, sure=True, eager=self._eager)
        m.d.comb += [
            items.w_data.eq(self.i.payload),
            items.w_en.eq(self.i.valid),
            self.o.payload.eq(items.r_data),
            self.o.valid.eq(items.r_rdy),
            items.r_en.eq(self.o.ready),
        ]
        m.d.sync += self.room.eq(~items.filled[self.depth - slack(self._way)])
        return m
