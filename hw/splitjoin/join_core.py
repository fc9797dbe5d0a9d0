"""A join core: a left and a right region behind one stream."""

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.nested_loop import NestedLoop
from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.quick_fifo import QuickFifo
from hw.splitjoin.region import Region
from hw.splitjoin.result_layout import result_layout
from hw.splitjoin.settings_signature import SettingsSignature
from hw.splitjoin.side import Side
from hw.splitjoin.tagged_row import tagged_row

_ON_THE_WAY = 4
"""Rows that may come to be among those that wait after it was looked how many do."""
_INPUT_ROWS = 2 * _ON_THE_WAY
"""Rows that a region finds room for at its input."""
_OUTPUT_RESULTS = 2
"""Results behind a region, apart from those that wait in its sub-window."""


class JoinCore(wiring.Component):
    """Hands every row to both its regions, each when that one is ready: one stores where the other compares.

    Parameters
    ----------
    parameters : SplitJoinParameters
    index : int
        The core, from 0.
    sub_window : callable
        Makes the sub-window of a region, see `Region`.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
    i : In(stream of tagged_row)
    left, right : Out(stream of result_layout)
        The results of probing rows of the left stream, and of the right one.
    busy, overflow
        Set where they are in a region.
    compared : Out(range(2 * lanes + 1))
        Rows compared in a cycle.

    Timing
    ------
    A row a cycle while both regions take them. Four rows at least wait before each region, and two results behind it,
    after those in its sub-window. A probe's first result comes out twelve cycles after it was taken, at the earliest.
    Between this core's logic and the distributor's there are registers each way: the ways are long.

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
    ):
        self.parameters = parameters
        # The region that stores the right stream has the results of the left one.
        self._regions = {side: Region(parameters, index=index, side=side.other, sub_window=sub_window) for side in Side}
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters))),
                "left": Out(result),
                "right": Out(result),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(2 * parameters.lanes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A copy of its own: the settings' registers may be far away.
        held, clear = SettingsSignature(self.parameters).create(path=("held",)), Signal()
        m.d.sync += [clear.eq(self.clear)]
        m.d.sync += [getattr(held, name).eq(getattr(self.settings, name)) for name in held.signature.members]
        # Each region has its own copy of the rows: it takes them without a word to the other one. A row is looked at a
        # cycle after it was taken, and room is told two cycles late: one register at each end of the way.
        room, came = Signal(2), Signal()
        taking, told = Signal(init=1), Signal(init=1)
        row = Signal(tagged_row(self.parameters), reset_less=True)
        waiting: list[Value] = [came]
        m.d.sync += [taking.eq(room.all()), told.eq(taking), came.eq(self.i.valid & told), row.eq(self.i.payload)]
        m.d.comb += self.i.ready.eq(told)
        for side, region in self._regions.items():
            name = side.name.lower()
            rows = QuickFifo(width=tagged_row(self.parameters).size, depth=_INPUT_ROWS)
            results = QuickFifo(width=result_layout().size, depth=_OUTPUT_RESULTS)
            m.submodules[f"{name}_rows"], m.submodules[f"{name}_probes"] = rows, region
            m.submodules[f"{name}_results"] = results
            wiring.connect(m, held, region.settings)
            port = self.left if side == Side.LEFT else self.right
            m.d.comb += [
                region.clear.eq(clear),
                region.i.payload.eq(rows.r_data),
                region.i.valid.eq(rows.r_rdy),
                rows.r_en.eq(region.i.ready),
                rows.w_data.eq(row),
                rows.w_en.eq(came),
                room[side].eq(rows.w_level <= _INPUT_ROWS - _ON_THE_WAY),
                results.w_data.eq(region.o.payload),
                results.w_en.eq(region.o.valid),
                region.o.ready.eq(results.w_rdy),
                port.payload.eq(results.r_data),
                port.valid.eq(results.r_rdy),
                results.r_en.eq(port.ready),
            ]
            waiting += [rows.r_rdy, region.busy, results.r_rdy]
        left, right = self._regions.values()
        m.d.comb += [
            self.busy.eq(Cat(waiting).any()),
            self.overflow.eq(left.overflow | right.overflow),
            self.compared.eq(left.compared + right.compared),
        ]
        return m
