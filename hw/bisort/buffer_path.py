"""The insertion buffer between arrays in memory."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.hw.bisort.insertion_buffer import InsertionBuffer
from muntin.hw.bisort.layouts import bound_layout, item_beat, position_layout, row_beat
from muntin.hw.bisort.streams import items_of, resized
from muntin.hw.memory.layouts import BeatLayout


class BufferPath(wiring.Component):
    """The insertion buffer, filled from arrays, probed, read by beats, and handed over.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    signed : In(1)
    keys, rows : In(stream of BeatLayout)
        Arrays of rows to insert, in any order. No more may come than there is room for.
    flush : In(1)
        Hand the rows over: high for one cycle, while nothing else goes on.
    sorted : Out(stream of row_beat)
    bound : In(stream of bound_layout)
    position : Out(stream of position_layout)
        As `probe` and `position` of the insertion buffer.
    request : In(stream of {beat, count})
    read : Out(stream of BeatLayout)
        Beats of row numbers, as if the buffer were an array in memory.
    count : Out(range(buffer_rows + 1))
    filling : Out(1)
        Rows are on their way into the buffer; `count` has the last of them three cycles after this has fallen.

    Timing
    ------
    A row every other cycle, or a bound a cycle; a beat that is read takes a cycle for each of its rows.
    """

    def __init__(self, parameters: Parameters):
        self._parameters = p = parameters
        beat = stream.Signature(BeatLayout(p.data_bits))
        request = data.StructLayout({"beat": ROW_BITS, "count": ROW_BITS})
        super().__init__(
            {
                "signed": In(1),
                "keys": In(beat),
                "rows": In(beat),
                "flush": In(1),
                "sorted": Out(stream.Signature(row_beat(p.key_bits, p.width))),
                "bound": In(stream.Signature(bound_layout(p.key_bits))),
                "position": Out(stream.Signature(position_layout(ROW_BITS))),
                "request": In(stream.Signature(request)),
                "read": Out(beat),
                "count": Out(range(p.buffer_rows + 1)),
                "filling": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self._parameters
        # A full buffer hands itself over: with a beat more than may be used it never is full.
        m.submodules.buffer = buffer = InsertionBuffer(key_bits=p.key_bits, width=p.width, rows=p.buffer_rows + p.width)
        keys = resized(m, items_of(m, "keys_items", self.keys, p.key_bits, flip=self.signed), 1)
        rows = resized(m, items_of(m, "rows_items", self.rows, ROW_BITS), 1)
        take = Signal()
        m.d.comb += [
            take.eq(keys.valid & rows.valid & buffer.i.ready),
            keys.ready.eq(take),
            rows.ready.eq(take),
            buffer.i.valid.eq((keys.valid & rows.valid) | self.flush),
            buffer.i.p.row.key.eq(keys.p.items[0]),
            buffer.i.p.row.row.eq(rows.p.items[0]),
            buffer.i.p.keep.eq(~self.flush),
            buffer.i.p.flush.eq(self.flush),
            self.count.eq(buffer.count),
            self.filling.eq(keys.valid | rows.valid),
            buffer.probe.valid.eq(self.bound.valid),
            buffer.probe.payload.eq(self.bound.payload),
            self.bound.ready.eq(buffer.probe.ready),
            self.position.valid.eq(buffer.position.valid),
            buffer.position.ready.eq(self.position.ready),
        ]
        m.d.comb += [self.position.p[name].eq(buffer.position.p[name]) for name in ("position", "upper", "last")]
        wiring.connect(m, buffer.sorted, wiring.flipped(self.sorted))

        # Beats that are read.
        width = p.rows_per_beat
        at, left = Signal(ROW_BITS), Signal(ROW_BITS)
        found = stream.Signature(item_beat(ROW_BITS, 1)).create(path=("found_items",))
        m.d.comb += [
            self.request.ready.eq(left == 0),
            buffer.read.valid.eq(left != 0),
            buffer.read.payload.eq(at),
            found.valid.eq(buffer.row.valid),
            found.p.items[0].eq(buffer.row.p.row),
            found.p.keep.eq(1),
            buffer.row.ready.eq(found.ready),
        ]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += [at.eq(self.request.p.beat * width), left.eq(self.request.p.count * width)]
        with m.If(buffer.read.valid & buffer.read.ready):
            m.d.sync += [at.eq(at + 1), left.eq(left - 1)]
        beats = resized(m, found, width)
        m.d.comb += [
            self.read.valid.eq(beats.valid),
            beats.ready.eq(self.read.ready),
            self.read.p.data.eq(beats.p.items.as_value()),
            self.read.p.keep.eq(~0),
        ]
        return m
