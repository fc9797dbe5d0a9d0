"""A kernel as a component of Platform Designer."""

from __future__ import annotations

from amaranth.hdl import Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from muntin.hw.boards.axi_kernel import AxiKernel


def axi_component(kernel: AxiKernel, name: str, outstanding: int) -> str:
    """The Tcl file, to be called ``<name>_hw.tcl``, that makes the Verilog module of that name a component.

    Parameters
    ----------
    kernel : AxiKernel
    name : str
        Of the module, of its file without its ending, and of the component.
    outstanding : int
        Bursts that a memory port may have in flight in each direction.

    Source
    ------
    Quartus Prime User Guide: Platform Designer, "Component Interface Tcl Reference".
    """
    lines = [
        "# Made by Muntin.",
        "package require -exact qsys 16.0",
        f"set_module_property NAME {name}",
        "set_module_property VERSION 1.0",
        "set_module_property DISPLAY_NAME {Muntin kernel}",
        "add_fileset synthesis QUARTUS_SYNTH {} {}",
        f"set_fileset_property synthesis TOP_LEVEL {name}",
        f"add_fileset_file {name}.v VERILOG PATH {name}.v",
        "add_interface clk clock end",
        "add_interface_port clk clk clk Input 1",
        "add_interface reset reset end",
        "set_interface_property reset associatedClock clk",
        "set_interface_property reset synchronousEdges BOTH",
        "add_interface_port reset rst reset Input 1",
    ]

    def interface(name: str, kind: str, direction: str, **properties: object) -> None:
        lines.append(f"add_interface {name} {kind} {direction}")
        properties = {"associatedClock": "clk", "associatedReset": "reset", **properties}
        lines.extend(f"set_interface_property {name} {key} {value}" for key, value in properties.items())

    def port(interface: str, signal: str, role: str, member: wiring.Member) -> None:
        way = "Input" if member.flow == In else "Output"
        lines.append(f"add_interface_port {interface} {signal} {role} {way} {Shape.cast(member.shape).width}")

    members = kernel.signature.members
    interface("control", "axi4lite", "end")
    for role, member in kernel.control.signature.members.items():
        port("control", f"control__{role}", role, member)
    interface("irq", "interrupt", "end")
    port("irq", "irq", "irq", members["irq"])
    for master in (name for name in members if name.startswith("axi_")):
        number = master.removeprefix("axi_")
        interface(
            master,
            "axi4",
            "start",
            readIssuingCapability=outstanding,
            writeIssuingCapability=outstanding,
            combinedIssuingCapability=2 * outstanding,
        )
        for role, member in getattr(kernel, master).signature.members.items():
            port(master, f"{master}__{role}", role, member)
        for role in ("arprot", "awprot"):
            port(master, f"{role}_{number}", role, members[f"{role}_{number}"])
    return "\n".join(lines) + "\n"
