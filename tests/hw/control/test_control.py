"""The registers of a kernel, on a bus with random stalls."""

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from muntin.contract.designs.bisort import BISORT
from muntin.contract.designs.splitjoin import SPLITJOIN
from muntin.hw.control.control_registers import ControlRegisters
from muntin.sim.block_runner import run_bench


@pytest.mark.parametrize("name", ["BISORT", "SPLITJOIN"])
def test_control_registers(name, seed):
    kernel = {"BISORT": BISORT, "SPLITJOIN": SPLITJOIN}[name]
    run_bench(
        ControlRegisters(kernel),
        f"control_registers_{name.lower()}",
        "tests.hw.control.cocotb_control_registers",
        seed=seed,
        kernel=name,
    )
