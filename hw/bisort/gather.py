"""Streams out the row numbers of ranges, as pairs or as counts."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.registers import RUN_PLACES
from muntin.hw.bisort.layouts import count_layout, pair_beat, range_layout
from muntin.hw.memory.quick_fifo import BlockFifo


class Gather(wiring.Component):
    """Asks for the row numbers of each range, leaves out those beyond the window limits, and packs the rest.

    Parameters
    ----------
    width : int
        Row numbers in a beat, a power of two.
    range_rows : int
        Ranges that may wait for their row numbers.

    Attributes
    ----------
    counting : In(1)
        1 to count, 0 for pairs; stands still during a batch.
    limited : In(1)
        1 to check the window limits; stands still during a batch.
    i : In(stream of range_layout)
        A batch of ranges.
    request : Out(stream of {place, beat, count})
        Beats of row numbers to read: the place of the run, the number of the first one in the run, and how many, at
        least 1. Empty ranges are not asked for, nor is any where counts need no limits.
    rows : In(stream of an array of row numbers)
        These beats.
    o : Out(stream of pair_beat)
        The pairs of a batch, in the order of the ranges; nothing while counting.
    counts : Out(stream of count_layout)
        One for each range, in order; nothing unless counting.

    Raises
    ------
    ParameterError
        If `width` is not a power of two.

    Timing
    ------
    A beat of row numbers a cycle, an empty range one cycle, one that is read two at least. Pairs come out four cycles
    later, counts two, at the earliest.

    Source
    ------
    Ours: in PanJoin the manager node looks the rows of a range up in its mirror.
    """

    def __init__(self, *, width: int, range_rows: int):
        if width < 1 or width & (width - 1):
            raise ParameterError(f"width must be a power of two, not {width!r}")
        self._width = width
        self._range_rows = range_rows
        request = data.StructLayout({"place": range(RUN_PLACES), "beat": ROW_BITS, "count": ROW_BITS})
        super().__init__(
            {
                "counting": In(1),
                "limited": In(1),
                "i": In(stream.Signature(range_layout())),
                "request": Out(stream.Signature(request)),
                "rows": In(stream.Signature(data.ArrayLayout(ROW_BITS, width))),
                "o": Out(stream.Signature(pair_beat(width))),
                "counts": Out(stream.Signature(count_layout())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self._width
        lane_bits = width.bit_length() - 1
        m.submodules.ranges = ranges = BlockFifo(width=range_layout().size, depth=self._range_rows)

        # Ask.
        reads = Signal()
        take = Signal()
        first_beat, beats = Signal(ROW_BITS), Signal(ROW_BITS)
        stop_beat = Signal(ROW_BITS + 1)
        m.d.comb += [
            reads.eq((self.i.p.start != self.i.p.stop) & ~(self.counting & ~self.limited)),
            first_beat.eq(self.i.p.start >> lane_bits),
            stop_beat.eq((self.i.p.stop + (width - 1)) >> lane_bits),
            beats.eq(stop_beat - first_beat),
            # Who takes requests is at a distance from who gives ranges: none comes while one is to be read.
            self.i.ready.eq(ranges.w_rdy & (~reads | ~self.request.valid)),
            take.eq(self.i.valid & self.i.ready),
            ranges.w_en.eq(take),
            ranges.w_data.eq(self.i.payload),
        ]
        with m.If(self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        with m.If(take & reads):
            m.d.sync += [
                self.request.valid.eq(1),
                self.request.p.place.eq(self.i.p.place),
                self.request.p.beat.eq(first_beat),
                self.request.p.count.eq(beats),
            ]

        # Check: a mask for each beat. A range without beats passes as one empty beat.
        head = data.View(range_layout(), ranges.r_data)
        at = Signal(ROW_BITS)  # beats of the range passed so far
        beat = Signal(ROW_BITS)
        bare = Signal()
        ends = Signal()
        move = Signal()
        enable = Signal()
        m.d.comb += [
            beat.eq((head.start >> lane_bits) + at),
            bare.eq((head.start == head.stop) | (self.counting & ~self.limited)),
            ends.eq(bare | (beat == (head.stop - 1)[:ROW_BITS] >> lane_bits)),
            move.eq(ranges.r_rdy & (bare | self.rows.valid) & enable),
            self.rows.ready.eq(ranges.r_rdy & ~bare & enable),
            ranges.r_en.eq(move & ends),
        ]
        mask = Signal(width)
        rows = [Signal(ROW_BITS, name=f"row_{lane}") for lane in range(width)]
        probe = Signal(ROW_BITS)
        whole = Signal(ROW_BITS)  # a count that needs no rows
        checked, checked_ends, checked_last = Signal(), Signal(), Signal()
        with m.If(enable):
            m.d.sync += [
                checked.eq(move),
                checked_ends.eq(ends),
                checked_last.eq(ends & head.last),
                probe.eq(head.probe),
                whole.eq(Mux(bare, head.stop - head.start, 0)),
            ]
            for lane in range(width):
                row = self.rows.payload[lane]
                place = (beat << lane_bits) | lane
                inside = ~(place < head.start) & (place < head.stop)
                aged = (row - head.first)[:ROW_BITS] < head.span
                m.d.sync += [
                    rows[lane].eq(row),
                    mask[lane].eq(~bare & inside & (~self.limited | aged)),
                ]
        with m.If(move):
            m.d.sync += at.eq(Mux(ends, 0, at + 1))

        # Count.
        total = Signal(ROW_BITS)
        sum_now = Signal(ROW_BITS)
        m.d.comb += sum_now.eq(total + whole + sum(mask))
        with m.If(self.counts.ready):
            m.d.sync += self.counts.valid.eq(0)
        with m.If(enable & checked & self.counting):
            m.d.sync += total.eq(Mux(checked_ends, 0, sum_now))
            with m.If(checked_ends):
                m.d.sync += [
                    self.counts.valid.eq(1),
                    self.counts.p.probe.eq(probe),
                    self.counts.p.count.eq(sum_now),
                    self.counts.p.last.eq(checked_last),
                ]

        # Pack the rows of a beat at its low end.
        packed = [Signal(ROW_BITS, name=f"packed_{lane}") for lane in range(width)]
        packed_probe = Signal(ROW_BITS)
        packed_count = Signal(range(width + 1))
        packed_valid, packed_last = Signal(), Signal()
        with m.If(enable):
            m.d.sync += [
                packed_valid.eq(checked & ~self.counting),
                packed_last.eq(checked_last),
                packed_probe.eq(probe),
                packed_count.eq(sum(mask)),
            ]
            rank = 0
            for lane in range(width):
                for to in range(lane + 1):
                    with m.If(mask[lane] & (rank == to)):
                        m.d.sync += packed[to].eq(rows[lane])
                rank = (rank + mask[lane])[: width.bit_length()]

        # Collect them to whole beats. A beat leaves once there is more than it holds, so that the last one
        # is not empty.
        pair = self.o.p.pairs[0].shape()
        kept = Array(Signal(pair, name=f"kept_{lane}") for lane in range(width))
        fill = Signal(range(width + 1))
        flush = Signal()
        free = Signal()
        joined = [Signal(pair, name=f"joined_{place}") for place in range(2 * width)]
        amount = Signal(range(2 * width + 1))
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            enable.eq(Mux(self.counting, ~self.counts.valid | self.counts.ready, free & ~flush)),
            amount.eq(fill + packed_count),
        ]
        for place in range(2 * width):
            if place < width:
                m.d.comb += joined[place].eq(kept[place])
            for start in range(width + 1):
                if 0 <= place - start < width:
                    with m.If(fill == start):
                        m.d.comb += [
                            joined[place].probe.eq(packed_probe),
                            joined[place].row.eq(packed[place - start]),
                        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(enable & packed_valid):
            full = Signal()
            m.d.comb += full.eq(amount > width)
            with m.If(full | packed_last):
                m.d.sync += [
                    self.o.valid.eq(1),
                    self.o.p.keep.eq(Cat(amount > lane for lane in range(width))),
                    self.o.p.last.eq(packed_last & ~full),
                    flush.eq(packed_last & full),
                ]
                m.d.sync += [self.o.p.pairs[lane].eq(joined[lane]) for lane in range(width)]
            m.d.sync += fill.eq(Mux(full, amount - width, Mux(packed_last, 0, amount)))
            for lane in range(width):
                m.d.sync += kept[lane].eq(Mux(full, joined[lane + width], joined[lane]))
        with m.If(flush & free):
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.p.keep.eq(Cat(fill > lane for lane in range(width))),
                self.o.p.last.eq(1),
                flush.eq(0),
                fill.eq(0),
            ]
            m.d.sync += [self.o.p.pairs[lane].eq(kept[lane]) for lane in range(width)]
        return m
