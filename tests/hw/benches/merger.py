"""The merger against its model, over data shapes, lengths and stalls; and its rate."""

from __future__ import annotations

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer, with_timeout

from muntin.hw.bisort.layouts import row_beat
from muntin.sim.models.bisort import merge
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.beats import from_beats, to_beats
from tests.hw.meters.merger_meter import SHAPES as METER_SHAPES
from tests.hw.meters.merger_meter import row_hash

SETTINGS = settings()
WIDTH, KEY_BITS, SEED = SETTINGS["width"], SETTINGS["key_bits"], SETTINGS["seed"]
DTYPE = np.dtype(f"uint{KEY_BITS}")


def _keys(rng: np.random.Generator, shape: str, side: int, length: int) -> np.ndarray:
    top = int(np.iinfo(DTYPE).max)
    if shape == "uniform":
        keys = rng.integers(0, top, length, DTYPE, endpoint=True)
    elif shape == "equal":
        keys = np.full(length, 7, DTYPE)
    elif shape == "greatest":  # as padding would look if it were a key
        keys = np.full(length, top, DTYPE)
    elif shape == "one side first":
        keys = rng.integers(0, top >> 1, length, DTYPE) + DTYPE.type(side * (top >> 1))
    elif shape == "few":
        keys = rng.integers(0, 3, length, DTYPE) * DTYPE.type(top // 2)
    else:  # rotating: W rows of one side to one of the other
        keys = np.arange(length, dtype=DTYPE) * DTYPE.type(1 if side else WIDTH + 1)
    return np.sort(keys)


SHAPES = ("uniform", "equal", "greatest", "one side first", "few", "rotating")


def _lengths(rng: np.random.Generator) -> list[tuple[int, int]]:
    w = WIDTH
    fixed = [(0, 0), (1, 0), (0, 1), (w, w), (3 * w, 0), (0, 5 * w + 1), (w + 1, 2 * w - 1), (20 * w, 20 * w)]
    return fixed + [tuple(map(int, rng.integers(0, 12 * w, 2))) for _ in range(4)]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), shape=SHAPES)
async def runs(dut, stalls, shape):
    rng = np.random.default_rng([SEED, SHAPES.index(shape)])
    beat = row_beat(KEY_BITS, WIDTH)
    bench = StreamBench(dut, {"older": beat, "newer": beat}, {"o": beat}, stalls=stalls, seed=SEED)
    expected = []
    number = 0
    for lengths in _lengths(rng):
        sides = []
        for side, length in enumerate(lengths):
            keys = _keys(rng, shape, side, length)
            rows = np.arange(number, number + length, dtype=np.uint32)
            number += length
            sides.append((keys, rows))
            bench.sources["older" if side == 0 else "newer"].queue += to_beats(keys, rows, WIDTH)
        keys, rows = merge(*sides, WIDTH)
        assert (np.sort(np.concatenate([side[0] for side in sides])) == keys).all()
        assert (np.sort(np.concatenate([side[1] for side in sides])) == np.sort(rows)).all()
        expected.append(list(zip(keys.tolist(), rows.tolist(), strict=True)))
    dut.measure.value = 0
    await bench.reset()
    sink = bench.sinks["o"]
    await bench.run(lambda: sum(b["last"] for b in sink.received) == len(expected))
    await bench.idle(30)
    assert from_beats(sink.received, WIDTH) == expected


@cocotb.test()
async def timing(dut):
    """What the docstring says of latency and gaps."""
    beat = row_beat(KEY_BITS, WIDTH)
    bench = StreamBench(dut, {"older": beat, "newer": beat}, {"o": beat})
    length = 10 * WIDTH
    keys = np.arange(length, dtype=DTYPE)
    for _ in range(3):
        for source in bench.sources.values():
            source.queue += to_beats(keys, keys.astype(np.uint32), WIDTH)
    dut.measure.value = 0
    await bench.reset()
    sink = bench.sinks["o"]
    await bench.run(lambda: sum(b["last"] for b in sink.received) == 3)
    first = [cycle for at, cycle in enumerate(sink.cycles) if at % 20 == 0]
    last = [cycle for at, cycle in enumerate(sink.cycles) if at % 20 == 19]
    assert all(b - a == 19 for a, b in zip(first, last, strict=True)), "a beat every cycle"
    latency, gap = first[0] - bench.sources["older"].taken[0], first[1] - last[0] - 1
    cocotb.log.info("latency %d, gap %d", latency, gap)
    assert (latency, gap) == (SETTINGS["latency"], SETTINGS["gap"])


@cocotb.test()
@cocotb.parametrize(shape=METER_SHAPES, lengths=[(1, 1), (1, 4), (0, 1)])
async def rate(dut, shape, lengths):
    dut.measure.value = 1
    rows = SETTINGS["beats"] * WIDTH
    older, newer = (rows * part // sum(lengths) + (3 if part else 0) for part in lengths)
    dut.shape.value = METER_SHAPES.index(shape)
    dut.older_rows.value = older
    dut.newer_rows.value = newer
    dut.runs.value = 1
    dut.rst.value = 1
    Clock(dut.clk, 2, "ns", impl="gpi").start()
    await Timer(9, "ns")
    dut.rst.value = 0
    await with_timeout(RisingEdge(dut.done), 8 * SETTINGS["beats"], "ns")  # four times what it should take
    numbers = np.concatenate([np.arange(older, dtype=np.uint64), np.arange(newer, dtype=np.uint64) + (1 << 31)])
    assert int(dut.rows.value) == older + newer
    assert int(dut.row_sum.value) == int(numbers.sum()) % 2**32
    assert int(dut.row_hash.value) == int((row_hash(numbers)).sum()) % 2**32
    assert not int(dut.disorder.value)
    cycles, beats = int(dut.cycles.value), int(dut.beats.value)
    cocotb.log.info("RATE %s %s %d rows %d beats %d cycles", shape, lengths, older + newer, beats, cycles)
    assert beats == -(-(older + newer) // WIDTH)
    assert (older + newer) / cycles >= 0.999 * WIDTH
