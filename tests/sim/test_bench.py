"""The command that prints figures of simulated boards."""

import json

import numpy as np
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("litedram")

from bench.hardware import __main__ as command
from bench.hardware.figures import CopyFigure, LanesFigure
from bench.hardware.kernel_bench import Trace
from bench.hardware.kernel_figure import KernelFigure
from bench.hardware.merger_bench import MergerFigure


def test_copy_prints_a_table_and_writes_json(monkeypatch, capsys, tmp_path):
    figures = [
        CopyFigure("one", 1, "copy", 4096, 200, 250),
        CopyFigure("two", 2, "read", None, 100, 200),
    ]
    lengths = []
    monkeypatch.setattr(command, "copy_bench", lambda length: lengths.append(length) or iter(figures))
    path = tmp_path / "deep" / "copy.json"
    assert command.main(["copy", "--mebibytes", "2", "--json", str(path)]) == 0
    assert lengths == [2 << 20]
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 3
    assert "0.8000" in table[1]
    assert "4096" in table[1]
    assert "0.5000" in table[2]
    written = json.loads(path.read_text())["figures"]
    assert [figure["beats_per_cycle"] for figure in written] == [0.8, 0.5]
    assert written[0]["cycles"] == 250


def figure(**changes):
    values = {
        "case": "merge",
        "channels": 1,
        "quantity": "beats/cycle",
        "value": 0.9,
        "limit": 0.92,
        "beside": "a copy",
        "target": 0.97,
        "at_least": True,
        "cycles": 1000,
        "beats": 900,
        "counters": {"cycles": 1000},
    }
    return KernelFigure(**(values | changes))


def test_a_figure_knows_which_side_of_its_aim_it_is_on():
    assert figure().met
    assert not figure(value=0.8).met
    assert figure(at_least=False, target=1.0, value=5, limit=6).met
    assert not figure(at_least=False, target=1.0, value=7, limit=6).met


def test_kernel_prints_a_table_draws_and_writes_json(monkeypatch, capsys, tmp_path):
    def bench(rows, seed, traces):
        activity = {
            name: np.full((500, 2), cycles, np.uint32)
            for name, cycles in (("read", 100), ("write", 90), ("turning", 30), ("memory", 26), ("engine", 10))
        }
        traces.append(Trace("a merge", np.full(500, 256, np.uint32), activity))
        yield figure()
        yield figure(case="probe", value=70, limit=50, target=1.05, at_least=False, quantity="beats read")

    monkeypatch.setattr(command, "kernel_bench", bench)
    path = tmp_path / "kernel.json"
    assert command.main(["kernel", "--rows", "1", "--json", str(path)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert "0.9783" in table[2]
    assert "missed" not in table[2]
    assert "1.4000" in table[3]
    assert "missed" in table[3]
    assert [entry["met"] for entry in json.loads(path.read_text())["figures"]] == [True, False]
    picture = path.with_suffix(".png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_merger_prints_the_least_rate_of_each_width(monkeypatch, capsys, tmp_path):
    figures = [MergerFigure(2, "equal", "(1, 1)", 2000, 1000), MergerFigure(2, "uniform", "(1, 1)", 1998, 1000)]
    monkeypatch.setattr(command, "merger_bench", lambda seed: iter(figures))
    assert command.main(["merger", "--json", str(tmp_path / "merger.json")]) == 0
    assert "| 2 | 2 | 0.99900 |" in capsys.readouterr().out


def test_lanes_are_held_against_one(monkeypatch, capsys, tmp_path):
    figures = [LanesFigure("merge", 1, 1000, 1000, 900, 1.0), LanesFigure("merge", 2, 520, 1000, 902, 0.51)]
    asked = []
    monkeypatch.setattr(command, "lanes_bench", lambda rows, seed: asked.append(rows) or iter(figures))
    path = tmp_path / "lanes.json"
    assert command.main(["lanes", "--rows", "2", "--json", str(path)]) == 0
    assert asked == [2 << 20]
    table = capsys.readouterr().out.splitlines()
    assert table[2] == "| merge | 1 | 1,000 | 900 | 0.900 | 1.000 | 1.00 |"
    assert table[3] == "| merge | 2 | 520 | 902 | 0.867 | 0.510 | 1.92 |"
    assert [entry["faster"] for entry in json.loads(path.read_text())["figures"]] == [1.0, 1000 / 520]
