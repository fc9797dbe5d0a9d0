"""Adds up the counts of a probe's ranges."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract.designs.bisort import ROW_BITS
from muntin.hw.bisort.layouts import count_layout, item_beat


class CountAdder(wiring.Component):
    """Makes one count for each probe of those of its ranges, of which it may have none.

    Parameters
    ----------
    probe_rows : int
        Probes that go through the runs together, a power of two.

    Attributes
    ----------
    probes : In(32)
        Of all a batch; is stable while it passes.
    i : In(stream of count_layout)
        Those of `probe_rows` probes, in any order and any number, before those of the next ones.
    o : Out(stream of item_beat of one word)
        A count for every probe, in order, modulo 2**32.

    Timing
    ------
    A count a cycle on either side, but not on both at once. After a reset nothing is taken for `probe_rows` cycles.

    Source
    ------
    Ours.
    """

    def __init__(self, *, probe_rows: int):
        self._probe_rows = probe_rows
        super().__init__(
            {
                "probes": In(ROW_BITS),
                "i": In(stream.Signature(count_layout())),
                "o": Out(stream.Signature(item_beat(ROW_BITS, 1))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._probe_rows
        bits = exact_log2(rows)
        store = memory.Memory(shape=ROW_BITS, depth=max(rows, 2), init=[])
        m.submodules.store = store
        writer = store.write_port()
        reader = store.read_port()

        group = Signal(ROW_BITS - bits)  # of the probes whose counts are added
        at = Signal(range(rows + 1))
        probe, ended = Signal(ROW_BITS), Signal()
        here = Signal()
        adding, clearing = Signal(), Signal()  # what the writer does
        place, count = Signal(range(max(rows, 2))), Signal(ROW_BITS)
        met, written = Signal(), Signal(ROW_BITS)  # a read that meets a write has what is written
        total = Signal(ROW_BITS)
        m.d.comb += [
            here.eq(self.i.p.probe[bits:] == group),
            probe.eq(Cat(at[:bits], group)),
            writer.en.eq(adding | clearing),
            writer.addr.eq(place),
            total.eq(Mux(met, written, reader.data)),
            writer.data.eq(Mux(adding, total + count, 0)),
            reader.en.eq(0),
            self.o.p.items[0].eq(total),
            self.o.p.keep.eq(1),
        ]
        m.d.sync += [adding.eq(0), clearing.eq(0)]
        with m.If(reader.en):
            m.d.sync += [met.eq(writer.en & (writer.addr == reader.addr)), written.eq(writer.data)]
        with m.FSM():
            with m.State("CLEAR"):
                m.d.sync += [clearing.eq(1), place.eq(at), at.eq(at + 1)]
                with m.If(at == rows - 1):
                    m.d.sync += at.eq(0)
                    m.next = "ADD"
            with m.State("ADD"):
                m.d.comb += [self.i.ready.eq(here), reader.en.eq(1), reader.addr.eq(self.i.p.probe[:bits])]
                with m.If(self.i.valid & here):
                    m.d.sync += [
                        adding.eq(1),
                        place.eq(self.i.p.probe[:bits]),
                        count.eq(self.i.p.count),
                        ended.eq(self.i.p.last),
                    ]
                with m.If(self.i.valid & (~here | self.i.p.last)):
                    m.next = "GIVE"
            with m.State("GIVE"):
                enable = Signal()
                m.d.comb += [enable.eq(~self.o.valid | self.o.ready), reader.en.eq(enable), reader.addr.eq(at[:bits])]
                with m.If(enable):
                    m.d.sync += [
                        self.o.valid.eq(1),
                        self.o.p.last.eq(probe == self.probes - 1),
                        clearing.eq(1),
                        place.eq(at),
                        at.eq(at + 1),
                    ]
                    with m.If((at == rows - 1) | (probe == self.probes - 1)):
                        m.next = "NEXT"
            with m.State("NEXT"), m.If(self.o.ready):
                m.d.sync += [self.o.valid.eq(0), at.eq(0), group.eq(group + 1)]
                m.next = "ADD"
                with m.If(ended):
                    m.next = "GIVE"
                with m.If(self.o.p.last):
                    m.d.sync += [group.eq(0), ended.eq(0)]
                    m.next = "ADD"
        return m
