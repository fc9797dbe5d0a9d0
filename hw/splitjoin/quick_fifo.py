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
    sure : bool
        True where nothing is written unless there is room, so that nobody need look.

    Attributes
    ----------
    behind_rdy, behind_data : Out(1), Out(width)
        There is an item behind the first one, and which.
    w_data, w_en, w_rdy, w_level, r_data, r_en, r_rdy, r_level
        As of the library's FIFOs.

    Timing
    ------
    An item a cycle, one cycle later. `w_rdy`, `r_rdy` and `r_data` are registers; what waits behind the first item is
    in distributed RAM.
    """

    def __init__(self, *, width: int, depth: int, sure: bool = False):
        super().__init__(width=width, depth=depth)
        self._sure = sure
        self.behind_rdy = Signal()
        self.behind_data = Signal(width)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.depth
        first = Signal(self.width, reset_less=True)
        level = Signal(range(depth + 1))
        # `more` and `most`: there are one and two others at least behind the first item.
        full, some, more, most = Signal(), Signal(), Signal(), Signal()
        put, got = Signal(), Signal()
        m.d.comb += [
            self.w_rdy.eq(~full),
            self.r_rdy.eq(some),
            self.w_level.eq(level),
            self.r_level.eq(level),
            self.r_data.eq(first),
            put.eq(self.w_en if self._sure else self.w_en & ~full),
            got.eq(self.r_en & some),
        ]
        with m.If(put & ~got):
            m.d.sync += [level.eq(level + 1), full.eq(level == depth - 1), more.eq(some), most.eq(more)]
        with m.Elif(got & ~put):
            m.d.sync += [level.eq(level - 1), full.eq(0), more.eq(most), most.eq(level > 3)]
        if depth == 2:
            behind = Signal(self.width, reset_less=True)
            with m.If(put):
                m.d.sync += behind.eq(self.w_data)
            m.d.comb += self.behind_data.eq(behind)
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
            m.d.comb += self.behind_data.eq(reader.data)
        m.d.comb += self.behind_rdy.eq(more)
        m.d.sync += some.eq(put | Mux(got, more, some))
        with m.If(got | ~some):
            m.d.sync += first.eq(Mux(more, self.behind_data, self.w_data) if depth > 1 else self.w_data)
        return m
