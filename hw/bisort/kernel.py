"""The BI-Sort kernel: engines behind control registers."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.bisort.engine import Engine
from hw.control.axi4_lite_signature import Axi4LiteSignature
from hw.control.command_queue import CommandQueue
from hw.control.control_registers import ControlRegisters
from hw.control.lane_decoder import LaneDecoder
from hw.identity import parameter_hash
from hw.memory.axi4_signature import Axi4Signature
from hw.parameters import Parameters
from hw.register_map import (
    BUILD_ID,
    COUNTERS,
    LANE_STRIDE,
    ErrorCode,
    build_parameters,
    layout_hash,
)


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
        The registers of `hw.register_map`, those of lane n at ``n * LANE_STRIDE``.
    irq : Out(1)
        That of any lane.
    axi : array of Out(Axi4Signature), shape (lanes * channels,)
        Lane by lane.

    Timing
    ------
    See `Engine`; a command is taken from the queue 27 cycles after the one before.
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
        controls = [ControlRegisters() for _ in range(p.lanes)]
        m.submodules.decoder = decoder = LaneDecoder(
            lanes=p.lanes, lane_address_width=controls[0].axi.signature.address_width
        )
        wiring.connect(m, wiring.flipped(self.control), decoder.axi)
        for number, (engine, control) in enumerate(zip(self._engines, controls, strict=True)):
            m.submodules[f"engine_{number}"] = engine
            m.submodules[f"control_{number}"] = control
            wiring.connect(m, decoder.lanes[number], control.axi)
            for channel in range(p.channels):
                wiring.connect(m, engine.axi[channel], wiring.flipped(self.axi[number * p.channels + channel]))
            self._lane(m, number, engine, control)
        m.d.comb += self.irq.eq(Cat(control.interrupt for control in controls).any())
        return m

    def _lane(self, m: Module, number: int, engine: Engine, control: ControlRegisters) -> None:
        p = self.parameters
        m.submodules[f"queue_{number}"] = queue = CommandQueue(p.queue_rows)
        status = control.status

        def signal(shape, name):
            return Signal(shape, name=f"{name}_{number}")

        working, error = signal(1, "working"), signal(ErrorCode, "error")
        error_tag, error_address = signal(16, "error_tag"), signal(64, "error_address")
        completed_tag, completed = signal(16, "completed_tag"), signal(32, "completed")
        good = error == ErrorCode.NONE

        m.d.comb += [
            queue.pushed.eq(control.pushed),
            queue.word.eq(control.word),
            queue.clear.eq(control.error_clear),
            engine.command.payload.eq(queue.o.payload),
            engine.command.valid.eq(queue.o.valid & working & good),
            queue.o.ready.eq(engine.command.ready & working & good),
            engine.timeout_cycles.eq(control.timeout_cycles),
            engine.result.ready.eq(1),
            control.idle.eq(~working & ~engine.busy),
        ]

        # The handshake: all that waits is worked off, or all up to the first that fails.
        busy = (engine.busy & ~engine.dead) | engine.result.valid
        over = working & ~busy & (~good | (queue.waiting == 0))
        m.d.comb += control.done.eq(over)
        with m.If(over):
            m.d.sync += working.eq(0)
        with m.Elif(working):
            pass
        with m.Elif(control.start):
            m.d.comb += control.ready.eq(1)
            m.d.sync += working.eq(1)
        with m.Elif(control.auto_restart & good & (queue.waiting != 0)):
            m.d.sync += working.eq(1)

        # Results.
        failed = engine.result.valid & (engine.result.p.code != ErrorCode.NONE)
        with m.If(engine.result.valid & ~failed):
            m.d.sync += [completed_tag.eq(engine.result.p.tag), completed.eq(completed + 1)]
        # What fails while the host clears the error before is not forgotten; a memory that never answers outdoes all.
        timed_out = engine.result.p.code == ErrorCode.TIMEOUT
        with m.If(failed & (good | control.error_clear | timed_out)):
            m.d.sync += [
                error.eq(engine.result.p.code),
                error_tag.eq(engine.result.p.tag),
                error_address.eq(engine.result.p.address),
            ]
        with m.Elif(control.error_clear & ~engine.dead):
            m.d.sync += [error.eq(ErrorCode.NONE), error_tag.eq(0), error_address.eq(0)]
        with m.Elif(queue.overflow & good):
            m.d.sync += error.eq(ErrorCode.QUEUE_OVERFLOW)
        m.d.comb += [
            status.error_code.eq(error),
            status.error_command.eq(error_tag),
            status.error_address_low.eq(error_address[:32]),
            status.error_address_high.eq(error_address[32:]),
            status.queue_status.eq(
                Cat((queue.waiting + engine.busy)[:16].as_unsigned() & 0xFFFF)
                | (queue.free << 16)
                | (queue.partial << 31)
            ),
            status.completed_tag.eq(completed_tag),
            status.completed_count.eq(completed),
            status.build_parameters.eq(build_parameters(p)),
            status.build_id.eq(BUILD_ID),
            status.layout_hash.eq(layout_hash()),
            status.parameter_hash.eq(parameter_hash(p)),
        ]

        # Counters.
        for name, _ in COUNTERS:
            counter = signal(64, name)
            m.d.sync += counter.eq(Mux(control.counter_clear, 0, counter + engine.event[name]))
            m.d.comb += [
                status[f"{name}_low"].eq(counter[:32]),
                status[f"{name}_high"].eq(counter[32:]),
            ]
