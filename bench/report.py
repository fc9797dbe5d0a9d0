"""Puts a benchmark's result on the screen, into a JSON file and into a plot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from rich.console import Console

from bench.aims import aims
from bench.ratio import ratio

FORMAT = 1
PEERS = ("cpp", "numpy-searchsorted", "polars", "duckdb")


def write_report(result: dict, folder: Path) -> list[Path]:
    """Writes ``<date>.json`` and ``latest.json``, and with operator cells ``latest.png`` and ``latest.svg``.

    Parameters
    ----------
    result : dict
        What `bench.__main__` gathers: `describe_machine`'s fields, ``parameters``, ``operator`` and
        ``spark``.
    folder : pathlib.Path
        Made if it is not there.

    Returns
    -------
    list of pathlib.Path
        The files written.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **result}, indent=1)
    stamp = result["date"].replace(":", "").replace("-", "")[:15]
    written = [folder / f"{stamp}.json", folder / "latest.json"]
    for path in written:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.replace(path)
    if result.get("operator"):
        for suffix in ("png", "svg"):
            path = folder / f"latest.{suffix}"
            plot_operator(result, path)
            written.append(path)
    return written


def devices(cells: list[dict]) -> list[str]:
    """Devices that appear with a run policy, in the order they were measured."""
    names = (name.rpartition("/") for cell in cells for name in cell["contenders"])
    return list(dict.fromkeys(device for device, slash, _ in names if slash))


def main_ladder(cells: list[dict]) -> str:
    """The contender that ratios are given for: the ladder on the first device measured."""
    found = devices(cells)
    return f"{found[0]}/ladder" if found else "opencl/ladder"


def print_cell(console: Console, cell: dict) -> None:
    """One line as soon as a cell is measured."""
    rates = "  ".join(f"{name} {entry['rate'] / 1e6:.3f}" for name, entry in cell["contenders"].items())
    mine = main_ladder([cell])
    ratios = "  ".join(
        f"{value:.2f}x {peer}"
        for peer in (mine.replace("/ladder", "/flat"), *PEERS)
        if (value := ratio(cell, mine, peer)) is not None
    )
    console.print(
        f"{cell['workload']:<10} window {size(cell['window']):>4}  batch {size(cell['batch']):>4}  "
        f"M rows/s: {rates}" + (f"  | {mine}: {ratios}" if ratios else ""),
        highlight=False,
        soft_wrap=True,
    )


def print_parts(console: Console, cell: dict) -> None:
    """Below a cell's line: milliseconds per call of every contender, in all and by step."""
    for name, entry in cell["contenders"].items():
        parts = "  ".join(f"{part} {value:.2f}" for part, value in entry["part_ms"].items())
        call = entry["call_ms"]
        console.print(
            f"    {name:<18} {entry['calls']} calls, ms: median {call['median']:.2f}  p99 {call['p99']:.2f}  "
            f"max {call['max']:.2f}  | mean per step: {parts}",
            highlight=False,
            soft_wrap=True,
        )


def size(rows: int) -> str:
    """``8M`` for 8 * 2**20 and the like."""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if rows >= unit and rows % unit == 0:
            return f"{rows // unit}{letter}"
    return f"{rows:,}"


