"""Cocotb tests of the burst writer."""

import cocotb
from cocotbext.axi import AxiResp

from muntin.hw.memory.layouts import TransferStatus
from tests.hw.memory.stalls import watch
from tests.hw.memory.transfer_bench import BEAT, MOVED, SPAN, TransferBench
from tests.hw.memory.whole_bursts import whole_bursts


class WriterBench(TransferBench):
    def __init__(self, dut, share):
        super().__init__(dut, [], ["axi"], share)
        stream = [getattr(dut, f"status__{part}") for part in ("valid", "ready", "payload")]
        cocotb.start_soon(watch(dut.clk, dut.rst, *stream))

    async def check(self, transfers):
        """Write all transfers of (address, length, status expected) and compare the whole memory."""
        await self.reset()
        self.memory.write(0, self.random.randbytes(SPAN))
        expected = bytearray(self.memory.read(0, SPAN))
        beats = []
        for address, length, status in transfers:
            if status in MOVED:
                data = self.random.randbytes(-(-length // BEAT) * BEAT)
                beats += [data[at : at + BEAT] for at in range(0, len(data), BEAT)]
                expected[address : address + length] = data[:length]

        async def give():
            for beat in beats:
                await self.idle()
                await self.send("i", int.from_bytes(beat, "little"))

        tasks = [cocotb.start_soon(self.ask(transfers)), cocotb.start_soon(give())]
        await self.statuses(transfers)
        for task in tasks:
            await task
        got = self.memory.read(0, SPAN)
        if not self.bad:
            assert got == bytes(expected)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6])
async def writes_what_it_is_given_and_nothing_else(dut, share):
    bench = WriterBench(dut, share)
    await bench.check([(4096 - BEAT, 2 * BEAT, TransferStatus.OK), *bench.random_transfers(12)])


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def reports_what_the_host_gets_wrong(dut, share):
    bench = WriterBench(dut, share)
    await bench.check(bench.mistakes())


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], response=[AxiResp.SLVERR, AxiResp.DECERR])
async def reports_errors_of_the_memory_and_goes_on(dut, share, response):
    bench = WriterBench(dut, share)
    bench.bad = range(0x1000, 0x1040)
    bench.response = response
    status = TransferStatus.MEMORY_ERROR if response == AxiResp.SLVERR else TransferStatus.DECODE_ERROR
    await bench.check(
        [
            (0, 256, TransferStatus.OK),
            (0xF00, 1024, status),
            (0x2000, 1024, TransferStatus.OK),
            (0x1000, 3, status),
            (0x3000, 1000, TransferStatus.OK),
        ]
    )


@cocotb.test()
async def every_beat_of_a_burst_is_ready_when_it_is_announced(dut):
    """`wvalid` does not fall inside a burst, however slowly the beats come."""
    bench = WriterBench(dut, 0)
    bench.pausing = True
    cocotb.start_soon(whole_bursts(dut))
    await bench.check(list(bench.random_transfers(8)))
