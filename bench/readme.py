"""A benchmark's result as Markdown, for the README: ``python -m bench.readme build/bench/latest.json``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.report import FORMAT, tables


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(result: Path) -> None:
    """Print the tables of a RESULT file as Markdown, with date, commit and machine."""
    click.echo(markdown(json.loads(result.read_text())), nl=False)


def markdown(result: dict) -> str:
    """The tables of a result as Markdown.

    Raises
    ------
    ValueError
        The result was written by another version of the benchmark.
    """
    if result.get("format") != FORMAT:
        raise ValueError(
            f"the result has format {result.get('format')!r}, this reads {FORMAT}: run the benchmark again"
        )
    machine = result["machine"]
    if result["commit"] is None:
        commit = "outside a git checkout"
    else:
        commit = f"at commit {result['commit']}" + (" with changes" if result["uncommitted_changes"] else "")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
    blocks = [
        f"Measured {result['date'][:10]} {commit}, by `{' '.join(_without_out(result['command']))}`: "
        f"{machine['cores']} cores, {machine['cpu']}; {versions}."
    ]
    for title, (headings, lines) in tables(result).items():
        rows = [headings, [":--"] + ["--:"] * (len(headings) - 1), *lines]
        blocks.append(f"{title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(blocks) + "\n"


def _without_out(command: list[str]) -> list[str]:
    """The command less its output folder, which says nothing about the figures."""
    kept = [word for word in command if not word.startswith("--out=")]
    if "--out" in kept:
        at = kept.index("--out")
        del kept[at : at + 2]
    return kept


if __name__ == "__main__":
    main()
