"""SplitJoin with windows that leave little room in its cores, on streams so long that places come round again.

Probes then wait in every cycle, with rows stored ahead of them that they need the space of.
"""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import JoinSettings, Order
from muntin.sim.models.splitjoin import JoinRow, join_oracle
from tests.hw.benches.join_cases import JoinCase
from tests.hw.benches.splitjoin import PARAMETERS, SETTINGS, join, make_bench, until_idle


@cocotb.test()
async def joins_in_turn(dut):
    """A row of each stream in turn: for some windows the rows come so that no probe queue is ever empty."""
    rng = random.Random(f"{SETTINGS['seed']} in turn")
    bench = make_bench(dut)
    dut.clear.value = 0
    await bench.reset()
    await until_idle(bench)
    capacity = PARAMETERS.capacity
    for number, missing in enumerate(range(1, PARAMETERS.cores + 2)):
        window = capacity - missing
        rows = [
            JoinRow(side=at & 1, key=rng.randrange(2 * capacity), row=(number << 20) + at)
            for at in range(10 * 2**PARAMETERS.place_bits * PARAMETERS.cores)
        ]
        now = JoinSettings(windows=(window, window), order=Order.OUTER, low=0, high=0)
        assert join_oracle(rows, now)[0]
        await join(bench, JoinCase(rows, now), apart=False)
