"""Brings the two ends of each range together."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS
from muntin.hw.bisort.layouts import item_beat, position_layout


class RangeFinder(wiring.Component):
    """Makes ranges of the positions of a batch's bounds, and leaves out those that are empty.

    Parameters
    ----------
    probe_rows : int
        Probes of a batch at most, a power of two.

    Attributes
    ----------
    probes : In(32)
        Of all batches; is stable while they pass.
    i : In(stream of position_layout)
        Of the bounds of some probes in one run, as many lower as upper ones, each kind in the order of the probes; a
        lower bound that comes after the upper one of its probe makes no range. Then of the same probes in the next
        run; after the last run of the next probes.
    first : Out(32)
        The first of the probes whose positions come; 0 after the last one of a batch.
    o : Out(stream of item_beat of four words)
        A range: the number of the probe, the place of the run, start and stop. `last` is set once, after the last
        probe has been looked for in the last run, and that one, of this probe, keeps nothing where its range is empty.

    Timing
    ------
    Two cycles; a position a cycle.

    Source
    ------
    Ours; in PanJoin empty ranges go to the manager node as well.
    """

    def __init__(self, *, probe_rows: int):
        self._probe_rows = probe_rows
        super().__init__(
            {
                "probes": In(ROW_BITS),
                "i": In(stream.Signature(position_layout(ROW_BITS))),
                "first": Out(ROW_BITS),
                "o": Out(stream.Signature(item_beat(ROW_BITS, 4))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._probe_rows
        starts = memory.Memory(shape=ROW_BITS, depth=max(rows, 2), init=[])
        m.submodules.starts = starts
        writer, reader = starts.write_port(), starts.read_port()

        first = self.first
        lower, upper = Signal(range(rows + 1)), Signal(range(rows + 1))  # bounds of each kind that have come
        probe, last, open_ = Signal(ROW_BITS), Signal(), Signal()
        valid = Signal()
        place, stop = Signal.like(self.i.p.run.place), Signal(ROW_BITS)
        enable, take, after = Signal(), Signal(), Signal(ROW_BITS)
        found = Signal()
        m.d.comb += [
            enable.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(enable),
            take.eq(self.i.valid & enable),
            after.eq(first + upper + self.i.p.upper),
            writer.en.eq(take & ~self.i.p.upper),
            writer.addr.eq(lower),
            writer.data.eq(self.i.p.position),
            reader.en.eq(enable),
            reader.addr.eq(upper),
            found.eq(open_ & (reader.data < stop)),
        ]
        with m.If(take):
            m.d.sync += [lower.eq(lower + ~self.i.p.upper), upper.eq(upper + self.i.p.upper)]
            with m.If(self.i.p.last):
                m.d.sync += [lower.eq(0), upper.eq(0)]
                with m.If(self.i.p.run.last):
                    m.d.sync += first.eq(Mux(after == self.probes, 0, after))
        with m.If(enable):
            m.d.sync += [
                valid.eq(self.i.valid),
                probe.eq((first + upper) - ~self.i.p.upper),
                place.eq(self.i.p.run.place),
                stop.eq(self.i.p.position),
                open_.eq(self.i.p.upper & (upper < lower)),
                last.eq(self.i.p.last & self.i.p.run.last & (after == self.probes)),
                self.o.valid.eq(valid & (found | last)),
                self.o.p.keep.eq(found.replicate(4)),
                self.o.p.last.eq(last),
            ]
            m.d.sync += [
                item.eq(word) for item, word in zip(self.o.p.items, (probe, place, reader.data, stop), strict=True)
            ]
        return m
