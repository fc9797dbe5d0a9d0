"""The board's end of the link."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.link import PATIENCE
from muntin.hw.control.layouts import Axi4LiteSignature
from muntin.hw.link.datagram_sender import DatagramSender
from muntin.hw.link.frame_receiver import FrameReceiver
from muntin.hw.link.frame_sender import FrameSender
from muntin.hw.link.line_chooser import LineChooser
from muntin.hw.link.link_server import LinkServer
from muntin.hw.link.register_decoder import RegisterDecoder
from muntin.hw.link.serial_receiver import SerialReceiver
from muntin.hw.link.serial_sender import SerialSender
from muntin.hw.link.signatures import CsrSignature, DatagramSignature
from muntin.hw.link.word_memory import WordMemory
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape


class Link(wiring.Component):
    """The board's end of the link: a serial line on one side, registers, memory and reset on the other.

    With Ethernet there are two lines. Requests of both are carried out, one after the other, in one session: whoever
    opened it last has it. An answer goes to whom its request came from.

    Parameters
    ----------
    divisor : int
        Cycles of a bit on the line.
    control_address_width : int
        Bits of an address of the kernel's registers.
    shape : PortShape
        Widths of the port to the memory.
    description : bytes
        What the host reads to know what was built.
    patience : int
        Cycles within which a bus must answer.
    ethernet : bool
        There is a UDP core, too.

    Attributes
    ----------
    rx, tx : In(1), Out(1)
        The line.
    udp : Out(DatagramSignature)
        To the UDP core; only with `ethernet`.
    control : Out(Axi4LiteSignature)
        To the kernel's registers.
    csr : Out(CsrSignature)
        To the memory controller's registers.
    axi : Out(Axi4Signature)
        To the memory.
    interrupt : In(1)
        The kernel's.
    halt, quiet, reset : Out(1), In(1), Out(1)
        The kernel's memory accesses must end, have ended; the kernel is reset.
    busy : Out(1)
        A request is there that is not answered yet.

    Timing
    ------
    The serial line is what takes time: a frame of n data words takes 40 n + 170 bits at least, the answer the same.
    Over Ethernet, a frame of n data words takes 4 n cycles to come, and an answer 11 n to go.
    """

    def __init__(
        self,
        *,
        divisor: int,
        control_address_width: int,
        shape: PortShape,
        description: bytes,
        patience: int = PATIENCE,
        ethernet: bool = False,
    ):
        self._ethernet = ethernet
        self._receiver = SerialReceiver(divisor)
        self._sender = SerialSender(divisor)
        self._server = LinkServer(patience)
        self._registers = RegisterDecoder(control_address_width, description)
        self._memory = WordMemory(shape.address_width, shape.data_width, shape.id_width)
        super().__init__(
            {
                "rx": In(1),
                "tx": Out(1),
                **({"udp": Out(DatagramSignature())} if ethernet else {}),
                "control": Out(Axi4LiteSignature(control_address_width)),
                "csr": Out(CsrSignature()),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width)),
                "interrupt": In(1),
                "halt": Out(1),
                "quiet": In(1),
                "reset": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = self._receiver
        m.submodules.frames_in = frames_in = FrameReceiver()
        m.submodules.server = server = self._server
        m.submodules.frames_out = answer = FrameSender()
        m.submodules.sender = sender = self._sender
        m.submodules.registers = registers = self._registers
        m.submodules.memory = memory = self._memory
        wiring.connect(m, receiver.o, frames_in.i)
        if self._ethernet:
            request, more = self._two_lines(m, frames_in, answer, sender)
        else:
            request, more = frames_in, 0
            wiring.connect(m, answer.o, sender.i)
        wiring.connect(m, server.bus, registers.bus)
        wiring.connect(m, server.memory, memory.words)
        wiring.connect(m, registers.control, wiring.flipped(self.control))
        wiring.connect(m, registers.csr, wiring.flipped(self.csr))
        wiring.connect(m, memory.axi, wiring.flipped(self.axi))
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(sender.tx),
            server.valid.eq(request.valid),
            server.words.eq(request.words),
            request.done.eq(server.done),
            request.address.eq(server.place),
            server.word.eq(request.data),
            answer.address.eq(server.answer_place),
            answer.data.eq(server.answer_word),
            answer.write.eq(server.answer_write),
            answer.words.eq(server.answer_words),
            answer.start.eq(server.answer_start),
            server.answer_busy.eq(answer.busy),
            server.interrupt.eq(self.interrupt),
            self.halt.eq(server.halt),
            server.quiet.eq(self.quiet),
            self.reset.eq(server.reset),
            self.busy.eq(request.valid | answer.busy | more),
        ]
        return m

    def _two_lines(self, m: Module, frames_in: FrameReceiver, answer: FrameSender, sender: SerialSender) -> tuple:
        """The request of either line, whose answer goes back to it, and whether there is more to do than that."""
        m.submodules.datagrams_in = datagrams_in = FrameReceiver()
        m.submodules.datagrams_out = datagrams_out = DatagramSender()
        m.submodules.chooser = chooser = LineChooser()
        udp = self.udp
        for number, frames in enumerate((frames_in, datagrams_in)):
            m.d.comb += [
                chooser.line_valid[number].eq(frames.valid),
                chooser.line_words[number].eq(frames.words),
                chooser.line_data[number].eq(frames.data),
                frames.done.eq(chooser.line_done[number]),
                frames.address.eq(chooser.line_address[number]),
            ]
        for number, out in enumerate((sender.i, datagrams_out.i)):
            m.d.comb += [out.payload.eq(answer.o.payload), out.valid.eq(answer.o.valid & (chooser.line == number))]
        m.d.comb += [
            answer.o.ready.eq(Mux(chooser.line, datagrams_out.i.ready, sender.i.ready)),
            datagrams_out.last.eq(answer.last),
            chooser.answer_busy.eq(answer.busy),
            datagrams_in.i.payload.eq(udp.rx_data),
            datagrams_in.i.valid.eq(udp.rx_valid),
            udp.tx_data.eq(datagrams_out.tx_data),
            udp.tx_last.eq(datagrams_out.tx_last),
            udp.tx_valid.eq(datagrams_out.tx_valid),
            datagrams_out.tx_ready.eq(udp.tx_ready),
            udp.tx_ip.eq(datagrams_out.tx_ip),
            udp.tx_port.eq(datagrams_out.tx_port),
            udp.tx_length.eq(datagrams_out.tx_length),
        ]
        # Who sent the last byte of a request; kept for the answer, as another may come while that is sent.
        ip, port = Signal(32), Signal(16)
        with m.If(udp.rx_valid & ~datagrams_in.valid):
            m.d.sync += [ip.eq(udp.rx_ip), port.eq(udp.rx_port)]
        with m.If(chooser.valid & chooser.line):
            m.d.sync += [datagrams_out.ip.eq(ip), datagrams_out.port.eq(port)]
        return chooser, frames_in.valid | datagrams_in.valid | datagrams_out.busy
