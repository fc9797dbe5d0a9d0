"""What a prober must do, beside the prober itself."""

from __future__ import annotations

from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Elaboratable, Fragment, Module, Mux, Signal, Value
from amaranth.lib import fifo

from muntin.hw.bisort import layouts, prober
from muntin.hw.bisort.prober import Prober
from tests.hw.formal.fifo_proof import NoFifo
from tests.hw.formal.stream_law import law_domain, stream_law

_PLACES = 2


class ProberProof(Elaboratable):
    """A prober, for any batches of ascending bounds and any runs, offered, served and taken at any time.

    Each partition that a batch touches is asked for once, in order, and the memory gives its keys in the order asked.
    The solver picks one partition and what it holds, and one of the bounds that fall into it, or one that hits none:
    its answer comes in its turn, and counts the keys below it. The FIFO at the end is left out, and so is what a
    `BlockFifo` has behind its block.

    Parameters
    ----------
    key_bits, width, partition_log2, index_rows, bound_rows : int
        As of the prober.
    """

    def __init__(self, *, key_bits: int, width: int, partition_log2: int, index_rows: int, bound_rows: int):
        self._key_bits, self._width = key_bits, width
        self._log2 = partition_log2
        self._beats = (1 << partition_log2) // width
        self._bound_rows = bound_rows
        with mock.patch.object(layouts, "RUN_PLACES", _PLACES):
            self.dut = Prober(
                key_bits=key_bits,
                width=width,
                partition_log2=partition_log2,
                index_rows=index_rows,
                bound_rows=bound_rows,
            )
        dut = self.dut
        self.content = Signal(key_bits << partition_log2)
        self.size = Signal(range((1 << partition_log2) + 1))
        self.pick = Signal()
        self.follow = Signal()
        self.ports = [
            *(signal for port in (dut.i, dut.keys) for signal in (port.payload.as_value(), port.valid)),
            *(dut.request.ready, dut.o.ready, self.content, self.size, self.pick, self.follow),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        with (
            mock.patch.object(prober, "QuickFifo", NoFifo),
            mock.patch.object(prober, "BlockFifo", fifo.SyncFIFOBuffered),
        ):
            m.submodules.dut = Fragment.get(self.dut, platform)
        dut, width, beats = self.dut, self._width, self._beats
        stream_law(m, law, dut.i, "i", given=True)
        stream_law(m, law, dut.keys, "keys", given=True)
        stream_law(m, law, dut.request, "request", given=False)
        stream_law(m, law, dut.o, "o", given=False)

        # What the partition that is picked holds stands from the beginning.
        keys = [self.content[at * self._key_bits :][: self._key_bits] for at in range(1 << self._log2)]
        began, was = Signal(), Signal(len(self.content) + len(self.size))
        m.d.sync += [began.eq(1), was.eq(Cat(self.content, self.size))]
        m.d[law] += [
            Assume(~began | (Cat(self.content, self.size) == was)),
            Assume((self.size != 0) & (self.size <= len(keys))),
            *(Assume((at >= self.size) | (keys[at - 1] <= keys[at])) for at in range(1, len(keys))),
        ]

        # Bounds: in a batch, which is for one run, they ascend, and so do their partitions.
        item = dut.i.p
        put, within = Signal(), Signal()
        last_item = Signal.like(dut.i.payload)
        before = last_item
        some, asked = Signal(), Signal.like(item.partition)  # the last partition of the batch
        new = Signal()
        m.d.comb += [put.eq(dut.i.valid & dut.i.ready), new.eq(put & item.hit & ~(some & (asked == item.partition)))]
        with m.If(put):
            m.d.sync += [within.eq(~item.bound.last), last_item.eq(dut.i.payload)]
            m.d.sync += some.eq(~item.bound.last & (some | item.hit))
            with m.If(item.hit):
                m.d.sync += asked.eq(item.partition)
        with m.If(dut.i.valid):
            m.d[law] += Assume(item.bound.below <= (1 << self._key_bits))
        with m.If(dut.i.valid & within):
            m.d[law] += [
                Assume(item.run == before.run),
                Assume(item.bound.below >= before.bound.below),
                Assume(item.hit | ~before.hit),
                Assume(~some | (item.partition >= asked)),
            ]

        # Partitions are asked for once each.
        wants = Signal()
        wanted = Signal.like(dut.request.payload)
        sent = Signal()
        m.d.comb += sent.eq(dut.request.valid & dut.request.ready)
        m.d.sync += wants.eq(new | (wants & ~sent))
        with m.If(new):
            m.d.sync += [wanted.place.eq(item.run.place), wanted.partition.eq(item.partition)]
        m.d[law] += [Assert(dut.request.valid == wants), Assert(~(new & wants & ~sent))]
        m.d[law] += Assert(~wants | (dut.request.payload == wanted))

        # They are served in that order: so many wait in memory, and so many were asked for altogether.
        most = self._bound_rows + 4
        served, ends = Signal(), Signal()
        waiting, open_ = Signal(range(most)), Signal(range(most))
        beat = Signal(range(beats + 1))
        m.d.comb += [served.eq(dut.keys.valid & dut.keys.ready), ends.eq(served & dut.keys.p.last)]
        m.d.sync += [waiting.eq(waiting + sent - ends), open_.eq(open_ + new - ends)]
        with m.If(served):
            m.d.sync += beat.eq(Mux(dut.keys.p.last, 0, beat + 1))
        keep = dut.keys.p.keep
        m.d[law] += [
            Assert(open_ <= most - 2),
            Assert(open_ == waiting + wants),
            Assume(~dut.keys.valid | (waiting != 0)),
        ]
        highest = Signal(self._key_bits)
        with m.If(served):
            m.d.sync += highest.eq(dut.keys.p.keys[width - 1])
        with m.If(dut.keys.valid):
            m.d[law] += [
                Assume(dut.keys.p.last | (beat != beats - 1)),
                Assume(((keep & (keep + 1)) == 0) & keep[0] & (dut.keys.p.last | keep.all())),
                *(Assume(~keep[at] | (dut.keys.p.keys[at - 1] <= dut.keys.p.keys[at])) for at in range(1, width)),
                Assume((beat == 0) | (highest <= dut.keys.p.keys[0])),
            ]

        # The partition that is picked: how many are served before it.
        picked, given = Signal(), Signal()  # it was; all of it was served
        ahead = Signal.like(open_)
        current = Signal()  # it is the last one of the batch
        with m.If(picked & ~given):
            with m.If(ahead == 0):
                m.d.sync += given.eq(ends)
                for at in range(beats):
                    with m.If(dut.keys.valid & (beat == at)):
                        part, left = keys[at * width :][:width], self.size - at * width
                        m.d[law] += [
                            *(Assume(~keep[lane] | (dut.keys.p.keys[lane] == part[lane])) for lane in range(width)),
                            *(Assume(keep[lane] == (at * width + lane < self.size)) for lane in range(width)),
                            Assume(dut.keys.p.last == (left <= width)),
                        ]
            with m.Elif(ends):
                m.d.sync += ahead.eq(ahead - 1)
        now = Signal()
        m.d.comb += now.eq(new & self.pick & ~picked)
        with m.If(now):
            m.d.sync += [picked.eq(1), ahead.eq(open_ - ends)]
        with m.If(put):
            m.d.sync += current.eq((now | (current & ~new)) & ~item.bound.last)

        # Answers come in order, and the one that is followed is right.
        got, inside = Signal(), Signal(range(self._bound_rows + 4))
        m.d.comb += got.eq(dut.o.valid & dut.o.ready)
        m.d.sync += inside.eq(inside + put - got)
        m.d[law] += [Assert(inside <= self._bound_rows + 2), Assert(~dut.o.valid | (inside != 0))]
        following = Signal()
        bound, before_it = Signal.like(dut.i.payload), Signal.like(inside)
        position = Signal.like(dut.o.p.position)
        below: Value | int = sum((at < self.size) & (keys[at] < item.bound.below) for at in range(len(keys)))
        with m.If(following):
            m.d.sync += before_it.eq(before_it - got)
            with m.If(before_it == 0):
                with m.If(dut.o.valid):
                    m.d[law] += [
                        Assert(dut.o.p.position == position),
                        Assert(dut.o.p.upper == bound.bound.upper),
                        Assert(dut.o.p.last == bound.bound.last),
                        Assert(dut.o.p.run == bound.run),
                    ]
                m.d.sync += following.eq(~got)
        with m.Elif(put & self.follow & (~item.hit | now | (current & ~new))):
            m.d.sync += [following.eq(1), bound.eq(dut.i.payload), before_it.eq(inside - got)]
            m.d.sync += position.eq(Mux(item.hit, (item.partition << self._log2) + below, 0))

        # Where nothing holds it up it goes on, but for keys that a further bound of the batch may need.
        longest = 3
        idle = Signal(range(longest + 2))
        moves = Cat(put, sent, served, got).any()
        free = dut.request.ready & dut.o.ready & (dut.keys.valid | (waiting == 0))
        with m.If(moves | ~free | ((inside == 0) & (within | (open_ == 0)))):
            m.d.sync += idle.eq(0)
        with m.Elif(idle <= longest):
            m.d.sync += idle.eq(idle + 1)
        m.d[law] += Assert(idle <= longest)
        return m
