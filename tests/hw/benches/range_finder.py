"""The range finder against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import item_beat, position_layout
from muntin.sim.models.bisort import ranges
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
PROBE_ROWS = SETTINGS["bound_rows"] // 2


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), falling=[False, True])
async def range_finder_batches(dut, stalls, falling):
    """Positions of some probes in some runs; `falling` ones have upper bounds that come before their lower ones."""
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = StreamBench(
        dut,
        {"range_finder__i": position_layout(32)},
        {"range_finder__o": item_beat(32, 4)},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    sink = bench.sinks["range_finder__o"]
    await bench.reset()
    for probes, runs in ((1, 1), (PROBE_ROWS, 2), (3 * PROBE_ROWS + 1, 3), (2 * PROBE_ROWS, 1)):
        dut.range_finder__probes.value = probes
        due = []
        queue = bench.sources["range_finder__i"].queue
        for first in range(0, probes, PROBE_ROWS):
            count = min(PROBE_ROWS, probes - first)
            for run in range(runs):
                starts, stops = (np.sort(rng.integers(0, 9, count)) for _ in range(2))
                if falling:
                    starts += 5
                else:
                    stops = np.maximum(starts, stops)
                # Bounds by their keys, of equal ones the lower ones first.
                order = sorted([(at, 0) for at in starts] + [(at, 1) for at in stops])
                queue += [
                    {
                        "position": int(position),
                        "upper": upper,
                        "last": int(at == 2 * count - 1),
                        "run": {"place": 7 * run, "last": int(run == runs - 1)},
                    }
                    for at, (position, upper) in enumerate(order)
                ]
                due += [[first + number, 7 * run, start, stop] for number, start, stop in ranges(starts, stops)]
        sink.received.clear()
        await bench.run(lambda: bool(sink.received) and sink.received[-1]["last"] == 1)
        await bench.idle(5)
        kept = [item["items"] for item in sink.received if item["keep"]]
        assert kept == due
        assert {item["keep"] for item in sink.received[:-1]} <= {15}
        assert [item["last"] for item in sink.received] == [0] * (len(sink.received) - 1) + [1]
