"""A kernel as data: what tells one design from another."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil

from muntin.contract import ParameterError
from muntin.contract.memory_port import MemoryPort
from muntin.contract.registers import KernelMap


@dataclasses.dataclass(frozen=True)
class Design:
    """One kernel.

    Attributes
    ----------
    name : str
        What is written in ``design=``, with whatever tells builds of it apart behind it.
    parameters : type
        What it is built with.
    registers : KernelMap
    kernel : str
        Its gateware, ``"module:class"`` below the folder of the hardware; the class is called with the parameters.
    model : str
        Its model, ``"module:class"`` below the folder of the models; the class is called with the parameters and the
        bytes of memory of a lane.
    engine : str
        How it joins: ``"runs"``, by commands over sorted runs, or ``"split_join"``, by rows.
    """

    name: str
    parameters: type[MemoryPort]
    registers: KernelMap
    kernel: str
    model: str
    engine: str


@functools.cache
def designs() -> dict[type, Design]:
    """Every design by its parameters: the `DESIGN` of each module of `muntin.contract.designs`."""
    from muntin.contract import designs as package

    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [importlib.import_module(f"{package.__name__}.{name}").DESIGN for name in names]
    return {design.parameters: design for design in found}


def design_of(parameters: MemoryPort) -> Design:
    """The design that is built with such parameters. Raises ParameterError if there is none."""
    if type(parameters) not in designs():
        raise ParameterError(
            f"no design is built with {type(parameters).__name__}: there are "
            f"{', '.join(each.__name__ for each in designs())}"
        )
    return designs()[type(parameters)]
