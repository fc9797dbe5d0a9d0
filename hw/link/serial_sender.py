"""Bytes onto a serial line."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError


class SerialSender(wiring.Component):
    """Bytes onto a serial line: a start bit, eight data bits with the lowest first, a stop bit, no parity.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 4.

    Attributes
    ----------
    i : In(stream of 8 bits)
    tx : Out(1)
        The line.

    Timing
    ------
    A byte every ten bits.

    Raises
    ------
    ParameterError
        If the divisor is below 4.
    """

    def __init__(self, divisor: int):
        if divisor < 4:
            raise ParameterError(f"divisor must be at least 4, not {divisor!r}")
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timer = Signal(range(self._divisor))
        left = Signal(range(11))
        bits = Signal(10, init=-1)
        m.d.sync += self.tx.eq(bits[0])
        m.d.comb += self.i.ready.eq(left == 0)
        with m.If(left == 0), m.If(self.i.valid):
            m.d.sync += [
                bits.eq(Cat(Const(0, 1), self.i.payload, Const(1, 1))),
                left.eq(10),
                timer.eq(self._divisor - 1),
            ]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [bits.eq(Cat(bits[1:], Const(1, 1))), left.eq(left - 1), timer.eq(self._divisor - 1)]
        return m
