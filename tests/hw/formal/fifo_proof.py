"""What a FIFO must do, beside the FIFO itself."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Assert, Elaboratable, Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from tests.hw.formal.stream_law import law_domain, stream_law


class LibraryFifo(wiring.Component):
    """A FIFO of Amaranth's library between two streams of one bit, which stands for all bits of its width.

    It is written only while it is ready.
    """

    def __init__(self, kind: Callable[..., fifo.FIFOInterface], *, depth: int):
        self._kind = kind
        self.depth = depth
        super().__init__({"i": In(stream.Signature(1)), "o": Out(stream.Signature(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = queue = self._kind(width=1, depth=self.depth)
        m.d.comb += [
            queue.w_data.eq(self.i.payload),
            queue.w_en.eq(self.i.valid & queue.w_rdy),
            self.i.ready.eq(queue.w_rdy),
        ]
        wiring.connect(m, queue.r_stream, wiring.flipped(self.o))
        return m


class NoFifo(fifo.FIFOInterface, Elaboratable):
    """Stands for a FIFO at the end of a block, which is proved by itself: what is written is read in the same cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.r_data.eq(self.w_data), self.r_rdy.eq(self.w_en), self.w_rdy.eq(self.r_en)]
        return m


class FifoProof(Elaboratable):
    """A FIFO with its rules, for any payloads, offered and taken at any time.

    The solver picks one payload to follow: it comes out, unchanged, when just the payloads before it have come
    out. As it may be any, none is lost, doubled or overtaken.

    Parameters
    ----------
    dut : LibraryFifo
    """

    def __init__(self, dut: LibraryFifo):
        self.dut = dut
        self._room = dut.depth
        self.follow = Signal()
        self.ports = [self.dut.i.payload, self.dut.i.valid, self.dut.o.ready, self.follow]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        m.submodules.dut = dut = self.dut
        put, got = Signal(), Signal()
        m.d.comb += [put.eq(dut.i.valid & dut.i.ready), got.eq(dut.o.valid & dut.o.ready)]

        inside = Signal(range(self._room + 1))
        m.d.sync += inside.eq(inside + put - got)
        m.d[law] += [Assert(inside <= self._room), Assert((inside != 0) | ~dut.o.valid)]
        stream_law(m, law, dut.o, "o", given=False)
        following = Signal()
        payload = Signal()
        before = Signal(range(self._room + 1))
        with m.If(following):
            m.d.sync += before.eq(before - got)
            with m.If(before == 0):
                with m.If(dut.o.valid):
                    m.d[law] += Assert(dut.o.payload == payload)
                m.d.sync += following.eq(~got)
        with m.Elif(put & self.follow):
            m.d.sync += [following.eq(1), payload.eq(dut.i.payload), before.eq(inside - got)]
        return m
