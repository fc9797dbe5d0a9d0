"""Block RAMs of several widths, of which reads meet writes now and then."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from muntin.sim.stream_bench import settings
from tests.sim.test_netlist import SHAPES, first

PLACES = (0, 1, 7, 8, 9, 31, 32, 255, 511)  # that all of them have


@cocotb.test()
async def as_memories(dut):
    rng = random.Random(settings()["seed"])
    Clock(dut.clk, 2, "ns").start()
    dut.rst.value = 0
    stored = {bits: [first(bits, at) for at in PLACES] for bits, _ in SHAPES}
    expected: dict[int, int] = {}
    met = 0
    for _ in range(1000):
        write, read, data = rng.getrandbits(1), rng.getrandbits(1), rng.getrandbits(36)
        at, of = rng.randrange(len(PLACES)), rng.randrange(len(PLACES))
        for name, value in (("write", write), ("read", read), ("at", PLACES[at]), ("of", PLACES[of]), ("data", data)):
            getattr(dut, f"rams__{name}").value = value
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        met += bool(read and write and at == of)
        for bits, _ in SHAPES:
            if read:
                expected[bits] = stored[bits][of] ^ ((1 << bits) - 1 if write and at == of else 0)
            if write:
                stored[bits][at] = data % (1 << bits)
            if bits in expected:
                assert int(getattr(dut, f"rams__o_{bits}").value) == expected[bits], bits
    assert met > 20
