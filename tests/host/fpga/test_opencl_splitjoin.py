"""SplitJoin behind an OpenCL shell, with the model in C in place of the RTL module, against the model row by row."""

import dataclasses
import random
from collections import Counter

import pytest

from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SPLITJOIN, SplitJoinParameters
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.host.devices.opencl_device import OpenClDevice
from muntin.host.errors import DeviceError
from muntin.host.fpga.driver import KernelDriver
from muntin.host.fpga.opencl import open_opencl_model
from muntin.host.fpga.splitjoin import SplitJoinBoard
from muntin.host.selftest import selftest
from muntin.sim.models.splitjoin import SplitJoin
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.hw.benches.join_cases import cases
from tests.hw.benches.order_monitor import check_order
from tests.sim.test_splitjoin_kernel_model import results_of, rows_of

TINY = SplitJoinParameters.preset("tiny")
OFFSETS = {register.name: register.offset for register in SPLITJOIN.registers()}


@pytest.fixture(scope="module", autouse=True)
def opencl():
    try:
        OpenClDevice.cl_devices()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("memory", [512, 1 << 16])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"cores": 1, "lanes": 1},
        {"key_bits": 64, "time_bits": 64, "data_bits": 512},
        {"key_bits": 64, "time_bits": 0, "bounds": 0},
    ],
    ids=str,
)
def test_the_model_in_c_is_the_model(change, memory, seed):
    """All orders, windows and predicates, with room for a handful of results, and for all."""
    p = dataclasses.replace(TINY, rows=4, **change)
    rng = random.Random(f"{seed} {change} {memory}")
    size = {name: getattr(p, name) for name in ("cores", "rows", "key_bits", "time_bits", "bounds")}
    with open_opencl_model(p, memory) as link:
        board = SplitJoinBoard(link, "test")
        for case in cases(rng, **size, count=24, length=80):
            board.configure(case.settings)
            joined = board.join(rows_of(case.rows))
            model = SplitJoin(case.settings, cores=p.cores, rows=p.rows)
            expected = [(side, result) for side, results in enumerate(model.take(case.rows)) for result in results]
            found = results_of(joined.results)
            assert Counter(found) == Counter(expected), case.settings
            check_order(case.rows, case.settings, found, cores=p.cores)
            assert joined.overflow == model.overflow
            assert joined.dead_core is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": Operation.MERGE},
        {"length_b": 0},
        {"length_b": 1},  # less than a beat of results
        {"keys_a": 4},
        {"keys_out": 8},
        {"rows_out": 8},
        {"keys_out": 1 << 12},
        {"length_a": 1 << 20},
        {"length_a": 0, "keys_a": 4},  # which is not looked at
    ],
)
def test_errors_are_those_of_the_model(wrong):
    command = {"operation": Operation.JOIN, "length_a": 2, "length_b": 4, "keys_a": 256, "keys_out": 512} | wrong
    with open_opencl_model(TINY, 1 << 12) as link:
        link.reset()
        model = SplitJoinKernelModel(TINY, 1 << 12)
        for board in (link, model):
            board.push_words(OFFSETS["QUEUE_PUSH"], Command(**command).words(7))
            board.write_registers([(OFFSETS["CONTROL"], 1)])
            board.wait()
        for name in ("ERROR_CODE", "ERROR_COMMAND", "ERROR_ADDRESS_LOW", "QUEUE_STATUS", "COMPLETED_COUNT"):
            assert link.read_registers([OFFSETS[name]])[0] == model.read_registers([OFFSETS[name]])[0], name
        assert (link.read_registers([OFFSETS["ERROR_CODE"]])[0] == ErrorCode.NONE) == (wrong.get("length_a") == 0)


def test_settings_are_read_back_and_reset():
    with open_opencl_model(TINY, 1 << 12) as link:
        link.reset()
        for number, register in enumerate(SPLITJOIN.settings):
            link.write_registers([(register.offset, 1000 + number)])
        found = [link.read_registers([register.offset])[0] for register in SPLITJOIN.settings]
        assert found == [1000 + number for number in range(len(found))]
        link.reset()
        assert not any(link.read_registers([register.offset])[0] for register in SPLITJOIN.settings)


def test_another_kernel_is_found_out():
    with open_opencl_model(TINY, 1 << 12) as link:
        link.reset()
        link.parameters = Parameters.preset("tiny")  # what it is taken for
        with pytest.raises(DeviceError, match="load a BI-Sort kernel of this version onto the board"):
            KernelDriver(link, "test")


def test_a_selftest_of_the_simulated_board():
    lines = list(selftest("sim:de5a:design=splitjoin", hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]
    assert "windows of at most 65,536 rows" in lines[0]
