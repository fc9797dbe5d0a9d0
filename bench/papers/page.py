"""The page of the papers' figures: what is kept of each, and what it says."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import json
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import bench.papers
from bench.papers.figure import Figure, Finding, Scale, plot_figure
from bench.papers.stated import judged, otherwise, stated

DOCS = Path(__file__).parents[2] / "docs"
KEPT = Path(__file__).parent / "results.json"
"""The newest of each figure that was measured: date, commit, machine and all that `Figure` holds, a line each."""


def papers() -> list[str]:
    """Names of the modules with figures, one for each paper."""
    others = (
        "__main__", "clusters", "figure", "page", "panjoin_cluster", "pim_runs", "pim_steps", "spo_elements",
        "spo_streams", "stated",
    )  # fmt: skip
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
        points = [_rounded(point) for point in figure["points"]]
        kept[figure["paper"], figure["number"]] = {"findings": []} | figure | about | {"points": points}
    known = {(paper, number): None for paper, number, _ in figures_of(papers())}
    ordered = [kept[key] for key in (known | kept) if key in kept]
    path.write_text("[\n" + ",\n".join(map(json.dumps, ordered)) + "\n]\n")
    return ordered


def _rounded(point: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a point: four digits of its value and its turns."""
    kept = {name: point[name] for name in ("series", "x")} | {"y": float(f"{point['y']:.4g}")}
    if len(point.get("turns", ())) > 1:
        kept["turns"] = [float(f"{value:.4g}") for value in point["turns"][:_TURNS]]
    return kept


_TURNS = 15  # that are kept of a point at most


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['cpu']}"


RULE = """
A figure is judged by what its paper's text states of it, which is kept in `bench/papers/*.toml`: each finding is a
ratio of two measured values, such as the rates of two contenders, taken turn by turn; in each turn all contenders of a
figure run, at all places of its axis, each turn begun by another one.

- A finding with a direction *holds* if its ratio is above 1 in at least three of four turns and, where the paper has a
  number for it, the gain here (the ratio less 1) is at least half the paper's. It *holds less* if the ratio is above 1
  in three of four turns, and the gain is less than half the paper's. Else it *does not hold*.
- A finding that something makes no difference, or a given one (*about*), *holds* if the median of the turns is within a
  factor of 1.5 of the paper's ratio, *holds less* within a factor of 2, and else *does not hold*.

The verdict of a figure is that of the worst of its findings. One that is measured, and of which the paper states
nothing that a ratio tells, is *not judged*; one that is not made here is *not measured*.

Points in grey are the paper's own, as its text states them; none is read off a plot. Bars and lines are medians of the
turns, thin lines go from the least turn to the greatest. Other processes ran on the machine meanwhile, as the load
says: ratios within a figure are to be trusted, rates are not.
"""
VERDICTS = [*Finding.VERDICTS, "not judged", "not measured"]


