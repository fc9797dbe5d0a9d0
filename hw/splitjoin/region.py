"""One half of a join core: holds rows of one stream, and probes them with the rows of the other one."""

from collections.abc import Callable

from amaranth.hdl import Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.designs.splitjoin import Order, SplitJoinParameters, second_column
from muntin.hw.splitjoin.almost_full_fifo import AlmostFullFifo
from muntin.hw.splitjoin.distributor import rows_way
from muntin.hw.splitjoin.layouts import ARRIVAL_BITS, Side, result_layout, tagged_row
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.settings_signature import SettingsSignature
from muntin.hw.splitjoin.sub_window import command_layout


class Region(wiring.Component):
    """Sees every row, stores those of its own stream whose turn is its core's, and probes with the others.

    Two round-robin counts, alike in all cores, cut a window of any length exactly. One counts rows that
    arrive, the other those that leave the window: it stands still until the window is full, then moves with
    each row. A core stores a row when the first count names it, and drops its oldest row when the second
    one does, which is the very core that holds the oldest row of all. Full turns of a count number the
    blocks, so the core's share of the window begins and ends where its own position and both counts say.
    A time window has the counts of one that is as long as the cores have room for. For the order over both
    streams, those that end a group are counted, as they probe the other region.

    Rows are counted as they come, and those that ask something of the sub-window wait for it with what their counts
    say: what counts never waits.

    Parameters
    ----------
    parameters : SplitJoinParameters
    index : int
        The core, from 0.
    side : Side
        The stream whose rows are stored.
    sub_window : callable
        Makes a component with `SubWindowSignature` out of `parameters` and `side`.
    faults : bool
        True to build `fault`, for simulation.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
        Empties the window; the region is not busy, and the next row is two cycles away.
    i : In(tagged_row)
        A row of either stream.
    probes, counts, arrives : In(1)
        It is there: a row of the other stream; one of this stream behind whose results a punctuation comes; one of
        this stream that is stored. Rows beyond the room that was said are lost.
    room : Out(1)
        Set while there is room for the rows of one cycle more than `rows_way`.
    o : Out(stream of result_layout)
        The results of each probing row, in order.
    busy : Out(1)
        Set while a row waits or the sub-window is busy.
    overflow, compared
        Of the sub-window.
    stirs : Out(1)
        Set while the sub-window takes a row or has a result.
    fault : In(1)
        While 1, the sub-window is frozen: it neither takes nor gives anything. There with `faults` only.

    Raises
    ------
    ParameterError
        If there is no such core.

    Timing
    ------
    A row a cycle while the sub-window takes them; a row that is another core's to store takes nothing. A row comes to
    the sub-window a cycle later, at the earliest.

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
        faults: bool = False,
    ):
        if not 0 <= index < parameters.cores:
            raise ParameterError(f"index must lie in 0..{parameters.cores - 1}, not {index!r}")
        self.parameters = parameters
        self.index = index
        self.side = side
        self._sub_window = sub_window
        self._faults = faults
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(tagged_row(parameters)),
                "probes": In(1),
                "counts": In(1),
                "arrives": In(1),
                "room": Out(1),
                "o": Out(stream.Signature(result_layout())),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(parameters.lanes + 1)),
                "stirs": Out(1),
            }
            | ({"fault": In(1)} if faults else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, i, index = self.parameters, self.i, self.index
        sub = self._sub_window(p, side=self.side)
        runs = ~self.fault if self._faults else Const(1, 1)
        m.submodules.sub_window = EnableInserter(runs)(sub) if self._faults else sub
        m.submodules.rows = rows = AlmostFullFifo(command_layout(p), way=rows_way(p) + 1, eager=True)
        wiring.connect(m, wiring.flipped(self.settings), sub.settings)
        m.d.comb += [
            sub.clear.eq(self.clear),
            sub.i.payload.eq(rows.o.payload),
            sub.i.valid.eq(rows.o.valid & runs),
            rows.o.ready.eq(Mux(runs, sub.i.ready, ~rows.o.valid)),
            self.o.payload.eq(sub.o.payload),
            self.o.valid.eq(sub.o.valid & runs),
            sub.o.ready.eq(self.o.ready & runs),
            self.room.eq(rows.room),
            self.busy.eq(rows.o.valid | sub.busy),
            self.overflow.eq(sub.overflow),
            self.compared.eq(Mux(runs, sub.compared, 0)),
            self.stirs.eq((rows.o.valid & rows.o.ready) | self.o.valid),
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
        share = Signal(range(p.rows + 1))  # rows of the window that are this core's
        empty = Signal(init=1)
        m.d.comb += [
            rows.i.valid.eq(self.probes | (self.arrives & arrive.now)),
            rows.i.p.probing.eq(self.probes),
            rows.i.p.first.eq(leave.place),
            rows.i.p.stop.eq(arrive.place),
            rows.i.p.before.eq(before),
            rows.i.p.empty.eq(empty),
            rows.i.p.early.eq(leave.passed),
            rows.i.p.late.eq((arrive.turn != 0) & ~arrive.passed),
        ]
        names = ("null", "more", "key", "row", *(("mark", "time") if p.time_bits else ()))
        names += (*(("lower", "upper") if p.bounds else ()), *second_column(p))
        m.d.comb += [getattr(rows.i.p, name).eq(getattr(i, name)) for name in names]
        with m.If(self.counts):
            m.d.sync += before.eq(before + 1)
        with m.If(self.arrives):
            m.d.sync += [*arrive.step(), fresh.eq(0)]
            with m.If(full):
                m.d.sync += leave.step()
            with m.Else():
                m.d.sync += [missing.eq(missing - 1), full.eq(missing == 1)]
            with m.If(arrive.now & ~(full & leave.now)):
                m.d.sync += [share.eq(share + 1), empty.eq(0)]
            with m.Elif(~arrive.now & full & leave.now):
                m.d.sync += [share.eq(share - 1), empty.eq(share == 1)]
        with m.Elif(fresh):
            m.d.sync += [missing.eq(length), full.eq(length == 0)]
        with m.If(self.settings.order == Order.NONE):
            m.d.sync += before.eq(0)
        with m.If(self.clear):
            m.d.sync += [missing.eq(length), full.eq(length == 0), fresh.eq(1), *arrive.reset(), *leave.reset()]
            m.d.sync += [share.eq(0), empty.eq(1)]
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
