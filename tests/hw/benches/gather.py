"""The gather against its model."""

from __future__ import annotations

import cocotb
import numpy as np
from amaranth.lib import data

from muntin.hw.bisort.layouts import count_layout, pair_beat, range_layout
from muntin.sim.models.bisort import gather
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
WIDTH = SETTINGS["width"]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), limited=[0, 1], counting=[0, 1])
async def gather_batches(dut, stalls, limited, counting):
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = StreamBench(
        dut,
        {"gather__i": range_layout(), "gather__rows": data.ArrayLayout(32, WIDTH)},
        {
            "gather__request": data.StructLayout({"place": 6, "beat": 32, "count": 32}),
            "gather__o": pair_beat(WIDTH),
            "gather__counts": count_layout(),
        },
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    asked, pairs, counts = (bench.sinks[f"gather__{name}"] for name in ("request", "o", "counts"))
    dut.gather__limited.value = limited
    dut.gather__counting.value = counting
    rows = np.zeros(0, np.uint32)
    served = 0

    def memory() -> None:
        nonlocal served
        for request in asked.received[served:]:
            assert request["count"] > 0
            for beat in range(request["beat"], request["beat"] + request["count"]):
                part = rows[beat * WIDTH : (beat + 1) * WIDTH].tolist()
                assert part, "a beat beyond the run"
                bench.sources["gather__rows"].queue.append(part)
            served += 1

    bench.on_cycle.append(memory)
    await bench.reset()
    for length, count in ((1, 1), (50, 1), (50, 30), (200, 25), (8 * WIDTH, 8)):
        base = (1 << 32) - length // 2  # row numbers pass 2**32
        rows = rng.permutation(np.arange(base, base + length) & 0xFFFFFFFF).astype(np.uint32)
        start = rng.integers(0, length + 1, count)
        stop = np.minimum(start + rng.integers(0, (3, 40)[length > 50], count), length)
        if count == 8:  # whole beats, each a range of its own
            start = np.arange(8) * WIDTH
            stop = start + WIDTH
        first = (base + rng.integers(0, length, count)).astype(np.uint32)
        span = rng.integers(0, length + 1, count).astype(np.uint32)
        bench.sources["gather__i"].queue += [
            {
                "probe": number,
                "start": int(start[number]),
                "stop": int(stop[number]),
                "first": int(first[number]),
                "span": int(span[number]),
                "place": number % 7,
                "last": int(number == count - 1),
            }
            for number in range(count)
        ]
        probes, found = gather(rows, start, stop, (first, span) if limited else None)
        for sink in (asked, pairs, counts):
            sink.received.clear()
        served = 0
        sink = counts if counting else pairs
        await bench.run(lambda: sink.received and sink.received[-1]["last"])  # noqa: B023
        await bench.idle(6)
        if counting:
            assert not pairs.received
            assert [item["probe"] for item in counts.received] == list(range(count))
            assert [item["count"] for item in counts.received] == np.bincount(probes, minlength=count).tolist()
            assert len(asked.received) == (int((start < stop).sum()) if limited else 0)
        else:
            assert not counts.received
            got = []
            for beat in pairs.received:
                kept = beat["keep"].bit_count()
                assert beat["keep"] == (1 << kept) - 1
                assert kept == WIDTH or beat["last"]
                got += [(pair["probe"], pair["row"]) for pair in beat["pairs"][:kept]]
            assert got == list(zip(probes.tolist(), found.tolist(), strict=True))
            assert len(pairs.received) == max(-(-len(got) // WIDTH), 1)
            assert sum(item["last"] for item in pairs.received) == 1
            assert [item["place"] for item in asked.received] == [at % 7 for at in np.flatnonzero(start < stop)]
