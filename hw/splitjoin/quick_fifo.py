"""A FIFO whose handshake comes out of registers."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import fifo, memory


class QuickFifo(fifo.FIFOInterface, Elaboratable):
    """As the library's `SyncFIFO`, without a counter to decode on the way to its ready and valid.

    Parameters
    ----------
    width, depth : int
        Bits of an item, and items, at least 1.

    Attributes
    ----------
    w_data, w_en, w_rdy, w_level, r_data, r_en, r_rdy, r_level
        As of the library's FIFOs.

    Timing
    ------
    An item a cycle, one cycle later. `w_rdy` and `r_rdy` are registers, `r_data` is read from distributed RAM.
    """

    def __init__(self, *, width: int, depth: int):
        super().__init__(width=width, depth=depth)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.depth
        m.submodules.items = items = memory.Memory(shape=self.width, depth=depth, init=[])
        writer, reader = items.write_port(), items.read_port(domain="comb")
        write_at, read_at = Signal(range(depth)), Signal(range(depth))
        level = Signal(range(depth + 1))
        full, some = Signal(), Signal()
        put, got = Signal(), Signal()
        m.d.comb += [
            self.w_rdy.eq(~full),
            self.r_rdy.eq(some),
            self.w_level.eq(level),
            self.r_level.eq(level),
            put.eq(self.w_en & self.w_rdy),
            got.eq(self.r_en & self.r_rdy),
            writer.addr.eq(write_at),
            writer.data.eq(self.w_data),
            writer.en.eq(put),
            reader.addr.eq(read_at),
            self.r_data.eq(reader.data),
        ]
        with m.If(put):
            m.d.sync += write_at.eq(Mux(write_at == depth - 1, 0, write_at + 1))
        with m.If(got):
            m.d.sync += read_at.eq(Mux(read_at == depth - 1, 0, read_at + 1))
        with m.If(put & ~got):
            m.d.sync += [level.eq(level + 1), full.eq(level == depth - 1), some.eq(1)]
        with m.Elif(got & ~put):
            m.d.sync += [level.eq(level - 1), full.eq(0), some.eq(level != 1)]
        return m
