"""What is written for the DE5a-Net, as far as can be told without the vendor's tools."""

import csv
import dataclasses
import functools
import json
import os
import re
from xml.etree import ElementTree

import pytest

pytest.importorskip("amaranth")

import itertools

from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.opencl import FUNCTION, HEADER, INTEL, KERNELS, MANIFEST, MODEL, MODULE, VERILOG
from muntin.hw.boards import build as build_module
from muntin.hw.boards.build import build
from muntin.hw.boards.data.de5a import BUILD as BOARD
from muntin.hw.boards.de5a_board import De5aBoard
from muntin.hw.boards.de5a_platform import CONSTRAINTS
from muntin.hw.boards.tools import BuildError, Steps, ToolMissingError
from muntin.hw.conversion import without_zeros
from tests.hw.de5a.tools import black_box, joined, lint, other_side, ports_of, read_component, read_system

_TINY = dataclasses.replace(Parameters.preset("tiny"), channels=2, address_bits=33)
_DATA = {field.name: getattr(BOARD, field.name) for field in dataclasses.fields(BOARD)}


class Small(De5aBoard):
    """The board with a small kernel, which is turned into Verilog once."""

    def files(self, design, steps):
        return _small_files(design)


@functools.cache
def _small_files(design):
    return De5aBoard.files(SMALL, design, Steps())


