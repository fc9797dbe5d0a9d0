"""The harness of PIM-Tree's figures: what it feeds is what the figures say."""

import numpy as np
import pytest

from bench.contenders.contender import Unavailable
from bench.papers import pim_runs, pim_steps, pim_tree
from bench.papers.figure import Scale

WINDOW = 4096


@pytest.mark.parametrize("keys", [pim_runs.uniform, pim_runs.gaussian, pim_runs.gamma(3, 3), pim_runs.gamma(1, 5)])
def test_a_row_has_two_matches_on_average(keys):
    band = pim_runs.band_for(keys, WINDOW, 2)
    rng = np.random.default_rng(3)
    stored, probing = (np.sort(keys(rng, 40 * WINDOW).astype(np.int64)) for _ in range(2))
    near = np.searchsorted(stored, probing + band, "right") - np.searchsorted(stored, probing - band, "left")
    assert near.mean() / 40 == pytest.approx(2, rel=0.1)


def test_the_windows_are_full_and_merged_when_a_rate_is_taken():
    run = pim_runs.Run(pim_runs.both(WINDOW), **pim_runs.PIM)
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


def test_the_join_over_a_concurrent_map_finds_every_pair_once(seed):
    try:
        join = pim_runs.ConcurrentMap(100, threads=3, block_rows=64, band=1 << 24)
    except Unavailable as reason:
        pytest.skip(str(reason).splitlines()[0])
    rng = np.random.default_rng(seed)
    first, every = list(join._arrived), [np.empty(0, np.int64)] * 2
    for number in range(12):
        left = rng.random(150) < 0.4
        before = [first[1] + np.cumsum(~left)[left], first[0] + np.cumsum(left)[~left]]
        keys = [pim_runs.uniform(rng, len(other_position)) for other_position in before]
        every = [np.append(stored, own) for stored, own in zip(every, keys, strict=True)]
        found, expected = join.step(keys, before), 0
        for side in range(2):
            base = join._arrived[1 - side]  # rows before those of this test, which are not known here
            for key, other_position in zip(keys[side].tolist(), before[side].tolist(), strict=True):
                met = every[1 - side][max(other_position - 100 - base, 0) : other_position - base]
                expected += np.count_nonzero(np.abs(met - key) <= 1 << 24)
        first = [at + len(own) for at, own in zip(first, keys, strict=True)]
        if number > 3:  # windows hold rows of this test alone
            assert found == expected > 0
    join.close()


def test_the_cost_model_is_fitted():
    asked = [(name, window) for window in (1 << 12, 1 << 16, 1 << 20) for name in ("B+-Tree", "B-chain", "IM-Tree")]
    asked += [("PIM-Tree", 1 << 20), ("round robin", 1 << 14)]
    costs = np.array([100, 30, 5, 20, 40, 10, 1.0])
    terms = np.array([pim_steps.equation(name, window, 8, length=3) for name, window in asked])
    np.testing.assert_allclose(terms @ pim_steps.fit(terms, terms @ costs), terms @ costs, rtol=1e-6)
    assert (pim_steps.fit(terms, terms @ (costs * [1, 1, 1, -1, 1, 1, 1])) >= 0).all()
    assert len(pim_steps.COSTS) == terms.shape[1]


def test_each_step_has_its_cost():
    steps = pim_steps.steps_of(pim_runs.BPLUS, 1024, 0.01)
    assert list(steps) == ["insert", "delete", "search", "scan", "merge"]
    assert steps["insert"] > 0
    assert steps["merge"] == 0 <= min(steps.values())


def test_a_finding_is_of_blocks_side_by_side():
    points = [
        {"series": "a", "x": 1024, "turns": [2, 3, 4]},
        {"series": "b", "x": 1024, "turns": [1, 1, 5]},
        {"series": "b", "x": 2048, "turns": [9, 9, 9]},
    ]
    finding = pim_tree.faster(points, "a", "b", 1024, paper=3)
    assert finding.ratios == [2, 3, 0.8]
    assert "1,024" in finding.says


@pytest.mark.parametrize("blocking", [False, True])
def test_each_side_is_merged_as_often_whatever_way(blocking):
    run = pim_runs.Run(pim_runs.both(1 << 15), block_rows=1 << 13, **pim_runs.PIM, blocking=blocking)
    run.block_rows = 512
    for _ in range(40):
        run.block()
    report, figures = run.core.report(), [run.core.figures(side) for side in (0, 1)]
    assert report["merges"] >= 4  # of 4,096 rows of a side
    assert not blocking or (report["pending"], report["merging"]) == (0, 0)
    assert sum(one["immutable_rows"] + one["mutable_rows"] for one in figures) >= 2 << 15
