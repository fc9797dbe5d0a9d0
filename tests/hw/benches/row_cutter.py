"""The row cutter against its model."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import SplitJoinParameters, row_words
from muntin.hw.memory.layouts import BeatLayout
from muntin.hw.splitjoin.layouts import tagged_row
from muntin.sim.models.splitjoin import cut_rows
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_ports import pack_row

SETTINGS = settings()
CUTS = {name: SplitJoinParameters(**values) for name, values in SETTINGS["cuts"].items()}


def _bench(dut, cut: str, stalls: str = "none") -> StreamBench:
    parameters = CUTS[cut]
    beats, rows = {f"{cut}__i": BeatLayout(parameters.data_bits)}, {f"{cut}__o": tagged_row(parameters)}
    return StreamBench(dut, beats, rows, stalls=stalls, seed=SETTINGS["seed"])


def _beats(content: bytes, size: int) -> list[dict[str, int]]:
    """A transfer; bytes that do not belong to it are noise."""
    made = []
    for at in range(0, len(content), size):
        part = content[at : at + size]
        keep = (1 << len(part)) - 1
        noise = random.Random(at).randbytes(size - len(part))
        made.append(
            {"data": int.from_bytes(part + noise, "little"), "keep": keep, "last": int(at + size >= len(content))}
        )
    return made


@cocotb.test()
@cocotb.parametrize(cut=list(CUTS), stalls=list(STALLS))
async def row_cutter_rows(dut, cut, stalls):
    parameters = CUTS[cut]
    bench = _bench(dut, cut, stalls)
    await bench.reset()
    rng = random.Random(f"{SETTINGS['seed']} {cut} {stalls}")
    sink = bench.sinks[f"{cut}__o"]
    expected = []
    for count in (1, 2, 3, 4, 5, 8, 11):
        content = rng.randbytes(4 * row_words(parameters) * count)
        bench.sources[f"{cut}__i"].queue += _beats(content, parameters.beat_bytes)
        expected += [pack_row(row, parameters) for row in cut_rows(content, parameters)]
    await bench.run(lambda: len(sink.received) == len(expected))
    await bench.idle(5)
    assert sink.received == expected


@cocotb.test()
@cocotb.parametrize(cut=list(CUTS))
async def row_cutter_timing(dut, cut):
    """A row a cycle, or a beat a cycle."""
    parameters = CUTS[cut]
    bench = _bench(dut, cut)
    await bench.reset()
    sink = bench.sinks[f"{cut}__o"]
    content = bytes(4 * row_words(parameters) * 8)
    bench.sources[f"{cut}__i"].queue += _beats(content, parameters.beat_bytes)
    await bench.run(lambda: len(sink.received) == 8)
    step = max(4 * row_words(parameters) // parameters.beat_bytes, 1)
    assert sink.cycles == [step * (at + 1) - 1 for at in range(8)]