_DESIGNS = {
    "bisort": _TINY,
    "splitjoin": SplitJoinParameters.preset("tiny"),
    "bisort-quartus": _TINY,
    "splitjoin-quartus": SplitJoinParameters.preset("tiny"),
}
SMALL = Small(**{**_DATA, "parameters": _DESIGNS})
LIBRARIES = [
    ("small", "bisort"),
    ("small", "splitjoin"),
    pytest.param(("whole", "bisort"), marks=pytest.mark.full),
    pytest.param(("whole", "splitjoin"), marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=LIBRARIES, ids=lambda param: "-".join(param))
def library(request, tmp_path_factory):
    size, design = request.param
    return written(SMALL if size == "small" else BOARD, design, tmp_path_factory)


PROJECTS = [
    ("small", "bisort-quartus"),
    ("small", "splitjoin-quartus"),
    pytest.param(("whole", "bisort-quartus"), marks=pytest.mark.full),
    pytest.param(("whole", "splitjoin-quartus"), marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=PROJECTS, ids=lambda param: "-".join(param))
def project(request, tmp_path_factory):
    size, design = request.param
    return written(SMALL if size == "small" else BOARD, design, tmp_path_factory)


def written(board, design, tmp_path_factory):
    folder = tmp_path_factory.mktemp(design)
    for name, text in board.files(design, Steps()).items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def tcl():
    return pytest.importorskip("tkinter").Tcl()


other_tcl = tcl


# The RTL library

# Element: where Intel's programming guide (683846, 22.4) lists it, its attributes, and what may stand in it.
_FILE, _ATTRIBUTES, _INTERFACE = "11.1.2.7, table 13", "11.1.2.7.1, table 14", "11.1.2.7.2, tables 15 and 16"
_SETTINGS = (
    "IS_STALL_FREE",
    "IS_FIXED_LATENCY",
    "EXPECTED_LATENCY",
    "CAPACITY",
    "HAS_SIDE_EFFECTS",
    "ALLOW_MERGING",
)
ELEMENTS = {
    "RTL_SPEC": (_FILE, set(), {"FUNCTION"}),
    "FUNCTION": (
        _FILE,
        {"name", "module"},
        {"ATTRIBUTES", "INTERFACE", "C_MODEL", "REQUIREMENTS", "RESOURCES"},
    ),
    "ATTRIBUTES": (_FILE, set(), set(_SETTINGS)),
    "INTERFACE": (_FILE, set(), {"AVALON", "INPUT", "OUTPUT", "MEM_INPUT", "AVALON_MEM"}),
    "C_MODEL": (_FILE, set(), {"FILE"}),
    "REQUIREMENTS": (_FILE, set(), {"FILE"}),
    "FILE": (_FILE, {"name"}, set()),
    "AVALON": (_FILE, {"port", "type"}, set()),
    **{name: (_ATTRIBUTES, {"value"}, set()) for name in _SETTINGS},
    "INPUT": (_INTERFACE, {"port", "width"}, set()),
    "OUTPUT": (_INTERFACE, {"port", "width"}, set()),
    "MEM_INPUT": (_INTERFACE, {"port", "access"}, set()),
    "AVALON_MEM": (_INTERFACE, {"port", "width", "burstwidth", "optype", "buffer_location"}, set()),
}
# In the order of the example on that page.
ORDER = ("ATTRIBUTES", "INTERFACE", "C_MODEL", "REQUIREMENTS")
VALUES = {
    "access": {"readonly", "readwrite"},
    "optype": {"read", "write"},
    "type": {"clock", "resetn", "ivalid", "iready", "ovalid", "oready"},
    "width": {"8", "16", "32", "64", "128", "256", "512", "1024"},
}


def test_the_manifest_has_what_the_guide_lists(library):
    root = ElementTree.parse(library / MANIFEST).getroot()
    assert root.tag == "RTL_SPEC"
    for element in root.iter():
        assert element.tag in ELEMENTS, f"<{element.tag}> is on no page of the guide"
        page, attributes, children = ELEMENTS[element.tag]
        assert set(element.attrib) == attributes, (element.tag, page)
        assert {child.tag for child in element} <= children, (element.tag, page)
        for name, value in element.attrib.items():
            assert value in VALUES.get(name, {value}), (element.tag, name, value, page)
    assert tuple(element.tag for element in root.find("FUNCTION")) == ORDER
    assert {element.get("type") for element in root.iter("AVALON")} == VALUES["type"]
    for file in root.iter("FILE"):
        assert (library / file.get("name")).exists()
    # Table 14: each setting once, and what it says of a module that stalls, keeps a state and takes its time.
    settings = {element.tag: element.get("value") for element in root.find("FUNCTION/ATTRIBUTES")}
    assert len(root.find("FUNCTION/ATTRIBUTES")) == len(settings)
    assert set(settings) == set(_SETTINGS)
    assert {name: settings[name] for name in ("IS_STALL_FREE", "IS_FIXED_LATENCY")} == {
        "IS_STALL_FREE": "no",
        "IS_FIXED_LATENCY": "no",
    }
    assert {name: settings[name] for name in ("HAS_SIDE_EFFECTS", "ALLOW_MERGING")} == {
        "HAS_SIDE_EFFECTS": "yes",
        "ALLOW_MERGING": "no",
    }
    assert int(settings["EXPECTED_LATENCY"]) >= 1
    assert int(settings["CAPACITY"]) >= 1


def module_ports(root, address_bits):
    """The ports that the SDK gives a module with such a manifest: direction, name, width."""
    ports = [
        ("output" if element.get("type") in ("oready", "ovalid") else "input", element.get("port"), 1)
        for element in root.iter("AVALON")
    ]
    ports += [("input", element.get("port"), 64) for element in root.iter("MEM_INPUT")]
    ports += [("input", element.get("port"), int(element.get("width"))) for element in root.iter("INPUT")]
    ports += [("output", element.get("port"), int(element.get("width"))) for element in root.iter("OUTPUT")]
    for element in root.iter("AVALON_MEM"):
        prefix, width = element.get("port"), int(element.get("width"))
        ports += [
            ("output", f"{prefix}_enable", 1),
            ("output", f"{prefix}_address", address_bits),
            ("output", f"{prefix}_burstcount", int(element.get("burstwidth"))),
            ("input", f"{prefix}_waitrequest", 1),
        ]
        if element.get("optype") == "read":
            ports += [
                ("output", f"{prefix}_read", 1),
                ("input", f"{prefix}_readdata", width),
                ("input", f"{prefix}_readdatavalid", 1),
            ]
        else:
            ports += [
                ("output", f"{prefix}_write", 1),
                ("output", f"{prefix}_writedata", width),
                ("output", f"{prefix}_byteenable", width // 8),
                ("input", f"{prefix}_writeack", 1),
            ]
    return ports


def test_the_module_has_the_ports_of_its_manifest(library):
    root = ElementTree.parse(library / MANIFEST).getroot()
    assert root.find("FUNCTION").get("module") == MODULE
    ports = module_ports(root, BOARD.global_address_bits)
    assert sorted(ports_of((library / VERILOG).read_text(), MODULE)) == sorted(ports)
    nets = {name: (f"n_{name}", width) for _, name, width in ports}
    text = black_box("shell", other_side(ports)) + joined("top", [(MODULE, nets), ("shell", nets)])
    (library / "shell.v").write_text(text)
    assert not lint(library, "shell.v", VERILOG, top="top")
    # The check finds what it is for.
    narrow = dict(nets, request=("n_narrow", 32))
    (library / "wrong.v").write_text(black_box("shell", other_side(ports)) + joined("top", [(MODULE, narrow)]))
    assert "request" in lint(library, "wrong.v", VERILOG, top="top")


def test_the_function_has_the_arguments_of_its_manifest(library):
    root = ElementTree.parse(library / MANIFEST).getroot()
    declared = re.search(rf"uint {FUNCTION}\((.*)\);", (library / HEADER).read_text())
    names = [argument.split()[-1].lstrip("*") for argument in declared[1].split(",")]
    interface = root.find("FUNCTION/INTERFACE")
    assert names == [element.get("port") for element in interface if element.tag in ("MEM_INPUT", "INPUT")]
    pointers = [argument.split()[-1].lstrip("*") for argument in declared[1].split(",") if "*" in argument]
    assert pointers == [element.get("port") for element in interface.iter("MEM_INPUT")]
    assert root.find("FUNCTION").get("name") == FUNCTION
    assert (library / KERNELS).read_text().count(f"{FUNCTION}(") == 1  # each call would be a module of its own
    assert f'#include "{HEADER}"' in (library / KERNELS).read_text()
    assert '#include "muntin_build.h"' in (library / MODEL).read_text()


def test_a_memory_of_zeros_takes_no_lines():
    class Block(wiring.Component):
        def __init__(self):
            super().__init__({"at": In(3), "table": Out(4), "zeros": Out(4)})

        def elaborate(self, platform):
            m = Module()
            for name, init in (("table", range(8)), ("zeros", [])):
                m.submodules[name] = held = memory.Memory(shape=4, depth=8, init=init)
                reader = held.read_port()
                m.d.comb += [reader.addr.eq(self.at), getattr(self, name).eq(reader.data)]
            with m.If(self.at == 0):
                m.d.comb += self.zeros[0].eq(1)
            return m

    text = verilog.convert(Block(), name="block", emit_src=False)
    assert text.count("= 4'h") == 16
    kept = without_zeros(text)
    assert re.findall(r"\[\d\] = 4'h(\d);", kept) == list("01234567")
    assert re.sub(r"  initial begin\n.*?  end\n", "", kept, flags=re.S) == re.sub(
        r"  initial begin\n.*?  end\n", "", text, flags=re.S
    )


def test_no_file_sets_a_memory_word_by_word(library, project):
    # The whole kernels have an index of 65,536 entries; the small ones one of 64.
    for path in (library / VERILOG, project / "muntin_kernel.v"):
        text = path.read_text()
        assert re.search(r"^  reg \[\d+:0\] \S+ \[\d+:0\];$", text, re.M), f"no memory in {path}"
        assert not re.search(r"^  initial\b", text, re.M), path


# The Quartus project


def test_the_component_has_the_ports_of_its_module(project, tcl):
    component = read_component(tcl, (project / "muntin_kernel_hw.tcl").read_text())
    assert component.files == ["muntin_kernel.v"]
    ports = ports_of((project / "muntin_kernel.v").read_text(), component.module)
    assert sorted((way, signal, width) for _, signal, _, way, width in component.ports) == sorted(ports)
    for interface, _, role, _, _ in component.ports:
        assert interface in component.interfaces
        assert re.fullmatch(r"[a-z]+", role)
    for name, (kind, _) in component.interfaces.items():
        if kind != "clock":
            assert component.properties[name]["associatedClock"] in component.interfaces


def test_the_whole_project_elaborates(project, tcl, other_tcl):
    component = read_component(tcl, (project / "muntin_kernel_hw.tcl").read_text())
    system = read_system(
        other_tcl, (project / "system.tcl").read_text(), {component.module: tuple(component.interfaces)}
    )
    assert system.saved == "muntin_system.qsys"
    # Every kernel port that needs a partner has one, every memory is mapped from 0 on, windows do not overlap.
    for name, (kind, _) in component.interfaces.items():
        if kind != "interrupt":
            assert any(end.endswith(f"kernel.{name}") for pair in system.connections for end in pair), name
    for pair, base in system.bases.items():
        assert base == 0 or pair[0] == "jtag.master", pair
    spans = {"windowed_slave": 1 << 28, "cntl": 8, "control": 1 << 12}
    windows = sorted(
        (base, base + spans[end.partition(".")[2]]) for (start, end), base in system.bases.items() if "jtag" in start
    )
    assert len(windows) == 5
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(windows))
    # The system as the vendor would make it: its exports outside, the kernel inside, black boxes for what is theirs.
    top = (project / "muntin.v").read_text()
    wired = dict(re.findall(r"\.(\w+)\((\w+)\)", re.search(r"muntin_system \w+ \((.*?)\);", top, re.S)[1]))
    pads = {name: (way, width) for way, name, width in ports_of(top, "muntin")}
    pads |= {wired[name]: ("input", 1) for name in ("reset_reset_n", "kernel_reset_reset_n")}
    pads[wired["pll_locked_export"]] = "output", 1
    assert {name for name in system.exports if not any(port.startswith(f"{name}_") for port in wired)} == set()
    outside = [(pads[pad][0], port, pads[pad][1]) for port, pad in wired.items()]
    assert {port for _, port, _ in outside if not any(port.startswith(f"{name}_") for name in system.exports)} == set()
    kernel = [(way, signal, width) for _, signal, _, way, width in component.ports]
    nets = {name: (f"n_{name}", width) for _, name, width in kernel}
    ends = ", ".join(f".{port}({port})" for _, port, _ in outside)
    inside = ", ".join(f".{port}({net})" for port, (net, _) in nets.items())
    stub = [
        "module altiobuf_in #(parameter enable_bus_hold = 0, number_of_channels = 1, use_differential_mode = 0)",
        "  (input datain, output dataout); assign dataout = datain; endmodule",
        black_box("vendor_interconnect", other_side(kernel)),
        black_box("vendor_memory_controllers", outside),
        "module muntin_system(\n"
        + ",\n".join(f"  {way} [{width - 1}:0] {port}" for way, port, width in outside)
        + ");",
        *(f"  wire [{width - 1}:0] {net};" for net, width in nets.values()),
        f"  {component.module} kernel ({inside});",
        f"  vendor_interconnect joins ({inside});",
        f"  vendor_memory_controllers memory ({ends});",
        "endmodule",
    ]
    (project / "stub.v").write_text("\n".join(stub))
    assert not lint(project, "muntin.v", "muntin_kernel.v", "stub.v", top="muntin")


def test_the_kernel_is_in_reset_until_the_pll_has_locked(project, tcl, other_tcl):
    component = read_component(tcl, (project / "muntin_kernel_hw.tcl").read_text())
    system = read_system(
        other_tcl, (project / "system.tcl").read_text(), {component.module: tuple(component.interfaces)}
    )
    assert system.parameters["pll"]["gui_use_locked"] == "true"
    assert system.exports["pll_locked"][2] == "pll.locked"
    assert system.exports["kernel_reset"][2] == "kernel_reset.in_reset"
    clocked = {end.partition(".")[0] for start, end in system.connections if start == "pll.outclk0"}
    reset = {end.partition(".")[0] for start, end in system.connections if start == "kernel_reset.out_reset"}
    assert reset == clocked == {"kernel", "jtag", "window_a", "window_b"}
    # The PLL's own reset and the memory controllers', which have PLLs of their own, must not wait for it.
    others = {end.partition(".")[0] for start, end in system.connections if start == "reset.out_reset"}
    assert others == {"pll", "emif_a", "emif_b"}
    top = (project / "muntin.v").read_text()
    wired = dict(re.findall(r"\.(\w+)\((\w+)\)", re.search(r"muntin_system \w+ \((.*?)\);", top, re.S)[1]))
    gate = re.search(rf"assign {wired['kernel_reset_reset_n']} = (\w+) & (\w+);", top)
    assert set(gate.groups()) == {wired["pll_locked_export"], wired["reset_reset_n"]}
    assert re.search(rf"\.{wired['reset_reset_n']}\({wired['reset_reset_n']}\)", top)  # of the button's buffer


def test_every_pin_is_the_boards(project):
    with (CONSTRAINTS / "pins.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    pins = {row["pin"]: row for row in rows}
    assert len(pins) == len(rows)
    settings = (project / "muntin.qsf").read_text()
    assigned = re.findall(r'set_location_assignment -to "(.*?)" PIN_(\w+)', settings)
    assert len({pin for _, pin in assigned}) == len(assigned)
    standards = dict(re.findall(r'set_instance_assignment -to "(.*?)" -name IO_STANDARD "(.*?)"', settings))
    for port, pin in assigned:
        assert standards[port] == pins[pin]["standard"], port
    ports = ports_of((project / "muntin.v").read_text(), "muntin")
    assert sum(width for _, _, width in ports) == len(assigned)
    assert "set_global_assignment -name DEVICE 10AX115N2F45E1SG" in settings
    # 64 data lines, 8 strobes, and so on, of each of two channels.
    for signal, width in {"dq": 64, "dqs": 8, "dm": 8, "a": 16, "ba": 3, "ck": 1}.items():
        assert sum(1 for _, name, bits in ports if name.endswith(f"__{signal}__io") and bits == width) == 2, signal


def test_clocks_are_declared(project):
    timing = (project / "muntin.sdc").read_text()
    periods = dict(re.findall(r'create_clock -name "(\w+)" -period ([\d.]+)', timing))
    assert {name: round(1e3 / float(period)) for name, period in periods.items()} == {
        "clk_50_b2j_0__io": 50,
        "ddr3_refclk_0__io": 267,
        "ddr3_refclk_1__io": 267,
    }
    assert "derive_pll_clocks" in timing


# make bitstream


@pytest.mark.parametrize(
    ("design", "tools"),
    [("bisort", "aocl, aoc"), ("splitjoin", "aocl, aoc"), ("bisort-quartus", "qsys-script, qsys-generate")],
)
def test_without_the_tools_everything_is_written_and_they_are_named(design, tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match=f"{tools}.* not found.*sh build.sh") as caught:
        build(SMALL, design, root=tmp_path / "builds")
    (folder,) = (tmp_path / "builds").iterdir()
    assert str(folder) in str(caught.value)
    assert (":design=splitjoin" in str(caught.value)) == (design == "splitjoin")
    assert {path.name for path in folder.iterdir()} == set(SMALL.files(design, Steps()))
    monkeypatch.setattr(build_module, "build_of", lambda name: SMALL)
    monkeypatch.setattr(build_module, "BUILD", tmp_path / "builds")
    assert build_module.main(["de5a", "--design", design]) != 0
    assert tools in capsys.readouterr().err


def stand_in(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_with_the_tools_they_are_run_in_order(tmp_path, monkeypatch):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    stand_in(bin_, "aocl", 'echo aocl "$@" >> log; [ "$1" = version ] && echo aocl 18.1; exit 0')
    stand_in(bin_, "aoc", f'echo aoc "$@" >> log; echo aoc 18.1; touch {INTEL.binary}')
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    folder = build(SMALL, "bisort", root=tmp_path / "builds")
    report = json.loads((folder / "report.json").read_text())
    assert report["bitstream"] == INTEL.binary
    assert report["tools"]["aoc"] == "aoc 18.1"
    ran = (folder / "log").read_text().splitlines()
    assert [line.split()[:3] for line in ran] == [
        ["aocl", "library", "hdl-comp-pkg"],
        ["aocl", "library", "create"],
        ["aoc", "-v", "-l"],
    ]
    assert "-board=de5a_net_e1" in ran[-1]


def test_a_tool_that_fails_is_quoted(tmp_path, monkeypatch):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    stand_in(bin_, "aocl", "exit 0")
    stand_in(bin_, "aoc", 'echo "Error: no licence" >&2; exit 7')
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BuildError, match="no licence"):
        build(SMALL, "bisort", root=tmp_path / "builds")
