"""Cocotb tests of the RTL module at the ports that the OpenCL SDK gives it."""

import itertools

import cocotb
import numpy as np
from cocotb.utils import get_sim_time

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.opencl import Request, request
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.sim.stream_bench import settings
from tests.hw.opencl.module_bench import ModuleBench
from tests.hw.opencl.twin import DONE, Twin

SETTINGS = settings()
PARAMETERS = Parameters(**SETTINGS["parameters"])
OFFSET = {register.name: register.offset for register in BISORT.registers()}
CHANNEL = (1 << PARAMETERS.address_bits) // PARAMETERS.channels


class Module(Twin, ModuleBench):
    """The module, and a model that is given the same."""

    def __init__(self, dut, share, *, by_burst):
        super().__init__(dut, PARAMETERS, BISORT.registers(), share, by_burst=by_burst)
        self.compare(PARAMETERS)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4], by_burst=[False, True])
async def every_command(dut, share, by_burst):
    bench = Module(dut, share, by_burst=by_burst)
    await bench.start()
    assert await bench.read("BUILD_ID") == BISORT.build_id
    for _ in range(6):
        for operation in BISORT.operations:
            if operation != Operation.NOP:
                await bench.check(operation, 60)


@cocotb.test()
async def commands_read_what_those_before_wrote(dut):
    """A chain of copies, queued together: each reads what the one before has written, through the other channel."""
    bench = Module(dut, 0.3, by_burst=True)
    await bench.start()
    content = bench.random.randbytes(4 * PARAMETERS.burst_bytes)
    bench.memory.write(bench.bases[0], content)
    bench.model.write_memory(0, np.frombuffer(content, np.uint8))
    places = [(hop % PARAMETERS.channels) * CHANNEL + hop * len(content) for hop in range(PARAMETERS.queue_rows + 1)]
    copies = [
        Command(operation=Operation.COPY, length_a=len(content), keys_a=source, keys_out=to)
        for source, to in itertools.pairwise(places)
    ]
    for _ in range(2):
        assert await bench.run(*copies) == ErrorCode.NONE
        assert bytes(bench.bytes(places[-1], len(content))) == content


@cocotb.test()
async def an_error_and_a_reset(dut):
    bench = Module(dut, 0.2, by_burst=False)
    await bench.start()
    wrong = Command(operation=Operation.COPY, length_a=64, keys_a=1, keys_out=0)
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
    bench = Module(dut, 0.0, by_burst=False)
    await bench.start()
    began = get_sim_time("step")
    control = (await bench.call(request(Request.WAIT, OFFSET["CONTROL"], DONE)))[0]
    assert not control & DONE
    assert get_sim_time("step") > began
