"""The command line of the papers' figures: ``python -m bench.papers``."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from bench.machine import describe_machine
from bench.papers.figure import Figure, Scale, plot_figure, print_figure
from bench.papers.page import figures_of, keep, papers, slug, write_page
from bench.papers.stated import judged, stated


@click.command(context_settings={"max_content_width": 110})
@click.argument("chosen", nargs=-1, metavar="[PAPER]...", type=click.Choice([slug(name) for name in papers()]))
@click.option("--figure", "only", multiple=True, metavar="NUMBER", help="Figures whose number begins so; repeatable.")
@click.option("--quick", is_flag=True, help="A few seconds for each figure.")
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Time for one contender at one point.")
@click.option(
    "--smaller", type=click.IntRange(min=0), default=0, help="Powers of two by which windows are smaller; notes say so."
)
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
    smaller: int,
    out: Path,
    resume: bool,
    write: Path | None,
) -> None:
    """Makes the papers' figures again: a table and a plot each, the paper's claim beside it, and one JSON file."""
    console = Console()
    if write is not None:
        written = json.loads(write.read_text())
        drawn = [(figure["paper"], figure["number"]) for figure in written["figures"]]
        for path in write_page(keep(written), drawn=drawn):
            console.print(f"wrote {path}")
        return
    scale = Scale(quick, seconds if seconds is not None else 0.1 if quick else 1.0, 0 if quick else smaller)
    modules = {slug(paper): name for name in papers() for paper, _, _ in figures_of([name])}
    todo = [
        one for one in figures_of(name.replace("-", "_") for name in chosen or papers())
        if not only or one[1].startswith(only)
    ]  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {**describe_machine(), "quick": quick, "figures": []}
    commit = result["commit"]  # of the figures that are measured now: others may be of an earlier one
    if resume and (out / "latest.json").exists():
        result = json.loads((out / "latest.json").read_text())
    done = {(figure["paper"], figure["number"]) for figure in result["figures"]}
    failed: list[str] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("figures", total=len(todo))
        for paper, number, run in todo:
            progress.update(task, description=f"{paper}, figure {number}")
            if (paper, number) not in done:
                try:
                    figure = _made(run, scale, commit, result)
                    # After each figure, so that an interrupt loses none.
                    (out / "latest.json").write_text(json.dumps(result))
                    given = judged(figure, stated(modules[slug(paper)]).get(number, {}))
                except Exception:  # the others are made all the same
                    console.print_exception()
                    failed.append(f"{paper} {number}")
                else:
                    print_figure(given, console)
                    plot_figure(given, out / f"{slug(paper)}-{number}.svg")
            progress.advance(task)
    console.print(f"{len(result['figures'])} figures in {out}")
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _made(run: Callable[[Scale], Figure], scale: Scale, commit: str | None, result: dict[str, Any]) -> Figure:
    """A figure, which is added to a result."""
    start = time.monotonic()
    figure = run(scale)
    about = {"seconds": round(time.monotonic() - start, 1), "commit": commit, "load": round(os.getloadavg()[0], 1)}
    result["figures"].append(dataclasses.asdict(figure) | about)
    return figure


if __name__ == "__main__":
    main()
