"""The RAP merger against its model."""

from __future__ import annotations

import random
from collections import Counter

import cocotb

from muntin.hw.splitjoin.layouts import result_layout
from muntin.sim.models.splitjoin import JoinResult, merge_punctuated
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_ports import pack_result, unpack_result

SETTINGS = settings()
INPUTS, SEED = SETTINGS["inputs"], SETTINGS["seed"]
IN_ORDER_CYCLES = 2  # that `in_order` is there before the first result


def _bench(dut, stalls: str = "none", only: tuple[str, ...] = ()) -> StreamBench:
    layout = result_layout()
    sources = {f"rap_merger__i__{at}": layout for at in range(INPUTS)}
    return StreamBench(dut, sources, {"rap_merger__o": layout}, stalls=stalls, seed=SEED, only=only)


async def _started(dut, stalls: str = "none", only: tuple[str, ...] = (), *, in_order: int) -> StreamBench:
    """A bench whose merger knows whether its inputs are in order."""
    bench = _bench(dut, stalls, only)
    dut.rap_merger__in_order.value = in_order
    await bench.reset()
    await bench.idle(IN_ORDER_CYCLES)
    return bench


def _streams(rng: random.Random, groups: int, most: int) -> list[list[JoinResult]]:
    streams: list[list[JoinResult]] = [[] for _ in range(INPUTS)]
    for group in range(groups):
        for at, stream in enumerate(streams):
            count = rng.choice([0, 0, 1, rng.randint(0, most)])
            stream += [JoinResult(group, at * 1000 + number) for number in range(count)]
            stream.append(JoinResult(group, last=group % 3 == 2))
    return streams


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), in_order=[0, 1], stalled=["all", "first", "last", "output"])
async def rap_merger_streams(dut, stalls, in_order, stalled):
    only = {
        "all": (),
        "first": ("rap_merger__i__0",),
        "last": (f"rap_merger__i__{INPUTS - 1}",),
        "output": ("rap_merger__o",),
    }[stalled]
    bench = await _started(dut, stalls, only, in_order=in_order)
    streams = _streams(random.Random(SEED), 30, 5)
    for source, stream in zip(bench.sources.values(), streams, strict=True):
        source.queue += [pack_result(result) for result in stream]
    expected = merge_punctuated(streams)
    sink = bench.sinks["rap_merger__o"]
    await bench.run(lambda: len(sink.received) == len(expected))
    await bench.idle(5)
    got = [unpack_result(payload) for payload in sink.received]
    assert not dut.rap_merger__busy.value
    if in_order:
        assert got == expected
        return
    # The same punctuation, the same pairs between two of them, and each input's pairs in their own order.
    at = 0
    for place, result in enumerate(expected):
        if result.row is None:
            assert got[place] == result
            assert Counter(got[at:place]) == Counter(expected[at:place])
            for number in range(INPUTS):
                part = [pair for pair in got[at:place] if pair.row // 1000 == number]
                assert part == sorted(part)
            at = place + 1


@cocotb.test()
async def rap_merger_timing(dut):
    bench = await _started(dut, in_order=1)
    sink = bench.sinks["rap_merger__o"]
    for source in bench.sources.values():  # nothing but punctuation: one of them each a cycle
        source.queue += [pack_result(JoinResult(group, last=True)) for group in range(20)]
    await bench.run(lambda: len(sink.received) == 20)
    assert sink.cycles == list(range(IN_ORDER_CYCLES + 2, IN_ORDER_CYCLES + 22)), (
        "a punctuation a cycle, a cycle later, and another behind it"
    )
    start = bench.cycle
    sink.cycles.clear()
    for source in bench.sources.values():
        source.queue += [pack_result(JoinResult(0, number)) for number in range(20)]
        source.queue.append(pack_result(JoinResult(0)))
    await bench.run(lambda: len(sink.cycles) == 20 * INPUTS + 1)
    assert sink.cycles == list(range(start + 2, start + 20 * INPUTS + 3)), "a pair a cycle"


GONE = {"star": 1, "last": 1, "probe": 0xDEAD, "row": 0xDEAD, "before": 0xDEAD, "gone": 1, "in_order": 0}


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), in_order=[0, 1], dead=list(range(INPUTS)))
async def rap_merger_without_one(dut, stalls, in_order, dead):
    """An input that is gone holds nothing up, and takes nothing with it."""
    bench = await _started(dut, stalls, in_order=in_order)
    streams = _streams(random.Random(f"{SEED} {dead}"), 30, 5)
    for source, stream in zip(bench.sources.values(), streams, strict=True):
        source.queue += [pack_result(result) for result in stream]
    lost = list(bench.sources.values())[dead]
    await bench.run(lambda: len(lost.taken) > 12)
    kept = [result for result in streams[dead][: len(lost.taken) + 1] if result.row is not None]
    del lost.queue[1:]  # what is offered stays so
    lost.queue += [GONE] * 100
    stars = [result for result in streams[0] if result.row is None]
    lives = [result for at, stream in enumerate(streams) if at != dead for result in stream if result.row is not None]
    sink = bench.sinks["rap_merger__o"]
    await bench.run(lambda: len(sink.received) == len(stars) + len(lives) + len(kept))
    for _ in range(20):
        await bench.step()
    assert not any(payload["gone"] for payload in sink.received), "the punctuation of those that live"
    got = [unpack_result(payload) for payload in sink.received]
    assert [result for result in got if result.row is None] == stars
    assert Counter(result for result in got if result.row is not None) == Counter(lives + kept)
    group = 0
    for result in got:
        assert result.probe == group
        group += result.row is None
    assert not dut.rap_merger__busy.value
    # All gone: so is what comes out, and nothing is under way.
    for source in bench.sources.values():
        source.queue += [GONE] * 10
    sink.received.clear()
    await bench.run(lambda: len(sink.received) > 5)
    assert all(payload["star"] and payload["gone"] for payload in sink.received)
    assert not dut.rap_merger__busy.value


@cocotb.test()
@cocotb.parametrize(in_order=[0, 1], dead=list(range(INPUTS)))
async def rap_merger_after_an_end(dut, in_order, dead):
    """What an input holds and gets is lost once it is said to be gone; it holds nothing up."""
    bench = await _started(dut, "some", in_order=in_order)
    streams = _streams(random.Random(f"{SEED} {dead}"), 30, 5)
    for source, stream in zip(bench.sources.values(), streams, strict=True):
        source.queue += [pack_result(result) for result in stream]
    sink = bench.sinks["rap_merger__o"]
    await bench.run(lambda: len(sink.received) > 40)
    dut.rap_merger__end.value = 1 << dead
    living = [source for at, source in enumerate(bench.sources.values()) if at != dead]
    await bench.run(lambda: not any(source.queue for source in living))
    for _ in range(100):
        await bench.step()
    assert not any(payload["gone"] for payload in sink.received)
    got = [unpack_result(payload) for payload in sink.received]
    assert [result for result in got if result.row is None] == [result for result in streams[0] if result.row is None]
    pairs = Counter(result for result in got if result.row is not None)
    lost = Counter(result for result in streams[dead] if result.row is not None)
    lives = [result for at, stream in enumerate(streams) if at != dead for result in stream if result.row is not None]
    assert pairs - lost == Counter(lives), "all of the others"
    assert pairs <= lost + Counter(lives), "none twice"
    assert not dut.rap_merger__busy.value
    dut.rap_merger__end.value = 0
