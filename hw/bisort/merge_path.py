"""The way of two runs through the merger."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.hw.bisort.indexer import Indexer
from muntin.hw.bisort.layouts import item_beat, row_beat
from muntin.hw.bisort.merger import Merger
from muntin.hw.bisort.streams import beats_of, items_of, resized
from muntin.hw.memory.layouts import BeatLayout


class MergePath(wiring.Component):
    """From the arrays of two runs to those of one and its index.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    signed, buffered : In(1)
        Flags of the command; they are stable while a run passes.
    keys_a, rows_a, keys_b, rows_b : In(stream of BeatLayout)
        Arrays of the older and the newer run.
    sorted : In(stream of row_beat)
        The newer run, where `buffered` is set.
    keys, rows, index : Out(stream of data_bits)
        Arrays of the merged run, in beats of the memory.

    Timing
    ------
    W rows a cycle, and no more than a beat of each array a cycle. Any array that is held up holds up the others
    once what is under way has filled the registers.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = parameters
        beat = stream.Signature(BeatLayout(parameters.data_bits))
        word = stream.Signature(parameters.data_bits)
        super().__init__(
            {
                "signed": In(1),
                "buffered": In(1),
                "keys_a": In(beat),
                "rows_a": In(beat),
                "keys_b": In(beat),
                "rows_b": In(beat),
                "sorted": In(stream.Signature(row_beat(parameters.key_bits, parameters.width))),
                "keys": Out(word),
                "rows": Out(word),
                "index": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        m.submodules.merger = merger = Merger(key_bits=p.key_bits, width=p.width)
        m.submodules.indexer = indexer = Indexer(key_bits=p.key_bits, width=p.width, partition_log2=p.partition_log2)
        wiring.connect(m, merger.o, indexer.i)

        # In: a key and its row number leave together.
        for side, sink in (("a", merger.older), ("b", merger.newer)):
            keys = items_of(m, f"keys_{side}_items", getattr(self, f"keys_{side}"), p.key_bits, flip=self.signed)
            rows = items_of(m, f"rows_{side}_items", getattr(self, f"rows_{side}"), ROW_BITS)
            keys, rows = resized(m, keys, p.width), resized(m, rows, p.width)
            take = Signal(name=f"take_{side}")
            m.d.comb += [
                take.eq(keys.valid & rows.valid & sink.ready),
                keys.ready.eq(take),
                rows.ready.eq(take),
                sink.valid.eq(keys.valid & rows.valid),
                sink.p.keep.eq(keys.p.keep),
                sink.p.last.eq(keys.p.last),
            ]
            for lane in range(p.width):
                m.d.comb += [
                    sink.p.rows[lane].key.eq(keys.p.items[lane]),
                    sink.p.rows[lane].row.eq(rows.p.items[lane]),
                ]
        with m.If(self.buffered):
            m.d.comb += [
                merger.newer.valid.eq(self.sorted.valid),
                merger.newer.payload.eq(self.sorted.payload),
                self.sorted.ready.eq(merger.newer.ready),
            ]

        # Out: each array takes the beat when it can, and the beat goes when all have it.
        merged = {
            "keys": stream.Signature(item_beat(p.key_bits, p.width)).create(path=("keys_merged",)),
            "rows": stream.Signature(item_beat(ROW_BITS, p.width)).create(path=("rows_merged",)),
        }
        done = Signal(len(merged))
        ready = Signal(len(merged))
        m.d.comb += indexer.o.ready.eq((ready | done).all())
        with m.If(indexer.o.valid):
            m.d.sync += done.eq(Mux(indexer.o.ready, 0, ready | done))
        for number, (name, part) in enumerate(merged.items()):
            m.d.comb += [
                ready[number].eq(part.ready),
                part.valid.eq(indexer.o.valid & ~done[number]),
                part.p.keep.eq(indexer.o.p.keep),
                part.p.last.eq(indexer.o.p.last),
            ]
            for lane in range(p.width):
                row = indexer.o.p.rows[lane]
                m.d.comb += part.p.items[lane].eq(row.key if name == "keys" else row.row)
        index = stream.Signature(item_beat(p.key_bits, 1)).create(path=("index_merged",))
        m.d.comb += [
            index.valid.eq(indexer.index.valid),
            index.p.items[0].eq(indexer.index.p.keys[0]),
            index.p.keep.eq(indexer.index.p.keep),
            index.p.last.eq(indexer.index.p.last),
            indexer.index.ready.eq(index.ready),
        ]
        beats_of(m, resized(m, merged["keys"], p.keys_per_beat), self.keys, flip=self.signed)
        beats_of(m, resized(m, merged["rows"], p.rows_per_beat), self.rows)
        beats_of(m, resized(m, index, p.keys_per_beat), self.index, flip=self.signed)
        return m
