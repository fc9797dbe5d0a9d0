"""How lines and branches that benches take are counted."""

import pytest

pytest.importorskip("amaranth")

from muntin.sim.block_runner import run_bench
from muntin.sim.coverage import coverage_of, main
from tests.sim.test_block_runner import Store


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


def test_runs_and_instances_are_one(tmp_path):
    model = tmp_path / "block-coverage-01"
    points = {
        "first": ["3\x01n\x025\x01o\x02if' 2", "3\x01n\x025\x01o\x02else' 0", "4\x01n\x021\x01o\x02line' 0"],
        "second": ["3\x01n\x025\x01o\x02if' 0", "3\x01n\x025\x01o\x02else' 1", "4\x01n\x021\x01o\x02line' 0"],
    }
    for run, lines in points.items():
        (model / run).mkdir(parents=True)
        text = "".join(f"C '\x01f\x02top.v\x01l\x02{line}\n" for line in lines)
        (model / run / "coverage.dat").write_text(f"# SystemC::Coverage-3\n{text}")
    (model / "top.v").write_text("module top;\nalways\n  if (a)\n    b <= 1;\n")
    found = coverage_of(model)
    assert (found.name, found.taken, found.points, found.missed) == ("block", 2, 3, ["4: line: b <= 1;"])
