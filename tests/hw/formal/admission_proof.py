"""What storage and processing of a nested loop must leave to one another, beside the nested loop itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

from amaranth.hdl import Assert, Assume, Elaboratable, Fragment, Module, Mux, Signal, signed

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.memory.quick_fifo import QuickFifo
from muntin.hw.splitjoin import nested_loop
from muntin.hw.splitjoin.layouts import Side
from muntin.hw.splitjoin.nested_loop import NestedLoop
from tests.hw.formal.command_law import command_law
from tests.hw.formal.stream_law import law_domain

_TIME_BITS = 1


class AdmissionProof(Elaboratable):
    """A nested loop's storage and probes, for any rows, offered at any time, and results taken at any time.

    The solver picks one probe to follow. Until it has read them, none of the rows that it is compared with is
    overwritten, nor is one written in the very cycle in which it is read. In a time window a row takes the place of
    one that was not dropped only where all places are taken and no probe is under way, and says so by `overflow`.

    A command at the input is as a region gives it (`command_law`). What memory and result FIFO hold is anything, so
    that in a time window any row may be dropped by any probe.

    Parameters
    ----------
    parameters : SplitJoinParameters
        With `time_bits` for a time window; times have one bit here.
    order : Order
    """

    def __init__(self, parameters: SplitJoinParameters, *, order: Order):
        self._timed = bool(parameters.time_bits)
        if self._timed:
            object.__setattr__(parameters, "time_bits", _TIME_BITS)
        self._parameters = parameters
        self._order = order
        self.dut = NestedLoop(parameters, side=Side.LEFT)
        self.probing = Signal()
        self.early = Signal()
        self.late = Signal()
        self.first = Signal(parameters.place_bits)
        self.full = Signal()
        self.follow = Signal()
        self.time = Signal(_TIME_BITS)
        self.times = Signal(_TIME_BITS * parameters.lanes)
        self.ports = [self.dut.i.valid, self.probing, self.early, self.late, self.first, self.full, self.follow]
        if self._timed:
            self.ports += [self.time, self.times]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        p, i = self._parameters, self.dut.i
        rows, lanes, place_bits = p.rows, p.lanes, p.place_bits
        lane_bits = lanes.bit_length() - 1
        inside = self._dut(m, platform)
        stored, store, load, go, active = (inside[name] for name in ("stored", "store", "load", "go", "active"))
        queue, taken, at, ending = (inside[name] for name in ("queue", "taken", "at", "ending"))
        m.d.comb += self.dut.settings.order.eq(self._order)
        if self._timed:
            m.d.comb += self.dut.settings.timed.eq(1)

        # The commands, once what places are at first has passed.
        cycle = Signal(range(5))
        span = (stored - self.first)[:place_bits]
        m.d.comb += [
            i.p.probing.eq(self.probing),
            i.p.early.eq(self.early),
            i.p.late.eq(self.late),
            i.p.first.eq(self.first),
            i.p.stop.eq(stored),
            i.p.empty.eq(span == 0),
        ]
        if self._timed:
            m.d.comb += i.p.time.eq(self.time)
        m.d.sync += cycle.eq(cycle + (cycle != 4))
        m.d[law] += Assume((cycle == 4) | ~i.valid)
        command_law(m, law, i, stored, store, rows=rows, given=True)

        # What storage asks by lies at most three rows further behind than a window can: places are told apart that far.
        behind = (inside["before_first"] + 1)[:place_bits]
        m.d[law] += Assert((cycle != 4) | (behind <= rows + 3))

        # A time window: rows from the oldest on that was not dropped.
        extent = span
        if self._timed:
            oldest, last_oldest = inside["oldest"], Signal(place_bits)
            last_extent, dropped = Signal(range(rows + 2)), Signal(place_bits)
            extent = Signal(range(rows + 2))
            m.d.comb += [dropped.eq(oldest - last_oldest), extent.eq(last_extent - dropped)]
            m.d.sync += [last_oldest.eq(oldest), last_extent.eq(extent + store)]
            m.d[law] += [Assert(dropped <= last_extent), Assert(extent <= rows)]
            with m.If(store):
                m.d[law] += Assert(inside["drops"] == (extent == rows))
                with m.If(inside["drops"]):
                    m.d[law] += Assert(~inside["moving"])
            told = Signal()
            m.d.sync += told.eq(told | (store & inside["drops"]))
            m.d[law] += Assert(self.dut.overflow == told)

        # The probe that is followed: how many are loaded before it, how many rows were stored since it came, and,
        # counted back from there, its window's first row and the word that is read.
        comes, early = Signal(), Signal()
        following, reading = Signal(), Signal()
        before = Signal(range(p.probe_rows + 2))
        since = Signal(range(rows + 1))
        window, base = Signal(range(rows + 1)), Signal(range(rows + lanes + 1))
        needs = Signal(range(rows + 1))
        word = Signal(signed((2 * rows + 4 * lanes).bit_length() + 1))
        stop = Signal(place_bits)
        m.d.comb += [
            comes.eq(i.valid & i.ready & i.p.probing),
            early.eq(self.early if self._order == Order.INNER else 0),
            needs.eq(window),
        ]
        below = _low(i.p.first - early, lane_bits)
        with m.If(following):
            with m.If(store & (since != rows)):
                m.d.sync += since.eq(since + 1)
            with m.If(~reading):
                m.d.sync += [before.eq(before - load), reading.eq(load & (before == 0)), word.eq(-base)]
                if self._timed:
                    m.d.comb += needs.eq(Mux(since < extent, extent - since, 0))
                    m.d.sync += window.eq(needs)
                    if self._order != Order.INNER:
                        m.d.sync += word.eq(since - extent - _low(inside["oldest"], lane_bits))
            with m.Elif(go):
                m.d.sync += word.eq(word + lanes)
                with m.If(ending):
                    m.d.sync += [following.eq(0), reading.eq(0)]
        with m.Elif(comes & self.follow):
            m.d.sync += [
                following.eq(1),
                before.eq(queue.w_level + taken - load),
                since.eq(0),
                window.eq(span),
                base.eq(span + early + below),
                stop.eq(stored),
            ]
        overwritten = Signal(signed(rows.bit_length() + 2))
        m.d.comb += overwritten.eq(since - rows)
        needed = (overwritten < 0) & (overwritten + needs >= 0) & (~reading | (overwritten >= word))
        m.d[law] += Assert(~(following & store & needed))
        with m.If(following & reading):
            m.d[law] += [Assert(active), Assert((at << lane_bits)[:place_bits] == (stop + word)[:place_bits])]
        return m

    def _dut(self, m: Module, platform: object) -> dict[str, Any]:
        """Makes the nested loop with anything in its memories; gives its signals by name."""
        p = self._parameters
        queue = QuickFifo

        def fifo(**size: int) -> object:
            if size["depth"] == p.probe_rows:
                return queue(**size)
            found = SimpleNamespace(w_data=Signal(size["width"]), r_data=Signal(size["width"]), w_en=Signal())
            found.r_en, found.r_rdy = Signal(), Signal()
            found.filled = self.full.replicate(size["depth"])
            return _Nothing(found)

        times = iter(self.times[at * _TIME_BITS :][:_TIME_BITS] for at in range(p.lanes))

        def ring(*, shape: int, **size: object) -> object:
            data = next(times) if shape == _TIME_BITS else Signal(shape)
            port = SimpleNamespace(addr=Signal(p.place_bits), data=data, en=Signal())
            writer = SimpleNamespace(addr=Signal(p.place_bits), data=Signal(shape), en=Signal())
            return _Nothing(SimpleNamespace(write_port=lambda: writer, read_port=lambda: port))

        with (
            mock.patch.object(nested_loop, "QuickFifo", fifo),
            mock.patch.object(nested_loop, "memory", SimpleNamespace(Memory=ring)),
            _inside(type(self.dut)) as inside,
        ):
            m.submodules.dut = Fragment.get(self.dut, platform)
        return inside


class _Nothing(Elaboratable):
    """A part that is left out, with its ports."""

    def __init__(self, ports: SimpleNamespace):
        self.__dict__.update(ports.__dict__)

    def elaborate(self, platform: object) -> Module:
        return Module()


def _low(value: Any, bits: int) -> Any:
    return value[:bits] if bits else 0


@contextmanager
def _inside(component: type) -> Iterator[dict[str, Any]]:
    """Gives what the local names of a component's `elaborate` stand for, once it was called."""
    names: dict[str, Any] = {}
    code = component.elaborate.__code__  # type: ignore[attr-defined]

    def seen(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is code:
            names.update(frame.f_locals)

    sys.setprofile(seen)
    try:
        yield names
    finally:
        sys.setprofile(None)
