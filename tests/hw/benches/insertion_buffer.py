"""The insertion buffer against its model."""

from __future__ import annotations

import random

import cocotb
from amaranth.lib import data

from muntin.hw.bisort.layouts import bound_layout, row_beat, row_layout
from muntin.sim.models.bisort import InsertionBuffer
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.beats import from_beats

SETTINGS = settings()
BITS, WIDTH, ROWS = SETTINGS["key_bits"], SETTINGS["width"], SETTINGS["buffer_rows"]
TOP = 1 << BITS


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), values=["few", "many"])
async def insertion_buffer_runs(dut, stalls, values):
    rng = random.Random(SETTINGS["seed"])
    bench = StreamBench(
        dut,
        {
            "insertion_buffer__i": data.StructLayout({"row": row_layout(BITS), "keep": 1, "flush": 1}),
            "insertion_buffer__probe": bound_layout(BITS),
            "insertion_buffer__read": range(ROWS),
        },
        {
            "insertion_buffer__position": data.StructLayout({"position": range(ROWS + 1), "upper": 1, "last": 1}),
            "insertion_buffer__sorted": row_beat(BITS, WIDTH),
            "insertion_buffer__row": row_layout(BITS),
        },
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    rows, probes, reads = bench.sources.values()
    positions, runs, items = bench.sinks.values()
    model = InsertionBuffer(ROWS)
    expected_runs = []
    top = 5 if values == "few" else TOP - 1
    await bench.reset()
    for number in range(60):
        # Some rows, which may fill the buffer; then some probes, which must see them all.
        for at in range(rng.randrange(1, 2 * ROWS if number % 4 == 0 else 4)):
            key, keep, flush = rng.randint(0, top), rng.random() < 0.9, rng.random() < 0.05
            item = {"row": {"key": key, "row": number * 100 + at}, "keep": int(keep), "flush": int(flush)}
            rows.queue.append(item)
            run = model.insert(key, number * 100 + at) if keep else None
            if run is None and flush:
                run = model.hand_over()
            if run is not None:
                expected_runs.append(run)
        await bench.run(lambda: not rows.queue)
        below = [rng.choice([0, TOP, rng.randint(0, top)]) for _ in range(rng.randrange(12 if number % 5 == 0 else 4))]
        probes.queue += [{"below": b, "upper": at & 1, "last": at == 1} for at, b in enumerate(below)]
        positions.received.clear()
        await bench.run(lambda: len(positions.received) == len(below))  # noqa: B023
        assert [item["position"] for item in positions.received] == [model.probe(b) for b in below]
        assert [item["upper"] for item in positions.received] == [at & 1 for at in range(len(below))]
        if number % 8 == 3 and model.contents:
            for _ in range(4):  # let the last row in
                await bench.step()
            assert int(dut.insertion_buffer__count.value) == len(model.contents)
            items.received.clear()
            reads.queue += list(range(len(model.contents)))
            await bench.run(lambda: len(items.received) == len(model.contents))
            assert [(item["key"], item["row"]) for item in items.received] == model.contents
    rows.queue.append({"row": {"key": 0, "row": 0}, "keep": 0, "flush": 1})
    expected_runs.append(model.hand_over())
    await bench.run(lambda: sum(b["last"] for b in runs.received) == len(expected_runs))
    await bench.idle(5)
    assert from_beats(runs.received, WIDTH) == expected_runs


@cocotb.test()
async def insertion_buffer_timing(dut):
    entry = data.StructLayout({"row": row_layout(BITS), "keep": 1, "flush": 1})
    found = data.StructLayout({"position": range(ROWS + 1), "upper": 1, "last": 1})
    bench = StreamBench(
        dut,
        {"insertion_buffer__i": entry, "insertion_buffer__probe": bound_layout(BITS)},
        {"insertion_buffer__position": found, "insertion_buffer__sorted": row_beat(BITS, WIDTH)},
    )
    rows, probes = bench.sources.values()
    positions, runs = bench.sinks.values()
    await bench.reset()
    dut.insertion_buffer__row__ready.value = 1
    rows.queue += [{"row": {"key": at ^ 5, "row": at}, "keep": 1, "flush": 0} for at in range(ROWS - 1)]
    await bench.run(lambda: not rows.queue)
    assert rows.taken == list(range(0, 2 * (ROWS - 1), 2)), "a row every other cycle"
    probes.queue += [{"below": at, "upper": 0, "last": 0} for at in range(20)]
    await bench.run(lambda: len(positions.received) == 20)
    assert positions.cycles == [cycle + SETTINGS["probe_latency"] for cycle in probes.taken]
    assert probes.taken == list(range(probes.taken[0], probes.taken[0] + 20)), "a probe a cycle"
    rows.queue += [{"row": {"key": 0, "row": 0}, "keep": 1, "flush": 0}]
    await bench.run(lambda: len(runs.received) == ROWS // WIDTH)
    assert runs.cycles == list(range(runs.cycles[0], runs.cycles[0] + ROWS // WIDTH)), "a beat a cycle"
