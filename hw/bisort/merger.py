"""Merges two sorted streams into one, W rows a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import ROW_BITS
from muntin.hw.bisort.layouts import row_beat

_ADDRESS_BITS = 4
_DEPTH = 1 << _ADDRESS_BITS  # beats in a memory, one less; what distributed RAM holds at least


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
    one of the next lie 11 cycles without a beat. A beat leaves only when the next three to five of each side
    are here, or the run has ended. When `o` stands still, up to 16 beats collect behind it. No ready and no
    valid depends on anything but registers.

    Source
    ------
    PanJoin, section IV (merger), which moves one row a cycle. The lanes are FLiMS' (Papaphilippou et al., FPT
    2018). Ours: both outcomes of the next comparison are made ahead and a registered bit chooses; runs of any
    length, by padding that is marked, so that no key is reserved; a compare-and-swap is two stages, and the row
    numbers, which are not compared, stay in memory until their keys are in the network.
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

        # Rows are not compared: they are read from the lanes' memories so late that each exchange of rows comes
        # right after the one before, and leave the network together with their keys.
        late = max(width.bit_length() - 1, 1)

        # The newer side is filled to the top, the older one up to a step before it: the first step moves all
        # of its lanes, puts out nothing, and makes the first decisions by the very circuit that makes all
        # others.
        m.submodules.older_side = older = _Side(self.key_bits, width, fill=1, late=late, greatest=False)
        m.submodules.newer_side = newer = _Side(self.key_bits, width, fill=2, late=late, greatest=True)
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

        chosen = [_Key(self.key_bits, f"chosen_{lane}") for lane in range(width)]
        keeps = []
        for lane in range(width):
            take = take_older[lane]
            a, b = older.heads[lane], newer.heads[width - 1 - lane]
            a_next, b_next = older.nexts[lane], newer.nexts[width - 1 - lane]
            m.d.comb += [
                older.pop[lane].eq(step & take),
                newer.pop[width - 1 - lane].eq(step & ~take),
            ]
            # Whether the older side is padding is known without its key, and the newer side's padding has the
            # greatest key: only one look-up table stands behind the comparison. `keep` holds it apart.
            left = Signal(name=f"left_{lane}", attrs={"keep": 1})
            m.d.comb += left.eq(Mux(take, a_next.keep, a.keep))
            with m.If(step):
                m.d.sync += take.eq(left & ~Mux(take, b.key < a_next.key, b_next.key < a.key))
            with m.If(restart):
                m.d.sync += take.eq(1)
            m.d.sync += chosen[lane].select(take, a, b)
            keeps += [a.keep, b.keep]

        # Of the heads that the chosen ones were taken from; a cycle later, of those that stood behind them.
        kept = Signal((len(keeps) + 3) // 4)
        some = Signal()
        stepped = Signal()
        started = Signal()
        last = Signal()
        m.d.sync += kept.eq(Cat(Cat(keeps[at : at + 4]).any() for at in range(0, len(keeps), 4)))
        m.d.comb += some.eq(kept.any())
        m.d.sync += [stepped.eq(step & ~cold), started.eq(first)]
        m.d.sync += restart.eq(last)

        # Each exchange takes two stages, so of the keys every second register only holds them.
        stage, stage_valid, stage_last = chosen, stepped & (started | some), None
        swaps = []
        reach = width // 2
        while True:
            held = [_Key(self.key_bits, f"held_{reach}_{lane}") for lane in range(width)]
            held_valid = Signal(name=f"held_valid_{reach}")
            m.d.sync += held_valid.eq(stage_valid)
            for lane in range(width):
                m.d.sync += held[lane].eq(stage[lane])
            if stage_last is None:
                m.d.comb += last.eq(held_valid & ~some)
                held_last = last
            else:
                held_last = Signal(name=f"held_last_{reach}")
                m.d.sync += held_last.eq(stage_last)
            if width == 1:
                stage, stage_valid, stage_last = held, held_valid, held_last
                break
            moved = [_Key(self.key_bits, f"moved_{reach}_{lane}") for lane in range(width)]
            moved_valid = Signal(name=f"moved_valid_{reach}")
            moved_last = Signal(name=f"moved_last_{reach}")
            pairs = [(low, low + reach) for low in range(width) if not low & reach]
            ordered = Signal(len(pairs), name=f"ordered_{reach}", reset_less=True)
            swap = Signal(len(pairs), name=f"swap_{reach}")
            for at, (low, high) in enumerate(pairs):
                m.d.comb += swap[at].eq(held[high].keep & ~(held[low].keep & ordered[at]))
                m.d.sync += [
                    ordered[at].eq(~(stage[high].key < stage[low].key)),
                    moved[low].select(swap[at], held[high], held[low]),
                    moved[high].select(swap[at], held[low], held[high]),
                ]
            swaps.append((pairs, swap))
            m.d.sync += [moved_valid.eq(held_valid), moved_last.eq(held_last)]
            stage, stage_valid, stage_last = moved, moved_valid, moved_last
            reach //= 2
            if not reach:
                break

        choice = _delayed(m, take_older, late)
        rows = []
        for lane in range(width):
            row = Signal(ROW_BITS, name=f"row_{lane}", reset_less=True)
            m.d.sync += row.eq(Mux(choice[lane], older.rows[lane], newer.rows[width - 1 - lane]))
            rows.append(row)
        for level, (pairs, swap) in enumerate(swaps):
            swap = _delayed(m, swap, len(swaps) - 1 - level)
            after = [Signal(ROW_BITS, name=f"row_{level}_{lane}", reset_less=True) for lane in range(width)]
            for at, (low, high) in enumerate(pairs):
                m.d.sync += [
                    after[low].eq(Mux(swap[at], rows[high], rows[low])),
                    after[high].eq(Mux(swap[at], rows[low], rows[high])),
                ]
            rows = after

        m.d.comb += [output.write.eq(stage_valid), output.last.eq(stage_last)]
        for lane in range(width):
            m.d.comb += [output.keys[lane].eq(stage[lane]), output.rows[lane].eq(rows[lane])]
        return m


def _delayed(m: Module, signal: Signal, cycles: int) -> Signal:
    """What `signal` was so many cycles ago."""
    for cycle in range(cycles):
        after = Signal(len(signal), name=f"{signal.name}_{cycle}", reset_less=True)
        m.d.sync += after.eq(signal)
        signal = after
    return signal


class _Key:
    """A key on its way, or the padding behind the end of a run.

    Signals of their own, not one structure: what fits a machine word simulates several times as fast.
    """

    def __init__(self, key_bits: int, name: str, *, init: int = 0):
        self.key = Signal(key_bits, name=f"{name}_key", init=init, reset_less=True)
        self.keep = Signal(name=f"{name}_keep", reset_less=True)

    def eq(self, other: _Key) -> list:
        return [self.key.eq(other.key), self.keep.eq(other.keep)]

    def select(self, which: ValueLike, one: _Key, zero: _Key) -> list:
        return [self.key.eq(Mux(which, one.key, zero.key)), self.keep.eq(Mux(which, one.keep, zero.keep))]


def _successor(address: Value) -> ValueLike:
    """The next address of a lane, never 0: a shift register costs a quarter of a counter."""
    return Cat(address[-1] ^ address[-2], address[:-1])


class _Side(Elaboratable):
    """The lanes of one side: each a memory, the two keys behind its head, and its head.

    Every lane moves on by itself; the first lane is never behind the others and never more than one ahead, so
    the first one tells for all of them when there is something to move, and when there is room. `rows` are
    those of the heads of `late` cycles ago. With `greatest`, padding gets the greatest key.
    """

    def __init__(self, key_bits: int, width: int, *, fill: int, late: int, greatest: bool):
        self.key_bits = key_bits
        self._width = width
        self._fill = fill
        self._late = late
        self._greatest = greatest
        self.i = stream.Signature(row_beat(key_bits, width)).flip().create()
        self.pop = Signal(width)
        self.restart = Signal()
        self.able = Signal()
        self.heads = [_Key(key_bits, f"head_{lane}") for lane in range(width)]
        self.nexts = [_Key(key_bits, f"next_{lane}") for lane in range(width)]
        self.rows = [Signal(ROW_BITS, name=f"row_{lane}") for lane in range(width)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self._width

        padding = Signal()  # the run has ended: padding is written until it is merged
        room = Signal()
        push = Signal()  # a beat is taken; it is written in the next cycle
        write = Signal()
        moved = Signal()  # the first lane, a cycle ago
        level = Signal(range(_DEPTH))  # beats taken that the first lane had not read a cycle ago
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
            # Three were left two cycles ago, so one is left in the next, even if the first lane moves on twice.
            some_next.eq(level >= 3),
            self.able.eq(some_next & filled[-1]),
            prime_next.eq(some_next & ~filled[-1]),
        ]
        m.d.sync += [
            # Not counted are two beats at most under way, one that the other lanes have yet to read, and those
            # whose rows are not read yet: the two behind the memory and what left it lately.
            room.eq(level < _DEPTH - 5 - self._late),
            write.eq(push),
            prime.eq(prime_next),
            moved.eq(move[0]),
        ]
        with m.If(push ^ moved):
            m.d.sync += level.eq(level + Mux(push, 1, -1))
        with m.If(write):
            m.d.sync += write_at.eq(_successor(write_at))
        with m.If(prime_next):
            m.d.sync += filled.eq(filled << 1)
        with m.If(self.i.valid & self.i.ready & self.i.p.last):
            m.d.sync += padding.eq(1)

        for lane in range(width):
            item = self.i.p.rows[lane]
            head, after = self.heads[lane], self.nexts[lane]
            # A flip-flop of an ECP5 has one bit for what it starts as and what it is set to.
            taken = _Key(self.key_bits, f"taken_{lane}", init=-1 if self._greatest else 0)
            taken_row = Signal(ROW_BITS, name=f"taken_{lane}_row", reset_less=True)
            m.d.sync += [
                taken.key.eq(item.key),
                taken.keep.eq(self.i.p.keep[lane]),
                taken_row.eq(item.row),
            ]
            with m.If(padding):
                m.d.sync += taken.keep.eq(0)
            if self._greatest:
                with m.If(padding | ~self.i.p.keep[lane]):
                    m.d.sync += taken.key.eq(taken.key.init)
            # A shift register: its upper bits are where the items behind the memory stood.
            places = Signal(_ADDRESS_BITS + 2, init=1, name=f"places_{lane}")
            read_at = places[:_ADDRESS_BITS]
            head_at = Signal(_ADDRESS_BITS, name=f"head_at_{lane}")
            m.d.comb += head_at.eq(places[2:])
            row_at = _delayed(m, head_at, self._late)
            found = {}
            for part, value, at in (
                ("key", taken.key, read_at),
                ("keep", taken.keep, read_at),
                ("row", taken_row, row_at),
            ):
                store = memory.Memory(shape=len(value), depth=_DEPTH, init=[])
                m.submodules[f"{part}_{lane}"] = store
                writer, reader = store.write_port(), store.read_port(domain="comb")
                m.d.comb += [
                    writer.en.eq(write),
                    writer.addr.eq(write_at),
                    writer.data.eq(value),
                    reader.addr.eq(at),
                ]
                found[part] = reader.data
            m.d.comb += self.rows[lane].eq(found["row"])
            with m.If(move[lane]):
                m.d.sync += [
                    places.eq(Cat(_successor(read_at)[0], places)),
                    after.key.eq(found["key"]),
                    after.keep.eq(found["keep"]),
                    head.eq(after),
                ]
            with m.If(self.restart):
                m.d.sync += places.eq(places.init)

        with m.If(self.restart):
            for signal in (padding, room, write, moved, level, prime, filled, write_at):
                m.d.sync += signal.eq(signal.init)
        return m


class _Output(Elaboratable):
    """Beats that have left the network and wait to be taken; there is always room for those still in it."""

    def __init__(self, key_bits: int, width: int):
        self._width = width
        self._stages = 2 * max((width - 1).bit_length(), 1) + 5
        self.write = Signal()
        self.last = Signal()
        self.keys = [_Key(key_bits, f"out_{lane}") for lane in range(width)]
        self.rows = [Signal(ROW_BITS, name=f"out_{lane}_row") for lane in range(width)]
        self.payload = Signal(row_beat(key_bits, width), reset_less=True)
        self.valid = Signal()
        self.ready = Signal()
        self.calm = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        write_at = Signal(_ADDRESS_BITS, init=1)
        read_at = Signal(_ADDRESS_BITS, init=1)
        level = Signal(range(_DEPTH))
        some = Signal()
        take = Signal()
        m.d.comb += take.eq(some & (~self.valid | self.ready))
        with m.If(self.write):
            m.d.sync += write_at.eq(_successor(write_at))
        with m.If(take):
            m.d.sync += read_at.eq(_successor(read_at))
        with m.If(self.write ^ take):
            m.d.sync += level.eq(level + Mux(self.write, 1, -1))
        m.d.sync += [
            some.eq(level[1:].any() | (level[0] & ~take)),
            self.calm.eq(level < _DEPTH - self._stages),
        ]
        with m.If(take | self.ready):
            m.d.sync += self.valid.eq(take)
        for lane in range(self._width):
            row = self.payload.rows[lane]
            item = self.keys[lane]
            value = Cat(self.rows[lane], item.key, item.keep, self.last if lane == 0 else ())
            store = memory.Memory(shape=len(value), depth=_DEPTH, init=[])
            m.submodules[f"lane_{lane}"] = store
            writer, reader = store.write_port(), store.read_port(domain="comb")
            m.d.comb += [
                writer.en.eq(self.write),
                writer.addr.eq(write_at),
                writer.data.eq(value),
                reader.addr.eq(read_at),
            ]
            with m.If(take):
                keep = reader.data[ROW_BITS + len(item.key)]
                m.d.sync += [Cat(row.row, row.key).eq(reader.data), self.payload.keep[lane].eq(keep)]
                if lane == 0:
                    m.d.sync += self.payload.last.eq(reader.data[-1])
        return m
