"""Keeps the newest rows on chip, in order."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import ROW_BITS
from muntin.hw.bisort.layouts import bound_layout, position_layout, row_beat, row_layout
from muntin.hw.memory.quick_fifo import QuickFifo


class InsertionBuffer(wiring.Component):
    """Up to B rows, every one of which each probe is compared with; a sorted run for the merger once they are
    B.

    Each row is inserted in its place at once, so that probes find positions, as they do in a run, and nothing
    has to be sorted when the buffer is full. One comparison per row serves both probes and insertions.

    Parameters
    ----------
    key_bits : int
    width : int
        Rows in a beat of `sorted`.
    rows : int
        B, a multiple of `width`.

    Attributes
    ----------
    i : In(stream of {row, keep, flush})
        Rows in any order. Where `flush` is set, the buffer is handed over after the row; where `keep` is not,
        there is no row.
    probe : In(stream of bound_layout)
        In any order; they go before rows that wait at the same time.
    position : Out(stream of position_layout)
        For each bound, the keys below it in the buffer.
    read : In(stream of range(rows))
        Positions in the buffer.
    row : Out(stream of row_layout)
        The rows there.
    sorted : Out(stream of row_beat)
        A run, when the buffer is full or was flushed: ascending by key, of equal keys the older first. Then
        the buffer is empty.
    count : Out(range(rows + 1))
        Rows in the buffer.

    Raises
    ------
    ParameterError
        If `rows` is not a multiple of `width`.

    Timing
    ------
    A row every other cycle, or a probe a cycle; a probe sees every row that was taken before it, and its answer comes
    three cycles later. While the run is handed over, one beat a cycle, neither is taken.

    Source
    ------
    PanJoin, section III-D (insertion buffer), which keeps it unsorted and scans it; sorting on insertion is
    ours.
    """

    def __init__(self, *, key_bits: int, width: int, rows: int):
        if rows < 1 or rows % width:
            raise ParameterError(f"rows must be a multiple of width, {width}, not {rows!r}")
        self._key_bits = key_bits
        self._width = width
        self._rows = rows
        entry = data.StructLayout({"row": row_layout(key_bits), "keep": 1, "flush": 1})
        found = position_layout(range(rows + 1))
        super().__init__(
            {
                "i": In(stream.Signature(entry)),
                "probe": In(stream.Signature(bound_layout(key_bits))),
                "position": Out(stream.Signature(found)),
                "read": In(stream.Signature(range(rows))),
                "row": Out(stream.Signature(row_layout(key_bits))),
                "sorted": Out(stream.Signature(row_beat(key_bits, width))),
                "count": Out(range(rows + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, width = self.count, self._width
        keys = [Signal(self._key_bits, name=f"key_{at}") for at in range(self._rows)]
        rows = [Signal(ROW_BITS, name=f"row_{at}") for at in range(self._rows)]

        # What is asked of the buffer: how many keys lie below a bound. A new row goes behind those that are
        # not above it, hence below its key plus one.
        below = Signal(self._key_bits + 1)
        key, row = Signal(self._key_bits), Signal(ROW_BITS)
        inserting, probing, flushing = Signal(), Signal(), Signal()
        upper, last = Signal(), Signal()
        handing = Signal()
        free = Signal()
        stay = Signal()  # what was taken, while a probe before it cannot leave
        room = Signal()
        mask = Signal(self._rows)
        counted = Signal(self._rows)  # a cycle later
        places, counts, hands = Signal(), Signal(), Signal()
        m.submodules.answers = answers = QuickFifo(width=self.position.p.shape().size, depth=2)
        m.d.comb += [
            free.eq(~counts | answers.w_rdy),
            stay.eq((probing | inserting | flushing) & ~free),
            # A row shows in the buffer two cycles later, and may fill or flush it: that shows one cycle later still.
            room.eq(~stay & ~handing & ~inserting & ~flushing & ~hands & ~(places & (count == self._rows - 1))),
            self.probe.ready.eq(room),
            self.i.ready.eq(room & ~self.probe.valid),
        ]
        with m.If(~stay):
            m.d.sync += [
                probing.eq(self.probe.valid & self.probe.ready),
                inserting.eq(self.i.valid & self.i.ready & self.i.p.keep),
                flushing.eq(self.i.valid & self.i.ready & self.i.p.flush),
                below.eq(Mux(self.probe.valid, self.probe.p.below, self.i.p.row.key + 1)),
                key.eq(self.i.p.row.key),
                row.eq(self.i.p.row.row),
                upper.eq(self.probe.p.upper),
                last.eq(self.probe.p.last),
            ]

        m.d.comb += mask.eq(Cat((count > at) & (below[-1] | (keys[at] < below[:-1])) for at in range(self._rows)))
        placed_key, placed_row = Signal.like(key), Signal.like(row)
        found = Signal(self.position.p.shape())
        counted_upper, counted_last = Signal(), Signal()
        with m.If(free):
            m.d.sync += [
                counted.eq(mask),
                places.eq(inserting),
                counts.eq(probing),
                hands.eq(flushing),
                placed_key.eq(key),
                placed_row.eq(row),
                counted_upper.eq(upper),
                counted_last.eq(last),
            ]
        with m.If(places):
            m.d.sync += count.eq(count + 1)
            for at in range(self._rows):
                behind = counted[at - 1] if at else 1
                with m.If(~counted[at]):
                    m.d.sync += [
                        keys[at].eq(Mux(behind, placed_key, keys[at - 1] if at else placed_key)),
                        rows[at].eq(Mux(behind, placed_row, rows[at - 1] if at else placed_row)),
                    ]
        with m.If((places & (count == self._rows - 1)) | hands):
            m.d.sync += handing.eq(1)
        m.d.comb += [
            found.position.eq(sum(counted)),
            found.upper.eq(counted_upper),
            found.last.eq(counted_last),
            answers.w_data.eq(found),
            answers.w_en.eq(counts),
            self.position.payload.eq(data.View(self.position.p.shape(), answers.r_data)),
            self.position.valid.eq(answers.r_rdy),
            answers.r_en.eq(self.position.ready),
        ]

        m.d.comb += [
            self.sorted.valid.eq(handing),
            self.sorted.p.last.eq(count <= width),
            self.sorted.p.keep.eq(Cat(count > lane for lane in range(width))),
        ]
        for lane in range(width):
            m.d.comb += [
                self.sorted.p.rows[lane].key.eq(keys[lane]),
                self.sorted.p.rows[lane].row.eq(rows[lane]),
            ]
        with m.If(handing & self.sorted.ready):
            m.d.sync += count.eq(Mux(self.sorted.p.last, 0, count - width))
            with m.If(self.sorted.p.last):
                m.d.sync += handing.eq(0)
            for at in range(self._rows - width):
                m.d.sync += [keys[at].eq(keys[at + width]), rows[at].eq(rows[at + width])]

        m.d.comb += self.read.ready.eq(~self.row.valid | self.row.ready)
        with m.If(self.read.ready):
            m.d.sync += self.row.valid.eq(self.read.valid)
            with m.Switch(self.read.payload):
                for at in range(self._rows):
                    with m.Case(at):
                        m.d.sync += [self.row.p.key.eq(keys[at]), self.row.p.row.eq(rows[at])]
        return m
