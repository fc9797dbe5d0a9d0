"""The boundary generator against its model."""

from __future__ import annotations

import cocotb
import numpy as np
from amaranth.lib import data

from muntin.hw.bisort.layouts import bound_layout
from muntin.sim.models.bisort import bounds
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
BITS = SETTINGS["key_bits"]
DTYPE = np.dtype(f"uint{BITS}")
TOP = (1 << BITS) - 1
OFFSETS = (
    0,
    1,
    -1,
    1000,
    -1000,
    TOP,
    -TOP,
    TOP + 1,
    -TOP - 1,
    TOP // 2,
    -(TOP // 3),
    2 * TOP + 1,
    -2 * TOP - 2,
)


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def boundary_generator_batches(dut, stalls):
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = StreamBench(
        dut,
        {"boundary_generator__i": data.StructLayout({"key": BITS, "last": 1})},
        {"boundary_generator__o": bound_layout(BITS)},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    source, sink = bench.sources["boundary_generator__i"], bench.sinks["boundary_generator__o"]
    await bench.reset()
    for number, offset in enumerate(OFFSETS):
        keys = np.sort(np.append(rng.integers(0, TOP, 40, DTYPE, endpoint=True), [DTYPE.type(0), DTYPE.type(TOP)]))
        dut.boundary_generator__offset.value = offset & ((1 << BITS + 2) - 1)
        dut.boundary_generator__upper.value = number & 1
        source.queue = [{"key": int(key), "last": int(at == len(keys) - 1)} for at, key in enumerate(keys)]
        sink.received.clear()
        sink.cycles.clear()
        source.taken.clear()
        await bench.run(lambda: len(sink.received) == len(keys))  # noqa: B023
        assert [item["below"] for item in sink.received] == list(bounds(keys, offset))
        assert [item["last"] for item in sink.received] == [0] * (len(keys) - 1) + [1]
        assert {item["upper"] for item in sink.received} == {number & 1}
        if stalls == "none":
            assert sink.cycles == [cycle + 2 for cycle in source.taken]
            assert source.taken[-1] - source.taken[0] == len(keys) - 1
