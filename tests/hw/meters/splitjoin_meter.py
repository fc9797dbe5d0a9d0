"""Measures SplitJoin without a cycle of Python."""

from collections.abc import Callable

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.settings_signature import SettingsSignature
from muntin.hw.splitjoin.splitjoin import SplitJoin
from tests.hw.meters.merger_meter import row_hash

SIDES = ("left", "right", "in turn")
"""Which streams the rows belong to; the number of each is what `sides` takes."""


class SplitJoinMeter(wiring.Component):
    """SplitJoin, a source that always has a row, and a sink that always takes a result.

    Parameters
    ----------
    parameters : SplitJoinParameters
        Of SplitJoin, without time windows.
    sub_window : callable
        Of SplitJoin.

    Attributes
    ----------
    settings, clear, apart, idle
        SplitJoin's own.
    start : In(1)
        Resets the counters; rows follow.
    sides : In(range(len(SIDES)))
    rows : In(32)
        Rows to send after `start`.
    nulls : In(1)
        1 to send rows that match nothing: they fill a window at a row a cycle.
    group : In(range(17))
        Groups of outer order have ``1 << group`` rows, of both streams together, counted from the last row; at least
        one of each stream.
    key_mask : In(key_bits)
        The bits of keys that are not 0; keys are a hash of the row's number.
    done : Out(1)
        Set when all has come out.
    cycles : Out(32)
        Since `start`, until `done`.
    pairs, stars, right_pairs, right_stars : Out(32)
        Results that came out; those of the right stream by themselves where it is `apart`.
    first_pair, last_pair : Out(32)
        The values of `cycles` at which pairs came out.
    compared : Out(48)
        Rows compared.
    """

    def __init__(self, parameters: SplitJoinParameters, *, sub_window: Callable[..., wiring.Component] = NestedLoop):
        self.parameters = parameters
        self._sub_window = sub_window
        counters = ("cycles", "pairs", "stars", "right_pairs", "right_stars", "first_pair", "last_pair")
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "apart": In(1),
                "start": In(1),
                "sides": In(range(len(SIDES))),
                "rows": In(32),
                "nulls": In(1),
                "group": In(range(17)),
                "key_mask": In(parameters.key_bits),
                "idle": Out(1),
                "done": Out(1),
                "compared": Out(48),
            }
            | {name: Out(32) for name in counters}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.splitjoin = join = SplitJoin(self.parameters, sub_window=self._sub_window)
        wiring.connect(m, wiring.flipped(self.settings), join.settings)
        left = Signal(32)  # rows still to be sent
        number = Signal(32)
        running = Signal()
        behind = Signal(16)  # rows of the group behind this one
        m.d.comb += [
            join.clear.eq(self.clear),
            join.apart.eq(self.apart),
            self.idle.eq(join.idle),
            join.i.valid.eq(left != 0),
            join.i.p.side.eq(Mux(self.sides == SIDES.index("in turn"), left[0], self.sides)),
            behind.eq((left - 1) & ((1 << self.group) - 1)),
            join.i.p.more.eq(Mux(self.sides == SIDES.index("in turn"), behind > 1, behind > 0)),
            join.i.p.key.eq(row_hash(number) & self.key_mask),
            join.i.p.row.eq(number),
            join.i.p.null.eq(self.nulls),
            join.o.ready.eq(1),
            join.left.ready.eq(1),
            join.right.ready.eq(1),
            self.done.eq(running & (left == 0) & join.idle),
        ]
        with m.If(join.i.valid & join.i.ready):
            m.d.sync += [left.eq(left - 1), number.eq(number + 1)]
        pair = Signal()
        m.d.comb += pair.eq((join.o.valid & ~join.o.p.star) | (join.left.valid & ~join.left.p.star))
        star = (join.o.valid & join.o.p.star) | (join.left.valid & join.left.p.star)
        with m.If(running & ~self.done):
            m.d.sync += [
                self.cycles.eq(self.cycles + 1),
                self.compared.eq(self.compared + join.compared),
                self.pairs.eq(self.pairs + pair),
                self.stars.eq(self.stars + star),
                self.right_pairs.eq(self.right_pairs + (join.right.valid & ~join.right.p.star)),
                self.right_stars.eq(self.right_stars + (join.right.valid & join.right.p.star)),
            ]
            with m.If(pair):
                m.d.sync += self.last_pair.eq(self.cycles)
                with m.If(self.pairs == 0):
                    m.d.sync += self.first_pair.eq(self.cycles)
        with m.If(self.start):
            m.d.sync += [left.eq(self.rows), running.eq(1)]
            counters = ("cycles", "pairs", "stars", "right_pairs", "right_stars", "first_pair", "last_pair", "compared")
            m.d.sync += [getattr(self, name).eq(0) for name in counters]
        return m
