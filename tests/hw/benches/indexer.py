"""The indexer against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import key_beat, row_beat
from muntin.sim.models.bisort import index
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.beats import from_beats, to_beats

SETTINGS = settings()
WIDTH, BITS, LOG2 = SETTINGS["width"], SETTINGS["key_bits"], SETTINGS["partition_log2"]
DTYPE = np.dtype(f"uint{BITS}")


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def indexer_runs(dut, stalls):
    rng = np.random.default_rng(SETTINGS["seed"])
    beat = row_beat(BITS, WIDTH)
    bench = StreamBench(
        dut,
        {"indexer__i": beat},
        {"indexer__o": beat, "indexer__index": key_beat(BITS, 1)},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    part = 1 << LOG2
    lengths = [0, 1, WIDTH, part - 1, part, part + 1, 2 * part, 0, *rng.integers(0, 9 * part, 6)]
    expected, indices = [], []
    for length in lengths:
        keys = np.sort(rng.integers(0, np.iinfo(DTYPE).max, length, DTYPE, endpoint=True))
        rows = rng.integers(0, 1 << 32, length, np.uint32)
        bench.sources["indexer__i"].queue += to_beats(keys, rows, WIDTH)
        expected.append(list(zip(keys.tolist(), rows.tolist(), strict=True)))
        indices.append(index(keys, LOG2).tolist())
    beats = len(bench.sources["indexer__i"].queue)
    await bench.reset()
    found = bench.sinks["indexer__index"]
    await bench.run(lambda: sum(item["last"] for item in found.received) == len(lengths))
    await bench.idle(5)
    assert from_beats(bench.sinks["indexer__o"].received, WIDTH) == expected
    got = [[]]
    for item in found.received:
        got[-1] += item["keys"][: item["keep"]]
        if item["last"]:
            got.append([])
    assert got[:-1] == indices
    if stalls == "none":
        taken, left = bench.sources["indexer__i"].taken, bench.sinks["indexer__o"].cycles
        assert [b - a for a, b in zip(taken, left, strict=True)] == [1] * beats
        assert taken[-1] - taken[0] == beats + len(lengths) - 2
