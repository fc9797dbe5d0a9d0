"""Merges two sorted streams into one, W rows a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, ValueLike
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bisort.row_beat import row_beat
from hw.errors import ParameterError
from hw.parameters import ROW_BITS

_DEPTH = 16  # beats that wait on each side; what a lane's memory holds in distributed RAM


class Merger(wiring.Component):
    """Merges two sorted runs into one sorted run, W rows a cycle whatever the data.

    Each side is spread over W lanes, and lane i of the older side meets lane W-1-i of the newer side: the
    smaller head of each pair leaves, which together are the W smallest rows left, and a bitonic network puts
    them in order.

    Parameters
    ----------
    key_bits : int
    width : int
        W, a power of two.

    Attributes
    ----------
    older, newer : In(stream of row_beat)
        The runs, each ascending by key; one run of each side makes one run of the output.
    o : Out(stream of row_beat)
        The merged runs. The order of equal keys is that of the model: the older side's rows leave their lanes
        first, but the network may exchange equal keys within a beat.

    Raises
    ------
    ParameterError
        If `width` is not a power of two.

    Timing
    ------
    W rows a cycle from the first beat of a run to its last one, as long as each side has a beat whenever it
    is asked; it is never asked for more than one a cycle. The first beat of a run leaves ``6 + 2 * log2(W)``
    cycles after both sides' first beats were taken (W = 1: 7); between the last beat of a run and the first
    one of the next lie 7 cycles without a beat. A beat leaves only when the three that follow it on each side
    are here, or the run has ended. `o` stalls everything at once.

    Source
    ------
    PanJoin, section IV (merger), which moves one row a cycle. The lanes are FLiMS' (Papaphilippou et al., FPT
    2018). Ours: both outcomes of the next comparison are made ahead and a registered bit chooses; runs of any
    length, by rows that are marked as padding instead of sentinel keys; a compare-and-swap is two stages.
    """

    def __init__(self, *, key_bits: int, width: int):
        if width < 1 or width & (width - 1):
            raise ParameterError(f"width must be a power of two, not {width!r}")
        self.key_bits = key_bits
        self.width = width
        beat = stream.Signature(row_beat(key_bits, width))
        super().__init__({"older": In(beat), "newer": In(beat), "o": Out(beat)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width

        # The newer side is filled to the top, the older one up to a step before it: the first step moves all
        # of its lanes, puts out nothing, and makes the first decisions by the very circuit that makes all
        # others.
        m.submodules.older_side = older = _Side(self.key_bits, width, fill=2)
        m.submodules.newer_side = newer = _Side(self.key_bits, width, fill=3)
        wiring.connect(m, wiring.flipped(self.older), older.i)
        wiring.connect(m, wiring.flipped(self.newer), newer.i)

        restart = Signal()
        enable = Signal()
        step = Signal()
        cold = Signal(init=1)
        first = Signal(init=1)
        take_older = Signal(width, init=-1)
        m.d.comb += [
            enable.eq(~self.o.valid | self.o.ready),
            step.eq(older.ready & newer.ready & enable),
            older.restart.eq(restart),
            newer.restart.eq(restart),
        ]
        with m.If(step):
            m.d.sync += [cold.eq(0), first.eq(cold)]
        with m.If(restart):
            m.d.sync += [cold.eq(1), first.eq(1)]

        chosen = [_Item(self.key_bits, f"chosen_{lane}") for lane in range(width)]
        pads = []
        for lane in range(width):
            take = take_older[lane]
            a, b = older.heads[lane], newer.heads[width - 1 - lane]
            a_next, b_next = older.nexts[lane], newer.nexts[width - 1 - lane]
            m.d.comb += [
                older.pop[lane].eq(step & take),
                newer.pop[width - 1 - lane].eq(step & ~take),
            ]
            with m.If(step):
                m.d.sync += take.eq(Mux(take, ~_before(b, a_next), ~_before(b_next, a)))
            with m.If(restart):
                m.d.sync += take.eq(1)
            with m.If(enable):
                m.d.sync += chosen[lane].select(take, a, b)
            pads += [a.pad, b.pad]

        # The heads now are those that stood behind the chosen ones, so they tell whether the chosen were the
        # last.
        ended = Signal()
        valid = Signal()
        m.d.comb += ended.eq(Cat(pads).all() & ~cold)
        m.d.sync += restart.eq(valid & ended & enable)
        with m.If(enable):
            m.d.sync += valid.eq(step & ~cold & ~restart & (first | ~ended))

        stage, stage_valid, stage_last = chosen, valid, ended
        reach = width // 2
        while True:
            held = [_Item(self.key_bits, f"held_{reach}_{lane}") for lane in range(width)]
            held_valid = Signal(name=f"held_valid_{reach}")
            held_last = Signal(name=f"held_last_{reach}")
            with m.If(enable):
                m.d.sync += [held_valid.eq(stage_valid), held_last.eq(stage_last)]
                for lane in range(width):
                    m.d.sync += held[lane].eq(stage[lane])
            if width == 1:
                stage, stage_valid, stage_last = held, held_valid, held_last
                break
            moved = [_Item(self.key_bits, f"moved_{reach}_{lane}") for lane in range(width)]
            moved_valid = Signal(name=f"moved_valid_{reach}")
            moved_last = Signal(name=f"moved_last_{reach}")
            for low in range(width):
                high = low + reach
                if low & reach:
                    continue
                swap = Signal(name=f"swap_{reach}_{low}")
                with m.If(enable):
                    m.d.sync += swap.eq(_before(stage[high], stage[low]))
                    m.d.sync += moved[low].select(swap, held[high], held[low])
                    m.d.sync += moved[high].select(swap, held[low], held[high])
            with m.If(enable):
                m.d.sync += [moved_valid.eq(held_valid), moved_last.eq(held_last)]
            stage, stage_valid, stage_last = moved, moved_valid, moved_last
            reach //= 2
            if not reach:
                break

        m.d.comb += [self.o.valid.eq(stage_valid), self.o.p.last.eq(stage_last)]
        for lane in range(width):
            m.d.comb += [
                self.o.p.rows[lane].key.eq(stage[lane].key),
                self.o.p.rows[lane].row.eq(stage[lane].row),
                self.o.p.keep[lane].eq(~stage[lane].pad),
            ]
        return m


class _Item:
    """A row on its way, or the padding behind the end of a run.

    Signals of their own, not one structure: what fits a machine word simulates several times as fast.
    """

    def __init__(self, key_bits: int, name: str):
        self.key = Signal(key_bits, name=f"{name}_key")
        self.row = Signal(ROW_BITS, name=f"{name}_row")
        self.pad = Signal(name=f"{name}_pad")

    def eq(self, other: _Item) -> list:
        return [self.key.eq(other.key), self.row.eq(other.row), self.pad.eq(other.pad)]

    def select(self, which: ValueLike, one: _Item, zero: _Item) -> list:
        return [
            self.key.eq(Mux(which, one.key, zero.key)),
            self.row.eq(Mux(which, one.row, zero.row)),
            self.pad.eq(Mux(which, one.pad, zero.pad)),
        ]


def _before(a: _Item, b: _Item) -> ValueLike:
    """Whether `a` must leave before `b`: false for equal keys; padding leaves last.

    Written so that ``a <= b`` never occurs: Yosys would add an equality tree to it.
    """
    return ~a.pad & (b.pad | (a.key < b.key))


class _Side(Elaboratable):
    """The lanes of one side: each a memory, the two items behind its head, and its head.

    Every lane moves on by itself; the first lane is never behind the others and the last one never ahead, so
    these two tell when there is something to move, and when there is room.
    """

    def __init__(self, key_bits: int, width: int, *, fill: int):
        self._key_bits = key_bits
        self._width = width
        self._fill = fill
        self.i = stream.Signature(row_beat(key_bits, width)).flip().create()
        self.pop = Signal(width)
        self.restart = Signal()
        self.ready = Signal()
        self.heads = [_Item(key_bits, f"head_{lane}") for lane in range(width)]
        self.nexts = [_Item(key_bits, f"next_{lane}") for lane in range(width)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self._width

        padding = Signal()  # the run has ended: padding is written until it is merged
        write = Signal()
        held = Signal(range(_DEPTH + 1))  # beats that the last lane has not read
        unread = Signal(range(_DEPTH + 1))  # beats that the first lane has not read
        unread_next = Signal.like(unread)
        some = Signal()
        filled = Signal(range(self._fill + 1))
        full = Signal()
        prime = Signal()
        write_at = Signal(range(_DEPTH))
        move = Signal(width)
        m.d.comb += [
            self.i.ready.eq(~padding & (held != _DEPTH)),
            write.eq((self.i.valid | padding) & (held != _DEPTH)),
            full.eq(filled == self._fill),
            prime.eq(some & ~full),
            move.eq(self.pop | prime.replicate(width)),
            unread_next.eq(unread + write - move[0]),
            self.ready.eq(some & full),
        ]
        m.d.sync += [
            held.eq(held + write - move[-1]),
            unread.eq(unread_next),
            some.eq(unread_next != 0),
            filled.eq(filled + prime),
            write_at.eq(write_at + write),
        ]
        with m.If(self.i.valid & self.i.ready & self.i.p.last):
            m.d.sync += padding.eq(1)

        for lane in range(width):
            item = self.i.p.rows[lane]
            head, after = self.heads[lane], self.nexts[lane]
            read_at = Signal(range(_DEPTH), name=f"read_at_{lane}")
            parts = {"row": Cat(item.row, item.key), "pad": padding | ~self.i.p.keep[lane]}
            found = {}
            for part, value in parts.items():
                store = memory.Memory(shape=len(value), depth=_DEPTH, init=[])
                m.submodules[f"{part}_{lane}"] = store
                writer, reader = store.write_port(), store.read_port()
                m.d.comb += [
                    writer.en.eq(write),
                    writer.addr.eq(write_at),
                    writer.data.eq(value),
                    reader.en.eq(move[lane]),
                    reader.addr.eq(read_at),
                ]
                found[part] = reader.data
            with m.If(move[lane]):
                m.d.sync += [
                    read_at.eq(read_at + 1),
                    Cat(after.row, after.key).eq(found["row"]),
                    after.pad.eq(found["pad"]),
                    head.eq(after),
                ]
            with m.If(self.restart):
                m.d.sync += read_at.eq(0)

        with m.If(self.restart):
            m.d.sync += [
                padding.eq(0),
                held.eq(0),
                unread.eq(0),
                some.eq(0),
                filled.eq(0),
                write_at.eq(0),
            ]
        return m
