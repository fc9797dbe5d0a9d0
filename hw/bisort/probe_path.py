"""The way of a batch of probes through a run."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.hw.bisort.bound_merger import BoundMerger
from muntin.hw.bisort.boundary_generator import BoundaryGenerator
from muntin.hw.bisort.layouts import bound_layout, item_beat, position_layout
from muntin.hw.bisort.partitioner import Partitioner
from muntin.hw.bisort.prober import Prober
from muntin.hw.bisort.streams import beats_of, items_of, resized
from muntin.hw.memory.layouts import BeatLayout


class ProbePath(wiring.Component):
    """From the keys that make a batch's bounds to the positions where its ranges start and stop.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    signed, reuse, buffered : In(1)
    index_base : In(range(index_rows))
    index_entries : In(range(index_rows + 1))
        Where on chip the index stands or is put, and how long it is.
    low_offset, high_offset : In(signed(key_bits + 2))
        Of the command; they stand still while a batch passes.
    index, lower, upper : In(stream of BeatLayout)
        The run's index, unless `reuse` or `buffered`; the keys that make the lower and the upper bounds.
    request : Out(stream of range(index_rows))
        Partitions to read.
    keys : In(stream of BeatLayout)
        These partitions, each ending with `last`.
    bound : Out(stream of bound_layout)
    position : In(stream of position_layout)
        Where `buffered` is set, to and from the insertion buffer.
    starts, stops : Out(stream of data_bits)
        Positions of 32 bits, in beats of the memory.
    overflow : Out(1)
        The index is longer than there is room for.

    Timing
    ------
    As slow as the slowest of partitioner and prober; two bounds, hence two cycles, a probe.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = p = parameters
        beat = stream.Signature(BeatLayout(p.data_bits))
        word = stream.Signature(p.data_bits)
        super().__init__(
            {
                "signed": In(1),
                "reuse": In(1),
                "buffered": In(1),
                "index_base": In(range(p.index_rows)),
                "index_entries": In(range(p.index_rows + 1)),
                "low_offset": In(signed(p.key_bits + 2)),
                "high_offset": In(signed(p.key_bits + 2)),
                "index": In(beat),
                "lower": In(beat),
                "upper": In(beat),
                "request": Out(stream.Signature(range(p.index_rows))),
                "keys": In(beat),
                "bound": Out(stream.Signature(bound_layout(p.key_bits))),
                "position": In(stream.Signature(position_layout(ROW_BITS))),
                "starts": Out(word),
                "stops": Out(word),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        m.submodules.bounds = bounds = BoundMerger(key_bits=p.key_bits)
        m.submodules.partitioner = partitioner = Partitioner(
            key_bits=p.key_bits, index_rows=p.index_rows, index_width=p.index_width
        )
        m.submodules.prober = prober = Prober(
            key_bits=p.key_bits,
            width=p.keys_per_beat,
            partition_log2=p.partition_log2,
            index_rows=p.index_rows,
            bound_rows=p.bound_rows,
        )
        for source, offset, upper, sink in (
            (self.lower, self.low_offset, 0, bounds.lower),
            (self.upper, self.high_offset, 1, bounds.upper),
        ):
            name = "upper" if upper else "lower"
            generator = BoundaryGenerator(key_bits=p.key_bits)
            m.submodules[f"{name}_generator"] = generator
            keys = resized(m, items_of(m, f"{name}_items", source, p.key_bits, flip=self.signed), 1)
            m.d.comb += [
                generator.i.valid.eq(keys.valid),
                generator.i.p.key.eq(keys.p.items[0]),
                generator.i.p.last.eq(keys.p.last),
                keys.ready.eq(generator.i.ready),
                generator.offset.eq(offset),
                generator.upper.eq(upper),
            ]
            wiring.connect(m, generator.o, sink)

        index = resized(m, items_of(m, "index_items", self.index, p.key_bits, flip=self.signed), 1)
        m.d.comb += [
            partitioner.index.valid.eq(index.valid),
            partitioner.index.p.keys[0].eq(index.p.items[0]),
            partitioner.index.p.keep.eq(index.p.keep),
            partitioner.index.p.last.eq(index.p.last),
            index.ready.eq(partitioner.index.ready),
            partitioner.reuse.eq(self.reuse),
            partitioner.base.eq(self.index_base),
            partitioner.entries.eq(self.index_entries),
            self.overflow.eq(partitioner.overflow),
            partitioner.i.payload.eq(bounds.o.payload),
            self.bound.payload.eq(bounds.o.payload),
        ]
        with m.If(self.buffered):
            m.d.comb += [self.bound.valid.eq(bounds.o.valid), bounds.o.ready.eq(self.bound.ready)]
        with m.Else():
            m.d.comb += [partitioner.i.valid.eq(bounds.o.valid), bounds.o.ready.eq(partitioner.i.ready)]
        wiring.connect(m, partitioner.o, prober.i)
        wiring.connect(m, prober.request, wiring.flipped(self.request))

        keys = items_of(m, "partition_items", self.keys, p.key_bits, flip=self.signed)
        m.d.comb += [
            prober.keys.valid.eq(keys.valid),
            prober.keys.p.keys.eq(keys.p.items),
            prober.keys.p.keep.eq(keys.p.keep),
            prober.keys.p.last.eq(keys.p.last),
            keys.ready.eq(prober.keys.ready),
        ]

        # The positions of both kinds of bounds go their own ways. Each of both ends with the batch: the one whose
        # last position comes first does not know it then, so it ends with an item that is not kept.
        found = stream.Signature(position_layout(ROW_BITS)).create(path=("found",))
        m.d.comb += [found.valid.eq(Mux(self.buffered, self.position.valid, prober.o.valid))]
        for name in ("position", "upper", "last"):
            m.d.comb += found.p[name].eq(Mux(self.buffered, self.position.p[name], prober.o.p[name]))
        with m.If(self.buffered):
            m.d.comb += self.position.ready.eq(found.ready)
        with m.Else():
            m.d.comb += prober.o.ready.eq(found.ready)
        ends = Signal(2)  # of lower, upper: still to be ended
        ways = []
        for upper, sink in ((0, self.starts), (1, self.stops)):
            way = stream.Signature(item_beat(ROW_BITS, 1)).create(path=(f"positions_{upper}",))
            here = Signal(name=f"here_{upper}")
            m.d.comb += [
                here.eq(found.valid & (found.p.upper == upper) & ~ends.any()),
                way.valid.eq(here | ends[upper]),
                way.p.items[0].eq(found.p.position),
                way.p.keep.eq(~ends[upper]),
                way.p.last.eq(Mux(ends[upper], 1, found.p.last)),
            ]
            with m.If(ends[upper] & way.ready):
                m.d.sync += ends[upper].eq(0)
            with m.If(here):
                m.d.comb += found.ready.eq(way.ready)
            with m.If(here & way.ready & found.p.last):
                m.d.sync += ends[1 - upper].eq(1)
            ways.append((way, sink))
        for way, sink in ways:
            whole = resized(m, way, p.rows_per_beat)
            beats_of(m, whole, sink)
            with m.If(~whole.p.keep[0]):  # only the end
                m.d.comb += [sink.valid.eq(0), whole.ready.eq(1)]
        return m
