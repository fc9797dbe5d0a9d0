"""The bound merger against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import bound_layout
from muntin.sim.models.bisort import merge_bounds
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
BITS = SETTINGS["key_bits"]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def bound_merger_batches(dut, stalls):
    rng = np.random.default_rng(SETTINGS["seed"])
    bound = bound_layout(BITS)
    names = ("bound_merger__lower", "bound_merger__upper")
    bench = StreamBench(
        dut, dict.fromkeys(names, bound), {"bound_merger__o": bound}, stalls=stalls, seed=SETTINGS["seed"]
    )
    expected = []
    for length, values in ((1, 3), (1, 3), (30, 4), (40, 1 << 20), (25, 60)):
        sides = [np.sort(rng.integers(0, values, length)).astype(object) << (BITS - 20) for _ in names]
        if length == 30:
            sides[1][-3:] = 1 << BITS
        for name, side in zip(names, sides, strict=True):
            bench.sources[name].queue += [
                {"below": below, "upper": int(name == names[1]), "last": int(at == length - 1)}
                for at, below in enumerate(side)
            ]
        below, upper = merge_bounds(*sides)
        last = [0] * (2 * length - 1) + [1]
        expected += [
            {"below": int(b), "upper": int(u), "last": at} for b, u, at in zip(below, upper, last, strict=True)
        ]
    await bench.reset()
    sink = bench.sinks["bound_merger__o"]
    await bench.run(lambda: len(sink.received) == len(expected))
    await bench.idle(5)
    assert sink.received == expected
    if stalls == "none":
        assert sink.cycles == list(range(sink.cycles[0], sink.cycles[0] + len(expected)))
