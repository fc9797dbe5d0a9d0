"""Copies runs of bytes."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_reader import BurstReader
from muntin.hw.memory.burst_writer import BurstWriter
from muntin.hw.memory.layouts import CopyLayout, CopyOperation, TransferStatus
from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_shape import PortShape


class CopyEngine(wiring.Component):
    """Copies runs of bytes with the same readers and writers as every other engine.

    Its rate is the limit that other engines are measured against. It can also only read or only write.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.
    turn_bytes : int
        Bytes read before as many are written, where one port does both.
    ports : int
        1: read and write on one port. 2: read on the first, write on the second, at once.

    Attributes
    ----------
    command : In(stream of CopyLayout)
        What to copy; one at a time. Source and destination must not overlap.
    status : Out(stream of TransferStatus)
        How each command ended, in order.
    axi : array of Out(Axi4Signature)
        To the memory.

    Timing
    ------
    A command is taken when the status of the one before has been. On a memory that never waits, a read or a
    fill moves a beat a cycle, and a copy reads one and writes one.

    Raises
    ------
    ParameterError
        If `ports` is neither 1 nor 2, or `turn_bytes` is shorter than a burst.
    """

    def __init__(self, shape: PortShape, *, turn_bytes: int, ports: int = 1):
        if ports not in (1, 2):
            raise ParameterError(f"ports must be 1 or 2, not {ports!r}")
        self._shape = shape
        self._ports = ports
        self._turn_bytes = turn_bytes
        widths = shape.address_width, shape.data_width, shape.id_width
        super().__init__(
            {
                "command": In(stream.Signature(CopyLayout(shape.address_width, shape.length_width))),
                "status": Out(stream.Signature(TransferStatus)),
                "axi": Out(Axi4Signature(*widths)).array(ports),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        m.submodules.reader = reader = BurstReader(shape)
        m.submodules.writer = writer = BurstWriter(shape)
        if self._ports == 1:
            m.submodules.port = port = MemoryPort(shape, readers=1, writers=1, turn_bytes=self._turn_bytes)
            wiring.connect(m, reader.axi, port.readers[0])
            wiring.connect(m, writer.axi, port.writers[0])
            wiring.connect(m, port.axi, wiring.flipped(self.axi[0]))
        else:
            for outer, inner in ((self.axi[0], reader.axi), (self.axi[1], writer.axi)):
                for name, member in inner.signature.members.items():
                    source, sink = getattr(inner, name), getattr(outer, name)
                    m.d.comb += sink.eq(source) if member.flow == Out else source.eq(sink)

        command = Signal(CopyLayout(shape.address_width, shape.length_width))
        number = Signal(shape.data_width)
        reads = Signal()
        writes = Signal()
        read_asked = Signal()
        write_asked = Signal()
        read_done = Signal()
        write_done = Signal()
        read_status = Signal(TransferStatus)
        write_status = Signal(TransferStatus)
        read_refused = Signal()
        drained = Signal()
        m.d.comb += [
            reads.eq(command.operation != CopyOperation.FILL),
            writes.eq(command.operation != CopyOperation.READ),
            read_refused.eq(
                (read_status != TransferStatus.OK)
                & (read_status != TransferStatus.MEMORY_ERROR)
                & (read_status != TransferStatus.DECODE_ERROR)
            ),
            reader.transfer.p.address.eq(command.source),
            reader.transfer.p.length.eq(command.length),
            writer.transfer.p.address.eq(command.destination),
            writer.transfer.p.length.eq(command.length),
            writer.i.p.eq(Mux(reads, reader.o.p.data, number)),
            self.status.p.eq(Mux(read_status != TransferStatus.OK, read_status, write_status)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [
                    command.eq(self.command.payload),
                    number.eq(0),
                    read_asked.eq(0),
                    write_asked.eq(0),
                    read_done.eq(0),
                    write_done.eq(0),
                    drained.eq(0),
                    read_status.eq(TransferStatus.OK),
                    write_status.eq(TransferStatus.OK),
                ]
                with m.If(self.command.valid):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [
                    reader.transfer.valid.eq(reads & ~read_asked),
                    # A beat shows that the read was not refused; only then may anything be written.
                    writer.transfer.valid.eq(writes & ~write_asked & (~reads | reader.o.valid)),
                    reader.status.ready.eq(1),
                    writer.status.ready.eq(1),
                    # The writer takes no more beats than were asked for, and none of a refused transfer.
                    writer.i.valid.eq(writes & ~write_done & (~reads | reader.o.valid)),
                    reader.o.ready.eq(~writes | write_done | writer.i.ready),
                ]
                with m.If(reader.transfer.valid & reader.transfer.ready):
                    m.d.sync += read_asked.eq(1)
                with m.If(writer.transfer.valid & writer.transfer.ready):
                    m.d.sync += write_asked.eq(1)
                with m.If(writer.i.valid & writer.i.ready):
                    m.d.sync += number.eq(number + 1)
                with m.If(reader.o.valid & reader.o.ready & reader.o.p.last):
                    m.d.sync += drained.eq(1)
                with m.If(reader.status.valid):
                    m.d.sync += [read_done.eq(1), read_status.eq(reader.status.p)]
                with m.If(writer.status.valid):
                    m.d.sync += [write_done.eq(1), write_status.eq(writer.status.p)]
                with m.If((~reads | (read_done & (read_refused | drained))) & (~writes | write_done | read_refused)):
                    m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += self.status.valid.eq(1)
                with m.If(self.status.ready):
                    m.next = "IDLE"
        return m
