"""Carries out the commands of BI-Sort over arrays in memory."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, PureInterface

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import RUN_PLACES, ErrorCode, Operation
from muntin.hw.bisort.buffer_path import BufferPath
from muntin.hw.bisort.command_plan import ARRAYS, CommandPlan
from muntin.hw.bisort.gather_path import GatherPath
from muntin.hw.bisort.merge_path import MergePath
from muntin.hw.bisort.probe_path import ProbePath
from muntin.hw.control.layouts import CommandLayout, EventLayout, ResultLayout
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_reader import BurstReader
from muntin.hw.memory.burst_writer import BurstWriter
from muntin.hw.memory.layouts import TransferStatus
from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.stream_writer import StreamWriter

READERS = sum(not name.endswith("_out") for name in ARRAYS)
WRITERS = len(ARRAYS) - READERS
_WIDE = {"rows_in": 34, "rows_out": 34}


class Engine(wiring.Component):
    """Carries out one command at a time: checks it, moves its arrays through the blocks, and reports.

    All that a command names is checked before anything moves. Where something goes wrong later, no more addresses
    are sent; once the memory has answered those that were, readers, writers and blocks are reset, and the engine
    is ready for the next command. Only a memory that never answers leaves it standing.

    Parameters
    ----------
    parameters : Parameters

    Attributes
    ----------
    shape : PortShape
        Of the memory ports.
    command : In(stream of CommandLayout)
    result : Out(stream of ResultLayout)
        One for each command, in order.
    timeout_cycles : In(32)
        Cycles in which a memory that owes an answer may stand still; 0 for any number.
    busy : Out(1)
        A command is under way.
    dead : Out(1)
        The memory owes an answer for good; no other command is taken until a reset. `busy` stays.
    event : Out(EventLayout)
        What happened in this cycle.
    axi : array of Out(Axi4Signature), one for each channel
        The top bits of an address choose the channel.

    Timing
    ------
    From a command to its first address lie 16 cycles. Merging moves W rows a cycle, probing a beat of keys or a
    bound, gathering a beat of row numbers, as far as the memory does.

    Source
    ------
    PanJoin, section IV, for the blocks and the ways between them. Commands, their errors, and one kind of reader
    for all arrays are ours.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = p = parameters
        self.shape = shape = PortShape.of_kernel(parameters)
        axi = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__(
            {
                "command": In(stream.Signature(CommandLayout())),
                "result": Out(stream.Signature(ResultLayout())),
                "timeout_cycles": In(32),
                "busy": Out(1),
                "dead": Out(1),
                "event": Out(EventLayout(BISORT, _WIDE)),
                "axi": Out(axi).array(p.channels),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, shape = self.parameters, self.shape
        command = Signal(CommandLayout())
        is_ = {operation: Signal(name=f"is_{operation.name.lower()}") for operation in BISORT.operations}
        # The command is settled many cycles before a transfer begins.
        m.d.sync += [signal.eq(command.operation == operation) for operation, signal in is_.items()]
        found = (is_[Operation.GATHER] | is_[Operation.COUNT]) & command.probe  # ranges that are found on the way
        ranges = (is_[Operation.GATHER] | is_[Operation.COUNT]) & ~command.probe

        m.submodules.plan = plan = CommandPlan(p)
        restart = Signal()  # of everything that moves data
        buffer_restart = Signal()
        halt = Signal()

        # Blocks.
        readers = [BurstReader(shape) for _ in range(READERS)]
        writers = [BurstWriter(shape) for _ in range(WRITERS)]
        ports = [
            MemoryPort(
                shape,
                readers=READERS,
                writers=WRITERS + 1,
                turn_bytes=p.turn_bytes,
                alternate_bytes=p.alternate_bytes or None,
            )
            for _ in range(p.channels)
        ]
        merge, probe, gather = MergePath(p), ProbePath(p), GatherPath(p)
        pair_writer = StreamWriter(shape)
        blocks = {
            **{f"reader_{number}": block for number, block in enumerate(readers)},
            **{f"writer_{number}": block for number, block in enumerate(writers)},
            **{f"port_{number}": block for number, block in enumerate(ports)},
            **{"merge": merge, "probe": probe, "gather": gather, "pair_writer": pair_writer},
        }
        for name, block in blocks.items():
            m.submodules[name] = ResetInserter(restart)(block)
        buffer = BufferPath(p)
        m.submodules.buffer = ResetInserter(buffer_restart)(buffer)
        for number, port in enumerate(ports):
            wiring.connect(m, port.axi, wiring.flipped(self.axi[number]))
            m.d.comb += port.halt.eq(halt)
        bases = [Signal(64, name=f"base_{name}") for name in ARRAYS]
        for number, (block, base) in enumerate(zip([*readers, *writers], bases, strict=True)):
            kind, index = ("readers", number) if number < READERS else ("writers", number - READERS)
            self._choose_port(m, block.axi, [getattr(port, kind)[index] for port in ports], base)
        # Nobody knows how many pairs or ranges there will be.
        self._choose_port(m, pair_writer.axi, [port.writers[WRITERS] for port in ports], bases[READERS])

        # The ways of the data. Each path gets beats from its readers and gives beats to its writers.
        def read(number: int, when: Value, sink: PureInterface) -> None:
            source = readers[number].o
            with m.If(when):
                m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
            m.d.comb += sink.payload.eq(source.payload)

        def write(number: int, when: Value, source: PureInterface) -> None:
            sink = writers[number].i
            with m.If(when):
                m.d.comb += [
                    sink.valid.eq(source.valid),
                    sink.payload.eq(source.payload),
                    source.ready.eq(sink.ready),
                ]

        merging, finding, inserting = is_[Operation.MERGE], is_[Operation.PROBE], is_[Operation.INSERT]
        gathering, counting, copying = is_[Operation.GATHER], is_[Operation.COUNT], is_[Operation.COPY]
        indexing = is_[Operation.INDEX]
        probing = finding | found
        numbered = gathering | finding  # they write as much as they find, and then how much
        read(0, merging, merge.keys_a)
        read(1, merging, merge.rows_a)
        read(2, merging, merge.keys_b)
        read(3, merging, merge.rows_b)
        read(0, probing, probe.keys)
        read(1, indexing, probe.index)
        read(2, probing, probe.lower)
        read(3, probing, probe.upper)
        read(0, ranges, gather.limits)
        read(1, (ranges | found) & ~command.buffer, gather.rows)
        read(2, ranges, gather.starts)
        read(3, ranges, gather.stops)
        read(0, inserting, buffer.keys)
        read(1, inserting, buffer.rows)
        write(0, merging, merge.keys)
        write(1, merging, merge.rows)
        write(2, merging, merge.index)
        write(0, counting, gather.counts)
        with m.If(copying):
            m.d.comb += [
                writers[0].i.valid.eq(readers[0].o.valid),
                writers[0].i.payload.eq(readers[0].o.p.data),
                readers[0].o.ready.eq(writers[0].i.ready),
            ]
        for when, source in ((gathering, gather.pairs), (finding, probe.ranges)):
            with m.If(when):
                m.d.comb += [
                    pair_writer.i.valid.eq(source.valid),
                    pair_writer.i.payload.eq(source.payload),
                    source.ready.eq(pair_writer.i.ready),
                ]
        wiring.connect(m, buffer.sorted, merge.sorted)
        wiring.connect(m, probe.bound, buffer.bound)
        wiring.connect(m, probe.found, gather.found)
        wiring.connect(m, buffer.position, probe.position)
        with m.If(command.buffer):
            m.d.comb += [
                gather.rows.valid.eq(buffer.read.valid),
                gather.rows.payload.eq(buffer.read.payload),
                buffer.read.ready.eq(gather.rows.ready),
            ]
        m.d.comb += [buffer.request.p[name].eq(gather.request.p[name]) for name in ("beat", "count")]

        # What the command says to all of them.
        m.d.comb += [
            merge.signed.eq(command.signed),
            merge.buffered.eq(command.buffer),
            probe.signed.eq(command.signed),
            probe.buffered.eq(command.buffer),
            probe.gathered.eq(found),
            probe.limited.eq(found & command.limits),
            probe.lower_address.eq(command.keys_b),
            probe.limit_address.eq(command.index_out),
            probe.place.eq(command.length_b),
            probe.address.eq(command.keys_a),
            probe.rows.eq(command.length_a),
            probe.index_base.eq(command.index_out),
            probe.runs.eq(command.keys_a),
            probe.probes.eq(command.length_b),
            probe.low_offset.eq(command.low_offset),
            probe.high_offset.eq(command.high_offset),
            gather.counting.eq(counting),
            gather.limited.eq(command.limits),
            gather.probed.eq(found),
            gather.address.eq(command.rows_a),
            gather.loaded.eq(probe.loaded),
            gather.place.eq(command.length_b),
            gather.numbers.eq(command.keys_b),
            gather.ranges.eq(command.length_b),
            gather.run_rows.eq(command.length_a),
            buffer.signed.eq(command.signed),
            plan.command.eq(command),
            plan.buffer_rows.eq(buffer.count),
        ]
        m.d.comb += [base.eq(command[name]) for base, name in zip(bases, ARRAYS, strict=True)]
        with m.If(probing):  # all of its runs lie in one channel
            m.d.comb += bases[0].eq(command.rows_a)

        # Which places have a run with its index: none while one is loaded there.
        indexed, runs = Signal(), Signal(RUN_PLACES)
        m.d.comb += plan.runs.eq(runs)

        # --- Transfers: those of whole arrays, and those that the paths ask for.
        running = Signal()
        asked = Signal(len(ARRAYS))
        by_request = Signal(READERS)
        by_stream = Signal(WRITERS)
        m.d.comb += [
            by_request[0].eq(probing | indexing),
            by_request[1].eq(ranges | found),
            by_request[2].eq(probe.limited | indexing),
            by_stream[0].eq(numbered),
            by_stream[2].eq(found),
            probe.asking.eq(running & probe.limited),
        ]
        reader_idle, writer_idle = Signal(READERS), Signal(WRITERS)
        failed, failed_code, failed_address = Signal(), Signal(ErrorCode), Signal(64)
        for number, block in enumerate([*readers, *writers]):
            reading = number < READERS
            special = by_request[number] if reading else by_stream[number - READERS]
            open_transfers = Signal(16, name=f"open_{ARRAYS[number]}")  # their status has not come
            taken = Signal(name=f"taken_{ARRAYS[number]}")
            m.d.comb += [
                taken.eq(block.transfer.valid & block.transfer.ready),
                block.status.ready.eq(1),
            ]
            with m.If(~special):
                m.d.comb += [
                    block.transfer.valid.eq(running & plan.used[number] & ~asked[number]),
                    block.transfer.p.address.eq(bases[number]),
                    block.transfer.p.length.eq(plan.bytes[number]),
                ]
                with m.If(taken):
                    m.d.sync += asked[number].eq(1)
            m.d.sync += open_transfers.eq(open_transfers + taken - block.status.valid)
            fixed_done = special | ~plan.used[number] | asked[number]
            if reading:
                undrained = Signal(16, name=f"undrained_{ARRAYS[number]}")  # their last beat has not been used
                drained = block.o.valid & block.o.ready & block.o.p.last
                m.d.sync += undrained.eq(undrained + taken - drained)
                m.d.comb += reader_idle[number].eq(
                    (open_transfers == 0) & (undrained == 0) & fixed_done & ~block.transfer.valid
                )
                with m.If(restart):
                    m.d.sync += undrained.eq(0)
            else:
                m.d.comb += writer_idle[number - READERS].eq((open_transfers == 0) & fixed_done & ~block.transfer.valid)
            with m.If(restart):
                m.d.sync += open_transfers.eq(0)
            # What a memory answers is looked at as it comes, before the data can do any harm.
            axi = block.axi
            answer = axi.rresp if reading else axi.bresp
            here = axi.rvalid & axi.rready if reading else axi.bvalid & axi.bready
            with m.If(block.status.valid & (block.status.p != TransferStatus.OK)):
                m.d.comb += [failed.eq(1), failed_code.eq(block.status.p), failed_address.eq(bases[number])]
            with m.If(here & answer[1]):
                m.d.comb += [
                    failed.eq(1),
                    failed_code.eq(Mux(answer[0], ErrorCode.DECODE_ERROR, ErrorCode.MEMORY_ERROR)),
                    failed_address.eq(bases[number]),
                ]
        with m.If(running & probing):
            m.d.comb += [
                readers[0].transfer.valid.eq(probe.request.valid),
                readers[0].transfer.p.address.eq(probe.request.p.address),
                readers[0].transfer.p.length.eq(probe.request.p.length),
                probe.request.ready.eq(readers[0].transfer.ready),
            ]
        with m.If(probe.asking):
            m.d.comb += [
                readers[2].transfer.valid.eq(probe.lower_request.valid),
                readers[2].transfer.p.address.eq(probe.lower_request.p.address),
                readers[2].transfer.p.length.eq(probe.lower_request.p.length),
                probe.lower_request.ready.eq(readers[2].transfer.ready),
            ]
        self._ask_for_rows(m, p, readers[1], gather, buffer, command.buffer, running & (ranges | found))

        # The pairs or ranges, as many as there are, and then their number.
        pairs_asked, pairs_done, pairs_dropped, number_sent = Signal(), Signal(), Signal(), Signal()
        pair_bytes = Signal(36)
        room = (1 << shape.address_width) - command.keys_out[: shape.address_width]
        m.d.comb += [
            pair_writer.transfer.valid.eq(running & numbered & ~pairs_asked),
            pair_writer.transfer.p.address.eq(command.keys_out),
            pair_writer.transfer.p.length.eq(Mux(found & ~command.buffer, command.length_a << 3, room)),
            pair_writer.written.ready.eq(1),
        ]
        pairs = Signal(33)
        m.d.comb += pairs.eq(Mux(finding, pair_bytes >> 4, pair_bytes >> 3))
        with m.If(numbered):
            m.d.comb += [
                writers[1].i.valid.eq(running & pairs_done & ~number_sent),
                writers[1].i.payload.eq(Mux(pairs_dropped, C((1 << 64) - 1, 64), pairs)),
            ]
            with m.If(writers[1].i.valid & writers[1].i.ready):
                m.d.sync += number_sent.eq(1)
        with m.If(pair_writer.transfer.valid & pair_writer.transfer.ready):
            m.d.sync += pairs_asked.eq(1)
        with m.If(pair_writer.written.valid):
            m.d.sync += [pairs_done.eq(1), pair_bytes.eq(pair_writer.written.p.length)]
            with m.If(found & ~command.buffer & (pair_writer.written.p.status == TransferStatus.TOO_LONG)):
                m.d.sync += pairs_dropped.eq(1)
            with m.Elif(pair_writer.written.p.status != TransferStatus.OK):
                m.d.comb += [
                    failed.eq(1),
                    failed_code.eq(pair_writer.written.p.status),
                    failed_address.eq(command.keys_out),
                ]

        # --- Something must move. Between two beats of a batch no more than this passes: a burst of bounds, each
        # with a whole search of the index, or a burst of ranges, each through the whole insertion buffer; or a few
        # bounds through all runs, which search once and find nothing.
        quiet, progress = Signal(), Signal()
        still = Signal(32)
        longest = max(128, p.buffer_rows + p.rows_per_beat + 2)
        stuck_cycles = max(max(p.burst_bytes // 4, p.partition_rows) * longest, RUN_PLACES * (p.bound_rows + longest))
        m.d.comb += quiet.eq(Cat(port.quiet for port in ports).all())
        m.d.sync += progress.eq(Cat(port.progress for port in ports).any())
        timed_out = ~quiet & (self.timeout_cycles != 0) & ~(still < self.timeout_cycles)
        stuck = quiet & ~(still < stuck_cycles)

        # --- From command to result.
        code, address = Signal(ErrorCode), Signal(64)
        touches_buffer = inserting | command.buffer
        flush = Signal()
        cleaning = Signal(2)
        buffer_settled = Signal(2)
        m.d.comb += [
            self.busy.eq(1),
            buffer.flush.eq(flush),
            self.result.p.code.eq(code),
            self.result.p.tag.eq(command.tag),
            self.result.p.address.eq(address),
        ]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.busy.eq(0), self.command.ready.eq(1)]
                m.d.sync += [
                    command.eq(self.command.payload),
                    code.eq(ErrorCode.NONE),
                    address.eq(0),
                    asked.eq(0),
                    pairs_asked.eq(0),
                    pairs_done.eq(0),
                    pairs_dropped.eq(0),
                    number_sent.eq(0),
                    indexed.eq(0),
                    flush.eq(0),
                    buffer_settled.eq(0),
                ]
                with m.If(self.command.valid):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += plan.start.eq(1)
                m.next = "PLAN"
            with m.State("PLAN"):
                m.d.sync += still.eq(0)
                with m.If(plan.done):
                    m.d.sync += [code.eq(plan.code), address.eq(plan.address)]
                    m.next = "RESULT"
                    with m.If((plan.code == ErrorCode.NONE) & is_[Operation.DISCARD]):
                        m.d.comb += buffer_restart.eq(1)
                    with m.Elif((plan.code == ErrorCode.NONE) & ~is_[Operation.NOP]):
                        m.d.sync += flush.eq(merging & command.buffer)
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If(indexing):
                    m.d.sync += runs.bit_select(command.length_b[:6], 1).eq(0)
                with m.If(probe.loaded):
                    m.d.sync += indexed.eq(1)
                m.d.sync += [flush.eq(0), still.eq(Mux(progress, 0, still + 1))]
                over = Signal()
                m.d.comb += over.eq(
                    reader_idle.all()
                    & writer_idle.all()
                    & (~numbered | number_sent)
                    & (~indexing | indexed)
                    & ~buffer.filling
                )
                # The buffer counts a row three cycles after it has come in.
                m.d.sync += buffer_settled.eq(Mux(over, buffer_settled + 1, 0))
                with m.If(failed):
                    m.d.sync += [code.eq(failed_code), address.eq(failed_address)]
                    m.next = "HALT"
                with m.Elif(gather.bad_range):
                    m.d.sync += [code.eq(ErrorCode.BAD_RANGE), address.eq(command.keys_b)]
                    m.next = "HALT"
                with m.Elif(timed_out):
                    m.d.sync += code.eq(ErrorCode.TIMEOUT)
                    m.next = "DEAD"
                with m.Elif(stuck):
                    m.d.sync += code.eq(ErrorCode.STUCK)
                    m.next = "HALT"
                with m.Elif(over & (buffer_settled == 3)):
                    with m.If(indexing):
                        m.d.sync += runs.bit_select(command.length_b[:6], 1).eq(1)
                    m.next = "RESULT"
            with m.State("HALT"):
                m.d.comb += halt.eq(1)
                m.d.sync += [still.eq(Mux(progress, 0, still + 1)), cleaning.eq(0)]
                with m.If(quiet):
                    m.next = "CLEAN"
                with m.Elif(timed_out):
                    m.d.sync += code.eq(ErrorCode.TIMEOUT)
                    m.next = "DEAD"
            with m.State("CLEAN"):
                m.d.comb += [halt.eq(1), restart.eq(1), buffer_restart.eq(touches_buffer)]
                m.d.sync += cleaning.eq(cleaning + 1)
                with m.If(cleaning == 3):
                    m.next = "RESULT"
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
        ended = fsm.ongoing("RESULT") & self.result.ready & (code == ErrorCode.NONE)
        both = command.length_a + command.length_b
        reads = [axi.rvalid & axi.rready for axi in self.axi]
        writes = [axi.wvalid & axi.wready for axi in self.axi]
        due = [Signal(16, name=f"due_{number}") for number in range(len(ports))]  # beats asked for that have not come
        for axi, beats in zip(self.axi, due, strict=True):
            m.d.sync += beats.eq(beats + Mux(axi.arvalid & axi.arready, axi.arlen + 1, 0) - (axi.rvalid & axi.rready))
        m.d.comb += [
            self.event.cycles.eq(self.busy),
            self.event.commands.eq(ended),
            self.event.read_beats.eq(sum(reads)),
            self.event.write_beats.eq(sum(writes)),
            self.event.read_stalls.eq(Cat(due).any() & ~Cat(reads).any()),
            self.event.write_stalls.eq(Cat(axi.wvalid & ~axi.wready for axi in self.axi).any()),
            self.event.address_stalls.eq(
                Cat((axi.arvalid & ~axi.arready) | (axi.awvalid & ~axi.awready) for axi in self.axi).any()
            ),
            self.event.output_stalls.eq(running & Cat(block.i.valid & ~block.i.ready for block in writers).any()),
            self.event.partitions.eq(probe.request.valid & probe.request.ready),
            self.event.turns.eq(sum(port.turned for port in ports)),
        ]
        with m.If(ended):
            with m.If(merging):
                m.d.comb += [self.event.rows_in.eq(both), self.event.rows_out.eq(both)]
            with m.If(probing):
                m.d.comb += self.event.rows_in.eq(command.length_b << 1)
            with m.If(finding):
                m.d.comb += self.event.rows_out.eq(pairs)
            with m.If(ranges):
                m.d.comb += self.event.rows_in.eq(command.length_b)
            with m.If(gathering | counting):
                m.d.comb += self.event.rows_out.eq(Mux(counting, command.length_b, pairs))
            with m.If(inserting):
                m.d.comb += self.event.rows_in.eq(command.length_a)
        return m

    def _choose_port(self, m: Module, source: PureInterface, sinks: list[PureInterface], base: Value) -> None:
        """Joins a reader or writer to the port of the channel that its array lies in."""
        channel_bits = self.shape.address_width
        channel = base[channel_bits : self.parameters.address_bits]
        for name, member in source.signature.members.items():
            if member.flow == Out:
                for number, sink in enumerate(sinks):
                    value = getattr(source, name)
                    if name in ("arvalid", "awvalid"):
                        value = value & (channel == number)
                    m.d.comb += getattr(sink, name).eq(value)
            else:
                with m.Switch(channel):
                    for number, sink in enumerate(sinks):
                        with m.Case(number):
                            m.d.comb += getattr(source, name).eq(getattr(sink, name))

    @staticmethod
    def _ask_for_rows(
        m: Module,
        p: Parameters,
        reader: BurstReader,
        gather: GatherPath,
        buffer: BufferPath,
        buffered: Value,
        when: Value,
    ) -> None:
        """Sends the reader, or the buffer, after the beats of row numbers that are requested."""
        with m.If(when & buffered):
            m.d.comb += [
                buffer.request.valid.eq(gather.request.valid),
                gather.request.ready.eq(buffer.request.ready),
            ]
        with m.Elif(when):
            m.d.comb += [
                reader.transfer.valid.eq(gather.request.valid),
                reader.transfer.p.address.eq(gather.request.p.address + gather.request.p.beat * p.beat_bytes),
                reader.transfer.p.length.eq(gather.request.p.count * p.beat_bytes),
                gather.request.ready.eq(reader.transfer.ready),
            ]
