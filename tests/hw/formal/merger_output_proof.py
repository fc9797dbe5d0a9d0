"""What the FIFO behind the merger's network must do, beside the FIFO itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Assert, Cat, Elaboratable, Fragment, Module, Signal

from hw.bisort import merger, row_layout
from tests.hw.formal.stream_law import law_domain


class MergerOutputProof(Elaboratable):
    """The FIFO with its rules, for any beats, and for writers that go by what it said some cycles ago.

    A beat may be written as late after `calm` as the merger's own steps and its network are long, in any such
    cycle. The solver follows any one beat, of which one bit stands for all: the row of lane 0.

    Parameters
    ----------
    width : int
        Of the merger.
    """

    def __init__(self, *, width: int):
        self._width = width
        with mock.patch.object(row_layout, "ROW_BITS", 1), mock.patch.object(merger, "ROW_BITS", 1):
            self.dut = merger._Output(1, width)
        self.offer = Signal()
        self.follow = Signal()
        self.ports = [self.dut.items[0].row, self.offer, self.dut.ready, self.follow]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        m.submodules.dut = Fragment.get(self.dut, platform)
        dut = self.dut

        # A step, what it chose, and two stages for each level of the network (W = 1: one in all).
        way = Signal(2 + max(2 * (self._width - 1).bit_length(), 1))
        write = Signal()
        m.d.sync += way.eq(Cat(dut.calm, way))
        m.d.comb += [write.eq(self.offer & way[-1]), dut.write.eq(write)]

        # A FIFO of the same timing, without its memory.
        size = merger._DEPTH
        written, taken = Signal(range(size)), Signal(range(size))
        some, take, valid = Signal(), Signal(), Signal()
        m.d.comb += take.eq(some & (~valid | dut.ready))
        m.d.sync += [
            written.eq(written + write),
            taken.eq(taken + take),
            some.eq((taken + take)[: len(taken)] != written),
            valid.eq(take | (valid & ~dut.ready)),
        ]
        m.d[law] += Assert(dut.valid == valid)

        # There is room for whatever may still come; said for each age of the youngest, so that it proves itself.
        inside = Signal(range(size))
        coming = Cat(dut.calm, way)
        most = size - 1
        m.d.comb += inside.eq(written - taken)
        for age in range(len(coming)):
            under_way = sum(coming[at] for at in range(age, len(coming)))
            with m.If(coming[age]):
                m.d[law] += Assert(inside + under_way <= most)

        # The beat that is followed is offered when all before it were, stands still, and is offered once: each
        # address is taken once for each time it is written, as above.
        waits, shown = Signal(), Signal()
        at = Signal(range(size))
        value = Signal()
        with m.If(waits):
            m.d[law] += Assert((at - taken)[: len(at)] < inside)
            with m.If(take & (taken == at)):
                m.d.sync += [waits.eq(0), shown.eq(1)]
        with m.Elif(shown):
            m.d[law] += [Assert(dut.valid), Assert(dut.payload.rows[0].row == value)]
            with m.If(dut.ready):
                m.d.sync += shown.eq(0)
        with m.Elif(write & self.follow):
            m.d.sync += [waits.eq(1), at.eq(written), value.eq(dut.items[0].row)]
        return m
