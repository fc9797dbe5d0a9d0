"""The grid of indexes: cells are what they say, and are measured and drawn."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bench.grid import AUTO, Cell, Run, TooSlow, cells, draw, main, measure


@pytest.mark.parametrize("order", ["random", "rising"])
@pytest.mark.parametrize("matches", [1, 16])
def test_a_row_has_as_many_matches_as_its_cell_says(order, matches, seed):
    cell = Cell(64, 4096, matches, "uniform", order)
    left, right = (cell.keys(np.random.default_rng([seed, side]), 0, 4096).astype(np.int64) for side in range(2))
    low, high = cell.band
    right.sort()
    found = np.searchsorted(right, left + high, "right") - np.searchsorted(right, left + low, "left")
    assert found.mean() == pytest.approx(matches, rel=0.15)


def test_keys_are_as_skewed_as_a_cell_says(seed):
    for skew, most in (("uniform", 0.01), ("rank-size", 0.15), ("half equal", 0.55)):
        keys = Cell(64, 4096, 1, skew, "random").keys(np.random.default_rng(seed), 0, 20_000)
        heaviest = np.unique(keys, return_counts=True)[1].max() / len(keys)
        assert most / 10 < heaviest + 0.001 <= most


def test_a_cell_is_measured_and_drawn(tmp_path):
    cell = Cell(64, 512, 1, "half equal", "rising")
    measured = measure(cell, ("bisort", "pim_tree"), turns=1, pieces=2)
    assert measured.chosen == "sorted_runs"
    assert {AUTO, measured.best} <= set(measured.ns) <= {AUTO, "bisort", "pim_tree"}
    assert measured.off == measured.ns[AUTO] / min(value for name, value in measured.ns.items() if name != AUTO)
    draw([measured], tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 1000
    with pytest.raises(TooSlow):
        Run(cell, "bisort", most=0)
    assert {cell.batch for cell in cells(quick=False)} == {64, 1024, 32768}


def test_a_run_goes_on_from_the_cells_of_an_interrupted_one(tmp_path):
    files = ["--json", str(tmp_path / "grid.json"), "--plot", str(tmp_path / "grid.png")]
    shared = ["--quick", "--turns", "1", "--index", "bisort", *files, "--resume"]
    (tmp_path / "grid.json").write_text('{"cells": []}')
    for order, cells_in_all in (("rising", 1), ("random", 2)):
        only = f"window 4,096, batch 1,024, 1 matches, uniform, {order}"
        done = CliRunner().invoke(main, [*shared, "--only", only])
        assert done.exit_code == 0, done.output
        assert f"{cells_in_all} cells" in done.output
        assert len(json.loads((tmp_path / "grid.json").read_text())["cells"]) == cells_in_all
