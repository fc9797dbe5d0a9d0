"""Cocotb tests of the copy engine, on one port and on two."""

import cocotb
from cocotbext.axi import AxiResp

from muntin.hw.memory.layouts import CopyOperation, TransferStatus
from muntin.sim.stream_bench import settings
from tests.hw.memory.memory_bench import MemoryBench

SETTINGS = settings()
BEAT = SETTINGS["beat_bytes"]
ADDRESS_WIDTH = SETTINGS["address_width"]
LENGTH_WIDTH = SETTINGS["length_width"]
MEMORY = SETTINGS["memory_bytes"]
LONGEST = SETTINGS["max_transfer_bytes"]
READ_PORTS = [f"axi__{port}" for port in SETTINGS["read_ports"]]
WRITE_PORTS = [f"axi__{port}" for port in SETTINGS["write_ports"]]
TURN = SETTINGS["turn_bytes"]
SPAN = 1 << 16


class CopyBench(MemoryBench):
    def __init__(self, dut, share):
        super().__init__(dut, READ_PORTS, WRITE_PORTS, share)

    async def run(self, operation, source, destination, length):
        word = length | (source | destination << ADDRESS_WIDTH | int(operation) << 2 * ADDRESS_WIDTH) << LENGTH_WIDTH
        await self.send("command", word)
        return await self.take("status")

    async def check(self, operation, source, destination, length):
        before = bytearray(self.memory.read(0, SPAN))
        if operation == CopyOperation.COPY:
            before[destination : destination + length] = before[source : source + length]
        elif operation == CopyOperation.FILL:
            beats = -(-length // BEAT)
            numbers = b"".join(number.to_bytes(BEAT, "little") for number in range(beats))
            before[destination : destination + length] = numbers[:length]
        assert await self.run(operation, source, destination, length) == TransferStatus.OK
        assert self.memory.read(0, SPAN) == bytes(before), f"{operation!r} of {length} bytes"


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6])
async def copies_reads_and_fills(dut, share):
    bench = CopyBench(dut, share)
    bench.memory.write(0, bench.random.randbytes(SPAN))
    await bench.reset()
    half = SPAN // 2
    for operation in [*CopyOperation, *CopyOperation, CopyOperation.COPY]:
        length = bench.random.choice([1, bench.random.randint(1, 300), bench.random.randint(1, 9000)])
        source = bench.random.randrange(0, half - 9216, BEAT)
        destination = bench.random.randrange(half, SPAN - 9216, BEAT)
        await bench.check(operation, source, destination, length)


@cocotb.test()
async def refuses_and_goes_on(dut):
    bench = CopyBench(dut, 0.2)
    bench.memory.write(0, bench.random.randbytes(SPAN))
    await bench.reset()
    half = SPAN // 2
    wrong = [
        (0, half, 0, TransferStatus.ZERO_LENGTH),
        (1, half, 64, TransferStatus.MISALIGNED),
        (0, half + 1, 3000, TransferStatus.MISALIGNED),
        (0, half, LONGEST + 1, TransferStatus.TOO_LONG),
        (MEMORY - BEAT, half, 4 * BEAT, TransferStatus.OUT_OF_RANGE),
        (0, MEMORY - BEAT, 3000, TransferStatus.OUT_OF_RANGE),
    ]
    for source, destination, length, status in wrong:
        before = bench.memory.read(0, SPAN)
        assert await bench.run(CopyOperation.COPY, source, destination, length) == status
        assert bench.memory.read(0, SPAN) == before
        await bench.check(CopyOperation.COPY, 128, half, 777)


@cocotb.test()
@cocotb.parametrize(bad=[0x1000, 0x9000], response=[AxiResp.SLVERR, AxiResp.DECERR])
async def reports_errors_of_the_memory_and_goes_on(dut, bad, response):
    bench = CopyBench(dut, 0.2)
    bench.memory.write(0, bench.random.randbytes(SPAN))
    await bench.reset()
    bench.bad = range(bad, bad + BEAT)
    bench.response = response
    status = TransferStatus.MEMORY_ERROR if response == AxiResp.SLVERR else TransferStatus.DECODE_ERROR
    assert await bench.run(CopyOperation.COPY, 0xF00, 0x8F00, 2000) == status
    await bench.check(CopyOperation.COPY, 0x2000, 0xA000, 777)


@cocotb.test(skip=len(READ_PORTS + WRITE_PORTS) > 2 or READ_PORTS != WRITE_PORTS)
async def takes_turns(dut):
    """A turn lasts `TURN_BYTES`, and on only while the other side has nothing to ask for."""
    bench = CopyBench(dut, 0)
    bench.memory.write(0, bench.random.randbytes(SPAN))
    await bench.reset()
    await bench.check(CopyOperation.COPY, 0, SPAN // 2, SPAN // 2)
    turns = []
    last = None
    for direction, _, size in bench.bursts:
        if direction == last:
            turns[-1] += size
        else:
            turns.append(size)
        last = direction
    assert max(turns) <= SETTINGS["buffered_bytes"], turns
    assert min(turns[:-1]) >= TURN, turns
    assert len(turns) <= 2 * (SPAN // 2 // TURN) + 4, turns
