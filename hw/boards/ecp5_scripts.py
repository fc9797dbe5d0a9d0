"""What Yosys and nextpnr are given for an ECP5."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence

from amaranth.build import DiffPairs, Subsignal

FOR_DELAYS = ("--placer-heap-critexp", "3", "--placer-heap-timingweight", "30")
"""Options that place for timing more than for wire length: late nets weigh three times the default, and the latest ones
more.

There are netlists that router1 completes with them and not without (docs/boards.md, docs/splitjoin.md).
"""


def ecp5_synthesis(name: str, *, verilog: Sequence[str] = (), apart: Sequence[str] = ()) -> str:
    """A script for Yosys that makes ``NAME.json`` of ``NAME.il``, a flat netlist of ECP5 cells.

    Memories that are read by clock: what a read gives that meets a write of the same place does not matter to any of
    the design's (FIFOs, the index, sub-windows); Yosys would make up for it with logic, a tenth of all flip-flops.
    Without wide multiplexers: packing them gives placements that do not route. Yosys sorts a design by name as it is
    written; ABC's netlists of a sorted design route, those of the same design unsorted did not.

    Parameters
    ----------
    name : str
        Of the top module and the files.
    verilog : sequence of str
        Files of Verilog that belong to it.
    apart : sequence of str
        Patterns of modules' names, as Yosys takes them: each such module is synthesized by itself, so that copies of a
        register in several of them, kept for short nets, are not merged.

    Returns
    -------
    str
        A command a line.
    """
    synth = f"synth_ecp5 -nowidelut -top {name} -run"
    steps = [f"read_rtlil {name}.il", "setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i"]
    if verilog:
        steps.append(f"read_verilog {' '.join(verilog)}")
    if apart:
        steps += [f"hierarchy -top {name}", *(f"setattr -mod -set keep_hierarchy 1 {pattern}" for pattern in apart)]
    steps += [f"{synth} begin:map_ram", "write_rtlil coarse.il", f"{synth} map_ram:map_ffs", "write_rtlil fine.il"]
    if apart:
        steps += [f"{synth} map_ffs:check", "setattr -mod -unset keep_hierarchy *", "flatten", "opt_clean"]
        steps += ["blackbox =A:whitebox", f"write_json {name}.json"]
    else:
        steps.append(f"{synth} map_ffs: -json {name}.json")
    return "".join(f"{step}\n" for step in steps)


def ecp5_constraints(
    platform: str, pins: Mapping[str, str], clocks: Mapping[str, int], pulled_up: Collection[str] = ()
) -> str:
    """An LPF file.

    Parameters
    ----------
    platform : str
        Module and class of amaranth-boards, which knows pins and their electrical attributes, as ``"module:Class"``.
    pins : mapping of str to str
        For each port of the top, a resource of that platform, after a colon its number if that is not 0, and after a
        dot the part of it. Of a differential pair the port is the positive half.
    clocks : mapping of str to int
        The frequency in Hz of each port that is an input clock.
    pulled_up : collection of str
        Ports whose pins are pulled up, which the platform does not say.

    Raises
    ------
    KeyError
        If the platform has no such resource.
    """
    module, _, name = platform.partition(":")
    resources = {
        (resource.name, resource.number): resource
        for resource in getattr(importlib.import_module(module), name).resources
    }
    lines = ["BLOCK ASYNCPATHS;", "BLOCK RESETPATHS;"]
    for port, place in pins.items():
        whole, _, part = place.partition(".")
        resource, _, number = whole.partition(":")
        found = resources[resource, int(number or 0)]
        attributes = dict(found.attrs)
        if part:
            found = {member.name: member for member in found.ios if isinstance(member, Subsignal)}[part]
            attributes |= found.attrs
        if port in pulled_up:
            attributes["PULLMODE"] = "UP"
        (ends,) = found.ios
        names = (ends.p if isinstance(ends, DiffPairs) else ends).names
        settings = " ".join(f"{key}={value}" for key, value in attributes.items())
        for bit, pin in enumerate(names):
            at = port if len(names) == 1 else f"{port}[{bit}]"
            lines.append(f'LOCATE COMP "{at}" SITE "{pin}";')
            if settings:
                lines.append(f'IOBUF PORT "{at}" {settings};')
    lines += [f'FREQUENCY PORT "{port}" {frequency / 1e6:g} MHZ;' for port, frequency in clocks.items()]
    return "\n".join(lines) + "\n"
