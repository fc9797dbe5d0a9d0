"""What a block holds before its first reset, and its inputs until a bench drives them.

A register that Amaranth makes has an initial value, which the bitstream of an FPGA sets. A reset must not rely on it:
it comes again and again, whatever the registers hold by then. So benches can be run on blocks whose registers begin
with values that the simulator draws by the seed.
"""

from __future__ import annotations

import os
import re
from typing import Any

import cocotb
from cocotb.triggers import Timer

INPUTS = "BENCH_INPUTS"
"""The variable of the environment that has the inputs of a block, with commas between them."""

_REGISTER = re.compile(r"^(  reg (?:signed )?(?:\[\d+:0\] )?(?:\\\S+ |\w+)) = [^;]+;$", re.M)
_INPUT = re.compile(r"^  input (?:\[\d+:0\] )?(\w+);", re.M)


def without_initial_values(text: str) -> str:
    """Leave out what registers begin with.

    Parameters
    ----------
    text : str
        Verilog as Amaranth writes it.

    Returns
    -------
    str
        The same, with ``reg [3:0] a;`` for ``reg [3:0] a = 4'h0;``. What memories hold first stays: a read-only one has
        nothing else.
    """
    return _REGISTER.sub(r"\1;", text)


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