def operator_rows(cells: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the operator's table, as text.

    Columns headed by a contender's name hold million rows/s; ``/name`` says how many times faster the ladder
    on the first device is than that one; ``p99 ms`` is the time that 99 of 100 calls of the ladder keep,
    ``memory`` its device bytes over the bytes of keys and row numbers in full windows.
    """
    mine = main_ladder(cells)
    flat = mine.replace("/ladder", "/flat")
    names = list(dict.fromkeys(name for cell in cells for name in cell["contenders"]))
    against = [name for name in (flat, *PEERS) if name in names and mine in names]
    headings = ["workload", "window", "batch", *names, *(f"/{name.rpartition('/')[2]}" for name in against)]
    headings += ["p99 ms", "memory"] if mine in names else []
    lines = []
    for cell in cells:
        line = [cell["workload"], size(cell["window"]), size(cell["batch"])]
        for name in names:
            entry = cell["contenders"].get(name)
            digits = 2 if entry and entry["rate"] > 1e5 else 3
            line.append("" if entry is None else f"{entry['rate'] / 1e6:.{digits}f}")
        for name in against:
            value = ratio(cell, mine, name)
            line.append("" if value is None else f"{value:.2f}x" if value < 20 else f"{value:,.0f}x")
        if entry := cell["contenders"].get(mine):
            memory = entry["memory"]
            line += [f"{entry['call_ms']['p99']:.1f}", f"{memory['used'] / memory['keys_and_rows']:.2f}x"]
        lines.append(line)
    return headings, lines


def spark_rows(spark: dict) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the Spark table, as text."""
    lines = []
    for name, entry in spark["contenders"].items():
        times = "" if name == "window_join" else f"{ratio(spark, 'window_join', name):.2f}x"
        lines.append([name, f"{entry['rate']:,.0f}", times])
    return ["through Spark", "rows/s", "window_join / this"], lines


def print_tables(console: Console, result: dict) -> None:
    """All tables of a result."""
    for title, (headings, lines) in tables(result).items():
        widths = [max(len(row[column]) for row in [headings, *lines]) for column in range(len(headings))]
        console.print(f"\n{title}", highlight=False, soft_wrap=True, style="bold")
        for row in [headings, *lines]:
            cells = [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
            ]
            console.print("  ".join(cells), highlight=False, soft_wrap=True)


def tables(result: dict) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Every table of a result by its title."""
    found = {}
    if result.get("operator"):
        title = "Operator: million rows/s (both sides), probe and insert, row-number pairs out"
        found[title] = operator_rows(result["operator"])
    if result.get("spark"):
        spark = result["spark"]
        rows, batch = size(spark["window"]), size(spark["batch"])
        title = f"Through Spark: {rows} rows a side in the window, {batch} rows a micro-batch"
        found[title] = spark_rows(spark)
    if figures := aims(result):
        found["Aims"] = (["figure", "aim", "measured"], [list(line) for line in figures])
    return found


def plot_operator(result: dict, path: Path) -> None:
    """Rows/s over the batch size, a panel per workload and window; the suffix of `path` says which format."""
    cells = result["operator"]
    kinds = list(dict.fromkeys(cell["workload"] for cell in cells))
    windows = list(dict.fromkeys(cell["window"] for cell in cells))
    names = list(dict.fromkeys(name for cell in cells for name in cell["contenders"]))
    figure, axes = plt.subplots(
        len(windows),
        len(kinds),
        figsize=(1.2 + 2.9 * len(kinds), 1.1 + 2.5 * len(windows)),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    colours = plt.get_cmap("tab10")
    for row, window in enumerate(windows):
        for column, kind in enumerate(kinds):
            axis = axes[row][column]
            for index, name in enumerate(names):
                points = sorted(
                    (cell["batch"], cell["contenders"][name]["rate"])
                    for cell in cells
                    if (cell["workload"], cell["window"]) == (kind, window) and name in cell["contenders"]
                )
                style = "-o" if "/ladder" in name else "--s" if "/flat" in name else ":^"
                batches, rates = [p[0] for p in points], [p[1] for p in points]
                axis.plot(batches, rates, style, label=name, color=colours(index), markersize=4)
            axis.set(xscale="log", yscale="log", title=f"{kind}, {size(window)} rows a side")
            axis.set_xticks(sorted({cell["batch"] for cell in cells}))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(int(value))))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g} M"))
            axis.title.set_fontsize(9)
            axis.grid(alpha=0.3)
    handles = {}
    for axis in axes.flat:
        handles.update(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    machine = result["machine"]
    figure.suptitle(f"{machine['cpu']}, {machine['cores']} cores, {result['date'][:10]}", fontsize=9)
    figure.supylabel("rows/s, both sides", fontsize=9)
    figure.supxlabel("rows a side in one call", fontsize=9)
    figure.legend(list(handles.values()), list(handles), loc="outside right upper", ncols=1, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
