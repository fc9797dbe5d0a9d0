"""What the FIFO behind the merger's network must do, beside the FIFO itself."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

from amaranth.hdl import Array, Assert, Cat, Elaboratable, Fragment, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import memory

from muntin.hw.bisort import layouts, merger
from tests.hw.formal.stream_law import law_domain

_ADDRESSES = merger._DEPTH - 1
"""Places of the FIFO's memory that are used: the successors of an address come round to it after so many."""


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
        with mock.patch.object(layouts, "ROW_BITS", 1), mock.patch.object(merger, "ROW_BITS", 1):
            self.dut = merger._Output(1, width)
        self.offer = Signal()
        self.follow = Signal()
        self.ports = [self.dut.rows[0], self.offer, self.dut.ready, self.follow]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        own: dict[str, Signal] = {}  # the FIFO's own registers
        lanes: list[_WatchedMemory] = []

        def signal(*arguments: object, **options: object) -> Signal:
            made = Signal(*arguments, **options, src_loc_at=1)
            return own.setdefault(made.name, made)

        def lane(**options: object) -> _WatchedMemory:
            lanes.append(_WatchedMemory(**options))
            return lanes[-1]

        names = {"ROW_BITS": 1, "Signal": signal, "memory": SimpleNamespace(Memory=lane)}
        with mock.patch.dict(type(self.dut).elaborate.__globals__, names):
            m.submodules.dut = Fragment.get(self.dut, platform)
        dut = self.dut

        # A step, what it chose, and two stages for each level of the network (W = 1: one in all).
        way = Signal(2 + max(2 * (self._width - 1).bit_length(), 1))
        write = Signal()
        m.d.sync += way.eq(Cat(dut.calm, way))
        m.d.comb += [write.eq(self.offer & way[-1]), dut.write.eq(write)]

        # A FIFO of the same timing, without its memory: what it holds can be taken from two cycles after its writing.
        inside = Signal(range(merger._DEPTH))
        some, take, valid = Signal(), Signal(), Signal()
        m.d.comb += take.eq(some & (~valid | dut.ready))
        m.d.sync += [
            inside.eq(inside + write - take),
            some.eq(inside != take),
            valid.eq(take | (valid & ~dut.ready)),
        ]
        m.d[law] += [
            Assert(dut.valid == valid),
            Assert(own["some"] == some),
            Assert(own["level"] == inside),
            Assert(~some | (inside != 0)),
        ]

        # There is room for whatever may still come; said for each age of the youngest, so that it proves itself.
        coming = Cat(dut.calm, way)
        for age in range(len(coming)):
            with m.If(coming[age]):
                m.d[law] += Assert(inside + sum(coming[at] for at in range(age, len(coming))) <= _ADDRESSES)

        # The beat that is followed is offered when all before it were, stands still, and is offered once. Where it lies
        # is said again by addresses, which are taken in the order in which they were written: so every rule follows
        # from what held a cycle ago.
        at = Signal(merger._ADDRESS_BITS, init=1)
        write_at, read_at, kept = own["write_at"], own["read_at"], lanes[0].watch
        m.d.comb += kept.addr.eq(at)
        m.d[law] += [Assert(address != 0) for address in (write_at, read_at, at)]
        m.d[law] += Assert(_distance(read_at, write_at) == Array([*range(_ADDRESSES), 0])[inside])
        waits, shown = Signal(), Signal()
        before = Signal.like(inside)
        value = Signal()
        with m.If(waits):
            m.d[law] += [
                Assert(before < inside),
                Assert(_distance(read_at, at) == before),
                Assert(kept.data[0] == value),
            ]
            m.d.sync += before.eq(before - take)
            with m.If(take & (before == 0)):
                m.d.sync += [waits.eq(0), shown.eq(1)]
        with m.Elif(shown):
            m.d[law] += [Assert(dut.valid), Assert(dut.payload.rows[0].row == value)]
            with m.If(dut.ready):
                m.d.sync += shown.eq(0)
        with m.Elif(write & self.follow):
            m.d.sync += [waits.eq(1), before.eq(inside - take), at.eq(write_at), value.eq(dut.rows[0])]
        return m


class _WatchedMemory(memory.Memory):
    """A memory with one more port to look at it."""

    def __init__(self, **options: object):
        super().__init__(**options)
        self.watch = self.read_port(domain="comb")


def _distance(first: Value, last: Value) -> ValueLike:
    """How many addresses after one the other one comes."""
    numbers = [0] * merger._DEPTH
    address = 1
    for number in range(_ADDRESSES):
        numbers[address] = number
        address = (address << 1 | (address >> 3 ^ address >> 2) & 1) % merger._DEPTH
    ahead = Array(numbers)[last] - Array(numbers)[first]
    return Mux(ahead < 0, ahead + _ADDRESSES, ahead)
