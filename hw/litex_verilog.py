"""Modules of Migen as Verilog, as LiteX writes them."""

import re
from typing import Any

from litex.gen.fhdl import namer, verilog
from migen import Module, Signal


def litex_verilog(module: Module, name: str, ports: set[Signal], overrides: dict[Any, Any] | None = None) -> str:
    """Convert a module; the same module makes the same text, whatever the process has made before.

    Parameters
    ----------
    module : migen.Module
    name : str
        Name of the Verilog module.
    ports : set of migen.Signal
    overrides : dict, optional
        What stands for Migen's special things on an FPGA.

    Returns
    -------
    str
        Without comments, which tell the time.
    """
    text = verilog.convert(module, ports, name, special_overrides=overrides or {}).main_source
    return re.sub(r"^\s*//.*\n", "", text, flags=re.M)


def _namespace(signals: set[Signal], reserved_keywords: set[str]) -> namer.SignalNamespace:
    """Numbers signals of one name in the order in which they were made.

    LiteX numbers them in the order in which sets give them, which depends on how many were made before the module.
    """
    names = namer.build_signal_namespace(signals, reserved_keywords)
    for signal in sorted(signals, key=lambda signal: (signal.name_override is None, signal.duid)):
        names.get_name(signal)
    return names


verilog.build_signal_namespace = _namespace
