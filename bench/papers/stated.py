"""What the papers state of their figures: a TOML file for each, ``bench/papers/panjoin.toml``, of facts alone.

A table for each figure has what the paper's text or tables state::

    ["13b"]
    claim = "RaP-Table is 1.7 to 2.4 times WiB+-Tree below 1 K matches."
    points = [["RaP-Table", 8388608, 1e8]]
    findings = [
        {over = ["RaP-Table", "each"], under = ["WiB+-Tree", "each"], paper = 2.05},
        {over = ["BI-Sort", "first"], under = ["BI-Sort", "last"], about = 1},
    ]
    because = "Why it does not hold."

``points`` are the paper's own, a series, a place and a value each. A finding is the ratio of two values, each of a
series and a place of our points. A series is a name, a pattern (``"PIM-Tree, ? threads"``: the first that it fits),
its number from 0 on, ``"first"`` or ``"last"``; a place is one of the axis, ``"first"``, ``"last"``, ``"best"`` and
``"least"`` of that series, or ``"each"``: the geometric mean over the places that both have. Without ``under`` it is
the value itself. ``paper`` is the ratio that the paper has, and ``about`` the one that it is about. A finding on a peer
that is not here (`PEERS`) is left out. A figure with ``unmeasured`` is not made, for the reason that it gives. Before
all tables, ``otherwise`` lists what is built otherwise here than in the paper, and why.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import statistics
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.papers.figure import Figure, Finding

FOLDER = Path(__file__).parent
PEERS = ("Judy", "absl", "andshake", "hardware", "oneTBB")
"""What is in the names of series that are measured only where a library, a compiler or a simulator is there."""


def stated(paper: str) -> dict[str, dict[str, Any]]:
    """What a paper states, by figure; `paper` is its module's name, such as ``"pim_tree"``."""
    return {number: given for number, given in _file(paper).items() if number != "otherwise"}


def otherwise(paper: str) -> list[str]:
    """What is built otherwise here than in a paper, and why: Markdown, an item each."""
    return list(_file(paper).get("otherwise", []))


@functools.cache
def _file(paper: str) -> dict[str, Any]:
    path = FOLDER / f"{paper}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def judged(figure: Figure, given: dict[str, Any]) -> Figure:
    """A figure with the paper's points and findings, those that its code has found among them.

    Parameters
    ----------
    figure : Figure
    given : dict
        The figure's table, as of `stated`.

    Raises
    ------
    ValueError
        If a finding is of a series or a place that the figure lacks.
    """
    points = [dict(zip(("series", "x", "y"), point, strict=True)) for point in given.get("points", [])]
    names = " ".join(point["series"] for point in figure.points)
    there = [
        finding
        for finding in given.get("findings", [])
        if all(peer in names for peer in PEERS if peer in f"{finding['over'][0]} {finding.get('under', [''])[0]}")
    ]
    found = [finding_of(figure, **finding) for finding in there]
    return dataclasses.replace(
        figure, claim=given.get("claim", figure.claim), findings=[*figure.findings, *found], stated=points
    )


def finding_of(
    figure: Figure, *, over: Sequence[Any], under: Sequence[Any] | None = None, paper: float | None = None,
    about: float | None = None, says: str | None = None,
) -> Finding:  # fmt: skip
    """A finding on a figure's points, as this module's text has it.

    Raises
    ------
    ValueError
        If a series or a place is not there.
    """
    above = _turns(figure, *over)
    if under is None:
        by_place = list(above.values())
        text = f"{figure.y}: {_at(figure, *over)}"
    else:
        below = _turns(figure, *under)
        pairs = _pairs(above, below, each="each" in (over[1], under[1]))
        by_place = [[a / b for a, b in zip(*pair, strict=False)] for pair in pairs]
        text = f"{figure.y}: {_at(figure, *over)} over {_at(figure, *under)}"
        if not by_place:
            raise ValueError(f"figure {figure.number} of {figure.paper}: {text} have no place in common")
    turns = [turn[0] if len(turn) == 1 else statistics.geometric_mean(turn) for turn in zip(*by_place, strict=False)]
    return Finding((says or text) + ":", turns, about if paper is None else paper, about is not None)


def _pairs(above: dict[Any, list[float]], below: dict[Any, list[float]], *, each: bool) -> list[tuple[Any, Any]]:
    """The turns that are set against each other: of each place that both have, or of the one place of each."""
    if each:
        return [(above[place], below[place]) for place in above if place in below]
    return [(next(iter(above.values())), next(iter(below.values())))]


def _series(figure: Figure, name: str | int) -> str:
    names = list(dict.fromkeys(point["series"] for point in figure.points))
    if isinstance(name, int):
        found = names[name : name + 1]
    elif name in ("first", "last"):
        found = names[:1] if name == "first" else names[-1:]
    else:
        found = [name] if name in names else fnmatch.filter(names, name)
    if not found:
        raise ValueError(f"figure {figure.number} of {figure.paper} has no series {name!r}, but {', '.join(names)}")
    return found[0]


def _turns(figure: Figure, name: str | int, place: Any) -> dict[Any, list[float]]:
    """The turns of a series by place: of one, or of each."""
    name = _series(figure, name)
    points = {point["x"]: point for point in figure.points if point["series"] == name}
    places = list(points)
    if place == "each":
        chosen = places
    elif place in points:
        chosen = [place]
    elif place in ("first", "last"):
        chosen = [places[0 if place == "first" else -1]]
    elif place in ("best", "least"):
        chosen = [(max if place == "best" else min)(places, key=lambda at: points[at]["y"])]
    else:
        raise ValueError(f"figure {figure.number} of {figure.paper} has no {place!r} on its axis of {name}")
    return {at: points[at].get("turns") or [points[at]["y"]] for at in chosen}


def _at(figure: Figure, name: str | int, place: Any) -> str:
    name = _series(figure, name)
    if place == "each":
        return f"{name} at each place"
    at = next(iter(_turns(figure, name, place)))
    return f"{name} at {at:,}" if isinstance(at, int | float) else f"{name} at {at}"
