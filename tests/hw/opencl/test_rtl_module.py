"""The RTL module of Intel's OpenCL SDK and the RTL kernel of Vitis, at their own ports, against the kernel's model."""

import dataclasses

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotb")

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.opencl import Request, request
from muntin.hw.boards.linked_kernel import kernel_of
from muntin.hw.memory.avalon_writer import AvalonWriter
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.opencl.rtl_module import RtlModule
from muntin.hw.opencl.vitis_kernel import VitisKernel
from muntin.sim.block_runner import run_bench

TWO_CHANNELS = dataclasses.replace(Parameters.preset("tiny"), address_bits=18, channels=2)


def test_module_against_the_model(seed):
    run_bench(
        RtlModule(*kernel_of(TWO_CHANNELS), address_bits=24, wait_cycles=1 << 14, settle_cycles=128),
        "opencl_rtl_module",
        "tests.hw.opencl.cocotb_rtl_module",
        seed=seed,
        parameters=dataclasses.asdict(TWO_CHANNELS),
    )


def test_module_with_splitjoin_against_the_model(seed):
    # As few cores as make a tree: what is tried here is the way in and out.
    small = dataclasses.replace(
        SplitJoinParameters.preset("tiny"), cores=2, lanes=1, rows=4, time_bits=0, bounds=0, address_bits=18
    )
    run_bench(
        RtlModule(*kernel_of(small), address_bits=24, wait_cycles=1 << 14, settle_cycles=128),
        "opencl_rtl_splitjoin",
        "tests.hw.opencl.cocotb_rtl_splitjoin",
        seed=seed,
        parameters=dataclasses.asdict(small),
    )


def test_vitis_kernel_against_the_model(seed):
    two_lanes = dataclasses.replace(Parameters.preset("tiny"), address_bits=18, lanes=2)
    run_bench(
        VitisKernel(*kernel_of(two_lanes), two_lanes, wait_cycles=1 << 14),
        "opencl_vitis_kernel",
        "tests.hw.opencl.cocotb_vitis_kernel",
        seed=seed,
        parameters=dataclasses.asdict(two_lanes),
    )


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ParameterError, match="settle_cycles must be a power of two, not 100"):
        AvalonWriter(PortShape(), 32, settle_cycles=100)
    with pytest.raises(ParameterError, match="address_bits must lie in"):
        RtlModule(*kernel_of(TWO_CHANNELS), address_bits=65)


@pytest.mark.parametrize(
    ("arguments", "field"), [((Request.READ, 1 << 24), "offset"), ((Request.WRITE, 0, 1 << 32), "value")]
)
def test_a_request_that_does_not_fit_is_refused(arguments, field):
    with pytest.raises(OverflowError, match=field):
        request(*arguments)
