"""What stands between a kernel's memory port and the memory: all passes, in order, and a halt ends it cleanly."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from muntin.hw.memory.port_guard import PortGuard
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.port_slice import PortSlice
from tests.hw.replayed import run_and_replay

SHAPE = PortShape(address_width=12, data_width=32, burst_bytes=16, buffer_bytes=64, outstanding=4)
BURSTS = 25


class Bench:
    """A master and a memory on both sides of a block, with stalls; all that passed on each side, by channel.

    Parameters
    ----------
    block
        Has `i` and `axi`.
    seed
    stall
        Chance that a side is not ready, or has nothing, in a cycle.
    """

    def __init__(self, block, seed, stall):
        self.block = block
        self.generator = random.Random(seed)
        self.stall = stall
        self.passed = {side: {channel: [] for channel in ("ar", "aw", "w", "r", "b")} for side in ("i", "axi")}
        self.under_way = 0  # bursts that the memory has taken and not answered

    def _goes(self):
        return self.generator.random() >= self.stall

    def _may(self, channel):
        """Whether the master has few enough bursts under way for one more address."""
        here = self.passed["i"]
        if channel == "ar":
            return len(here["ar"]) - sum(last for _, last in here["r"]) < SHAPE.outstanding
        return channel != "aw" or len(here["aw"]) - len(here["b"]) < SHAPE.outstanding

    async def channel(self, ctx, channel, source):
        """Gives what the queue has on its side, and takes it on the other; each side waits as it likes."""
        into, out = (self.block.axi, self.block.i) if channel in ("r", "b") else (self.block.i, self.block.axi)
        names = ("i", "axi") if into is self.block.i else ("axi", "i")
        fields = {
            "ar": ("addr", "len"),
            "aw": ("addr", "len"),
            "w": ("data", "last"),
            "r": ("data", "last"),
            "b": ("id",),
        }
        offered = None
        while True:
            if offered is None and source and self._goes() and self._may(channel):
                offered = source.popleft()
                for field, value in zip(fields[channel], offered, strict=True):
                    ctx.set(getattr(into, f"{channel}{field}"), value)
            ctx.set(getattr(into, f"{channel}valid"), offered is not None)
            ctx.set(getattr(out, f"{channel}ready"), self._goes())
            given, taken, *seen = (
                await ctx.tick().sample(
                    getattr(into, f"{channel}valid") & getattr(into, f"{channel}ready"),
                    getattr(out, f"{channel}valid") & getattr(out, f"{channel}ready"),
                    *(getattr(out, f"{channel}{field}") for field in fields[channel]),
                )
            )[2:]
            if given:
                self.passed[names[0]][channel].append(offered)
                offered = None
            if taken:
                self.passed[names[1]][channel].append(tuple(seen))
                self.reached(channel, tuple(seen))

    def reached(self, channel, seen):
        """What the memory does about it."""
        if channel == "ar":
            self.under_way += 1
            self.to_master["r"].extend((seen[0] + beat, beat == seen[1]) for beat in range(seen[1] + 1))
        elif channel == "aw":
            self.under_way += 1
        elif channel == "w" and seen[1]:
            self.to_master["b"].append((0,))
        elif channel == "b" or (channel == "r" and seen[1]):
            self.under_way -= 1

    def run(self, control=None):
        """Passes `BURSTS` bursts in each direction."""
        bursts = [(16 * self.generator.randrange(200), self.generator.randrange(4)) for _ in range(2 * BURSTS)]
        reads, writes = bursts[:BURSTS], bursts[BURSTS:]
        beats = [(self.generator.getrandbits(32), beat == length) for _, length in writes for beat in range(length + 1)]
        queues = {"ar": deque(reads), "aw": deque(writes), "w": deque(beats)}
        self.to_master = {"r": deque(), "b": deque()}

        async def until_done(ctx):
            due = sum(length + 1 for _, length in reads)
            while len(self.passed["i"]["r"]) < due or len(self.passed["i"]["b"]) < BURSTS:
                await ctx.tick()

        simulator = Simulator(self.block)
        simulator.add_clock(1e-6)
        simulator.add_testbench(until_done)
        for channel, queue in (queues | self.to_master).items():

            async def process(ctx, channel=channel, queue=queue):
                await self.channel(ctx, channel, queue)

            simulator.add_testbench(process, background=True)
        if control:
            simulator.add_testbench(control, background=True)
        run_and_replay(simulator, self.block, "port_guard" if isinstance(self.block, PortGuard) else "port_slice")
        for channel in ("ar", "aw", "w", "r", "b"):
            there, here = self.passed["axi"][channel], self.passed["i"][channel]
            given, taken = (there, here) if channel in ("r", "b") else (here, there)
            assert taken == [tuple(int(value) for value in one) for one in given][: len(taken)], channel
        assert self.passed["axi"]["ar"] == reads
        assert self.passed["axi"]["aw"] == writes
        assert self.passed["axi"]["w"] == [(data, int(last)) for data, last in beats]


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("block", [PortGuard, PortSlice])
def test_everything_passes(block, stall, seed):
    Bench(block(SHAPE), seed, stall).run()


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_halt_ends_what_is_under_way_and_begins_nothing(stall, seed):
    guard = PortGuard(SHAPE)
    bench = Bench(guard, seed, stall)
    halts = []

    async def control(ctx):
        generator = random.Random(seed + 1)
        while True:
            for _ in range(generator.randrange(1, 40)):
                await ctx.tick()
            ctx.set(guard.halt, 1)
            quiet = False
            while not quiet:
                *_, quiet = await ctx.tick().sample(guard.quiet)
            addresses = [len(bench.passed["axi"][channel]) for channel in ("ar", "aw")]
            await ctx.tick()
            assert bench.under_way == 0
            for _ in range(generator.randrange(20)):
                await ctx.tick()
                assert ctx.get(guard.quiet)
                assert not ctx.get(guard.axi.arvalid) | ctx.get(guard.axi.awvalid) | ctx.get(guard.axi.wvalid)
            assert [len(bench.passed["axi"][channel]) for channel in ("ar", "aw")] == addresses
            ctx.set(guard.halt, 0)
            halts.append(addresses)
            await ctx.tick()
            assert not ctx.get(guard.quiet)

    bench.run(control)
    assert len(halts) > 2


def test_a_beat_to_write_waits_for_its_address(seed):
    """Else it would be left over in the memory when the kernel is reset before its address was taken."""
    guard = PortGuard(SHAPE)
    bench = Bench(guard, seed, 0.5)
    announced = []

    async def control(ctx):
        while True:
            taken = await ctx.tick().sample(
                guard.axi.awvalid & guard.axi.awready,
                guard.axi.wvalid,
                guard.axi.wvalid & guard.axi.wready & guard.axi.wlast,
            )
            address, valid, last = taken[2:]
            assert not valid or announced
            if address:
                announced.append(1)
            if last:
                announced.pop()

    bench.run(control)
