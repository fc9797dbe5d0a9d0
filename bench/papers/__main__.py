"""The command line of the papers' figures: ``python -m bench.papers``."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

import bench.papers
from bench.machine import describe_machine
from bench.papers.figure import Figure, Scale, plot_figures, print_figure, table_of

DOCS = Path(__file__).parents[2] / "docs"


def papers() -> list[str]:
    """Names of the modules with figures, one for each paper."""
    others = ("__main__", "clusters", "figure")
    return sorted(name for _, name, _ in pkgutil.iter_modules(bench.papers.__path__) if name not in others)


@click.command(context_settings={"max_content_width": 110})
@click.argument("chosen", nargs=-1, metavar="[PAPER]...", type=click.Choice(papers()))
@click.option("--figure", "only", multiple=True, metavar="NUMBER", help="Figures whose number begins so; repeatable.")
@click.option("--quick", is_flag=True, help="A few seconds for each figure.")
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Time for one contender at one point.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("build/bench/papers"), show_default=True
)
@click.option("--resume", is_flag=True, help="Keep the figures that an interrupted run has left in --out.")
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="RESULT",
    help="Measure nothing: make docs/papers.md and its pictures of this JSON file.",
)
def main(
    chosen: tuple[str, ...],
    only: tuple[str, ...],
    quick: bool,
    seconds: float | None,
    out: Path,
    resume: bool,
    write: Path | None,
) -> None:
    """Makes the papers' figures again: a table and a plot each, the paper's claim beside it, and one JSON file."""
    console = Console()
    if write is not None:
        for path in write_page(json.loads(write.read_text())):
            console.print(f"wrote {path}")
        return
    scale = Scale(quick, seconds if seconds is not None else 0.1 if quick else 1.0)
    todo = _figures(chosen or papers())
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {**describe_machine(), "quick": quick, "figures": []}
    commit = result["commit"]  # of the figures that are measured now: others may be of an earlier one
    if resume:
        result = json.loads((out / "latest.json").read_text())
    done = {(figure["paper"], figure["number"]) for figure in result["figures"]}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("figures", total=len(todo))
        for paper, number, run in todo:
            progress.update(task, description=f"{paper}, figure {number}")
            if (paper, number) not in done and (not only or number.startswith(only)):
                start = time.monotonic()
                figure = run(scale)
                spent = round(time.monotonic() - start, 1)
                result["figures"].append({**dataclasses.asdict(figure), "seconds": spent, "commit": commit})
                print_figure(figure, console)
                plot_figures([figure], out / f"{_slug(figure.paper)}-{figure.number}.png")
                # After each figure, so that an interrupt loses none.
                (out / "latest.json").write_text(json.dumps(result, indent=1))
            progress.advance(task)
    console.print(f"{len(result['figures'])} figures in {out}")


def write_page(result: Mapping[str, Any], folder: Path = DOCS) -> list[Path]:
    """Writes papers.md and a picture of all figures of each paper into a folder.

    Parameters
    ----------
    result : mapping
        As of the JSON file.
    folder : Path

    Returns
    -------
    list of Path
        What was written.
    """
    names = [field.name for field in dataclasses.fields(Figure)]
    known = [(paper, number) for paper, number, _ in _figures(papers())]
    measured = {(figure["paper"], figure["number"]): figure for figure in result["figures"]}
    measured = {key: measured[key] for key in known if key in measured} | measured  # in the papers' order
    figures = [Figure(**{name: figure[name] for name in names}) for figure in measured.values()]
    commits = {key: figure["commit"] for key, figure in measured.items()}
    machine = result["machine"]
    lines = [
        "# The papers' figures",
        "",
        "`make bench-papers` measures them, and prints each as a table with a plot; this page is made of its JSON file",
        "by `python -m bench.papers --write build/bench/papers/latest.json`. *Paper* is what the paper says that its",
        "figure shows; *here* is how it was measured, and why it differs where it does.",
        "",
        f"Measured {result['date'][:10]}{', small sizes' if result['quick'] else ''}: {machine['cores']} cores, "
        f"{machine['cpu']}.",
        "",
    ]
    for commit in dict.fromkeys(commits.values()):
        lines += [f"At commit {commit}: {_named(key for key, of in commits.items() if of == commit)}.", ""]
    left_out = [key for key in known if key not in measured]
    if left_out:
        lines += [f"Not measured: {_named(left_out)}.", ""]
    written = []
    for paper in dict.fromkeys(figure.paper for figure in figures):
        of_paper = [figure for figure in figures if figure.paper == paper]
        picture = folder / f"papers-{_slug(paper)}.png"
        plot_figures(of_paper, picture)
        written.append(picture)
        lines += [f"## {paper}", "", f"![figures of {paper}]({picture.name})", ""]
        for figure in of_paper:
            headings, rows = table_of(figure)
            lines += [f"### Figure {figure.number}: {figure.title} [{figure.y}]", "", f"*Paper*: {figure.claim}", ""]
            if figure.note:
                lines += [f"*Here*: {figure.note}", ""]
            table = [headings, [":--"] + ["--:"] * (len(headings) - 1), *rows]
            lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in table] + [""]
    page = folder / "papers.md"
    page.write_text("\n".join(lines))
    return [page, *written]


def _figures(names: Iterable[str]) -> list[tuple[str, str, Callable[[Scale], Figure]]]:
    """Of each figure of some modules its paper, its number, and what makes it: a function `fig_10a`."""
    modules = [importlib.import_module(f"bench.papers.{name}") for name in names]
    return [(module.PAPER, run.__name__.rpartition("_")[2], run) for module in modules for run in module.FIGURES]


def _named(figures: Iterable[tuple[str, str]]) -> str:
    numbers: dict[str, list[str]] = {}
    for paper, number in figures:
        numbers.setdefault(paper, []).append(number)
    return "; ".join(f"{paper} {', '.join(found)}" for paper, found in numbers.items())


def _slug(paper: str) -> str:
    return paper.lower().replace(" ", "-")


if __name__ == "__main__":
    main()
