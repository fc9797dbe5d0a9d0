"""The inputs of a block before its first reset, until a bench drives them."""

from __future__ import annotations

import os
import re
from typing import Any

import cocotb
from cocotb.triggers import Timer

INPUTS = "BENCH_INPUTS"
"""The variable of the environment that has the inputs of a block, with commas between them."""

_INPUT = re.compile(r"^  input (?:\[\d+:0\] )?(\w+);", re.M)


def inputs_of(text: str) -> str:
    """The inputs of the module ``top`` of that Verilog, for `INPUTS`."""
    module = re.search(r"^module top ?\(.*?^endmodule", text, re.M | re.S)
    assert module is not None
    return ",".join(_INPUT.findall(module[0]))


@cocotb.test()
async def begins_in_reset(dut: Any) -> None:
    """All inputs are 0 but the reset, as a board holds them until its clocks are locked.

    Benches leave some undriven.
    """
    for name in os.environ[INPUTS].split(","):
        getattr(dut, name).value = int(name == "rst")
    await Timer(1, "ns")
