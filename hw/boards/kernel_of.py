"""The kernel of each design."""

from typing import Any

from amaranth.lib import wiring

from hw.bisort.engine import port_shape
from hw.bisort.kernel import Kernel
from hw.errors import ParameterError
from hw.memory.port_shape import PortShape


def kernel_of(design: str, parameters: Any) -> tuple[wiring.Component, PortShape]:
    """The kernel of a design, and the shape of its memory ports.

    Parameters
    ----------
    design : str
        ``"bisort"``.
    parameters : dataclass
        What it is built with.

    Raises
    ------
    ParameterError
        If no kernel is known for that design.
    """
    if design == "bisort":
        return Kernel(parameters), port_shape(parameters)
    raise ParameterError(f"design must be bisort, not {design!r}")
