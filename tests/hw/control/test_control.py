"""The registers of a kernel, on a bus with random stalls."""

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from hw.control.control_registers import ControlRegisters
from sim.block_runner import run_bench


def test_control_registers(seed):
    run_bench(ControlRegisters(), "control_registers", "tests.hw.control.cocotb_control_registers", seed=seed)
