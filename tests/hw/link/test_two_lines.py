"""A link with Ethernet beside its serial line: every answer goes to whom its request came from."""

import random

import pytest
from amaranth.sim import Simulator

from muntin.contract.link import DATAGRAM_BYTES, DESCRIPTION_BASE, MAGIC, FrameReader, Request, Status, to_frame
from muntin.hw.link.link import Link
from tests.hw.link.link_bench import DESCRIPTION, DIVISOR, SHAPE
from tests.hw.replayed import run_and_replay

SESSION = 0x7D7E
SERIAL = None
HERE, THERE = (0xC0A80101, 50001), (0xC0A80102, 50002)


def request(kind, sequence, data=(), session=SESSION):
    return to_frame([kind | sequence << 8 | session << 16, 0, 0, *data])


class Bench:
    """A link, whose serial line and UDP core are driven by the test.

    Attributes
    ----------
    answers
        Whom each answer went to, `SERIAL` or a peer, and its words, as they ended.
    """

    def __init__(self, stalls, seed):
        self.link = Link(
            divisor=DIVISOR, control_address_width=12, shape=SHAPE, description=DESCRIPTION, patience=200, ethernet=True
        )
        self.answers = []
        self._stalls = stalls
        self._seed = seed
        self._generator = random.Random(seed)

    def run(self, bench):
        async def begin(ctx):
            ctx.set(self.link.rx, 1)
            await bench(ctx)

        simulator = Simulator(self.link)
        simulator.add_clock(1e-6)
        simulator.add_testbench(begin)
        simulator.add_testbench(self._serial_answers, background=True)
        simulator.add_testbench(self._datagrams, background=True)
        run_and_replay(simulator, self.link, "link_two_lines", self._seed)

    async def serial(self, ctx, content):
        for byte in content:
            for bit in (0, *(byte >> at & 1 for at in range(8)), 1):
                ctx.set(self.link.rx, bit)
                await ctx.tick().repeat(DIVISOR)

    async def datagram(self, ctx, peer, content):
        udp = self.link.udp
        for byte in content:
            ctx.set(udp.rx_ip, peer[0])
            ctx.set(udp.rx_port, peer[1])
            ctx.set(udp.rx_data, byte)
            ctx.set(udp.rx_valid, 1)
            await ctx.tick()
            ctx.set(udp.rx_valid, 0)
            ctx.set(udp.rx_ip, 0)
            while self._generator.random() < self._stalls:
                await ctx.tick()

    async def answered(self, ctx, count):
        for _ in range(20_000):
            if len(self.answers) >= count:
                return
            await ctx.tick()
        raise AssertionError(f"there are {len(self.answers)} answers, not {count}")

    async def _serial_answers(self, ctx):
        reader = FrameReader()
        while True:
            if ctx.get(self.link.tx):
                await ctx.tick()
                continue
            await ctx.tick().repeat(DIVISOR + DIVISOR // 2)
            byte = 0
            for at in range(8):
                byte |= ctx.get(self.link.tx) << at
                await ctx.tick().repeat(DIVISOR)
            self.answers += [(SERIAL, words) for words in reader.feed(bytes([byte]))]

    async def _datagrams(self, ctx):
        udp, readers, content = self.link.udp, {}, bytearray()
        while True:
            ctx.set(udp.tx_ready, self._generator.random() >= self._stalls)
            if ctx.get(udp.tx_valid) and ctx.get(udp.tx_ready):
                content.append(ctx.get(udp.tx_data))
                if ctx.get(udp.tx_last):
                    peer = ctx.get(udp.tx_ip), ctx.get(udp.tx_port)
                    assert len(content) == ctx.get(udp.tx_length) <= DATAGRAM_BYTES
                    found = readers.setdefault(peer, FrameReader()).feed(bytes(content))
                    self.answers += [(peer, words) for words in found]
                    content.clear()
            await ctx.tick()


def _length(sequence, count=1):
    """Reads the description's length, so often."""
    return request(Request.READ, sequence, [DESCRIPTION_BASE] * count)


def _read(peer, sequence, count=1):
    return peer, [sequence << 8 | SESSION << 16, *[len(DESCRIPTION)] * count]


@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_answers_go_where_requests_came_from(stalls, seed):
    bench = Bench(stalls, seed)

    async def run(ctx):
        await bench.serial(ctx, request(Request.OPEN, 0))
        await bench.answered(ctx, 1)
        for count, peer in enumerate((HERE, THERE, HERE), 2):
            await bench.datagram(ctx, peer, _length(count))
            await bench.answered(ctx, count)
        await bench.serial(ctx, _length(5))
        await bench.answered(ctx, 5)

    bench.run(run)
    assert bench.answers[0] == (SERIAL, [SESSION << 16, MAGIC])
    assert bench.answers[1:] == [_read(HERE, 2), _read(THERE, 3), _read(HERE, 4), _read(SERIAL, 5)]


def test_a_request_that_comes_while_another_is_answered(seed):
    """The first answer is longer than a datagram; the second request comes before its second one is begun."""
    bench = Bench(0.0, seed)

    async def run(ctx):
        await bench.datagram(ctx, HERE, request(Request.OPEN, 0))
        await bench.answered(ctx, 1)
        await bench.datagram(ctx, HERE, _length(1, 400))
        await ctx.tick().until(bench.link.udp.tx_valid)
        await bench.datagram(ctx, THERE, _length(2))
        await bench.serial(ctx, _length(3))
        await bench.answered(ctx, 4)
        assert not ctx.get(bench.link.busy)

    bench.run(run)
    assert bench.answers[1] == _read(HERE, 1, 400)
    assert sorted(bench.answers[2:], key=str) == sorted([_read(THERE, 2), _read(SERIAL, 3)], key=str)


def test_a_frame_in_two_datagrams_is_one_request(seed):
    bench = Bench(0.3, seed)
    frame = _length(1, 20)

    async def run(ctx):
        await bench.datagram(ctx, HERE, request(Request.OPEN, 0))
        await bench.answered(ctx, 1)
        await bench.datagram(ctx, HERE, frame[:40])
        await ctx.tick().repeat(50)
        await bench.datagram(ctx, HERE, frame[40:])
        await bench.answered(ctx, 2)
        # Out of order it is no frame; what comes next is one again.
        await bench.datagram(ctx, HERE, frame[40:])
        await bench.datagram(ctx, HERE, frame[:40])
        await bench.datagram(ctx, HERE, _length(2))
        await bench.answered(ctx, 3)

    bench.run(run)
    assert bench.answers[1:] == [_read(HERE, 1, 20), _read(HERE, 2)]


def test_whoever_opened_last_has_the_session(seed):
    bench = Bench(0.0, seed)

    async def run(ctx):
        await bench.serial(ctx, request(Request.OPEN, 0, session=7))
        await bench.datagram(ctx, HERE, request(Request.OPEN, 0))
        await bench.answered(ctx, 2)
        await bench.serial(ctx, request(Request.READ, 1, [DESCRIPTION_BASE], session=7))
        await bench.answered(ctx, 3)

    bench.run(run)
    line, (head, *_) = bench.answers[2]
    assert (line, head & 0xFF) == (SERIAL, Status.SESSION)
