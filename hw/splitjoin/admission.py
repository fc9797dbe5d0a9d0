"""Whether the row that waits before a sub-window goes in."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Admission(wiring.Component):
    """One look-up table between four registers and the wide enable behind which the next row waits.

    A component of its own so that tools can keep it apart: within others they put it together out of what these have
    already, and the enable comes three look-up tables late.

    Attributes
    ----------
    valid, probing : In(1)
        A row waits, and it is a probe.
    full, room : In(1)
        No probe can be taken, and a row can be stored.
    ready : Out(1)
        Set where the row goes in, and where none waits.
    """

    valid: In(1)
    probing: In(1)
    full: In(1)
    room: In(1)
    ready: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.ready.eq(~self.valid | Mux(self.probing, ~self.full, self.room))
        return m
