"""The board's end of the link."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.control.axi4_lite_signature import Axi4LiteSignature
from hw.link.csr_signature import CsrSignature
from hw.link.frame_receiver import FrameReceiver
from hw.link.frame_sender import FrameSender
from hw.link.link_server import LinkServer
from hw.link.protocol import PATIENCE
from hw.link.register_decoder import RegisterDecoder
from hw.link.serial_receiver import SerialReceiver
from hw.link.serial_sender import SerialSender
from hw.link.word_memory import WordMemory
from hw.memory.axi4_signature import Axi4Signature
from hw.memory.port_shape import PortShape


class Link(wiring.Component):
    """The board's end of the link: a serial line on one side, registers, memory and reset on the other.

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

    Attributes
    ----------
    rx, tx : In(1), Out(1)
        The line.
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
    The line is what takes time: a frame of n data words takes 40 n + 170 bits at least, the answer the same.
    """

    def __init__(
        self,
        *,
        divisor: int,
        control_address_width: int,
        shape: PortShape,
        description: bytes,
        patience: int = PATIENCE,
    ):
        self._receiver = SerialReceiver(divisor)
        self._sender = SerialSender(divisor)
        self._server = LinkServer(patience)
        self._registers = RegisterDecoder(control_address_width, description)
        self._memory = WordMemory(shape.address_width, shape.data_width, shape.id_width)
        super().__init__(
            {
                "rx": In(1),
                "tx": Out(1),
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
        m.submodules.frames_in = request = FrameReceiver()
        m.submodules.server = server = self._server
        m.submodules.frames_out = answer = FrameSender()
        m.submodules.sender = sender = self._sender
        m.submodules.registers = registers = self._registers
        m.submodules.memory = memory = self._memory
        wiring.connect(m, receiver.o, request.i)
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
            self.busy.eq(request.valid | answer.busy),
        ]
        return m
