"""Merges two sorted streams into one, W rows a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, ValueLike
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bisort.row_beat import row_beat
from hw.errors import ParameterError
from hw.parameters import ROW_BITS

_ADDRESS_BITS = 4
_DEPTH = 1 << _ADDRESS_BITS  # beats that wait on each side, one less; what distributed RAM holds at least


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
    is asked; it is never asked for more than one a cycle. The first beat of a run leaves ``11 + 2 * log2(W)``
    cycles after both sides' first beats were taken (W = 1: 12); between the last beat of a run and the first
    one of the next lie 10 cycles without a beat. A beat leaves only when the next three or four of each side
    are here, or the run has ended. When `o` stands still, up to 16 beats collect behind it. No ready and no
    valid depends on anything but registers.

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
        m.submodules.older_side = older = _Side(self.key_bits, width, fill=1)
        m.submodules.newer_side = newer = _Side(self.key_bits, width, fill=2)
        wiring.connect(m, wiring.flipped(self.older), older.i)
        wiring.connect(m, wiring.flipped(self.newer), newer.i)

        restart = Signal()
        step = Signal()  # both sides can move and there is room: so it was a cycle ago, and so it is now
        cold = Signal(init=1)
        first = Signal(init=1)
        take_older = Signal(width, init=-1)

        # What is under way when the output stands still fits behind it, so that nothing has to wait for its
        # ready.
        m.submodules.output = output = _Output(self.key_bits, width)
        m.d.comb += [older.restart.eq(restart), newer.restart.eq(restart)]
        m.d.comb += [self.o.payload.eq(output.payload), self.o.valid.eq(output.valid)]
        m.d.comb += output.ready.eq(self.o.ready)
        m.d.sync += step.eq(older.able & newer.able & output.calm & ~restart)
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
            m.d.sync += chosen[lane].select(take, a, b)
            pads += [a.pad, b.pad]

        # The heads now are those that stood behind the chosen ones, so they tell whether the chosen were the
        # last.
        ended = Signal()
        valid = Signal()
        m.d.comb += ended.eq(Cat(pads).all() & ~cold)
        m.d.sync += restart.eq(valid & ended)
        m.d.sync += valid.eq(step & ~cold & ~restart & (first | ~ended))

        stage, stage_valid, stage_last = chosen, valid, ended
        reach = width // 2
        while True:
            held = [_Item(self.key_bits, f"held_{reach}_{lane}") for lane in range(width)]
            held_valid = Signal(name=f"held_valid_{reach}")
            held_last = Signal(name=f"held_last_{reach}")
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
                m.d.sync += [
                    swap.eq(_before(stage[high], stage[low])),
                    moved[low].select(swap, held[high], held[low]),
                    moved[high].select(swap, held[low], held[high]),
                ]
            m.d.sync += [moved_valid.eq(held_valid), moved_last.eq(held_last)]
            stage, stage_valid, stage_last = moved, moved_valid, moved_last
            reach //= 2
            if not reach:
                break

        m.d.comb += [output.write.eq(stage_valid), output.last.eq(stage_last)]
        for lane in range(width):
            m.d.comb += output.items[lane].eq(stage[lane])
        return m


class _Item:
    """A row on its way, or the padding behind the end of a run.

    Signals of their own, not one structure: what fits a machine word simulates several times as fast.
    """

    def __init__(self, key_bits: int, name: str):
        self.key = Signal(key_bits, name=f"{name}_key", reset_less=True)
        self.row = Signal(ROW_BITS, name=f"{name}_row", reset_less=True)
        self.pad = Signal(name=f"{name}_pad", reset_less=True)

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


def _successor(address: Signal) -> ValueLike:
    """The next address of a lane, never 0: a shift register costs a quarter of a counter."""
    return Cat(address[-1] ^ address[-2], address[:-1])


class _Side(Elaboratable):
    """The lanes of one side: each a memory, the two items behind its head, and its head.

    Every lane moves on by itself; the first lane is never behind the others and the last one never ahead, so
    these two tell when there is something to move, and when there is room.
    """

    def __init__(self, key_bits: int, width: int, *, fill: int):
        self.key_bits = key_bits
        self._width = width
        self._fill = fill
        self.i = stream.Signature(row_beat(key_bits, width)).flip().create()
        self.pop = Signal(width)
        self.restart = Signal()
        self.able = Signal()
        self.heads = [_Item(key_bits, f"head_{lane}") for lane in range(width)]
        self.nexts = [_Item(key_bits, f"next_{lane}") for lane in range(width)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self._width

        padding = Signal()  # the run has ended: padding is written until it is merged
        room = Signal()
        push = Signal()  # a beat is taken; it is written in the next cycle
        write = Signal()
        pushed = Signal(range(_DEPTH))
        written = Signal(range(_DEPTH))
        read_first = Signal(range(_DEPTH))  # beats that the first lane has read
        read_last = Signal(range(_DEPTH))
        some_next = Signal()
        filled = Signal(self._fill + 1, init=1)  # one-hot
        prime = Signal()
        prime_next = Signal()
        write_at = Signal(_ADDRESS_BITS, init=1)
        move = Signal(width)
        m.d.comb += [
            self.i.ready.eq(room & ~padding),
            push.eq(room & (padding | self.i.valid)),
            move.eq(self.pop | prime.replicate(width)),
            # Two were left a cycle ago, so one is left now, whether or not the first lane has moved on.
            some_next.eq((written - read_first)[1 : len(written)].any()),
            self.able.eq(some_next & filled[-1]),
            prime_next.eq(some_next & ~filled[-1]),
        ]
        m.d.sync += [
            # What is still under way is not counted: three beats at most.
            room.eq((pushed - read_last)[: len(pushed)] < _DEPTH - 4),
            write.eq(push),
            pushed.eq(pushed + push),
            written.eq(written + write),
            prime.eq(prime_next),
        ]
        with m.If(write):
            m.d.sync += write_at.eq(_successor(write_at))
        with m.If(move[0]):
            m.d.sync += read_first.eq(read_first + 1)
        with m.If(move[-1]):
            m.d.sync += read_last.eq(read_last + 1)
        with m.If(prime_next):
            m.d.sync += filled.eq(filled << 1)
        with m.If(self.i.valid & self.i.ready & self.i.p.last):
            m.d.sync += padding.eq(1)

        for lane in range(width):
            item = self.i.p.rows[lane]
            head, after = self.heads[lane], self.nexts[lane]
            taken = _Item(self.key_bits, f"taken_{lane}")
            m.d.sync += [
                taken.key.eq(item.key),
                taken.row.eq(item.row),
                taken.pad.eq(padding | ~self.i.p.keep[lane]),
            ]
            read_at = Signal(_ADDRESS_BITS, init=1, name=f"read_at_{lane}")
            found = {}
            for part, value in {"row": Cat(taken.row, taken.key), "pad": taken.pad}.items():
                store = memory.Memory(shape=len(value), depth=_DEPTH, init=[])
                m.submodules[f"{part}_{lane}"] = store
                writer, reader = store.write_port(), store.read_port(domain="comb")
                m.d.comb += [
                    writer.en.eq(write),
                    writer.addr.eq(write_at),
                    writer.data.eq(value),
                    reader.addr.eq(read_at),
                ]
                found[part] = reader.data
            with m.If(move[lane]):
                m.d.sync += [
                    read_at.eq(_successor(read_at)),
                    Cat(after.row, after.key).eq(found["row"]),
                    after.pad.eq(found["pad"]),
                    head.eq(after),
                ]
            with m.If(self.restart):
                m.d.sync += read_at.eq(read_at.init)

        with m.If(self.restart):
            for signal in (
                padding,
                room,
                write,
                pushed,
                written,
                read_first,
                read_last,
                prime,
                filled,
                write_at,
            ):
                m.d.sync += signal.eq(signal.init)
        return m


class _Output(Elaboratable):
    """Beats that have left the network and wait to be taken; there is always room for those still in it."""

    def __init__(self, key_bits: int, width: int):
        self._width = width
        self._stages = 2 * max((width - 1).bit_length(), 1) + 5
        self.write = Signal()
        self.last = Signal()
        self.items = [_Item(key_bits, f"out_{lane}") for lane in range(width)]
        self.payload = Signal(row_beat(key_bits, width), reset_less=True)
        self.valid = Signal()
        self.ready = Signal()
        self.calm = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        written = Signal(range(_DEPTH))
        taken = Signal(range(_DEPTH))
        taken_next = Signal(range(_DEPTH), init=1)  # one more
        some = Signal()
        take = Signal()
        m.d.comb += take.eq(some & (~self.valid | self.ready))
        with m.If(self.write):
            m.d.sync += written.eq(written + 1)
        with m.If(take):
            m.d.sync += [taken.eq(taken_next), taken_next.eq(taken_next + 1)]
        m.d.sync += [
            some.eq(Mux(take, written != taken_next, written != taken)),
            self.calm.eq((written - taken)[: len(written)] < _DEPTH - self._stages),
        ]
        with m.If(take | self.ready):
            m.d.sync += self.valid.eq(take)
        for lane, item in enumerate(self.items):
            row = self.payload.rows[lane]
            value = Cat(item.row, item.key, item.pad, self.last if lane == 0 else ())
            store = memory.Memory(shape=len(value), depth=_DEPTH, init=[])
            m.submodules[f"lane_{lane}"] = store
            writer, reader = store.write_port(), store.read_port(domain="comb")
            m.d.comb += [
                writer.en.eq(self.write),
                writer.addr.eq(written),
                writer.data.eq(value),
                reader.addr.eq(taken),
            ]
            with m.If(take):
                keep = ~reader.data[len(item.row) + len(item.key)]
                m.d.sync += [Cat(row.row, row.key).eq(reader.data), self.payload.keep[lane].eq(keep)]
                if lane == 0:
                    m.d.sync += self.payload.last.eq(reader.data[-1])
        return m
