"""Finds the cores that stopped answering."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

CORE_BITS = 16
"""Width of the number of a core that died."""


class CoreWatch(wiring.Component):
    """Declares a core dead that had something to do and did nothing for so many cycles.

    One counter ticks for all cores; a core that did not stir from one tick to the next is dead, and stays so.

    Parameters
    ----------
    cores : int

    Attributes
    ----------
    timeout : In(32)
        Cycles from tick to tick; 0 to watch nothing.
    stirs : In(cores)
        For each core: something moved at its ports, or it compared rows, or it has nothing to do, or what stands
        behind it holds it up.
    dead : Out(cores)
    first : Out(CORE_BITS)
        The core that died first; the lowest of several at once.

    Timing
    ------
    A core that stands still is dead after `timeout` cycles at least, and twice as many and three at most.
    """

    def __init__(self, cores: int):
        self._cores = cores
        super().__init__({"timeout": In(32), "stirs": In(cores), "dead": Out(cores), "first": Out(CORE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(32)  # cycles to the next tick
        watching, tick = Signal(), Signal()
        stirs = Signal(self._cores)  # a cycle late, as the ways to it are long
        stirred = Signal(self._cores)
        lost = Signal(self._cores)
        m.d.sync += [
            watching.eq(self.timeout != 0),
            tick.eq(watching & ~tick & (left[2:] == 0) & (left[0] ^ left[1])),
            left.eq(Mux(watching & ~tick, left - 1, self.timeout)),
            stirs.eq(self.stirs),
            stirred.eq(Mux(watching & ~tick, stirred, 0) | stirs),
            lost.eq(Mux(tick, ~stirred & ~stirs, 0)),
            self.dead.eq(self.dead | lost),
        ]
        with m.If(~self.dead.any()):
            for core in reversed(range(self._cores)):
                with m.If(lost[core]):
                    m.d.sync += self.first.eq(core)
        return m
