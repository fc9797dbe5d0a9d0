"""The code of the papers' figures, on small sizes: what is exact in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import panjoin, spo_join, spo_streams
from bench.papers.figure import Figure, Scale
from bench.papers.page import DOCS, KEPT, figures_of, papers, slug, write_page
from bench.papers.stated import judged, otherwise, stated

SCALE = Scale(quick=True, seconds=0.001)
ROWS = 1 << 10
SHORT = {
    ("panjoin", "12f"), ("pim_tree", "11a"), ("splitjoin", "15"), ("spo_join", "11d"),
    ("spo_join", "13"),
}  # fmt: skip


def in_band(stored: np.ndarray, probing: np.ndarray, reach: int) -> int:
    stored, probing = np.sort(stored.astype(np.int64)), probing.astype(np.int64)
    near = np.searchsorted(stored, probing + reach, "right") - np.searchsorted(stored, probing - reach, "left")
    return int(near.sum())


@pytest.mark.parametrize("structure", panjoin.STRUCTURES)
@pytest.mark.parametrize("form", ["pairs", "counts"])
def test_a_subwindow_finds_what_lies_in_the_band(structure: str, form: str, seed: int) -> None:
    keys, reach = panjoin.even_keys(ROWS, seed), 1 << 26
    window = panjoin.Window(structure, ROWS, 16, keys, reach=reach, buffer_rows=64, form=form)
    probes = panjoin.even_keys(200, seed + 1)
    assert window.probe(probes)[1] == in_band(keys, probes, reach) > 200


def test_probes_meet_a_buffer_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[panjoin.Window] = []

    class Noted(panjoin.Window):
        def __init__(self, *given: Any, **options: Any):
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(panjoin, "Window", Noted)
    for size in (32, 256):
        panjoin.probe_turns(panjoin.BISORT, ROWS, 16, 32, SCALE, equal=True, buffer_rows=size, buffered=size - 31)()
        assert size - 31 <= made[-1].engine.figures(0)["buffer"] <= size  # type: ignore[operator]


@pytest.mark.parametrize("query", ["Q1", "Q3"])
def test_a_chained_index_of_two_conditions_finds_what_a_loop_does(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def rows_of(query: str, count: int, rng: np.random.Generator) -> spo_streams.Keys:
        drawn.append(spo_streams.rows_of(query, count, rng))
        return drawn[-1]

    monkeypatch.setattr(spo_join, "rows_of", rows_of)
    chained = spo_join.Chained(query, 50)
    a, b = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
    assert len(a) == 500
    found = 0
    for _ in range(20):
        assert chained.time_step() > 0
        (x, y) = drawn[-1]
        expected = (x > a) & (y < b) if query == "Q1" else (x < a) & (y > b)
        assert chained.pairs == expected.sum()
        found += chained.pairs
    assert found > 0


def test_a_hash_join_holds_ten_slides() -> None:
    join = spo_join.HashJoin(20)
    assert len(join.times(100)) == 100
    for table, held in zip(join._tables, join._held, strict=True):
        assert 200 <= len(held) < 220
        assert sum(map(len, table.values())) == len(held)


def test_rows_wait_for_those_before_them() -> None:
    # Of the slower contender a row comes every 3 s, and takes 2, 4, 2 and 4 s; at a load of 1 it comes as it goes.
    points = spo_join._waiting({"a": [np.array([2.0, 4.0, 2.0, 4.0])], "b": [np.array([1.0])]}, 1.0)
    latencies = [2.0, 4.0, 3.0, 4.0]
    assert {p["x"]: p["y"] for p in points if p["series"] == "a"} == pytest.approx(
        {percent: 1e3 * np.percentile(latencies, percent) for percent in spo_join.PERCENTILES}
    )
    assert all(p["y"] == 1e3 for p in points if p["series"] == "b")


def test_every_statement_is_of_a_figure_or_says_why_there_is_none() -> None:
    for name in papers():
        made = {number for _, number, _ in figures_of([name])}
        for number, given in stated(name).items():
            assert given["claim"].endswith("."), number
            assert (number in made) != ("unmeasured" in given), number
            assert set(given) <= {"claim", "points", "findings", "because", "unmeasured"}, number


@pytest.mark.parametrize(
    ("paper", "number", "run"),
    [
        pytest.param(
            name,
            number,
            run,
            id=f"{name}-{number}",
            marks=() if (name, number) in SHORT else pytest.mark.full,
        )
        for name in papers()
        for _, number, run in figures_of([name])
    ],
)
def test_a_figure_is_made_and_judged(paper: str, number: str, run: Callable[[Scale], Figure]) -> None:
    figure = judged(run(SCALE), stated(paper).get(number, {}))
    assert figure.number == number
    assert all(point["y"] >= 0 for point in figure.points)
    assert len({(point["series"], point["x"]) for point in figure.points}) == len(figure.points)


def test_a_page_says_what_is_built_otherwise(tmp_path: Path) -> None:
    write_page(json.loads(KEPT.read_text()), tmp_path, drawn=())
    for name in papers():
        text = (tmp_path / f"papers-{slug(name)}.md").read_text()
        assert all(f"\n- {item}\n" in text for item in otherwise(name))
        assert text == (DOCS / f"papers-{slug(name)}.md").read_text()
    assert any(map(otherwise, papers()))
