"""The command line of the papers' figures: ``python -m bench.papers``."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from bench.machine import describe_machine
from bench.papers.figure import Scale, plot_figures, print_figure
from bench.papers.page import figures_of, keep, papers, slug, write_page


@click.command(context_settings={"max_content_width": 110})
@click.argument("chosen", nargs=-1, metavar="[PAPER]...", type=click.Choice([slug(name) for name in papers()]))
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
    help="Measure nothing: put the figures of this JSON file among those kept, and make docs/papers.md of all.",
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
        for path in write_page(keep(json.loads(write.read_text()))):
            console.print(f"wrote {path}")
        return
    scale = Scale(quick, seconds if seconds is not None else 0.1 if quick else 1.0)
    todo = figures_of(name.replace("-", "_") for name in chosen or papers())
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
                plot_figures([figure], out / f"{slug(figure.paper)}-{figure.number}.png")
                # After each figure, so that an interrupt loses none.
                (out / "latest.json").write_text(json.dumps(result, indent=1))
            progress.advance(task)
    console.print(f"{len(result['figures'])} figures in {out}")


if __name__ == "__main__":
    main()
