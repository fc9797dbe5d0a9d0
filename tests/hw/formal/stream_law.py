"""The law of streams, as assertions on an output and as assumptions on an input."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.lib import wiring


def law_domain(platform: object) -> str:
    """The domain for assertions and assumptions.

    The solver sees each cycle settled. A simulator does not, so there they wait for the clock.
    """
    return "comb" if platform == "formal" else "sync"


def stream_law(m: Module, law: str, port: wiring.PureInterface, name: str, *, given: bool) -> None:
    """Valid stays, and the payload stands still, until ready.

    Parameters
    ----------
    m : Module
        Takes the statements.
    law : str
        See `law_domain`.
    port : stream interface
    name : str
        Names the signals.
    given : bool
        Whether the law is assumed of the port, not asserted.
    """
    waits = Signal(name=f"{name}_waits")
    last = Signal.like(port.payload, name=f"{name}_last")
    m.d.sync += [waits.eq(port.valid & ~port.ready), last.eq(port.payload)]
    property_ = Assume if given else Assert
    with m.If(waits):
        m.d[law] += [property_(port.valid), property_(port.payload == last)]
