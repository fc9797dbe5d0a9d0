"""The combiner against its model."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import JoinSettings, Order
from muntin.hw.splitjoin.layouts import result_layout
from muntin.sim.models.splitjoin import JoinResult, JoinRow, combine, combine_ordered
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_ports import pack_result, unpack_result
from tests.hw.benches.order_monitor import check_order

SETTINGS = settings()
SEED = SETTINGS["seed"]


def _bench(dut, stalls: str = "none") -> StreamBench:
    layout = result_layout()
    return StreamBench(
        dut,
        {"combiner__i_left": layout, "combiner__i_right": layout},
        {"combiner__o": result_layout(tagged=True), "combiner__left": layout, "combiner__right": layout},
        stalls=stalls,
        seed=SEED,
    )


def _stream(rng: random.Random, count: int) -> list[JoinResult]:
    return [JoinResult(at, None if rng.random() < 0.3 else at, last=False) for at in range(count)]


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), apart=[0, 1])
async def combiner_streams(dut, stalls, apart):
    rng = random.Random(SEED)
    bench = _bench(dut, stalls)
    dut.combiner__apart.value = apart
    dut.combiner__ordered.value = 0
    await bench.reset()
    streams = [_stream(rng, 120), _stream(rng, 70)]
    for source, stream in zip(bench.sources.values(), streams, strict=True):
        source.queue += [pack_result(result) for result in stream]
    both, *sides = bench.sinks.values()
    await bench.run(lambda: sum(len(sink.received) for sink in bench.sinks.values()) == 190)
    await bench.idle(5)
    if apart:
        assert [[unpack_result(payload) for payload in sink.received] for sink in sides] == streams
        assert not both.received
        return
    assert not any(sink.received for sink in sides)
    got = [(payload["side"], unpack_result(payload)) for payload in both.received]
    assert [[result for side, result in got if side == number] for number in (0, 1)] == streams
    if stalls == "none":
        assert got == combine(*streams)
        assert both.cycles == list(range(2, 192)), "a result a cycle, two cycles later"


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def combiner_puts_rows_in_order_of_arrival(dut, stalls):
    rng = random.Random(f"{SEED} {stalls}")
    bench = _bench(dut, stalls)
    dut.combiner__apart.value = 0
    dut.combiner__ordered.value = 1
    await bench.reset()
    sources = list(bench.sources.values())
    both = bench.sinks["combiner__o"]
    sides = [0] * 7 + [1] * 9 + [rng.randrange(2) for _ in range(60)] + [1] * 8 + [0]
    streams: tuple[list, list] = ([], [])
    counts = [0, 0]
    for row, side in enumerate(sides):
        results = [JoinResult(row, number) for number in range(rng.choice([0, 0, 1, 3]))]
        results += [JoinResult(row)] * rng.randrange(2) + [JoinResult(row, last=True)]
        streams[side].extend(results)
        sources[side].queue += [pack_result(result, counts[1 - side] % 65536) for result in results]
        counts[side] += 1
    expected = combine_ordered(*streams, sides)
    await bench.run(lambda: len(both.received) == len(expected))
    await bench.idle(5)
    assert [(payload["side"], unpack_result(payload)) for payload in both.received] == expected


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS))
async def combiner_puts_groups_in_order_of_arrival(dut, stalls):
    """Groups of rows of both streams, and of each by themselves, the last of which go on."""
    rng = random.Random(f"{SEED} {stalls} groups")
    bench = _bench(dut, stalls)
    dut.combiner__apart.value = 0
    dut.combiner__ordered.value = 1
    await bench.reset()
    both = bench.sinks["combiner__o"]
    sides = [0] * 7 + [1] * 9 + [rng.randrange(2) for _ in range(90)] + [1] * 8 + [0] * 3
    rows = [
        JoinRow(side=side, row=row, more=side in sides[row + 1 : row // 8 * 8 + 8] if row < 60 else rng.random() < 0.7)
        for row, side in enumerate(sides)
    ]
    streams: tuple[list, list] = ([], [])
    ended = [0, 0]
    for row in rows:
        results = [JoinResult(row.row, number) for number in range(rng.choice([0, 0, 1, 3]))]
        results += [] if row.more else [JoinResult(row.row, last=True)]
        streams[row.side].extend(results)
        source = bench.sources[f"combiner__i_{('left', 'right')[row.side]}"]
        source.queue += [pack_result(result, ended[1 - row.side] % 65536) for result in results]
        ended[row.side] += not row.more
    await bench.run(lambda: len(both.received) == sum(map(len, streams)))
    await bench.idle(5)
    got = [(payload["side"], unpack_result(payload)) for payload in both.received]
    assert [[result for side, result in got if side == number] for number in (0, 1)] == list(streams)
    check_order(rows, JoinSettings(order=Order.OUTER), got, cores=1)
    assert not dut.combiner__busy.value


@cocotb.test()
async def combiner_holds_no_group_for_another_that_goes_on(dut):
    """Pairs of both sides pass in turn, a result a cycle, and none behind a punctuation before the other side's."""
    bench = _bench(dut)
    dut.combiner__apart.value = 0
    dut.combiner__ordered.value = 1
    await bench.reset()
    left, right = bench.sources.values()
    both = bench.sinks["combiner__o"]
    for at in range(60):
        left.queue.append(pack_result(JoinResult(1, at)))
        right.queue.append(pack_result(JoinResult(2, at)))
    right.queue.append(pack_result(JoinResult(2, last=True)))
    right.queue.append(pack_result(JoinResult(4, 0), 1))  # the left group of row 1 ended before row 4
    await bench.run(lambda: len(both.received) == 121)
    await bench.idle(20)
    assert len(both.received) == 121, "the right side's next group waits"
    assert both.cycles == list(range(both.cycles[0], both.cycles[0] + 121))
    assert [payload["side"] for payload in both.received[:120]] in ([0, 1] * 60, [1, 0] * 60)
    left.queue.append(pack_result(JoinResult(1, last=True)))
    await bench.run(lambda: len(both.received) == 123)
    got = [(payload["side"], unpack_result(payload)) for payload in both.received[-2:]]
    assert got == [(0, JoinResult(1, last=True)), (1, JoinResult(4, 0))]
