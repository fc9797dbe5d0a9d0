"""Finds the partition of each bound in the index on chip."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.bisort.layouts import bound_layout, key_beat, partitioned_bound


class Partitioner(wiring.Component):
    """Holds the indexes of runs and searches one for a batch of ascending bounds.

    The search starts where the one before ended: it steps forward by 1, 2, 4, ... entries until it has passed
    the bound, then halves the gap.

    Parameters
    ----------
    key_bits : int
    index_rows : int
        Entries of all indexes together that there is room for, a power of two.

    Attributes
    ----------
    index : In(stream of key_beat, one key wide)
        The index of a run; unless `reuse`, it is taken before the batch of bounds.
    base : In(range(index_rows))
        Where the index stands, or is put.
    reuse : In(1)
        1: the index stands there already, and none is taken.
    entries : In(range(index_rows + 1))
        Its length, where `reuse` is set. `base`, `reuse` and `entries` stand still during a batch.
    i : In(stream of bound_layout)
        Ascending.
    o : Out(stream of partitioned_bound)
        In the same order.
    overflow : Out(1)
        The index had more entries than there is room for behind `base`, and what was found is wrong; until the next
        index.

    Timing
    ------
    An entry of the index a cycle. A bound in the same partition as the one before: one a cycle, one cycle
    later. One that is d partitions further: at most `4 * floor(log2(d)) + 3` cycles more.

    Source
    ------
    PanJoin, section IV (partitioners) and section III-E (rebounding binary search).
    """

    def __init__(self, *, key_bits: int, index_rows: int):
        self._key_bits = key_bits
        self._index_rows = index_rows
        super().__init__(
            {
                "index": In(stream.Signature(key_beat(key_bits, 1))),
                "base": In(range(self._index_rows)),
                "reuse": In(1),
                "entries": In(range(self._index_rows + 1)),
                "i": In(stream.Signature(bound_layout(key_bits))),
                "o": Out(stream.Signature(partitioned_bound(key_bits, index_rows))),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        store = memory.Memory(shape=self._key_bits, depth=self._index_rows, init=[])
        m.submodules.store = store
        writer, reader = store.write_port(), store.read_port()

        length = Signal(range(self._index_rows + 1))
        low = Signal(range(self._index_rows + 1))  # entries known to lie below the bound
        high = Signal(range(2 * self._index_rows + 1))  # the first entry known not to
        high_key = Signal(self._key_bits)
        step = Signal(range(2 * self._index_rows + 1))
        forward = Signal()
        place = Signal(range(2 * self._index_rows + 1))  # of the entry that is looked at
        free = Signal()
        below = Signal()  # the entry at `high` is below the bound
        bound = self.i.p.below
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            writer.addr.eq(self.base + length),
            writer.data.eq(self.index.p.keys[0]),
            below.eq((high != length) & (bound[-1] | (high_key < bound[:-1]))),
            reader.en.eq(1),
            reader.addr.eq(self.base + place),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM():
            with m.State("FIRST"):
                m.d.comb += place.eq(0)
                with m.If(self.i.valid & self.reuse):
                    m.d.sync += [length.eq(self.entries), self.overflow.eq(0)]
                    m.next = "RELOAD"
                with m.Elif(self.index.valid & ~self.reuse):
                    m.d.sync += length.eq(0)
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += [
                    self.index.ready.eq(1),
                    writer.en.eq(self.index.valid & self.index.p.keep[0] & (self.base + length != self._index_rows)),
                ]
                with m.If(self.index.valid):
                    with m.If(length == 0):
                        m.d.sync += self.overflow.eq(0)
                    with m.If(writer.en):
                        m.d.sync += length.eq(length + 1)
                        with m.If(length == 0):
                            m.d.sync += high_key.eq(self.index.p.keys[0])
                    with m.Elif(self.index.p.keep[0]):
                        m.d.sync += self.overflow.eq(1)
                    with m.If(self.index.p.last):
                        m.next = "SEARCH"
            with m.State("SEARCH"), m.If(self.i.valid & free):
                with m.If(below):
                    m.d.sync += [low.eq(high), step.eq(1), forward.eq(1)]
                    m.next = "READ"
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += [
                        self.o.valid.eq(1),
                        self.o.p.bound.eq(self.i.payload),
                        self.o.p.partition.eq(high - 1),
                        self.o.p.hit.eq(high != 0),
                    ]
                    with m.If(self.i.p.last):
                        m.d.sync += high.eq(0)
                        m.next = "FIRST"
            with m.State("READ"):
                m.d.comb += place.eq(Mux(forward, low + step, (low + high) >> 1))
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += place.eq(Mux(forward, low + step, (low + high) >> 1))
                with m.If((place < length) & (bound[-1] | (reader.data < bound[:-1]))):
                    m.d.sync += low.eq(place)
                    with m.If(forward):
                        m.d.sync += step.eq(step << 1)
                    m.next = "READ"
                    with m.If(~forward & (place + 1 == high)):
                        m.next = "SEARCH"
                with m.Else():
                    m.d.sync += [high.eq(Mux(place < length, place, length)), forward.eq(0)]
                    with m.If(place < length):
                        m.d.sync += high_key.eq(reader.data)
                    m.next = "READ"
                    with m.If(Mux(place < length, place, length) == low + 1):
                        m.next = "SEARCH"
            with m.State("RELOAD"):
                m.d.sync += high_key.eq(reader.data)
                m.next = "SEARCH"
        return m
