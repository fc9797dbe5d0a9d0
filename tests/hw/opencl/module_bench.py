"""The RTL module of the OpenCL SDK at its own ports, under cocotb."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from muntin.contract.opencl import Request, request
from tests.hw.memory.stalls import stalls
from tests.hw.opencl.avalon_memory import AvalonMemory

PATIENCE = 200_000  # cycles


class ModuleBench:
    """The module, and its memory somewhere in a larger one.

    Parameters
    ----------
    dut
    parameters
        Of the kernel.
    registers : iterable of Register
        The kernel's.
    share : float
        Of cycles in which an end waits.
    by_burst : bool
        As of `AvalonMemory`.
    """

    def __init__(self, dut, parameters, registers, share, *, by_burst):
        self.dut = dut
        self.offset = {register.name: register.offset for register in registers}
        self.channel = (1 << parameters.address_bits) // parameters.channels
        self.random = random.Random(cocotb.RANDOM_SEED + int(100 * share) + by_burst)
        self.memory = AvalonMemory(
            dut,
            parameters.channels,
            self.random.getrandbits(32),
            share,
            by_burst=by_burst,
            burst_bytes=parameters.burst_bytes,
        )
        # Far from address 0 and from each other, in the wrong order, at multiples of a burst only.
        burst = parameters.burst_bytes
        self.bases = [
            (parameters.channels - at) * 4 * self.channel + (3 + at) * burst for at in range(parameters.channels)
        ]
        self.memory.spaces = [range(base, base + self.channel) for base in self.bases]
        self.valid, self.ready = (stalls(self.random.getrandbits(32), share) for _ in range(2))
        self.cycles = 0
        cocotb.start_soon(Clock(dut.clock, 10, unit="ns").start())

    async def start(self):
        dut = self.dut
        dut.resetn.value = 0
        dut.ivalid.value = 0
        dut.iready.value = 0
        for port in self.memory.ports:
            for signals in (port.reading, port.writing):
                signals["waitrequest"].value = 0
            port.reading["readdatavalid"].value = 0
            port.writing["writeack"].value = 0
        for _ in range(3):
            await RisingEdge(dut.clock)
        dut.resetn.value = 1
        await self.cycle()

    async def cycle(self):
        await RisingEdge(self.dut.clock)
        self.memory.cycle()
        self.cycles += 1

    async def call(self, *words):
        """Hands over requests one behind the other, and gives the results."""
        dut = self.dut
        results, begun, held = [], 0, None
        offered = taking = False
        deadline = self.cycles + PATIENCE
        while len(results) < len(words):
            if offered and dut.oready.value == 1:
                begun += 1
                offered = False
            if dut.ovalid.value == 1:
                assert held in (None, int(dut.result.value)), "the result moved before it was taken"
                held = int(dut.result.value)
                if taking:
                    results.append(held)
                    held = None
            else:
                assert held is None, "ovalid fell before the result was taken"
            offered = begun < len(words) and (offered or not next(self.valid))
            dut.ivalid.value = offered
            dut.request.value = words[begun] if offered else self.random.getrandbits(64)
            for channel, base in enumerate(self.bases):
                port = getattr(dut, f"memory_{channel}")
                port.value = base if offered else self.random.getrandbits(64)
            taking = not next(self.ready)
            dut.iready.value = taking
            assert self.cycles < deadline, f"no result of {words[len(results)]:#x}"
            await self.cycle()
        dut.ivalid.value = 0
        dut.iready.value = 0
        return results

    async def read(self, name):
        return (await self.call(request(Request.READ, self.offset[name])))[0]

    def place(self, address):
        """Where an address of the kernel's lies in the larger memory."""
        channel, offset = divmod(address, self.channel)
        return self.bases[channel] + offset

    def bytes(self, address, length):
        return np.frombuffer(self.memory.read(self.place(address), length), np.uint8)
