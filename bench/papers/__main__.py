"""The command line of the papers' figures: ``python -m bench.papers``."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

import bench.papers
from bench.machine import describe_machine
from bench.papers.figure import Figure, Scale, plot_figure, print_figure


def papers() -> list[str]:
    """Names of the modules with figures, one for each paper."""
    return sorted(
        name for _, name, _ in pkgutil.iter_modules(bench.papers.__path__) if name not in ("__main__", "figure")
    )


@click.command(context_settings={"max_content_width": 110})
@click.argument("chosen", nargs=-1, metavar="[PAPER]...", type=click.Choice(papers()))
@click.option("--figure", "only", multiple=True, metavar="NUMBER", help="Figures whose number begins so; repeatable.")
@click.option("--quick", is_flag=True, help="A few seconds for each figure.")
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Time for one contender at one point.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("build/bench/papers"), show_default=True
)
def main(chosen: tuple[str, ...], only: tuple[str, ...], quick: bool, seconds: float | None, out: Path) -> None:
    """Makes the papers' figures again: a table and a plot each, the paper's claim beside it, and one JSON file."""
    console = Console()
    scale = Scale(quick, seconds if seconds is not None else 0.1 if quick else 1.0)
    todo = [run for name in chosen or papers() for run in importlib.import_module(f"bench.papers.{name}").FIGURES]
    out.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("figures", total=len(todo))
        for run in todo:
            progress.update(task, description=run.__name__)
            # A function's name ends in its figure's number: fig_10a.
            if not only or run.__name__.rpartition("_")[2].startswith(only):
                figure = run(scale)
                figures.append(figure)
                print_figure(figure, console)
                plot_figure(figure, out / f"{figure.paper.lower().replace(' ', '-')}-{figure.number}.png")
            progress.advance(task)
    result = {**describe_machine(), "quick": quick, "figures": [dataclasses.asdict(figure) for figure in figures]}
    (out / "latest.json").write_text(json.dumps(result, indent=1))
    console.print(f"{len(figures)} figures in {out}")


if __name__ == "__main__":
    main()
