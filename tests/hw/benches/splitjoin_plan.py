"""Measures SplitJoin as a list of steps says, by the meter around it; the log has a line of JSON for each."""

from __future__ import annotations

import json

import cocotb
from cocotb.triggers import Timer

from muntin.contract.designs.splitjoin import JoinSettings, Order
from muntin.sim.stream_bench import settings
from tests.hw.benches.join_ports import set_settings
from tests.hw.benches.splitjoin_meter import PARAMETERS, PERIOD, fill, run, start

SETTINGS = settings()


@cocotb.test()
async def plan(dut):
    """Each step has a window, and both sides' windows are full of rows when its rows come."""
    filled = None
    everything = -(1 << PARAMETERS.key_bits), (1 << PARAMETERS.key_bits) - 1
    for step in SETTINGS["steps"]:
        window = step["window"]
        low, high = everything if step["everything"] else (0, 0)
        now = JoinSettings(
            windows=(window, window), low=low, high=high, order=Order[step["order"]], every=step["every"]
        )
        mask = window - 1  # a match for two rows, where each is compared with the other side's rows
        if filled is None:
            await start(dut, now)
        set_settings(dut, now)
        if filled != window:
            dut.clear.value = 1
            await Timer(PERIOD, "ns")
            dut.clear.value = 0
            await Timer(2 * PERIOD, "ns")
            await fill(dut, mask=mask, window=window)
            filled = window
        dut.apart.value = int(step["apart"])
        dut.group.value = step["every"] if now.order == Order.OUTER else 0
        got = await run(dut, step["rows"], step["sides"], mask=mask, cycles=4 * step["rows"] * window + 10000)
        dut.apart.value = 0
        cocotb.log.info("STEP %s", json.dumps(step | got))
