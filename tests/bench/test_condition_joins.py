"""The figures of joins beyond one band, small: every contender is there or left out with a reason, and they agree."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bench import condition_joins
from bench.__main__ import main
from bench.aims import aims
from bench.condition_joins import run_condition_joins
from bench.operator_benchmark import ResultsDiffer
from bench.plan import CONDITION_PEERS, ConditionsPlan
from bench.readme import blocks
from bench.readme import main as readme
from bench.report import tables

SMALL = ConditionsPlan(
    window=4096, batch=256, calls=4, range_batch=96, as_of_rows=4096, as_of_batch=512, as_of_values=(1, 30),
    matches=(1, 16), turns=2, seconds=5.0, micro_batch=2048, keys=(50,), steps=1,
)  # fmt: skip


def test_every_figure_has_its_contenders():
    figures = list(run_condition_joins(SMALL.without(["spark"])))
    assert [figure["figure"] for figure in figures] == [
        *("outer", "outer", "ranges", "as-of", "as-of", "aggregates", "equality + band")
    ]
    expected = {
        "outer": {"left outer", "inner"},
        "ranges": {"SpoJoin", "one range, then a filter", "duckdb", "polars", "chdb"},
        "as-of": {"streamed", "polars", "duckdb"},
        "equality + band": {"spark"},
    }
    for figure in figures:
        if "points" in figure:
            assert [point["matches"] for point in figure["points"]] == [1, 16]
            continue
        assert figure["contenders"].keys() | figure["missing"].keys() == expected[figure["figure"]]
        assert all(entry["rate"] > 0 for entry in figure["contenders"].values())
        assert "duckdb" not in figure["missing"]
    # A tenth of the rows lie in each range.
    assert float(figures[2]["case"].split(", ")[1].split()[0]) == pytest.approx(4096 / 100, rel=0.25)


def test_left_out_peers_are_not_measured():
    left_out = SMALL.without(CONDITION_PEERS)
    found = {name for figure in run_condition_joins(left_out) for name in figure.get("contenders", ())}
    assert found == {"left outer", "inner", "SpoJoin", "one range, then a filter", "streamed"}


@pytest.mark.parametrize(
    ("peer", "figure"), [("_DuckDb", "two ranges, 64 rows: duckdb"), ("_as_of_polars", "as-of, 1 values, turn 0")]
)
def test_a_peer_that_finds_something_else_ends_the_run(monkeypatch, peer, figure):
    known = getattr(condition_joins, peer)
    if peer == "_DuckDb":

        class Broken(known):
            def counts(self, probes):
                rows, matches = super().counts(probes)
                return rows, matches + (rows == 3)

        monkeypatch.setitem(condition_joins._PEERS, "duckdb", Broken)
    else:
        monkeypatch.setattr(condition_joins, peer, lambda left, *given: known(left.slice(1), *given))
    with pytest.raises(ResultsDiffer, match=figure):
        list(run_condition_joins(SMALL.without(["spark"])))


def test_from_the_command_line_to_the_documents_tables(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.__main__.ConditionsPlan", lambda **changes: SMALL)
    arguments = ["--only", "conditions", "--without", "spark", "--without", "chdb", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "aggregates  matches a row:  16" in done.output
    result = json.loads((tmp_path / "latest.json").read_text())
    shown = blocks(result)
    assert "| outer | time, 4K rows a side, batches of 256 | left outer |" in shown["conditions"]
    assert "| equality + band | 50 keys, 4K rows a side, micro-batches of 2K | spark, left out: " in shown["conditions"]
    assert "\n| 16 | " in shown["aggregates"]
    assert "aggregates at 16 matches a row against 1: time | 1.5x | " in shown["aims_beyond"]
    twice = CliRunner().invoke(readme, [str(tmp_path / "latest.json")] * 2)
    assert twice.exit_code == 1
    assert "two results have the part 'conditions'" in twice.output


def test_aims_are_for_their_sizes():
    def figure(name: str, case: str, **rates: float) -> dict:
        return {"figure": name, "case": case, "contenders": {n: {"rate": r, "rates": [r]} for n, r in rates.items()}}

    stores = {"window_join": 400.0, "Spark's join, RocksDB, format 4": 20.0, "Spark's join, in-memory store": 100.0}
    figures = [
        figure("equality + band", "100,000 keys, 1M rows a side, micro-batches of 256K", **stores),
        figure("equality + band", "1,000 keys, 128K rows a side, micro-batches of 64K", **stores),
        figure("equality + band", "1,000 keys, 64K rows a side, micro-batches of 16K", **stores),
        figure("ranges", "1M right rows, counted", SpoJoin=6.0, **{"one range, then a filter": 2.0}),
        figure("as-of", "by time alone, 8M rows a side, batches of 32K", streamed=9.0, polars=6.0, duckdb=3.0),
        figure("as-of", "by time alone, 4K rows a side, batches of 512", streamed=9.0, polars=6.0, duckdb=3.0),
        figure("outer", "time, 1M rows a side, batches of 32K", **{"left outer": 10.0, "inner": 12.0}),
        {"figure": "equality + band", "case": "100,000 keys", "contenders": {}, "missing": {"spark": "no Java"}},
        {"figure": "aggregates", "case": "", "points": [
            {"matches": 1, "ratio": 1.0, "seconds": 1e-6, "duckdb_seconds": None},
            {"matches": 64, "ratio": 1.1, "seconds": 1e-6, "duckdb_seconds": 2e-6},
        ]},
    ]  # fmt: skip
    assert [(aim, measured) for _, aim, measured in aims({"conditions": figures})] == [
        *(("10x", "20.00x"), ("5x", "4.00x"), ("50x", "20.00x"), ("5x", "3.00x"), ("2x", "1.50x"), ("2x", "3.00x")),
        *(("1.3x", "1.20x"), ("1.5x", "1.10x")),
    ]
    found = tables({"conditions": figures})
    headings, lines = found["Conditions: equality with a band, ranges, outer and as-of joins"]
    assert headings[-1] == "the first / this"
    assert ["equality + band", "100,000 keys", "spark, left out: no Java", "", ""] in lines


@pytest.mark.full
def test_spark_joins_the_same_rows_on_both_of_its_stores():
    pytest.importorskip("pyspark")
    *_, figure = run_condition_joins(SMALL.without(["duckdb", "polars", "chdb"]))
    assert len(figure["contenders"]) == 3
    assert figure["micro_batches_compared"] == dict.fromkeys(figure["contenders"], 2)
    # 4,096 rows before of 50 keys, and 11 of 1,000 values.
    assert figure["pairs_per_row"] == pytest.approx(4096 / 50 * 11 / 1000, rel=0.3)
    assert np.isfinite([entry["rate"] for entry in figure["contenders"].values()]).all()
