"""Cocotb tests of the burst reader."""

import cocotb
from cocotbext.axi import AxiResp

from muntin.hw.memory.layouts import TransferStatus
from tests.hw.memory.stalls import watch
from tests.hw.memory.transfer_bench import ADDRESS_WIDTH, BEAT, MOVED, SETTINGS, SPAN, TransferBench


class ReaderBench(TransferBench):
    def __init__(self, dut, share):
        super().__init__(dut, ["axi"], [], share)
        for name in ("o", "status"):
            stream = [getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload")]
            cocotb.start_soon(watch(dut.clk, dut.rst, *stream))

    async def check(self, transfers):
        """Read all transfers of (address, length, status expected) and compare every byte."""
        await self.reset()
        tasks = [cocotb.start_soon(self.ask(transfers)), cocotb.start_soon(self.statuses(transfers))]
        for address, length, status in transfers:
            if status not in MOVED:
                continue
            got = b""
            for beat in range(-(-length // BEAT)):
                await self.idle()
                payload = await self.take("o")
                data = payload & (1 << 8 * BEAT) - 1
                keep = payload >> 8 * BEAT & (1 << BEAT) - 1
                kept = min(BEAT, length - beat * BEAT)
                assert keep == (1 << kept) - 1, f"keep of beat {beat} of {length} bytes"
                assert payload >> 9 * BEAT == ((beat + 1) * BEAT >= length), f"last of beat {beat}"
                got += data.to_bytes(BEAT, "little")[:kept]
            if status == TransferStatus.OK:
                assert got == self.memory.read(address, length), f"bytes at {address:#x}"
        for task in tasks:
            await task

    def fill(self):
        self.memory.write(0, self.random.randbytes(SPAN))


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6])
async def reads_what_the_memory_holds(dut, share):
    bench = ReaderBench(dut, share)
    bench.fill()
    await bench.check([(4096 - BEAT, 2 * BEAT, TransferStatus.OK), *bench.random_transfers(12)])


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def reports_what_the_host_gets_wrong(dut, share):
    bench = ReaderBench(dut, share)
    bench.fill()
    await bench.check(bench.mistakes())


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], response=[AxiResp.SLVERR, AxiResp.DECERR])
async def reports_errors_of_the_memory_and_goes_on(dut, share, response):
    bench = ReaderBench(dut, share)
    bench.fill()
    bench.bad = range(0x1000, 0x1040)
    bench.response = response
    status = TransferStatus.MEMORY_ERROR if response == AxiResp.SLVERR else TransferStatus.DECODE_ERROR
    await bench.check(
        [
            (0, 256, TransferStatus.OK),
            (0xF00, 1024, status),
            (0x1040, 1024, TransferStatus.OK),
            (0x1000, 3, status),
            (0x2000, 1000, TransferStatus.OK),
        ]
    )


@cocotb.test(skip=SETTINGS["burst_bytes"] < 256)  # which cover no latency
async def a_beat_a_cycle_without_stalls(dut):
    bench = ReaderBench(dut, 0)
    bench.fill()
    await bench.reset()
    dut.o__ready.value = 1
    dut.status__ready.value = 1
    cocotb.start_soon(bench.send("transfer", 0 | 8192 << ADDRESS_WIDTH))
    cycles = 0
    beats = 0
    while beats < 8192 // BEAT:
        await cocotb.triggers.RisingEdge(dut.clk)
        if dut.o__valid.value == 1:
            beats += 1
        cycles += beats > 0
    # The model of the memory pauses for a cycle or two between bursts.
    assert cycles < beats * 1.15, f"{beats} beats in {cycles} cycles"
