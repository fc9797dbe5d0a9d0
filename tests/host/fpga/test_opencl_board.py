"""The way to a kernel behind an OpenCL shell, with the model in C in place of the RTL module."""

import dataclasses

import numpy as np
import pytest

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.opencl import KERNEL
from muntin.contract.registers import Command, Operation
from muntin.host.devices.opencl_device import OpenClDevice, cl
from muntin.host.errors import DeviceError, KernelError
from muntin.host.fpga.driver import KernelDriver
from muntin.host.fpga.opencl import OpenClBoard, model_program, model_source, open_opencl_model
from muntin.sim.models.kernel import KernelModel
from tests.hw.bisort.kernel_scenarios import Scenarios, same

TINY = dataclasses.replace(Parameters.preset("tiny"), address_bits=20, channels=2)
BUILDS = {
    "tiny": TINY,
    "one_channel": dataclasses.replace(TINY, channels=1, address_bits=19),
    "wide_keys": dataclasses.replace(TINY, key_bits=64, data_bits=256, width=4),
    "de5a": dataclasses.replace(Parameters.preset("de5a"), address_bits=20, burst_bytes=1024),
}
OFFSET = {register.name: register.offset for register in BISORT.registers()}
MODELLED = ("commands", "rows_in", "rows_out")


@pytest.fixture(scope="module", autouse=True)
def opencl():
    try:
        OpenClDevice.cl_devices()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(params=BUILDS)
def parameters(request):
    return BUILDS[request.param]


@pytest.fixture
def board(parameters):
    memory_bytes = 1 << (parameters.address_bits - 1)  # of half of the addresses there is none
    with open_opencl_model(parameters, memory_bytes) as board:
        board.reset()
        yield board


class Twin:
    """The board and the kernel's model, given the same."""

    def __init__(self, board, seed):
        p = board.parameters
        self.board = board
        self.model = KernelModel(p, board.memory_bytes)
        self.key = np.dtype(np.uint32 if p.key_bits == 32 else np.uint64)
        self.scenarios = Scenarios(p, seed, (1 << p.address_bits) // p.channels // 2)
        self.tag = 0

    def run(self, *commands):
        for link in (self.board, self.model):
            for at, command in enumerate(commands):
                link.push_words(OFFSET["QUEUE_PUSH"], command.words(self.tag + at))
            link.write_registers([(OFFSET["CONTROL"], 1)])
            link.wait()
        self.tag += len(commands)
        self.same_registers()

    def same_registers(self):
        for name in ("CONTROL", "ERROR_CODE", "ERROR_COMMAND", "ERROR_ADDRESS_LOW", "ERROR_ADDRESS_HIGH"):
            assert self.board.read_registers([OFFSET[name]])[0] == self.model.read_registers([OFFSET[name]])[0], name
        for name in ("QUEUE_STATUS", "COMPLETED_TAG", "COMPLETED_COUNT", "INTERRUPT_STATUS"):
            assert self.board.read_registers([OFFSET[name]])[0] == self.model.read_registers([OFFSET[name]])[0], name

    def check(self, operation, rows):
        scenario = self.scenarios.make(operation, rows)
        for address, content in scenario.writes:
            for link in (self.board, self.model):
                link.write_memory(address, content)
        self.run(scenario.command)
        differs = same(scenario, self.key, self.board.read_memory, self.model.read_memory)
        assert not differs, (differs, scenario.command)


def test_the_model_in_c_is_the_model(board, seed):
    twin = Twin(board, seed)
    for _ in range(12):
        for operation in BISORT.operations:
            twin.check(operation, 90)
    for name, _ in BISORT.counters:
        low, high = (board.read_registers([OFFSET[f"{name.upper()}_{end}"]])[0] for end in ("LOW", "HIGH"))
        assert low | high << 32 == (twin.model.counters[name] if name in MODELLED else 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": 99},
        {"operation": Operation.MERGE, "length_a": 1},
        {"operation": Operation.INDEX, "length_a": 1 << 31},
        {"operation": Operation.INDEX, "length_a": 1, "length_b": 64},
        {"operation": Operation.PROBE, "length_b": 1},
        {"operation": Operation.PROBE, "length_b": 1, "keys_a": 1 << 63},
        {"operation": Operation.COPY, "length_a": 4, "keys_a": 1},
        {"operation": Operation.COPY, "length_a": 4, "keys_out": 1 << 40},
        {"operation": Operation.COPY, "length_a": (1 << 18) + 64},  # beyond a channel's memory
        {"operation": Operation.INSERT, "length_a": 4096},
        {"operation": Operation.MERGE, "length_a": 1, "length_b": 1, "buffer": True},
        {"operation": Operation.INDEX, "length_a": 1, "index_out": 1 << 20},
        {"operation": Operation.INDEX, "length_a": 1, "index_out": (1 << 64) - 1},
    ],
)
def test_errors_are_those_of_the_model(board, seed, wrong):
    twin = Twin(board, seed)
    good = Command(operation=Operation.NOP)
    twin.run(good, Command(**wrong), good)
    assert board.read_registers([OFFSET["ERROR_CODE"]])[0]
    twin.run()  # nothing is begun
    for link in (twin.board, twin.model):
        link.write_registers([(OFFSET["ERROR_CODE"], 1)])
    twin.same_registers()
    twin.check(Operation.MERGE, 30)


