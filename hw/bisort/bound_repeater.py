"""Gives the bounds of a few probes again for each run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.registers import RUN_PLACES
from muntin.hw.bisort.layouts import bound_layout, run_layout
from muntin.hw.memory.quick_fifo import QuickFifo


class BoundRepeater(wiring.Component):
    """Keeps batches of bounds on chip, and gives each once for every run that is probed.

    So the keys of the probes are read from memory once, however many runs there are. While one batch is given, the
    next one comes in.

    Parameters
    ----------
    key_bits : int
    bound_rows : int
        Bounds of a batch at most, a power of two.

    Attributes
    ----------
    runs : In(64)
        Bit n: the run at place n is probed. At least one; is stable while batches pass.
    i : In(stream of bound_layout)
    o : Out(stream of bound_layout)
        The same batches, each once for every run, in the order of the places.
    run : Out(run_layout)
        The run that `o` is for, while it is valid.

    Timing
    ------
    A bound a cycle on either side, but every other cycle where batches have a single one. The first of a batch comes
    four cycles after its last one has gone in, or five where the batch before ends then, and no cycle lies between one
    run and the next. `o` and `run` are registers.

    Source
    ------
    Ours.
    """

    def __init__(self, *, key_bits: int, bound_rows: int):
        self._bound_rows = bound_rows
        bound = stream.Signature(bound_layout(key_bits))
        super().__init__({"runs": In(RUN_PLACES), "i": In(bound), "o": Out(bound), "run": Out(run_layout())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._bound_rows
        store = memory.Memory(shape=self.i.p.shape().size, depth=2 * rows, init=[])
        m.submodules.store = store
        writer, reader = store.write_port(), store.read_port()

        # Two halves, each filled and then given.
        full = Signal(2)
        final = Signal(data.ArrayLayout(range(rows), 2))  # the last bound in each
        half_in, place_in = Signal(), Signal(range(rows))
        take = Signal()
        m.d.comb += [
            self.i.ready.eq(~full.bit_select(half_in, 1)),
            take.eq(self.i.valid & self.i.ready),
            writer.en.eq(take),
            writer.addr.eq(Cat(place_in, half_in)),
            writer.data.eq(self.i.payload.as_value()),
        ]
        with m.If(take):
            m.d.sync += place_in.eq(place_in + 1)
            with m.If(self.i.p.last):
                m.d.sync += [
                    place_in.eq(0),
                    half_in.eq(~half_in),
                    full.bit_select(half_in, 1).eq(1),
                    final[half_in].eq(place_in),
                ]

        half, place = Signal(), Signal(range(rows))
        known = Signal()  # which run the batch at hand goes to
        run, after = Signal(self.run.shape(), init={"last": 1}), Signal(RUN_PLACES)  # and which come after it
        found = Signal()  # which is the next one, a cycle later
        next_run, next_after = Signal(self.run.shape()), Signal(RUN_PLACES)
        left, rest, lowest = Signal(RUN_PLACES), Signal(RUN_PLACES), Signal(RUN_PLACES)
        given, given_run = Signal(), Signal(self.run.shape())  # what the memory gives
        give, ends = Signal(), Signal()
        out = data.StructLayout({"bound": self.o.p.shape(), "run": self.run.shape()})
        m.submodules.outs = outs = QuickFifo(width=out.size, depth=2)
        first = data.View(out, outs.r_data)
        m.d.comb += [
            left.eq(Mux(run.last | ~known, self.runs, after)),
            ends.eq(place == final[half]),
            give.eq(full.bit_select(half, 1) & known & (found | ~ends) & (~given | outs.w_rdy)),
            reader.en.eq(give),
            reader.addr.eq(Cat(place, half)),
            outs.w_data.eq(Cat(reader.data, given_run)),
            outs.w_en.eq(given),
            self.o.payload.eq(first.bound),
            self.run.eq(first.run),
            self.o.valid.eq(outs.r_rdy),
            outs.r_en.eq(self.o.ready),
        ]
        m.d.comb += [rest.eq(left & (left - 1)), lowest.eq(left & ~rest)]
        m.d.sync += [found.eq(1), next_run.last.eq(rest == 0), next_after.eq(rest)]
        for at, bit in enumerate(next_run.place):
            m.d.sync += bit.eq(Cat(lowest[number] for number in range(RUN_PLACES) if number >> at & 1).any())
        with m.If(outs.w_rdy):
            m.d.sync += given.eq(0)
        with m.If(give):
            m.d.sync += [given.eq(1), given_run.eq(run), place.eq(Mux(ends, 0, place + 1))]
        with m.If(give & ends & run.last):
            m.d.sync += [half.eq(~half), full.bit_select(half, 1).eq(0), known.eq(full.bit_select(~half, 1))]
        with m.If(Mux(known, give & ends, found & full.bit_select(half, 1))):
            m.d.sync += [run.eq(next_run), after.eq(next_after), found.eq(0)]
        with m.If(~known):
            m.d.sync += known.eq(found & full.bit_select(half, 1))
        return m
