"""Cocotb tests of the kernel at its ports: registers on AXI4-Lite, memory on AXI4, both with stalls."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from cocotbext.axi.sparse_memory import SparseMemory

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import (
    COMMAND_WORDS,
    LANE_STRIDE,
    RUN_PLACES,
    Access,
    Command,
    ErrorCode,
    Operation,
)
from muntin.sim.models.kernel import KernelModel
from muntin.sim.stream_bench import settings
from tests.hw.benches.command_cells import COVERAGE, CommandCells, command_cross
from tests.hw.bisort.kernel_scenarios import BATCHES, MISTAKES, MOVING, PROBING, Scenario, Scenarios, same
from tests.hw.memory.memory_bench import MemoryBench

SETTINGS = settings()
PARAMETERS = Parameters(**SETTINGS["parameters"])
LANE = PARAMETERS.lanes - 1  # the one under test
OFFSET = {register.name: LANE * LANE_STRIDE + register.offset for register in BISORT.registers()}
MODEL = {register.name: register.offset for register in BISORT.registers()}
PORTS = [f"axi__{number}" for number in range(PARAMETERS.channels * PARAMETERS.lanes)]
CHANNEL = (1 << PARAMETERS.address_bits) // PARAMETERS.channels
SPAN = CHANNEL // 2
KEY = np.dtype(np.uint32 if PARAMETERS.key_bits == 32 else np.uint64)
EXACT = ("commands", "read_beats", "write_beats", "partitions", "rows_in", "rows_out")
ALL = [operation for operation in BISORT.operations if operation != Operation.NOP]
ERRORS = MISTAKES | {
    ErrorCode.MEMORY_ERROR: MOVING,
    ErrorCode.DECODE_ERROR: MOVING,
    ErrorCode.TIMEOUT: MOVING,
    ErrorCode.STUCK: (Operation.MERGE,),
}
WRITING = (Operation.COPY, *BATCHES)


def ends_all_the_same(command, error, stall):
    """Why a command does not end with STUCK."""
    return "a batch that does not ascend is answered wrong, but to its end" if error == "STUCK" else ""


NEVER = {
    ErrorCode.STUCK: "a batch out of order is answered wrong, but to its end; all but runs and batches has no order",
    ErrorCode.CORE_STUCK: "the kernel has no cores",
}
CELLS = command_cross(BISORT.operations, ERRORS, WRITING, NEVER)


class ChannelMemory:
    """The part of a memory that a channel sees, from its own address 0 on."""

    def __init__(self, memory, base):
        self.memory = memory
        self.base = base

    def __len__(self):
        return CHANNEL

    def __getitem__(self, part):
        return self.memory.read(self.base + part.start, part.stop - part.start)

    def __setitem__(self, part, content):
        self.memory.write(self.base + part.start, content)


class KernelBench(MemoryBench):
    """The kernel, and a model that is given the same."""

    def __init__(self, dut, share):
        self.others = SparseMemory(1 << PARAMETERS.address_bits)  # behind all channels of the other lanes
        super().__init__(dut, PORTS, PORTS, share)
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "control_"), dut.clk, dut.rst)
        self.model = KernelModel(PARAMETERS, 1 << PARAMETERS.address_bits)
        self.scenarios = Scenarios(PARAMETERS, self.random.getrandbits(32), SPAN)
        self.cells = CommandCells(self, CELLS, PORTS[LANE * PARAMETERS.channels :], share)
        self.tag = 0

    def memory_of(self, port):
        if PORTS.index(port) < LANE * PARAMETERS.channels:
            return self.others
        return ChannelMemory(self.memory, (PORTS.index(port) - LANE * PARAMETERS.channels) * CHANNEL)

    async def start(self):
        await self.reset()
        await self.write("GLOBAL_INTERRUPT_ENABLE", 1)
        await self.write("INTERRUPT_ENABLE", 1)
        await self.write("TIMEOUT_CYCLES", 5000)

    async def write(self, name, value):
        await self.host.write_dword(OFFSET[name], value)

    async def read(self, name):
        return await self.host.read_dword(OFFSET[name])

    async def push(self, *commands):
        for command in commands:
            self.cells.push(command)
            self.tag += 1
            for word in command.words(self.tag):
                await self.write("QUEUE_PUSH", word)
                self.model.write_register(MODEL["QUEUE_PUSH"], word)

    async def work(self):
        """Start, wait for the end, and give the error."""
        await self.write("CONTROL", 1)
        await self.done()
        self.model.write_register(MODEL["CONTROL"], 1)
        assert await self.read("ERROR_CODE") == self.model.read_register(MODEL["ERROR_CODE"])
        return ErrorCode(await self.read("ERROR_CODE"))

    async def done(self):
        await self._over()
        assert await self.read("CONTROL") & 0b110 == 0b110
        assert not await self.read("CONTROL") & 0b010

    async def done_but_not_idle(self):
        await self._over()
        assert await self.read("CONTROL") & 0b110 == 0b010

    async def _over(self):
        await with_timeout(self._interrupt(), 2, "ms")
        await self.write("INTERRUPT_STATUS", 1)
        if COVERAGE:
            self.cells.end(ErrorCode(await self.read("ERROR_CODE")))

    async def _interrupt(self):
        while not self.dut.irq.value:
            await RisingEdge(self.dut.clk)

    def put(self, scenario):
        for address, content in scenario.writes:
            self.memory.write(address, content.tobytes())
            self.model.write_memory(address, content)

    def differs(self, scenario):
        return same(
            scenario,
            KEY,
            lambda address, length: np.frombuffer(bytes(self.memory.read(address, length)), np.uint8),
            self.model.read_memory,
        )

    async def check(self, operation, rows):
        scenario = self.scenarios.make(operation, rows)
        self.put(scenario)
        await self.push(scenario.command)
        assert await self.work() == ErrorCode.NONE, scenario.command
        assert not self.differs(scenario), (self.differs(scenario), scenario.command)

    async def counters(self):
        return {
            name: await self.read(f"{name.upper()}_LOW") | await self.read(f"{name.upper()}_HIGH") << 32
            for name, _ in BISORT.counters
        }


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6])
async def every_command(dut, share):
    bench = KernelBench(dut, share)
    await bench.start()
    bench.memory.write(0, bench.random.randbytes(1 << 16))
    for round_ in range(3):
        for operation in (*ALL, Operation.INDEX, Operation.PROBE, Operation.GATHER, Operation.COUNT, Operation.NOP):
            await bench.check(operation, (3, 40, 150)[round_])
    counters = await bench.counters()
    assert {name: counters[name] for name in EXACT} == {name: bench.model.counters[name] for name in EXACT}
    assert counters["cycles"] > counters["read_beats"]
    await bench.write("COUNTER_CLEAR", 0)
    assert not any((await bench.counters()).values())


@cocotb.test()
async def an_insertion_buffer_that_is_emptied(dut):
    """Again and again full, as what was discarded takes no room; and what comes then is all that is there."""
    bench = KernelBench(dut, 0.2)
    await bench.start()
    for _ in range(4):
        while bench.scenarios.buffered < PARAMETERS.buffer_rows:
            await bench.check(Operation.INSERT, 1)
        await bench.check(Operation.DISCARD, 1)
        await bench.check(Operation.INSERT, 1)
        for operation in (Operation.PROBE, Operation.GATHER, Operation.COUNT, Operation.PROBE):
            await bench.check(operation, 30)
        await bench.check(Operation.DISCARD, 1)
    counters = await bench.counters()
    assert {name: counters[name] for name in EXACT} == {name: bench.model.counters[name] for name in EXACT}


@cocotb.test()
async def a_queue_of_commands(dut):
    bench = KernelBench(dut, 0.2)
    await bench.start()
    await bench.write("CONTROL", 1)  # nothing waits: done at once
    await bench.done()
    for auto in (0, 0x80):
        await bench.write("CONTROL", auto)
        scenario = bench.scenarios.make(Operation.MERGE, 30)  # again and again
        bench.put(scenario)
        for _ in range(PARAMETERS.queue_rows):
            await bench.push(scenario.command)
            status = await bench.read("QUEUE_STATUS")
            assert not status >> 31
            if not auto:
                assert (status & 0xFFFF) + (status >> 16) == PARAMETERS.queue_rows
        if auto:
            while await bench.read("QUEUE_STATUS") & 0xFFFF or not await bench.read("CONTROL") & 4:
                pass
            bench.model.write_register(MODEL["CONTROL"], 1)
        else:
            assert await bench.work() == ErrorCode.NONE
        assert await bench.read("COMPLETED_TAG") == bench.tag
        assert await bench.read("COMPLETED_COUNT") == bench.model.read_register(MODEL["COMPLETED_COUNT"])
        assert not bench.differs(scenario)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3])
async def different_commands_one_behind_the_other(dut, share):
    """What one leaves behind, in the insertion buffer as elsewhere, the next one finds, and nothing else."""
    bench = KernelBench(dut, share)
    await bench.start()
    await bench.check(Operation.INDEX, 60)
    for _ in range(3):
        todo: list[Scenario] = []
        for operation, choices in (
            (Operation.INSERT, {}),
            (Operation.PROBE, {"buffered": True}),
            (Operation.MERGE, {"buffered": True}),
            (Operation.PROBE, {"buffered": False}),
        )[: PARAMETERS.queue_rows]:
            todo.append(bench.scenarios.make(operation, 60, behind=bool(todo), **choices))
        for scenario in todo:
            bench.put(scenario)
        await bench.push(*(scenario.command for scenario in todo))
        assert await bench.work() == ErrorCode.NONE
        for scenario in todo:
            assert not bench.differs(scenario), (bench.differs(scenario), scenario.command)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3] if COVERAGE else [0.0])
async def a_full_queue(dut, share):
    bench = KernelBench(dut, share)
    await bench.start()
    nop = bench.scenarios.make(Operation.NOP, 1).command
    for number in range(PARAMETERS.queue_rows + 1):
        assert await bench.read("ERROR_CODE") == ErrorCode.NONE
        await bench.push(nop)
        assert await bench.read("QUEUE_STATUS") == bench.model.read_register(MODEL["QUEUE_STATUS"]), number
    assert await bench.read("ERROR_CODE") == ErrorCode.QUEUE_OVERFLOW
    bench.cells.end(ErrorCode.QUEUE_OVERFLOW)
    await bench.write("ERROR_CODE", 0)
    bench.model.write_register(MODEL["ERROR_CODE"], 0)
    assert await bench.read("QUEUE_STATUS") == PARAMETERS.queue_rows << 16
    for _ in range(COMMAND_WORDS // 2):  # a part of a command is forgotten too
        await bench.write("QUEUE_PUSH", 0)
    assert await bench.read("QUEUE_STATUS") >> 31
    await bench.write("ERROR_CODE", 0)
    await bench.check(Operation.MERGE, 20)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3, 0.6] if COVERAGE else [0.0, 0.3])
async def mistakes_of_the_host(dut, share):
    bench = KernelBench(dut, share)
    await bench.start()
    mistakes = [(operation, code) for code, operations in MISTAKES.items() for operation in operations]
    if COVERAGE:
        mistakes += [(operation, ErrorCode.BAD_RANGE) for operation in MISTAKES[ErrorCode.BAD_RANGE]] * 12
    for operation, mistake in mistakes if share or COVERAGE else bench.random.sample(mistakes, 12):
        if operation in PROBING and not bench.scenarios.indexed:
            await bench.check(Operation.INDEX, 60)
        scenario, code = bench.scenarios.wrong(operation, mistake, 150 if mistake == ErrorCode.BAD_RANGE else 40)
        bench.put(scenario)
        before = bytes(bench.memory.read(0, SPAN))
        after = bench.scenarios.make(Operation.NOP, 1)
        await bench.push(scenario.command, after.command)
        assert await bench.work() == code, scenario.command
        assert await bench.read("ERROR_COMMAND") == bench.tag - 1
        for name in ("ERROR_ADDRESS_LOW", "ERROR_ADDRESS_HIGH"):
            if code != ErrorCode.BAD_RANGE:
                assert await bench.read(name) == bench.model.read_register(MODEL[name]), (name, scenario.command)
        if code != ErrorCode.BAD_RANGE:
            assert bytes(bench.memory.read(0, SPAN)) == before, "something was written"
        await bench.write("ERROR_CODE", 0)
        bench.model.write_register(MODEL["ERROR_CODE"], 0)
        assert await bench.read("QUEUE_STATUS") == PARAMETERS.queue_rows << 16
        await bench.check(bench.random.choice([o for o in ALL if o != Operation.INSERT]), 30)


@cocotb.test()
@cocotb.parametrize(response=[AxiResp.SLVERR, AxiResp.DECERR], share=[0.0, 0.2, 0.6] if COVERAGE else [0.2])
async def errors_of_the_memory(dut, response, share):
    bench = KernelBench(dut, share)
    await bench.start()
    code = ErrorCode.MEMORY_ERROR if response == AxiResp.SLVERR else ErrorCode.DECODE_ERROR
    bench.response = response
    hit = 0
    for operation, choices in (
        (Operation.MERGE, {}),
        (Operation.INDEX, {}),
        (Operation.PROBE, {}),
        *(
            (operation, {"probe": probe})
            for operation in (Operation.GATHER, Operation.COUNT)
            for probe in (False, True)
        ),
        (Operation.COPY, {}),
        *([(Operation.INSERT, {})] if COVERAGE else []),
    ):
        for array in ("keys_a", "rows_a", "keys_b", "rows_b", "keys_out", "rows_out", "index_out"):
            probing = operation == Operation.PROBE or choices.get("probe")
            if probing and not bench.scenarios.indexed:
                await bench.check(Operation.INDEX, 60)
            scenario = bench.scenarios.make(operation, 60, **choices)
            if operation == Operation.INDEX:  # which this may leave without its index
                bench.scenarios.indexed = {}
            if operation == Operation.INSERT:
                bench.scenarios.buffered = 0
            address = getattr(scenario.command, array)
            places = {at: content.nbytes for at, content in scenario.writes} | dict(scenario.results)
            if scenario.merged:
                places[scenario.merged[1]] = 4 * scenario.merged[2]
            if address not in places:
                continue
            bench.put(scenario)
            await bench.push(scenario.command)
            bench.bad = range(address, address + places[address])
            await bench.write("CONTROL", 1)
            await bench.done()
            bench.bad = range(0)
            found = await bench.read("ERROR_CODE")
            if found == ErrorCode.NONE:  # these are read only where something is asked of them
                assert (operation, array) in {
                    (Operation.INDEX, "keys_a"),
                    (Operation.INDEX, "keys_b"),
                    (Operation.PROBE, "rows_a"),
                    (Operation.PROBE, "keys_out"),
                    (Operation.GATHER, "rows_a"),
                    (Operation.COUNT, "rows_a"),
                    (Operation.GATHER, "keys_out"),
                }, (operation, array)
            else:
                hit += 1
                assert found == code, (operation, array, found)
                low = await bench.read("ERROR_ADDRESS_LOW")
                if choices.get("probe") and array == "index_out":  # limits come with the keys of lower bounds
                    address = scenario.command.keys_b
                assert low | await bench.read("ERROR_ADDRESS_HIGH") << 32 == address
            await bench.write("ERROR_CODE", 0)
            bench.model.write_register(MODEL["ERROR_CODE"], 0)
            await bench.check(Operation.DISCARD if operation == Operation.INSERT else Operation.MERGE, 20)
    assert hit > 15


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2, 0.6] if COVERAGE else [0.0])
async def runs_that_are_not_sorted(dut, share):
    """Or batches: they may come out wrong, or be found out; the kernel goes on."""
    bench = KernelBench(dut, share)
    await bench.start()
    await bench.check(Operation.INDEX, 60)
    for operation in [Operation.MERGE] * 4 + (4 * list(BATCHES) if COVERAGE else []):
        choices = {"probe": True} if operation in (Operation.GATHER, Operation.COUNT) else {}
        scenario = bench.scenarios.make(operation, bench.random.choice((30, 150)) if COVERAGE else 150, **choices)
        wrong = (scenario.command.keys_a, scenario.command.keys_b, scenario.command.rows_b)
        wrong = wrong[1:] if operation in PROBING else wrong[:2]
        scenario.writes = [
            (at, bench.scenarios.rng.permutation(content)) if at in wrong else (at, content)
            for at, content in scenario.writes
        ]
        bench.put(scenario)
        await bench.push(scenario.command)
        await bench.write("CONTROL", 1)
        await bench.done()
        assert await bench.read("ERROR_CODE") in (ErrorCode.NONE, ErrorCode.STUCK)
        await bench.write("ERROR_CODE", 0)
        bench.model.write_register(MODEL["ERROR_CODE"], 0)
        await bench.check(Operation.MERGE, 60)


@cocotb.test()
@cocotb.parametrize(
    operation=MOVING if COVERAGE else [Operation.MERGE],
    channels=["rb", "b"] if COVERAGE else ["rb"],
    share=[0.0, 0.6] if COVERAGE else [0.0],
)
async def a_memory_that_never_answers(dut, operation, channels, share):
    """It is reported, again and again, and nothing hangs."""
    if channels == "b" and operation not in WRITING:
        return  # it writes nothing
    bench = KernelBench(dut, share)
    await bench.start()
    await bench.check(Operation.INDEX, 60)
    await bench.write("TIMEOUT_CYCLES", 300)
    scenario = bench.scenarios.make(operation, 200 if COVERAGE else 60)
    bench.put(scenario)
    await bench.push(scenario.command)
    bench.withhold(channels)
    await bench.write("CONTROL", 1)
    await bench.done_but_not_idle()
    assert await bench.read("ERROR_CODE") == ErrorCode.TIMEOUT
    assert await bench.read("ERROR_COMMAND") == bench.tag
    await bench.write("ERROR_CODE", 0)
    assert await bench.read("ERROR_CODE") == ErrorCode.TIMEOUT
    await bench.push(scenario.command)
    await bench.write("CONTROL", 1)
    await bench.done_but_not_idle()
    assert await bench.read("ERROR_CODE") == ErrorCode.TIMEOUT


@cocotb.test()
async def a_memory_that_never_answers_behind_an_error(dut):
    bench = KernelBench(dut, 0)
    await bench.start()
    await bench.write("TIMEOUT_CYCLES", 300)
    content = np.zeros(2000, np.uint8)
    bench.memory.write(0, content.tobytes())
    bench.bad = range(500, 600)
    cocotb.start_soon(bench.withhold_behind_an_error(PORTS))
    await bench.push(Command(operation=Operation.COPY, length_a=content.nbytes, keys_a=0, keys_out=1 << 12))
    await bench.write("CONTROL", 1)
    await bench.done_but_not_idle()
    assert await bench.read("ERROR_CODE") == ErrorCode.TIMEOUT


@cocotb.test()
async def every_register(dut):
    """Can be read, and keeps what may be set; a 0 starts nothing."""
    bench = KernelBench(dut, 0)
    await bench.start()
    given = {register.name: 3 for register in BISORT.registers() if register.access is Access.WRITE}
    for name, value in given.items():
        await bench.write(name, value)
    await bench.write("CONTROL", 0)
    for register in BISORT.registers():
        value = await bench.read(register.name)
        assert value == given.get(register.name, value), register.name
    assert await bench.read("CONTROL") == 0b0100


@cocotb.test(skip=not COVERAGE)
async def an_index_at_every_place(dut):
    bench = KernelBench(dut, 0)
    await bench.start()
    for place in range(RUN_PLACES):
        scenario = bench.scenarios.make(Operation.INDEX, 20)
        scenario.command = replace(scenario.command, length_b=place)
        bench.put(scenario)
        await bench.push(scenario.command)
        assert await bench.work() == ErrorCode.NONE


@cocotb.test(skip=not COVERAGE)
@cocotb.parametrize(share=[0.0, 0.6])
async def long_commands(dut, share):
    """Long enough that what waits for memory fills all that is before it."""
    bench = KernelBench(dut, share)
    await bench.start()
    for _ in range(3):
        for operation in (Operation.INSERT, Operation.INDEX, Operation.INDEX, *PROBING, *PROBING, *PROBING):
            await bench.check(operation, 600)
        await bench.check(Operation.MERGE, 600)


@cocotb.test(skip=PARAMETERS.lanes == 1)
async def lanes_work_at_the_same_time(dut):
    """Each has registers, a queue and memory of its own."""
    bench = KernelBench(dut, 0.2)
    await bench.start()
    ours = bench.scenarios.make(Operation.MERGE, 150)
    bench.put(ours)
    await bench.push(ours.command)
    # The first lane copies, on its first channel.
    content = bench.random.randbytes(3000)
    bench.others.write(0, content)
    copy = Command(operation=Operation.COPY, length_a=3000, keys_a=0, keys_out=4096)
    for word in copy.words(7):
        await bench.host.write_dword(MODEL["QUEUE_PUSH"], word)
    await bench.host.write_dword(MODEL["CONTROL"], 1)
    assert await bench.work() == ErrorCode.NONE
    assert not bench.differs(ours)
    while not await bench.host.read_dword(MODEL["CONTROL"]) & 2:
        pass
    assert await bench.host.read_dword(MODEL["COMPLETED_TAG"]) == 7
    assert await bench.host.read_dword(MODEL["ERROR_CODE"]) == ErrorCode.NONE
    assert bytes(bench.others.read(4096, 3000)) == content
    assert await bench.read("COMPLETED_TAG") == bench.tag
