"""A kernel as a component of Platform Designer."""

from __future__ import annotations

from amaranth.hdl import Module, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.control.layouts import Axi4LiteSignature


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


class AxiKernel(wiring.Component):
    """The kernel with the protection signals that interconnects ask of an AXI4 master; they are always 0.

    Parameters
    ----------
    kernel : Component
        Has a control port `control`, an `Axi4LiteSignature`, memory ports `axi`, an array of `Axi4Signature`, and
        `irq`.

    Attributes
    ----------
    control : In(Axi4LiteSignature)
    irq : Out(1)
    axi_0, axi_1, ... : Out(Axi4Signature)
        The kernel's memory ports, each of which addresses its channel's memory from 0 on.
    arprot_0, awprot_0, ... : Out(3)
    """

    def __init__(self, kernel: wiring.Component):
        self._kernel = kernel
        ports = len(self._kernel.axi)
        axi = self._kernel.axi[0].signature
        super().__init__(
            {
                "control": In(Axi4LiteSignature(self._kernel.control.signature.address_width)),
                "irq": Out(1),
                **{f"axi_{number}": Out(axi) for number in range(ports)},
                **{f"{name}_{number}": Out(3) for number in range(ports) for name in ("arprot", "awprot")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.kernel = kernel = self._kernel
        wiring.connect(m, wiring.flipped(self.control), kernel.control)
        m.d.comb += self.irq.eq(kernel.irq)
        for number, axi in enumerate(kernel.axi):
            wiring.connect(m, axi, wiring.flipped(getattr(self, f"axi_{number}")))
        return m
