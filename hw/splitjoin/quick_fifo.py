"""A FIFO that answers out of registers."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import fifo, memory


class QuickFifo(fifo.FIFOInterface, Elaboratable):
    """As the library's `SyncFIFO`, without a counter to decode on the way to its ready and valid, nor a memory to read
    on the way to its data.

    Parameters
    ----------
    width, depth : int
        Bits of an item, and items, at least 1.
    last : int
        Not 0 to build `end`: bits that are 1 in the item that then stands first for good.

    Attributes
    ----------
    end : In(1)
        From the cycle after it is 1 on, as long as it is, there is a first item whatever is taken; of its bits those of
        `last` are 1, the others may be anything. There with `last` only.
    w_data, w_en, w_rdy, w_level, r_data, r_en, r_rdy, r_level
        As of the library's FIFOs.

    Timing
    ------
    An item a cycle, one cycle later. `w_rdy`, `r_rdy` and `r_data` are registers; what waits behind the first item is
    in distributed RAM.
    """

    def __init__(self, *, width: int, depth: int, last: int = 0):
        super().__init__(width=width, depth=depth)
        self._last = last
        if last:
            self.end = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.depth
        first = Signal(self.width, reset_less=True)
        level = Signal(range(depth + 1))
        full, some, more = Signal(), Signal(), Signal()  # `more`: there are others behind the first item
        put, got = Signal(), Signal()
        m.d.comb += [
            self.w_rdy.eq(~full),
            self.r_rdy.eq(some),
            self.w_level.eq(level),
            self.r_level.eq(level),
            self.r_data.eq(first),
            put.eq(self.w_en & ~full),
            got.eq(self.r_en & some),
        ]
        with m.If(put & ~got):
            m.d.sync += [level.eq(level + 1), full.eq(level == depth - 1), some.eq(1), more.eq(some)]
        with m.Elif(got & ~put):
            m.d.sync += [level.eq(level - 1), full.eq(0), some.eq(more), more.eq(level > 2)]
        waiting = self.w_data
        if depth == 2:
            behind = Signal(self.width, reset_less=True)
            with m.If(put):
                m.d.sync += behind.eq(self.w_data)
            waiting = Mux(more, behind, self.w_data)
        elif depth > 2:
            m.submodules.items = items = memory.Memory(shape=self.width, depth=depth - 1, init=[])
            writer, reader = items.write_port(), items.read_port(domain="comb")
            write_at, read_at = Signal(range(depth - 1)), Signal(range(depth - 1))
            # An item that goes to the front at once is written, too, and read past.
            m.d.comb += [
                writer.addr.eq(write_at),
                writer.data.eq(self.w_data),
                writer.en.eq(put),
                reader.addr.eq(read_at),
            ]
            with m.If(put):
                m.d.sync += write_at.eq(Mux(write_at == depth - 2, 0, write_at + 1))
            with m.If((put & ~some) | (got & (more | put))):
                m.d.sync += read_at.eq(Mux(read_at == depth - 2, 0, read_at + 1))
            waiting = Mux(more, reader.data, self.w_data)
        with m.If(got | ~some):
            m.d.sync += first.eq(waiting)
        if self._last:
            with m.If(self.end):
                m.d.sync += [some.eq(1), *(bit.eq(1) for at, bit in enumerate(first) if self._last >> at & 1)]
        return m
