"""The sorted sub-window against its model, and its timing."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import JoinSettings, Order, SplitJoinParameters
from muntin.hw.splitjoin.layouts import result_layout
from muntin.hw.splitjoin.sub_window import command_layout
from muntin.sim.models.bisort_window import BisortWindow
from muntin.sim.models.splitjoin import JoinResult
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_ports import set_settings, unpack_result

SETTINGS = settings()
PARAMETERS = SplitJoinParameters(**SETTINGS["sorted"])
BUFFER = SETTINGS["sorted_buffer"]
ROWS, TOP = PARAMETERS.rows, (1 << PARAMETERS.key_bits) - 1
PLACES = 1 << PARAMETERS.place_bits


class Window:
    """What a region would tell its sub-window, for one core that stores every row."""

    def __init__(self, bench: StreamBench, rows: int, now: JoinSettings):
        self.bench = bench
        self.source = bench.sources["bisort_window__i"]
        self.model = BisortWindow(rows=ROWS, buffer_rows=BUFFER)
        self.rows, self.now = rows, now
        self.stored = 0
        self.expected: list[JoinResult] = []

    async def clear(self) -> None:
        dut = self.bench.dut
        assert not dut.bisort_window__busy.value
        set_settings(dut, self.now, prefix="bisort_window__")
        dut.bisort_window__clear.value = 1
        await self.bench.step()
        dut.bisort_window__clear.value = 0
        self.bench.sinks["bisort_window__o"].received.clear()
        self.bench.sinks["bisort_window__o"].cycles.clear()

    def _command(self, **fields: int) -> int:
        first = max(self.stored - self.rows, 0)
        self.source.queue.append(
            {"first": first % PLACES, "stop": self.stored % PLACES}
            | {"before": 0, "early": 0, "late": 0, "more": 0, **fields}
        )
        return first

    def store(self, key: int, *, null: bool = False) -> None:
        first = self._command(probing=0, null=int(null), key=key, row=self.stored)
        self.model.store(self.stored, key, self.stored, null=null, first=first)
        self.stored += 1

    def probe(self, row: int, key: int, *, null: bool = False, more: bool = False) -> None:
        first = self._command(probing=1, null=int(null), key=key, row=row, more=int(more))
        if not null:
            # The right side is stored: low <= stored - key <= high.
            lower, upper = key + self.now.low, key + self.now.high
            found = self.model.probe(lower, upper, first=first, stop=self.stored, complement=self.now.complement)
            self.expected += [JoinResult(row, number) for number in found]
        if self.now.order != Order.NONE and not more:
            self.expected.append(JoinResult(row, last=True))

    async def run(self) -> int:
        """Runs until all has come out and checks it; the cycles that took."""
        start = self.bench.cycle
        await self.bench.step()
        while self.source.queue or self.bench.dut.bisort_window__busy.value:
            await self.bench.step()
            assert self.bench.cycle < start + 100_000
        cycles = self.bench.cycle - start
        await self.bench.idle(3)
        sink = self.bench.sinks["bisort_window__o"]
        assert [unpack_result(payload) for payload in sink.received] == self.expected
        sink.received.clear()
        self.expected.clear()
        return cycles


async def _make(dut, stalls: str = "none") -> StreamBench:
    bench = StreamBench(
        dut,
        {"bisort_window__i": command_layout(PARAMETERS)},
        {"bisort_window__o": result_layout()},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    dut.bisort_window__clear.value = 0
    await bench.reset()
    return bench


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def bisort_window_results(dut, stalls):
    rng = random.Random(f"{SETTINGS['seed']} {stalls}")
    bench = await _make(dut, stalls)
    for number, (low, high) in enumerate([(0, 0), (-3, 4), (-TOP - 1, TOP), (1, TOP), (5, 4), (-(1 << 9), 1 << 9)]):
        order = (Order.OUTER, Order.NONE)[number % 2]
        now = JoinSettings(low=low, high=high, complement=rng.random() < 0.4, order=order)
        window = Window(bench, rng.choice([0, 1, BUFFER, ROWS - 1, ROWS, ROWS]), now)
        await window.clear()
        greatest = rng.choice([3, 40, 4000, TOP])
        for part in range(4):
            for at in range(rng.randrange(2, 2 * ROWS)):
                key, null = rng.randint(0, greatest), rng.random() < 0.1
                if rng.random() < 0.6:
                    window.store(key, null=null)
                else:
                    window.probe(1000 * part + at, key, null=null, more=rng.random() < 0.3)
            await window.run()


@cocotb.test()
async def bisort_window_timing(dut):
    bench = await _make(dut)
    window = Window(bench, ROWS, JoinSettings(low=0, high=0, order=Order.OUTER))
    await window.clear()
    for at in range(2 * ROWS):
        window.store(2 * at)
    cycles = await window.run()
    assert cycles <= 2 * ROWS * 4 + 2 * ROWS // BUFFER * (ROWS + 20) + 4
    for at in range(40):
        window.probe(at, 2 * at + 1)  # between the rows
    cycles = await window.run()
    assert cycles <= 40 * (3 * (ROWS.bit_length()) + 14) + 4
    cocotb.log.info("FIGURE a probe that matches nothing takes %.2f cycles", cycles / 40)


@cocotb.test()
async def bisort_window_pair_a_cycle(dut):
    bench = await _make(dut)
    window = Window(bench, ROWS, JoinSettings(low=-TOP - 1, high=TOP, order=Order.NONE))
    await window.clear()
    for at in range(ROWS):  # the last one fills the buffer
        window.store(at)
    await window.run()
    window.probe(1, 1)
    await window.run()
    cycles = bench.sinks["bisort_window__o"].cycles[-ROWS:]
    assert cycles[-1] - cycles[0] == ROWS - 1
