"""Cocotb tests of the memory port: who is served, how it stops, and what it says of itself."""

from collections import deque
from itertools import pairwise

import cocotb
from cocotb.triggers import RisingEdge

from muntin.sim.stream_bench import settings
from tests.hw.memory.memory_bench import MemoryBench

SETTINGS = settings()
BEAT = SETTINGS["beat_bytes"]
BURST = SETTINGS["burst_bytes"]
READERS = SETTINGS["readers"]
WRITERS = SETTINGS["writers"]
ALTERNATE = SETTINGS["alternate_bytes"]
# After so many bursts of its direction whoever asks has been served.
BOUND = 4 if ALTERNATE else 1
SPAN = 1 << 15


def side(address):
    return address // (ALTERNATE or BURST) % 2


class PortBench(MemoryBench):
    """Readers and writers that ask for the bursts they are told; each burst is checked beat by beat."""

    def __init__(self, dut, share):
        super().__init__(dut, ["axi"], ["axi"], share)
        self.served = {"ar": [], "aw": []}  # (who, address, grants of this direction while it asked)
        self.turns = 0
        # A test before this one may have ended in the middle.
        dut.halt.value = 0
        for number in range(READERS):
            self.part("readers", number, "arvalid").value = 0
        for number in range(WRITERS):
            self.part("writers", number, "awvalid").value = 0
            self.part("writers", number, "wvalid").value = 0
        self.stuck = False
        self.dropped = False
        self.halted = 0
        self.counts = dict.fromkeys(("ar", "aw", "r", "w", "b"), 0)
        self.written = {}
        self.memory.write(0, self.random.randbytes(SPAN))
        cocotb.start_soon(self._watch_port())

    def part(self, kind, number, name):
        return getattr(self.dut, f"{kind}__{number}__{name}")

    async def _watch_port(self):
        dut = self.dut
        writing = 0
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                continue
            passed = {
                name: int(getattr(dut, f"axi__{name}valid").value) & int(getattr(dut, f"axi__{name}ready").value)
                for name in self.counts
            }
            assert int(dut.progress.value) == any(passed.values())
            self.counts["r"] += passed["r"] and int(dut.axi__rlast.value)
            for name in ("ar", "aw", "b"):
                self.counts[name] += passed[name]
            for kind, count, channel, direction in (("readers", READERS, "ar", 0), ("writers", WRITERS, "aw", 1)):
                for number in range(count):
                    if self.part(kind, number, f"{channel}ready").value == 1:
                        assert writing == direction, "an address out of turn"
                        assert not self.halted, "an address taken under halt"
            if dut.turned.value == 1:
                writing ^= 1
                self.turns += 1
            if self.halted and dut.quiet.value == 1:
                assert self.counts["ar"] == self.counts["r"]
                assert self.counts["aw"] == self.counts["b"]

    async def ask(self, kind, number, addresses, pause=0.0):
        """Ask for bursts of (address, beats) one after the other."""
        channel = "ar" if kind == "readers" else "aw"
        valid, ready = self.part(kind, number, f"{channel}valid"), self.part(kind, number, f"{channel}ready")
        self.part(kind, number, f"{channel}size").value = BEAT.bit_length() - 1
        self.part(kind, number, f"{channel}burst").value = 1
        queue = deque()
        flow = cocotb.start_soon((self._take if kind == "readers" else self._give)(number, queue, len(addresses)))
        for address, beats in addresses:
            while self.random.random() < pause:
                await RisingEdge(self.dut.clk)
            self.part(kind, number, f"{channel}addr").value = address
            self.part(kind, number, f"{channel}len").value = beats - 1
            valid.value = 1
            await RisingEdge(self.dut.clk)
            before = len(self.served[channel])
            while ready.value != 1:
                await RisingEdge(self.dut.clk)
            valid.value = 0
            self.served[channel].append((number, address, len(self.served[channel]) - before))
            queue.append((address, beats))
        await flow

    async def _take(self, number, queue, count):
        ready, valid = self.part("readers", number, "rready"), self.part("readers", number, "rvalid")
        for _ in range(count):
            beat = 0
            while beat == 0 or beat < queue[0][1]:
                ready.value = not self.stuck
                await RisingEdge(self.dut.clk)
                if valid.value == 1 and ready.value == 1:
                    address = queue[0][0] + beat * BEAT
                    expected = self.memory.read(address, BEAT)
                    if not self.dropped:
                        assert int(self.part("readers", number, "rdata").value).to_bytes(BEAT, "little") == expected
                    beat += 1
                    assert (self.part("readers", number, "rlast").value == 1) == (beat == queue[0][1])
            queue.popleft()

    async def _give(self, number, queue, count):
        self.part("writers", number, "bready").value = 1
        self.part("writers", number, "wstrb").value = (1 << BEAT) - 1
        valid, ready = self.part("writers", number, "wvalid"), self.part("writers", number, "wready")
        for _ in range(count):
            while not queue:
                await RisingEdge(self.dut.clk)
            address, beats = queue.popleft()
            for beat in range(beats):
                data = self.random.getrandbits(8 * BEAT)
                self.written[address + beat * BEAT] = data
                self.part("writers", number, "wdata").value = data
                self.part("writers", number, "wlast").value = beat == beats - 1
                valid.value = 1
                await RisingEdge(self.dut.clk)
                while ready.value != 1:
                    await RisingEdge(self.dut.clk)
            valid.value = 0

    async def quiet(self):
        for _ in range(20_000):
            await RisingEdge(self.dut.clk)
            if self.dut.quiet.value == 1:
                return
        raise AssertionError("the port never becomes quiet")

    def check_written(self):
        for address, data in self.written.items():
            assert int.from_bytes(self.memory.read(address, BEAT), "little") == data, f"{address:#x}"

    def check_bound(self):
        for channel, count in (("ar", READERS), ("aw", WRITERS)):
            worst = max(waited for _, _, waited in self.served[channel])
            assert worst < BOUND * count, f"{channel}: {worst} others first"

    def random_bursts(self, base, span, count):
        for _ in range(count):
            beats = self.random.randint(1, BURST // BEAT)
            block = self.random.randrange(base, base + span, BURST)
            yield block + self.random.randrange(0, BURST - beats * BEAT + 1, BEAT), beats


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3], pause=[0.0, 0.5])
async def serves_everybody(dut, share, pause):
    """Random bursts arrive as they should, and nobody waits for more than the bound."""
    bench = PortBench(dut, share)
    await bench.reset()
    half = SPAN // 2
    tasks = [
        cocotb.start_soon(bench.ask("readers", number, list(bench.random_bursts(0, half, 40)), pause))
        for number in range(READERS)
    ]
    for number in range(WRITERS):
        part = half // WRITERS
        bursts = list(bench.random_bursts(half + number * part, part, 40))
        tasks.append(cocotb.start_soon(bench.ask("writers", number, bursts, pause)))
    for task in tasks:
        await task
    await bench.quiet()
    bench.check_written()
    bench.check_bound()
    assert bench.turns > 4
    assert bench.counts["ar"] == bench.counts["r"] == 40 * READERS
    assert bench.counts["aw"] == bench.counts["b"] == 40 * WRITERS


