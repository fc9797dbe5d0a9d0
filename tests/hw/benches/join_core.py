"""A join core, with the FIFOs of its results, against its model, and its timing."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import JoinSettings, Order, SplitJoinParameters
from muntin.hw.splitjoin.layouts import result_layout, tagged_row
from muntin.sim.models.splitjoin import JoinCore, JoinRow
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_cases import cases
from tests.hw.benches.join_ports import pack_row, set_settings, unpack_result

SETTINGS = settings()
PARAMETERS = SplitJoinParameters(**SETTINGS["core"])
INDEX = SETTINGS["index"]
ROWS, LANES, CORES = PARAMETERS.rows, PARAMETERS.lanes, PARAMETERS.cores


async def _make(dut, stalls: str = "none", only: tuple[str, ...] = ()) -> StreamBench:
    bench = StreamBench(
        dut,
        {"join_core__i": tagged_row(PARAMETERS)},
        {"join_core__left": result_layout(), "join_core__right": result_layout()},
        stalls=stalls,
        seed=SETTINGS["seed"],
        only=only,
    )
    dut.join_core__clear.value = 0
    await bench.reset()
    return bench


async def _clear(bench: StreamBench, now: JoinSettings) -> None:
    assert not bench.dut.join_core__busy.value
    set_settings(bench.dut, now, prefix="join_core__")
    bench.dut.join_core__clear.value = 1
    await bench.step()
    bench.dut.join_core__clear.value = 0
    await bench.idle(2)
    for sink in bench.sinks.values():
        sink.received.clear()
        sink.cycles.clear()
    bench.sources["join_core__i"].taken.clear()


async def _send(bench: StreamBench, rows: list[JoinRow]) -> None:
    source = bench.sources["join_core__i"]
    source.queue += [pack_row(row, PARAMETERS) for row in rows]
    await bench.step()
    await bench.run(lambda: not source.queue and not bench.dut.join_core__busy.value)
    await bench.idle(3)


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), stalled=["all", "left", "right"])
async def join_core_results(dut, stalls, stalled):
    only = {"all": ()}.get(stalled, (f"join_core__{stalled}",))
    bench = await _make(dut, stalls, only)
    size = {name: getattr(PARAMETERS, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}
    for case in cases(
        random.Random(f"{SETTINGS['seed']} {stalls} {stalled}"), **size, count=6, length=4 * ROWS * CORES // 3
    ):
        await _clear(bench, case.settings)
        await _send(bench, case.rows)
        model = JoinCore(case.settings, index=INDEX, cores=CORES, rows=ROWS)
        expected: list[list] = [[], []]
        for row in case.rows:
            expected[row.side] += model.take(row)
        got = [[unpack_result(payload) for payload in sink.received] for sink in bench.sinks.values()]
        assert got == expected
        assert bool(dut.join_core__overflow.value) == model.overflow


@cocotb.test()
async def join_core_is_never_idle_between_probes(dut):
    """A full window, rows of both streams in turn: both regions compare C rows in every cycle."""
    bench = await _make(dut)
    window = CORES * ROWS
    await _clear(bench, JoinSettings(windows=(window, window), low=1, high=0))
    await _send(bench, [JoinRow(side=at & 1, row=at) for at in range(2 * window)])
    compared = []
    bench.on_cycle.append(lambda: compared.append(int(dut.join_core__compared.value)))
    await _send(bench, [JoinRow(side=at & 1, row=at) for at in range(4 * window)])
    busy = compared[compared.index(2 * LANES) : len(compared) - compared[::-1].index(2 * LANES)]
    # A ring that starts within a word is read in one word more. Where scans are as short as these, a row that is stored
    # over the oldest one holds the next probe up.
    words, stores = 2 * window * (ROWS + LANES - 1) / LANES, 2 * window / CORES
    assert len(busy) <= 1.02 * words + 3 * stores
    assert sum(compared) == 4 * window * ROWS


@cocotb.test()
async def join_core_stores_while_it_compares(dut):
    """Rows to store are taken a cycle each while a probe scans, where they overwrite nothing it needs. They are as many
    as can wait before the other region, which probes with them and takes three cycles for each."""
    bench = await _make(dut)
    half = CORES * ROWS // 2
    await _clear(bench, JoinSettings(windows=(half, half), low=1, high=0))
    await _send(bench, [JoinRow(side=1, row=at) for at in range(half)])
    source = bench.sources["join_core__i"]
    source.taken.clear()
    await _send(bench, [JoinRow(side=0, row=0), *(JoinRow(side=1, row=at) for at in range(12))])
    assert source.taken == list(range(source.taken[0], source.taken[0] + 13))


@cocotb.test()
async def join_core_timing(dut):
    bench = await _make(dut)
    await _clear(bench, JoinSettings(windows=(CORES, CORES), low=0, high=0, order=Order.OUTER))
    await _send(bench, [JoinRow(side=1, row=at, key=5) for at in range(CORES)])
    sink, source = bench.sinks["join_core__left"], bench.sources["join_core__i"]
    sink.received.clear()
    sink.cycles.clear()
    source.taken.clear()
    await _send(bench, [JoinRow(side=0, row=9, key=5)])
    assert sink.cycles == [source.taken[0] + 13, source.taken[0] + 14]
    sink.cycles.clear()
    source.taken.clear()
    await _send(bench, [JoinRow(side=0, row=at, key=6) for at in range(20)])  # nothing matches
    assert sink.cycles == [cycle + 13 for cycle in range(source.taken[0], source.taken[0] + 60, 3)]
