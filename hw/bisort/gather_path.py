"""The way of a batch of ranges to its pairs or counts."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.contract.registers import RUN_PLACES
from muntin.hw.bisort.count_adder import CountAdder
from muntin.hw.bisort.gather import Gather
from muntin.hw.bisort.layouts import item_beat, range_layout
from muntin.hw.bisort.streams import beats_of, items_of, resized, written
from muntin.hw.memory.layouts import BeatLayout


class GatherPath(wiring.Component):
    """From ranges to pairs or counts.

    The ranges of one run come as arrays of starts, stops and window limits, or those of several runs from the range
    finder. Where the row numbers of the latter lie stands in a table, by the places of the runs.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    counting, limited, probed : In(1)
    ranges, run_rows : In(32)
    address : In(64)
        Of the command: whether ranges come from the range finder, how many ranges, or then probes, there are, how many
        rows the run has, and where its row numbers are; they are stable while a batch passes.
    loaded : In(1)
    place : In(range(64))
    numbers : In(64)
        The run at a place is another one now: where its row numbers are.
    found : In(stream of range_layout)
        Of the range finder, with limits.
    starts, stops, limits : In(stream of BeatLayout)
        Positions, and, where `limited` is set, first row and span of each range, unless `probed`.
    request : Out(stream of {address, beat, count})
        Beats of row numbers to read: the address of the run's, the number of the first beat there, and how many.
    rows : In(stream of BeatLayout)
        These beats.
    pairs : Out(stream of BeatLayout)
        Unless `counting`; `last` with the last pair, or without any where there is none.
    counts : Out(stream of data_bits)
        If `counting`; of each range, or if `probed` of each probe.
    bad_range : Out(1)
        A range of the arrays ends before it starts or beyond the run. From then on nothing moves until a reset.

    Timing
    ------
    A range, a beat of row numbers, or a beat of pairs a cycle; of counts of probes, one a cycle while no range is
    taken.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = p = parameters
        beat = stream.Signature(BeatLayout(p.data_bits))
        request = data.StructLayout({"address": 64, "beat": ROW_BITS, "count": ROW_BITS})
        super().__init__(
            {
                "counting": In(1),
                "limited": In(1),
                "probed": In(1),
                "ranges": In(32),
                "run_rows": In(32),
                "address": In(64),
                "loaded": In(1),
                "place": In(range(RUN_PLACES)),
                "numbers": In(64),
                "found": In(stream.Signature(range_layout())),
                "starts": In(beat),
                "stops": In(beat),
                "limits": In(beat),
                "request": Out(stream.Signature(request)),
                "rows": In(beat),
                "pairs": Out(beat),
                "counts": Out(stream.Signature(p.data_bits)),
                "bad_range": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        width = p.rows_per_beat
        m.submodules.gather = gather = Gather(width=width, range_rows=p.bound_rows)
        m.d.comb += [gather.counting.eq(self.counting), gather.limited.eq(self.limited)]

        # Ranges.
        starts = resized(m, items_of(m, "starts_items", self.starts, ROW_BITS), 1)
        stops = resized(m, items_of(m, "stops_items", self.stops, ROW_BITS), 1)
        limits = resized(m, items_of(m, "limits_items", self.limits, ROW_BITS), 2)
        number = Signal(ROW_BITS)
        there, good, take = Signal(), Signal(), Signal()
        start, stop = starts.p.items[0], stops.p.items[0]
        m.d.comb += [
            there.eq(starts.valid & stops.valid & (limits.valid | ~self.limited)),
            good.eq(~(stop < start) & ~(self.run_rows < stop)),
            take.eq(there & good & ~self.bad_range & gather.i.ready),
            starts.ready.eq(take),
            stops.ready.eq(take),
            limits.ready.eq(take & self.limited),
        ]
        with m.If(self.probed):
            m.d.comb += [
                gather.i.valid.eq(self.found.valid),
                gather.i.payload.eq(self.found.payload),
                self.found.ready.eq(gather.i.ready),
            ]
        with m.Else():
            m.d.comb += [
                gather.i.valid.eq(there & good & ~self.bad_range),
                gather.i.p.probe.eq(number),
                gather.i.p.start.eq(start),
                gather.i.p.stop.eq(stop),
                gather.i.p.first.eq(limits.p.items[0]),
                gather.i.p.span.eq(limits.p.items[1]),
                gather.i.p.last.eq(number == self.ranges - 1),
            ]
        with m.If(there & ~good):
            m.d.sync += self.bad_range.eq(1)
        with m.If(take):
            m.d.sync += number.eq(number + 1)
            with m.If(number == self.ranges - 1):
                m.d.sync += number.eq(0)

        # Row numbers.
        m.submodules.table = table = memory.Memory(shape=64, depth=RUN_PLACES, init=[])
        writer, reader = table.write_port(), table.read_port()
        m.d.comb += [
            writer.en.eq(self.loaded),
            writer.addr.eq(self.place),
            writer.data.eq(self.numbers),
            gather.request.ready.eq(~self.request.valid | self.request.ready),
            reader.en.eq(gather.request.ready),
            reader.addr.eq(gather.request.p.place),
            self.request.p.address.eq(Mux(self.probed, reader.data, self.address)),
        ]
        with m.If(gather.request.ready):
            m.d.sync += [
                self.request.valid.eq(gather.request.valid),
                self.request.p.beat.eq(gather.request.p.beat),
                self.request.p.count.eq(gather.request.p.count),
            ]
        m.d.comb += [
            gather.rows.valid.eq(self.rows.valid),
            gather.rows.payload.as_value().eq(self.rows.p.data),
            self.rows.ready.eq(gather.rows.ready),
        ]

        # Pairs, each two items.
        pairs = stream.Signature(item_beat(ROW_BITS, 2 * width)).create(path=("pair_items",))
        m.d.comb += [
            pairs.valid.eq(gather.o.valid),
            gather.o.ready.eq(pairs.ready),
            pairs.p.items.as_value().eq(gather.o.p.pairs.as_value()),
            pairs.p.keep.eq(Cat(keep.replicate(2) for keep in gather.o.p.keep)),
            pairs.p.last.eq(gather.o.p.last),
        ]
        written(m, resized(m, pairs, width), self.pairs)

        # Counts, a probe's of all runs added up.
        m.submodules.adder = adder = CountAdder(probe_rows=p.probe_rows)
        counts = stream.Signature(item_beat(ROW_BITS, 1)).create(path=("count_items",))
        m.d.comb += [adder.probes.eq(self.ranges), adder.i.payload.eq(gather.counts.payload)]
        with m.If(self.probed):
            m.d.comb += [
                adder.i.valid.eq(gather.counts.valid),
                gather.counts.ready.eq(adder.i.ready),
                counts.valid.eq(adder.o.valid),
                counts.payload.eq(adder.o.payload),
                adder.o.ready.eq(counts.ready),
            ]
        with m.Else():
            m.d.comb += [
                counts.valid.eq(gather.counts.valid),
                gather.counts.ready.eq(counts.ready),
                counts.p.items[0].eq(gather.counts.p.count),
                counts.p.keep.eq(1),
                counts.p.last.eq(gather.counts.p.last),
            ]
        beats_of(m, resized(m, counts, width), self.counts)
        return m
