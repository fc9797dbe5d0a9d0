"""Finds the position of each bound in a run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.bisort.layouts import key_beat, partition_layout, partitioned_bound, position_layout
from muntin.hw.memory.quick_fifo import BlockFifo, QuickFifo


class Prober(wiring.Component):
    """Asks for each partition that a batch touches, once, and scans it beside the bounds that fall into it.

    The position of a bound is the number of keys of the run below it. Both bounds and keys ascend, so one
    pass is enough: a bound that lies beyond all keys of a beat moves the scan to the next beat, any other is
    answered.

    Parameters
    ----------
    key_bits : int
    width : int
        Keys in a beat.
    partition_log2 : int
        k; a partition is at least one beat long.
    index_rows : int
    bound_rows : int
        Bounds that may wait for their partition; enough of them cover the latency of the memory.

    Attributes
    ----------
    i : In(stream of partitioned_bound)
        Batches of ascending bounds, each for a run.
    request : Out(stream of partition_layout)
        Partitions to read, of each run ascending.
    keys : In(stream of key_beat)
        The keys of the partitions that were asked for, in that order; `last` ends a partition.
    o : Out(stream of position_layout)
        In the order of the bounds.

    Raises
    ------
    ParameterError
        If a partition is shorter than a beat.

    Timing
    ------
    A beat or a bound a cycle; a bound that hits no partition takes a cycle too. Two cycles from the beat that
    holds the answer to `o`, which is a register, and from `i` to `request` one.

    Source
    ------
    PanJoin, section IV (prober) and section III-E (batch mode). The paper compares one tuple a cycle; here a
    whole beat, and both kinds of bounds in one pass.
    """

    def __init__(self, *, key_bits: int, width: int, partition_log2: int, index_rows: int, bound_rows: int):
        if 1 << partition_log2 < width:
            raise ParameterError(
                f"partition_log2 must be at least {(width - 1).bit_length()} for {width} keys a beat, "
                f"not {partition_log2!r}"
            )
        self._width = width
        self._partition_log2 = partition_log2
        self._bound_rows = bound_rows
        self._bound = partitioned_bound(key_bits, index_rows)
        position = range((index_rows << partition_log2) + 1)
        found = position_layout(position)
        super().__init__(
            {
                "i": In(stream.Signature(self._bound)),
                "request": Out(stream.Signature(partition_layout(index_rows))),
                "keys": In(stream.Signature(key_beat(key_bits, width))),
                "o": Out(stream.Signature(found)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bounds = bounds = BlockFifo(width=self._bound.size, depth=self._bound_rows)

        # Ask for each partition once.
        asked = Signal.like(self.request.p.partition)
        asked_valid = Signal()
        new = Signal()
        take = Signal()
        m.d.comb += [
            new.eq(self.i.p.hit & ~(asked_valid & (asked == self.i.p.partition))),
            self.i.ready.eq(bounds.w_rdy & (~new | ~self.request.valid | self.request.ready)),
            take.eq(self.i.valid & self.i.ready),
            bounds.w_en.eq(take),
            bounds.w_data.eq(self.i.payload),
        ]
        with m.If(self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        with m.If(take):
            m.d.sync += asked_valid.eq((asked_valid | self.i.p.hit) & ~self.i.p.bound.last)
            with m.If(new):
                m.d.sync += [
                    asked.eq(self.i.p.partition),
                    self.request.valid.eq(1),
                    self.request.p.place.eq(self.i.p.run.place),
                    self.request.p.partition.eq(self.i.p.partition),
                ]

        # Scan them.
        head = data.View(self._bound, bounds.r_data)
        active = Signal.like(asked)  # the partition of the bound before
        active_valid = Signal()
        opened = Signal()  # not all beats of it have been taken
        after = Signal(range((1 << self._partition_log2) + 1))  # keys in the beats taken
        same = Signal()
        below = Signal(self._width)
        beyond = Signal()
        free = Signal()
        answer = Signal()
        scan = Signal()
        read = Signal()
        bound = head.bound.below
        m.d.comb += [
            same.eq(active_valid & (active == head.partition)),
            read.eq(same & ~opened),  # to its end
            below.eq(
                Cat(
                    keep & (bound[-1] | (key < bound[:-1]))
                    for key, keep in zip(self.keys.p.keys, self.keys.p.keep, strict=True)
                )
            ),
            beyond.eq(below == self.keys.p.keep),
        ]
        with m.If(opened & ~(bounds.r_rdy & same) & (bounds.r_rdy | ~active_valid)):
            # No bound is left for this partition: either the next one lies in another, or the batch is over.
            m.d.comb += [self.keys.ready.eq(1), scan.eq(self.keys.valid)]
        with m.Elif(bounds.r_rdy & free):
            with m.If(~head.hit | read):
                m.d.comb += answer.eq(1)
            with m.Elif(self.keys.valid):
                m.d.sync += [
                    active.eq(head.partition),
                    active_valid.eq(1),
                    opened.eq(1),
                    after.eq(Mux(opened, after, 0)),
                ]
                m.d.comb += [self.keys.ready.eq(beyond), scan.eq(beyond), answer.eq(~beyond)]
        with m.If(scan):
            m.d.sync += [
                after.eq(Mux(opened, after, 0) + sum(self.keys.p.keep)),
                opened.eq(~self.keys.p.last),
            ]

        # What was compared is counted a cycle later.
        m.submodules.answers = answers = QuickFifo(width=self.o.p.shape().size, depth=2)
        compared = Signal()
        found = Signal.like(self.o.payload)
        partition = Signal.like(asked)
        passed = Signal.like(after)
        counted = Signal(self._width)
        m.d.comb += [
            bounds.r_en.eq(answer),
            free.eq(~compared | answers.w_rdy),
            found.position.eq((partition << self._partition_log2) + (passed + sum(counted))),
            answers.w_data.eq(found),
            answers.w_en.eq(compared),
            self.o.payload.eq(data.View(self.o.p.shape(), answers.r_data)),
            self.o.valid.eq(answers.r_rdy),
            answers.r_en.eq(self.o.ready),
        ]
        upper, last, run = Signal(), Signal(), Signal.like(head.run)
        m.d.comb += [found.upper.eq(upper), found.last.eq(last), found.run.eq(run)]
        with m.If(free):
            m.d.sync += [
                compared.eq(answer),
                partition.eq(Mux(head.hit, head.partition, 0)),
                passed.eq(Mux(head.hit & same, after, 0)),
                counted.eq(below & (head.hit & ~read).replicate(self._width)),
                upper.eq(head.bound.upper),
                last.eq(head.bound.last),
                run.eq(head.run),
            ]
        with m.If(answer & head.bound.last):
            m.d.sync += active_valid.eq(0)
        return m
