"""Cores that stand still are found in time, and no others."""

import random

from amaranth.sim import Simulator

from muntin.hw.splitjoin.core_watch import CoreWatch
from tests.hw.replayed import run_and_replay

CORES, TIMEOUT = 3, 20


def watch(stirs: list[list[int]], timeout: int = TIMEOUT) -> tuple[list[int | None], int]:
    """The cycle in which each core was found dead, and the first of them."""
    block = CoreWatch(CORES)
    found: list[int | None] = [None] * CORES
    first = [0]

    async def bench(ctx) -> None:
        ctx.set(block.timeout, timeout)
        for cycle, now in enumerate(stirs):
            ctx.set(block.stirs, sum(bit << core for core, bit in enumerate(now)))
            await ctx.tick()
            dead = ctx.get(block.dead)
            for core in range(CORES):
                if dead >> core & 1 and found[core] is None:
                    found[core] = cycle
                assert found[core] is None or dead >> core & 1, "dead for good"
            first[0] = ctx.get(block.first)

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    run_and_replay(simulator, block, "core_watch")
    return found, first[0]


def test_a_core_that_stands_still_is_dead_in_time(seed):
    rng = random.Random(seed)
    for _ in range(10):
        stops = [rng.randrange(200) for _ in range(CORES)]
        found, first = watch([[int(cycle <= stop) for stop in stops] for cycle in range(300)])
        for core, stop in enumerate(stops):
            assert found[core] is not None
            assert TIMEOUT <= found[core] - stop <= 2 * TIMEOUT + 3
        assert found[first] == min(found)
        assert first == found.index(min(found))


def test_a_core_that_stirs_is_not():
    slow = [[int(cycle % TIMEOUT == core) for core in range(CORES)] for cycle in range(400)]
    assert watch(slow) == ([None] * CORES, 0)


def test_no_timeout_finds_nothing():
    assert watch([[0] * CORES] * 200, timeout=0) == ([None] * CORES, 0)
