"""A join core: a left and a right region behind one stream."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.splitjoin.layouts import Side, result_layout, tagged_row
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.region import Region
from muntin.hw.splitjoin.result_fifo import ResultFlow
from muntin.hw.splitjoin.settings_signature import SettingsSignature, copy_settings

RESULTS_WAY = 2
"""Cycles in which a result may still come out, from the one on in which there is no room first."""


class JoinCore(wiring.Component):
    """Hands every row to both its regions: one stores where the other compares.

    Parameters
    ----------
    parameters : SplitJoinParameters
    index : int
        The core, from 0.
    sub_window : callable
        Makes the sub-window of a region, see `Region`.
    faults : bool
        True to build `fault`, for simulation.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
        Empties both windows, while not `busy` and two cycles before the next row.
    i : In(stream of tagged_row, always ready)
        Rows beyond the room that was said are lost.
    room : Out(1)
        Set while there is room for the rows of `rows_way` cycles.
    left, right : Out(ResultFlow)
        The results of probing rows of the left stream, and of the right one.
    left_room, right_room : In(1)
        Set while there is room for the results of `RESULTS_WAY` cycles, this one included.
    busy, overflow
        Set where they are in a region, a cycle late.
    compared : Out(range(2 * lanes + 1))
        Rows compared in a cycle, a cycle late.
    stirs : Out(1)
        As of `CoreWatch`, a cycle late.
    fault : In(1)
        While 1, both sub-windows are frozen: they neither take nor give anything. There with `faults` only.

    Timing
    ------
    A row a cycle while both sub-windows take them, and rows wait before each without regard to the other one. A
    probe's first result comes out twelve cycles after it came, at the earliest. Between this core's logic and the
    distributor's and mergers' there are registers each way: the ways are long.

    Source
    ------
    SplitJoin, section 3 (join core).
    """

    def __init__(
        self,
        parameters: SplitJoinParameters,
        *,
        index: int,
        sub_window: Callable[..., wiring.Component] = NestedLoop,
        faults: bool = False,
    ):
        self.parameters = parameters
        # The region that stores the right stream has the results of the left one.
        self._regions = {
            side: Region(parameters, index=index, side=side.other, sub_window=sub_window, faults=faults)
            for side in Side
        }
        self._faults = faults
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters), always_ready=True)),
                "room": Out(1),
                "left": Out(ResultFlow()),
                "right": Out(ResultFlow()),
                "left_room": In(1),
                "right_room": In(1),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(2 * parameters.lanes + 1)),
                "stirs": Out(1),
            }
            | ({"fault": In(1)} if faults else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = tagged_row(self.parameters)
        # A copy of its own: the settings' registers may be far away.
        clear = Signal()
        m.d.sync += clear.eq(self.clear)
        held = copy_settings(m, self.settings, "held", parameters=self.parameters)
        # Both regions take the rows without a word to each other.
        came, row = Signal(), Signal(layout, reset_less=True)
        more = self.i.p.more & (held.order == Order.OUTER)
        m.d.sync += [came.eq(self.i.valid), row.eq(self.i.payload), row.more.eq(more)]
        mark = self.i.p.mark if self.parameters.time_bits else Const(0, 1)
        again = self.i.p.again if self.parameters.bounds else Const(0, 1)
        room: list[Value] = []
        waiting: list[Value] = [came]
        stirs: list[Value] = []
        for side, region in self._regions.items():
            name = side.name.lower()
            m.submodules[f"{name}_probes"] = region
            wiring.connect(m, held, region.settings)
            port = self.left if side == Side.LEFT else self.right
            goes = Signal(name=f"{name}_goes")
            result = Signal(result_layout(), name=f"{name}_result", reset_less=True)
            m.d.comb += [
                region.clear.eq(clear),
                region.i.eq(row),
                region.o.ready.eq(goes),
                port.payload.eq(result),
            ]
            if self._faults:
                m.d.comb += region.fault.eq(self.fault)
            stored = self.i.valid & (self.i.p.side == region.side) & ~mark
            m.d.sync += [
                region.probes.eq(self.i.valid & (self.i.p.side != region.side)),
                region.counts.eq(stored & ~more),
                region.arrives.eq(stored & ~again),
                goes.eq(self.left_room if side == Side.LEFT else self.right_room),
                port.pair.eq(region.o.valid & goes & ~region.o.p.star),
                port.star.eq(region.o.valid & goes & region.o.p.star),
                result.eq(region.o.payload),
                result.in_order.eq(held.order == Order.INNER),
            ]
            room.append(region.room)
            waiting += [region.busy, port.pair, port.star]
            stirs.append(region.stirs)
        left, right = self._regions.values()
        busy = Cat(waiting).any()
        m.d.comb += self.room.eq(Cat(room).all())
        m.d.sync += [
            self.compared.eq(left.compared + right.compared),
            self.busy.eq(busy),
            self.overflow.eq(left.overflow | right.overflow),
            self.stirs.eq(Cat(*stirs, left.compared, right.compared).any() | ~busy),
        ]
        return m
