"""The rates of SplitJoin, measured by the meter around it."""

from __future__ import annotations

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer, with_timeout

from muntin.contract.designs.splitjoin import JoinSettings, Order, SplitJoinParameters
from muntin.sim.stream_bench import settings
from tests.hw.benches.join_ports import set_settings
from tests.hw.meters.splitjoin_meter import SIDES

SETTINGS = settings()
PARAMETERS = SplitJoinParameters(**SETTINGS["parameters"])
WINDOW = PARAMETERS.capacity
CORES, LANES = PARAMETERS.cores, PARAMETERS.lanes
SCAN = PARAMETERS.rows // LANES  # cycles of a probe at best
PERIOD = 2


async def run(dut, rows: int, sides: str, *, null: bool = False, mask: int = 0xFFFF, cycles: int) -> dict[str, int]:
    """Sends rows and waits until all has come out, which should take no more than so many cycles; the counters."""
    dut.rows.value = rows
    dut.sides.value = SIDES.index(sides)
    dut.nulls.value = int(null)
    dut.key_mask.value = mask
    dut.start.value = 1
    await Timer(PERIOD, "ns")
    dut.start.value = 0
    await Timer(PERIOD, "ns")
    await with_timeout(RisingEdge(dut.done), (4 * cycles + 1000) * PERIOD, "ns")
    await Timer(PERIOD // 2, "ns")  # away from the clock's edge
    names = ("cycles", "pairs", "stars", "right_pairs", "right_stars", "first_pair", "last_pair", "compared")
    return {name: int(getattr(dut, name).value) for name in names}


async def start(dut, now: JoinSettings) -> None:
    """Resets everything."""
    for name in ("clear", "apart", "start", "rows", "sides", "nulls", "group", "key_mask"):
        getattr(dut, name).value = 0
    set_settings(dut, now)
    dut.rst.value = 1
    Clock(dut.clk, PERIOD, "ns", impl="gpi").start()
    await Timer(4 * PERIOD + 1, "ns")
    dut.rst.value = 0
    await Timer(8 * PERIOD, "ns")


async def fill(dut, *, mask: int, window: int = WINDOW) -> None:
    """Both windows: left rows probe nothing yet, and right ones match nothing."""
    await run(dut, window, "left", mask=mask, cycles=32 * window)
    await run(dut, window, "right", null=True, cycles=32 * window)


def _settings(order: Order, every: int = 0, **change: int) -> JoinSettings:
    return JoinSettings(windows=(WINDOW, WINDOW), order=order, every=every, **change)


@cocotb.test()
async def rates(dut):
    """Comparators busy, and what each order costs, at about one match for two rows."""
    rows = SETTINGS["rows"]
    mask = WINDOW - 1
    await start(dut, _settings(Order.NONE))
    await fill(dut, mask=mask)
    rate: dict[str, float] = {}
    for name, order, every, apart in (
        ("none", Order.NONE, 0, 0),
        ("outer", Order.OUTER, 0, 0),
        ("outer, every 16", Order.OUTER, 4, 0),
        ("inner, every 64", Order.INNER, 6, 0),
        ("inner, every row", Order.INNER, 0, 0),
        ("inner, every row, apart", Order.INNER, 0, 1),
    ):
        set_settings(dut, _settings(order, every))
        dut.group.value = every if order == Order.OUTER else 0
        dut.apart.value = apart
        got = await run(dut, rows, "in turn", mask=mask, cycles=rows * SCAN)
        busy = got["compared"] / (2 * CORES * LANES * got["cycles"])
        rate[name] = rows / got["cycles"]
        cocotb.log.info(
            "FIGURE J=%d C=%d window %d, order %s: %.4f of comparators busy, %.6f rows/cycle (bound %.6f), %s",
            *(CORES, LANES, WINDOW, name, busy, rate[name], 2 * CORES * LANES / WINDOW, got),
        )
        assert got["compared"] == rows * WINDOW
        stars = {"none": 0, "outer": rows, "outer, every 16": 2 * -(-rows // 16)}.get(name)
        if stars is not None:
            assert got["stars"] == stars
            assert busy >= SETTINGS["busy"]
    assert rate["outer"] >= 0.98 * rate["none"]
    assert rate["outer, every 16"] >= 0.999 * rate["outer"]
    set_settings(dut, _settings(Order.NONE, 0))  # punctuation for each row would bound more lanes than one
    dut.apart.value = 0
    got = await run(dut, rows, "right", mask=mask, cycles=rows * SCAN)
    assert rows / got["cycles"] >= SETTINGS["busy"] * CORES * LANES / WINDOW
    cocotb.log.info("FIGURE one stream alone: %.6f rows/cycle, %s", rows / got["cycles"], got)


@cocotb.test()
async def everything_matches(dut):
    """The root puts out a pair a cycle."""
    await start(dut, _settings(Order.NONE, low=-(1 << PARAMETERS.key_bits), high=(1 << PARAMETERS.key_bits) - 1))
    await fill(dut, mask=0xFFFF)
    rows = SETTINGS["matching"]
    for order in (Order.NONE, Order.OUTER, Order.INNER):
        change = {"low": -(1 << PARAMETERS.key_bits), "high": (1 << PARAMETERS.key_bits) - 1}
        set_settings(dut, _settings(order, PARAMETERS.every_log2_max, **change))
        got = await run(dut, rows, "right", cycles=rows * WINDOW)
        assert got["pairs"] == rows * WINDOW
        results = got["pairs"] + (got["stars"] - 1 if order != Order.NONE else 0)
        rate = results / (got["last_pair"] - got["first_pair"] + 1)
        cocotb.log.info(
            "FIGURE everything matches, order %s: %.4f results/cycle at the root, %s", order.name, rate, got
        )
        assert rate >= 0.99
