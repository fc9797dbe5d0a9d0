"""The model of a cluster, at a tiny size."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.cluster_model import HEAVY, UNIFORM, Case, Cluster, Fit, main, measure, predict

ROWS = 512
FITS = (
    Fit(("row read", "row placed by ranges", "row read and partition", "byte sent"), [2e-7, 2e-7, 1e-9, 5e-9], 0, 0),
    Fit(("micro-batch", "row stored and probing", "pair", "byte in or out"), [1e-3, 3e-7, 2e-7, 1e-9], 0, 0),
)


@pytest.mark.parametrize("data", [UNIFORM, HEAVY])
def test_work_is_counted(data: str) -> None:
    """All find the same pairs; copies are as each says; partitions are even, with half of the rows of one key too."""
    for by, copies, heavy in (("equality", 1, 1.75), ("ranges", 1.25, 1.9), ("subwindows", 2.5, 2.5)):
        case = Case(by, data, ROWS)
        one, four = measure(case, 1), measure(case, 4)
        assert sorted(four["result"]["id"].to_pylist()) == sorted(one["result"]["id"].to_pylist())
        assert sum(four["pairs"]) == sum(one["pairs"]) > ROWS / 2
        assert sum(four["rows"]) / one["read"] <= (heavy if data == HEAVY else copies) * 1.05
        assert sum(four["in_bytes"]) > 32 * sum(four["rows"])
        assert sum(four["state_bytes"]) > 24 * sum(four["rows"])
        assert max(four["rows"]) / np.mean(four["rows"]) < 1.2


def test_costs_are_found() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 1000, (40, 3)).astype(float)
    points = [(*row, row @ [2e-6, 0, 3e-7], at % 4 == 0) for at, row in enumerate(counts)]
    fit = Fit.of(("a", "b", "c"), points)
    assert fit.seconds == pytest.approx([2e-6, 0, 3e-7], rel=1e-6, abs=1e-12)
    assert max(fit.error, fit.tested) < 1e-6
    lower = Fit.of(("a", "b"), [(a, b, a * 1e-6 - b * 1e-10, False) for a, b, _ in counts])
    assert lower.seconds[1] == 0
    assert lower.seconds[0] == pytest.approx(1e-6, rel=0.05)


def test_what_bounds_a_cluster() -> None:
    """Cores where rows spread; one partition where rows of one key are copied; the network where all rows are."""

    def bound(by: str, data: str, machines: int, gbit: float = 10) -> tuple[str, float, float]:
        case = Case(by, data, ROWS)
        point = predict(case, measure(case, 1), FITS, Cluster(8, gbit, 1, 1 << 20, 6.0), machines)
        return point["bound"], point["rows_per_s"], point["bytes_per_row"]

    alone = bound("equality", UNIFORM, 1)
    assert alone[2] == 0
    kind, rate, sent = bound("equality", UNIFORM, 8)
    assert kind == "cores"
    assert 4 < rate / alone[1] < 8
    assert 60 < sent < 120
    assert bound("equality", HEAVY, 16)[0] == bound("ranges", HEAVY, 16)[0] == "one partition"
    kind, _, copied = bound("subwindows", HEAVY, 16, gbit=0.3)
    assert kind == "network in"
    assert copied > 3 * sent


def test_the_command(tmp_path: Path) -> None:
    out, plot = tmp_path / "model.json", tmp_path / "model.png"
    done = CliRunner().invoke(main, ["--rows", "64", "--json", str(out), "--plot", str(plot)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "balance of 4 partitions" in done.output
    found = json.loads(out.read_text())
    assert [len(found[name]) for name in ("runs", "predicted", "fits")] == [36, 30, 2]
    assert all(point["rows_per_s"] > 0 for point in found["predicted"])
    assert plot.stat().st_size > 1000
