"""The kernel of each design."""

from typing import Any

from amaranth.lib import wiring

from muntin.hw.bisort.kernel import Kernel
from muntin.hw.errors import ParameterError
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.splitjoin.kernel import SplitJoinKernel

_KERNELS = {"bisort": Kernel, "splitjoin": SplitJoinKernel}


def kernel_of(design: str, parameters: Any) -> tuple[wiring.Component, PortShape]:
    """The kernel of a design, and the shape of its memory ports.

    Parameters
    ----------
    design : str
        ``"bisort"``, ``"splitjoin"``, or one of these with digits, or a hyphen and a word, behind it, where a board
        has several of it.
    parameters : dataclass
        What it is built with.

    Raises
    ------
    ParameterError
        If no kernel is known for that design.
    """
    kind = design.partition("-")[0].rstrip("0123456789")
    if kind not in _KERNELS:
        raise ParameterError(f"design must be one of {', '.join(_KERNELS)}, not {design!r}")
    kernel = _KERNELS[kind](parameters)
    return kernel, kernel.shape
