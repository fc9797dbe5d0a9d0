"""Aggregates of what rows match: CPU against matches a row, and DuckDB's way, to join and then to group.

``python -m bench.aggregates`` prints a table of every function, and one of several windows at once beside as many
joins of DuckDB and Polars; it writes JSON with ``--output`` and a plot with ``--plot``. Windows are filled by calls as
those that are timed, so that these meet runs as a long stream has them. Of rounds of calls, each with every merge among
them, the least counts. DuckDB meets one batch of left rows with a table as large as the window, which stays as it is.
Figures are CPU time of all threads: no other process's load is in them, nor what waits.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from muntin import Band, Compare, Last, Mean, Watermark, WindowJoin, Within, join
from muntin.host.aggregates import Aggregate

MATCHES = (1, 64, 4096)
WINDOWS = (1, 4, 16)
AIM = 1.5  # most CPU against that at one match a row
_BITS = 32  # of keys
_ROUND = 6  # calls, each merge of runs among them; the least of several rounds counts
_DUCKDB_PAIRS = 1 << 23  # at most, that DuckDB makes
_MATCH_BY_MATCH = 1 << 16, 1 << 22  # rows of a window at most, and matches of a call, where time grows with the matches


@dataclasses.dataclass(frozen=True)
class Case:
    """Aggregates that are measured together.

    Attributes
    ----------
    name : str
    aggregates : tuple of str
    peer : tuple of str
        The same in DuckDB, where it has the same query.
    timed : bool
        In a time window, of rows that are equal in a column; else in count windows, of a band.
    aim : bool
        They have inverses, or prefix structures: `AIM` is theirs.
    """

    name: str
    aggregates: tuple[str, ...]
    peer: tuple[str, ...] = ()
    timed: bool = False
    aim: bool = True


BASE = Case(
    "count, sum, min, mean",
    ("count(*)", "sum(v)", "min(v)", "avg(f)"),
    ("count(r.k)", "sum(r.v)", "min(r.v)", "avg(r.f)"),
)
CASES = (
    BASE,
    Case("first", ("first(v)",), ("first(r.v ORDER BY r.n)",)),
    Case("last", ("last(v)",), ("last(r.v ORDER BY r.n)",)),
    Case("arg_min", ("arg_min(v, w)",), ("arg_min(r.v, r.w)",)),
    Case("arg_max", ("arg_max(v, w)",), ("arg_max(r.v, r.w)",)),
    Case("var_samp of floats", ("var(f)",), ("var_samp(r.f)",)),
    Case("stddev_samp of integers", ("stddev(v)",), ("stddev_samp(r.v)",)),
    Case("vwap of floats", ("vwap(f, g)",), ("sum(r.f * r.g) / sum(r.g)",)),
    Case("vwap of integers", ("vwap(v, w)",), ("sum(r.v * r.w) / sum(r.w)",)),
    Case("sum with a filter", ("sum(v) filter (where w > 500000000)",), ("sum(r.v) FILTER (WHERE r.w > 500000000)",)),
    Case("median", ("median(v)",), ("median(r.v)",), aim=False),
    Case("collect_list", ("collect(v)",), ("list(r.v)",), aim=False),
    Case("time window: sum", ("sum(v)",), ("sum(r.v)",), timed=True),
    Case("time window: sum, the prevailing row too", ("sum(v) include prevailing",), timed=True),
    Case("time window: sums of four windows", tuple(f"sum(v) within ({{{part}}}, 0)" for part in range(4)), timed=True),
)


def measure(
    window: int, batch: int, calls: int, matches: Sequence[int] = MATCHES, *, peer: bool = True, case: Case = BASE
) -> list[dict[str, Any]]:
    """CPU seconds a row at some numbers of matches a row.

    Parameters
    ----------
    window : int
        Rows of each side's window.
    batch, calls : int
        Rows of each side of a call, and timed calls. Window and batch are smaller for a case that looks at each match.
    matches : sequence of int
        Matches a row.
    peer : bool
        Whether DuckDB is measured, too.
    case : Case

    Returns
    -------
    list of dict
        `matches` a row as asked for and `found`, CPU `seconds` a row, `ratio` to the first, `duckdb_seconds` a row,
        CPU too (None without it).
    """
    found: list[dict[str, Any]] = []
    for many in matches:
        random = np.random.default_rng(many)
        if not case.aim:
            window, batch = min(window, _MATCH_BY_MATCH[0]), min(batch, _MATCH_BY_MATCH[1] // many)
        stream = _Stream(case, window, many, random)
        with WindowJoin(**stream.options) as join:
            for _ in range(-(-window // batch) + 1):
                join.process(stream.rows(batch), stream.rows(batch))
            before, spent = join.stats.matches, list[float]()
            for _ in range(calls):
                sides = stream.rows(batch), stream.rows(batch)
                started = time.process_time()
                join.process(*sides)
                spent.append(time.process_time() - started)
            pairs = join.stats.matches - before
        rounds = [spent[at : at + _ROUND] for at in range(0, max(1, calls - _ROUND + 1), _ROUND)]
        seconds = min(sum(each) / len(each) for each in rounds) / (2 * batch)
        duckdb_seconds = None
        if peer and case.peer:
            # Left rows come behind the table in time, and fewer of them where they have many matches.
            table, left = stream.rows(window), stream.rows(min(batch, max(1, _DUCKDB_PAIRS // many)))
            duckdb_seconds = _duckdb(case, left, table, stream.where)[0] / len(left)
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


class _Stream:
    """Rows of which each matches so many of a window of the other side, and the join of them."""

    def __init__(self, case: Case, window: int, matches: int, random: np.random.Generator):
        self._random, self._case, self._at = random, case, 0
        aggregates = case.aggregates
        self._keys = 1 << _BITS
        if case.timed:
            self._keys = max(1, window // matches)
            width = 2 * window  # times of both sides go on by one a row
            aggregates = tuple(each.format(*(-(width >> part) for part in range(4))) for each in aggregates)
            self.options: dict[str, Any] = {
                "on": Compare("k", "=", "k"),
                "within": Within("n", "n", -width, width),
                "watermark": Watermark(left=0, right=0),
            }
            self.where = f"r.k = l.k AND r.n BETWEEN l.n - {width} AND l.n + {width}"
        else:
            half = max(1, matches * (1 << _BITS) // window // 2)
            self.options = {"on": Band("k", "k", -half, half - 1), "left": window, "right": window}
            self.where = f"r.k BETWEEN l.k - {half} AND l.k + {half - 1}"
        self.options |= {"form": "aggregate", "aggregates": list(aggregates), "device": "cpu:threads=1"}

    def rows(self, count: int) -> pa.Table:
        random = self._random
        columns: dict[str, Any] = {"k": random.integers(0, self._keys, count)}
        columns |= {"v": random.integers(-1000, 1000, count), "w": random.integers(1, 1 << 30, count)}
        columns |= {"f": random.normal(size=count), "g": random.random(count)}
        columns["n"] = np.arange(self._at, self._at + count)
        self._at += count
        return pa.table(columns)


def _duckdb(case: Case, left: pa.Table, right: pa.Table, where: str) -> tuple[float, pa.Table]:
    """CPU seconds to join and group, and the result: `n`, and a column for each aggregate."""
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("given", right)
        connection.execute("CREATE TABLE r AS SELECT * FROM given")
        started = time.process_time()
        found = connection.sql(
            f"SELECT l.n, {', '.join(case.peer)} FROM l LEFT JOIN r ON {where} GROUP BY l.n"
        ).to_arrow_table()
        return time.process_time() - started, found


_SYMBOLS = (
    1000  # by Zipf's law with exponent 2, a trade each 1,720 us and a price each 600 us, as questdb 6661 has them
)
_REACH = 1_000_000  # us, of the widest window


class _Market:
    """Trades, and the prices around them; times in microseconds."""

    def __init__(self, trades: int):
        random = np.random.default_rng(trades)

        def symbols(count: int) -> np.ndarray:
            found = random.zipf(2, 4 * count)
            return found[found <= _SYMBOLS][:count]

        prices = trades * 1720 // 600
        columns: dict[str, Any] = {"id": np.arange(trades), "symbol": symbols(trades), "at": np.arange(trades) * 1720}
        self._trades = pa.table(columns)
        columns = {"symbol": symbols(prices), "at": np.arange(prices) * 600, "mid": random.integers(0, 10**6, prices)}
        self._prices = pa.table(columns)
        self._connection = duckdb.connect()
        for name, given in (("t", self._trades), ("p", self._prices)):
            self._connection.register("given", given)
            self._connection.execute(f"CREATE TABLE {name} AS FROM given")

    def joined(self, aggregates: Sequence[Aggregate], low: int | None, high: int) -> pa.Table:
        return join(
            self._trades, self._prices, Compare("symbol", "=", "symbol"), within=Within("at", "at", low, high),
            form="aggregate", at="close", aggregates=aggregates, device="cpu:threads=1",
        )  # fmt: skip

    def by_polars(self, offsets: list[int]) -> pa.Table:
        """The last price by each offset behind a trade, by an as-of join each."""
        left, right = (pl.DataFrame(each) for each in (self._trades, self._prices))
        found = left.select("id")
        for number, offset in enumerate(offsets):
            later = left.with_columns(pl.col("at") + offset)
            each = later.join_asof(right, on="at", by="symbol", check_sortedness=False)
            found = found.with_columns(each["mid"].alias(f"w{number}"))
        return found.to_arrow()

    def by_duckdb(self, text: str) -> pa.Table:
        return self._connection.sql(text).to_arrow_table()


def measure_windows(trades: int, windows: Sequence[int]) -> list[dict[str, Any]]:
    """CPU of one aggregate in each of several windows round a trade.

    Parameters
    ----------
    trades : int
        Rows of the left side.
    windows : sequence of int
        How many windows at once: up to so many offsets behind each trade, the last one a second.

    Returns
    -------
    list of dict
        `windows`; microseconds of CPU a trade: `last`, of the last price by each offset, beside `polars_last` and
        `duckdb_last`, as many as-of joins; `mean`, of prices within each offset before the trade, beside `duckdb_mean`,
        one join whose groups have as many filters.

    Raises
    ------
    RuntimeError
        Two of them do not find the same.
    """
    market, found = _Market(trades), []
    for many in windows:
        offsets = [_REACH * (number + 1) // many for number in range(many)]
        last = [Last("mid", within=(None, offset), name=f"w{at}") for at, offset in enumerate(offsets)]
        mean = [Mean("mid", within=(-offset, 0), name=f"w{at}") for at, offset in enumerate(offsets)]
        as_of = (
            f"(SELECT id, mid AS w{at} FROM t ASOF LEFT JOIN p ON t.symbol = p.symbol AND t.at + {offset} >= p.at)"
            for at, offset in enumerate(offsets)
        )
        filters = ", ".join(
            f"avg(mid) FILTER (WHERE p.at >= t.at - {offset}) AS w{at}" for at, offset in enumerate(offsets)
        )
        near = f"p.symbol = t.symbol AND p.at BETWEEN t.at - {_REACH} AND t.at"
        codes: dict[str, Callable[[], pa.Table]] = {
            "last": functools.partial(market.joined, last, None, offsets[-1]),
            "polars_last": functools.partial(market.by_polars, offsets),
            "duckdb_last": functools.partial(market.by_duckdb, f"SELECT * FROM {' NATURAL JOIN '.join(as_of)}"),
            "mean": functools.partial(market.joined, mean, -_REACH, 0),
            "duckdb_mean": functools.partial(
                market.by_duckdb, f"SELECT id, {filters} FROM t LEFT JOIN p ON {near} GROUP BY id"
            ),
        }
        spent: dict[str, float] = {}
        results: dict[str, np.ndarray] = {}
        for name, code in codes.items():
            started = time.process_time()
            result = code()
            spent[name] = (time.process_time() - started) / trades * 1e6
            result = result.sort_by("id").select([each.output for each in last])
            results[name] = np.array([column.to_numpy() for column in result.columns], float)
        for name, due in (("polars_last", "last"), ("duckdb_last", "last"), ("duckdb_mean", "mean")):
            if not np.allclose(results[name], results[due], equal_nan=True):
                raise RuntimeError(f"{name} and {due} of {many} windows differ")
        found.append({"windows": many, **spent})
    return found


def table_of_windows(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of several windows at once, as text."""
    headings = ["windows", "last price", "Polars, an as-of join each", "DuckDB, an as-of join each"]
    headings += ["mean of prices", "DuckDB, join and group"]
    names = ("last", "polars_last", "duckdb_last", "mean", "duckdb_mean")
    return headings, [[f"{each['windows']}", *(f"{each[name]:.2f}" for name in names)] for each in found]


