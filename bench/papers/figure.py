"""One figure of a paper: its points, the paper's claim beside them, as a table and as a plot."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

Name = TypeVar("Name")
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Scale:
    """How long a figure may take.

    Attributes
    ----------
    quick : bool
        A few seconds for a figure: small windows, few points.
    seconds : float
        Time for one contender at one point.
    smaller : int
        By how many powers of two windows are smaller than they would be.
    """

    quick: bool
    seconds: float
    smaller: int = 0


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a paper finds in a figure, as a ratio of what is measured, and by what rule it is judged.

    A ratio that is above 1 where the paper is right *holds* if it is above 1 in three of four turns and, where the
    paper has a number, its gain here (the ratio less 1) is at least half the paper's; it *holds less* if that gain is
    smaller; else it *does not hold*. A ratio that is `about` the paper's holds if the median of the turns is within a
    factor of 1.5 of it, and holds less within a factor of 2.

    Attributes
    ----------
    says : str
        What is over what, such as ``"the iterator's time over the mapper's"``.
    ratios : list of float
        One for each turn, in which both contenders were measured.
    paper : float or None
        The paper's ratio, as its text or its tables have it; None where it says no more than which is ahead.
    about : bool
        Whether the ratio is to be as great as the paper's, neither less nor more: of what makes no difference, about 1.

    Examples
    --------
    >>> Finding("a over b", [1.4, 1.5, 1.6], paper=2.0).verdict
    'holds'
    >>> Finding("a over b", [1.1, 1.2, 1.1], paper=2.0).verdict
    'holds less'
    >>> Finding("a over b", [1.1, 0.9, 1.0]).verdict
    'does not hold'
    >>> Finding("a over b", [0.8, 0.9, 1.0], paper=1.0, about=True).verdict
    'holds'
    """

    says: str
    ratios: list[float]
    paper: float | None = None
    about: bool = False

    VERDICTS: ClassVar[tuple[str, ...]] = ("holds", "holds less", "does not hold")
    ALIKE: ClassVar[tuple[float, float]] = (1.5, 2.0)

    @property
    def here(self) -> float:
        """The median of the turns."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.about and self.paper is not None:
            off = max(self.here / self.paper, self.paper / self.here) if self.here > 0 else float("inf")
            return self.VERDICTS[sum(off > most for most in self.ALIKE)]
        if sum(ratio > 1 for ratio in self.ratios) < 0.75 * len(self.ratios):
            return "does not hold"
        less = self.paper is not None and self.here - 1 < (self.paper - 1) / 2
        return "holds less" if less else "holds"

    def __str__(self) -> str:
        paper = "" if self.paper is None else f", {'about ' * self.about}{self.paper:.3g} in the paper"
        turns = f"{min(self.ratios):.3g} to {max(self.ratios):.3g} in {len(self.ratios)} turns"
        return f"{self.says} {self.here:.3g} ({turns if len(self.ratios) > 1 else 'exact'}{paper})"


@dataclasses.dataclass
class Figure:
    """A figure of a paper, measured here.

    Attributes
    ----------
    paper, number, title : str
        As the paper has them.
    claim : str
        What the paper says that it shows, in a sentence.
    x, y : str
        What the axes show, with units.
    points : list of dict
        ``{"series": str, "x": number or str, "y": float, "turns": list of float}``; ``y`` is the median of the turns,
        which are left out where it is exact; further entries go to a run's JSON file alone.
    log_x, log_y : bool
    note : str
        Why it differs where it does, with the number that shows it; what is simulated, and what was left out and why.
    findings : list of Finding
        What the paper finds in it; the figure's verdict is that of the worst of them. None: it is not judged.
    stated : list of dict
        The paper's own points, as its text has them: as `points`.
    """

    paper: str
    number: str
    title: str
    claim: str
    x: str
    y: str
    points: list[dict[str, Any]]
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    findings: list[Finding] = dataclasses.field(default_factory=list)
    stated: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def verdict(self) -> str | None:
        """The worst of its findings', None without any."""
        return max((finding.verdict for finding in self.findings), key=Finding.VERDICTS.index, default=None)


def in_turns(contenders: Mapping[Name, Callable[[], Value]], turns: int = 5) -> dict[Name, list[Value]]:
    """What each contender gives, turn by turn: in each all run, so that what slows the machine slows all of them."""
    found: dict[Name, list[Value]] = {name: [] for name in contenders}
    for turn in range(turns):
        names = list(contenders)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # no one is always the first
            found[name].append(contenders[name]())
    return found


def ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """What is measured of one contender over another, turn by turn."""
    return [a / b for a, b in zip(one, other, strict=True)]


def measured(contenders: Mapping[tuple[str, Any], Callable[[], float]], turns: int = 3) -> list[dict[str, Any]]:
    """A point for each contender, by its series and place: all of them, at all places, take turns."""
    found = in_turns(contenders, turns)
    return [{"series": name, "x": x, "y": statistics.median(of), "turns": of} for (name, x), of in found.items()]


def median_rate(run: Callable[[], float], turns: int = 5) -> float:
    """The median of some turns of what `run` returns, a rate or a time."""
    return statistics.median(run() for _ in range(turns))


def table_of(figure: Figure) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of text: a line for each value of x, a column for each series."""
    series = list(dict.fromkeys(point["series"] for point in figure.points))
    values = {(point["series"], point["x"]): point["y"] for point in figure.points}
    lines = []
    for place in dict.fromkeys(point["x"] for point in figure.points):
        cells = (f"{values[name, place]:.4g}" if (name, place) in values else "" for name in series)
        lines.append([f"{place:,}" if isinstance(place, int) else str(place), *cells])
    return [figure.x, *series], lines


def print_figure(figure: Figure, console: Console) -> None:
    """Prints its table, the paper's claim, and the note."""
    headings, lines = table_of(figure)
    table = Table(title=f"{figure.paper}, Fig. {figure.number}: {figure.title} [{figure.y}]", title_justify="left")
    table.add_column(headings[0])
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(f"paper: {figure.claim}", highlight=False)
    if figure.note:
        console.print(f"here:  {figure.note}", highlight=False)
    if figure.findings:
        console.print(f"{figure.verdict}: {'; '.join(map(str, figure.findings))}", highlight=False)
    console.print()


def plot_figure(figure: Figure, path: Path) -> None:
    """Draws a figure as a vector picture, the paper's own points in grey."""
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.size": 9}):
        drawing, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
        _draw(figure, axes)
        drawing.savefig(path, metadata={"Date": None})
        plt.close(drawing)


def _draw(figure: Figure, axes: Axes) -> None:
    """Draws the series with the spread of their turns: as lines over numbers, as bars over names."""
    series = list(dict.fromkeys(point["series"] for point in figure.points))
    places = list(dict.fromkeys(point["x"] for point in [*figure.points, *figure.stated]))
    named = any(isinstance(place, str) for place in places)
    width = 0.8 / max(len(series), 1)
    for at, name in enumerate(series):
        points = [point for point in figure.points if point["series"] == name]
        heights = [point["y"] for point in points]
        turns = [point.get("turns") or [point["y"]] for point in points]
        spread = [
            [max(y - min(of), 0) for y, of in zip(heights, turns, strict=True)],
            [max(max(of) - y, 0) for y, of in zip(heights, turns, strict=True)],
        ]
        if named:
            across = [places.index(point["x"]) + (at + 0.5) * width - 0.4 for point in points]
            axes.bar(across, heights, width, label=name, yerr=spread, error_kw={"linewidth": 0.6})
        else:
            style: dict[str, Any] = {"marker": "os^vDPX"[at % 7], "markersize": 4, "linewidth": 1.2, "elinewidth": 0.6}
            axes.errorbar([point["x"] for point in points], heights, yerr=spread, label=name, **style)
    for at, name in enumerate(dict.fromkeys(point["series"] for point in figure.stated)):
        points = [point for point in figure.stated if point["series"] == name]
        across = [places.index(point["x"]) if named else point["x"] for point in points]
        heights = [point["y"] for point in points]
        axes.plot(across, heights, "os^vDPX"[at % 7], color="grey", label=f"paper: {name}", markersize=6, linestyle=":")
    if named:
        names = [str(place) for place in places]
        slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "fontsize": 7} if max(map(len, names)) > 9 else {}
        axes.set_xticks(range(len(places)), names, **slanted)
    elif figure.log_x:
        axes.set_xscale("log", base=2)
    if figure.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.grid(visible=True, alpha=0.3)
    if len(series) > 1 or figure.stated:
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)  # beside the data
