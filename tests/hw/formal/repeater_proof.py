"""What a bound repeater must do, beside the repeater itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Assert, Assume, Elaboratable, Fragment, Module, Signal

from muntin.hw.bisort import bound_repeater, layouts
from muntin.hw.bisort.bound_repeater import BoundRepeater
from tests.hw.formal.fifo_proof import NoFifo
from tests.hw.formal.stream_law import law_domain, stream_law

_PLACES = 3


class RepeaterProof(Elaboratable):
    """A bound repeater, for any bounds, offered and taken at any time, and any of three runs.

    The solver picks one bound to follow, with where it stands in its batch. It comes out there, once for each run, in
    the order of their places; what comes out is counted by its own marks of a batch's last bound, which are followed
    like any other bit. A batch is given four cycles after it has come in, and there is always room for two. The FIFO at
    the end is left out.

    Parameters
    ----------
    bound_rows : int
    """

    def __init__(self, *, bound_rows: int):
        self._rows = bound_rows
        with (
            mock.patch.object(layouts, "RUN_PLACES", _PLACES),
            mock.patch.object(bound_repeater, "RUN_PLACES", _PLACES),
        ):
            self.dut = BoundRepeater(key_bits=0, bound_rows=bound_rows)
        self.follow = Signal()
        self.ports = [self.dut.runs, self.dut.i.payload.as_value(), self.dut.i.valid, self.dut.o.ready, self.follow]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        with (
            mock.patch.object(bound_repeater, "RUN_PLACES", _PLACES),
            mock.patch.object(bound_repeater, "QuickFifo", NoFifo),
        ):
            m.submodules.dut = Fragment.get(self.dut, platform)
        dut, rows = self.dut, self._rows
        began, runs = Signal(), Signal.like(dut.runs)
        m.d.sync += [began.eq(1), runs.eq(dut.runs)]
        m.d[law] += [Assume(dut.runs != 0), Assume(~began | (dut.runs == runs))]
        stream_law(m, law, dut.i, "i", given=True)
        stream_law(m, law, dut.o, "o", given=False)

        # What goes in: no batch is longer than there is room for.
        put, whole = Signal(), Signal()
        place_in = Signal(range(rows))
        m.d.comb += [put.eq(dut.i.valid & dut.i.ready), whole.eq(put & dut.i.p.last)]
        with m.If(put):
            m.d.sync += place_in.eq(place_in + 1)
            with m.If(dut.i.p.last):
                m.d.sync += place_in.eq(0)
        m.d[law] += Assume((place_in != rows - 1) | dut.i.p.last)

        # What comes out: which bound of which run, of the oldest batch that is whole.
        got, ends, over = Signal(), Signal(), Signal()
        place = Signal(range(rows + 1))
        passed = Signal(_PLACES)  # the runs that have had the batch
        left = Signal(_PLACES)
        inside = Signal(range(5))  # whole batches
        m.d.comb += [
            got.eq(dut.o.valid & dut.o.ready),
            ends.eq(got & dut.o.p.last),
            left.eq(dut.runs & ~passed),
            over.eq(ends & ((left & (left - 1)) == 0)),
        ]
        m.d.sync += inside.eq(inside + whole - over)
        with m.If(got):
            m.d.sync += place.eq(place + 1)
        with m.If(ends):
            m.d.sync += [place.eq(0), passed.eq(passed | (left & -left))]
        with m.If(over):
            m.d.sync += passed.eq(0)
        m.d[law] += [Assert(inside <= 3), Assert(~dut.o.valid | (inside != 0)), Assert(place < rows)]
        with m.If(dut.o.valid):
            first = Signal(_PLACES)
            m.d.comb += first.eq(left & -left)
            m.d[law] += [
                Assert((1 << dut.run.place) == first),
                Assert(dut.run.last == (left == first)),
            ]

        # Nothing waits that may go on.
        late = Signal(range(5))
        with m.If((inside == 0) | dut.o.valid):
            m.d.sync += late.eq(0)
        with m.Else():
            m.d.sync += late.eq(late + (late != 4))
        m.d[law] += [Assert(late < 4), Assert(dut.i.ready | (inside >= 2))]

        # The bound that is followed, and how many batches come before its own.
        following = Signal()
        at, before = Signal(range(rows)), Signal.like(inside)
        bound = Signal.like(dut.i.payload)
        with m.If(following):
            m.d.sync += before.eq(before - over)
            with m.If(before == 0):
                with m.If(dut.o.valid & (place == at)):
                    m.d[law] += Assert(dut.o.payload == bound)
                m.d[law] += Assert(~ends | (place >= at))
                m.d.sync += following.eq(~over)
        with m.Elif(put & self.follow):
            m.d.sync += [following.eq(1), at.eq(place_in), before.eq(inside - over), bound.eq(dut.i.payload)]
        return m