def write_page(
    kept: list[dict[str, Any]], folder: Path = DOCS, *, drawn: Collection[tuple[str, str]] | None = None
) -> list[Path]:
    """Writes papers.md, a page for each paper and a picture of each figure into a folder.

    Parameters
    ----------
    kept : list of dict
        As of `keep`.
    folder : Path
    drawn : collection of (str, str), optional
        Papers and numbers of the figures that are drawn; all by default. The pages lead to those of others too.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    ValueError
        If a finding is of a series or a place that its figure lacks.
    """
    measured = {(one["paper"], one["number"]): one for one in kept}
    lines = [
        "# The papers' figures",
        "",
        "`make bench-papers` measures them in a night, and goes on where it was interrupted with",
        "`BENCH_ARGS=--resume`; one of them again: `make bench-papers PAPER=pim-tree FIGURE=9a`. Each is printed as a",
        "table. These pages are made of what is kept in `bench/papers/results.json`, every turn of every point;",
        "`python -m bench.papers --write build/bench/papers/latest.json` puts a run's figures among them.",
        "",
        "## Verdicts",
        *RULE.splitlines(),
        "",
        f"| | {' | '.join(VERDICTS)} |",
        f"| :-- | {' | '.join(['--:'] * len(VERDICTS))} |",
    ]
    written, every = [], collections.Counter[str]()
    (folder / "papers").mkdir(exist_ok=True)
    for name in papers():
        module = importlib.import_module(f"bench.papers.{name}")
        paper, given = module.PAPER, stated(name)
        numbers = [run.__name__.rpartition("_")[2] for run in module.FIGURES]
        numbers += [number for number in given if number not in numbers]
        if not any(key[0] == paper for key in measured):
            continue
        counts, page = collections.Counter[str](), [*_heading(paper, kept), ""]
        if given_otherwise := otherwise(name):
            page += ["Built otherwise than in the paper:", "", *(f"- {item}" for item in given_otherwise), ""]
        for number in numbers:
            one = measured.get((paper, number))
            if one is None:
                counts["not measured"] += 1
                reason = given.get(number, {}).get("unmeasured", "not measured yet.")
                claim = given.get(number, {}).get("claim", "")
                page += [f"### Figure {number}", "", f"*Paper*: {claim} **Not measured**: {reason}".strip(), ""]
                continue
            figure = judged(_figure(one), given.get(number, {}))
            picture = folder / "papers" / f"{slug(paper)}-{number}.svg"
            if drawn is None or (paper, number) in drawn:
                plot_figure(figure, picture)
                written.append(picture)
            verdict = figure.verdict or "not judged"
            counts[verdict] += 1
            page += _section(figure, verdict, picture.name, given.get(number, {}).get("because"))
        every += counts
        path = folder / f"papers-{slug(paper)}.md"
        path.write_text("\n".join(page))
        written.append(path)
        lines.append(f"| [{paper}]({path.name}) | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |")
    lines += [f"| all | {' | '.join(str(every[verdict]) for verdict in VERDICTS)} |", ""]
    path = folder / "papers.md"
    path.write_text("\n".join(lines))
    return [path, *written]


def _figure(one: Mapping[str, Any]) -> Figure:
    names = {field.name for field in dataclasses.fields(Figure)} - {"findings", "stated"}
    return Figure(
        **{name: one[name] for name in names if name in one}, findings=[Finding(**found) for found in one["findings"]]
    )


def _heading(paper: str, kept: list[dict[str, Any]]) -> list[str]:
    """A page's title, and when its figures were measured."""
    lines = [f"# {paper}: its figures, made again", "", "The rule of the verdicts: [papers.md](papers.md#verdicts)."]
    places: dict[str, list[Mapping[str, Any]]] = {}
    for one in kept:
        if one["paper"] == paper:
            small = ", small sizes" if one["quick"] else ""
            place = f"Measured {one['date']}{small}, at commit {one['commit']}, {one['machine']}"
            places.setdefault(place, []).append(one)
    lines += [""]
    for place, those in places.items():
        loads = [one["load"] for one in those if "load" in one]
        load = f", under a load of {min(loads):.0f} to {max(loads):.0f}" if loads else ""
        lines += [f"- {place}{load}: {', '.join(one['number'] for one in those)}."]
    return lines


def _section(figure: Figure, verdict: str, picture: str, because: str | None) -> list[str]:
    lines = [f"### Figure {figure.number}: {figure.title}", f"![{figure.title}](papers/{picture})", ""]
    lines += [f"*Paper*: {figure.claim}", ""]
    if figure.note:
        lines += [f"*Here*: {figure.note}".replace("\n", " "), ""]
    reason = f": {because}" if because and verdict != "holds" else "."
    lines += [f"**{verdict[0].upper()}{verdict[1:]}**{reason}"]
    if figure.findings:
        lines += ["", *(f"- {finding.verdict}: {finding}" for finding in figure.findings)]
    return [*lines, ""]


def slug(paper: str) -> str:
    """A paper's name, or its module's, as a command or a file has it."""
    return paper.lower().replace(" ", "-").replace("_", "-")
