"""The harness of PIM-Tree's figures: what it feeds is what the figures say."""

import numpy as np
import pytest

from bench.papers import pim_tree
from bench.papers.figure import Scale

WINDOW = 4096


@pytest.mark.parametrize("keys", [pim_tree.uniform, pim_tree.gaussian, pim_tree.gamma(3, 3), pim_tree.gamma(1, 5)])
def test_a_row_has_two_matches_on_average(keys):
    band = pim_tree.band_for(keys, WINDOW, 2)
    rng = np.random.default_rng(3)
    stored, probing = (np.sort(keys(rng, 40 * WINDOW).astype(np.int64)) for _ in range(2))
    near = np.searchsorted(stored, probing + band, "right") - np.searchsorted(stored, probing - band, "left")
    assert near.mean() / 40 == pytest.approx(2, rel=0.1)


def test_the_windows_are_full_and_merged_when_a_rate_is_taken():
    run = pim_tree.Run(pim_tree.both(WINDOW), **pim_tree.PIM)
    run.block()
    assert len(run.rates) == 1
    assert run.core.rows(0) >= WINDOW
    assert run.core.report()["merges"] > 1


def test_a_figure_has_a_point_for_each_series_and_place(monkeypatch):
    monkeypatch.setattr(pim_tree, "windows", lambda scale: [512, 1024])
    figure = pim_tree.fig_11a(Scale(quick=True, seconds=0.01))
    assert {(point["series"], point["x"]) for point in figure.points} == {
        (series, window) for series in ("PIM-Tree, merge ratio 1", "B+-Tree") for window in (512, 1024)
    }
    assert all(point["y"] > 8 for point in figure.points)  # bytes of an item at least
