"""The prober against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import key_beat, partition_layout, partitioned_bound, position_layout
from muntin.sim.models.bisort import index, partition, probe
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
BITS, INDEX_ROWS = SETTINGS["key_bits"], SETTINGS["index_rows"]
WIDTH, LOG2 = SETTINGS["width"], SETTINGS["partition_log2"]
DTYPE = np.dtype(f"uint{BITS}")
TOP = 1 << BITS


def _beats(keys, number):
    part = keys[number << LOG2 : (number + 1) << LOG2]
    for at in range(0, len(part), WIDTH):
        beat = [int(key) for key in part[at : at + WIDTH]]
        keep = (1 << len(beat)) - 1
        beat += [0] * (WIDTH - len(beat))  # below every bound, were it looked at
        yield {"keys": beat, "keep": keep, "last": int(at + WIDTH >= len(part))}


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), values=["few", "many"])
async def prober_batches(dut, stalls, values):
    rng = np.random.default_rng(SETTINGS["seed"])
    position = range((INDEX_ROWS << LOG2) + 1)
    bound = partitioned_bound(BITS, INDEX_ROWS)
    bench = StreamBench(
        dut,
        {"prober__i": bound, "prober__keys": key_beat(BITS, WIDTH)},
        {
            "prober__request": partition_layout(INDEX_ROWS),
            "prober__o": position_layout(position),
        },
        stalls=stalls,
        seed=SETTINGS["seed"],
    )
    asked, answers = bench.sinks["prober__request"], bench.sinks["prober__o"]
    keys = np.zeros(0, DTYPE)
    served = 0

    def memory() -> None:
        """Hands out what was asked for."""
        nonlocal served
        while served < len(asked.received):
            bench.sources["prober__keys"].queue += _beats(keys, asked.received[served]["partition"])
            served += 1

    bench.on_cycle.append(memory)
    await bench.reset()
    part = 1 << LOG2
    for length in (1, part, part + 1, 5 * part - 1, INDEX_ROWS * part, 7 * part):
        top = 40 if values == "few" else TOP - 1
        keys = np.sort(rng.integers(0, top, length, DTYPE, endpoint=True))
        for count in (1, 50):
            below = [int(v) for v in rng.integers(0, top, count, DTYPE, endpoint=True)] + [0, TOP]
            below += [int(key) + 1 for key in rng.choice(keys, 5)]
            below = np.array(sorted(below), object)
            where = partition(index(keys, LOG2), below)
            positions, touched = probe(keys, below, where, LOG2)
            assert positions.tolist() == [int((keys.astype(object) < bound).sum()) for bound in below]
            bench.sources["prober__i"].queue += [
                {
                    "bound": {"below": bound, "upper": at % 3 == 0, "last": int(at == len(below) - 1)},
                    "run": {"place": count, "last": count & 1},
                    "partition": max(int(which), 0),
                    "hit": int(which >= 0),
                }
                for at, (bound, which) in enumerate(zip(below, where, strict=True))
            ]
            asked.received.clear()
            answers.received.clear()
            served = 0
            before = bench.cycle
            beats = sum(len(list(_beats(keys, number))) for number in touched)
            source = bench.sources["prober__keys"]
            await bench.run(
                lambda: len(answers.received) == len(below) and not source.queue,  # noqa: B023
            )
            if stalls == "none":
                assert bench.cycle - before <= beats + len(below) + 8
            assert asked.received == [{"place": count, "partition": number} for number in touched.tolist()]
            assert all(item["run"] == {"place": count, "last": count & 1} for item in answers.received)
            assert [item["position"] for item in answers.received] == positions.tolist()
            assert [item["upper"] for item in answers.received] == [int(at % 3 == 0) for at in range(len(below))]
            assert [item["last"] for item in answers.received] == [0] * (len(below) - 1) + [1]
    await bench.idle(5)
