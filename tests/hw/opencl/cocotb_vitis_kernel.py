"""Cocotb tests of the RTL kernel of Vitis at its ports, with the masters, slaves and memory of cocotbext-axi."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, SparseMemoryRegion
from cocotbext.axi.sparse_memory import SparseMemory

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.opencl import Request, argument_map, request
from muntin.contract.registers import LANE_STRIDE, Command, ErrorCode, Operation
from muntin.sim.stream_bench import settings
from tests.hw.memory.stalls import stalls
from tests.hw.opencl.twin import DONE, OFFSET, Twin

SETTINGS = settings()
PARAMETERS = Parameters(**SETTINGS["parameters"])
REGISTER = {register.name: register.offset for register in argument_map(PARAMETERS).registers()}
PAGE = 4096
PATIENCE = 200_000  # cycles
MANY = 300  # requests: more than a burst of them


class Card(Twin):
    """The kernel as a shell drives it: arguments in its registers, requests and results in memory, and its lanes'
    memory somewhere in it, at multiples of a page, in the wrong order and beyond 4 GiB."""

    def __init__(self, dut, share):
        self.dut = dut
        self.random = random.Random(cocotb.RANDOM_SEED + int(100 * share))
        self.memory = SparseMemory(1 << 64)
        region = SparseMemoryRegion(mem=self.memory)
        cocotb.start_soon(Clock(dut.ap_clk, 10, unit="ns").start())
        self.lite = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axi_control"), dut.ap_clk, dut.ap_rst_n, reset_active_level=False
        )
        ports = [*(f"m_axi_memory_{lane}" for lane in range(PARAMETERS.lanes)), "m_axi_host"]
        for name in ports:
            slave = AxiSlave(
                AxiBus.from_prefix(dut, name), dut.ap_clk, dut.ap_rst_n, target=region, reset_active_level=False
            )
            for channel in (
                *(slave.write_if.aw_channel, slave.write_if.w_channel, slave.write_if.b_channel),
                *(slave.read_if.ar_channel, slave.read_if.r_channel),
            ):
                channel.set_pause_generator(stalls(self.random.getrandbits(32), share))
        self.space = 1 << PARAMETERS.address_bits
        lanes = PARAMETERS.lanes
        self.bases = [(5 << 32) + (lanes - lane) * 2 * self.space + (3 + lane) * PAGE for lane in range(lanes)]
        self.requests, self.results = (9 << 32) + 5 * PAGE, (7 << 32) + 2 * PAGE
        self.compare(PARAMETERS)

    async def start(self):
        self.dut.ap_rst_n.value = 0
        for _ in range(4):
            await RisingEdge(self.dut.ap_clk)
        self.dut.ap_rst_n.value = 1
        await RisingEdge(self.dut.ap_clk)
        for lane, base in enumerate(self.bases):
            await self.point(f"MEMORY_{lane}", base)
        await self.point("REQUESTS", self.requests)
        await self.point("RESULTS", self.results)

    async def point(self, name, address):
        await self.lite.write_qword(REGISTER[f"{name}_LOW"], address)

    async def call(self, *words):
        """Starts the kernel over a list of requests, and gives the results."""
        fence = self.random.randbytes(8)
        self.memory.write(self.requests, np.array(words, "<u8").tobytes())
        self.memory.write(self.results + 4 * len(words), fence)
        await self.lite.write_dword(REGISTER["COUNT"], len(words))
        await self.lite.write_dword(REGISTER["CONTROL"], 1)
        for _ in range(PATIENCE):
            if (await self.lite.read_dword(REGISTER["CONTROL"])) & 2:
                break
        else:
            raise AssertionError("the kernel does not end")
        assert self.memory.read(self.results + 4 * len(words), 8) == fence, "written behind the last result"
        return np.frombuffer(self.memory.read(self.results, 4 * len(words)), "<u4").tolist()

    def place(self, address):
        lane, offset = divmod(address, self.space)
        return self.bases[lane] + offset

    def bytes(self, address, length):
        return np.frombuffer(self.memory.read(self.place(address), length), np.uint8)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def every_command(dut, share):
    card = Card(dut, share)
    await card.start()
    assert await card.call(request(Request.READ, OFFSET["BUILD_ID"])) == [BISORT.build_id]
    for _ in range(3):
        for operation in BISORT.operations:
            if operation != Operation.NOP:
                await card.check(operation, 60)


@cocotb.test()
async def lists_of_every_length_and_none(dut):
    """Values are written and read back; nothing lies behind the last result, and an empty list is done."""
    card = Card(dut, 0.3)
    await card.start()
    assert await card.call() == []
    for count in (1, 2, 3, 7, 64, MANY):
        values = [card.random.getrandbits(32) for _ in range(count)]
        write, read = Request.WRITE, Request.READ
        at = OFFSET["TIMEOUT_CYCLES"]
        words = [word for value in values for word in (request(write, at, value), request(read, at))]
        expected = [result for value in values for result in (0, value)]
        assert await card.call(*words) == expected
        assert await card.call(*words[:-1]) == expected[:-1]


@cocotb.test()
async def lanes_have_their_own_memory(dut):
    card = Card(dut, 0.2)
    await card.start()
    length = 4 * PARAMETERS.burst_bytes
    contents = [card.random.randbytes(length) for _ in card.bases]
    words = []
    for lane, content in enumerate(contents):
        card.memory.write(card.bases[lane], content)
        copy = Command(operation=Operation.COPY, length_a=length, keys_a=0, keys_out=2 * length)
        at = lane * LANE_STRIDE
        words += [request(Request.WRITE, at + OFFSET["QUEUE_PUSH"], word) for word in copy.words(lane + 1)]
        words.append(request(Request.WRITE, at + OFFSET["CONTROL"], 1))
    words += [request(Request.WAIT, lane * LANE_STRIDE + OFFSET["CONTROL"], DONE) for lane in range(PARAMETERS.lanes)]
    assert all(control & DONE for control in (await card.call(*words))[-PARAMETERS.lanes :])
    for lane, content in enumerate(contents):
        assert card.memory.read(card.bases[lane] + 2 * length, length) == content


@cocotb.test()
async def an_error_and_a_reset_amid_transfers(dut):
    """A reset lets what is under way at memory end, and the kernel is as new."""
    card = Card(dut, 0.3)
    await card.start()
    wrong = Command(operation=Operation.COPY, length_a=64, keys_a=1, keys_out=0)
    assert await card.run(wrong) == ErrorCode.MISALIGNED_ADDRESS
    assert await card.call(request(Request.READ, OFFSET["ERROR_ADDRESS_LOW"]), request(Request.RESET)) == [1, 0]
    card.model.reset()
    for _ in range(8):
        copy = Command(operation=Operation.COPY, length_a=8192, keys_a=0, keys_out=16384)
        push = [request(Request.WRITE, OFFSET["QUEUE_PUSH"], word) for word in copy.words(1)]
        pause = [request(Request.READ, OFFSET["ERROR_CODE"])] * card.random.randrange(60)
        begun = (*push, request(Request.WRITE, OFFSET["CONTROL"], 1), *pause)
        assert (await card.call(*begun, request(Request.RESET)))[-1] == 0
        assert await card.call(request(Request.READ, OFFSET["COMPLETED_COUNT"])) == [0]
        await card.check(Operation.MERGE, 40)


@cocotb.test()
async def what_is_constant_and_the_interrupt(dut):
    card = Card(dut, 0.0)
    await card.start()
    for prefix in ("m_axi_memory_0", "m_axi_host"):
        assert {int(getattr(dut, f"{prefix}_{name}").value) for name in ("arcache", "awcache")} == {3}
        assert {int(getattr(dut, f"{prefix}_{name}").value) for name in ("arprot", "awprot")} == {0}
    assert (await card.lite.read_dword(REGISTER["CONTROL"])) & 4, "it is idle"
    await card.lite.write_dword(REGISTER["GLOBAL_INTERRUPT_ENABLE"], 1)
    await card.lite.write_dword(REGISTER["INTERRUPT_ENABLE"], 1)
    assert dut.interrupt.value == 0
    await card.call(request(Request.READ, OFFSET["BUILD_ID"]))
    assert dut.interrupt.value == 1
    await card.lite.write_dword(REGISTER["INTERRUPT_STATUS"], 1)
    await RisingEdge(dut.ap_clk)
    assert dut.interrupt.value == 0
