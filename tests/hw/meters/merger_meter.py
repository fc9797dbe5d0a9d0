"""Measures the rate of the merger, and checks what it puts out, without a cycle of Python."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.bisort.layouts import row_beat
from muntin.hw.bisort.merger import Merger

SHAPES = ("uniform", "equal", "one side first", "rotating", "zipped", "blocks")
"""How the keys of the two sides lie to each other; the number of each is what `shape` takes."""


class MergerMeter(wiring.Component):
    """A merger, and round it two sources that always have a beat and a sink that always takes one.

    Parameters
    ----------
    key_bits, width : int
        Of the merger.

    Attributes
    ----------
    measure : In(1)
        1 to use the sources and the sink, 0 to use the streams.
    older, newer, o
        The merger's own streams.
    shape : In(range(len(SHAPES)))
    older_rows, newer_rows : In(32)
        Rows of each run, the same for every run.
    runs : In(16)
        Runs to merge.
    done : Out(1)
    beats, cycles : Out(32)
        Beats put out, and cycles from the first one to the last one, both counted.
    rows, row_sum, row_hash : Out(32)
        Rows put out; sums modulo 2**32 of their row numbers and of `row_hash` of them.
    disorder : Out(1)
        Set for good once a key was smaller than one before it in the same run.
    """

    def __init__(self, *, key_bits: int, width: int):
        self.key_bits = key_bits
        self.width = width
        beat = stream.Signature(row_beat(key_bits, width))
        super().__init__(
            {
                "measure": In(1),
                "older": In(beat),
                "newer": In(beat),
                "o": Out(beat),
                "shape": In(range(len(SHAPES))),
                "older_rows": In(32),
                "newer_rows": In(32),
                "runs": In(16),
                "done": Out(1),
                "beats": Out(32),
                "cycles": Out(32),
                "rows": Out(32),
                "row_sum": Out(32),
                "row_hash": Out(32),
                "disorder": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.merger = merger = Merger(key_bits=self.key_bits, width=self.width)
        o = merger.o
        for side, (port, outer, length) in enumerate(
            ((merger.older, self.older, self.older_rows), (merger.newer, self.newer, self.newer_rows))
        ):
            made = outer.signature.create(path=(f"made_{side}",))
            self._source(m, side, made, port.ready & self.measure, length)
            m.d.comb += [
                port.payload.eq(Mux(self.measure, made.payload.as_value(), outer.payload.as_value())),
                port.valid.eq(self.measure | outer.valid),
                outer.ready.eq(port.ready & ~self.measure),
            ]
        m.d.comb += [self.o.payload.eq(o.payload), self.o.valid.eq(o.valid & ~self.measure)]

        run = Signal.like(self.runs)
        started = Signal()
        greatest = Signal(self.key_bits)
        m.d.comb += o.ready.eq(self.measure | self.o.ready)
        with m.If(self.measure & (o.valid | started) & ~self.done):
            m.d.sync += [started.eq(1), self.cycles.eq(self.cycles + 1)]
        below = greatest
        wrong = []
        for item, keep in zip(o.p.rows, o.p.keep, strict=True):
            wrong.append(keep & (item.key < below))
            below = Mux(keep, item.key, below)
        with m.If(self.measure & o.valid):
            kept = [Mux(keep, item.row, 0) for item, keep in zip(o.p.rows, o.p.keep, strict=True)]
            m.d.sync += [
                self.beats.eq(self.beats + 1),
                self.rows.eq(self.rows + sum(o.p.keep)),
                self.row_sum.eq(self.row_sum + sum(kept)),
                self.row_hash.eq(self.row_hash + sum(row_hash(row) for row in kept)),
                self.disorder.eq(self.disorder | Cat(wrong).any()),
                greatest.eq(Mux(o.p.last, 0, below)),
            ]
            with m.If(o.p.last):
                m.d.sync += [run.eq(run + 1), self.done.eq(run + 1 == self.runs)]
        return m

    def _source(self, m: Module, side: int, made: object, taken: Signal, length: Signal) -> None:
        at = Signal(32, name=f"at_{side}")
        m.d.comb += made.p.last.eq(at + self.width >= length)
        with m.If(taken):
            m.d.sync += at.eq(Mux(made.p.last, 0, at + self.width))
        for lane in range(self.width):
            number = Signal(32, name=f"number_{side}_{lane}")
            key = Signal(32, name=f"key_{side}_{lane}")
            m.d.comb += [number.eq(at + lane), made.p.keep[lane].eq(number < length)]
            with m.Switch(self.shape):
                with m.Case(SHAPES.index("uniform")):
                    m.d.comb += key.eq(Cat(row_hash(number ^ (side * 0x5A5A))[11:15], number))
                with m.Case(SHAPES.index("equal")):
                    m.d.comb += key.eq(5)
                with m.Case(SHAPES.index("one side first")):
                    m.d.comb += key.eq(Cat(number[:24], side))
                with m.Case(SHAPES.index("rotating")):  # W rows of the newer side to one of the older
                    m.d.comb += key.eq(number * (1 if side else self.width + 1))
                with m.Case(SHAPES.index("zipped")):
                    m.d.comb += key.eq(Cat(side, number))
                with m.Case(SHAPES.index("blocks")):  # each side in turn, for several beats and not a whole number
                    m.d.comb += key.eq(Cat(side, (number + 3)[6:]))
            m.d.comb += [
                made.p.rows[lane].key.eq(key),
                made.p.rows[lane].row.eq(Cat(number[:31], side)),
            ]


def row_hash(row):
    """A number that tells rows apart where their sum does not; takes a signal, an integer or an array."""
    return (row ^ (row >> 7) ^ (row >> 15)) * 0x9E3779B1 & 0xFFFFFFFF
