"""The kernel of each design."""

import importlib
from typing import Any

from amaranth.lib import wiring

from muntin.contract.design import design_of
from muntin.hw.memory.port_shape import PortShape


def kernel_of(parameters: Any, **options: Any) -> tuple[wiring.Component, PortShape]:
    """The kernel that is built with these parameters, and options of its own; and the shape of its memory ports.

    Raises
    ------
    ParameterError
        If no design is built with such parameters.
    """
    module, name = design_of(parameters).kernel.split(":")
    kernel = getattr(importlib.import_module(f"muntin.hw.{module}"), name)(parameters, **options)
    return kernel, kernel.shape
