"""The page of the papers' figures: what is kept of each, and what it says."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import bench.papers
from bench.papers.figure import Figure, Finding, Scale, plot_figures, table_of

DOCS = Path(__file__).parents[2] / "docs"
KEPT = Path(__file__).parent / "results.json"
"""The newest of each figure that was measured: date, commit, machine and all that `Figure` holds, a line each."""


def papers() -> list[str]:
    """Names of the modules with figures, one for each paper."""
    others = ("__main__", "clusters", "figure", "page")
    return sorted(name for _, name, _ in pkgutil.iter_modules(bench.papers.__path__) if name not in others)


def figures_of(names: Iterable[str]) -> list[tuple[str, str, Callable[[Scale], Figure]]]:
    """Of each figure of some modules its paper, its number, and what makes it: a function `fig_10a`."""
    modules = [importlib.import_module(f"bench.papers.{name}") for name in names]
    return [(module.PAPER, run.__name__.rpartition("_")[2], run) for module in modules for run in module.FIGURES]


def keep(result: Mapping[str, Any], path: Path = KEPT) -> list[dict[str, Any]]:
    """Puts the figures of a run's JSON file among those that are kept.

    Parameters
    ----------
    result : mapping
        As ``python -m bench.papers`` writes it.
    path : Path
        Where they are kept.

    Returns
    -------
    list of dict
        All figures kept, in the papers' order: the fields of `Figure`, with ``commit``, ``date``, ``machine`` and
        ``quick``.
    """
    kept = {}
    if path.exists():
        kept = {(one["paper"], one["number"]): one for one in json.loads(path.read_text())}
    about = {"date": result["date"][:10], "machine": _machine(result["machine"]), "quick": result["quick"]}
    for figure in result["figures"]:
        points = [{name: point[name] for name in ("series", "x", "y")} for point in figure["points"]]
        kept[figure["paper"], figure["number"]] = {"findings": []} | figure | about | {"points": points}
    known = {(paper, number): None for paper, number, _ in figures_of(papers())}
    ordered = [kept[key] for key in (known | kept) if key in kept]
    path.write_text("[\n" + ",\n".join(map(json.dumps, ordered)) + "\n]\n")
    return ordered


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['cpu']}"


RULE = """
A figure is judged by what its paper finds in it. Each finding is a ratio that is above 1 where the paper is right, such
as the time of one contender over that of another, taken in several turns: in each turn all contenders run, one after
the other, each turn begun by another one.

- A finding *holds* if the ratio is above 1 in at least three of four turns and, where the paper has a number for it,
  the gain here (the ratio less 1) is at least half the paper's.
- It *holds less* if the ratio is above 1 in three of four turns, and the gain is less than half the paper's.
- Else it *does not hold*.

The verdict of a figure is that of the worst of its findings; a figure without findings that are measured in this way is
*not judged*.
"""


def write_page(kept: list[dict[str, Any]], folder: Path = DOCS) -> list[Path]:
    """Writes papers.md and a picture of all figures of each paper into a folder.

    Parameters
    ----------
    kept : list of dict
        As of `keep`.
    folder : Path

    Returns
    -------
    list of Path
        What was written.
    """
    names = [field.name for field in dataclasses.fields(Figure)]
    known = [(paper, number) for paper, number, _ in figures_of(papers())]
    measured = {(one["paper"], one["number"]): one for one in kept}
    figures = {
        key: Figure(**{n: one[n] for n in names if n != "findings"}, findings=[Finding(**f) for f in one["findings"]])
        for key, one in measured.items()
    }
    lines = [
        "# The papers' figures",
        "",
        "`make bench-papers` measures them, and prints each as a table with a plot; one of them again:",
        "`make bench-papers PAPER=pim-tree FIGURE=9a`. This page is made of those kept in `bench/papers/results.json`;",
        "`python -m bench.papers --write build/bench/papers/latest.json` puts a run's figures among them. *Paper* is",
        "what the paper says that its figure shows; *here* is how it was measured, and why it differs where it does.",
        "",
        "## Verdicts",
        *RULE.splitlines(),
        "",
    ]
    verdicts = [*Finding.VERDICTS, "not judged"]
    lines += [f"| | {' | '.join(verdicts)} |", f"| :-- | {' | '.join(['--:'] * len(verdicts))} |"]
    every: collections.Counter[str] = collections.Counter()
    for paper in dict.fromkeys(paper for paper, _ in figures):
        counts = collections.Counter(one.verdict or "not judged" for one in figures.values() if one.paper == paper)
        every += counts
        lines.append(f"| {paper} | {' | '.join(str(counts[verdict]) for verdict in verdicts)} |")
    lines += [f"| all | {' | '.join(str(every[verdict]) for verdict in verdicts)} |", ""]
    places: dict[str, list[tuple[str, str]]] = {}
    for key, one in measured.items():
        small = ", small sizes" if one["quick"] else ""
        places.setdefault(f"Measured {one['date']}{small}, at commit {one['commit']}, {one['machine']}", []).append(key)
    for place, keys in places.items():
        lines += [f"{place}: {_named(keys)}.", ""]
    left_out = [key for key in known if key not in measured]
    if left_out:
        lines += [f"Not measured: {_named(left_out)}.", ""]
    written = []
    for paper in dict.fromkeys(paper for paper, _ in figures):
        of_paper = [figure for figure in figures.values() if figure.paper == paper]
        picture = folder / f"papers-{slug(paper)}.png"
        plot_figures(of_paper, picture)
        written.append(picture)
        lines += [f"## {paper}", "", f"![figures of {paper}]({picture.name})", ""]
        for figure in of_paper:
            headings, rows = table_of(figure)
            lines += [f"### Figure {figure.number}: {figure.title} [{figure.y}]", "", f"*Paper*: {figure.claim}", ""]
            if figure.note:
                lines += [f"*Here*: {figure.note}", ""]
            if figure.findings:
                lines += [f"*Verdict*: {figure.verdict}.", ""]
                lines += [f"- {finding.verdict}: {finding}" for finding in figure.findings] + [""]
            table = [headings, [":--"] + ["--:"] * (len(headings) - 1), *rows]
            lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in table] + [""]
    page = folder / "papers.md"
    page.write_text("\n".join(lines))
    return [page, *written]


def _named(figures: Iterable[tuple[str, str]]) -> str:
    numbers: dict[str, list[str]] = {}
    for paper, number in figures:
        numbers.setdefault(paper, []).append(number)
    return "; ".join(f"{paper} {', '.join(found)}" for paper, found in numbers.items())


def slug(paper: str) -> str:
    """A paper's name, or its module's, as a command or a file has it."""
    return paper.lower().replace(" ", "-").replace("_", "-")
