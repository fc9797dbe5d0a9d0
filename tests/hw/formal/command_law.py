"""The law of a sub-window's commands, as assertions on a region and as assumptions on what its commands meet."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Module, Signal, Value
from amaranth.lib import wiring


def command_law(
    m: Module, law: str, port: wiring.PureInterface, stored: Value, store: Value, *, rows: int, given: bool
) -> None:
    """Places are as they are now, whether a command is there or not, and stand still while one is held up.

    `stop` is the place of the next row, and `first` lies at most all rows behind it and never goes back. In the first
    cycle they may be anything.

    Parameters
    ----------
    m : Module
        Takes the statements.
    law : str
        See `law_domain`.
    port : stream interface of command_layout
    stored : Value
        The rows that were stored, modulo the places.
    store : Value
        Set where a row is stored.
    rows : int
        What a core holds.
    given : bool
        Whether the law is assumed of the port, not asserted.
    """
    property_ = Assume if given else Assert
    first = port.p.first
    span, moved = (stored - first)[: len(first)], Signal.like(first, name="moved")
    was_held, was_probing, began, goes_on = Signal(), Signal(), Signal(), Signal()
    last_first, reach = Signal.like(first, name="last_first"), Signal(range(rows + 2))
    m.d.comb += moved.eq(first - last_first)
    m.d.sync += [
        began.eq(1),
        goes_on.eq(began),
        was_held.eq(port.valid & ~port.ready),
        was_probing.eq(port.p.probing),
        last_first.eq(first),
        reach.eq(span + store),
    ]
    with m.If(began):
        m.d[law] += [property_(port.p.stop == stored), property_(span <= rows), property_(port.p.empty == (span == 0))]
    with m.If(goes_on):
        m.d[law] += property_(moved <= reach)
    with m.If(was_held):
        m.d[law] += [property_(port.valid), property_(port.p.probing == was_probing), property_(moved == 0)]
