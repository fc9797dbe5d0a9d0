"""The partitioner against its model."""

from __future__ import annotations

import cocotb
import numpy as np

from muntin.hw.bisort.layouts import bound_layout, key_beat, partitioned_bound
from muntin.sim.models.bisort import partition
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
BITS, INDEX_ROWS, WIDTH = SETTINGS["key_bits"], SETTINGS["index_rows"], SETTINGS["index_width"]
DTYPE = np.dtype(f"uint{BITS}")
TOP = 1 << BITS


def _bench(dut, stalls):
    return StreamBench(
        dut,
        {"partitioner__index": key_beat(BITS, 1), "partitioner__i": bound_layout(BITS)},
        {"partitioner__o": partitioned_bound(BITS, INDEX_ROWS)},
        stalls=stalls,
        seed=SETTINGS["seed"],
    )


def _offer(bench, index, batches):
    bench.sources["partitioner__index"].queue += [
        {"keys": [int(key)], "keep": 1, "last": int(at == len(index) - 1)} for at, key in enumerate(index)
    ]
    for below in batches:
        bench.sources["partitioner__i"].queue += [
            {"below": int(bound), "upper": at & 1, "last": int(at == len(below) - 1)} for at, bound in enumerate(below)
        ]


async def _other_index(bench, dut, rng, base, length):
    """Puts an index of three entries before or behind the one at hand, and searches it."""
    room = base if base > INDEX_ROWS - base - length else INDEX_ROWS - base - length
    start = 0 if room == base else base + length
    if room < 3:
        return
    sink = bench.sinks["partitioner__o"]
    dut.partitioner__reuse.value = 0
    dut.partitioner__base.value = start
    _offer(bench, (5, 9, 9), [[6, 9, 10]])
    sink.received.clear()
    await bench.run(lambda: len(sink.received) == 3)
    assert _found(sink.received) == [0, 0, 2]
    assert not int(dut.partitioner__overflow.value)
    dut.partitioner__reuse.value = 1
    dut.partitioner__base.value = base


def _found(items):
    return [item["partition"] if item["hit"] else -1 for item in items]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), reuse=[0, 1])
async def partitioner_batches(dut, stalls, reuse):
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = _bench(dut, stalls)
    sink = bench.sinks["partitioner__o"]
    await bench.reset()
    for trial, length in enumerate((1, 2, INDEX_ROWS, INDEX_ROWS - 1, INDEX_ROWS // 2 + 5, 5)):
        values = (10, TOP - 1)[trial & 1]
        index = np.sort(rng.integers(0, values, length, DTYPE, endpoint=True))
        batches = []
        for count in (1, 60, 9)[: 3 if reuse else 1] if trial else (40,):
            below = [0, TOP, *(int(v) for v in rng.integers(0, values, count, DTYPE, endpoint=True))]
            below += [int(key) + int(rng.integers(0, 2)) for key in index[:: max(length // 5, 1)]]
            batches.append(np.array(sorted(below[int(rng.integers(0, 3)) :]), object))
        base = int(rng.integers(0, INDEX_ROWS - length + 1))
        dut.partitioner__base.value = base
        for number, below in enumerate(batches):  # all but the first in the index that is there
            dut.partitioner__reuse.value = int(number > 0)
            dut.partitioner__entries.value = length
            if number == 2:  # after a batch in another index, if there is room for one beside it
                await _other_index(bench, dut, rng, base, length)
            _offer(bench, () if number else index, [below])
            sink.received.clear()
            await bench.run(lambda: len(sink.received) == len(below))  # noqa: B023
            assert _found(sink.received) == partition(index, below).tolist()
            assert [item["bound"]["below"] for item in sink.received] == list(below)
            assert [item["bound"]["last"] for item in sink.received] == [0] * (len(below) - 1) + [1]
            assert not int(dut.partitioner__overflow.value)
        await bench.idle(5)


@cocotb.test()
async def partitioner_index_too_long(dut):
    bench = _bench(dut, "none")
    sink = bench.sinks["partitioner__o"]
    dut.partitioner__reuse.value = 0
    dut.partitioner__base.value = 0
    await bench.reset()
    _offer(bench, range(INDEX_ROWS + 3), [[5]])
    await bench.run(lambda: len(sink.received) == 1)
    assert int(dut.partitioner__overflow.value)
    await bench.idle(4)
    _offer(bench, range(INDEX_ROWS), [[5]])
    await bench.run(lambda: len(sink.received) == 2)
    assert not int(dut.partitioner__overflow.value)


@cocotb.test()
async def partitioner_timing(dut):
    """Cycles between two answers, by how many words of the index lie between them."""
    for distance in (0, 1, 2, 3, 4, 7, 8, INDEX_ROWS // WIDTH - 1):
        bench = _bench(dut, "none")
        sink = bench.sinks["partitioner__o"]
        dut.partitioner__reuse.value = 0
        dut.partitioner__base.value = 0
        await bench.reset()
        _offer(bench, range(0, 10 * INDEX_ROWS, 10), [[15, 15 + 10 * WIDTH * distance]])
        await bench.run(lambda: len(sink.received) == 2)  # noqa: B023
        more = sink.cycles[1] - sink.cycles[0] - 1
        assert more <= (2 * distance if distance <= 2 else 4 * (distance.bit_length() - 1) + 8), (distance, more)
