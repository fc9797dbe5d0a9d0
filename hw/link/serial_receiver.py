"""Bytes from a serial line."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError


class SerialReceiver(wiring.Component):
    """Bytes from a serial line: a start bit, eight data bits with the lowest first, a stop bit, no parity.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 4.

    Attributes
    ----------
    rx : In(1)
        The line, in no relation to the clock.
    o : Out(stream of 8 bits)
        Whoever takes them must be ready: a byte that is not taken in its cycle is lost.

    Timing
    ------
    A byte is there half a bit after its stop bit began. One without a stop bit is dropped.

    Raises
    ------
    ParameterError
        If the divisor is below 4.
    """

    def __init__(self, divisor: int):
        if divisor < 4:
            raise ParameterError(f"divisor must be at least 4, not {divisor!r}")
        self._divisor = divisor
        super().__init__({"rx": In(1), "o": Out(stream.Signature(8, always_ready=True))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        timer = Signal(range(self._divisor + self._divisor // 2))
        bits = Signal(range(10))
        byte = Signal(8)
        m.d.comb += self.o.payload.eq(byte)
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += bits.eq(0)
                with m.If(~line):
                    # To the middle of the first data bit, less the cycles that got us here.
                    m.d.sync += timer.eq(self._divisor + self._divisor // 2 - 2)
                    m.next = "DATA"
            with m.State("DATA"), m.If(timer == 0):
                m.d.sync += [byte.eq(Cat(byte[1:], line)), bits.eq(bits + 1), timer.eq(self._divisor - 1)]
                with m.If(bits == 7):
                    m.next = "STOP"
            with m.State("STOP"), m.If(timer == 0):
                m.d.comb += self.o.valid.eq(line)
                m.next = "WAIT"
            with m.State("WAIT"), m.If(line):  # a line that is held low sends nothing
                m.next = "IDLE"
        return m
