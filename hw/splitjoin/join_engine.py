"""Carries out the commands of SplitJoin over rows and results in memory."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import C, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract.designs.splitjoin import RESULT_BYTES, SPLITJOIN, SUMMARY_FIELDS, SplitJoinParameters, row_words
from muntin.contract.registers import ErrorCode, Operation
from muntin.hw.control.layouts import CommandLayout, EventLayout, ResultLayout, SettingsLayout
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_reader import BurstReader
from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.stream_writer import StreamWriter
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.result_packer import ResultPacker
from muntin.hw.splitjoin.row_cutter import RowCutter
from muntin.hw.splitjoin.splitjoin import SplitJoin

ARRAYS = ("keys_a", "keys_out", "rows_out")
"""What a JOIN has in memory: rows, results, the summary."""

_SETTLED = 4
"""Cycles in which SplitJoin must stand still before it is taken to be drained."""


class JoinEngine(wiring.Component):
    """Carries out one command at a time: brings rows to SplitJoin and its results to memory, and reports.

    A JOIN ends when all results of its rows are in memory. It also ends when the room for results is full: then it
    takes no more rows, and what is under way in SplitJoin stays there for the next JOIN.

    All that a command names is checked before anything moves. Where the memory fails later, no more addresses are sent;
    once it has answered those that were, everything is reset, both windows too, and the engine is ready for the next
    command. Only a memory that never answers leaves it standing. A join core that stops answering is passed by, and the
    command reported as failed when all else is done.

    Parameters
    ----------
    parameters : SplitJoinParameters
    sub_window : callable
        Makes the sub-windows, see `Region`.
    faults : bool
        True to build `fault`, for simulation.

    Attributes
    ----------
    shape : PortShape
        Of the memory port.
    command : In(stream of CommandLayout)
    result : Out(stream of ResultLayout)
        One for each command, in order.
    timeout_cycles : In(32)
        Cycles in which a memory that owes an answer may stand still; 0 for any number.
    settings : In(SettingsLayout)
        Changed only while `busy` is 0, and SplitJoin drained.
    busy : Out(1)
        A command is under way.
    dead : Out(1)
        The memory owes an answer for good; no other command is taken until a reset. `busy` stays.
    event : Out(EventLayout)
        What happened in this cycle.
    axi : array of one Out(Axi4Signature)
    fault : In(cores)
        As of `SplitJoin`.

    Timing
    ------
    From a command to its first address lie 10 cycles. A row a cycle in and a result a cycle out, as far as SplitJoin
    and the memory go.

    Source
    ------
    SplitJoin, section 3, for what is behind the memory. Commands, room for results that can be less than there are, and
    what is done when a part fails are ours.
    """

    def __init__(
        self,
        parameters: SplitJoinParameters,
        *,
        sub_window: Callable[..., wiring.Component] = NestedLoop,
        faults: bool = False,
    ):
        self.parameters = p = parameters
        self.shape = shape = PortShape.of_kernel(p)
        self._join = SplitJoin(p, sub_window=sub_window, faults=faults)
        self._faults = faults
        axi = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__(
            {
                "command": In(stream.Signature(CommandLayout())),
                "result": Out(stream.Signature(ResultLayout())),
                "timeout_cycles": In(32),
                "settings": In(SettingsLayout(SPLITJOIN)),
                "busy": Out(1),
                "dead": Out(1),
                "event": Out(EventLayout(SPLITJOIN, {"compared": len(self._join.compared)})),
                "axi": Out(axi).array(1),
            }
            | ({"fault": In(p.cores)} if faults else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, shape = self.parameters, self.shape
        join = self._join
        restart = Signal()  # of everything between SplitJoin and the memory
        empty = Signal()  # of SplitJoin
        halt = Signal()
        reader, writer = BurstReader(shape), StreamWriter(shape)
        port = MemoryPort(
            shape, readers=1, writers=1, turn_bytes=p.turn_bytes, alternate_bytes=p.alternate_bytes or None
        )
        cutter, packer = RowCutter(p), ResultPacker(p.data_bits)
        blocks = {"reader": reader, "writer": writer, "port": port, "cutter": cutter, "packer": packer}
        for name, block in blocks.items():
            m.submodules[name] = ResetInserter(restart)(block)
        m.submodules.join = ResetInserter(empty)(join)
        wiring.connect(m, reader.axi, port.readers[0])
        wiring.connect(m, writer.axi, port.writers[0])
        wiring.connect(m, port.axi, wiring.flipped(self.axi[0]))
        wiring.connect(m, reader.o, cutter.i)
        wiring.connect(m, join.o, packer.i)
        m.d.comb += [port.halt.eq(halt), join.core_timeout.eq(self.settings.core_timeout_cycles)]
        if self._faults:
            m.d.comb += join.fault.eq(self.fault)
        self._set(m, join)

        command = Signal(CommandLayout())
        joining, clearing = command.operation == Operation.JOIN, command.operation == Operation.CLEAR
        running, summing = Signal(), Signal()

        # --- Rows in, as long as there is room for their results, and results out.
        rows, results = Signal(32), Signal(32)
        rows_left = Signal(32)
        all_taken, drained = Signal(), Signal()
        settled = Signal(range(_SETTLED + 1))
        taking = Signal()
        row_in, result_out = join.i.valid & join.i.ready, join.o.valid & join.o.ready
        m.d.comb += [
            taking.eq(running & ~all_taken & ~packer.full),
            join.i.payload.eq(cutter.o.payload),
            join.i.valid.eq(cutter.o.valid & taking),
            cutter.o.ready.eq(join.i.ready & taking),
            drained.eq(settled == _SETTLED),
            packer.finish.eq(running & drained),
        ]
        m.d.sync += [rows.eq(rows + row_in), results.eq(results + result_out)]
        with m.If(row_in):
            m.d.sync += [rows_left.eq(rows_left - 1), all_taken.eq(rows_left == 1)]
        with m.If(~all_taken | ~join.idle):
            m.d.sync += settled.eq(0)
        with m.Elif(~drained):
            m.d.sync += settled.eq(settled + 1)

        # --- The summary, made when nothing moves any more.
        lost = Signal()
        known = {
            "rows": rows,
            "results": results,
            "drained": drained,
            "overflow": join.overflow,
            "incomplete": lost,
            "core": Mux(lost, join.first_dead, 0),
        }
        summary = Signal(32 * len(SUMMARY_FIELDS))
        for number, word in enumerate(SUMMARY_FIELDS):
            for field in word:
                at = 32 * number + field.lsb
                m.d.comb += summary[at : at + field.bits].eq(known[field.name])

        # --- Transfers: the rows; and the results as far as they have room, then the summary, by one writer.
        beat_log2 = exact_log2(p.beat_bytes)
        beats = Signal(32)  # of room
        asked_rows, asked_results, asked_summary, sent_summary = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            beats.eq(command.length_b >> exact_log2(p.beat_bytes // RESULT_BYTES)),
            packer.room.eq(beats),
            reader.transfer.valid.eq(running & ~asked_rows & (command.length_a != 0)),
            reader.transfer.p.address.eq(command.keys_a),
            reader.transfer.p.length.eq(command.length_a << exact_log2(4 * row_words(p))),
            reader.status.ready.eq(1),
            writer.written.ready.eq(1),
        ]
        with m.If(summing):
            m.d.comb += [
                writer.transfer.valid.eq(~asked_summary),
                writer.transfer.p.address.eq(command.rows_out),
                writer.transfer.p.length.eq(p.beat_bytes),
                writer.i.valid.eq(~sent_summary),
                writer.i.p.data.eq(summary),
                writer.i.p.keep.eq(-1),
                writer.i.p.last.eq(1),
            ]
        with m.Else():
            m.d.comb += [
                writer.transfer.valid.eq(running & ~asked_results),
                writer.transfer.p.address.eq(command.keys_out),
                writer.transfer.p.length.eq(beats << beat_log2),
                writer.i.valid.eq(packer.o.valid),
                writer.i.payload.eq(packer.o.payload),
                packer.o.ready.eq(writer.i.ready),
            ]
        with m.If(reader.transfer.valid & reader.transfer.ready):
            m.d.sync += asked_rows.eq(1)
        with m.If(writer.transfer.valid & writer.transfer.ready):
            m.d.sync += [asked_results.eq(running | asked_results), asked_summary.eq(summing)]
        with m.If(summing & writer.i.valid & writer.i.ready):
            m.d.sync += sent_summary.eq(1)

        # --- What a memory answers is looked at as it comes, before rows can do any harm.
        failed, failed_code, failed_address = Signal(), Signal(ErrorCode), Signal(64)
        ended = writer.written.valid
        for base, answer, here in (
            (command.keys_a, reader.axi.rresp, reader.axi.rvalid & reader.axi.rready),
            (
                Mux(summing, command.rows_out, command.keys_out),
                writer.axi.bresp,
                writer.axi.bvalid & writer.axi.bready,
            ),
        ):
            with m.If(here & answer[1]):
                m.d.comb += [
                    failed.eq(1),
                    failed_code.eq(Mux(answer[0], ErrorCode.DECODE_ERROR, ErrorCode.MEMORY_ERROR)),
                    failed_address.eq(base),
                ]
        timed_out = Signal()
        still = Signal(32)
        m.d.comb += timed_out.eq(~port.quiet & (self.timeout_cycles != 0) & ~(still < self.timeout_cycles))
        m.d.sync += still.eq(Mux(port.quiet | port.progress, 0, still + 1))

        # --- From command to result.
        code, address = Signal(ErrorCode), Signal(64)
        step = Signal(range(len(ARRAYS) + 2))
        cleaning = Signal(2)
        m.d.comb += [
            self.busy.eq(1),
            self.result.p.code.eq(code),
            self.result.p.tag.eq(command.tag),
            self.result.p.address.eq(address),
        ]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.busy.eq(0), self.command.ready.eq(1)]
                m.d.sync += [command.eq(self.command.payload), code.eq(ErrorCode.NONE), address.eq(0), step.eq(0)]
                m.d.sync += [rows.eq(0), results.eq(0), all_taken.eq(0), settled.eq(0), cleaning.eq(0)]
                m.d.sync += [flag.eq(0) for flag in (asked_rows, asked_results, asked_summary, sent_summary)]
                with m.If(self.command.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += step.eq(step + 1)
                self._check(m, command, beats, step, code, address)
                with m.If(step == len(ARRAYS) + 1):
                    m.next = "RESULT"
                    with m.If(code == ErrorCode.NONE):
                        with m.If(clearing):
                            m.next = "CLEAN"
                        with m.If(joining):
                            m.d.comb += packer.start.eq(1)
                            m.d.sync += [rows_left.eq(command.length_a), all_taken.eq(command.length_a == 0)]
                            m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If(failed):
                    m.d.sync += [code.eq(failed_code), address.eq(failed_address)]
                    m.next = "HALT"
                with m.Elif(timed_out):
                    m.d.sync += code.eq(ErrorCode.TIMEOUT)
                    m.next = "DEAD"
                with m.Elif(ended):
                    m.next = "HALT"
            with m.State("HALT"):
                # What was read ahead and not taken is dropped.
                m.d.comb += halt.eq(1)
                with m.If(port.quiet):
                    m.next = "CLEAN"
                with m.Elif(timed_out):
                    m.d.sync += code.eq(ErrorCode.TIMEOUT)
                    m.next = "DEAD"
            with m.State("CLEAN"):
                m.d.comb += [halt.eq(1), restart.eq(1), empty.eq((code != ErrorCode.NONE) | clearing)]
                m.d.sync += [cleaning.eq(cleaning + 1), lost.eq(join.dead.any())]
                with m.If(cleaning == 3):
                    m.next = "RESULT"
                    with m.If(joining & (code == ErrorCode.NONE)):
                        m.next = "SUMMARY"
            with m.State("SUMMARY"):
                m.d.comb += summing.eq(1)
                with m.If(failed):
                    m.d.sync += [code.eq(failed_code), address.eq(failed_address)]
                    m.next = "HALT"
                with m.Elif(timed_out):
                    m.d.sync += code.eq(ErrorCode.TIMEOUT)
                    m.next = "DEAD"
                with m.Elif(ended):
                    m.next = "RESULT"
                    with m.If(lost):
                        m.d.sync += [code.eq(ErrorCode.CORE_STUCK), address.eq(join.first_dead)]
            with m.State("RESULT"):
                m.d.comb += self.result.valid.eq(1)
                with m.If(self.result.ready):
                    m.next = "IDLE"
            with m.State("DEAD"):
                m.d.comb += [halt.eq(1), self.result.valid.eq(1)]
                with m.If(self.result.ready):
                    m.next = "STANDING"
            with m.State("STANDING"):
                m.d.comb += [halt.eq(1), self.dead.eq(1)]

        # --- Counters.
        axi = self.axi[0]
        m.d.comb += [
            self.event.cycles.eq(self.busy),
            self.event.commands.eq(fsm.ongoing("RESULT") & self.result.ready & (code == ErrorCode.NONE)),
            self.event.read_beats.eq(axi.rvalid & axi.rready),
            self.event.write_beats.eq(axi.wvalid & axi.wready),
            self.event.input_stalls.eq(taking & join.i.ready & ~cutter.o.valid),
            self.event.output_stalls.eq(running & join.o.valid & ~join.o.ready),
            self.event.rows_in.eq(row_in),
            self.event.rows_out.eq(result_out),
            self.event.compared.eq(join.compared),
        ]
        return m

    def _set(self, m: Module, join: SplitJoin) -> None:
        """SplitJoin's settings from the registers."""
        registers, settings = self.settings, join.settings
        fields = {
            "complement": ("predicate", "complement"),
            "own_bounds": ("predicate", "own_bounds"),
            "order": ("order", "order"),
            "every": ("order", "every"),
            "timed": ("timed", "timed"),
        }
        table = {register.name.lower(): register for register in SPLITJOIN.settings}
        for name in settings.signature.members:
            if name in fields:
                register, field = fields[name]
                place = table[register].field(field)
                value = registers[register][place.lsb : place.lsb + place.bits]
            elif name in table:
                value = registers[name]
            else:
                value = Cat(registers[word] for word in table if word.rpartition("_")[0] == name)
            m.d.comb += getattr(settings, name).eq(value)

    def _check(self, m: Module, command: Value, beats: Value, step: Value, code: Value, address: Value) -> None:
        """Sets `code` and `address` to the first mistake of a command, in ``len(ARRAYS) + 2`` steps."""
        p = self.parameters
        joining = command.operation == Operation.JOIN
        sizes = {
            "keys_a": (command.length_a << exact_log2(4 * row_words(p)), command.length_a != 0),
            "keys_out": (beats << exact_log2(p.beat_bytes), 1),
            "rows_out": (C(p.beat_bytes, 36), 1),
        }
        looked, start, length = Signal(), Signal(64), Signal(40)
        last_byte = Signal(65)
        m.d.comb += last_byte.eq(start + length - 1)
        m.d.sync += looked.eq(0)
        with m.Switch(step):
            for number, name in enumerate(ARRAYS):
                size, there = sizes[name]
                with m.Case(number):
                    m.d.sync += [looked.eq(joining & there), start.eq(command[name]), length.eq(size)]
        with m.If(step == 0):
            with m.If(~Cat(command.operation == operation for operation in SPLITJOIN.operations).any()):
                m.d.sync += code.eq(ErrorCode.UNKNOWN_OPERATION)
            with m.Elif(joining & (beats == 0)):
                m.d.sync += code.eq(ErrorCode.ZERO_LENGTH)
        with m.Elif(looked & (code == ErrorCode.NONE)):
            with m.If(start[: exact_log2(p.beat_bytes)].any()):
                m.d.sync += [code.eq(ErrorCode.MISALIGNED_ADDRESS), address.eq(start)]
            with m.Elif((last_byte >> p.address_bits).any()):
                m.d.sync += [code.eq(ErrorCode.ADDRESS_RANGE), address.eq(start)]
