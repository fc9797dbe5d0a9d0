"""The benchmark of joins of topics, on few messages."""

import json

import pytest
from click.testing import CliRunner

from bench.kafka_join import main, mock_cluster, run_kafka_benchmark, run_muntin, write


def test_contenders_find_all_pairs(tmp_path):
    with mock_cluster() as servers:
        pairs = write(servers, 3_000)
        assert pairs > 1_000
        for number, options in enumerate(({}, {"topic": True}, {"arrow": True})):
            assert run_muntin(servers, pairs, str(tmp_path / str(number)), **options) > 0
        with pytest.raises(RuntimeError, match="pairs were found, of 7"):
            run_muntin(servers, 7, str(tmp_path / "wrong"))


def test_a_table_and_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None if module == "bytewax" else module)
    monkeypatch.setattr("bench.kafka_join.measure", lambda name, servers, pairs: {"muntin": 0.5, "quix": 2.0}[name])
    words = ["--rows", "1K", "--turns", "2", "--json", str(tmp_path / "out.json")]
    told = CliRunner().invoke(main, [*words, *(f"--contender={name}" for name in ("muntin", "quix", "bytewax"))])
    assert told.exit_code == 0, told.output
    assert "4,096" in told.output
    assert "bytewax is not installed" in told.output
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["contenders"]["quix"] == {"rate": 1024.0, "rates": [1024.0, 1024.0]}
    assert found["rows"] == 1024
    assert run_kafka_benchmark(1_000, 1, ["bytewax"])["contenders"] == {
        "bytewax": {"unavailable": "bytewax is not installed"}
    }
