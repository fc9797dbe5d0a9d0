"""SplitJoin against its model and a nested loop, with order watched as results come out."""

from __future__ import annotations

import random
from collections import Counter

import cocotb

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.splitjoin.layouts import result_layout, tagged_row
from muntin.sim.models.splitjoin import SplitJoin, join_oracle
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_cases import JoinCase, cases
from tests.hw.benches.join_ports import pack_row, set_settings, unpack_result
from tests.hw.benches.order_monitor import OrderMonitor, check_arrival

SETTINGS = settings()
PARAMETERS = SplitJoinParameters(**SETTINGS["parameters"])


def make_bench(dut, stalls: str = "none") -> StreamBench:
    result = result_layout()
    return StreamBench(
        dut,
        {"i": tagged_row(PARAMETERS)},
        {"o": result_layout(tagged=True), "left": result, "right": result},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )


async def until_idle(bench: StreamBench) -> None:
    """Runs until everything has come out."""
    await bench.run(lambda: not bench.sources["i"].queue and bool(bench.dut.idle.value))


async def join(bench: StreamBench, case: JoinCase, *, apart: bool) -> None:
    """Clears the windows, runs a case, and checks all that comes out."""
    dut, now = bench.dut, case.settings
    assert dut.idle.value
    set_settings(dut, now)
    dut.apart.value = int(apart)
    dut.clear.value = 1
    await bench.step()
    dut.clear.value = 0
    await bench.idle(2)
    for sink in bench.sinks.values():
        sink.received.clear()
    source = bench.sources["i"]
    for at in range(0, len(case.rows), 16):  # the bench allows so many cycles at once
        source.queue += [pack_row(row, PARAMETERS) for row in case.rows[at : at + 16]]
        await bench.run(lambda: not source.queue)
    for _ in range(3):
        await bench.step()
    await until_idle(bench)
    await bench.idle(PARAMETERS.levels + 4)  # where no row came, `overflow` is still that of the case before

    monitors = [OrderMonitor(case.rows, now, side=side, cores=PARAMETERS.cores) for side in (0, 1)]
    got: list[list] = [[], []]
    for name, sink in bench.sinks.items():
        for payload in sink.received:
            assert (name == "o") != apart
            side = payload["side"] if name == "o" else int(name == "right")
            result = unpack_result(payload)
            monitors[side].see(result)
            got[side].append(result)
        if name == "o" and now.order != Order.NONE:
            found = [(payload["side"], unpack_result(payload)) for payload in sink.received]
            check_arrival(case.rows, now, found)
    model = SplitJoin(now, cores=PARAMETERS.cores, rows=PARAMETERS.rows)
    expected = model.take(case.rows)
    pairs = join_oracle(case.rows, now)
    assert bool(dut.overflow.value) == model.overflow
    for side in (0, 1):
        monitors[side].end()
        if now.order == Order.INNER:
            assert got[side] == expected[side]
        else:
            assert Counter(got[side]) == Counter(expected[side])
        found = [(result.probe, result.row) for result in got[side] if result.row is not None]
        assert len(set(found)) == len(found)
        assert set(found) == pairs[side] if not model.overflow else set(found) <= pairs[side]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def joins(dut, stalls):
    rng = random.Random(f"{SETTINGS['seed']} {stalls}")
    bench = make_bench(dut, stalls)
    dut.clear.value = 0
    await bench.reset()
    await until_idle(bench)
    size = {name: getattr(PARAMETERS, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}
    more = {"orders": [Order(order) for order in SETTINGS["orders"]]} if "orders" in SETTINGS else {}
    for number, case in enumerate(cases(rng, **size, count=SETTINGS["count"], length=SETTINGS.get("length"), **more)):
        await join(bench, case, apart=number % 5 == 4)
