"""The board's end of the link: it answers as its model does, whatever comes and however its buses stall."""

import random

import pytest
from amaranth.sim import Simulator

from muntin.contract.link import (
    DATA_WORDS,
    DESCRIPTION_BASE,
    DRAM_BASE,
    ESCAPE,
    FLAG,
    MAGIC,
    FrameReader,
    Request,
    Status,
    to_frame,
)
from muntin.hw.link.frame_receiver import FrameReceiver
from muntin.sim.models.link import LinkModel
from tests.hw.link.link_bench import BAD_REGISTER, DESCRIPTION, MEMORY_WORDS, Registers, answers

SESSION = 0x7D7E  # an escape and a flag


def _request(request, sequence, address=0, count=0, data=(), session=SESSION):
    return to_frame([request | sequence << 8 | session << 16, address, count, *data])


def _both(pieces, seed, prepare=lambda state: None):
    """What the model and the gateware answer, which is the same, and the state behind each."""
    state, model_state = Registers(), Registers()
    prepare(state)
    prepare(model_state)
    model = LinkModel(model_state)
    expected = [model.feed(piece) for piece in pieces]
    given = answers(pieces, state, seed)
    assert given == expected
    for name in ("control", "csr", "memory", "resets"):
        assert getattr(state, name) == getattr(model_state, name), name
    return [next(iter(FrameReader().feed(answer)), None) for answer in given], state


def test_every_request(seed):
    generator = random.Random(seed)
    words = [generator.choice([FLAG, ESCAPE, FLAG << 24 | ESCAPE, generator.getrandbits(32)]) for _ in range(6)]
    pieces = [
        _request(Request.OPEN, 0),
        _request(Request.WRITE, 1, data=[0x10, words[0], 0x7C, words[1], DRAM_BASE + 0x808, words[2]]),
        _request(Request.READ, 2, data=[0x7C, DRAM_BASE + 0x808, 0x10, DESCRIPTION_BASE, DESCRIPTION_BASE + 4]),
        _request(Request.PUSH, 3, address=0x20, data=words),
        _request(Request.WRITE_MEMORY, 4, address=0x3E, data=words),
        _request(Request.READ_MEMORY, 5, address=0x3D, count=8),
        _request(Request.WAIT, 6, count=50),
        _request(Request.RESET, 7),
        _request(Request.READ, 8, data=[0x20]),
    ]
    given, state = _both(pieces, seed)
    assert given[0][1:] == [MAGIC]
    assert given[2][1:4] == [words[1], words[2], words[0]]
    assert given[2][4:] == [len(DESCRIPTION), int.from_bytes(DESCRIPTION[:4], "little")]
    assert given[5][1:] == [0, *words, 0]
    assert given[6][1:] == [0]
    assert given[8][1:] == [words[-1]]
    assert state.resets == 1


def test_a_request_is_carried_out_once(seed):
    read = _request(Request.READ, 1, data=[0x40])
    given, state = _both([_request(Request.OPEN, 0), read, read, read], seed)
    assert given[1] == given[2] == given[3]
    assert state.reads == [0x40]


def test_waiting_for_an_interrupt(seed):
    def interrupted(state):
        state.interrupt = True

    given, _ = _both([_request(Request.OPEN, 0), _request(Request.WAIT, 1, count=1 << 31)], seed, interrupted)
    assert given[1][1:] == [1]


@pytest.mark.parametrize(
    ("request_", "status", "after"),
    [
        (_request(Request.READ, 1, data=[0x10, BAD_REGISTER, 0x14]), Status.BUS, 1),
        (_request(Request.WRITE, 1, data=[0x10, 1, 0x3000_0000, 2]), Status.BUS, 3),
        (_request(Request.WRITE, 1, data=[DESCRIPTION_BASE, 2]), Status.BUS, 1),
        (_request(Request.PUSH, 1, address=BAD_REGISTER, data=[5]), Status.BUS, 0),
        (_request(Request.READ_MEMORY, 1, address=MEMORY_WORDS - 2, count=4), Status.BUS, 2),
        (_request(Request.WRITE_MEMORY, 1, address=MEMORY_WORDS - 1, data=[1, 2]), Status.BUS, 1),
        (_request(Request.WRITE, 1, data=[0x10]), Status.UNKNOWN, 0),
        (_request(Request.READ_MEMORY, 1, count=DATA_WORDS + 1), Status.UNKNOWN, 0),
        (_request(99, 1), Status.UNKNOWN, 0),
        (_request(Request.READ, 1, data=[0], session=SESSION ^ 1), Status.SESSION, 0),
    ],
    ids=[
        "a register to read",
        "a region to write",
        "what is read only",
        "a register to push to",
        "memory to read",
        "memory to write",
        "half a pair",
        "too many words",
        "an unknown request",
        "another session",
    ],
)
def test_what_cannot_be_done_is_said(request_, status, after, seed):
    given, _ = _both([_request(Request.OPEN, 0), request_], seed)
    assert given[1][0] & 0xFF == status
    assert given[1][1:] == [after]


def test_before_a_session_is_opened(seed):
    given, _ = _both([_request(Request.READ, 0, data=[0])], seed)
    assert given[0][0] & 0xFF == Status.SESSION


def test_a_bus_that_does_not_answer():
    pieces = [_request(Request.OPEN, 0), _request(Request.RESET, 1), _request(Request.READ, 2, data=[0])]
    given = answers(pieces, _NeverQuiet(), 1)
    reset, read = (next(FrameReader().feed(answer)) for answer in given[1:])
    assert reset[0] & 0xFF == read[0] & 0xFF == Status.SILENT


class _NeverQuiet(Registers):
    """A kernel whose memory accesses never end."""

    quiet = False


def test_damaged_frames_are_not_answered(seed):
    generator = random.Random(seed)
    whole = _request(Request.READ, 1, data=[0x7E7D7E7D, 0x10])
    damaged = []
    for _ in range(3):
        at = generator.randrange(1, len(whole) - 1)
        damaged.append(whole[:at] + whole[at + 1 :])
        damaged.append(whole[:at] + bytes([whole[at] ^ 1 << generator.randrange(8)]) + whole[at + 1 :])
    damaged += [b"noise", whole[:7], bytes([FLAG, FLAG]), to_frame([1, 2])]
    opened = _request(Request.OPEN, 0)
    good = _request(Request.READ, 2, data=[0x10])
    given, state = _both([opened, *damaged, good], seed)
    assert given[1:-1] == [None] * len(damaged)
    assert given[-1][0] & 0xFF == Status.OK
    assert state.reads == [0x10]


@pytest.mark.parametrize(("words", "kept"), [(DATA_WORDS + 3, True), (DATA_WORDS + 4, False), (1200, False)])
def test_a_frame_that_is_too_long(words, kept, seed):
    generator = random.Random(seed)
    content = [generator.getrandbits(32) for _ in range(words)]
    receiver = FrameReceiver()
    good = to_frame([1, 2, 3])

    async def bench(ctx):
        for frame, there in ((to_frame(content), kept), (good, True)):
            for byte in frame:
                ctx.set(receiver.i.payload, byte)
                ctx.set(receiver.i.valid, 1)
                await ctx.tick()
            ctx.set(receiver.i.valid, 0)
            assert ctx.get(receiver.valid) == there
            if there:
                assert ctx.get(receiver.words) == (words if frame is not good else 3)
                ctx.set(receiver.address, 2)
                await ctx.tick()
                assert ctx.get(receiver.data) == (content[2] if frame is not good else 3)
                ctx.set(receiver.done, 1)
                await ctx.tick()
                ctx.set(receiver.done, 0)

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
