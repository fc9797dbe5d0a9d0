"""A join core: a left and a right region behind one stream."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.almost_full_fifo import AlmostFullFifo
from hw.splitjoin.distributor import rows_way
from hw.splitjoin.nested_loop import NestedLoop
from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.region import Region
from hw.splitjoin.result_layout import result_layout
from hw.splitjoin.settings_signature import SettingsSignature
from hw.splitjoin.side import Side
from hw.splitjoin.tagged_row import tagged_row

RESULTS_WAY = 2
"""Cycles in which a result may still come out, from the one on in which there is no room first."""


class JoinCore(wiring.Component):
    """Hands every row to both its regions, each when that one is ready: one stores where the other compares.

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
    i : In(stream of tagged_row, always ready)
        Rows beyond the room that was said are lost.
    room : Out(1)
        Set while there is room for the rows of `rows_way` cycles.
    left, right : Out(stream of result_layout, always ready)
        The results of probing rows of the left stream, and of the right one.
    left_room, right_room : In(1)
        Set while there is room for the results of `RESULTS_WAY` cycles, this one included.
    busy, overflow
        Set where they are in a region.
    compared : Out(range(2 * lanes + 1))
        Rows compared in a cycle.
    stirs : Out(1)
        As of `CoreWatch`.
    fault : In(1)
        While 1, both regions are frozen: they neither take nor give anything. There with `faults` only.

    Timing
    ------
    A row a cycle while both regions take them, and rows wait before each region without regard to the other one. A
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
        self._regions = {side: Region(parameters, index=index, side=side.other, sub_window=sub_window) for side in Side}
        self._faults = faults
        result = stream.Signature(result_layout(), always_ready=True)
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters), always_ready=True)),
                "room": Out(1),
                "left": Out(result),
                "right": Out(result),
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
        held, clear = SettingsSignature(self.parameters).create(path=("held",)), Signal()
        m.d.sync += clear.eq(self.clear)
        for name in held.signature.members:
            setting = getattr(self.settings, name)
            copy = Signal(setting.shape(), name=f"copy_{name}", reset_less=True)
            m.d.sync += copy.eq(setting)
            m.d.comb += getattr(held, name).eq(copy)
        # Each region has its own copy of the rows: it takes them without a word to the other one.
        came, row = Signal(), Signal(layout, reset_less=True)
        m.d.sync += [came.eq(self.i.valid), row.eq(self.i.payload)]
        runs = ~self.fault if self._faults else Const(1, 1)
        room: list[Value] = []
        waiting: list[Value] = [came]
        stirs: list[Value] = []
        for side, region in self._regions.items():
            name = side.name.lower()
            rows = AlmostFullFifo(layout, way=rows_way(self.parameters) + 1)
            m.submodules[f"{name}_rows"] = rows
            m.submodules[f"{name}_probes"] = EnableInserter(runs)(region) if self._faults else region
            wiring.connect(m, held, region.settings)
            port = self.left if side == Side.LEFT else self.right
            goes = Signal(name=f"{name}_goes")
            result = Signal(result_layout(), name=f"{name}_result", reset_less=True)
            m.d.comb += [
                region.clear.eq(clear),
                rows.i.payload.eq(row),
                rows.i.valid.eq(came),
                region.i.payload.eq(rows.o.payload),
                region.i.valid.eq(rows.o.valid & runs),
                rows.o.ready.eq(region.i.ready & runs),
                region.o.ready.eq(goes & runs),
                port.payload.eq(result),
            ]
            m.d.sync += [
                goes.eq(self.left_room if side == Side.LEFT else self.right_room),
                port.valid.eq(region.o.valid & goes & runs),
                result.eq(region.o.payload),
            ]
            room.append(rows.room)
            waiting += [rows.o.valid, region.busy, port.valid]
            stirs += [rows.o.valid & rows.o.ready, region.o.valid & runs]
        left, right = self._regions.values()
        m.d.comb += [
            self.room.eq(Cat(room).all()),
            self.busy.eq(Cat(waiting).any()),
            self.overflow.eq(left.overflow | right.overflow),
            self.compared.eq(Mux(runs, left.compared + right.compared, 0)),
            self.stirs.eq(Cat(stirs).any() | (self.compared != 0) | ~self.busy),
        ]
        return m
