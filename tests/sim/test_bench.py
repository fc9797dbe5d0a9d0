"""The command that prints figures of simulated boards."""

import json

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("litedram")

from sim.bench import __main__ as command
from sim.bench.copy_figure import CopyFigure


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