@pytest.mark.parametrize("operation", [Operation.MERGE, Operation.PROBE, Operation.GATHER])
def test_wrong_data_is_reported_as_by_the_model(board, seed, operation):
    twin = Twin(board, seed)
    twin.check(Operation.INDEX, 40)
    scenario = twin.scenarios.make(operation, 40)
    while scenario.command.length_b < 4:
        scenario = twin.scenarios.make(operation, 40)
    for address, content in scenario.writes:
        for link in (board, twin.model):
            link.write_memory(address, content)
    keys = np.arange(scenario.command.length_b, 0, -1).astype(twin.key)  # falling keys; starts behind their stops
    for link in (board, twin.model):
        link.write_memory(scenario.command.keys_b, keys)
    twin.run(dataclasses.replace(scenario.command, signed=False))
    assert board.read_registers([OFFSET["ERROR_CODE"]])[0]


def test_a_queue_that_overflows(board, seed):
    twin = Twin(board, seed)
    twin.run(*[Command(operation=Operation.NOP)] * (board.parameters.queue_rows + 2))
    for link in (board, twin.model):
        link.push_words(OFFSET["QUEUE_PUSH"], [1, 2, 3])
    twin.same_registers()


def test_the_driver_knows_the_build(board):
    assert KernelDriver(board, "board").queue_rows == board.parameters.queue_rows
    other = dataclasses.replace(board.parameters, turn_bytes=2 * board.parameters.turn_bytes)
    with (
        OpenClBoard(model_program(other), board.parameters, board.memory_bytes) as wrong,
        pytest.raises(DeviceError, match="PARAMETER_HASH"),
    ):
        KernelDriver(wrong, "board")


def test_a_failed_command_names_what_failed(board):
    driver = KernelDriver(board, "board")
    with pytest.raises(KernelError, match=r"COPY at address 0x1: .*not a multiple of the memory beat"):
        driver.run([Command(operation=Operation.COPY, length_a=4, keys_a=1)])


def test_the_kernel_takes_what_the_host_gives(parameters):
    program = cl.Program(model_program(parameters).context, model_source(parameters))
    # Of a program from pyopencl's cache, which is binary, not every driver knows the arguments.
    kernel = cl.Kernel(program.build(["-cl-std=CL1.2", "-cl-kernel-arg-info"], cache_dir=False), KERNEL)
    info = cl.kernel_arg_info
    found = [
        (kernel.get_arg_info(at, info.NAME), kernel.get_arg_info(at, info.TYPE_NAME)) for at in range(kernel.num_args)
    ]
    memories = [(f"memory_{channel}", "char*") for channel in range(parameters.channels)]
    assert found == [*memories, ("state", "char*"), ("requests", "ulong*"), ("count", "uint"), ("results", "uint*")]


def test_a_kernel_of_other_channels_is_refused():
    other = dataclasses.replace(TINY, channels=1)
    with pytest.raises(DeviceError, match=f"{KERNEL} takes 5 arguments, not 6"):
        OpenClBoard(model_program(other), TINY, 1 << 16)


def test_a_program_without_the_kernel_is_refused():
    program = model_program(TINY)
    empty = cl.Program(program.context, "__kernel void other(void) {}").build()
    with pytest.raises(DeviceError, match="cannot be used"):
        OpenClBoard(empty, TINY, 1 << 16)


def test_too_much_memory_is_refused():
    with pytest.raises(DeviceError, match=r"buffers of at most .* needs one of"):
        OpenClBoard(model_program(TINY), TINY, 1 << 50)


def test_memory_that_is_not_there(board):
    with pytest.raises(OSError, match="no memory for 8 bytes"):
        board.read_memory(board.memory_bytes // board.parameters.channels, 8)


def test_what_is_written_to_registers_comes_before_memory_is_read(board):
    content = np.arange(64, dtype=np.uint8)
    board.write_memory(0, content)
    to = 4096
    board.push_words(OFFSET["QUEUE_PUSH"], Command(operation=Operation.COPY, length_a=64, keys_out=to).words(1))
    board.write_registers([(OFFSET["CONTROL"], 1)])
    assert (board.read_memory(to, 64) == content).all()


def test_several_lanes_have_no_model():
    with pytest.raises(ParameterError, match="lanes must be 1"):
        model_source(dataclasses.replace(TINY, lanes=2))
