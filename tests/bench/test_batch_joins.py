"""Batch joins find one result, and a missing engine is named."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.batch_joins import CONTENDERS, DuckDb
from bench.contenders import Pairs, Unavailable
from bench.workloads import Workload

PEERS = ("--only", "peers", "--window", "2K", "--batch", "256")


@pytest.mark.parametrize("name", CONTENDERS)
def test_pairs_equal_a_nested_loop(name: str) -> None:
    workload = Workload(kind="uniform", window=1024, seed=3)
    try:
        join = CONTENDERS[name](workload)
    except Unavailable as error:
        pytest.skip(str(error))
    low, high = workload.band
    right = workload.rows(1, 0, 1024).keys.astype(np.int64)
    for first in (1024, 1536):  # the table stays as it is
        batch = workload.rows(0, first, first + 512)
        distance = right[None, :] - batch.keys.astype(np.int64)[:, None]
        left_row, right_row = np.nonzero((distance >= low) & (distance <= high))
        pairs = join.join(batch)
        found = sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
        assert found == list(zip((left_row + first).tolist(), right_row.tolist(), strict=True))
        assert len(found) > 100
    join.close()


def test_a_run_leaves_out_what_is_missing_and_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb.session", None)
    done = CliRunner().invoke(main, [*PEERS, "--without", "duckdb", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    peers = json.loads((tmp_path / "latest.json").read_text())["peers"]
    assert list(peers["contenders"]) == ["cpu", "polars"]
    assert all(len(entry["ms"]) == 5 and entry["median"] > 0 for entry in peers["contenders"].values())
    assert "pip install 'muntin[clickhouse]'" in peers["missing"]["chdb"]
    assert "left out: import of chdb.session halted" in " ".join(done.output.split())


def test_pairs_that_differ_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = DuckDb.join

    def broken(self: DuckDb, batch) -> Pairs:
        pairs = join(self, batch)
        return Pairs(left=pairs.left[1:], right=pairs.right[1:])

    monkeypatch.setattr(DuckDb, "join", broken)
    done = CliRunner().invoke(main, [*PEERS, "--without", "chdb", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "joins 256 rows from 2,048 with 2,048" in " ".join(done.output.split())
