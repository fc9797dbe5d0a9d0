"""Cocotb tests of the SplitJoin kernel at its ports: registers on AXI4-Lite, memory on AXI4, both with stalls."""

import dataclasses
from collections import Counter

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from muntin.contract.designs.splitjoin import SPLITJOIN, Order, SplitJoinParameters
from muntin.contract.registers import Access, Command, ErrorCode, Operation
from muntin.sim.models.splitjoin import join_oracle
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from muntin.sim.stream_bench import settings
from tests.hw.benches.command_cells import COVERAGE, CommandCells, command_cross
from tests.hw.benches.join_cases import JoinCase, cases
from tests.hw.benches.order_monitor import check_order
from tests.hw.memory.memory_bench import MemoryBench
from tests.hw.splitjoin.kernel_join import OFFSETS, JoinCommand, Summary, records, result_bytes, results

SETTINGS = settings()
PARAMETERS = SplitJoinParameters(**SETTINGS["parameters"])
SIZE = {name: getattr(PARAMETERS, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds", "columns")}
PER_BEAT = PARAMETERS.beat_bytes // result_bytes(1)
ROWS_AT, SUMMARY_AT, RESULTS_AT = 0, 1 << 15, 1 << 16
ROOM = 1 << 12
JOIN = (Operation.JOIN,)
ERRORS = dict.fromkeys(
    (
        ErrorCode.ZERO_LENGTH,
        ErrorCode.MISALIGNED_ADDRESS,
        ErrorCode.ADDRESS_RANGE,
        ErrorCode.MEMORY_ERROR,
        ErrorCode.DECODE_ERROR,
        ErrorCode.TIMEOUT,
    ),
    JOIN,
)
NEVER = {ErrorCode.CORE_STUCK: "no core of this build can stop"}
CELLS = command_cross(SPLITJOIN.operations, ERRORS, JOIN, NEVER)


class KernelBench(MemoryBench):
    """The kernel, and a model that is given the same."""

    def __init__(self, dut, share):
        super().__init__(dut, ["axi__0"], ["axi__0"], share)
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "control_"), dut.clk, dut.rst)
        self.model = SplitJoinKernelModel(PARAMETERS, 1 << PARAMETERS.address_bits)
        self.cells = CommandCells(self, CELLS, ["axi__0"], share)

    async def start(self):
        await self.reset()
        for name, value in (("GLOBAL_INTERRUPT_ENABLE", 1), ("INTERRUPT_ENABLE", 1), ("TIMEOUT_CYCLES", 2000)):
            await self.write(name, value)

    async def write(self, name, value):
        await self.host.write_dword(OFFSETS[name], value)
        self.model.write_register(OFFSETS[name], value)

    async def read(self, name):
        return await self.host.read_dword(OFFSETS[name])

    def put(self, rows, room):
        """Writes rows; the JOIN of them."""
        if rows.size:
            self.memory.write(ROWS_AT, rows.tobytes())
        return JoinCommand(
            rows=len(rows), rows_at=ROWS_AT, room=room, results_at=RESULTS_AT, summary_at=SUMMARY_AT
        ).command

    async def push(self, command, tag=0):
        self.cells.push(command)
        for word in command.words(tag):
            await self.host.write_dword(OFFSETS["QUEUE_PUSH"], word)

    async def work(self, *commands):
        """Carries out commands; the error."""
        for tag, command in enumerate(commands):
            await self.push(command, tag)
        await self.host.write_dword(OFFSETS["CONTROL"], 1)
        await with_timeout(self._interrupt(), 1, "ms")
        await self.host.write_dword(OFFSETS["INTERRUPT_STATUS"], 1)
        assert await self.read("CONTROL") & 2
        code = ErrorCode(await self.read("ERROR_CODE"))
        self.cells.end(code)
        return code

    async def _interrupt(self):
        while not self.dut.irq.value:
            await RisingEdge(self.dut.clk)

    async def begin(self, now):
        words = now.words(PARAMETERS)
        del words["CORE_TIMEOUT_CYCLES"]  # which the tests set
        for name, value in words.items():
            if (await self.read(name)) != value:
                await self.write(name, value)

    def outcome(self):
        beat = bytes(self.memory.read(SUMMARY_AT, PARAMETERS.beat_bytes))
        summary = Summary.read(beat)
        raw = bytes(self.memory.read(RESULTS_AT, result_bytes(summary.results))) if summary.results else b""
        return summary, results(np.frombuffer(raw, np.uint32))

    async def join(self, case: JoinCase, room):
        """All results of a case, in JOINs with so much room."""
        rows = records(case.rows, PARAMETERS)
        await self.begin(case.settings)
        commands = [Command(operation=Operation.CLEAR)]
        found, taken = [], 0
        while True:
            assert await self.work(*commands, self.put(rows[taken:], room)) == ErrorCode.NONE
            summary, part = self.outcome()
            assert summary.results <= room
            assert not summary.incomplete
            commands = []
            taken += summary.rows
            found += part
            if summary.drained and taken == len(rows):
                return found, summary
            assert summary.results == room

    def expected(self, case: JoinCase):
        """What the model makes of it, with room for all."""
        self.model.write_register(OFFSETS["ERROR_CODE"], 0)
        rows = records(case.rows, PARAMETERS)
        if rows.size:
            self.model.write_memory(ROWS_AT, rows)
        join = JoinCommand(rows=len(rows), rows_at=ROWS_AT, room=ROOM, results_at=RESULTS_AT, summary_at=SUMMARY_AT)
        for command in (Command(operation=Operation.CLEAR), join.command):
            self.model.push_words(OFFSETS["QUEUE_PUSH"], command.words(0))
        self.model.write_register(OFFSETS["CONTROL"], 1)
        summary = Summary.read(self.model.read_memory(SUMMARY_AT, 16).tobytes())
        raw = self.model.read_memory(RESULTS_AT, result_bytes(summary.results))
        return results(raw.view(np.uint32)), summary


