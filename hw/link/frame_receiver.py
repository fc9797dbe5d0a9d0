"""Takes frames out of bytes, and keeps one."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.crc.catalog import CRC32_ETHERNET
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from muntin.contract.link import DATA_WORDS, ESCAPE, ESCAPED, FLAG, HEADER_WORDS

_DEPTH = 512
assert HEADER_WORDS + DATA_WORDS + 1 <= _DEPTH


class FrameReceiver(wiring.Component):
    """Takes frames out of bytes, and keeps one until it is done with.

    A frame that is not whole (too short, too long, of no whole number of words, with a wrong CRC) is dropped, and so
    is one that begins before the last one is done with.

    Attributes
    ----------
    i : In(stream of 8 bits)
        Always ready.
    valid : Out(1)
        There is a frame. Stays until `done`.
    words : Out(range of its words)
        Words of it, the CRC left out; at least `HEADER_WORDS`.
    done : In(1)
        The frame is done with; high for one cycle.
    address : In(9)
        A word of it,
    data : Out(32)
        and what it was in the cycle after.

    Timing
    ------
    A frame is there in the cycle after its last flag.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(8, always_ready=True)),
                "valid": Out(1),
                "words": Out(range(_DEPTH)),
                "done": In(1),
                "address": In(range(_DEPTH)),
                "data": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(32), depth=_DEPTH, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [read.addr.eq(self.address), self.data.eq(read.data)]
        m.submodules.crc = crc = CRC32_ETHERNET().create()

        within = Signal()  # a frame that may be kept
        escaped = Signal()
        count = Signal(range(4 * _DEPTH))
        word = Signal(24)
        byte = Signal(8)
        taken = Signal()
        is_flag = self.i.payload == FLAG
        is_escape = self.i.payload == ESCAPE
        m.d.comb += [
            byte.eq(self.i.payload ^ (escaped << (ESCAPED.bit_length() - 1))),
            taken.eq(self.i.valid & within & ~is_flag & ~is_escape),
            crc.data.eq(byte),
            crc.valid.eq(taken),
            crc.start.eq(self.i.valid & is_flag),
            write.addr.eq(count >> 2),
            write.data.eq(Cat(word, byte)),
            write.en.eq(taken & (count[:2] == 3)),
        ]
        with m.If(self.i.valid & is_escape):
            m.d.sync += escaped.eq(1)
        with m.If(taken):
            m.d.sync += [escaped.eq(0), word.eq(Cat(word[8:], byte)), count.eq(count + 1)]
            with m.If(count == 4 * _DEPTH - 1):
                m.d.sync += within.eq(0)
        with m.If(self.i.valid & is_flag):
            m.d.sync += [count.eq(0), escaped.eq(0), within.eq(1)]
            whole = (
                (count[:2] == 0) & (count >= 4 * (HEADER_WORDS + 1)) & (count <= 4 * (HEADER_WORDS + DATA_WORDS + 1))
            )
            with m.If(within & ~escaped & whole & crc.match_detected):
                m.d.sync += [self.valid.eq(1), self.words.eq((count >> 2) - 1), within.eq(0)]
        with m.If(self.done):
            m.d.sync += self.valid.eq(0)
        with m.If(self.valid):
            m.d.sync += within.eq(0)
        return m
