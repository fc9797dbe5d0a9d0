"""Frames as datagrams: every byte once and in order, each datagram with its length and whom it goes to."""

import random

import pytest
from amaranth.sim import Simulator

from muntin.contract.link import DATAGRAM_BYTES
from muntin.hw.link.datagram_sender import DatagramSender
from tests.hw.replayed import run_and_replay

LENGTHS = (1, 2, DATAGRAM_BYTES - 1, DATAGRAM_BYTES, DATAGRAM_BYTES + 1, 2 * DATAGRAM_BYTES, 18)
PEERS = [(0x0A000001 + number, 5000 + number) for number in range(len(LENGTHS))]


def sent(frames, stalls, seed):
    """The datagrams that go out, each as whom it goes to and its bytes, and the cycles from first to last byte."""
    sender = DatagramSender()
    generator = random.Random(seed)
    datagrams, cycles = [], [0]
    expected = sum(map(len, frames))

    async def give(ctx):
        for (ip, port), frame in zip(PEERS, frames, strict=True):
            ctx.set(sender.ip, ip)
            ctx.set(sender.port, port)
            for place, byte in enumerate(frame):
                while generator.random() < stalls:
                    await ctx.tick()
                ctx.set(sender.i.payload, byte)
                ctx.set(sender.last, place == len(frame) - 1)
                ctx.set(sender.i.valid, 1)
                await ctx.tick().until(sender.i.ready)
                ctx.set(sender.i.valid, 0)
                ctx.set(sender.last, 0)
        # Whoever is next must not change where the last one goes.
        ctx.set(sender.ip, 0)

    async def take(ctx):
        taken, content, held = 0, bytearray(), None
        while taken < expected:
            ctx.set(sender.tx_ready, generator.random() >= stalls)
            signals = (sender.tx_valid, sender.tx_data, sender.tx_last, sender.tx_length, sender.tx_ip, sender.tx_port)
            valid, data, last, length, ip, port = (ctx.get(signal) for signal in signals)
            assert ctx.get(sender.busy) or not valid
            now = (data, last, length, ip, port) if valid else None
            assert held in (None, now), "a byte changed or went before it was taken"
            held = now if not ctx.get(sender.tx_ready) else None
            if valid and ctx.get(sender.tx_ready):
                taken += 1
                content.append(data)
                assert last == (len(content) == length)
                if last:
                    datagrams.append(((ip, port), bytes(content)))
                    content.clear()
            cycles[0] += 1
            await ctx.tick()
        assert not ctx.get(sender.busy)

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(give)
    simulator.add_testbench(take)
    run_and_replay(simulator, sender, "datagram_sender", seed)
    return datagrams, cycles[0]


@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_frames_are_cut_into_datagrams(stalls, seed):
    frames = [random.Random(seed + length).randbytes(length) for length in LENGTHS]
    datagrams, cycles = sent(frames, stalls, seed)
    expected = [
        (peer, frame[at : at + DATAGRAM_BYTES])
        for peer, frame in zip(PEERS, frames, strict=True)
        for at in range(0, len(frame), DATAGRAM_BYTES)
    ]
    assert datagrams == expected
    if not stalls:
        assert cycles == 2 * sum(LENGTHS) + len(expected)
