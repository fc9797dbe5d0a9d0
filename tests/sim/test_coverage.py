"""How lines and branches that benches take are counted, and what is left out."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth")

from muntin.sim import coverage
from muntin.sim.block_runner import run_bench
from muntin.sim.coverage import Cross, PointNames, coverage_of, main
from muntin.sim.left_out import LeftOut
from tests.sim.test_block_runner import Store

VERILOG = r"""
module top(clk);
  assign wide = \$1  ? first : second;
endmodule

module \top.inner (clk, a);
  wire \$2 ;
  wire \a$3 ;
  reg [3:0] \$4 ;
  reg [3:0] level = 4'h0;
  assign \$2  = \$7  & \a$3 ;
  assign \$7  = ~ full;
  always @(posedge clk)
    level <= \$4 ;
  always @* begin
    if (\$helper$0 ) begin end
    \$4  = level;
    if (\$2 ) begin
      casez (\fsm_state )
        2'h1:
            \$4  = 4'h1;
      endcase
    end
  end
endmodule
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(VERILOG.splitlines(), 1) if line.strip() == text)


def kept(model: Path, runs: dict[str, list[tuple[int, str, int]]]) -> Path:
    """A block's folder as it is after some runs, with a count for each line and kind."""
    for run, points in runs.items():
        (model / run).mkdir(parents=True)
        text = "".join(f"C '\x01f\x02top.v\x01l\x02{line}\x01n\x025\x01o\x02{kind}' {n}\n" for line, kind, n in points)
        (model / run / "coverage.dat").write_text(f"# SystemC::Coverage-3\n{text}")
    (model / "top.v").write_text(VERILOG)
    (model / "kept.json").write_text("{}")
    return model


@pytest.mark.full  # a runtime of Verilator's of its own
def test_what_a_bench_takes_is_counted(seed, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COVERAGE", "1")
    log = run_bench(Store(), "covered_store", "tests.hw.benches.colliding_reads", seed=seed)
    model = log.parents[1]
    found = coverage_of(model)
    assert found.name == "covered_store"
    assert found.points > 3
    assert found.share == 1.0
    assert main(["--blocks", str(model.parent)]) == 0
    assert f"covered_store                 100.0% of {found.points:6} lines and branches" in capsys.readouterr().out
    assert main(["--blocks", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        (r"if (\$2 ) begin", "else", "top.inner: level: if ((~ full) & a): else"),
        ("2'h1:", "case", "top.inner: level: if ((~ full) & a): casez (fsm_state): 2'h1: case"),
        (r"if (\$helper$0 ) begin end", "if", "top.inner: level: if ($helper) begin end: if"),
        (r"assign wide = \$1  ? first : second;", "cond_then", "top: wide: cond_then of $ ? first : second"),
        ("always @* begin", "block", "top.inner: level: block"),
        (r"level <= \$4 ;", "line", "top.inner: level: always @(posedge clk): level <= $ ;: line"),
    ],
)
def test_names_of_points_have_no_numbers(text, kind, name):
    assert PointNames(VERILOG).name(line_of(text), kind) == name


def test_runs_and_instances_are_one(tmp_path):
    branch, item = line_of(r"if (\$2 ) begin"), line_of("2'h1:")
    model = kept(
        tmp_path / "block-coverage-01",
        {
            "first": [(branch, "if", 2), (branch, "else", 0), (item, "case", 0)],
            "second": [(branch, "if", 0), (branch, "else", 1), (item, "case", 0)],
        },
    )
    found = coverage_of(model)
    assert (found.name, found.taken, found.points) == ("block", 2, 3)
    assert found.missed == [f"{item}: top.inner: level: if ((~ full) & a): casez (fsm_state): 2'h1: case"]
    state = LeftOut("there is no such state", ("top.inner: level: * 2'h1: case",))
    found = coverage_of(model, [state, LeftOut("of another", ("*",), blocks=("other",))])
    assert (found.taken, found.points, found.missed, dict(found.left_out)) == (2, 2, [], {state: 1})
    assert coverage_of(model, [LeftOut("nothing counts", ("*",))]).points == 0


def test_a_reason_must_have_something_to_leave_out(tmp_path, monkeypatch, capsys):
    branch = line_of(r"if (\$2 ) begin")
    kept(tmp_path / "block-coverage-01", {"run": [(branch, "if", 2), (branch, "else", 0)]})
    blocks = ["--blocks", str(tmp_path)]
    for pattern, status in (("*: else", 0), ("*: case", 1)):
        monkeypatch.setattr(coverage, "LEFT_OUT", (LeftOut("it is so", (pattern,), blocks=("bl*",)),))
        assert main(blocks) == status
        said = capsys.readouterr()
        assert ("it is so" in said.out) is not status
        assert ("block has nothing to leave out for: it is so" in said.err) is bool(status)
    monkeypatch.setattr(coverage, "LEFT_OUT", ())
    assert main(blocks) == 0
    (tmp_path / "begun-coverage-01").mkdir()
    (tmp_path / "begun-coverage-01" / "kept.json").write_text("{}")
    assert main([*blocks, "--least", "0.97"]) == 1
    assert "block takes less than 97%" in capsys.readouterr().err


def test_lanes_are_one(tmp_path):
    model = kept(tmp_path / "block-coverage-01", {"run": [(line_of("2'h1:"), "case", 0)]})
    text = (model / "top.v").read_text().replace("top.inner", "top.lane_0")
    (model / "top.v").write_text(text + text.replace("lane_0", "lane_1"))
    second = line_of("2'h1:") + len(text.splitlines())
    (model / "run" / "coverage.dat").open("a").write(f"C '\x01l\x02{second}\x01n\x025\x01o\x02case' 1\n")
    assert (coverage_of(model).taken, coverage_of(model).points) == (1, 1)


def test_cells_of_a_cross(tmp_path, capsys):
    cells = [(command, error) for command in ("NOP", "COPY") for error in ("none", "range")]
    model = kept(tmp_path / "block-coverage-01", {"first": [], "second": []})
    for run, taken in (("first", [("NOP", "none")]), ("second", [("NOP", "none"), ("COPY", "range")])):
        cross = Cross(
            "command x error", cells, lambda command, error: "it has no range" * (cells[1] == (command, error))
        )
        for cell in taken:
            cross.take(*cell)
        with pytest.raises(AssertionError, match="which cannot be"):
            cross.take("NOP", "range")
        cross.write(model / run)
    found = Cross.of(model)
    assert dict(found.taken) == {"NOP none": 2, "COPY none": 0, "COPY range": 1}
    assert found.missed == ["COPY none"]
    assert found.impossible == {"it has no range": ["NOP range"]}
    assert main(["--blocks", str(tmp_path)]) == 0
    assert "2 of 3 cells of command x error" in capsys.readouterr().out
    assert (model / "missed.txt").read_text() == "COPY none\n"
    assert Cross.of(tmp_path) is None
