"""What the merger must do, beside the merger itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Elaboratable, Fragment, Module, Signal
from amaranth.lib import wiring

from muntin.hw.bisort import layouts, merger
from tests.hw.formal.stream_law import law_domain, stream_law


class MergerProof(Elaboratable):
    """A merger with its rules, for any runs, offered and taken at any time.

    Parameters
    ----------
    key_bits, width : int
    rule : str
        ``"order"``: runs that are sorted and well formed come out sorted and well formed, by the stream law,
        and something moves as long as both inputs are offered and the output is taken. Row numbers have no
        bits here; the merger only carries them.

        ``"rows"``: what goes in comes out, once. Row numbers are one bit. The solver picks a run, and at most
        one row of each side of it whose bit is 0, which so stands for any row; rows of other runs may have any
        bit, and registers and memories start with 0, so that a row made of nothing would show.

        ``"reach"``: the picked run never comes out whole where each side had two beats or more. To be refuted:
        it shows that the depth is enough to see such runs.
        ``"again"``: no row of a second run is ever offered. To be refuted, too.
    stalls : bool
        Whether the streams may stall; where they may not, the solver gets further.
    """

    def __init__(self, *, key_bits: int, width: int, rule: str, stalls: bool = True):
        self._key_bits = key_bits
        self._width = width
        self._rule = rule
        self._stalls = stalls
        self._row_bits = int(rule == "rows")
        with mock.patch.object(layouts, "ROW_BITS", self._row_bits):
            self.dut = merger.Merger(key_bits=key_bits, width=width)
        self.second = Signal()  # which run is picked, the second or the first
        self.marked_key = Signal(key_bits)
        sides = (self.dut.older, self.dut.newer)
        self.ports = [signal for side in sides for signal in (side.payload.as_value(), side.valid)]
        self.ports += [self.dut.o.ready, self.second, self.marked_key]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        with (
            mock.patch.object(layouts, "ROW_BITS", self._row_bits),
            mock.patch.object(merger, "ROW_BITS", self._row_bits),
        ):
            m.submodules.dut = Fragment.get(self.dut, platform)  # and the parts below it
        if not self._stalls:
            m.d[law] += [Assume(flow) for flow in (self.dut.older.valid, self.dut.newer.valid, self.dut.o.ready)]
        began = Signal()
        picks = Cat(self.second, self.marked_key)
        first_picks = Signal.like(picks)
        m.d.sync += [began.eq(1), first_picks.eq(picks)]
        with m.If(began):
            m.d[law] += Assume(picks == first_picks)

        older = self._watch(m, law, self.dut.older, "older", given=True)
        newer = self._watch(m, law, self.dut.newer, "newer", given=True)
        out = self._watch(m, law, self.dut.o, "out", given=False)
        if self._rule == "reach":
            m.d[law] += Assert(~(out.over & older.long & newer.long))
            return m
        if self._rule == "again":
            m.d[law] += Assert(~((out.runs != 0) & self.dut.o.valid & self.dut.o.p.keep[0]))
            return m
        with m.If(out.over):
            m.d[law] += Assert(older.over & newer.over)
        if self._rule == "order":
            ports = (self.dut.older, self.dut.newer, self.dut.o)
            longest = 11 + 2 * (self._width - 1).bit_length()  # from the first beats to the first beat
            idle = Signal(range(longest + 2))
            moves = Cat(port.valid & port.ready for port in ports).any()
            with m.If(moves):
                m.d.sync += idle.eq(0)
            with m.Elif(Cat(self.dut.older.valid, self.dut.newer.valid, self.dut.o.ready).all() & (idle <= longest)):
                m.d.sync += idle.eq(idle + 1)
            m.d[law] += Assert(idle <= longest)
        if self._rule == "rows":
            marked = Signal(2)
            m.d.comb += marked.eq(older.marked + newer.marked)
            m.d[law] += Assert(out.marked <= marked)  # not before it went in, and once
            with m.If(out.over):
                m.d[law] += Assert(out.marked == marked)
        return m

    def _watch(self, m: Module, law: str, port: wiring.PureInterface, name: str, *, given: bool) -> _Watch:
        """Follows a stream; what holds for it is assumed of an input and asserted of the output."""
        width = self._width
        beat = port.payload
        watch = _Watch(name)
        begun = Signal(name=f"{name}_begun")
        previous = Signal(self._key_bits, name=f"{name}_previous")
        picked = watch.runs == self.second
        rules = [
            # Kept rows stand at the low end; only the last beat may have fewer than all, and none where the
            # run is empty.
            (beat.keep & (beat.keep + 1)) == 0,
            beat.last | beat.keep.all(),
            beat.keep[0] | (beat.last & ~begun),
        ]
        count = 0
        if self._rule == "rows":
            marks = [beat.keep[lane] & picked & ~beat.rows[lane].row for lane in range(width)]
            count = sum(marks)
            rules += [~marks[lane] | (beat.rows[lane].key == self.marked_key) for lane in range(width)]
            if given:
                rules.append(watch.marked + count <= 1)
        if given or self._rule == "order":
            keys = [previous, *(beat.rows[lane].key for lane in range(width))]
            rules.append(~beat.keep[0] | ~begun | (keys[0] <= keys[1]))
            rules += [~beat.keep[lane] | (keys[lane] <= keys[lane + 1]) for lane in range(1, width)]
        if given or self._rule == "order":
            stream_law(m, law, port, name, given=given)
        if given or self._rule in ("order", "rows"):
            claim = Assume if given else Assert
            with m.If(port.valid):
                m.d[law] += [claim(each) for each in rules]
        with m.If(port.valid & port.ready):
            m.d.sync += [begun.eq(~beat.last), previous.eq(beat.rows[width - 1].key)]
            with m.If(beat.last & (watch.runs != 2)):
                m.d.sync += watch.runs.eq(watch.runs + 1)
            with m.If(picked):
                m.d.sync += [
                    watch.marked.eq(watch.marked + count),
                    watch.long.eq(begun),
                    watch.over.eq(beat.last),
                ]
        return watch


class _Watch:
    """Runs that have passed, and of the picked run: the marked rows, and whether two beats, or all, have passed."""

    def __init__(self, name: str):
        self.runs = Signal(2, name=f"{name}_runs")  # two and more count as two
        self.marked = Signal(2, name=f"{name}_marked")
        self.long = Signal(name=f"{name}_long")
        self.over = Signal(name=f"{name}_over")
