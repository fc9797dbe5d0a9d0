"""Sends frames as datagrams."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from muntin.contract.link import DATAGRAM_BYTES

_DEPTH = 1 << (DATAGRAM_BYTES - 1).bit_length()


class DatagramSender(wiring.Component):
    """Sends frames as datagrams: each begins one, and goes on in others where it has more bytes than one may.

    Attributes
    ----------
    i : In(stream of 8 bits)
        The bytes of a frame,
    last : In(1)
        and which of them is its last.
    ip, port : In(32), In(16)
        Whom the frame goes to, while its bytes come.
    busy : Out(1)
        There are bytes that were not sent.
    tx_valid, tx_ready, tx_data, tx_last, tx_ip, tx_port, tx_length
        As of `DatagramSignature`.

    Timing
    ------
    A cycle a byte to take it, another to send it, one more a datagram; nothing is taken while a datagram is sent, as
    its length is sent first.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "last": In(1),
                "ip": In(32),
                "port": In(16),
                "busy": Out(1),
                "tx_valid": Out(1),
                "tx_ready": In(1),
                "tx_data": Out(8),
                "tx_last": Out(1),
                "tx_ip": Out(32),
                "tx_port": Out(16),
                "tx_length": Out(16),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(8), depth=_DEPTH, init=[])
        write, read = memory.write_port(), memory.read_port()
        count, place = Signal(range(DATAGRAM_BYTES + 1)), Signal(range(_DEPTH))
        m.d.comb += [
            write.addr.eq(count),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
            self.tx_data.eq(read.data),
            self.tx_last.eq(place + 1 == count),
            self.tx_length.eq(count),
            read.addr.eq(Mux(self.tx_valid & self.tx_ready, place + 1, place)),
            self.busy.eq(1),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(count != 0)]
                m.d.sync += place.eq(0)
                with m.If(self.i.valid):
                    m.d.sync += [count.eq(count + 1), self.tx_ip.eq(self.ip), self.tx_port.eq(self.port)]
                    with m.If(self.last | (count == DATAGRAM_BYTES - 1)):
                        m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.tx_valid.eq(1)
                with m.If(self.tx_ready):
                    m.d.sync += place.eq(place + 1)
                    with m.If(self.tx_last):
                        m.d.sync += count.eq(0)
                        m.next = "TAKE"
        return m
