"""What stands between a host and an engine."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.registers import ErrorCode, KernelMap, parameter_hash
from muntin.hw.control.command_queue import CommandQueue
from muntin.hw.control.control_registers import ControlRegisters
from muntin.hw.control.layouts import Axi4LiteSignature, CommandLayout, EventLayout, ResultLayout, SettingsLayout


class CommandLane(wiring.Component):
    """Registers, a queue of commands, the handshake over them, errors and counters of one engine.

    Commands are handed to the engine one after the other, until all that waited are worked off or one has failed.

    Parameters
    ----------
    kernel : KernelMap
    parameters
        Build parameters of that kernel; its `queue_rows` commands may wait.
    event : EventLayout
        Of the engine.

    Attributes
    ----------
    control : In(Axi4LiteSignature)
        The registers of `kernel`.
    irq : Out(1)
    command : Out(stream of CommandLayout)
    result : In(stream of ResultLayout)
        One for each command, in order.
    timeout_cycles : Out(32)
    settings : Out(SettingsLayout)
    busy : In(1)
        A command is under way.
    dead : In(1)
        The engine takes no other command until a reset.
    event : In(EventLayout)

    Timing
    ------
    A command is handed on 27 cycles after the one before, at the earliest.
    """

    def __init__(self, kernel: KernelMap, parameters: Any, *, event: EventLayout):
        self._kernel = kernel
        self._parameters = parameters
        self._registers = ControlRegisters(kernel)
        super().__init__(
            {
                "control": In(Axi4LiteSignature(self._registers.axi.signature.address_width)),
                "irq": Out(1),
                "command": Out(stream.Signature(CommandLayout())),
                "result": In(stream.Signature(ResultLayout())),
                "timeout_cycles": Out(32),
                "settings": Out(SettingsLayout(kernel)),
                "busy": In(1),
                "dead": In(1),
                "event": In(event),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = control = self._registers
        m.submodules.queue = queue = CommandQueue(self._parameters.queue_rows)
        status = control.status
        wiring.connect(m, wiring.flipped(self.control), control.axi)

        working, error = Signal(), Signal(ErrorCode)
        error_tag, error_address = Signal(16), Signal(64)
        completed_tag, completed = Signal(16), Signal(32)
        good = error == ErrorCode.NONE

        m.d.comb += [
            queue.pushed.eq(control.pushed),
            queue.word.eq(control.word),
            queue.clear.eq(control.error_clear),
            self.command.payload.eq(queue.o.payload),
            self.command.valid.eq(queue.o.valid & working & good),
            queue.o.ready.eq(self.command.ready & working & good),
            self.timeout_cycles.eq(control.timeout_cycles),
            self.settings.eq(control.settings),
            self.irq.eq(control.interrupt),
            self.result.ready.eq(1),
            control.idle.eq(~working & ~self.busy),
        ]

        # The handshake: all that waits is worked off, or all up to the first that fails.
        busy = (self.busy & ~self.dead) | self.result.valid
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
        failed = self.result.valid & (self.result.p.code != ErrorCode.NONE)
        with m.If(self.result.valid & ~failed):
            m.d.sync += [completed_tag.eq(self.result.p.tag), completed.eq(completed + 1)]
        # What fails while the host clears the error before is not forgotten; a memory that never answers outdoes all.
        timed_out = self.result.p.code == ErrorCode.TIMEOUT
        with m.If(failed & (good | control.error_clear | timed_out)):
            m.d.sync += [
                error.eq(self.result.p.code),
                error_tag.eq(self.result.p.tag),
                error_address.eq(self.result.p.address),
            ]
        with m.Elif(control.error_clear & ~self.dead):
            m.d.sync += [error.eq(ErrorCode.NONE), error_tag.eq(0), error_address.eq(0)]
        with m.Elif(queue.overflow & good):
            m.d.sync += error.eq(ErrorCode.QUEUE_OVERFLOW)
        m.d.comb += [
            status.error_code.eq(error),
            status.error_command.eq(error_tag),
            status.error_address_low.eq(error_address[:32]),
            status.error_address_high.eq(error_address[32:]),
            status.queue_status.eq(
                Cat((queue.waiting + self.busy)[:16].as_unsigned() & 0xFFFF)
                | (queue.free << 16)
                | (queue.partial << 31)
            ),
            status.completed_tag.eq(completed_tag),
            status.completed_count.eq(completed),
            status.build_parameters.eq(self._kernel.build_parameters(self._parameters)),
            status.build_id.eq(self._kernel.build_id),
            status.layout_hash.eq(self._kernel.layout_hash()),
            status.parameter_hash.eq(parameter_hash(self._parameters)),
        ]

        # Counters.
        for name, _ in self._kernel.counters:
            counter = Signal(64, name=name)
            m.d.sync += counter.eq(Mux(control.counter_clear, 0, counter + self.event[name]))
            m.d.comb += [
                status[f"{name}_low"].eq(counter[:32]),
                status[f"{name}_high"].eq(counter[32:]),
            ]
        return m
