"""A benchmark's result as Markdown, printed or written into the documents that show it.

``python -m bench.readme build/bench/latest.json`` prints it, ``--write`` puts it between the markers of README.md and
docs/figures.md, and draws the plots beside the latter. Parts that were run one by one may be given together; blocks of
parts that no result has stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import click

from bench.plan import PARTS
from bench.report import FORMAT, plot, tables

_ROOT = Path(__file__).parents[1]
DOCUMENTS = (_ROOT / "README.md", _ROOT / "docs" / "figures.md")
PLOTS = _ROOT / "docs" / "bench-{}.png"

#: The block of each table, by the first words of its title; its name stands in a document's marker.
_BLOCKS = {
    "Operator": "operator",
    "Slow contenders": "slow",
    "Batch joins": "peers",
    "Through Spark": "spark",
    "Floor": "floor",
    "State": "state",
    "Short calls": "calls",
    "Conditions": "conditions",
    "Aggregates": "aggregates",
    "Aims": "aims",
    "Aims beyond one band": "aims_beyond",
}
#: The aims that the front page shows, in its own words: against what is used today.
_FRONT = {
    "through Spark, against bucket/explode": "Spark's own join, of rows in buckets, exploded; 1M rows a side, "
    "micro-batches of 256K",
    "the same, against polars": "Polars' `join_where` around windows kept by hand; 8M rows a side, batches of 32K",
    "the same, against duckdb": "DuckDB's IE join, likewise",
}
_NAMES = ("measured", "front", *_BLOCKS.values())
_MARKED = re.compile(r"(?P<begin><!-- bench: (?P<name>\w+) -->\n)(?P<lines>.*?)(?P<end><!-- bench: end -->)", re.DOTALL)


@click.command()
@click.argument(
    "results",
    nargs=-1,
    required=True,
    metavar="RESULT...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--write", is_flag=True, help="Write into the documents instead of printing.")
def main(results: tuple[Path, ...], write: bool) -> None:
    """Print the tables of RESULT files as Markdown, with date, commit and machine, or --write them.

    Several files are those of parts that were run one by one; each says when and how it was measured. With --write,
    blocks of other parts stay.
    """
    measured = [json.loads(path.read_text()) for path in results]
    try:
        found = blocks(*measured)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if not write:
        click.echo("\n".join(found.values()), nl=False)
        return
    try:
        written = {path: filled(path.read_text(), found) for path in DOCUMENTS}
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    for path, text in written.items():
        path.write_text(text)
        kept = [match["name"] for match in _MARKED.finditer(text) if match["name"] not in found]
        click.echo(f"wrote {path}" + (f", but for {', '.join(kept)}: no result has these parts" if kept else ""))
    for each in measured:
        for path in plot(each, PLOTS):
            click.echo(f"drew {path}")


def blocks(*results: Mapping) -> dict[str, str]:
    """The parts of results as Markdown, by name: ``measured`` (when, where and how), and each table with its title.

    Raises
    ------
    ValueError
        A result was written by another version of the benchmark, or two of them have the same part.
    """
    merged: dict = {}
    lines = []
    for result in results:
        if result.get("format") != FORMAT:
            raise ValueError(
                f"the result has format {result.get('format')!r}, this reads {FORMAT}: run the benchmark again"
            )
        parts = {name: result[name] for name in PARTS if result.get(name)}
        if twice := parts.keys() & merged.keys():
            raise ValueError(f"two results have the part {min(twice)!r}: name one of them")
        merged |= parts
        lines.append(_measured(result))
    found = {"measured": "\n".join(lines)}
    for title, (headings, rows) in tables(merged).items():
        name = _BLOCKS[title.partition(":")[0]]
        rows = [headings, [":--"] + ["--:"] * (len(headings) - 1), *rows]
        heading = "" if name.startswith("aims") else f"{title}\n\n"
        found[name] = heading + "".join(f"| {' | '.join(row)} |\n" for row in rows)
        if name == "aims":
            measured = {figure: value for figure, _, value in rows}
            front = [(words, measured[figure]) for figure, words in _FRONT.items() if figure in measured]
            found["front"] = "| a band join, against | times as fast |\n| :-- | --: |\n" + "".join(
                f"| {words} | {value} |\n" for words, value in front
            )
            days = sorted({result["date"][:10] for result in results if result.get("operator") or result.get("spark")})
            found["front"] += f"\nMeasured {', '.join(days)} on {results[0]['machine']['cores']} cores.\n"
    return found


def _measured(result: Mapping) -> str:
    machine = result["machine"]
    if result["commit"] is None:
        commit = "outside a git checkout"
    else:
        commit = f"at commit {result['commit']}" + (" with changes" if result["uncommitted_changes"] else "")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
    return (
        f"Measured {result['date'][:10]} {commit}, by `{' '.join(_without_out(result['command']))}`: "
        f"{machine['cores']} cores, {machine['cpu']}; {versions}.\n"
    )


def filled(text: str, found: Mapping[str, str]) -> str:
    """A document with the blocks between its markers; those that are not found stay.

    Parameters
    ----------
    text : str
        With ``<!-- bench: NAME -->`` and ``<!-- bench: end -->`` on lines of their own round each block.
    found : mapping of str to str
        As of `blocks`.

    Raises
    ------
    ValueError
        The document has no markers, or one of a block that the benchmark does not write.
    """
    names = [match["name"] for match in _MARKED.finditer(text)]
    if not names:
        raise ValueError("the document has no markers such as <!-- bench: aims -->")
    for name in names:
        if name not in _NAMES:
            raise ValueError(f"the documents show a block {name!r}: the benchmark writes {', '.join(_NAMES)}")

    def block(match: re.Match) -> str:
        if match["name"] not in found:
            return match[0]
        new = found[match["name"]]
        if match["name"] == "measured":
            older = [line for line in match["lines"].splitlines() if _parts_of(line) - found.keys() and line not in new]
            new = "\n".join(f"{line}\n" for line in older) + ("\n" if older else "") + new
        elif match["name"] in ("aims", "front"):
            new = _with_older(match["lines"], new)
        return match["begin"] + new + match["end"]

    return _MARKED.sub(block, text)


def _with_older(old: str, new: str) -> str:
    """A table with the rows of an older one whose figures it lacks, in the older one's order. Where such rows stay,
    their dates do, too."""
    before, rows = ([line for line in text.splitlines() if line.startswith("| ")] for text in (old, new))
    fresh = {row.split(" | ")[0]: row for row in rows}
    lines = [fresh.pop(row.split(" | ")[0], row) for row in before] + list(fresh.values())
    behind = new[sum(len(row) + 1 for row in rows) :]
    if set(lines) != set(rows):
        days = sorted({*re.findall(r"\d{4}-\d\d-\d\d", old), *re.findall(r"\d{4}-\d\d-\d\d", behind)})
        behind = re.sub(r"Measured [\d, -]+ on", f"Measured {', '.join(days)} on", behind)
    return "".join(f"{line}\n" for line in lines) + behind


def _parts_of(line: str) -> set[str]:
    """The parts that a line of the block ``measured`` stands for."""
    if not (command := re.search(r"`(python -m bench[^`]*)`", line)):
        return set()
    only = re.search(r"--only[ =](\S+)", command[1])
    return set(only[1].split(",") if only else PARTS)


def _without_out(command: list[str]) -> list[str]:
    """The command less its output folder, which says nothing about the figures."""
    kept = [word for word in command if not word.startswith("--out=")]
    if "--out" in kept:
        at = kept.index("--out")
        del kept[at : at + 2]
    return kept


if __name__ == "__main__":
    main()
