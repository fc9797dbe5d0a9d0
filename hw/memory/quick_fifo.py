"""FIFOs that answer out of registers."""

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
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
    quick : int
        Bits that are 1 stand in a register in `behind`, too.
    eager : bool
        True where `r_en` is set whenever there is no item, so that nobody need look.

    Attributes
    ----------
    filled : Out(depth)
        Bit n is set while there are more than n items: the level, with nothing to decode.
    behind : Out(width)
        The item behind the first one, where there is one.
    w_data, w_en, w_rdy, w_level, r_data, r_en, r_rdy, r_level
        As of the library's FIFOs.

    Timing
    ------
    An item a cycle, one cycle later. `w_rdy`, `r_rdy`, `r_data` and `filled` are registers; what waits behind the first
    item is in distributed RAM.
    """

    def __init__(self, *, width: int, depth: int, sure: bool = False, quick: int = 0, eager: bool = False):
        super().__init__(width=width, depth=depth)
        self._sure = sure
        self._eager = eager
        self._quick = [at for at in range(width) if quick >> at & 1]
        self.filled = Signal(depth)
        self.behind = Signal(width)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth, filled = self.depth, self.filled
        first = Signal(self.width, reset_less=True)
        some, more = filled[0], filled[1] if depth > 1 else Const(0)
        put, got = Signal(), Signal()
        m.d.comb += [
            self.w_rdy.eq(~filled[-1]),
            self.r_rdy.eq(some),
            self.r_data.eq(first),
            self.r_level.eq(self.w_level),
            put.eq(self.w_en if self._sure else self.w_en & ~filled[-1]),
            got.eq(self.r_en & some),
        ]
        with m.If(put ^ got):
            m.d.sync += filled.eq(Mux(put, Cat(1, filled[:-1]), Cat(filled[1:], 0)))
        for at in range(depth):
            with m.If(filled[at]):
                m.d.comb += self.w_level.eq(at + 1)
        if depth == 2:
            behind = Signal(self.width, reset_less=True)
            with m.If(put):
                m.d.sync += behind.eq(self.w_data)
            m.d.comb += self.behind.eq(behind)
        elif depth > 2:
            # Where writes are sure, the place that is next is written all the time: one more, and no wide enable.
            places = depth if self._sure else depth - 1
            m.submodules.items = items = memory.Memory(shape=self.width, depth=places, init=[])
            writer, reader = items.write_port(), items.read_port(domain="comb")
            write_at, read_at = Signal(range(places)), Signal(range(places))
            # An item that goes to the front at once is written, too, and read past.
            m.d.comb += [
                writer.addr.eq(write_at),
                writer.data.eq(self.w_data),
                writer.en.eq(1 if self._sure else put),
                reader.addr.eq(read_at),
                self.behind.eq(reader.data),
            ]

            def after(place: Value) -> Value:
                return Mux(place == places - 1, 0, place + 1)

            moves = (put & ~some) | (got & (more | put))
            with m.If(put):
                m.d.sync += write_at.eq(after(write_at))
            with m.If(moves):
                m.d.sync += read_at.eq(after(read_at))
            if self._quick:
                m.submodules.quick = quick = memory.Memory(shape=len(self._quick), depth=places, init=[])
                writer, reader = quick.write_port(), quick.read_port(domain="comb")
                third_at = Signal(range(places), init=1)
                second = Signal(len(self._quick), reset_less=True)
                new = Cat(self.w_data[at] for at in self._quick)
                m.d.comb += [
                    writer.addr.eq(write_at),
                    writer.data.eq(new),
                    writer.en.eq(1 if self._sure else put),
                    reader.addr.eq(third_at),
                    *(self.behind[at].eq(bit) for at, bit in zip(self._quick, second, strict=True)),
                ]
                with m.If(moves):
                    m.d.sync += third_at.eq(after(third_at))
                with m.If(got | ~more):
                    m.d.sync += second.eq(Mux(filled[2], reader.data, new))
        with m.If(self.r_en if self._eager else got | ~some):
            m.d.sync += first.eq(Mux(more, self.behind, self.w_data))
        return m


class BlockFifo(fifo.FIFOInterface, Elaboratable):
    """As the library's `SyncFIFOBuffered`, which fits block RAM, but it answers out of registers.

    Parameters
    ----------
    width, depth : int
        Bits of an item, and items, at least 2. Two more are kept behind them.

    Timing
    ------
    An item a cycle, three cycles later. `r_rdy` and `r_data` are registers.
    """

    def __init__(self, *, width: int, depth: int):
        super().__init__(width=width, depth=depth)
        self.w_level = Signal(range(depth + 3))
        self.r_level = Signal(range(depth + 3))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.block = block = fifo.SyncFIFOBuffered(width=self.width, depth=self.depth)
        m.submodules.quick = quick = QuickFifo(width=self.width, depth=2)
        m.d.comb += [
            block.w_data.eq(self.w_data),
            block.w_en.eq(self.w_en),
            self.w_rdy.eq(block.w_rdy),
            quick.w_data.eq(block.r_data),
            quick.w_en.eq(block.r_rdy),
            block.r_en.eq(quick.w_rdy),
            self.r_data.eq(quick.r_data),
            self.r_rdy.eq(quick.r_rdy),
            quick.r_en.eq(self.r_en),
            self.w_level.eq(block.w_level + quick.w_level),
            self.r_level.eq(self.w_level),
        ]
        return m