def some_cases(bench, count, length):
    return cases(bench.random, **SIZE, count=count, length=length)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3])
async def joins_as_the_model(dut, share):
    """With room for all, for one beat, and for some: all results of all JOINs are the model's, in order."""
    bench = KernelBench(dut, share)
    await bench.start()
    await bench.write("CORE_TIMEOUT_CYCLES", 300 if share else 0)
    for number, case in enumerate(some_cases(bench, 20 if COVERAGE and not share else 10, 40)):
        room = (ROOM, PER_BEAT, 4 * PER_BEAT)[number % 3]
        ours, summary = await bench.join(case, room)
        theirs, expected = bench.expected(case)
        assert Counter(ours) == Counter(theirs), case
        assert summary.overflow == expected.overflow
        check_order(case.rows, case.settings, ours, cores=PARAMETERS.cores)


@cocotb.test()
@cocotb.parametrize(response=[AxiResp.SLVERR, AxiResp.DECERR], share=[0.0, 0.2, 0.6] if COVERAGE else [0.2])
async def errors_of_the_memory(dut, response, share):
    """Each array's, in its middle or at its end: reported, and the windows are empty for the next JOIN."""
    bench = KernelBench(dut, share)
    await bench.start()
    bench.response = response
    case = next(
        case
        for case in some_cases(bench, 60, 40)
        if case.settings.order == Order.OUTER and len(case.rows) >= 40 and not case.settings.timed
    )
    await bench.begin(case.settings)
    theirs, _ = bench.expected(case)
    rows = records(case.rows, PARAMETERS)
    for bad, address in (
        (range(ROWS_AT + rows.nbytes // 2, ROWS_AT + rows.nbytes), ROWS_AT),
        (range(RESULTS_AT, RESULTS_AT + 64), RESULTS_AT),
        (range(SUMMARY_AT, SUMMARY_AT + 1), SUMMARY_AT),
    ):
        bench.bad = bad
        code = ErrorCode.MEMORY_ERROR if response == AxiResp.SLVERR else ErrorCode.DECODE_ERROR
        assert await bench.work(bench.put(rows, ROOM)) == code
        assert await bench.read("ERROR_ADDRESS_LOW") == address
        bench.bad = range(0)
        await bench.write("ERROR_CODE", 0)
        assert await bench.work(bench.put(rows, ROOM)) == ErrorCode.NONE
        assert Counter(bench.outcome()[1]) == Counter(theirs)
        assert await bench.work(Command(operation=Operation.CLEAR)) == ErrorCode.NONE


@cocotb.test()
@cocotb.parametrize(channels=["rb", "b"] if COVERAGE else ["rb"], share=[0.0, 0.6] if COVERAGE else [0.0])
async def a_memory_that_never_answers(dut, channels, share):
    """It is reported, again and again, and nothing hangs."""
    bench = KernelBench(dut, share)
    await bench.start()
    await bench.write("TIMEOUT_CYCLES", 300)
    case = next(case for case in some_cases(bench, 60, 40) if len(case.rows) >= 40)
    command = bench.put(records(case.rows, PARAMETERS), ROOM)
    bench.withhold(channels)
    assert await bench.work(command) == ErrorCode.TIMEOUT
    await bench.write("ERROR_CODE", 0)
    assert await bench.read("ERROR_CODE") == ErrorCode.TIMEOUT
    assert await bench.work(command) == ErrorCode.TIMEOUT


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.2] if COVERAGE else [0.2])
async def mistakes_of_the_host(dut, share):
    """Found before anything moves, with the array's address."""
    bench = KernelBench(dut, share)
    await bench.start()
    assert await bench.read("BUILD_ID") == SPLITJOIN.build_id
    assert await bench.read("BUILD_PARAMETERS") == SPLITJOIN.build_parameters(PARAMETERS)
    good = bench.put(np.zeros((4, 1), np.uint32), ROOM)
    beyond = 1 << PARAMETERS.address_bits
    for change, code, address in (
        ({"operation": Operation.PROBE}, ErrorCode.UNKNOWN_OPERATION, 0),
        ({"length_b": 0}, ErrorCode.ZERO_LENGTH, 0),
        ({"length_b": PER_BEAT - 1}, ErrorCode.ZERO_LENGTH, 0),
        ({"keys_a": 4}, ErrorCode.MISALIGNED_ADDRESS, 4),
        ({"rows_out": 8}, ErrorCode.MISALIGNED_ADDRESS, 8),
        ({"keys_out": beyond}, ErrorCode.ADDRESS_RANGE, beyond),
        ({"length_a": 0xFFFFFFFF}, ErrorCode.ADDRESS_RANGE, ROWS_AT),
    ):
        assert await bench.work(dataclasses.replace(good, **change)) == code, change
        assert await bench.read("ERROR_ADDRESS_LOW") == address
        assert await bench.read("ERROR_ADDRESS_HIGH") == 0
        await bench.write("ERROR_CODE", 0)
    for operation in (Operation.NOP, Operation.CLEAR):
        assert await bench.work(Command(operation=operation)) == ErrorCode.NONE
    for _ in range(PARAMETERS.queue_rows + 1):
        assert await bench.read("ERROR_CODE") == ErrorCode.NONE
        await bench.push(Command(operation=Operation.NOP))
    assert await bench.read("ERROR_CODE") == ErrorCode.QUEUE_OVERFLOW
    bench.cells.end(ErrorCode.QUEUE_OVERFLOW)
    assert not bench.bursts