def table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the figures of one case, as text."""
    lines = []
    for each in found:
        own, peer = f"{each['seconds'] * 1e6:.2f}", each["duckdb_seconds"]
        lines.append(
            [f"{each['matches']:,}", own, f"{each['ratio']:.2f}x", "" if peer is None else f"{peer * 1e6:.2f}"]
        )
    return ["matches a row", "CPU us a row", "against the first", "DuckDB, join and group: CPU us a row"], lines


def table_of_cases(cases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of all cases, as text."""
    many = [each["matches"] for each in cases[0]["points"]]
    headings = ["aggregates", *(f"{each:,}" for each in many), *(f"{each:,} / {many[0]:,}" for each in many[1:])]
    headings += [f"DuckDB, {each:,}" for each in many]
    lines = []
    for case in cases:
        points = case["points"]
        line = [case["name"], *(f"{each['seconds'] * 1e6:.2f}" for each in points)]
        line += [f"{each['ratio']:.2f}x" for each in points[1:]]
        peers = [each["duckdb_seconds"] for each in points]
        lines.append(line + ["" if each is None else f"{each * 1e6:.2f}" for each in peers])
    return headings, lines


def plot(cases: list[dict[str, Any]], path: Path) -> None:
    """Draws CPU a row over matches a row, a line for each case; in the format of the suffix."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), constrained_layout=True)
    for number, case in enumerate(cases):
        points = case["points"]
        style = "-" if case["aim"] else "--"
        color = f"C{number % 10}"
        many = [each["matches"] for each in points]
        axes.plot(many, [each["seconds"] * 1e6 for each in points], style, color=color, marker="o", label=case["name"])
    axes.set(xscale="log", yscale="log", xlabel="matches a row", ylabel="CPU us a row")
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=90)
    plt.close(figure)


@click.command()
@click.option("--window", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of each side.")
@click.option("--batch", type=click.IntRange(1), default=32_768, show_default=True, help="Rows of each side of a call.")
@click.option("--calls", type=click.IntRange(1), default=18, show_default=True, help="Timed calls.")
@click.option("--matches", type=click.IntRange(1), multiple=True, default=MATCHES, show_default=True, help="A row.")
@click.option("--only", multiple=True, help="Cases whose name has this in it.")
@click.option("--peer/--no-peer", default=True, show_default=True, help="DuckDB too.")
@click.option("--windows", type=click.IntRange(1), multiple=True, default=WINDOWS, show_default=True, help="At once.")
@click.option("--trades", type=click.IntRange(1), default=50_000, show_default=True, help="With windows round each.")
@click.option("--quick", is_flag=True, help="Small, to see that it runs.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File for JSON.")
@click.option("--plot", "picture", type=click.Path(path_type=Path, dir_okay=False), help="File for a picture.")
def main(
    window: int, batch: int, calls: int, matches: tuple[int, ...], only: tuple[str, ...], peer: bool,
    windows: tuple[int, ...], trades: int, quick: bool, output: Path | None, picture: Path | None,
) -> None:  # fmt: skip
    """CPU of aggregates against the number of matches a row."""
    if quick:
        window, batch, calls, matches, windows, trades = 2_000, 250, 1, (1, 16, 256), (1, 2), 500
    chosen = [case for case in CASES if not only or any(part in case.name for part in only)]
    if not chosen:
        raise click.UsageError(
            f"no case has {' or '.join(only)} in its name: there are {', '.join(c.name for c in CASES)}"
        )
    cases: list[dict[str, Any]] = []
    for case in chosen:
        points = measure(window, batch, calls, matches, peer=peer, case=case)
        cases.append({"name": case.name, "aggregates": list(case.aggregates), "aim": case.aim, "points": points})
        told = ", ".join(f"{each['seconds'] * 1e6:.2f}" for each in points)
        click.echo(f"{case.name}: {told} us", err=True)
    headings, lines = table_of_cases(cases)
    click.echo(f"CPU us a row by matches a row, {window:,} rows a side, batches of {batch:,}")
    for row in (headings, ["---"] * len(headings), *lines):
        click.echo(f"| {' | '.join(row)} |")
    ratios = [each["ratio"] for case in cases if case["aim"] for each in case["points"]]
    if ratios:
        told = "met" if max(ratios) <= AIM else "missed"
        click.echo(f"aim: at most {AIM} times the CPU of one match a row; {told}: {max(ratios):.2f}")
    several = [] if only or not peer else measure_windows(trades, windows)
    if several:
        click.echo(f"CPU us a trade, {trades:,} trades and {trades * 1720 // 600:,} prices")
        headings, lines = table_of_windows(several)
        for row in (headings, ["---"] * len(headings), *lines):
            click.echo(f"| {' | '.join(row)} |")
    if output is not None:
        figures = {"window": window, "batch": batch, "calls": calls, "aim": AIM, "cases": cases, "windows": several}
        output.write_text(json.dumps(figures, indent=2) + "\n")
    if picture is not None:
        plot(cases, picture)


if __name__ == "__main__":
    main()
