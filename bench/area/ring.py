"""Registers round a block, so that it can be placed and routed without pins."""

import itertools

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Ring(wiring.Component):
    """A block whose ports end in registers: a shift register feeds its inputs, its outputs are folded to one
    bit.

    Parameters
    ----------
    block : Component

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
        # Names and order steer the placer as a seed does: they stay as they are, so that figures can be compared.
        ports = itertools.groupby(block.signature.flatten(block), lambda found: found[0][:-1] or found[0])
        for path, member, port in (
            found for _, of in ports for found in sorted(of, key=lambda one: one[1].flow is Out)
        ):
            name = "_".join(map(str, path[:-1] or path))
            value = Value.cast(port)
            if not len(value) or isinstance(value, Const):  # the ready of a stream that is always ready is a constant
                continue
            if member.flow is In:
                chain = Signal(len(value), name=f"chain_{name}_{len(seen)}_{len(value)}")
                m.d.sync += chain.eq(Cat(bits, chain))
                m.d.comb += value.eq(chain)
                bits = chain[-1]
            else:
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
