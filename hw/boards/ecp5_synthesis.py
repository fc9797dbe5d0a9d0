"""How Yosys makes a netlist for an ECP5."""

from __future__ import annotations

from collections.abc import Sequence


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
