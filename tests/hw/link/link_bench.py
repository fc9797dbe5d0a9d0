"""The link with registers and memory behind it, in Amaranth's simulator and as its model behaves."""

import random

from amaranth.hdl import Module
from amaranth.sim import Simulator

from muntin.contract.link import DESCRIPTION_BASE, DRAM_BASE
from muntin.hw.link.link import Link
from muntin.hw.memory.port_shape import PortShape
from tests.hw.replayed import run_and_replay

DIVISOR = 4
SHAPE = PortShape(address_width=12, data_width=128, burst_bytes=64, buffer_bytes=64)
MEMORY_WORDS = 1 << 10
BAD_REGISTER = 0x7F0
DESCRIPTION = bytes(range(1, 11))
_CONTROL_BITS = 12
_SETTLE = 250  # cycles in which an answer begins, if there is one


class Registers:
    """What lies behind the link, as `muntin.sim.models.link.Behind`: also what the simulated buses work on."""

    quiet = True  # the kernel's memory accesses end

    def __init__(self):
        self.control = {}
        self.csr = {}
        self.memory = [0] * MEMORY_WORDS
        self.reads = []
        self.resets = 0
        self.interrupt = False

    def read(self, address):
        region, low = address >> 28, address & 0x0FFFFFFF
        if region == 0 and low < 1 << _CONTROL_BITS and low != BAD_REGISTER:
            self.reads.append(low)
            return self.control.get(low, 0)
        if region == DRAM_BASE >> 28 and low < 1 << 16:
            return self.csr.get(low >> 2, 0)
        told = len(DESCRIPTION).to_bytes(4, "little") + DESCRIPTION + bytes(-len(DESCRIPTION) % 4)
        if region == DESCRIPTION_BASE >> 28 and low < len(told):
            return int.from_bytes(told[low & ~3 :][:4], "little")
        return None

    def write(self, address, value):
        region, low = address >> 28, address & 0x0FFFFFFF
        if region == 0 and low < 1 << _CONTROL_BITS and low != BAD_REGISTER:
            self.control[low] = value
            return True
        if region == DRAM_BASE >> 28 and low < 1 << 16:
            self.csr[low >> 2] = value
            return True
        return False

    def read_memory(self, word):
        return self.memory[word] if word < MEMORY_WORDS else None

    def write_memory(self, word, value):
        if word >= MEMORY_WORDS:
            return False
        self.memory[word] = value
        return True

    def wait(self, cycles):
        return self.interrupt

    def reset(self):
        self.resets += 1


def answers(pieces, state, seed):
    """What the gateware sends back for each piece of bytes; buses stall at random, the state is what they work on."""
    link = Link(
        divisor=DIVISOR,
        control_address_width=_CONTROL_BITS,
        shape=SHAPE,
        description=DESCRIPTION,
        patience=2000,
    )
    m = Module()
    m.submodules.link = link
    generator = random.Random(seed)
    given = []

    def stalled():
        return generator.random() < 0.4

    async def line(ctx):
        for piece in pieces:
            received = bytearray()
            for byte in piece:
                for bit in (0, *(byte >> at & 1 for at in range(8)), 1):
                    ctx.set(link.rx, bit)
                    await ctx.tick().repeat(DIVISOR)
            quiet = 0
            while quiet < _SETTLE or ctx.get(link.busy):
                if ctx.get(link.tx):
                    quiet += 1
                    await ctx.tick()
                    continue
                quiet = 0
                await ctx.tick().repeat(DIVISOR + DIVISOR // 2)
                byte = 0
                for at in range(8):
                    byte |= ctx.get(link.tx) << at
                    await ctx.tick().repeat(DIVISOR)
                assert ctx.get(link.tx), "no stop bit"
                received.append(byte)
            given.append(bytes(received))

    async def control(ctx):
        axi = link.control
        while True:
            await ctx.tick()
            if ctx.get(axi.arvalid) and not stalled():
                address = ctx.get(axi.araddr)
                await _handshake(ctx, axi.arready)
                while stalled():
                    await ctx.tick()
                value = state.read(address)
                ctx.set(axi.rdata, value or 0)
                ctx.set(axi.rresp, 0 if value is not None else 2)
                await _offer(ctx, axi.rvalid, axi.rready)
            elif ctx.get(axi.awvalid) and ctx.get(axi.wvalid) and not stalled():
                address, value = ctx.get(axi.awaddr), ctx.get(axi.wdata)
                ctx.set(axi.wready, 1)
                await _handshake(ctx, axi.awready)
                ctx.set(axi.wready, 0)
                while stalled():
                    await ctx.tick()
                ctx.set(axi.bresp, 0 if state.write(address, value) else 2)
                await _offer(ctx, axi.bvalid, axi.bready)

    async def csr(ctx):
        bus = link.csr
        while True:
            _, _, address, write, value = await ctx.tick().sample(bus.adr, bus.we, bus.dat_w)
            if write:
                state.csr[address] = value
            ctx.set(bus.dat_r, state.csr.get(address, 0))

    async def memory(ctx):
        axi = link.axi
        while True:
            await ctx.tick()
            if ctx.get(axi.arvalid) and not stalled():
                place = ctx.get(axi.araddr) >> 2
                assert place % 4 == 0
                assert ctx.get(axi.arlen) == 0
                await _handshake(ctx, axi.arready)
                while stalled():
                    await ctx.tick()
                ctx.set(axi.rdata, sum(word << 32 * at for at, word in enumerate(state.memory[place : place + 4])))
                await _offer(ctx, axi.rvalid, axi.rready)
            elif ctx.get(axi.awvalid) and not stalled():
                place = ctx.get(axi.awaddr) >> 2
                assert place % 4 == 0
                await _handshake(ctx, axi.awready)
                while stalled():
                    await ctx.tick()
                data, strobes = ctx.get(axi.wdata), ctx.get(axi.wstrb)
                assert ctx.get(axi.wlast)
                await _handshake(ctx, axi.wready)
                for at in range(4):
                    if strobes >> 4 * at & 15:
                        assert strobes >> 4 * at & 15 == 15
                        state.memory[place + at] = data >> 32 * at & 0xFFFFFFFF
                await _offer(ctx, axi.bvalid, axi.bready)

    async def kernel(ctx):
        ctx.set(link.interrupt, state.interrupt)
        while True:
            _, _, halt, reset = await ctx.tick().sample(link.halt, link.reset)
            ctx.set(link.quiet, halt and state.quiet and not stalled())
            if reset:
                state.resets += 1
                while reset:
                    _, _, reset = await ctx.tick().sample(link.reset)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(line)
    for process in (control, csr, memory, kernel):
        simulator.add_testbench(process, background=True)
    run_and_replay(simulator, link, "link", seed)
    return given


async def _handshake(ctx, ready):
    ctx.set(ready, 1)
    await ctx.tick()
    ctx.set(ready, 0)


async def _offer(ctx, valid, ready):
    ctx.set(valid, 1)
    await ctx.tick().until(ready)
    ctx.set(valid, 0)
