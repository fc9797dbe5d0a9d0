"""Cocotb tests of the control registers."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from muntin.contract.designs.bisort import BISORT
from muntin.contract.designs.splitjoin import SPLITJOIN
from muntin.contract.registers import Access
from muntin.sim.stream_bench import settings
from tests.hw.memory.stalls import stalls

KERNEL = {"BISORT": BISORT, "SPLITJOIN": SPLITJOIN}[settings()["kernel"]]
REGISTERS = KERNEL.registers()
OFFSET = {register.name: register.offset for register in REGISTERS}
INPUTS = ("ready", "done", "idle", "status")


class RegisterBench:
    def __init__(self, dut, share):
        self.dut = dut
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.pulses = []
        for name in INPUTS:
            getattr(dut, name).value = 0
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
        if share:
            write, read = self.master.write_if, self.master.read_if
            for channel in (
                write.aw_channel,
                write.w_channel,
                write.b_channel,
                read.ar_channel,
                read.r_channel,
            ):
                channel.set_pause_generator(stalls(self.random.getrandbits(32), share))
        cocotb.start_soon(self._watch())

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            for name in ("pushed", "error_clear", "counter_clear"):
                if getattr(self.dut, name).value == 1:
                    self.pulses.append((name, int(self.dut.word.value)))

    async def reset(self):
        self.dut.rst.value = 1
        for _ in range(4):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def pulse(self, name):
        getattr(self.dut, name).value = 1
        await RisingEdge(self.dut.clk)
        getattr(self.dut, name).value = 0
        await RisingEdge(self.dut.clk)

    async def read(self, name):
        return await self.master.read_dword(OFFSET[name])

    async def write(self, name, value):
        await self.master.write_dword(OFFSET[name], value)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5])
async def registers_keep_what_the_table_says(dut, share):
    bench = RegisterBench(dut, share)
    await bench.reset()
    wanted = {}
    for register in REGISTERS:
        value = bench.random.getrandbits(32)
        if register.access is not Access.CONTROL:
            await bench.write(register.name, value)
        wanted[register.name] = value if register.access is Access.WRITE else 0
    for register in REGISTERS:
        assert await bench.read(register.name) == wanted[register.name], register.name
    if KERNEL.settings:
        assert dut.settings.value == sum(
            wanted[register.name] << 32 * at for at, register in enumerate(KERNEL.settings)
        )
    assert [name for name, _ in bench.pulses] == ["error_clear", "pushed", "counter_clear"]


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5])
async def the_kernel_shows_its_values(dut, share):
    bench = RegisterBench(dut, share)
    await bench.reset()
    shown = [
        register.name
        for register in REGISTERS
        if register.access in (Access.READ, Access.CLEAR) and register.name != "INTERRUPT_STATUS"
    ]
    values = [bench.random.getrandbits(32) for _ in shown]
    dut.status.value = sum(value << 32 * at for at, value in enumerate(values))
    for name, value in zip(shown, values, strict=True):
        assert await bench.read(name) == value, name


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5])
async def start_done_and_idle(dut, share):
    bench = RegisterBench(dut, share)
    await bench.reset()
    dut.idle.value = 1
    assert await bench.read("CONTROL") == 0b0100
    await bench.write("CONTROL", 1)
    dut.idle.value = 0
    assert await bench.read("CONTROL") == 0b0001
    assert dut.start.value == 1
    await bench.pulse("ready")
    assert dut.start.value == 0
    assert await bench.read("CONTROL") == 0b1000, "ready is shown once"
    assert await bench.read("CONTROL") == 0
    await bench.pulse("done")
    dut.idle.value = 1
    assert await bench.read("CONTROL") == 0b0110, "done is shown once"
    assert await bench.read("CONTROL") == 0b0100
    await bench.write("CONTROL", 0x80)
    assert dut.auto_restart.value == 1
    assert dut.start.value == 0


@cocotb.test()
async def interrupts(dut):
    bench = RegisterBench(dut, 0)
    await bench.reset()
    await bench.pulse("done")
    assert await bench.read("INTERRUPT_STATUS") == 0, "not enabled"
    await bench.write("INTERRUPT_ENABLE", 0b01)
    await bench.pulse("ready")
    await bench.pulse("done")
    assert await bench.read("INTERRUPT_STATUS") == 0b01
    assert dut.interrupt.value == 0
    await bench.write("GLOBAL_INTERRUPT_ENABLE", 1)
    assert dut.interrupt.value == 1
    await bench.write("INTERRUPT_STATUS", 0b10)
    assert dut.interrupt.value == 1
    await bench.write("INTERRUPT_STATUS", 0b01)
    assert dut.interrupt.value == 0


@cocotb.test()
async def strobes_and_unknown_addresses(dut):
    bench = RegisterBench(dut, 0.3)
    await bench.reset()
    await bench.write("TIMEOUT_CYCLES", 0x11223344)
    await bench.master.write(OFFSET["TIMEOUT_CYCLES"] + 1, b"\xaa\xbb")
    assert await bench.read("TIMEOUT_CYCLES") == 0x11BBAA44
    assert dut.timeout_cycles.value == 0x11BBAA44
    free = next(at for at in range(0, 0x80, 4) if at not in OFFSET.values())
    await bench.master.write_dword(free, 0xFFFFFFFF)
    assert await bench.master.read_dword(free) == 0
