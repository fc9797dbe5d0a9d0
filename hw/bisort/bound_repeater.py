"""Gives the bounds of a few probes again for each run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.registers import RUN_PLACES
from muntin.hw.bisort.layouts import bound_layout, run_layout


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
    A bound a cycle on either side. The first of a batch comes two cycles after its last one has gone in, and no cycle
    lies between one run and the next.

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
        begun = Signal()  # some runs have had the batch, and these have not
        waiting, left, after = Signal(RUN_PLACES), Signal(RUN_PLACES), Signal(RUN_PLACES)
        give = Signal()
        m.d.comb += [
            left.eq(Mux(begun, waiting, self.runs)),
            after.eq(left & (left - 1)),
            give.eq(full.bit_select(half, 1) & (~self.o.valid | self.o.ready)),
            reader.en.eq(give),
            reader.addr.eq(Cat(place, half)),
            self.o.payload.as_value().eq(reader.data),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(give):
            m.d.sync += [self.o.valid.eq(1), self.run.last.eq(after == 0), place.eq(place + 1)]
            for number in reversed(range(RUN_PLACES)):
                with m.If(left[number]):
                    m.d.sync += self.run.place.eq(number)
            with m.If(place == final[half]):
                m.d.sync += [place.eq(0), begun.eq(after != 0), waiting.eq(after)]
                with m.If(after == 0):
                    m.d.sync += [half.eq(~half), full.bit_select(half, 1).eq(0)]
        return m
