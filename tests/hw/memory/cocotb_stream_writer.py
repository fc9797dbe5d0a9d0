"""Cocotb tests of the stream writer."""

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiResp

from muntin.hw.memory.layouts import TransferStatus
from muntin.sim.stream_bench import settings
from tests.hw.memory.memory_bench import MemoryBench
from tests.hw.memory.stalls import watch
from tests.hw.memory.whole_bursts import whole_bursts

SETTINGS = settings()
BEAT = SETTINGS["beat_bytes"]
ADDRESS_WIDTH = SETTINGS["address_width"]
LENGTH_WIDTH = SETTINGS["length_width"]
MEMORY = SETTINGS["memory_bytes"]
BURST = SETTINGS["burst_bytes"]
SPAN = 1 << 15
ROOM = 5120


class StreamBench(MemoryBench):
    def __init__(self, dut, share):
        super().__init__(dut, [], ["axi"], share)
        written = [getattr(dut, f"written__{part}") for part in ("valid", "ready", "payload")]
        cocotb.start_soon(watch(dut.clk, dut.rst, *written))
        cocotb.start_soon(self._check_bursts())

    async def _check_bursts(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.axi__awvalid.value == 1:
                address, length = int(self.dut.axi__awaddr.value), (int(self.dut.axi__awlen.value) + 1) * BEAT
                assert address // BURST == (address + length - 1) // BURST, f"{length} bytes at {address:#x}"

    async def check(self, streams, empty_ends=True):
        """Write all streams of (address, room, length, status expected) and compare the whole memory."""
        await self.reset()
        self.memory.write(0, self.random.randbytes(SPAN))
        expected = bytearray(self.memory.read(0, SPAN))
        beats, lengths = [], []
        for address, room, length, status in streams:
            content = self.random.randbytes(length)
            sent = length
            if status in (TransferStatus.MISALIGNED, TransferStatus.OUT_OF_RANGE):
                sent = 0
            elif status == TransferStatus.TOO_LONG:
                sent = room // BEAT * BEAT
            if sent:
                expected[address : address + sent] = content[:sent]
            lengths.append(sent)
            empty_end = length == 0 or (empty_ends and length % BEAT == 0 and self.random.random() < 0.5)
            for at in range(0, length, BEAT):
                part = content[at : at + BEAT]
                last = at + BEAT >= length and not empty_end
                # Only the last beat's keep means something.
                keep = (1 << len(part)) - 1 if last else self.random.getrandbits(BEAT)
                beats.append(int.from_bytes(part, "little") | keep << 8 * BEAT | last << 9 * BEAT)
            if empty_end:
                beats.append(self.random.getrandbits(8 * BEAT) | 1 << 9 * BEAT)

        async def ask():
            for address, room, _, _ in streams:
                await self.idle()
                await self.send("transfer", address | room << ADDRESS_WIDTH)

        async def give():
            for beat in beats:
                await self.idle()
                await self.send("i", beat)

        tasks = [cocotb.start_soon(ask()), cocotb.start_soon(give())]
        for stream, length in zip(streams, lengths, strict=True):
            await self.idle()
            payload = await self.take("written")
            assert payload & (1 << LENGTH_WIDTH) - 1 == length, f"length of {stream}"
            assert payload >> LENGTH_WIDTH == stream[3], f"status of {stream}"
        for task in tasks:
            await task
        if not self.bad:
            assert self.memory.read(0, SPAN) == bytes(expected)

    def random_streams(self, count):
        for _ in range(count):
            beats = self.random.randint(0, 3 * BURST // BEAT)
            length = self.random.choice([0, 1, BEAT - 1, BEAT, BURST, beats * BEAT, self.random.randint(0, ROOM)])
            room = self.random.choice([-(-length // BEAT) * BEAT, ROOM])
            yield self.random.randrange(0, SPAN - ROOM, BEAT), room, length, TransferStatus.OK


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6])
async def writes_what_it_is_given_and_nothing_else(dut, share):
    bench = StreamBench(dut, share)
    edges = [
        (0, 0, 0, TransferStatus.OK),
        (4096 - BEAT, ROOM, 2 * BEAT, TransferStatus.OK),
        (2 * BURST, BURST, BURST, TransferStatus.OK),
        (BURST - BEAT, 0, 0, TransferStatus.OK),
    ]
    await bench.check([*edges, *bench.random_streams(16)])


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def reports_what_does_not_fit(dut, share):
    bench = StreamBench(dut, share)
    wrong = [
        (BEAT + 1, ROOM, 3 * BURST, TransferStatus.MISALIGNED),
        (1, 0, 0, TransferStatus.MISALIGNED),
        (MEMORY - BEAT, BEAT + 1, 5, TransferStatus.OUT_OF_RANGE),
        (0, 0, 1, TransferStatus.TOO_LONG),
        (BEAT, BURST + 1, BURST + 1, TransferStatus.TOO_LONG),
        (0, 2 * BURST, 3 * BURST, TransferStatus.TOO_LONG),
        (0, BEAT - 1, 1, TransferStatus.TOO_LONG),
        (3 * BEAT, 5 * BEAT, 9 * BEAT, TransferStatus.TOO_LONG),
    ]
    good = list(bench.random_streams(len(wrong)))
    mixed = [stream for pair in zip(good, wrong, strict=True) for stream in pair]
    await bench.check([*wrong, *mixed])


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], response=[AxiResp.SLVERR, AxiResp.DECERR])
async def reports_errors_of_the_memory_and_goes_on(dut, share, response):
    bench = StreamBench(dut, share)
    bench.bad = range(0x1000, 0x1000 + BEAT)
    bench.response = response
    status = TransferStatus.MEMORY_ERROR if response == AxiResp.SLVERR else TransferStatus.DECODE_ERROR
    # Bad in the first burst of several, then in the last one; each with an end of its own and without.
    for empty_ends in (False, True):
        await bench.check(
            [
                (0, ROOM, 256, TransferStatus.OK),
                (0x1000, ROOM, 4 * BURST, status),
                (0x2000, ROOM, 1024, TransferStatus.OK),
                (0x1000 - BURST, ROOM, 2 * BURST, status),
                (0x1000 - BURST, ROOM, BURST, TransferStatus.OK),
                (0x1000, ROOM, 3, status),
                (0x3000, ROOM, 0, TransferStatus.OK),
                (0x3000, ROOM, 1000, TransferStatus.OK),
            ],
            empty_ends,
        )


@cocotb.test()
async def an_error_counts_even_if_the_end_has_no_beats(dut):
    """The burst that failed is acknowledged before the end comes, and is not forgotten."""
    bench = StreamBench(dut, 0)
    bench.bad = range(0, BEAT)
    await bench.reset()
    await bench.send("transfer", 0 | ROOM << ADDRESS_WIDTH)
    for number in range(BURST // BEAT):
        await bench.send("i", number)
    for _ in range(100):
        await RisingEdge(dut.clk)
    assert [size for _, _, size in bench.bursts] == [BURST], "a full burst does not wait for what follows"
    await bench.send("i", 1 << 9 * BEAT)
    assert await bench.take("written") == BURST | TransferStatus.MEMORY_ERROR << LENGTH_WIDTH


@cocotb.test()
async def a_beat_a_cycle_without_stalls(dut):
    bench = StreamBench(dut, 0)
    await bench.reset()
    dut.written__ready.value = 1
    dut.i__payload.value = ((1 << BEAT) - 1) << 8 * BEAT
    await bench.send("transfer", 0 | 16384 << ADDRESS_WIDTH)
    dut.i__valid.value = 1
    # While the buffer fills nothing but this block can make the stream wait; then the model of the memory may,
    # as it pauses for a cycle or two between bursts.
    taken = []
    while len(taken) < 1024:
        await RisingEdge(dut.clk)
        if taken or dut.i__ready.value == 1:
            taken.append(int(dut.i__ready.value))
    assert all(taken[: 3 * BURST // BEAT]), "the stream waits between bursts"
    assert sum(taken) > len(taken) / 1.15
    dut.i__valid.value = 0


@cocotb.test()
async def every_beat_of_a_burst_is_ready_when_it_is_announced(dut):
    """`wvalid` does not fall inside a burst, however slowly the beats come."""
    bench = StreamBench(dut, 0)
    bench.pausing = True
    cocotb.start_soon(whole_bursts(dut))
    await bench.check(list(bench.random_streams(8)))
