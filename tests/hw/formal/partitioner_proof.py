"""What a partitioner must do, beside the partitioner itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

from amaranth.hdl import Array, Assert, Assume, Elaboratable, Fragment, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from muntin.hw.bisort import layouts, partitioner
from muntin.hw.bisort.partitioner import Partitioner
from tests.hw.formal.stream_law import law_domain, stream_law

_PLACES = 2


class PartitionerProof(Elaboratable):
    """A partitioner, for any index anywhere in its memory and any ascending bounds, offered and taken at any time.

    Entries are put in their places as they come; what is put there is read from there, which is left to the memory.
    What it holds is picked by the solver, and stands while bounds are looked for. Each answer comes a cycle after its
    bound was taken and counts the entries below, and a bound is taken within the cycles that are documented.

    Parameters
    ----------
    key_bits, index_rows, index_width : int
        As of the partitioner.
    """

    def __init__(self, *, key_bits: int, index_rows: int, index_width: int):
        self._key_bits, self._rows, self._width = key_bits, index_rows, index_width
        with mock.patch.object(layouts, "RUN_PLACES", _PLACES):
            self.dut = Partitioner(key_bits=key_bits, index_rows=index_rows, index_width=index_width)
        dut = self.dut
        self.content = Signal(key_bits * index_rows)
        self.ports = [
            *(signal for port in (dut.i, dut.index) for signal in (port.payload.as_value(), port.valid)),
            *(dut.to, dut.run.as_value(), dut.base, dut.entries, dut.o.ready, self.content),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        dut, rows, width = self.dut, self._rows, self._width
        bits = exact_log2(width)
        keys = [self.content[at * self._key_bits :][: self._key_bits] for at in range(rows)]
        writers: list[Any] = []
        self._dut(m, platform, keys, writers)
        stream_law(m, law, dut.i, "i", given=True)
        stream_law(m, law, dut.index, "index", given=True)
        stream_law(m, law, dut.o, "o", given=False)

        # An index: entries go to one place after the other, until there is no more room.
        put, kept, more = Signal(), Signal(), Signal()
        count = Signal(range(rows + 2))
        lost, over, loading = Signal(), Signal(), Signal()
        to = Signal.like(dut.to)
        place = Signal(range(2 * rows + 2))
        m.d.comb += [
            put.eq(dut.index.valid & dut.index.ready),
            place.eq(dut.to + count),
            kept.eq(put & dut.index.p.keep[0]),
            more.eq(kept & (place < rows)),
            lost.eq(kept & (place >= rows)),
        ]
        m.d.sync += [to.eq(dut.to), loading.eq((loading | dut.index.valid) & ~(put & dut.index.p.last))]
        with m.If(put):
            m.d.sync += count.eq(Mux(dut.index.p.last, 0, count + more))
            m.d.sync += over.eq(lost | (over & (count != 0)))
        m.d[law] += [
            Assume(~loading | (dut.to == to)),
            Assume(~dut.index.valid | dut.index.p.keep[0]),
            Assert(dut.loaded == (put & dut.index.p.last)),
            Assert(dut.overflow == over),
        ]
        for column, writer in enumerate(writers):
            m.d[law] += Assert(writer.en == (more & (place[:bits] == column)))
            with m.If(writer.en):
                m.d[law] += [Assert(writer.addr == place >> bits), Assert(writer.data == dut.index.p.keys[0])]

        # Bounds: batches that ascend, each in the index of one run.
        item, taken = dut.i.p, Signal()
        searching, within = Signal(), Signal()
        last_bound = Signal.like(item.below)
        run = Signal.like(dut.run.as_value())
        base, entries = Signal.like(dut.base), Signal.like(dut.entries)
        was = Signal.like(self.content)
        m.d.comb += taken.eq(dut.i.valid & dut.i.ready)
        m.d.sync += [
            searching.eq((searching | dut.i.valid) & ~(taken & item.last)),
            run.eq(dut.run.as_value()),
            base.eq(dut.base),
            entries.eq(dut.entries),
            was.eq(self.content),
        ]
        settled = Signal()  # the second cycle of the batch is over
        m.d.sync += settled.eq(searching & ~(taken & item.last))
        with m.If(taken):
            m.d.sync += [last_bound.eq(item.below), within.eq(~item.last)]
        with m.If(dut.i.valid):
            m.d[law] += [
                Assume(item.below <= (1 << self._key_bits)),
                Assume(~within | (last_bound <= item.below)),
            ]
        m.d[law] += Assume(~searching | (dut.run.as_value() == run))
        with m.If(searching):
            own = [(at >= dut.base) & (at < dut.base + dut.entries) for at in range(rows)]
            m.d[law] += [
                Assume((dut.entries != 0) & (dut.base + dut.entries <= rows)),
                *(Assume(~(own[at] & own[at - 1]) | (keys[at - 1] <= keys[at])) for at in range(1, rows)),
            ]
        with m.If(settled):
            m.d[law] += [Assume(dut.base == base), Assume(dut.entries == entries), Assume(self.content == was)]

        # Answers.
        below = Signal(range(rows + 1))
        m.d.comb += below.eq(
            sum((at >= dut.base) & (at < dut.base + dut.entries) & (keys[at] < item.below) for at in range(rows))
        )
        valid, expected = Signal(), Signal.like(dut.o.payload)
        m.d.sync += valid.eq(taken | (valid & ~dut.o.ready))
        with m.If(taken):
            m.d.sync += [
                expected.bound.eq(dut.i.payload),
                expected.run.eq(dut.run),
                expected.partition.eq(below - 1),
                expected.hit.eq(below != 0),
            ]
        m.d[law] += [Assert(dut.o.valid == valid), Assert(~taken | ~valid | dut.o.ready)]
        with m.If(valid):
            m.d[law] += [
                Assert(dut.o.p.bound == expected.bound),
                Assert(dut.o.p.run == expected.run),
                Assert(dut.o.p.hit == expected.hit),
                Assert(~expected.hit | (dut.o.p.partition == expected.partition)),
            ]

        self._timing(m, law, taken, loading)
        return m

    def _timing(self, m: Module, law: str, taken: Value, loading: Value) -> None:
        """A bound is taken at most so many cycles after it was offered, and there was room for its answer."""
        dut = self.dut
        words = self._rows // self._width
        longest = max(2 * 2, 6 * ((words - 1).bit_length() - 1) + 12) + 4
        idle = Signal(range(longest + 2))
        with m.If(taken | ~dut.i.valid | (dut.o.valid & ~dut.o.ready) | dut.index.valid | loading):
            m.d.sync += idle.eq(0)
        with m.Elif(idle <= longest):
            m.d.sync += idle.eq(idle + 1)
        m.d[law] += Assert(idle <= longest)

    def _dut(self, m: Module, platform: object, keys: list[Value], writers: list[Any]) -> None:
        """Makes the partitioner with that content in its memory, and notes the ports that it is written by."""
        width = self._width

        class Column(Elaboratable):
            def __init__(self, *, shape: int, depth: int, init: list[int]):
                self._keys = Array(keys[len(writers) :: width])
                self._reader = SimpleNamespace(addr=Signal(range(depth)), data=Signal(shape), en=Signal())
                writers.append(SimpleNamespace(addr=Signal(range(depth)), data=Signal(shape), en=Signal()))
                self._writer = writers[-1]

            def write_port(self) -> Any:
                return self._writer

            def read_port(self) -> Any:
                return self._reader

            def elaborate(self, platform: object) -> Module:
                m = Module()
                address = Signal.like(self._reader.addr)
                m.d.sync += address.eq(self._reader.addr)
                m.d.comb += self._reader.data.eq(self._keys[address])
                return m

        with mock.patch.object(partitioner, "memory", SimpleNamespace(Memory=Column)):
            m.submodules.dut = Fragment.get(self.dut, platform)
