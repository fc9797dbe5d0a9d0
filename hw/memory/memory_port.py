"""Readers and writers in turns on one memory port."""

from amaranth import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract import ParameterError
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.quick_fifo import QuickFifo

_PATIENCE = 3
"""How often one whose turn it is may be passed over for a burst on the other side."""

_SETTLES = 3
"""Cycles after an address until its beats count, and whoever asked may ask again."""


class MemoryPort(wiring.Component):
    """Joins several readers and writers on one port, reading and writing in turns.

    A DRAM loses about twenty cycles whenever its data bus turns round. So a direction has its turn until
    `turn_bytes` of it have passed and the other one waits, or until nobody asks for more of it. The first
    burst of a turn is sent while the last one of the turn before is still under way, so that the memory
    always has work.

    Parameters
    ----------
    shape : PortShape
        Widths and limits; `outstanding` counts all readers together, and all writers together.
    readers, writers : int
        How many of each.
    turn_bytes : int
        Bytes of one direction before the other has its turn. Readers and writers should buffer as much.
    alternate_bytes : int or None
        Where neighbouring blocks of so many bytes lie on different ports or channels (a power of two, at least
        a burst; the `stride` of a `PortInterleaver`): among those that ask, one whose burst lies on the other
        side of that address bit than the burst before goes first, so that the memory opens one row while it
        moves the other. By default they take bursts in plain rotation.
    read_overlap, write_overlap : int or None
        A turn may end while this many beats of it are still to come from the memory, or to be taken by it.
        Too few and the memory runs dry; too many, and a memory with several queues does the next turn's
        bursts first. By default a burst less one beat to read, and a quarter of a burst to write.

    Attributes
    ----------
    readers : array of In(Axi4Signature with read channels)
        Must always have room for what they ask for, as `BurstReader` has.
    writers : array of In(Axi4Signature with write channels)
        Must have all beats of a burst ready when they announce it, as `BurstWriter` has.
    axi : Out(Axi4Signature)
        To the memory, which must answer in order.
    halt : In(1)
        While 1, no address is taken from readers and writers, and what has been announced runs to its end.
        Beats and acknowledgements that a reader or writer does not take at once are then dropped, so that a
        user who is stuck does not keep the port from ending; reset readers, writers and the port afterwards.
    quiet : Out(1)
        Nothing is under way: no address held, no beat and no acknowledgement due. Once 1 under `halt`, it
        stays so.
    progress : Out(1)
        An address, a beat or an acknowledgement passed on `axi` in this cycle.
    turned : Out(1)
        The direction changes with this cycle.

    Timing
    ------
    Two cycles for addresses, one to choose and one to send; one address every third cycle. Data and acknowledgements
    pass through. One beat a cycle and direction. Whoever asks is served after at most ``readers`` (or ``writers``)
    bursts of its direction, with `alternate_bytes` after at most four times as many.

    Raises
    ------
    ParameterError
        If there is no reader or no writer, a turn is shorter than a burst, or `alternate_bytes` is not a power
        of two from a burst upwards.
    """

    def __init__(
        self,
        shape: PortShape,
        *,
        readers: int,
        writers: int,
        turn_bytes: int,
        alternate_bytes: int | None = None,
        read_overlap: int | None = None,
        write_overlap: int | None = None,
    ):
        if readers < 1 or writers < 1:
            raise ParameterError(f"a port needs a reader and a writer at least, not {readers!r} and {writers!r}")
        if turn_bytes < shape.burst_bytes:
            raise ParameterError(f"turn_bytes must be at least burst_bytes ({shape.burst_bytes}), not {turn_bytes!r}")
        if alternate_bytes is not None and (
            alternate_bytes & (alternate_bytes - 1)
            or not shape.burst_bytes <= alternate_bytes < 1 << shape.address_width
        ):
            raise ParameterError(
                f"alternate_bytes must be a power of two, at least burst_bytes ({shape.burst_bytes}), "
                f"not {alternate_bytes!r}"
            )
        self._shape = shape
        self._alternate_bytes = alternate_bytes
        self._turn_beats = turn_bytes // shape.beat_bytes
        self._read_overlap = shape.burst_beats - 1 if read_overlap is None else read_overlap
        self._write_overlap = shape.burst_beats // 4 if write_overlap is None else write_overlap
        widths = shape.address_width, shape.data_width, shape.id_width
        super().__init__(
            {
                "readers": In(Axi4Signature(*widths, write=False)).array(readers),
                "writers": In(Axi4Signature(*widths, read=False)).array(writers),
                "axi": Out(Axi4Signature(*widths)),
                "halt": In(1),
                "quiet": Out(1),
                "progress": Out(1),
                "turned": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        writing = Signal()
        readers, writers = list(self.readers), list(self.writers)
        asks_read = Signal(len(readers))
        asks_write = Signal(len(writers))
        m.d.comb += [asks_read[n].eq(reader.arvalid) for n, reader in enumerate(readers)]
        m.d.comb += [asks_write[n].eq(writer.awvalid) for n, writer in enumerate(writers)]

        # Turns. A turn goes on while beats of it are on the way, even if no more are requested at the moment. Beats are
        # counted a few cycles behind: no turn ends before the last address counts and its reader or writer can have
        # asked again.
        budget = Signal(signed((self._turn_beats + shape.burst_beats).bit_length() + 1), init=self._turn_beats - 1)
        open_turn = ~budget[-1]
        on_the_way = shape.outstanding * shape.burst_beats
        read_beats = Signal(range(on_the_way + 1))
        write_beats = Signal(range(on_the_way + 1))
        nearly_read, nearly_written = Signal(), Signal()
        settling = Signal(range(_SETTLES + 1))
        switch = Signal()
        renew = Signal()
        take_read, take_write = Signal(), Signal()
        sent_read, sent_write = Signal(), Signal()  # in the cycle before
        some_read, some_write = Signal(), Signal()
        asks_same = Mux(writing, some_write, some_read)
        asks_other = Mux(writing, some_read, some_write)
        nearly_over = Mux(writing, nearly_written, nearly_read) & (settling == 0)
        m.d.comb += [
            switch.eq(nearly_over & asks_other & ~(open_turn & asks_same)),
            renew.eq(~asks_other & ~open_turn),
        ]
        m.d.sync += [
            sent_read.eq(take_read),
            sent_write.eq(take_write),
            nearly_read.eq(~(self._read_overlap < read_beats)),
            nearly_written.eq(~(self._write_overlap < write_beats)),
        ]
        with m.If(take_read | take_write):
            m.d.sync += settling.eq(_SETTLES)
        with m.Elif(settling != 0):
            m.d.sync += settling.eq(settling - 1)
        with m.If(switch):
            m.d.sync += writing.eq(~writing)
        with m.If(switch | renew):
            m.d.sync += budget.eq(self._turn_beats - 1)
        with m.Elif(sent_read | sent_write):
            less = Mux(sent_write, ~self.axi.awlen, ~self.axi.arlen)  # less the beats: -n - 1 is ~n
            m.d.sync += budget.eq(budget + Cat(less, 1).as_signed())

        # On which side of `alternate_bytes` the last burst of either direction lay.
        last_side = Signal()

        # Read addresses: one register, filled from one reader after the other.
        read_index = unsigned(max(1, (len(readers) - 1).bit_length()))
        m.submodules.read_order = read_order = QuickFifo(width=read_index.width, depth=shape.outstanding)
        read_choice = Signal(read_index)
        chosen_reader = Array(readers)[read_choice]
        self._choose(
            m, asks_read, [reader.araddr for reader in readers], take_read, sent_read, last_side, read_choice, some_read
        )
        m.d.comb += take_read.eq(~self.halt & ~writing & open_turn & some_read & read_order.w_rdy & ~self.axi.arvalid)
        with m.If(self.axi.arready):
            m.d.sync += self.axi.arvalid.eq(0)
        with m.If(take_read):
            m.d.sync += self.axi.arvalid.eq(1)
            for name in ("arid", "araddr", "arlen", "arsize", "arburst"):
                m.d.sync += getattr(self.axi, name).eq(getattr(chosen_reader, name))
            m.d.comb += [chosen_reader.arready.eq(1), read_order.w_en.eq(1)]
        m.d.comb += read_order.w_data.eq(read_choice)

        # Read data go to whoever asked first.
        beat_read = self.axi.rvalid & self.axi.rready
        m.d.comb += [
            self.axi.rready.eq((Array(readers)[read_order.r_data].rready | self.halt) & read_order.r_rdy),
            read_order.r_en.eq(beat_read & self.axi.rlast),
        ]
        for n, reader in enumerate(readers):
            m.d.comb += [
                reader.rvalid.eq(self.axi.rvalid & read_order.r_rdy & (read_order.r_data == n)),
                reader.rid.eq(self.axi.rid),
                reader.rdata.eq(self.axi.rdata),
                reader.rresp.eq(self.axi.rresp),
                reader.rlast.eq(self.axi.rlast),
            ]
        read_before = Signal()
        m.d.sync += [
            read_before.eq(beat_read),
            read_beats.eq(read_beats + Mux(sent_read, self.axi.arlen + 1, 0) - read_before),
        ]

        # Write addresses.
        write_index = unsigned(max(1, (len(writers) - 1).bit_length()))
        m.submodules.write_order = write_order = QuickFifo(width=write_index.width, depth=shape.outstanding)
        m.submodules.answer_order = answer_order = QuickFifo(width=write_index.width, depth=shape.outstanding)
        write_choice = Signal(write_index)
        chosen_writer = Array(writers)[write_choice]
        self._choose(
            m,
            asks_write,
            [writer.awaddr for writer in writers],
            take_write,
            sent_write,
            last_side,
            write_choice,
            some_write,
        )
        m.d.comb += take_write.eq(
            ~self.halt & writing & open_turn & some_write & write_order.w_rdy & answer_order.w_rdy & ~self.axi.awvalid
        )
        with m.If(self.axi.awready):
            m.d.sync += self.axi.awvalid.eq(0)
        with m.If(take_write):
            m.d.sync += self.axi.awvalid.eq(1)
            for name in ("awid", "awaddr", "awlen", "awsize", "awburst"):
                m.d.sync += getattr(self.axi, name).eq(getattr(chosen_writer, name))
            m.d.comb += [chosen_writer.awready.eq(1), write_order.w_en.eq(1), answer_order.w_en.eq(1)]
        m.d.comb += [write_order.w_data.eq(write_choice), answer_order.w_data.eq(write_choice)]

        # Write data come from the writers in the order of their addresses, and answers go back in it.
        data_writer = Array(writers)[write_order.r_data]
        beat_written = self.axi.wvalid & self.axi.wready
        m.d.comb += [
            self.axi.wvalid.eq(data_writer.wvalid & write_order.r_rdy),
            self.axi.wdata.eq(data_writer.wdata),
            self.axi.wstrb.eq(data_writer.wstrb),
            self.axi.wlast.eq(data_writer.wlast),
            write_order.r_en.eq(beat_written & self.axi.wlast),
            self.axi.bready.eq((Array(writers)[answer_order.r_data].bready | self.halt) & answer_order.r_rdy),
            answer_order.r_en.eq(self.axi.bvalid & self.axi.bready),
        ]
        for n, writer in enumerate(writers):
            m.d.comb += [
                writer.wready.eq(self.axi.wready & write_order.r_rdy & (write_order.r_data == n)),
                writer.bvalid.eq(self.axi.bvalid & answer_order.r_rdy & (answer_order.r_data == n)),
                writer.bid.eq(self.axi.bid),
                writer.bresp.eq(self.axi.bresp),
            ]
        written_before = Signal()
        m.d.sync += [
            written_before.eq(beat_written),
            write_beats.eq(write_beats + Mux(sent_write, self.axi.awlen + 1, 0) - written_before),
        ]
        m.d.comb += [
            self.turned.eq(switch),
            self.progress.eq(
                (self.axi.arvalid & self.axi.arready)
                | (self.axi.awvalid & self.axi.awready)
                | beat_read
                | beat_written
                | (self.axi.bvalid & self.axi.bready)
            ),
            # Who reads or writes is kept until the last beat, who waits for an acknowledgement until that.
            self.quiet.eq(
                ~self.axi.arvalid & ~self.axi.awvalid & ~read_order.r_rdy & ~write_order.r_rdy & ~answer_order.r_rdy
            ),
        ]
        return m

    def _choose(self, m, asks, addresses, taken, sent, last_side, choice, some):
        """Sets the registers `choice`, to who is served next, and `some`, to whether anybody is.

        They are of the cycle before. Nobody is chosen in the two cycles after an address was taken: by then whoever was
        served asks again, and its next burst may be the one on the other side.
        """
        last = Signal(choice.shape())
        plain = Signal(choice.shape())
        self._rotate(m, asks, last, plain)
        m.d.sync += some.eq((asks != 0) & ~taken & ~sent)
        if self._alternate_bytes is None:
            m.d.sync += choice.eq(plain)
            with m.If(taken):
                m.d.sync += last.eq(choice)
            return
        # The one whose turn it is keeps it. Usually it is passed over once at most, as the burst that passes it
        # makes its side preferred; but bursts of the other direction, and others that ask again, may come between.
        patience = Signal(range(_PATIENCE + 1), init=_PATIENCE)
        preferred = Signal(choice.shape())
        sides = Cat(address[exact_log2(self._alternate_bytes)] for address in addresses)
        others = Signal(len(asks))
        passes, passed, side = Signal(), Signal(), Signal()
        self._rotate(m, others, last, preferred)
        following = Mux(passes, preferred, plain)
        m.d.comb += [
            others.eq(asks & Mux(last_side, ~sides, sides)),
            passes.eq((others != 0) & (patience != 0)),
        ]
        m.d.sync += [
            choice.eq(following),
            side.eq(sides.bit_select(following, 1)),
            passed.eq(passes & (preferred != plain)),
        ]
        with m.If(taken):
            m.d.sync += [last_side.eq(side), patience.eq(patience - 1)]
            with m.If(~passed):
                m.d.sync += [last.eq(choice), patience.eq(_PATIENCE)]

    @staticmethod
    def _rotate(m, asks, last, choice):
        """Sets `choice` to the first that asks after `last`."""
        count = len(asks)
        m.d.comb += choice.eq(last)
        with m.Switch(last):
            for current in range(count):
                with m.Case(current):
                    # The nearest successor is assigned last and so wins.
                    for distance in reversed(range(1, count + 1)):
                        candidate = (current + distance) % count
                        with m.If(asks[candidate]):
                            m.d.comb += choice.eq(candidate)
