"""Picks every 2**k-th key out of a stream."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.bisort.layouts import key_beat, row_beat


class Indexer(wiring.Component):
    """Passes sorted runs on, and puts out the first key of each partition of 2**k rows.

    Parameters
    ----------
    key_bits, width : int
    partition_log2 : int
        k; a partition is at least one beat long.

    Attributes
    ----------
    i : In(stream of row_beat)
    o : Out(stream of row_beat)
        The same.
    index : Out(stream of key_beat, one key wide)
        The index array of each run; for an empty run one item that keeps none.

    Raises
    ------
    ParameterError
        If a partition is shorter than a beat.

    Timing
    ------
    One cycle from `i` to `o`; a beat a cycle, and one cycle more for each run. A key is put out when the
    first beat of the next partition passes, or after the run. Either output holds the other up.

    Source
    ------
    PanJoin, section IV (indexer), which makes the index once the merge is over; here it is made as the rows
    pass.
    """

    def __init__(self, *, key_bits: int, width: int, partition_log2: int):
        if 1 << partition_log2 < width:
            raise ParameterError(
                f"partition_log2 must be at least {(width - 1).bit_length()} for {width} rows a beat, "
                f"not {partition_log2!r}"
            )
        self._partition_beats = (1 << partition_log2) // width
        beat = stream.Signature(row_beat(key_bits, width))
        super().__init__({"i": In(beat), "o": Out(beat), "index": Out(stream.Signature(key_beat(key_bits, 1)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at = Signal(range(self._partition_beats))  # the beat's number in its partition
        held = Signal.like(self.index.p.keys[0])
        held_valid = Signal()
        finish = Signal()  # the run has passed, its last key is still held
        index_free = Signal()
        move = Signal()
        m.d.comb += [
            index_free.eq(~self.index.valid | self.index.ready),
            self.i.ready.eq((~self.o.valid | self.o.ready) & index_free & ~finish),
            move.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.index.ready):
            m.d.sync += self.index.valid.eq(0)
        with m.If(move):
            m.d.sync += [
                self.o.payload.eq(self.i.payload),
                self.o.valid.eq(1),
                finish.eq(self.i.p.last),
                at.eq(0 if self._partition_beats == 1 else at + 1),
            ]
            with m.If((at == 0) & self.i.p.keep[0]):
                m.d.sync += [
                    held.eq(self.i.p.rows[0].key),
                    held_valid.eq(1),
                    self.index.valid.eq(held_valid),
                    self.index.p.last.eq(0),
                ]
        with m.If(finish & index_free):
            m.d.sync += [
                finish.eq(0),
                held_valid.eq(0),
                at.eq(0),
                self.index.valid.eq(1),
                self.index.p.last.eq(1),
            ]
        with m.If(index_free):
            m.d.sync += [self.index.p.keys[0].eq(held), self.index.p.keep.eq(held_valid)]
        return m
