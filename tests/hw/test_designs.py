"""A design is one module of data in contract/designs, and its gateware."""

import dataclasses
import re
import sys

import pytest

pytest.importorskip("amaranth")

import pyarrow as pa

import muntin.hw
from muntin import Band, Rows, WindowJoin
from muntin.contract import ParameterError
from muntin.contract import designs as package
from muntin.contract.design import design_of, designs
from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.host.devices.device import DeviceInfo
from muntin.host.fpga.device import FpgaDevice
from muntin.hw.boards.linked_kernel import kernel_of
from muntin.hw.conversion import to_rtlil
from muntin.sim.models.kernel_shell import open_model

DATA = """
import dataclasses
import re
from muntin.contract.design import Design
from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters

@dataclasses.dataclass(frozen=True, kw_only=True)
class ThirdParameters(Parameters):
    pass

THIRD = dataclasses.replace(BISORT, name="Third", build_id=0x4D554C39)
DESIGN = Design("third", ThirdParameters, THIRD, kernel="third:ThirdKernel", model="kernel:KernelModel", engine="runs")
TINY = ThirdParameters(**dataclasses.asdict(Parameters.preset("tiny")))
"""
GATEWARE = """
from muntin.hw.bisort.kernel import Kernel

class ThirdKernel(Kernel):
    pass
"""


def built(parameters):
    kernel, _ = kernel_of(parameters)
    return type(kernel).__name__, to_rtlil(kernel, "top")


def over_models(parameters):
    """A device over models of a design."""
    info = DeviceInfo("sim:third", "sim", "a third design", 1 << 20)
    return FpgaDevice(info, {"third": parameters}, lambda builds: open_model(builds["third"], memory_bytes=1 << 24))


def test_a_third_design_is_one_module_and_its_gateware(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/third.py").write_text(DATA)
    (tmp_path / "gateware").mkdir()
    (tmp_path / "gateware/third.py").write_text(GATEWARE)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "data")])
    monkeypatch.setattr(muntin.hw, "__path__", [*muntin.hw.__path__, str(tmp_path / "gateware")])
    designs.cache_clear()
    try:
        third = {design.name: design for design in designs().values()}["third"]
        assert third.registers.build_id != BISORT.build_id
        tiny = sys.modules["muntin.contract.designs.third"].TINY
        assert design_of(tiny) is third
        assert third.registers.build_parameters(tiny) == BISORT.build_parameters(Parameters.preset("tiny"))
        (name, gateware), (_, expected) = built(tiny), built(Parameters.preset("tiny"))
        assert name == "ThirdKernel"
        assert gateware == expected
        joined = [
            WindowJoin(on=Band("a", "b", -1, 1), left=Rows(9), right=Rows(9), device=device).process(
                pa.table({"a": range(20)}), pa.table({"b": range(20)})
            )
            for device in (over_models(dataclasses.replace(tiny, key_bits=64)), "numpy")
        ]
        assert joined[0] == joined[1]
        assert joined[0].num_rows > 20
    finally:
        designs.cache_clear()
        for name in ("muntin.contract.designs.third", "muntin.hw.third"):
            sys.modules.pop(name, None)


def test_parameters_of_no_design_are_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Others(Parameters):
        pass

    with pytest.raises(ParameterError, match="no design is built with Others: there are Parameters, SplitJoinParam"):
        design_of(Others(**dataclasses.asdict(Parameters.preset("tiny"))))


@pytest.mark.parametrize("parameters", [Parameters.preset("tiny"), SplitJoinParameters.preset("tiny")])
def test_no_read_of_block_ram_needs_what_is_written_to_its_place(parameters):
    """Such reads take logic, and Yosys refuses them where a collision gives no value."""
    _, text = built(parameters)
    masks = re.findall(r"parameter \\TRANSPARENCY_MASK \d+'([01]*)", text)
    assert len(masks) > 5
    assert not [mask for mask in masks if "1" in mask]
