"""Cocotb tests of the RTL module at the ports that the OpenCL SDK gives it."""

import itertools
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from host.devices.kernel_command import KernelCommand
from hw.parameters import Parameters
from hw.register_map import BISORT, BUILD_ID, ErrorCode, Operation, registers
from hw.request_map import Request, request
from sim.models.kernel import KernelModel
from sim.stream_bench import settings
from tests.hw.bisort.kernel_scenarios import Scenarios, same
from tests.hw.memory.stalls import stalls
from tests.hw.opencl.avalon_memory import AvalonMemory

SETTINGS = settings()
PARAMETERS = Parameters(**SETTINGS["parameters"])
OFFSET = {register.name: register.offset for register in registers()}
CHANNEL = (1 << PARAMETERS.address_bits) // PARAMETERS.channels
KEY = np.dtype(np.uint32 if PARAMETERS.key_bits == 32 else np.uint64)
DONE = next(register for register in registers() if register.name == "CONTROL").field("done").mask
PATIENCE = 200_000  # cycles


class ModuleBench:
    """The module, its memory somewhere in a larger one, and a model that is given the same."""

    def __init__(self, dut, share, *, by_burst):
        self.dut = dut
        self.random = random.Random(cocotb.RANDOM_SEED + int(100 * share) + by_burst)
        self.memory = AvalonMemory(
            dut,
            PARAMETERS.channels,
            self.random.getrandbits(32),
            share,
            by_burst=by_burst,
            burst_bytes=PARAMETERS.burst_bytes,
        )
        # Far from address 0 and from each other, in the wrong order, at multiples of a burst only.
        burst = PARAMETERS.burst_bytes
        self.bases = [(PARAMETERS.channels - at) * 4 * CHANNEL + (3 + at) * burst for at in range(PARAMETERS.channels)]
        self.memory.spaces = [range(base, base + CHANNEL) for base in self.bases]
        self.model = KernelModel(PARAMETERS, 1 << PARAMETERS.address_bits)
        self.scenarios = Scenarios(PARAMETERS, self.random.getrandbits(32), CHANNEL // 2)
        self.valid, self.ready = (stalls(self.random.getrandbits(32), share) for _ in range(2))
        self.tag = 0
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
        return (await self.call(request(Request.READ, OFFSET[name])))[0]

    async def run(self, *commands):
        """Pushes commands, starts, waits for the end, and gives the error."""
        words = []
        for command in commands:
            self.tag += 1
            for word in command.words(self.tag):
                words.append(request(Request.WRITE, OFFSET["QUEUE_PUSH"], word))
                self.model.write_register(OFFSET["QUEUE_PUSH"], word)
        words += [
            request(Request.WRITE, OFFSET["CONTROL"], 1),
            request(Request.WAIT, OFFSET["CONTROL"], DONE),
            request(Request.READ, OFFSET["ERROR_CODE"]),
        ]
        *_, control, code = await self.call(*words)
        assert control & DONE
        self.model.write_register(OFFSET["CONTROL"], 1)
        assert code == self.model.read_register(OFFSET["ERROR_CODE"])
        return ErrorCode(code)

    def _global(self, address):
        channel, offset = divmod(address, CHANNEL)
        return self.bases[channel] + offset

    def bytes(self, address, length):
        return np.frombuffer(self.memory.read(self._global(address), length), np.uint8)

    async def check(self, operation, rows):
        scenario = self.scenarios.make(operation, rows)
        for address, content in scenario.writes:
            self.memory.write(self._global(address), content.tobytes())
            self.model.write_memory(address, content)
        assert await self.run(scenario.command) == ErrorCode.NONE, scenario.command
        differs = same(scenario, KEY, self.bytes, self.model.read_memory)
        assert not differs, (differs, scenario.command)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], by_burst=[False, True])
async def every_command(dut, share, by_burst):
    bench = ModuleBench(dut, share, by_burst=by_burst)
    await bench.start()
    assert await bench.read("BUILD_ID") == BUILD_ID
    for _ in range(6):
        for operation in BISORT.operations:
            if operation != Operation.NOP:
                await bench.check(operation, 60)


@cocotb.test()
async def commands_read_what_those_before_wrote(dut):
    """A chain of copies, queued together: each reads what the one before has written, through the other channel."""
    bench = ModuleBench(dut, 0.3, by_burst=True)
    await bench.start()
    content = bench.random.randbytes(4 * PARAMETERS.burst_bytes)
    bench.memory.write(bench.bases[0], content)
    bench.model.write_memory(0, np.frombuffer(content, np.uint8))
    places = [(hop % PARAMETERS.channels) * CHANNEL + hop * len(content) for hop in range(PARAMETERS.queue_rows + 1)]
    copies = [
        KernelCommand(operation=Operation.COPY, length_a=len(content), keys_a=source, keys_out=to)
        for source, to in itertools.pairwise(places)
    ]
    for _ in range(2):
        assert await bench.run(*copies) == ErrorCode.NONE
        assert bytes(bench.bytes(places[-1], len(content))) == content


@cocotb.test()
async def an_error_and_a_reset(dut):
    bench = ModuleBench(dut, 0.2, by_burst=False)
    await bench.start()
    wrong = KernelCommand(operation=Operation.COPY, length_a=64, keys_a=1, keys_out=0)
    assert await bench.run(wrong) == ErrorCode.MISALIGNED_ADDRESS
    assert await bench.read("ERROR_ADDRESS_LOW") == 1
    assert await bench.call(request(Request.RESET)) == [0]
    bench.model.reset()
    assert await bench.read("ERROR_CODE") == ErrorCode.NONE
    assert await bench.read("COMPLETED_COUNT") == 0
    for operation in (Operation.MERGE, Operation.PROBE, Operation.GATHER):
        await bench.check(operation, 40)


@cocotb.test()
async def a_wait_for_what_never_comes_ends(dut):
    bench = ModuleBench(dut, 0.0, by_burst=False)
    await bench.start()
    began = get_sim_time("step")
    control = (await bench.call(request(Request.WAIT, OFFSET["CONTROL"], DONE)))[0]
    assert not control & DONE
    assert get_sim_time("step") > began
