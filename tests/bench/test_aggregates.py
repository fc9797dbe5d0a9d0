"""The benchmark of aggregates, small."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bench.aggregates import CASES, _duckdb, _Stream, main, measure
from muntin import WindowJoin


def test_figures_are_of_as_many_matches_as_asked_for():
    for name in ("count, sum, min, mean", "time window: sum"):
        found = measure(10_000, 500, 2, (1, 64), case=next(case for case in CASES if case.name == name))
        assert [each["matches"] for each in found] == [1, 64]
        for each in found:
            assert 0.8 < each["found"] / each["matches"] < 1.25
            assert each["seconds"] > 0
            assert each["duckdb_seconds"] > 0


def test_every_case_in_table_json_and_plot(tmp_path):
    files = {what: tmp_path / f"aggregates.{what}" for what in ("json", "png")}
    told = CliRunner().invoke(main, ["--quick", "--output", str(files["json"]), "--plot", str(files["png"])])
    assert told.exit_code == 0, told.output
    found = json.loads(files["json"].read_text())
    assert [case["name"] for case in found["cases"]] == [case.name for case in CASES]
    for case, given in zip(found["cases"], CASES, strict=True):
        assert f"\n| {given.name} | " in told.output
        assert [each["matches"] for each in case["points"]] == [1, 16, 256]
        assert all((each["duckdb_seconds"] is None) == (not given.peer) for each in case["points"])
    worst = max(each["ratio"] for case in found["cases"] if case["aim"] for each in case["points"])
    assert f"aim: at most 1.5 times the CPU of one match a row; {'met' if worst <= 1.5 else 'missed'}" in told.output
    assert files["png"].stat().st_size > 1000
    assert [each["windows"] for each in found["windows"]] == [1, 2]  # results that differ are an error
    assert all(figure > 0 for each in found["windows"] for figure in each.values())
    assert "| windows | last price | Polars, an as-of join each |" in told.output


def test_a_case_that_is_not_there():
    told = CliRunner().invoke(main, ["--only", "mode"])
    assert told.exit_code == 2
    assert "no case has mode in its name: there are count, sum" in told.output


@pytest.mark.parametrize("case", [case for case in CASES if case.peer], ids=lambda case: case.name)
def test_duckdb_gives_the_same(case):
    stream = _Stream(case, 3000, 12, np.random.default_rng(5))
    table, left = stream.rows(3000), stream.rows(200)
    with WindowJoin(**stream.options) as join:
        join.process(left.slice(0, 0), table)
        found = join.process(left, None).drop_columns(["side", "row"]).to_pydict()
    wanted = _duckdb(case, left, table, stream.where)[1].sort_by("n").drop_columns("n").to_pydict()
    for got, due in zip(found.values(), wanted.values(), strict=True):
        pairs = [(a, b) for a, b in zip(got, due, strict=True) if a or b]
        assert len(pairs) > 100
        for a, b in pairs:
            if isinstance(a, list):
                assert sorted(a) == sorted(b)
            else:
                assert (a is None and b is None) or float(a) == pytest.approx(float(b), rel=1e-9, abs=1e-9)
