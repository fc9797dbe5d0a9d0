"""A memory whose reads meet writes now and then."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from muntin.sim.stream_bench import settings


@cocotb.test()
async def wrong_only_where_they_meet(dut):
    rng = random.Random(settings()["seed"])
    Clock(dut.clk, 2, "ns").start()
    dut.rst.value = 0
    stored, expected, met = [0] * 8, None, 0
    for _ in range(2000):
        write, read, at, of, data = rng.getrandbits(1), rng.getrandbits(1), *(rng.randrange(n) for n in (8, 8, 256))
        for name, value in (("write", write), ("read", read), ("at", at), ("of", of), ("data", data)):
            getattr(dut, name).value = value
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        if read:
            here = bool(write and at == of)
            met += here
            expected = stored[of] ^ 255 if here else stored[of]
        if write:
            stored[at] = data
        if expected is not None:
            assert int(dut.o.value) == expected
    assert met > 50
