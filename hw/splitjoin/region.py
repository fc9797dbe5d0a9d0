"""One half of a join core: holds rows of one stream, and probes them with the rows of the other one."""

from collections.abc import Callable

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import ParameterError
from hw.splitjoin.nested_loop import NestedLoop
from hw.splitjoin.order import Order
from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.result_layout import ARRIVAL_BITS, result_layout
from hw.splitjoin.settings_signature import SettingsSignature
from hw.splitjoin.side import Side
from hw.splitjoin.tagged_row import tagged_row


class Region(wiring.Component):
    """Sees every row, stores those of its own stream whose turn is its core's, and probes with the others.

    Two round-robin counts, alike in all cores, cut a window of any length exactly. One counts rows that
    arrive, the other those that leave the window: it stands still until the window is full, then moves with
    each row. A core stores a row when the first count names it, and drops its oldest row when the second
    one does, which is the very core that holds the oldest row of all. Full turns of a count number the
    blocks, so the core's share of the window begins and ends where its own position and both counts say.
    A time window has the counts of one that is as long as the cores have room for. A row that comes `again`
    is counted only among those that probe the other region, for the order over both streams.

    Parameters
    ----------
    parameters : SplitJoinParameters
    index : int
        The core, from 0.
    side : Side
        The stream whose rows are stored.
    sub_window : callable
        Makes a component with `SubWindowSignature` out of `parameters` and `side`.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
        Empties the window; the region is not busy.
    i : In(stream of tagged_row)
        Both streams.
    o : Out(stream of result_layout)
        The results of each probing row, in order.
    busy, overflow, compared
        Of the sub-window.

    Raises
    ------
    ParameterError
        If there is no such core.

    Timing
    ------
    A row a cycle while the sub-window takes them; a row that is another core's to store always takes one.
    Nothing is held here.

    Source
    ------
    SplitJoin, section 3 (left and right region, storage by round-robin). Windows that are no multiple of the
    cores are ours.
    """

    def __init__(
        self,
        parameters: SplitJoinParameters,
        *,
        index: int,
        side: Side,
        sub_window: Callable[..., wiring.Component] = NestedLoop,
    ):
        if not 0 <= index < parameters.cores:
            raise ParameterError(f"index must lie in 0..{parameters.cores - 1}, not {index!r}")
        self.parameters = parameters
        self.index = index
        self.side = side
        self._sub_window = sub_window
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters))),
                "o": Out(stream.Signature(result_layout())),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(parameters.lanes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, i, index = self.parameters, self.i, self.index
        m.submodules.sub_window = sub = self._sub_window(p, side=self.side)
        wiring.connect(m, wiring.flipped(self.settings), sub.settings)
        wiring.connect(m, sub.o, wiring.flipped(self.o))
        m.d.comb += [
            sub.clear.eq(self.clear),
            self.busy.eq(sub.busy),
            self.overflow.eq(sub.overflow),
            self.compared.eq(sub.compared),
        ]

        length = self.settings.left_rows if self.side == Side.LEFT else self.settings.right_rows
        if p.time_bits:
            length = Mux(self.settings.timed, p.capacity, length)
        # A row's place and whether it is this core's are ready before the row comes.
        missing = Signal(range(p.capacity + 1))  # rows, until the window is full
        full = Signal(init=1)
        fresh = Signal(init=1)  # no row since `clear`: the window's length may change
        before = Signal(ARRIVAL_BITS)
        arrive, leave = _Turns(p, index, "arrive"), _Turns(p, index, "leave")
        mark = i.p.mark if p.time_bits else Const(0, 1)
        again = i.p.again if p.bounds else Const(0, 1)
        mine = Signal()  # of the stream that is stored
        needed = Signal()
        arriving = Signal()
        m.d.comb += [
            mine.eq(i.p.side == self.side),
            needed.eq(Mux(mine, arrive.now & ~mark & ~again, 1)),
            arriving.eq(i.valid & i.ready & mine & ~mark & ~again),
            sub.i.valid.eq(i.valid & needed),
            i.ready.eq(~needed | sub.i.ready),
            sub.i.p.probing.eq(~mine),
            sub.i.p.first.eq(leave.place),
            sub.i.p.stop.eq(arrive.place),
            sub.i.p.before.eq(before),
            sub.i.p.early.eq(leave.passed),
            sub.i.p.late.eq((arrive.turn != 0) & ~arrive.passed),
        ]
        names = ("null", "key", "row", *(("mark", "time") if p.time_bits else ()))
        names += ("lower", "upper") if p.bounds else ()
        m.d.comb += [getattr(sub.i.p, name).eq(getattr(i.p, name)) for name in names]
        with m.If(i.valid & i.ready & mine & ~mark):
            m.d.sync += before.eq(before + 1)
        with m.If(arriving):
            m.d.sync += [*arrive.step(), fresh.eq(0)]
            with m.If(full):
                m.d.sync += leave.step()
            with m.Else():
                m.d.sync += [missing.eq(missing - 1), full.eq(missing == 1)]
        with m.Elif(fresh):
            m.d.sync += [missing.eq(length), full.eq(length == 0)]
        with m.If(self.settings.order == Order.NONE):
            m.d.sync += before.eq(0)
        with m.If(self.clear):
            m.d.sync += [missing.eq(length), full.eq(length == 0), fresh.eq(1), *arrive.reset(), *leave.reset()]
        return m


class _Turns:
    """A round-robin count over the cores, and what it means to one of them.

    `now` is set while it is the core's turn, `passed` once the core had its turn in this block, and `place` is
    the full turns that the core has had.
    """

    def __init__(self, parameters: SplitJoinParameters, index: int, name: str):
        self._cores = parameters.cores
        self._index = index
        self.turn = Signal(range(max(parameters.cores, 2)), name=f"{name}_turn")
        self.now = Signal(name=f"{name}_now", init=index == 0)
        self.passed = Signal(name=f"{name}_passed")
        self.place = Signal(parameters.place_bits, name=f"{name}_place")

    def step(self) -> list:
        last = self.turn == self._cores - 1
        return [
            self.turn.eq(Mux(last, 0, self.turn + 1)),
            self.now.eq(self.turn == (self._index or self._cores) - 1),
            self.passed.eq(~last & (self.passed | self.now)),
            self.place.eq(self.place + self.now),
        ]

    def reset(self) -> list:
        return [signal.eq(signal.init) for signal in (self.turn, self.now, self.passed, self.place)]
