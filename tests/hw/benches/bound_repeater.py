"""The bound repeater against its description."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import bound_layout
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
BITS, ROWS = SETTINGS["key_bits"], SETTINGS["bound_rows"]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), places=[(0,), (63,), (2, 3, 40, 63)])
async def bound_repeater_batches(dut, stalls, places):
    rng = np.random.default_rng(SETTINGS["seed"])
    bound = bound_layout(BITS)
    bench = StreamBench(
        dut, {"bound_repeater__i": bound}, {"bound_repeater__o": bound}, stalls=stalls, seed=SETTINGS["seed"]
    )
    dut.bound_repeater__runs.value = sum(1 << place for place in places)
    batches = [
        [
            {"below": int(rng.integers(1 << 32)), "upper": int(rng.integers(2)), "last": int(at == length - 1)}
            for at in range(length)
        ]
        for length in (ROWS, ROWS - 1, ROWS, 1, 2, 1, 1, 3)
    ]
    bench.sources["bound_repeater__i"].queue += [item for batch in batches for item in batch]
    expected = [(place, item) for batch in batches for place in places for item in batch]
    sink, runs = bench.sinks["bound_repeater__o"], []

    def note() -> None:
        """The run stands beside each bound."""
        if int(dut.bound_repeater__o__valid.value) and int(dut.bound_repeater__o__ready.value):
            runs.append(int(dut.bound_repeater__run.value))

    bench.on_cycle.append(note)
    await bench.reset()
    await bench.run(lambda: len(sink.received) == len(expected))
    await bench.idle(5)
    assert sink.received == [item for _, item in expected]
    assert runs == [place | (place == places[-1]) << 6 for place, _ in expected]
    if stalls == "none" and len(places) > 2:  # while one batch is given, the next one comes in
        whole = len(places) * (3 * ROWS - 1)
        assert sink.cycles[:whole] == list(range(sink.cycles[0], sink.cycles[0] + whole))
