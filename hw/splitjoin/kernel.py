"""The SplitJoin kernel: an engine behind control registers."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SPLITJOIN, SplitJoinParameters
from muntin.hw.control.command_lane import CommandLane
from muntin.hw.control.layouts import Axi4LiteSignature
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.splitjoin.join_engine import JoinEngine
from muntin.hw.splitjoin.nested_loop import NestedLoop


class SplitJoinKernel(wiring.Component):
    """SplitJoin between a memory port and a control port.

    Parameters
    ----------
    parameters : SplitJoinParameters
    sub_window : callable
        Makes the sub-windows, see `Region`.
    faults : bool
        True to build `fault`, for simulation.

    Attributes
    ----------
    control : In(Axi4LiteSignature)
        The registers of `muntin.contract.designs.splitjoin.SPLITJOIN`.
    irq : Out(1)
    axi : array of one Out(Axi4Signature)
    fault : In(cores)
        As of `SplitJoin`; there with `faults` only.

    Timing
    ------
    See `JoinEngine` and `CommandLane`.
    """

    def __init__(
        self,
        parameters: SplitJoinParameters,
        *,
        sub_window: Callable[..., wiring.Component] = NestedLoop,
        faults: bool = False,
    ):
        self.parameters = p = parameters
        self._faults = faults
        self._engine = JoinEngine(p, sub_window=sub_window, faults=faults)
        self.shape = shape = self._engine.shape
        self._lane = CommandLane(SPLITJOIN, p, event=self._engine.event.shape())
        super().__init__(
            {
                "control": In(Axi4LiteSignature(self._lane.control.signature.address_width)),
                "irq": Out(1),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width)).array(1),
            }
            | ({"fault": In(p.cores)} if faults else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.engine = engine = self._engine
        m.submodules.lane = lane = self._lane
        wiring.connect(m, wiring.flipped(self.control), lane.control)
        wiring.connect(m, lane.command, engine.command)
        wiring.connect(m, engine.result, lane.result)
        wiring.connect(m, engine.axi[0], wiring.flipped(self.axi[0]))
        m.d.comb += [
            engine.timeout_cycles.eq(lane.timeout_cycles),
            engine.settings.eq(lane.settings),
            lane.busy.eq(engine.busy),
            lane.dead.eq(engine.dead),
            lane.event.eq(engine.event),
            self.irq.eq(lane.irq),
        ]
        if self._faults:
            m.d.comb += engine.fault.eq(self.fault)
        return m
