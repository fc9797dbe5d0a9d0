"""Requests on a kernel's registers."""

import pytest

pytest.importorskip("amaranth")

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from muntin.contract.designs.bisort import BISORT
from muntin.contract.opencl import Request, request
from muntin.hw.control.control_registers import ControlRegisters
from muntin.hw.control.request_port import RequestPort
from tests.hw.replayed import run_and_replay

OFFSET = {register.name: register.offset for register in BISORT.registers()}
WAIT_CYCLES = 64


class Bench:
    """A port with registers behind it."""

    def __init__(self):
        self.module = Module()
        self.module.submodules.port = self.port = RequestPort(8, wait_cycles=WAIT_CYCLES)
        self.module.submodules.registers = self.registers = ControlRegisters(BISORT)
        wiring.connect(self.module, self.port.control, self.registers.axi)

    def run(self, testbench):
        simulator = Simulator(self.module)
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        run_and_replay(simulator, self.port, "request_port")

    async def call(self, ctx, *what, held=0):
        """The result of a request, and how many cycles it took to be there; it is taken some cycles later."""
        port = self.port
        ctx.set(port.i.payload.as_value(), request(*what))
        ctx.set(port.i.valid, 1)
        assert ctx.get(port.i.ready)
        cycles = 0
        while not ctx.get(port.o.valid):
            await ctx.tick()
            ctx.set(port.i.valid, 0)
            cycles += 1
        for _ in range(held):
            result = ctx.get(port.o.payload)
            await ctx.tick()
            assert ctx.get(port.o.valid)
            assert ctx.get(port.o.payload) == result
            assert not ctx.get(port.i.ready)
        result = ctx.get(port.o.payload)
        ctx.set(port.o.ready, 1)
        await ctx.tick()
        ctx.set(port.o.ready, 0)
        return result, cycles


def test_reads_and_writes_and_how_long_they_take():
    bench = Bench()

    async def testbench(ctx):
        ctx.set(bench.registers.status.build_id, BISORT.build_id)
        assert await bench.call(ctx, Request.READ, OFFSET["BUILD_ID"]) == (BISORT.build_id, 3)
        assert await bench.call(ctx, Request.WRITE, OFFSET["TIMEOUT_CYCLES"], 0x12345678) == (0, 3)
        assert await bench.call(ctx, Request.READ, OFFSET["TIMEOUT_CYCLES"], held=5) == (0x12345678, 3)

    bench.run(testbench)


def test_a_wait_reads_until_the_bit_is_set():
    bench = Bench()
    done = 2

    async def testbench(ctx):
        ctx.set(bench.port.i.payload.as_value(), request(Request.WAIT, OFFSET["CONTROL"], done))
        ctx.set(bench.port.i.valid, 1)
        await ctx.tick()
        ctx.set(bench.port.i.valid, 0)
        for _ in range(20):
            assert not ctx.get(bench.port.o.valid)
            await ctx.tick()
        ctx.set(bench.registers.done, 1)  # for one cycle
        await ctx.tick()
        ctx.set(bench.registers.done, 0)
        for _ in range(6):
            if ctx.get(bench.port.o.valid):
                break
            await ctx.tick()
        assert ctx.get(bench.port.o.payload) & done

    bench.run(testbench)


def test_a_wait_gives_up():
    bench = Bench()

    async def testbench(ctx):
        result, cycles = await bench.call(ctx, Request.WAIT, OFFSET["CONTROL"], 2)
        assert not result & 2
        assert WAIT_CYCLES <= cycles <= WAIT_CYCLES + 8

    bench.run(testbench)


def test_a_reset_waits_until_nothing_is_cut_off():
    bench = Bench()

    async def testbench(ctx):
        resets = 0
        result, cycles = await bench.call(ctx, Request.RESET)
        assert (result, resets) == (1, 0)
        assert cycles >= WAIT_CYCLES
        assert not ctx.get(bench.port.reset)
        ctx.set(bench.port.quiet, 1)
        ctx.set(bench.port.i.payload.as_value(), request(Request.RESET))
        ctx.set(bench.port.i.valid, 1)
        while not ctx.get(bench.port.o.valid):
            await ctx.tick()
            ctx.set(bench.port.i.valid, 0)
            resets += ctx.get(bench.port.reset)
        assert resets == 2
        assert ctx.get(bench.port.o.payload) == 0

    bench.run(testbench)
