"""The benchmark of aggregates, small."""

import json

from click.testing import CliRunner

from bench.aggregates import main, measure


def test_figures_are_of_as_many_matches_as_asked_for():
    found = measure(20_000, 500, 2, (1, 64))
    assert [each["matches"] for each in found] == [1, 64]
    for each in found:
        assert 0.8 < each["found"] / each["matches"] < 1.25
        assert each["seconds"] > 0
        assert each["duckdb_seconds"] > 0


def test_table_and_json(tmp_path):
    told = CliRunner().invoke(
        main, ["--window", "9000", "--batch", "100", "--calls", "1", "--output", str(tmp_path / "figures.json")]
    )
    assert told.exit_code == 0, told.output
    assert "| 4,096 |" in told.output
    assert [each["matches"] for each in json.loads((tmp_path / "figures.json").read_text())["figures"]] == [1, 64, 4096]