@cocotb.test()
async def runs_in_step_alternate_or_rotate(dut):
    """Runs in step go in pairs of bursts, one on each side, with `alternate_bytes`, and in rotation without."""
    bench = PortBench(dut, 0)
    await bench.reset()
    size = SPAN // 8
    tasks = [
        cocotb.start_soon(
            bench.ask("readers", number, [(number * size + at, BURST // BEAT) for at in range(0, size, BURST)])
        )
        for number in range(READERS)
    ]
    for task in tasks:
        await task
    order = bench.served["ar"]
    steps = list(pairwise(order))
    # At the very end only one run may be left.
    if ALTERNATE:
        same = sum(side(first[1]) == side(second[1]) for first, second in steps)
        assert same <= len(steps) // 10, [side(address) for _, address, _ in order]
    else:
        assert all(second[0] == (first[0] + 1) % READERS for first, second in steps[READERS:-READERS])
    assert {number for number, _, _ in order[: 3 * READERS]} == set(range(READERS))


@cocotb.test()
async def nobody_starves(dut):
    """One reader always asks on the side that the writer's last burst was on, and the others on the other side."""
    bench = PortBench(dut, 0)
    await bench.reset()
    block = ALTERNATE or BURST
    tasks = []
    for number in range(READERS):
        addresses = [
            (2 * block * (at + 16 * number) % (SPAN // 2) + block * (number != 1), BURST // BEAT) for at in range(30)
        ]
        tasks.append(cocotb.start_soon(bench.ask("readers", number, addresses)))
    for number in range(WRITERS):
        addresses = [(SPAN // 2 + 2 * block * (at % 4 + 4 * number), BURST // BEAT) for at in range(60)]
        tasks.append(cocotb.start_soon(bench.ask("writers", number, addresses)))
    for task in tasks:
        await task
    bench.check_bound()


@cocotb.test()
@cocotb.parametrize(stuck=[False, True], delay=[0, 11, 150])
async def halts(dut, stuck, delay):
    """What was announced runs to its end, whether or not the readers go on; then nothing happens any more."""
    bench = PortBench(dut, 0.2)
    await bench.reset()
    half = SPAN // 2
    tasks = [
        cocotb.start_soon(bench.ask("readers", number, list(bench.random_bursts(0, half, 60))))
        for number in range(READERS)
    ]
    tasks += [
        cocotb.start_soon(bench.ask("writers", number, list(bench.random_bursts(half + number * 4096, 4096, 60))))
        for number in range(WRITERS)
    ]
    for _ in range(20 + delay):
        await RisingEdge(dut.clk)
    bench.stuck = bench.dropped = stuck
    if stuck:
        for number in range(WRITERS):
            bench.part("writers", number, "bready").value = 0
        for _ in range(200):
            await RisingEdge(dut.clk)
        assert dut.quiet.value == 0
        assert dut.axi__rready.value == 0 or dut.axi__rvalid.value == 0
    dut.halt.value = 1
    await RisingEdge(dut.clk)
    bench.halted = 1
    await bench.quiet()
    for _ in range(30):
        await RisingEdge(dut.clk)
        assert dut.quiet.value == 1
        assert dut.progress.value == 0
    assert bench.counts["ar"] == bench.counts["r"] > 0
    assert bench.counts["aw"] == bench.counts["b"]
    if not stuck:
        # Where nobody was stuck nothing is lost, and the work may go on.
        bench.halted = 0
        dut.halt.value = 0
        for task in tasks:
            await task
        await bench.quiet()
        bench.check_written()
        assert bench.counts["ar"] == bench.counts["r"] == 60 * READERS
