"""What the vendor's tools would do first with the files: read them, and join them to what is theirs."""

import re
import subprocess
from dataclasses import dataclass, field

from muntin.sim.board.compile_board import verilator_environment

# What Yosys's Verilog is full of, with meanings that the language gives them; ASCRANGE are nets of no bits.
_USUAL = ("ASCRANGE", "CASEINCOMPLETE", "CMPCONST", "UNSIGNED", "WIDTHEXPAND", "WIDTHTRUNC")


def lint(folder, *sources, top):
    """What Verilator says of a design, but for what every Verilog of Yosys's has: nothing, where all is well."""
    done = subprocess.run(
        ["verilator", "--lint-only", "-Wno-fatal", "--top-module", top, *sources],
        cwd=folder,
        capture_output=True,
        text=True,
        env=verilator_environment(),
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("%")]
    usual = tuple(f"%Warning-{kind}" for kind in _USUAL)
    return "\n".join(line for line in said if not line.startswith(usual) or "port connection" in line)


def vector(way, name, width):
    """A port of a Verilog module."""
    return f"{way} [{width - 1}:0] {name}"


def black_box(name, ports):
    """A Verilog module without content: ports are direction, name, width."""
    listed = ",\n  ".join(vector(*port) for port in ports)
    return f"module {name}(\n  {listed});\nendmodule\n"


def other_side(ports):
    """The ports of what stands on the other side of these."""
    return [({"input": "output", "output": "input", "inout": "inout"}[way], name, width) for way, name, width in ports]


def joined(name, instances):
    """A Verilog module that has instances, each a module with the nets at its ports: name to net and width."""
    nets = {net: width for _, ports in instances for net, width in ports.values()}
    lines = [f"module {name};", *(f"  wire [{width - 1}:0] {net};" for net, width in nets.items())]
    for number, (module, ports) in enumerate(instances):
        wired = ", ".join(f".{port}({net})" for port, (net, _) in ports.items())
        lines.append(f"  {module} u{number} ({wired});")
    return "\n".join([*lines, "endmodule", ""])


@dataclass
class Component:
    """What a component's Tcl file says: its module, and of each interface the kind, the direction and the ports."""

    module: str = ""
    files: list[str] = field(default_factory=list)
    interfaces: dict[str, tuple[str, str]] = field(default_factory=dict)
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    ports: list[tuple[str, str, str, str, int]] = field(default_factory=list)  # interface, signal, role, way, width


def read_component(tcl, text):
    """Runs a component's Tcl file with a Tcl interpreter in which Platform Designer's commands take notes."""
    component = Component()

    def add_interface(name, kind, direction):
        component.interfaces[name] = kind, direction

    def add_interface_port(interface, signal, role, way, width):
        component.ports.append((interface, signal, role, way.lower(), int(width)))

    def add_fileset_file(name, _kind, _path, path):
        component.files.append(path)

    def set_fileset_property(_fileset, name, value):
        if name == "TOP_LEVEL":
            component.module = value

    def set_interface_property(interface, name, value):
        assert interface in component.interfaces
        component.properties.setdefault(interface, {})[name] = value

    for command in (add_interface, add_interface_port, add_fileset_file, set_fileset_property, set_interface_property):
        tcl.createcommand(command.__name__, command)
    for name in ("set_module_property", "add_fileset"):
        tcl.createcommand(name, lambda *_: None)
    tcl.eval("rename package _package; proc package args {}")
    tcl.eval(text)
    return component


# The interfaces of the vendor's components that a system uses, by the names of Quartus 18.1.
VENDOR = {
    "altera_clock_bridge": ("in_clk", "out_clk"),
    "altera_reset_bridge": ("in_reset", "out_reset"),
    "altera_iopll": ("refclk", "reset", "outclk0", "locked"),
    "altera_jtag_avalon_master": ("clk", "clk_reset", "master", "master_reset"),
    "altera_address_span_extender": ("clock", "reset", "windowed_slave", "cntl", "expanded_master"),
    "altera_emif": (
        "global_reset_reset_sink",
        "pll_ref_clk_clock_sink",
        "oct_conduit_end",
        "mem_conduit_end",
        "status_conduit_end",
        "emif_usr_reset_reset_source",
        "emif_usr_clk_clock_source",
        "ctrl_amm_avalon_slave_0",
    ),
}


@dataclass
class System:
    """What a system's Tcl file makes."""

    instances: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, dict[str, str]] = field(default_factory=dict)
    connections: list[tuple[str, str]] = field(default_factory=list)
    bases: dict[tuple[str, str], int] = field(default_factory=dict)
    exports: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # kind, direction, of what
    saved: str = ""


def read_system(tcl, text, components):
    """Runs a system's Tcl file in the same way; `components` are interfaces by kind of instance, beside `VENDOR`."""
    system, known = System(), {**VENDOR, **components}

    def check(end):
        instance, _, interface = end.partition(".")
        assert interface in known[system.instances[instance]], f"there is no {end}"

    def add_instance(name, kind):
        assert kind in known, kind
        assert name not in system.instances
        system.instances[name] = kind

    def set_instance_parameter_value(instance, name, value):
        assert instance in system.instances
        system.parameters.setdefault(instance, {})[name] = value

    def add_connection(start, end):
        check(start)
        check(end)
        system.connections.append((start, end))

    def set_connection_parameter_value(connection, name, value):
        start, end = connection.split("/")
        assert (start, end) in system.connections
        assert name == "baseAddress"
        system.bases[start, end] = int(value, 0)

    def add_interface(name, kind, direction):
        system.exports[name] = kind, direction, ""

    def set_interface_property(name, what, value):
        assert what == "EXPORT_OF"
        check(value)
        system.exports[name] = (*system.exports[name][:2], value)

    def save_system(name):
        system.saved = name

    commands = (add_instance, set_instance_parameter_value, add_connection, set_connection_parameter_value)
    for command in (*commands, add_interface, set_interface_property, save_system):
        tcl.createcommand(command.__name__, command)
    tcl.createcommand("get_instance_interfaces", lambda instance: known[system.instances[instance]])
    for name in ("create_system", "set_project_property"):
        tcl.createcommand(name, lambda *_: None)
    tcl.eval("proc package args {}")
    tcl.eval(text)
    return system


def ports_of(verilog, module):
    """The ports of a module of generated Verilog: direction, name, width."""
    body = re.search(rf"^module {module}\(.*?\);(.*?)^endmodule", verilog, re.M | re.S)
    assert body is not None, module
    return [
        (way, name, int(high or 0) + 1)
        for way, high, name in re.findall(r"^  (input|output|inout) (?:\[(\d+):0\] )?(\w+);", body[1], re.M)
    ]
