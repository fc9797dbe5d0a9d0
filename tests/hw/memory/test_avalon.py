"""Rates and latencies of the Avalon ports, and what they take acknowledgements for."""

import itertools

import pytest

pytest.importorskip("amaranth")

from amaranth.sim import Simulator

from muntin.hw.memory.avalon_reader import AvalonReader
from muntin.hw.memory.avalon_writer import AvalonWriter
from muntin.hw.memory.port_shape import PortShape
from tests.hw.replayed import run_and_replay

SHAPE = PortShape(address_width=16, data_width=32, length_width=16, burst_bytes=16, outstanding=8, buffer_bytes=64)
BEATS = SHAPE.burst_beats
BASE = 0x20000
SETTLE = 16


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    run_and_replay(simulator, dut, "avalon_reader" if isinstance(dut, AvalonReader) else "avalon_writer")


@pytest.mark.parametrize("latency", [1, 5, 15])
def test_reads_at_a_beat_a_cycle(latency):
    dut = AvalonReader(SHAPE, 20)
    bursts = 24
    asked, came = [], []

    async def bench(ctx):
        ctx.set(dut.base, BASE)
        ctx.set(dut.axi.rready, 1)
        ctx.set(dut.axi.arlen, BEATS - 1)
        due, sent, idle = [], 0, []
        for cycle in range(bursts * BEATS + 60):
            ctx.set(dut.axi.arvalid, sent < bursts)
            ctx.set(dut.axi.araddr, sent * SHAPE.burst_bytes)
            answers = bool(due) and due[0][0] <= cycle
            ctx.set(dut.avalon.readdatavalid, answers)
            if answers:
                ctx.set(dut.avalon.readdata, due.pop(0)[1])
            if sent < bursts and ctx.get(dut.axi.arready):
                sent += 1
                idle.append(cycle)
            if ctx.get(dut.avalon.read):
                assert ctx.get(dut.avalon.burstcount) == BEATS
                address = ctx.get(dut.avalon.address)
                first = max(cycle + latency, due[-1][0] + 1 if due else 0)
                due += [(first + beat, address + 4 * beat) for beat in range(BEATS)]
                asked.append(cycle)
            if ctx.get(dut.axi.rvalid):
                came.append((cycle, ctx.get(dut.axi.rdata), ctx.get(dut.axi.rlast)))
            await ctx.tick()
        assert not ctx.get(dut.busy)
        assert asked[0] == idle[0] + 1  # a cycle for addresses
        assert came[0][0] == asked[0] + latency + 2  # two for beats

    simulate(dut, bench)
    assert [data for _, data, _ in came] == [BASE + 4 * beat for beat in range(bursts * BEATS)]
    assert [last for _, _, last in came] == [0, 0, 0, 1] * bursts
    # A beat a cycle, from the first to the last.
    assert came[-1][0] - came[0][0] == bursts * BEATS - 1
    assert all(later - earlier > 1 for earlier, later in itertools.pairwise(asked))  # others have their turn


def test_reads_only_what_there_is_room_for():
    dut = AvalonReader(SHAPE, 20)

    async def bench(ctx):
        ctx.set(dut.axi.arvalid, 1)
        ctx.set(dut.axi.arlen, BEATS - 1)
        asked = 0
        for _ in range(100):  # nobody takes a beat
            asked += ctx.get(dut.avalon.read)
            await ctx.tick()
        assert asked == SHAPE.outstanding
        assert ctx.get(dut.busy)

    simulate(dut, bench)


@pytest.mark.parametrize("by_burst", [False, True])
def test_writes_at_a_beat_a_cycle_less_one_a_burst(by_burst):
    dut = AvalonWriter(SHAPE, 20, settle_cycles=SETTLE)
    bursts = 20
    taken, answered = [], []

    async def bench(ctx):
        ctx.set(dut.base, BASE)
        ctx.set(dut.axi.bready, 1)
        ctx.set(dut.axi.awlen, BEATS - 1)
        ctx.set(dut.axi.wvalid, 1)
        sent, acks = 0, []
        for cycle in range(200):
            ctx.set(dut.axi.awvalid, sent < bursts)
            ctx.set(dut.axi.awaddr, sent * SHAPE.burst_bytes)
            ctx.set(dut.axi.wdata, len(taken))
            ctx.set(dut.avalon.writeack, cycle in acks)
            sent += sent < bursts and ctx.get(dut.axi.awready)
            if ctx.get(dut.avalon.write):
                assert ctx.get(dut.avalon.writedata) == len(taken)
                assert ctx.get(dut.avalon.address) == BASE + len(taken) // BEATS * SHAPE.burst_bytes
                taken.append(cycle)
                if not by_burst or len(taken) % BEATS == 0:
                    acks.append(cycle + 3)
            if ctx.get(dut.axi.bvalid):
                answered.append(cycle)
            await ctx.tick()
        assert not ctx.get(dut.busy)

    simulate(dut, bench)
    assert len(taken) == bursts * BEATS
    assert len(answered) == bursts
    # Once it is known what is acknowledged: four beats, and a cycle in which others have their turn.
    known = taken[2 * BEATS :]
    assert known[-1] - known[0] == len(known) // BEATS * (BEATS + 1) - 2
    # The first burst waits for acknowledgements of beats to come, or not to come; those behind it do not.
    last = taken[BEATS - 1]
    assert answered[0] == last + 3 + 1 + (SETTLE if by_burst else 0)
    for number in range(1, bursts):
        assert answered[number] == taken[(number + 1) * BEATS - 1] + 4


def test_a_burst_of_one_beat_tells_nothing_of_acknowledgements():
    dut = AvalonWriter(SHAPE, 20, settle_cycles=SETTLE)

    async def bench(ctx):
        ctx.set(dut.axi.bready, 1)
        ctx.set(dut.axi.wvalid, 1)
        # Three bursts of a beat, acknowledged once each; then one of four, of which each beat is acknowledged.
        for length in (0, 0, 0, BEATS - 1):
            ctx.set(dut.axi.awvalid, 1)
            ctx.set(dut.axi.awlen, length)
            while not ctx.get(dut.axi.awready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.axi.awvalid, 0)
            for beat in range(length + 1):
                assert not ctx.get(dut.axi.bvalid)
                while not ctx.get(dut.avalon.write):
                    await ctx.tick()
                await ctx.tick()
                assert not ctx.get(dut.axi.bvalid), beat
            for _ in range(length + 1):
                await ctx.tick().repeat(SETTLE // 2)
                assert not ctx.get(dut.axi.bvalid)
                ctx.set(dut.avalon.writeack, 1)
                await ctx.tick()
                ctx.set(dut.avalon.writeack, 0)
            assert ctx.get(dut.axi.bvalid)
            await ctx.tick()

    simulate(dut, bench)