@cocotb.test()
async def a_memory_that_never_answers_behind_an_error(dut):
    bench = KernelBench(dut, 0)
    await bench.start()
    await bench.write("TIMEOUT_CYCLES", 300)
    case = next(case for case in some_cases(bench, 60, 40) if len(case.rows) >= 40)
    bench.bad = range(ROWS_AT + 300, ROWS_AT + 400)
    cocotb.start_soon(bench.withhold_behind_an_error(["axi__0"]))
    assert await bench.work(bench.put(records(case.rows, PARAMETERS), ROOM)) == ErrorCode.TIMEOUT


@cocotb.test()
async def every_register(dut):
    """Can be read, and keeps what may be set; a 0 starts nothing, and with auto_restart a push does."""
    bench = KernelBench(dut, 0)
    await bench.start()
    given = {register.name: 3 for register in SPLITJOIN.registers() if register.access is Access.WRITE}
    for name, value in given.items():
        await bench.write(name, value)
    await bench.write("CONTROL", 0)
    for register in SPLITJOIN.registers():
        value = await bench.read(register.name)
        assert value == given.get(register.name, value), register.name
    assert await bench.read("CONTROL") == 0b0100
    await bench.write("CONTROL", 0x80)
    await bench.push(Command(operation=Operation.NOP), tag=5)
    while not await bench.read("COMPLETED_COUNT"):
        pass
    assert await bench.read("COMPLETED_TAG") == 5
    assert await bench.read("COMMANDS_LOW") == 1
    await bench.write("COUNTER_CLEAR", 0)
    assert await bench.read("COMMANDS_LOW") == 0


@cocotb.test()
async def pairs_are_those_of_a_nested_loop(dut):
    bench = KernelBench(dut, 0.1)
    await bench.start()
    for case in some_cases(bench, 4, 60):
        found, summary = await bench.join(case, ROOM)
        expected = join_oracle(case.rows, case.settings)
        for side in (0, 1):
            pairs = [(result.probe, result.row) for which, result in found if which == side and result.row is not None]
            assert set(pairs) == expected[side] if not summary.overflow else set(pairs) <= expected[side]
            assert len(pairs) == len(set(pairs))
