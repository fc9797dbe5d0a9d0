"""Finds the partition of each bound in the index on chip."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract import ParameterError
from muntin.hw.bisort.layouts import bound_layout, key_beat, partitioned_bound, run_layout

_NEIGHBOURS = 2  # words that are looked at one after the other before the steps grow


class Partitioner(wiring.Component):
    """Holds the indexes of runs and searches one after the other for batches of ascending bounds.

    A word of the memory holds several entries, and a bound is compared with all of the word at hand. The search
    goes from word to word; where a bound lies further, in steps of 1, 2, 4, ... words until it has passed the bound,
    and then halves the gap.

    Parameters
    ----------
    key_bits : int
    index_rows : int
        Entries of all indexes together that there is room for, a power of two.
    index_width : int
        Entries of a word, a power of two, at least 2 and less than `index_rows`.

    Attributes
    ----------
    index : In(stream of key_beat, one key wide)
        The index of a run, at least one entry, that is put where `to` says.
    to : In(range(index_rows))
        Any entry of a word; is stable while an index is taken.
    loaded : Out(1)
        The last entry of an index has been put there; for one cycle.
    i : In(stream of bound_layout)
        Ascending.
    run : In(run_layout)
        Which run a batch is for, while `i` is valid.
    base : In(range(index_rows))
    entries : In(range(index_rows + 1))
        Where the index of that run stands, and its length: from the second cycle of a batch on.
    o : Out(stream of partitioned_bound)
        In the same order.
    overflow : Out(1)
        The last index had more entries than there is room for behind `to`.

    Raises
    ------
    ParameterError
        If the width is none that there may be.

    Timing
    ------
    An entry of the index a cycle. A bound whose answer lies in the same word as the one before: one a cycle, one cycle
    later. One that is d words further: `2 * d` cycles more for one or two words, else at most
    `6 * floor(log2(d)) + 12`.

    Source
    ------
    PanJoin, section IV (partitioners) and section III-E (rebounding binary search). Words of several entries are ours.
    """

    def __init__(self, *, key_bits: int, index_rows: int, index_width: int):
        if index_width not in (2, 4, 8, 16) or index_width >= index_rows:
            raise ParameterError(
                f"index_width must be 2, 4, 8 or 16 and less than index_rows, {index_rows}, not {index_width!r}"
            )
        self._key_bits = key_bits
        self._index_rows = index_rows
        self._width = index_width
        super().__init__(
            {
                "index": In(stream.Signature(key_beat(key_bits, 1))),
                "to": In(range(self._index_rows)),
                "loaded": Out(1),
                "run": In(run_layout()),
                "base": In(range(self._index_rows)),
                "entries": In(range(self._index_rows + 1)),
                "i": In(stream.Signature(bound_layout(key_bits))),
                "o": Out(stream.Signature(partitioned_bound(key_bits, index_rows))),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits = self._width, exact_log2(self._width)
        words = self._index_rows // width
        columns = [memory.Memory(shape=self._key_bits, depth=words, init=[]) for _ in range(width)]
        writers, readers = ([getattr(column, port)() for column in columns] for port in ("write_port", "read_port"))
        for number, column in enumerate(columns):
            m.submodules[f"column_{number}"] = column
        address = Signal(range(words))  # of the word that is read

        length = Signal(range(self._index_rows + 1))
        put = Signal(range(2 * self._index_rows))  # where the next entry of the index goes
        end = Signal(range(2 * self._index_rows))  # the last entry of an index
        first = Signal(range(words))  # the words of the index
        last = Signal(range(words))
        before = Signal(width)  # entries of the first word before the index, and of the last one that are its own
        within = Signal(width)
        at = Signal(range(words))  # the word at hand; all before it are below the bound
        word = [Signal(self._key_bits, name=f"entry_{number}") for number in range(width)]
        following = Signal()  # the memory gives the word after it
        near = Signal(range(_NEIGHBOURS + 1))
        low = Signal(range(words))  # a word known to lie below the bound
        high = Signal(range(words))  # one known not to
        step = Signal(range(2 * words))
        forward = Signal()
        place = Signal(range(2 * words + 1))  # of the word that is looked at from afar
        reached = Signal(range(words))  # that word, or the last one
        far = Signal(self._key_bits)  # its greatest entry: of all words but the last one, that entry says all
        inside = Signal()  # it is not the last one
        above, beneath = Signal(), Signal()  # `high` is just above it, `low` just beneath
        bound = self.i.p.below

        free = Signal()
        below = Signal(width)
        beyond = Signal()
        count = Signal(range(self._index_rows + width + 1))
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            put.eq(self.to + length),
            end.eq(self.base + self.entries - 1),
            below.eq(
                (Cat(bound[-1] | (key < bound[:-1]) for key in word) | Mux(at == first, before, 0))
                & (within | (at != last).replicate(width))
            ),
            beyond.eq((at != last) & below.all()),
            count.eq((at << bits) - self.base + sum(below)),
        ]
        for writer, reader in zip(writers, readers, strict=True):
            m.d.comb += [
                writer.addr.eq(put >> bits),
                writer.data.eq(self.index.p.keys[0]),
                reader.addr.eq(address),
                reader.en.eq(1),
            ]
        load_word = [entry.eq(reader.data) for entry, reader in zip(word, readers, strict=True)]
        m.d.comb += place.eq(Mux(forward, low + step, (low + high) >> 1))
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM():
            with m.State("FIRST"):
                m.d.sync += length.eq(0)
                with m.If(self.index.valid):
                    m.next = "LOAD"
                with m.Elif(self.i.valid):
                    m.next = "SPAN"
            with m.State("LOAD"):
                keep = Signal()
                m.d.comb += [
                    self.index.ready.eq(1),
                    keep.eq(self.index.valid & self.index.p.keep[0] & (put < self._index_rows)),
                    Cat(writer.en for writer in writers).eq(keep << put[:bits]),
                ]
                with m.If(self.index.valid):
                    with m.If(length == 0):
                        m.d.sync += self.overflow.eq(0)
                    with m.If(keep):
                        m.d.sync += length.eq(length + 1)
                    with m.Elif(self.index.p.keep[0]):
                        m.d.sync += self.overflow.eq(1)
                    with m.If(self.index.p.last):
                        m.d.comb += self.loaded.eq(1)
                        m.next = "FIRST"
            with m.State("SPAN"):
                m.d.comb += address.eq(self.base >> bits)
                m.d.sync += [
                    first.eq(self.base >> bits),
                    last.eq(end >> bits),
                    before.eq((1 << self.base[:bits]) - 1),
                    within.eq((2 << end[:bits]) - 1),
                    at.eq(self.base >> bits),
                ]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += address.eq(at + 1)
                m.d.sync += [*load_word, following.eq(1), near.eq(0)]
                m.next = "SEARCH"
            with m.State("SEARCH"):
                m.d.comb += address.eq(at + 1)
                m.d.sync += following.eq(1)
                with m.If(self.i.valid & beyond & following):
                    m.d.sync += [low.eq(at), step.eq(1), forward.eq(1)]
                    with m.If(near == _NEIGHBOURS):
                        m.next = "READ"
                    with m.Else():
                        m.d.sync += [*load_word, at.eq(at + 1), following.eq(0), near.eq(near + 1)]
                with m.Elif(self.i.valid & ~beyond & free):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += [
                        near.eq(0),
                        self.o.valid.eq(1),
                        self.o.p.bound.eq(self.i.payload),
                        self.o.p.run.eq(self.run),
                        self.o.p.partition.eq(count - 1),
                        self.o.p.hit.eq(count != 0),
                    ]
                    with m.If(self.i.p.last):
                        m.next = "FIRST"
            with m.State("READ"):
                m.d.comb += address.eq(place)
                m.d.sync += [
                    reached.eq(Mux(place < last, place, last)),
                    inside.eq(place < last),
                    above.eq(place + 1 == high),
                ]
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += [far.eq(readers[-1].data), beneath.eq(reached == low + 1)]
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "READ"
                with m.If(inside & (bound[-1] | (far < bound[:-1]))):
                    m.d.sync += low.eq(reached)
                    with m.If(forward):
                        m.d.sync += step.eq(step << 1)
                    with m.Elif(above):
                        m.d.sync += at.eq(high)
                        m.next = "FOUND"
                with m.Else():
                    m.d.sync += [high.eq(reached), forward.eq(0)]
                    with m.If(beneath):
                        m.d.sync += at.eq(reached)
                        m.next = "FOUND"
            with m.State("FOUND"):
                m.d.comb += address.eq(at)
                m.next = "TAKE"
        return m
