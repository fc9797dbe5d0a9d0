"""The BI-Sort kernel: engines behind control registers."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import LANE_STRIDE
from muntin.hw.bisort.engine import Engine
from muntin.hw.control.command_lane import CommandLane
from muntin.hw.control.lane_decoder import LaneDecoder
from muntin.hw.control.layouts import Axi4LiteSignature
from muntin.hw.memory.axi4_signature import Axi4Signature


class Kernel(wiring.Component):
    """Engines, each with its queue and its registers, behind one AXI4-Lite port.

    Lanes work side by side on disjoint ranges of keys; the host cuts the rows up. Each lane has memory ports of
    its own, one for each channel.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    control : In(Axi4LiteSignature)
        The registers of `muntin.contract.registers`, those of lane n at ``n * LANE_STRIDE``.
    irq : Out(1)
        That of any lane.
    axi : array of Out(Axi4Signature), shape (lanes * channels,)
        Lane by lane.

    Timing
    ------
    See `Engine` and `CommandLane`.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = p = parameters
        self._engines = [Engine(p) for _ in range(p.lanes)]
        self.shape = shape = self._engines[0].shape
        super().__init__(
            {
                "control": In(Axi4LiteSignature(exact_log2(p.lanes * LANE_STRIDE))),
                "irq": Out(1),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width)).array(
                    p.lanes * p.channels
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        lanes = [CommandLane(BISORT, p, event=engine.event.shape()) for engine in self._engines]
        m.submodules.decoder = decoder = LaneDecoder(
            lanes=p.lanes, lane_address_width=lanes[0].control.signature.address_width
        )
        wiring.connect(m, wiring.flipped(self.control), decoder.axi)
        for number, (engine, lane) in enumerate(zip(self._engines, lanes, strict=True)):
            m.submodules[f"engine_{number}"] = engine
            m.submodules[f"lane_{number}"] = lane
            wiring.connect(m, decoder.lanes[number], lane.control)
            wiring.connect(m, lane.command, engine.command)
            wiring.connect(m, engine.result, lane.result)
            for channel in range(p.channels):
                wiring.connect(m, engine.axi[channel], wiring.flipped(self.axi[number * p.channels + channel]))
            m.d.comb += [
                engine.timeout_cycles.eq(lane.timeout_cycles),
                lane.busy.eq(engine.busy),
                lane.dead.eq(engine.dead),
            ]
            m.d.sync += lane.event.eq(engine.event)  # wide counters are at a distance from what they count
        m.d.comb += self.irq.eq(Cat(lane.irq for lane in lanes).any())
        return m
