"""The count adder against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import count_layout, item_beat
from muntin.sim.models.bisort import added_counts
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
PROBE_ROWS = SETTINGS["bound_rows"] // 2


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), share=[0.0, 0.1, 0.9])
async def count_adder_batches(dut, stalls, share):
    """Counts of a share of the probes, in three runs, and one of the last probe at the end."""
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = StreamBench(
        dut, {"count_adder__i": count_layout()}, {"count_adder__o": item_beat(32, 1)}, stalls=stalls,
        seed=SETTINGS["seed"],
    )  # fmt: skip
    sink = bench.sinks["count_adder__o"]
    await bench.reset()
    for probes in (1, PROBE_ROWS, 5 * PROBE_ROWS + 3, 2, 4 * PROBE_ROWS):
        numbers: list[int] = []
        for start in range(0, probes, PROBE_ROWS):
            part = np.arange(start, min(start + PROBE_ROWS, probes))
            for _ in range(3):
                numbers += part[rng.random(len(part)) < share].tolist()
        numbers.append(probes - 1)
        counts = rng.integers(0, 1 << 32, len(numbers))
        dut.count_adder__probes.value = probes
        bench.sources["count_adder__i"].queue += [
            {"probe": number, "count": int(count), "last": int(at == len(numbers) - 1)}
            for at, (number, count) in enumerate(zip(numbers, counts, strict=True))
        ]
        sink.received.clear()
        await bench.run(lambda: bool(sink.received) and sink.received[-1]["last"] == 1)
        await bench.idle(5)
        assert [item["items"][0] for item in sink.received] == added_counts(np.array(numbers), counts, probes).tolist()
        assert [item["last"] for item in sink.received] == [0] * (probes - 1) + [1]
        assert all(item["keep"] == 1 for item in sink.received)
