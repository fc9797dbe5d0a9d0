"""The descriptions of an RTL module for Intel's OpenCL SDK, and of an RTL kernel for Vitis."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from muntin.contract.opencl import FUNCTION, KERNEL, MODEL, MODULE, VERILOG, arguments
from muntin.hw.opencl.rtl_module import RtlModule
from muntin.hw.opencl.vitis_kernel import CONTROL, HOST, VitisKernel

STREAM_PORTS = ("clock", "resetn", "ivalid", "iready", "ovalid", "oready")


def manifest(module: RtlModule) -> str:
    """The object manifest file (XML) of an RTL module: its function, its ports, its files.

    Arguments stand in the order of the function's. The attributes are the safe ones: a call may take as long as it
    likes, changes what later calls do, and must not be merged with another.

    Source
    ------
    Intel FPGA SDK for OpenCL Pro Edition Programming Guide (683846), sections 11.1.2.7 (the file, table 13), 11.1.2.7.1
    (ATTRIBUTES, table 14) and 11.1.2.7.2 (INTERFACE, tables 15 and 16); in the Standard Edition's of 18.1 (683342),
    where the file is called XML specification, sections 12.1.1.7.1 (table 7) and 12.1.1.7.2 (table 8).
    """
    specification = ElementTree.Element("RTL_SPEC")
    function = ElementTree.SubElement(specification, "FUNCTION", name=FUNCTION, module=MODULE)
    attributes = ElementTree.SubElement(function, "ATTRIBUTES")
    for name, value in (
        ("IS_STALL_FREE", "no"),
        ("IS_FIXED_LATENCY", "no"),
        ("EXPECTED_LATENCY", "4"),
        ("CAPACITY", "1"),
        ("HAS_SIDE_EFFECTS", "yes"),
        ("ALLOW_MERGING", "no"),
    ):
        ElementTree.SubElement(attributes, name, value=value)

    interface = ElementTree.SubElement(function, "INTERFACE")
    for name in STREAM_PORTS:
        ElementTree.SubElement(interface, "AVALON", port=name, type=name)
    members = module.signature.members
    for name in members:
        if name.startswith("memory_"):
            ElementTree.SubElement(interface, "MEM_INPUT", port=name, access="readwrite")
    ElementTree.SubElement(interface, "MEM_INPUT", port="state", access="readonly")
    ElementTree.SubElement(interface, "INPUT", port="request", width=str(members["request"].shape))
    ElementTree.SubElement(interface, "OUTPUT", port="result", width=str(members["result"].shape))
    for name, avalon in module.memory_ports.items():
        ElementTree.SubElement(
            interface,
            "AVALON_MEM",
            port=name,
            width=str(avalon.data_width),
            burstwidth=str(avalon.burst_width),
            optype="write" if avalon.write else "read",
            buffer_location="",
        )
    model = ElementTree.SubElement(function, "C_MODEL")
    ElementTree.SubElement(model, "FILE", name=MODEL)
    requirements = ElementTree.SubElement(function, "REQUIREMENTS")
    ElementTree.SubElement(requirements, "FILE", name=VERILOG)
    ElementTree.indent(specification)
    return ElementTree.tostring(specification, encoding="unicode") + "\n"


def kernel_xml(module: VitisKernel, parameters: Any) -> str:
    """The kernel description file of an RTL kernel: its ports, and where each argument is written.

    Source
    ------
    AMD, Vitis Reference Guide (UG1702), "RTL Kernel XML File": the elements, their attributes and what each may be.
    """
    root = ElementTree.Element("root", versionMajor="1", versionMinor="6")
    kernel = ElementTree.SubElement(
        root,
        "kernel",
        name=KERNEL,
        language="ip_c",
        vlnv=f"muntin:kernel:{KERNEL}:1.0",
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol="ap_ctrl_hs",
    )
    ports = ElementTree.SubElement(kernel, "ports")

    def port(name: str, mode: str, span: int, width: int) -> None:
        ElementTree.SubElement(
            ports,
            "port",
            name=name,
            mode=mode,
            range=f"{span:#x}",
            dataWidth=str(width),
            portType="addressable",
            base="0x0",
        )

    port(CONTROL, "slave", 0x1000, 32)
    for name, axi in module.masters.items():
        port(name, "master", (1 << axi.address_width) - 1, axi.data_width)
    offsets = {register.name: register.offset for register in module.registers.settings}
    listed = ElementTree.SubElement(kernel, "args")
    for number, argument in enumerate(arguments(parameters)):
        name = argument.name.upper()
        size = 8 if argument.pointer else 4
        behind = f"m_axi_{argument.name}" if argument.name.startswith("memory_") else HOST
        ElementTree.SubElement(
            listed,
            "arg",
            name=argument.name,
            addressQualifier="1" if argument.pointer else "0",
            id=str(number),
            port=behind if argument.pointer else CONTROL,
            size=f"{size:#x}",
            offset=f"{offsets[f'{name}_LOW' if argument.pointer else name]:#x}",
            type=argument.kind,
            hostOffset="0x0",
            hostSize=f"{size:#x}",
        )
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
