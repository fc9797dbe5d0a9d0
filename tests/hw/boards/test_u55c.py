"""What is written for the Alveo U55C, as far as it can be tested without the vendor's tools."""

import configparser
import dataclasses
import functools
import json
import os
from xml.etree import ElementTree

import pytest

pytest.importorskip("amaranth")

from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.opencl import KERNEL, VITIS, argument_map, kernels
from muntin.contract.registers import SETTINGS_BASE
from muntin.hw.boards.build import build
from muntin.hw.boards.data.u55c import BUILD as BOARD
from muntin.hw.boards.tools import BuildError, Steps, ToolMissingError
from muntin.hw.boards.vitis_board import DESCRIPTION, LINK, OBJECT, SOURCE, VitisBoard
from tests.hw.de5a.test_de5a import stand_in
from tests.hw.de5a.tools import black_box, joined, lint, other_side, ports_of

_DATA = {field.name: getattr(BOARD, field.name) for field in dataclasses.fields(BOARD)}
_DESIGNS = {
    "bisort": dataclasses.replace(Parameters.preset("tiny"), lanes=2, address_bits=29),
    "splitjoin": SplitJoinParameters.preset("tiny"),
}


class Small(VitisBoard):
    """The card with small kernels, each turned into Verilog once."""

    def files(self, design, steps):
        return _small_files(design)


SMALL = Small(**{**_DATA, "parameters": _DESIGNS})


@functools.cache
def _small_files(design):
    return VitisBoard.files(SMALL, design, Steps())


WHOLE = [pytest.param(("whole", design), marks=pytest.mark.full) for design in BOARD.designs]


@pytest.fixture(
    scope="module", params=[("small", "bisort"), ("small", "splitjoin"), *WHOLE], ids=lambda param: "-".join(param)
)
def made(request, tmp_path_factory):
    """The folder of a design, and what it is built with."""
    size, design = request.param
    card, folder = SMALL if size == "small" else BOARD, tmp_path_factory.mktemp(design)
    files = _small_files(design) if card is SMALL else card.files(design, Steps())
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder, card.parameters[design]


# What each element of kernel.xml has, and may have in it (UG1702, "RTL Kernel XML File").
ELEMENTS = {
    "root": ({"versionMajor", "versionMinor"}, {"kernel"}),
    "kernel": (
        {"name", "language", "vlnv", "attributes", "preferredWorkGroupSizeMultiple", "workGroupSize", "interrupt"}
        | {"hwControlProtocol"},
        {"ports", "args"},
    ),
    "ports": (set(), {"port"}),
    "port": ({"name", "mode", "range", "dataWidth", "portType", "base"}, set()),
    "args": (set(), {"arg"}),
    "arg": (
        {"name", "addressQualifier", "id", "port", "size", "offset", "type", "hostOffset", "hostSize"},
        set(),
    ),
}


def described(folder):
    root = ElementTree.parse(folder / DESCRIPTION).getroot()
    ports = {port.get("name"): port for port in root.iter("port")}
    return root, ports, list(root.iter("arg"))


def test_the_description_has_what_the_guide_lists(made):
    folder, parameters = made
    root, ports, args = described(folder)
    for element in root.iter():
        attributes, children = ELEMENTS[element.tag]
        assert set(element.attrib) == attributes, element.tag
        assert {child.tag for child in element} <= children, element.tag
    assert root.find("kernel").get("name") == KERNEL
    # The arguments are those of the OpenCL kernel that other shells compile: the host sets the same.
    signature = kernels(parameters).partition(f"__kernel void {KERNEL}(")[2].partition(")")[0].split(",")
    assert [arg.get("name") for arg in args] == [each.split()[-1] for each in signature]
    assert [arg.get("addressQualifier") == "1" for arg in args] == ["*" in each for each in signature]
    assert [int(arg.get("id")) for arg in args] == list(range(len(args)))
    spans = []
    for arg in args:
        port, size, offset = ports[arg.get("port")], int(arg.get("size"), 0), int(arg.get("offset"), 0)
        assert (port.get("mode") == "master", size) == ((True, 8) if arg.get("addressQualifier") == "1" else (False, 4))
        assert arg.get("hostSize") == arg.get("size")
        spans += range(offset, offset + size)
    assert len(spans) == len(set(spans))
    registers = argument_map(parameters)
    assert sorted(spans) == [at for each in registers.settings for at in range(each.offset, each.offset + 4)]
    assert SETTINGS_BASE <= max(spans) < int(ports["s_axi_control"].get("range"), 0)


