"""The limit table against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import item_beat, range_layout
from muntin.sim.models.bisort import limited_ranges
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
PROBE_ROWS = SETTINGS["bound_rows"] // 2


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), limited=[0, 1], share=[0.1, 0.9])
async def limit_table_batches(dut, stalls, limited, share):
    """Ranges of a share of the probes, in three runs; the last probe has one, or ends the batch without."""
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = StreamBench(
        dut,
        {"limit_table__i": item_beat(32, 4), "limit_table__limits": item_beat(32, 2)},
        {"limit_table__o": range_layout()},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    sink = bench.sinks["limit_table__o"]
    dut.limit_table__limited.value = limited
    dut.limit_table__first.value = 0
    cycle = 0
    given: list[tuple[int, bool]] = []  # the probe of each range, and whether it ends the batch

    def first() -> None:
        """As a range finder has it: up to one step beyond the next range, or already of the next batch."""
        nonlocal cycle
        cycle += 1
        at = min(len(given) - len(bench.sources["limit_table__i"].queue), len(given) - 1)
        here, ahead = (given[min(at + more, len(given) - 1)][0] // PROBE_ROWS for more in (0, 2))
        begun = given[at][1] and cycle % 2
        dut.limit_table__first.value = 0 if begun else min(ahead, here + 1) * PROBE_ROWS

    await bench.reset()
    for probes in (1, PROBE_ROWS, 5 * PROBE_ROWS + 3, 2 * PROBE_ROWS):
        ranges = []
        for start in range(0, probes, PROBE_ROWS):
            for place in (1, 40, 63):
                part = np.arange(start, min(start + PROBE_ROWS, probes))
                ranges += [
                    (int(probe), place, *np.sort(rng.integers(0, 99, 2)).tolist())
                    for probe in part[rng.random(len(part)) < share]
                ]
        limits = rng.integers(0, 1 << 32, (probes, 2), dtype=np.uint32)
        kept = [1] * len(ranges)
        if not ranges or ranges[-1][0] != probes - 1:
            ranges.append((probes - 1, 63, 7, 3))
            kept.append(0)
        due = limited_ranges([r if k else (*r[:2], 0, 0) for r, k in zip(ranges, kept, strict=True)], limits)
        given[:] = [(found[0], at == len(ranges) - 1) for at, found in enumerate(ranges)]
        bench.sources["limit_table__i"].queue += [
            {"items": list(found), "keep": 15 * keep, "last": int(at == len(ranges) - 1)}
            for at, (found, keep) in enumerate(zip(ranges, kept, strict=True))
        ]
        if limited:
            bench.sources["limit_table__limits"].queue += [
                {"items": limit.tolist(), "keep": 3, "last": int(at == probes - 1)} for at, limit in enumerate(limits)
            ]
        if first not in bench.on_cycle:
            bench.on_cycle.append(first)
        sink.received.clear()
        await bench.run(lambda: bool(sink.received) and sink.received[-1]["last"] == 1)
        await bench.idle(5)
        names = ("probe", "place", "start", "stop") + (("first", "span") if limited else ())
        assert [tuple(item[name] for name in names) for item in sink.received] == [d[: len(names)] for d in due]
        assert [item["last"] for item in sink.received] == [0] * (len(due) - 1) + [1]
