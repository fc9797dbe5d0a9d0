"""The way of a batch of probes through runs."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, PureInterface

from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.contract.registers import RUN_PLACES
from muntin.hw.bisort.bound_merger import BoundMerger
from muntin.hw.bisort.bound_repeater import BoundRepeater
from muntin.hw.bisort.boundary_generator import BoundaryGenerator
from muntin.hw.bisort.layouts import bound_layout, position_layout, range_layout
from muntin.hw.bisort.limit_table import LimitTable
from muntin.hw.bisort.partitioner import Partitioner
from muntin.hw.bisort.prober import Prober
from muntin.hw.bisort.range_finder import RangeFinder
from muntin.hw.bisort.streams import items_of, resized, written
from muntin.hw.memory.layouts import BeatLayout


class ProbePath(wiring.Component):
    """From the keys that make a batch's bounds to its ranges in some runs.

    The runs whose indexes are on chip stand in a table, by their places. The bounds of a few probes go through all the
    runs before those of the next ones.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    signed, buffered, limited, gathered : In(1)
        `gathered`: ranges go on to the gather; `limited`: with window limits.
    place : In(range(64))
    address : In(64)
    rows : In(32)
    index_base : In(range(index_rows))
        Of the run whose index is loaded: its place, its keys, how many there are, and where the index is put.
    runs : In(64)
        Those that are probed, bit n the one at place n.
    probes : In(32)
    low_offset, high_offset : In(signed(key_bits + 2))
        Of the command; they are stable while a batch passes.
    index : In(stream of BeatLayout)
    loaded : Out(1)
        An index, and that it is on chip now.
    lower, upper : In(stream of BeatLayout)
        The keys that make the lower and the upper bounds. Where there are limits, those of a few probes come before
        each few keys of the lower bounds, as they were asked for.
    lower_address, limit_address : In(64)
        Of these arrays.
    asking : In(1)
        High as long as the command runs, if there are limits.
    lower_request : Out(stream of {address, length})
        What is read by `lower` then.
    request : Out(stream of {address, length})
        Partitions to read, in bytes.
    keys : In(stream of BeatLayout)
        These partitions, each ending with `last`.
    bound : Out(stream of bound_layout)
    position : In(stream of position_layout)
        Where `buffered` is set, to and from the insertion buffer.
    ranges : Out(stream of BeatLayout)
        Those that are not empty, four words each; `last` with the last one, or without any; unless `gathered`.
    found : Out(stream of range_layout)
        The same, if `gathered`.

    Timing
    ------
    As slow as the slowest of partitioner and prober; two bounds, hence two cycles, a probe and run.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = p = parameters
        beat = stream.Signature(BeatLayout(p.data_bits))
        request = data.StructLayout({"address": 64, "length": 37})
        super().__init__(
            {
                "signed": In(1),
                "buffered": In(1),
                "limited": In(1),
                "gathered": In(1),
                "place": In(range(RUN_PLACES)),
                "address": In(64),
                "rows": In(ROW_BITS),
                "index_base": In(range(p.index_rows)),
                "runs": In(RUN_PLACES),
                "probes": In(ROW_BITS),
                "low_offset": In(signed(p.key_bits + 2)),
                "high_offset": In(signed(p.key_bits + 2)),
                "index": In(beat),
                "loaded": Out(1),
                "lower": In(beat),
                "upper": In(beat),
                "lower_address": In(64),
                "limit_address": In(64),
                "asking": In(1),
                "lower_request": Out(stream.Signature(request)),
                "request": Out(stream.Signature(request)),
                "keys": In(beat),
                "bound": Out(stream.Signature(bound_layout(p.key_bits))),
                "position": In(stream.Signature(position_layout(ROW_BITS))),
                "ranges": Out(beat),
                "found": Out(stream.Signature(range_layout())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        m.submodules.bounds = bounds = BoundMerger(key_bits=p.key_bits)
        m.submodules.repeater = repeater = BoundRepeater(key_bits=p.key_bits, bound_rows=p.bound_rows)
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
        lower, limits = self._lower_and_limits(m)
        for source, offset, upper, sink in (
            (lower, self.low_offset, 0, bounds.lower),
            (self.upper, self.high_offset, 1, bounds.upper),
        ):
            name = "upper" if upper else "lower"
            generator = BoundaryGenerator(key_bits=p.key_bits)
            m.submodules[f"{name}_generator"] = generator
            keys = resized(m, items_of(m, f"{name}_items", source, p.key_bits, flip=self.signed), 1)
            number = Signal(range(p.probe_rows), name=f"{name}_number")  # among those that go through the runs together
            with m.If(generator.i.valid & generator.i.ready):
                m.d.sync += number.eq(Mux(generator.i.p.last, 0, number + 1))
            m.d.comb += [
                generator.i.valid.eq(keys.valid),
                generator.i.p.key.eq(keys.p.items[0]),
                generator.i.p.last.eq(keys.p.last | (number == p.probe_rows - 1)),
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
            partitioner.to.eq(self.index_base),
            self.loaded.eq(partitioner.loaded),
        ]

        # The runs.
        run = data.StructLayout({"address": 64, "rows": ROW_BITS, "base": range(p.index_rows)})
        m.submodules.table = table = memory.Memory(shape=run, depth=RUN_PLACES, init=[])
        writer, searched, read = table.write_port(), table.read_port(), table.read_port()
        m.d.comb += [
            writer.en.eq(partitioner.loaded),
            writer.addr.eq(self.place),
            writer.data.address.eq(self.address),
            writer.data.rows.eq(self.rows),
            writer.data.base.eq(self.index_base),
            searched.en.eq(1),
            searched.addr.eq(repeater.run.place),
            partitioner.base.eq(searched.data.base),
            partitioner.entries.eq((searched.data.rows + (p.partition_rows - 1)) >> p.partition_log2),
        ]

        # Bounds.
        m.d.comb += [
            repeater.runs.eq(self.runs),
            repeater.i.payload.eq(bounds.o.payload),
            self.bound.payload.eq(bounds.o.payload),
            partitioner.run.eq(repeater.run),
        ]
        with m.If(self.buffered):
            m.d.comb += [self.bound.valid.eq(bounds.o.valid), bounds.o.ready.eq(self.bound.ready)]
        with m.Else():
            m.d.comb += [repeater.i.valid.eq(bounds.o.valid), bounds.o.ready.eq(repeater.i.ready)]
        wiring.connect(m, repeater.o, partitioner.i)
        wiring.connect(m, partitioner.o, prober.i)

        # Partitions.
        shift = p.partition_log2 + (p.key_bits // 8).bit_length() - 1
        asked = Signal()
        partition = Signal.like(prober.request.p.partition)
        start, left = Signal(37), Signal(37)
        m.d.comb += [
            prober.request.ready.eq(~asked | self.request.ready),
            read.en.eq(prober.request.ready),
            read.addr.eq(prober.request.p.place),
            self.request.valid.eq(asked),
            start.eq(partition << shift),
            left.eq((read.data.rows << (shift - p.partition_log2)) - start),
            self.request.p.address.eq(read.data.address + start),
            self.request.p.length.eq(Mux(left < (1 << shift), left, 1 << shift)),
        ]
        with m.If(prober.request.ready):
            m.d.sync += [asked.eq(prober.request.valid), partition.eq(prober.request.p.partition)]
        keys = items_of(m, "partition_items", self.keys, p.key_bits, flip=self.signed)
        m.d.comb += [
            prober.keys.valid.eq(keys.valid),
            prober.keys.p.keys.eq(keys.p.items),
            prober.keys.p.keep.eq(keys.p.keep),
            prober.keys.p.last.eq(keys.p.last),
            keys.ready.eq(prober.keys.ready),
        ]

        # Ranges. The insertion buffer is the only run where it is probed.
        m.submodules.ranges = ranges = RangeFinder(probe_rows=p.probe_rows)
        m.d.comb += ranges.probes.eq(self.probes)
        m.d.comb += [ranges.i.p[name].eq(prober.o.p[name]) for name in ("position", "upper", "last", "run")]
        with m.If(self.buffered):
            m.d.comb += [
                ranges.i.valid.eq(self.position.valid),
                ranges.i.payload.eq(self.position.payload),
                ranges.i.p.run.place.eq(0),
                ranges.i.p.run.last.eq(1),
                self.position.ready.eq(ranges.i.ready),
            ]
        with m.Else():
            m.d.comb += [ranges.i.valid.eq(prober.o.valid), prober.o.ready.eq(ranges.i.ready)]
        m.submodules.limits = table = LimitTable(probe_rows=p.probe_rows)
        plain = stream.Signature(ranges.o.p.shape()).create(path=("range_items",))
        m.d.comb += [
            table.limited.eq(self.limited),
            table.first.eq(Mux(self.gathered, ranges.first, 0)),
            table.i.payload.eq(ranges.o.payload),
            plain.payload.eq(ranges.o.payload),
        ]
        with m.If(self.gathered):
            m.d.comb += [table.i.valid.eq(ranges.o.valid), ranges.o.ready.eq(table.i.ready)]
        with m.Else():
            m.d.comb += [plain.valid.eq(ranges.o.valid), ranges.o.ready.eq(plain.ready)]
        wiring.connect(m, resized(m, items_of(m, "limit_items", limits, ROW_BITS), 2), table.limits)
        wiring.connect(m, table.o, wiring.flipped(self.found))
        written(m, resized(m, plain, p.rows_per_beat), self.ranges)
        return m

    def _lower_and_limits(self, m: Module) -> tuple[PureInterface, PureInterface]:
        """The beats of the lower bounds' keys, and those of limits.

        Both come from one reader, in turns: the limits of the probes that go through the runs together, then their
        keys. So limits need no reader of their own, and whatever is in front is waited for by nothing before it.
        """
        p = self._parameters
        lower, limits = (stream.Signature(BeatLayout(p.data_bits)).create(path=(name,)) for name in ("keys", "limits"))
        key_log2 = (p.key_bits // 8).bit_length() - 1
        at, count, turn = Signal(ROW_BITS + 1), Signal(ROW_BITS), Signal()
        m.d.comb += [
            count.eq(Mux(self.probes - at < p.probe_rows, self.probes - at, p.probe_rows)),
            self.lower_request.valid.eq(self.asking & (at < self.probes)),
            self.lower_request.p.address.eq(
                Mux(turn, self.lower_address + (at << key_log2), self.limit_address + (at << 3))
            ),
            self.lower_request.p.length.eq(Mux(turn, count << key_log2, count << 3)),
        ]
        with m.If(~self.asking):
            m.d.sync += [at.eq(0), turn.eq(0)]
        with m.Elif(self.lower_request.valid & self.lower_request.ready):
            m.d.sync += turn.eq(~turn)
            with m.If(turn):
                m.d.sync += at.eq(at + p.probe_rows)

        after, limit = Signal(), Signal()  # what comes is keys after their limits, or is limits
        with m.If(self.limited & self.lower.valid & self.lower.ready & self.lower.p.last):
            m.d.sync += after.eq(~after)
        m.d.comb += [
            limit.eq(self.limited & ~after),
            lower.payload.eq(self.lower.payload),
            limits.payload.eq(self.lower.payload),
            lower.valid.eq(self.lower.valid & ~limit),
            limits.valid.eq(self.lower.valid & limit),
            self.lower.ready.eq(Mux(limit, limits.ready, lower.ready)),
        ]
        return lower, limits
