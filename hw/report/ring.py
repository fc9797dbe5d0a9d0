"""Registers round a block, so that it can be placed and routed without pins."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Ring(wiring.Component):
    """A block whose streams end in registers: a shift register feeds its inputs, its outputs are folded to
    one bit.

    Parameters
    ----------
    block : Component
        All its ports are streams.

    Attributes
    ----------
    i : In(1)
    o : Out(1)

    Timing
    ------
    Every path into and out of the block starts or ends at a register beside it.
    """

    def __init__(self, block: wiring.Component):
        self._block = block
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.block = block = self._block
        bits, seen = self.i, []
        for name, member in block.signature.members.items():
            port = getattr(block, name)
            assert isinstance(member.signature, stream.Signature)
            inputs, outputs = [port.payload, port.valid], [port.ready]
            if member.flow is Out:
                inputs, outputs = outputs, inputs
            for signal in inputs:
                value = signal if isinstance(signal, Signal) else signal.as_value()
                chain = Signal(len(value), name=f"chain_{name}_{len(seen)}_{len(value)}")
                m.d.sync += chain.eq(Cat(bits, chain))
                m.d.comb += value.eq(chain)
                bits = chain[-1]
            for signal in outputs:
                value = signal if isinstance(signal, Signal) else signal.as_value()
                held = Signal(len(value), name=f"held_{name}_{len(value)}")
                m.d.sync += held.eq(value)
                seen.append(held)
        level = Cat(seen)
        while len(level) > 1:
            folded = Signal((len(level) + 3) // 4)
            m.d.sync += folded.eq(Cat(level[at : at + 4].xor() for at in range(0, len(level), 4)))
            level = folded
        m.d.comb += self.o.eq(level)
        return m
