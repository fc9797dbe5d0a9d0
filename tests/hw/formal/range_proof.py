"""What a range finder must do, beside the range finder itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Array, Assert, Assume, Elaboratable, Fragment, Module, Mux, Signal
from amaranth.lib.data import View

from muntin.hw.bisort import layouts, range_finder
from muntin.hw.bisort.range_finder import RangeFinder
from tests.hw.formal.stream_law import law_domain, stream_law

_BITS = 3
_PLACES = 2


class RangeProof(Elaboratable):
    """A range finder, for any positions, of any probes in any runs, offered and taken at any time.

    Positions are as the blocks before give them: of each part of the batch's probes, lower and upper bounds in any
    order, run by run. The range of each probe is made beside the block, of the positions that have come; the solver
    picks one to follow, which comes out when just the ranges before it have. Words have three bits.

    Parameters
    ----------
    probe_rows : int
    """

    def __init__(self, *, probe_rows: int):
        self._rows = probe_rows
        with (
            mock.patch.object(layouts, "RUN_PLACES", _PLACES),
            mock.patch.object(range_finder, "ROW_BITS", _BITS),
        ):
            self.dut = RangeFinder(probe_rows=probe_rows)
        self.follow = Signal()
        self.ports = [self.dut.probes, self.dut.i.payload.as_value(), self.dut.i.valid, self.dut.o.ready, self.follow]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        with mock.patch.object(range_finder, "ROW_BITS", _BITS):
            m.submodules.dut = Fragment.get(self.dut, platform)
        dut, rows = self.dut, self._rows
        item = dut.i.p
        began, probes = Signal(), Signal.like(dut.probes)
        m.d.sync += [began.eq(1), probes.eq(dut.probes)]
        m.d[law] += [Assume(dut.probes != 0), Assume(~began | (dut.probes == probes))]
        stream_law(m, law, dut.i, "i", given=True)
        stream_law(m, law, dut.o, "o", given=False)

        # Positions, as the blocks before give them: of `size` probes from `first` on in one run after the other.
        put = Signal()
        first, size = Signal(_BITS + 1), Signal(range(rows + 1))
        again = Signal()  # these probes were looked for in a run before
        lower, upper = Signal(range(rows + 1)), Signal(range(rows + 1))
        more_lower, more_upper = Signal(range(rows + 2)), Signal(range(rows + 2))
        most = Signal(range(rows + 1))
        place = Signal.like(item.run.place)
        run_last = Signal()
        m.d.comb += [
            put.eq(dut.i.valid & dut.i.ready),
            more_lower.eq(lower + ~item.upper),
            more_upper.eq(upper + item.upper),
            most.eq(Mux(again, size, rows)),
        ]
        whole = (more_lower == most) & (more_upper == most)
        m.d[law] += [
            Assume((more_lower <= most) & (more_upper <= most)),
            Assume((first + more_lower <= dut.probes) & (first + more_upper <= dut.probes)),
            Assume(Mux(item.last, (more_lower == more_upper) & (~again | whole), ~whole)),
            Assume(((lower == 0) & (upper == 0)) | ((item.run.place == place) & (item.run.last == run_last))),
        ]
        with m.If(put):
            m.d.sync += [lower.eq(more_lower), upper.eq(more_upper), place.eq(item.run.place)]
            m.d.sync += run_last.eq(item.run.last)
            with m.If(item.last):
                m.d.sync += [lower.eq(0), upper.eq(0), again.eq(~item.run.last), size.eq(more_lower)]
                with m.If(item.run.last):
                    m.d.sync += first.eq(Mux(first + more_upper == dut.probes, 0, first + more_upper))

        m.d[law] += Assert(dut.first == first)

        # Their ranges.
        starts = Array(Signal(_BITS, name=f"start_{number}") for number in range(rows))
        with m.If(put & ~item.upper):
            m.d.sync += starts[lower].eq(item.position)
        found, last, due = Signal(), Signal(), Signal()
        m.d.comb += [
            found.eq(put & item.upper & (upper < lower) & (starts[upper] < item.position)),
            last.eq(put & item.last & item.run.last & (first + more_upper == dut.probes)),
            due.eq(found | last),
        ]
        expected = View(dut.o.p.shape(), Signal(dut.o.p.shape().size))
        words = Array(expected["items"][number] for number in range(4))
        m.d.comb += [
            words[0].eq(first + upper),
            words[1].eq(item.run.place),
            words[2].eq(starts[upper]),
            words[3].eq(item.position),
            expected["keep"].eq(found.replicate(4)),
            expected["last"].eq(last),
        ]

        # They come out in order, none is lost, and none is late.
        got, inside = Signal(), Signal(range(4))
        m.d.comb += got.eq(dut.o.valid & dut.o.ready)
        m.d.sync += inside.eq(inside + due - got)
        m.d[law] += [Assert(inside <= 2), Assert(~dut.o.valid | (inside != 0))]
        m.d[law] += Assert(dut.i.ready | (dut.o.valid & ~dut.o.ready))
        late = Signal()
        m.d.sync += late.eq((inside != 0) & ~dut.o.valid)
        m.d[law] += Assert(~late | (inside == 0) | dut.o.valid)
        following, kept = Signal(), Signal.like(expected.as_value())
        before = Signal.like(inside)
        value = View(dut.o.p.shape(), kept)
        with m.If(following):
            m.d.sync += before.eq(before - got)
            with m.If(before == 0):
                with m.If(dut.o.valid):
                    out = dut.o.p
                    m.d[law] += [Assert(out.keep == value["keep"]), Assert(out.last == value["last"])]
                    with m.If(value["keep"] == 0):
                        m.d[law] += Assert(out["items"][0] == dut.probes - 1)
                    with m.Else():
                        m.d[law] += Assert(out["items"].as_value() == value["items"].as_value())
                m.d.sync += following.eq(~got)
        with m.Elif(due & self.follow):
            m.d.sync += [following.eq(1), before.eq(inside - got), kept.eq(expected.as_value())]
        return m
