"""Keeps a frame, and sends it as often as it is asked to."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.crc.catalog import CRC32_ETHERNET
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from muntin.contract.link import DATA_WORDS, ESCAPE, ESCAPED, FLAG

_DEPTH = 512
assert 1 + DATA_WORDS <= _DEPTH


class FrameSender(wiring.Component):
    """Keeps the words of a frame, and sends it, as often as it is asked to.

    Attributes
    ----------
    address, data, write : In(9), In(32), In(1)
        A word for the frame.
    words : In(range)
        Words of it; is stable while it is sent.
    start : In(1)
        Send it; high for one cycle.
    busy : Out(1)
        It is being sent; from the cycle after `start`.
    o : Out(stream of 8 bits)
    last : Out(1)
        The byte in the stream is the frame's last.

    Timing
    ------
    Two cycles a byte, six more a word, and what the stream makes it wait.
    """

    def __init__(self):
        super().__init__(
            {
                "address": In(range(_DEPTH)),
                "data": In(32),
                "write": In(1),
                "words": In(range(_DEPTH)),
                "start": In(1),
                "busy": Out(1),
                "o": Out(stream.Signature(8)),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(32), depth=_DEPTH, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.submodules.crc = crc = CRC32_ETHERNET().create()
        place = Signal(range(_DEPTH))
        word, left = Signal(32), Signal(range(5))
        last, escaped = Signal(), Signal()
        byte = word[:8]
        special = (byte == FLAG) | (byte == ESCAPE)
        m.d.comb += [
            write.addr.eq(self.address),
            write.data.eq(self.data),
            write.en.eq(self.write),
            read.addr.eq(place),
            crc.data.eq(byte),
            self.busy.eq(1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                m.d.sync += [place.eq(0), last.eq(0), escaped.eq(0)]
                with m.If(self.start):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [self.o.payload.eq(FLAG), self.o.valid.eq(1), crc.start.eq(1)]
                with m.If(self.o.ready):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [left.eq(4), place.eq(place + 1)]
                with m.If(place == self.words):
                    m.d.sync += [word.eq(crc.crc), last.eq(1)]
                with m.Else():
                    m.d.sync += word.eq(read.data)
                m.next = "BYTE"
            with m.State("BYTE"):
                with m.If(left == 0):
                    with m.If(last):
                        m.next = "END"
                    with m.Else():
                        m.next = "FETCH"
                with m.Elif(special & ~escaped):
                    m.d.comb += [self.o.payload.eq(ESCAPE), self.o.valid.eq(1)]
                    with m.If(self.o.ready):
                        m.d.sync += escaped.eq(1)
                with m.Else():
                    m.d.comb += [
                        self.o.payload.eq(byte ^ (escaped << (ESCAPED.bit_length() - 1))),
                        self.o.valid.eq(1),
                    ]
                    with m.If(self.o.ready):
                        m.d.comb += crc.valid.eq(1)
                        m.d.sync += [escaped.eq(0), word.eq(word >> 8), left.eq(left - 1)]
            with m.State("END"):
                m.d.comb += [self.o.payload.eq(FLAG), self.o.valid.eq(1), self.last.eq(1)]
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
