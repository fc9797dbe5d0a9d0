"""The grid of indexes: cells are what they say, and are measured and drawn."""

import numpy as np
import pytest

from bench.grid import AUTO, Cell, Run, TooSlow, cells, draw, measure


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
