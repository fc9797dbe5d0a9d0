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


async def _load(bench, dut, index, base):
    """Puts an index where it is searched from then on."""
    dut.partitioner__to.value = dut.partitioner__base.value = base
    dut.partitioner__entries.value = len(index)
    loaded = []
    bench.on_cycle.append(lambda: loaded.append(int(dut.partitioner__loaded.value)))
    bench.sources["partitioner__index"].queue += [
        {"keys": [int(key)], "keep": 1, "last": int(at == len(index) - 1)} for at, key in enumerate(index)
    ]
    bench.sources["partitioner__index"].queue.insert(0, {"keys": [0], "keep": 0, "last": 0})
    await bench.run(lambda: sum(loaded) == 1)
    bench.on_cycle.pop()


def _offer(bench, below):
    bench.sources["partitioner__i"].queue += [
        {"below": int(bound), "upper": at & 1, "last": int(at == len(below) - 1)} for at, bound in enumerate(below)
    ]


def _found(items):
    return [item["partition"] if item["hit"] else -1 for item in items]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def partitioner_batches(dut, stalls):
    """Batches in one index and in another beside it, by turns."""
    rng = np.random.default_rng(SETTINGS["seed"])
    bench = _bench(dut, stalls)
    sink = bench.sinks["partitioner__o"]
    await bench.reset()
    for trial, length in enumerate((1, 2, INDEX_ROWS, INDEX_ROWS - 1, INDEX_ROWS // 2 + 5, 5)):
        values = (10, TOP - 1)[trial & 1]
        indexes = [(int(rng.integers(0, INDEX_ROWS - length + 1)), length)]
        room = max((0, indexes[0][0]), (sum(indexes[0]), INDEX_ROWS - sum(indexes[0])), key=lambda place: place[1])
        if room[1] >= 3:
            indexes.append((room[0], 3))
        held = []
        for base, entries in indexes:
            held.append(np.sort(rng.integers(0, values, entries, DTYPE, endpoint=True)))
            await _load(bench, dut, held[-1], base)
            assert not int(dut.partitioner__overflow.value)
        for number, count in enumerate((1, 60, 9)):
            at = number % len(held)
            index = held[at]
            below = [0, TOP, *(int(v) for v in rng.integers(0, values, count, DTYPE, endpoint=True))]
            below += [int(key) + int(rng.integers(0, 2)) for key in index[:: max(length // 5, 1)]]
            below = np.array(sorted(below[int(rng.integers(0, 3)) :]), object)
            dut.partitioner__base.value, dut.partitioner__entries.value = indexes[at]
            dut.partitioner__run.value = 2 * number + 1
            _offer(bench, below)
            sink.received.clear()
            await bench.run(lambda: len(sink.received) == len(below))  # noqa: B023
            assert _found(sink.received) == partition(index, below).tolist()
            assert [item["bound"]["below"] for item in sink.received] == list(below)
            assert [item["bound"]["last"] for item in sink.received] == [0] * (len(below) - 1) + [1]
            assert {(item["run"]["place"], item["run"]["last"]) for item in sink.received} == ({(2 * number + 1, 0)})
        await bench.idle(5)


@cocotb.test()
async def partitioner_index_too_long(dut):
    bench = _bench(dut, "none")
    await bench.reset()
    await _load(bench, dut, range(INDEX_ROWS + 3), 0)
    await bench.idle(1)
    assert int(dut.partitioner__overflow.value)
    await _load(bench, dut, range(INDEX_ROWS), 0)
    await bench.idle(1)
    assert not int(dut.partitioner__overflow.value)


@cocotb.test()
async def partitioner_timing(dut):
    """Cycles between two answers, by how many words of the index lie between them."""
    for distance in (0, 1, 2, 3, 4, 7, 8, INDEX_ROWS // WIDTH - 1):
        bench = _bench(dut, "none")
        sink = bench.sinks["partitioner__o"]
        await bench.reset()
        await _load(bench, dut, range(0, 10 * INDEX_ROWS, 10), 0)
        _offer(bench, [15, 15 + 10 * WIDTH * distance])
        await bench.run(lambda: len(sink.received) == 2)  # noqa: B023
        more = sink.cycles[1] - sink.cycles[0] - 1
        assert more <= (2 * distance if distance <= 2 else 6 * (distance.bit_length() - 1) + 12), (distance, more)