def test_the_kernel_has_the_ports_of_its_description(made):
    folder, _ = made
    _, described_ports, _ = described(folder)
    found = ports_of((folder / SOURCE).read_text(), KERNEL)
    widths = {name: (way, width) for way, name, width in found}
    # The names that the packager knows, and the widths that Vitis prescribes.
    assert (widths.pop("ap_clk"), widths.pop("ap_rst_n")) == (("input", 1), ("input", 1))
    assert widths.pop("interrupt") == ("output", 1)
    for name, port in described_ports.items():
        own = {port_: widths.pop(port_) for port_ in list(widths) if port_.startswith(f"{name}_")}
        ways = {port_.removeprefix(f"{name}_"): way for port_, (way, _) in own.items()}
        sizes = {port_.removeprefix(f"{name}_"): width for port_, (_, width) in own.items()}
        data = int(port.get("dataWidth"))
        assert (sizes["wdata"], sizes["rdata"], sizes["wstrb"]) == (data, data, data // 8)
        if port.get("mode") == "master":
            assert (sizes["araddr"], sizes["awaddr"], sizes["arlen"], sizes["arsize"]) == (64, 64, 8, 3)
            assert (sizes["arcache"], sizes["awprot"]) == (4, 3)
            assert (ways["arvalid"], ways["rvalid"], ways["bready"]) == ("output", "input", "output")
        else:
            assert (ways["arvalid"], ways["rvalid"], ways["bready"]) == ("input", "output", "input")
            assert sizes["araddr"] <= 12
    assert not widths, "a port of no interface"
    nets = {name: (f"n_{name}", width) for _, name, width in found}
    shell = black_box("shell", other_side(found))
    (folder / "shell.v").write_text(shell + joined("top", [(KERNEL, nets), ("shell", nets)]))
    assert not lint(folder, "shell.v", SOURCE, top="top")


def test_each_lane_has_a_channel_of_its_own(made):
    folder, parameters = made
    config = configparser.ConfigParser(strict=False, delimiters=("=",))
    pairs = [
        line.removeprefix("sp=").split(":") for line in (folder / LINK).read_text().splitlines() if line[:3] == "sp="
    ]
    config.read_string((folder / LINK).read_text())
    places = {argument.partition(".")[2]: channel for argument, channel in pairs}
    lanes = getattr(parameters, "lanes", 1) if isinstance(parameters, Parameters) else 1
    assert [places[f"memory_{lane}"] for lane in range(lanes)] == [f"HBM[{lane}]" for lane in range(lanes)]
    assert {places[name] for name in ("state", "requests", "results")} == {f"HBM[{lanes}]"}
    _, _, args = described(folder)
    assert set(places) == {arg.get("name") for arg in args if arg.get("addressQualifier") == "1"}
    assert config["clock"]["freqhz"] == f"{parameters.clock_hz}:{KERNEL}_1"


def test_the_script_packs_what_is_there(made):
    folder, _ = made
    tcl = pytest.importorskip("tkinter").Tcl()
    ran = []
    commands = ["create_project", "add_files", "set_property", "update_compile_order", "package_xo", "current_fileset"]
    commands += [f"ipx::{name}" for name in ("package_project", "current_core", "associate_bus_interfaces")]
    commands += [
        f"ipx::{name}" for name in ("remove_bus_parameter", "get_bus_interfaces", "update_checksums", "save_core")
    ]
    tcl.eval("namespace eval ipx {}")
    for name in commands:
        tcl.createcommand(name, lambda *given, name=name: ran.append((name, given)) or name)
    tcl.eval((folder / "package.tcl").read_text())
    by_name = {}
    for name, given in ran:
        by_name.setdefault(name, []).append(given)
    assert (folder / by_name["add_files"][0][-1]).is_file()
    (packed,) = by_name["package_xo"]
    options = dict(zip(packed[1::2], packed[2::2], strict=True))
    assert (options["-kernel_name"], options["-xo_path"]) == (KERNEL, OBJECT)
    assert (folder / options["-kernel_xml"]).is_file()
    clocked = {
        dict(zip(given[0::2], given[1::2], strict=False))["-busif"]
        for given in by_name["ipx::associate_bus_interfaces"]
    }
    assert clocked == set(described(folder)[1])
    assert ran[-1][0] == "package_xo"


def test_without_the_tools_everything_is_written_and_they_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for design in SMALL.designs:
        with pytest.raises(ToolMissingError, match=r"vivado, v\+\+ not found.*sh build.sh") as caught:
            build(SMALL, design, root=tmp_path / "builds")
        (folder,) = (tmp_path / "builds").glob(f"u55c-{design}-*")
        assert str(folder) in str(caught.value)
        assert (":design=splitjoin" in str(caught.value)) == (design == "splitjoin")
        assert {path.name for path in folder.iterdir()} == set(SMALL.files(design, Steps()))


def test_with_the_tools_they_are_run_in_order(tmp_path, monkeypatch):
    stand_in(tmp_path, "vivado", f'echo vivado "$@" >> log; echo Vivado v2022.2; touch {OBJECT}')
    stand_in(tmp_path, "v++", f'echo v++ "$@" >> log; echo v++ 2022.2; touch {VITIS.binary}')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    folder = build(SMALL, "bisort", root=tmp_path / "builds")
    report = json.loads((folder / "report.json").read_text())
    assert report["bitstream"] == VITIS.binary
    assert report["tools"]["v++"] == "v++ 2022.2"
    assert [line.split()[0] for line in (folder / "log").read_text().splitlines()] == ["vivado", "v++"]
    assert f"--platform {BOARD.shell}" in (folder / "log").read_text()
    stand_in(tmp_path, "v++", 'echo "ERROR: no platform" >&2; exit 1')
    with pytest.raises(BuildError, match="no platform"):
        build(SMALL, "splitjoin", root=tmp_path / "builds")
