"""Aggregates of what rows match: time against matches a row, and DuckDB's way, to join and then to group.

``python -m bench.aggregates`` prints a table, and writes JSON with ``--output``. Both windows are full before
anything is timed. DuckDB meets one batch of left rows with a table as large as the window, which stays as it is.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa

from muntin import Band, Count, Mean, Min, Sum, WindowJoin

MATCHES = (1, 64, 4096)
AIM = 1.5  # most time against that at one match a row
_BITS = 32  # of keys
_FILL_ROWS = 1 << 18
_DUCKDB_PAIRS = 1 << 23  # at most, that DuckDB makes


def measure(
    window: int, batch: int, calls: int, matches: tuple[int, ...] = MATCHES, *, peer: bool = True
) -> list[dict[str, Any]]:
    """Seconds a row at some numbers of matches a row.

    Parameters
    ----------
    window : int
        Rows of each side's count window.
    batch, calls : int
        Rows of each side of a call, and timed calls.
    matches : tuple of int
        Matches a row.
    peer : bool
        Whether DuckDB is measured, too.

    Returns
    -------
    list of dict
        `matches` a row as asked for and `found`, `seconds` a row, `ratio` to the first, `duckdb_seconds` a row (None
        without it).
    """
    found: list[dict[str, Any]] = []
    for many in matches:
        random = np.random.default_rng(many)
        half = max(1, many * (1 << _BITS) // window // 2)
        band = Band("k", "k", -half, half - 1)
        aggregates = [Count(), Sum("v"), Min("v"), Mean("f")]
        with WindowJoin(on=band, left=window, right=window, form="aggregate", aggregates=aggregates) as join:
            for start in range(0, window, _FILL_ROWS):
                rows = min(_FILL_ROWS, window - start)
                join.process(_rows(random, rows), _rows(random, rows))
            before, spent = join.stats.matches, 0.0
            for _ in range(calls):
                sides = _rows(random, batch), _rows(random, batch)
                started = time.perf_counter()
                join.process(*sides)
                spent += time.perf_counter() - started
            pairs = join.stats.matches - before
        seconds = spent / (2 * batch * calls)
        duckdb_seconds = None
        if peer:
            left = _rows(random, min(batch, max(1, _DUCKDB_PAIRS // many)))
            duckdb_seconds = _duckdb(left, _rows(random, window), half) / len(left)
        found.append(
            {
                "matches": many,
                "found": pairs / (2 * batch * calls),
                "seconds": seconds,
                "ratio": seconds / found[0]["seconds"] if found else 1.0,
                "duckdb_seconds": duckdb_seconds,
            }
        )
    return found


def _rows(random: np.random.Generator, count: int) -> pa.Table:
    values = {"k": random.integers(0, 1 << _BITS, count), "v": random.integers(-1000, 1000, count)}
    return pa.table(values | {"f": random.normal(size=count)})


def _duckdb(left: pa.Table, right: pa.Table, half: int) -> float:
    """Seconds to join and group."""
    with duckdb.connect() as connection:
        connection.register("l", left.append_column("row", pa.array(np.arange(len(left)))))
        connection.register("given", right)
        connection.execute("CREATE TABLE r AS SELECT * FROM given")
        started = time.perf_counter()
        connection.sql(
            "SELECT l.row, count(r.k), sum(r.v), min(r.v), avg(r.f) FROM l LEFT JOIN r "
            f"ON r.k BETWEEN l.k - {half} AND l.k + {half - 1} GROUP BY l.row"
        ).to_arrow_table()
        return time.perf_counter() - started


def table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the figures, as text."""
    lines = []
    for each in found:
        own, peer = f"{each['seconds'] * 1e6:.2f}", each["duckdb_seconds"]
        lines.append(
            [f"{each['matches']:,}", own, f"{each['ratio']:.2f}x", "" if peer is None else f"{peer * 1e6:.2f}"]
        )
    return ["matches a row", "us a row", "against the first", "DuckDB, join and group: us a row"], lines


@click.command()
@click.option("--window", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of each side.")
@click.option("--batch", type=click.IntRange(1), default=32_768, show_default=True, help="Rows of each side of a call.")
@click.option("--calls", type=click.IntRange(1), default=8, show_default=True, help="Timed calls.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File for JSON.")
def main(window: int, batch: int, calls: int, output: Path | None) -> None:
    """Time aggregates against the number of matches a row."""
    found = measure(window, batch, calls)
    headings, lines = table(found)
    for row in (headings, ["---"] * len(headings), *lines):
        click.echo(f"| {' | '.join(row)} |")
    worst = max(each["ratio"] for each in found)
    click.echo(
        f"aim: at most {AIM} times the time of one match a row; {'met' if worst <= AIM else 'missed'}: {worst:.2f}"
    )
    if output is not None:
        output.write_text(json.dumps({"window": window, "batch": batch, "aim": AIM, "figures": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
