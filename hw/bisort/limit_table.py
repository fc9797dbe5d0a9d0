"""Keeps window limits on chip, and gives each range those of its probe."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS
from muntin.hw.bisort.layouts import item_beat, range_layout


class LimitTable(wiring.Component):
    """Takes the limits of a batch's probes in order, and gives a range those of its probe, run after run.

    There is room for those of the probes that go through the runs together, of those before, whose last ranges may be
    on their way, and of the next ones, whose bounds come in behind their limits.

    Parameters
    ----------
    probe_rows : int
        Probes that go through the runs together, a power of two.

    Attributes
    ----------
    limited : In(1)
        1 where there are limits; else none come. Is stable while a batch passes.
    first : In(32)
        As of the `RangeFinder` whose ranges come; 0 while none do.
    limits : In(stream of item_beat of two words)
        First row and span for each probe.
    i : In(stream of item_beat of four words)
        Ranges of a range finder.
    o : Out(stream of range_layout)
        The same; where the last one keeps nothing, an empty range.

    Timing
    ------
    One cycle; a range and the limits of a probe a cycle. A range waits until its limits have come.

    Source
    ------
    Ours.
    """

    def __init__(self, *, probe_rows: int):
        self._probe_rows = probe_rows
        super().__init__(
            {
                "limited": In(1),
                "first": In(ROW_BITS),
                "limits": In(stream.Signature(item_beat(ROW_BITS, 2))),
                "i": In(stream.Signature(item_beat(ROW_BITS, 4))),
                "o": Out(stream.Signature(range_layout())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._probe_rows
        store = memory.Memory(shape=2 * ROW_BITS, depth=4 * rows, init=[])
        m.submodules.store = store
        writer, reader = store.write_port(), store.read_port()
        loaded = Signal(ROW_BITS)  # limits that have come
        # The first probe of those that pass: the range finder starts over while the last ranges are on their way.
        reached = Signal(ROW_BITS)
        enable, there, take, put = Signal(), Signal(), Signal(), Signal()
        probe, place, start, stop = self.i.p.items
        m.d.comb += [
            enable.eq(~self.o.valid | self.o.ready),
            there.eq(~self.limited | (probe < loaded)),
            self.i.ready.eq(enable & there),
            take.eq(self.i.valid & self.i.ready),
            self.limits.ready.eq(loaded < reached + 3 * rows),
            put.eq(self.limits.valid & self.limits.ready),
            writer.en.eq(put),
            writer.addr.eq(loaded),
            writer.data.eq(self.limits.p.items.as_value()),
            reader.en.eq(enable),
            reader.addr.eq(probe),
            self.o.p.first.eq(reader.data[:ROW_BITS]),
            self.o.p.span.eq(reader.data[ROW_BITS:]),
        ]
        with m.If(put):
            m.d.sync += loaded.eq(loaded + 1)
        with m.If(reached < self.first):
            m.d.sync += reached.eq(self.first)
        with m.If(enable):
            m.d.sync += [
                self.o.valid.eq(take),
                self.o.p.probe.eq(probe),
                self.o.p.place.eq(place),
                self.o.p.start.eq(Mux(self.i.p.keep[0], start, 0)),
                self.o.p.stop.eq(Mux(self.i.p.keep[0], stop, 0)),
                self.o.p.last.eq(self.i.p.last),
            ]
        with m.If(take & self.i.p.last):
            m.d.sync += [loaded.eq(0), reached.eq(0)]
        return m
