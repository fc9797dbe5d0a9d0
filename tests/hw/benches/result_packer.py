"""The result packer against its model."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import NUMBER_BITS, RESULT_BYTES
from muntin.hw.memory.layouts import BeatLayout
from muntin.hw.splitjoin.layouts import result_layout
from muntin.sim.models.splitjoin import JoinResult, pack_results
from muntin.sim.stream_bench import STALLS, StreamBench, settings

SETTINGS = settings()
PACKERS = SETTINGS["packers"]  # bits of a beat, by name


def _bench(dut, name: str, stalls: str = "none") -> StreamBench:
    layout = result_layout(tagged=True)
    bench = StreamBench(
        dut, {f"{name}__i": layout}, {f"{name}__o": BeatLayout(PACKERS[name])}, stalls=stalls, seed=SETTINGS["seed"]
    )
    for port in ("start", "finish"):
        getattr(dut, f"{name}__{port}").value = 0
    return bench


def _results(rng: random.Random, count: int) -> list[tuple[int, JoinResult]]:
    made = []
    for _ in range(count):
        probe, row = rng.getrandbits(NUMBER_BITS), rng.getrandbits(NUMBER_BITS)
        star = rng.random() < 0.3
        made.append((rng.randrange(2), JoinResult(probe, last=rng.random() < 0.5) if star else JoinResult(probe, row)))
    return made


def _payload(side: int, result: JoinResult) -> dict[str, int]:
    star = result.row is None
    return {
        "star": int(star),
        "last": int(result.last),
        "probe": result.probe,
        "row": 0x12345678 if star else result.row,
        "side": side,
    }


async def _start(bench: StreamBench, name: str, room: int) -> None:
    getattr(bench.dut, f"{name}__room").value = room
    getattr(bench.dut, f"{name}__start").value = 1
    await bench.step()
    getattr(bench.dut, f"{name}__start").value = 0


def _content(beats: list[dict[str, int]], size: int) -> bytes:
    """What a transfer brings to memory."""
    made = b""
    for at, beat in enumerate(beats):
        assert beat["last"] == (at == len(beats) - 1)
        kept = beat["keep"].bit_count()
        assert beat["keep"] == (1 << kept) - 1
        assert kept == size or beat["last"]
        made += beat["data"].to_bytes(size, "little")[:kept]
    return made


@cocotb.test()
@cocotb.parametrize(name=list(PACKERS), stalls=list(STALLS))
async def result_packer_beats(dut, name, stalls):
    """Streams that end early, just in time, or with their room; what has no room waits for the next one."""
    size = PACKERS[name] // 8
    per_beat = size // RESULT_BYTES
    bench = _bench(dut, name, stalls)
    await bench.reset()
    rng = random.Random(f"{SETTINGS['seed']} {name} {stalls}")
    source, sink = bench.sources[f"{name}__i"], bench.sinks[f"{name}__o"]
    waiting: list[tuple[int, JoinResult]] = []
    for count, room in (
        (0, 1),
        (1, 1),
        (per_beat, 1),
        (5 * per_beat + 1, 3),
        (0, 9),
        (7, 20),
        (9 * per_beat, 9),
        (0, 2),
    ):
        more = _results(rng, count)
        waiting += more
        source.queue += [_payload(*result) for result in more]
        sink.received.clear()
        await _start(bench, name, room)
        fits = waiting[: room * per_beat]
        left = len(waiting) - len(fits)
        await bench.run(lambda left=left: len(source.queue) == left)
        getattr(dut, f"{name}__finish").value = int(len(fits) < room * per_beat)
        await bench.run(lambda: bool(sink.received and sink.received[-1]["last"]))
        getattr(dut, f"{name}__finish").value = 0
        assert getattr(dut, f"{name}__closed").value
        assert bool(getattr(dut, f"{name}__full").value) == (len(fits) == room * per_beat)
        assert _content(sink.received, size) == pack_results(fits)
        await bench.idle(5)
        waiting = waiting[len(fits) :]
        assert len(source.queue) == len(waiting), "results that have no room are not taken"


@cocotb.test()
@cocotb.parametrize(name=list(PACKERS))
async def result_packer_timing(dut, name):
    per_beat = PACKERS[name] // 8 // RESULT_BYTES
    bench = _bench(dut, name)
    await bench.reset()
    source, sink = bench.sources[f"{name}__i"], bench.sinks[f"{name}__o"]
    await _start(bench, name, 10)
    source.queue += [_payload(*result) for result in _results(random.Random(1), 10 * per_beat)]
    await bench.run(lambda: len(sink.received) == 10)
    assert source.taken == list(range(source.taken[0], source.taken[0] + 10 * per_beat)), "a result a cycle"
    assert sink.cycles == [source.taken[per_beat * (at + 1) - 1] + 1 for at in range(10)]
