"""The grid: which index is best at which size of batch and window, number of matches, skew and order of keys.

``python -m bench.grid`` measures every cell on ``device="cpu"`` with one thread, in processor time: rows go through
`WindowJoin` with ``form="counts"``, so that no copying of pairs hides what an index costs. The contenders of a cell
take turns, a few calls each. ``index="auto"`` is one of them, and is held against the best of the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import matplotlib
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from bench.machine import describe_machine
from muntin import Band, Rows, WindowJoin

SKEWS = ("uniform", "rank-size", "half equal")
ORDERS = ("random", "rising")
AUTO = "auto"
INDEXES = ("sorted_runs", "bisort", "rap_table", "wib_tree", "pim_tree", "im_tree", "bplus_tree", "slices")
WITHIN = 1.1  # of the best, that `auto` is to be
TOO_SLOW = 8  # times as long as `auto`, and an index is not measured in a cell
_SPAN = 1 << 30  # of keys in random order
_SOME = 1 << 21  # rows drawn at once
_MOST = 1 << 13  # calls of a contender in a turn, and to settle: with small ones the calls cost more than the index


@dataclasses.dataclass(frozen=True)
class Cell:
    """One place of the grid.

    Attributes
    ----------
    batch, window : int
        Rows a side of a call, and of the window.
    matches : int
        Of a row, where keys are uniform; about as many from the keys that are not heavy, where they are not.
    skew : str
        ``"uniform"``; ``"rank-size"``: key of rank r with a frequency of 1 / r, keys of neighbouring ranks far apart;
        ``"half equal"``: half of all rows have one key.
    order : str
        ``"random"``, or ``"rising"``: keys rise with arrival, within a sixteenth of the window.
    """

    batch: int
    window: int
    matches: int
    skew: str
    order: str

    @property
    def step(self) -> int:
        """What rising keys rise by with each row."""
        return 16 if self.order == "rising" else 0

    @property
    def band(self) -> tuple[int, int]:
        """Least and greatest right less left."""
        spread = self.step * self.window // 16 if self.step else _SPAN
        # Of rising keys only the rows of a sixteenth of the window are near.
        width = max(1, spread * self.matches // (self.window // 16 if self.step else self.window))
        return -(width // 2), width - width // 2 - 1

    def keys(self, rng: np.random.Generator, first: int, count: int) -> np.ndarray:
        """Keys of the rows from arrival number `first` on; int32, shape (count,)."""
        spread = self.step * self.window // 16 if self.step else _SPAN
        keys = rng.integers(0, spread, count)
        if self.skew == "rank-size":
            rank = np.exp(rng.random(count) * np.log(spread)).astype(np.int64)  # P(r) is about 1 / r
            keys = rank * 2_654_435_761 % spread
        keys += self.step * np.arange(first, first + count) % _SPAN
        if self.skew == "half equal":
            keys[rng.random(count) < 0.5] = _SPAN // 2
        return keys.astype(np.int32)


class TooSlow(Exception):
    """An index takes many times as long as `auto`: it is not measured."""


class Run:
    """One contender in one cell: a join whose windows are full.

    Raises
    ------
    TooSlow
        If that took more than so many seconds.
    """

    def __init__(self, cell: Cell, index: str, most: float = float("inf")):
        self.cell, self.index = cell, index
        self.rngs = [np.random.default_rng((7, side)) for side in range(2)]
        self.first = 0
        self.filling, self._most = 0.0, most
        low, high = cell.band
        window = Rows(cell.window)
        self.join = WindowJoin(
            on=Band("key", "key", low, high), left=window, right=window, form="counts", index=index,
            device="cpu:threads=1",
        )  # fmt: skip
        # In large calls first, then as they come later, for as long as structures need to settle.
        large = max(cell.batch, 1 << 12)
        self.filling = self.advance(cell.window, large)
        self.filling += self.advance(max(min(cell.window // 2, _MOST * cell.batch), 8 * cell.batch), cell.batch)
        self._most = float("inf")

    def advance(self, rows: int, batch: int) -> float:
        """Joins so many rows a side; seconds of processor time."""
        seconds = 0.0
        for start in range(0, rows, _SOME):
            some = min(_SOME, rows - start)
            tables = [pa.table({"key": self.cell.keys(rng, self.first, some)}) for rng in self.rngs]
            self.first += some
            before = time.process_time()
            for at in range(0, some, batch):
                self.join.process(*(table.slice(at, batch) for table in tables))
                if self.filling + seconds + time.process_time() - before > self._most:
                    raise TooSlow
            seconds += time.process_time() - before
        return seconds


@dataclasses.dataclass
class Measured:
    """A cell's figures.

    Attributes
    ----------
    cell : Cell
    ns : dict of str to float
        Processor time of a row by index; the median over turns. Without those that take many times as long as `auto`.
    chosen : str
        What `auto` ended with.
    """

    cell: Cell
    ns: dict[str, float]
    chosen: str

    @property
    def best(self) -> str:
        """The index that takes the least time; a named one, where `auto` does as well."""
        return min((name for name in self.ns if name != AUTO), key=self.ns.__getitem__)

    @property
    def off(self) -> float:
        """Time of `auto` over that of the best."""
        return self.ns[AUTO] / self.ns[self.best]


def measure(cell: Cell, indexes: tuple[str, ...], turns: int, pieces: int = 4) -> Measured:
    """Measures a cell.

    A turn goes through half a window, so that it has its share of all that is done now and then, but makes no more than
    `_MOST` calls.
    """
    runs = [Run(cell, AUTO)]
    for index in indexes:
        with contextlib.suppress(TooSlow):
            runs.append(Run(cell, index, TOO_SLOW * runs[0].filling + 0.5))
    rows = -(-max(min(cell.window // 2, _MOST * cell.batch), 4 * cell.batch) // (pieces * cell.batch)) * cell.batch
    taken: dict[str, list[float]] = {run.index: [] for run in runs}
    gc.collect()
    for turn in range(turns):
        seconds = dict.fromkeys(taken, 0.0)
        for piece in range(pieces):
            for run in runs if (turn + piece) % 2 else reversed(runs):
                seconds[run.index] += run.advance(rows, cell.batch)
        for name, value in seconds.items():
            taken[name].append(value / (2 * rows * pieces) * 1e9)
    chosen = runs[0].join.stats.index_name
    for run in runs:
        run.join.close()
    return Measured(cell, {name: statistics.median(values) for name, values in taken.items()}, chosen)


def cells(quick: bool) -> list[Cell]:
    """All cells, small windows first."""
    windows = (1 << 12, 1 << 14) if quick else (1 << 14, 1 << 18, 1 << 20)
    batches = (1 << 6, 1 << 10) if quick else (1 << 6, 1 << 10, 1 << 15)
    matches = (1, 64) if quick else (1, 64, 1024)
    return [
        Cell(batch, window, some, skew, order)
        for window, batch, some, skew, order in itertools.product(windows, reversed(batches), matches, SKEWS, ORDERS)
        if some <= window // 16
    ]


def draw(measured: list[Measured], path: Path) -> None:
    """A square for each cell: its colour the best index, in it how much longer `auto` takes than the best, in %."""
    names = list(dict.fromkeys([*INDEXES, *(m.best for m in measured)]))
    colours = ListedColormap(plt.get_cmap("tab10").colors[: len(names)])  # type: ignore[attr-defined]
    held = {m.cell: m for m in measured}

    def axis(pick: Callable[[Cell], Any]) -> list[Any]:
        return list(dict.fromkeys(pick(m.cell) for m in measured))

    across = list(itertools.product(axis(lambda c: c.window), sorted(axis(lambda c: c.batch))))
    down = list(itertools.product(axis(lambda c: c.order), axis(lambda c: c.skew), axis(lambda c: c.matches)))
    image = np.full((len(down), len(across)), np.nan)
    figure, axes = plt.subplots(figsize=(2.6 + 0.95 * len(across), 1.8 + 0.32 * len(down)), layout="constrained")
    for x, (window, batch) in enumerate(across):
        for y, (order, skew, matches) in enumerate(down):
            one = held.get(Cell(batch, window, matches, skew, order))
            if one is not None:
                image[y, x] = names.index(one.best)
                bold = "bold" if one.off > WITHIN else "normal"
                axes.text(x, y, f"{100 * (one.off - 1):+.0f}", ha="center", va="center", fontsize=7, fontweight=bold)
    axes.imshow(image, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5, aspect="auto", alpha=0.55)
    axes.set_xticks(range(len(across)), [f"{window:,}\n{batch:,}" for window, batch in across], fontsize=7)
    axes.set_yticks(range(len(down)), [f"{order}, {skew}, {matches:,}" for order, skew, matches in down], fontsize=7)
    axes.set_xlabel("rows of the window (above) and of a call (below), a side", fontsize=8)
    axes.set_ylabel("order and skew of keys, matches of a row", fontsize=8)
    axes.set_title(
        f"the best index;\nin it, how much longer 'auto' takes [%], bold above {100 * (WITHIN - 1):.0f}",
        loc="left", fontsize=9,
    )  # fmt: skip
    patches = [Patch(color=colours(at), alpha=0.55, label=name) for at, name in enumerate(names)]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


@click.command(context_settings={"max_content_width": 110})
@click.option("--quick", is_flag=True, help="Small windows, a few seconds in all.")
@click.option("--turns", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--index", "indexes", multiple=True, default=INDEXES, show_default=True, help="Contender beside auto.")
@click.option("--only", metavar="TEXT", default="", help="Cells whose description has this text.")
@click.option("--resume", is_flag=True, help="Keep the cells that an interrupted run has left in --json.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), default=Path("build/bench/grid.json"))
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), default=Path("build/bench/grid.png"))
def main(quick: bool, turns: int, indexes: tuple[str, ...], only: str, resume: bool, out: Path, plot: Path) -> None:
    """Measures which index is best in each cell of the grid, and how close 'auto' comes; a table, a plot and JSON."""
    console = Console(width=None if Console().is_terminal else 160)
    measured: list[Measured] = []
    if resume:
        kept = json.loads(out.read_text())["cells"]
        measured += [Measured(Cell(**one["cell"]), one["ns"], one["chosen"]) for one in kept]
    done = {one.cell for one in measured}
    chosen = [cell for cell in cells(quick) if only in _described(cell) and cell not in done]
    # An interrupt ends it: what was measured by then is written.
    with contextlib.suppress(KeyboardInterrupt), Progress(console=console, transient=True) as progress:
        for cell in progress.track(chosen, description="cells"):
            one = measure(cell, indexes, turns)
            measured.append(one)
            off = f"{one.off:.2f}" + ("" if one.off <= WITHIN else " !")
            costs = " ".join(f"{name} {value:.0f}" for name, value in sorted(one.ns.items(), key=lambda item: item[1]))
            console.print(f"{_described(cell)}: auto ({one.chosen}) {off} of {one.best}; ns a row: {costs}")
    if not measured:
        raise click.ClickException(f"no cell is described by {only!r}")
    beyond = [one for one in measured if one.off > WITHIN]
    share = f"{len(measured) - len(beyond)} of {len(measured)} cells"
    console.print(f"auto is within {100 * (WITHIN - 1):.0f} % of the best in {share}")
    out.parent.mkdir(parents=True, exist_ok=True)
    figures = [dataclasses.asdict(one) | {"best": one.best, "off": one.off} for one in measured]
    out.write_text(json.dumps({**describe_machine(), "quick": quick, "turns": turns, "cells": figures}, indent=1))
    draw(measured, plot)
    console.print(f"drawn in {plot}, figures in {out}")


def _described(cell: Cell) -> str:
    return f"window {cell.window:,}, batch {cell.batch:,}, {cell.matches:,} matches, {cell.skew}, {cell.order}"


if __name__ == "__main__":
    main()
