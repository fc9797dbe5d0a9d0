"""Gives inputs as they were recorded by `tests.hw.replayed`, and compares outputs where they are valid."""

import json
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from muntin.sim.stream_bench import settings


@cocotb.test()
async def outputs_are_those_that_were_recorded(dut):
    ports, cycles = json.loads(Path(settings()["recording"]).read_text())
    names = [name for name, _ in ports]
    signals = [(at, getattr(dut, name), given) for at, (name, given) in enumerate(ports)]
    # What is not valid may be anything, and so may numbers without a valid beside them.
    valid = {
        name: next((names.index(v) for v in names if v.endswith("valid") and name.startswith(v[:-5]) and v[:-5]), None)
        for name in names
    }
    # As in Amaranth's simulator, it begins with what registers hold at power-up.
    dut.clk.value = dut.rst.value = 0
    for at, signal, given in signals:
        if given:
            signal.value = cycles[0][at]
    await Timer(5, "ns")
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    before = cycles[0]
    for number, now in enumerate(cycles):
        for at, signal, given in signals:
            if given and now[at] != before[at]:
                signal.value = now[at]
        await RisingEdge(dut.clk)
        for at, signal, given in signals:
            guard = valid[names[at]]
            if not given and (len(signal) == 1 if guard is None else now[guard]):
                assert int(signal.value) == now[at], (number, names[at])
        before = now
    dut.rst.value = 1
    for _ in range(2):
        await RisingEdge(dut.clk)
