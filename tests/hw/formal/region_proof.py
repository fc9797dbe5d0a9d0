"""What a region asks of its sub-window, beside the region itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Assume, Elaboratable, Fragment, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.memory.quick_fifo import QuickFifo
from muntin.hw.splitjoin import region
from muntin.hw.splitjoin.layouts import Side
from muntin.hw.splitjoin.region import Region
from muntin.hw.splitjoin.sub_window import SubWindowSignature
from tests.hw.formal.command_law import command_law
from tests.hw.formal.stream_law import law_domain


class _Fifo(wiring.Component):
    """Two rows that wait, with word of the room at once."""

    def __init__(self, shape: StructLayout, *, way: int, eager: bool):
        self._shape, self._eager = shape, eager
        super().__init__(
            {
                "i": In(stream.Signature(shape, always_ready=True)),
                "o": Out(stream.Signature(shape)),
                "room": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.items = items = QuickFifo(width=self._shape.size, depth=2, sure=True, eager=self._eager)
        m.d.comb += [
            items.w_data.eq(self.i.payload),
            items.w_en.eq(self.i.valid),
            self.o.payload.eq(items.r_data),
            self.o.valid.eq(items.r_rdy),
            items.r_en.eq(self.o.ready),
            self.room.eq(items.w_rdy),
        ]
        return m


class _SubWindow(wiring.Component):
    """Takes a command whenever it likes."""

    def __init__(self, parameters: SplitJoinParameters, *, side: Side):
        super().__init__(SubWindowSignature(parameters))
        self.takes = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.i.ready.eq(~self.i.valid | self.takes)
        return m


class RegionProof(Elaboratable):
    """A region with the law of its commands, for any rows of both streams, at any time, and windows of any length.

    Two rows wait before the sub-window here, and further ones come as soon as there is room; in the region itself more.

    Parameters
    ----------
    parameters : SplitJoinParameters
    index : int
        The core.
    """

    def __init__(self, parameters: SplitJoinParameters, *, index: int):
        self._parameters = parameters
        made: list[_SubWindow] = []

        def sub_window(parameters: SplitJoinParameters, *, side: Side) -> _SubWindow:
            made.append(_SubWindow(parameters, side=side))
            return made[-1]

        self.dut = Region(parameters, index=index, side=Side.LEFT, sub_window=sub_window)
        self._made = made
        self.takes = Signal()
        self.length = Signal(range(parameters.capacity + 1))
        self.ports = [self.dut.probes, self.dut.counts, self.dut.arrives, self.takes, self.length]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        p, dut = self._parameters, self.dut

        with mock.patch.object(region, "AlmostFullFifo", _Fifo):
            m.submodules.dut = Fragment.get(dut, platform)
        sub = self._made[-1]
        last_length = Signal.like(self.length)
        cycle = Signal(2)
        m.d.comb += [sub.takes.eq(self.takes), dut.settings.left_rows.eq(self.length)]
        own = dut.counts | dut.arrives
        m.d.sync += [last_length.eq(self.length), cycle.eq(cycle + (cycle != 3))]
        m.d[law] += [
            Assume(self.length <= p.capacity),
            Assume((cycle == 0) | (self.length == last_length)),
            # The length is set two cycles before the first row.
            Assume((cycle > 1) | ~(dut.probes | own)),
            Assume(dut.room | ~(dut.probes | own)),
            Assume(~(dut.probes & own)),
        ]
        stored = Signal(p.place_bits)
        store = sub.i.valid & sub.i.ready & ~sub.i.p.probing
        m.d.sync += stored.eq(stored + store)
        command_law(m, law, sub.i, stored, store, rows=p.rows, given=False)
        return m
