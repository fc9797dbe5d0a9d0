"""The ports of a component that a module can have."""

from __future__ import annotations

from amaranth.hdl import Const, Value
from amaranth.lib import wiring


def ports(component: wiring.Component) -> list[Value]:
    """All ports that are signals: the ready of a stream that is always ready is a constant, and no port of a module."""
    found = (Value.cast(port) for _, _, port in component.signature.flatten(component))
    return [port for port in found if not isinstance(port, Const)]
