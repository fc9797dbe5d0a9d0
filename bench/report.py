"""Puts a benchmark's result on the screen, into a JSON file and into plots."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from rich.console import Console

from bench import aggregates
from bench.aims import aims
from bench.machine import cpu_time, faults
from bench.plan import ONE_THREAD, device_kind
from bench.ratio import main_contender, memory, ratio, tail
from bench.workloads import size

FORMAT = 2
HEADINGS = {ONE_THREAD: "cpu, one thread"}


def write_report(result: dict, folder: Path) -> list[Path]:
    """Writes ``<date>.json`` and ``latest.json``, and with operator cells the plots, ``latest-*.png`` and ``.svg``.

    Parameters
    ----------
    result : dict
        What `bench.__main__` gathers: `describe_machine`'s fields, ``parameters``, ``operator``, ``peers``,
        ``spark``, ``floor``, ``state``, ``calls`` and ``conditions``. The files have its ``aims``, too.
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
    aimed = [dict(zip(("figure", "aim", "measured"), line, strict=True)) for line in aims(result)]
    text = json.dumps({"format": FORMAT, **result, "aims": aimed}, indent=1)
    stamp = result["date"].replace(":", "").replace("-", "")[:15]
    written = [folder / f"{stamp}.json", folder / "latest.json"]
    for path in written:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.replace(path)
    for suffix in ("png", "svg"):
        written += plot(result, folder / f"latest-{{}}.{suffix}")
    return written


def plot(result: dict, pattern: Path) -> list[Path]:
    """Draws ``rates`` and, where there are two contenders, ``ratios``; returns the files.

    Parameters
    ----------
    result : dict
        As of `write_report`.
    pattern : pathlib.Path
        With ``{}`` in its name for the plot's; its suffix says which format.
    """
    written = []
    cells = result.get("operator")
    if cells:
        for name, draw in (("rates", plot_rates), ("ratios", plot_ratios)):
            if name == "ratios" and not compared(cells):
                continue
            written.append(pattern.with_name(pattern.name.format(name)))
            draw(result, written[-1])
    return written


def everywhere(cells: list[dict]) -> list[str]:
    """Contenders of every cell; the others are slow, and were measured in some alone."""
    return [name for name in cells[0]["contenders"] if all(name in cell["contenders"] for cell in cells)]


def compared(cells: list[dict]) -> list[tuple[str, str]]:
    """Which contenders are compared: the main one with each other device or peer, and with one thread each peer."""
    names, mine = everywhere(cells), main_contender(cells)
    if mine not in names:
        return []
    own = [name for name in names if device_kind(name) == device_kind(mine) and "/bisort" not in name]
    others = [name for name in names if name not in own]
    return [
        *((mine, other) for other in others),
        *((name, other) for name in own if name != mine for other in others if not device_kind(other)),
    ]


def print_cell(console: Console, cell: dict) -> None:
    """One line as soon as a cell is measured."""
    rates = "  ".join(f"{name} {entry['rate'] / 1e6:.3f}" for name, entry in cell["contenders"].items())
    mine = main_contender([cell])
    ratios = "  ".join(f"{ratio(cell, mine, peer):.2f}x {peer}" for peer in cell["contenders"] if mine and peer != mine)
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
            f"max {call['max']:.2f}  | CPU {cpu_time(entry)} ms, {faults(entry)} faults  | mean per step: {parts}",
            highlight=False,
            soft_wrap=True,
        )


def operator_rows(cells: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the operator's table, as text.

    Columns headed by a contender's name hold million rows/s; ``a / b`` says how many times as fast as b a is;
    ``p99/median`` is of the calls of the main contender, ``memory`` its device bytes over those of keys, row numbers
    and, in time windows, event times. Processor time is user and system, the mean; faults are the median.
    """
    mine, names, pairs = main_contender(cells), everywhere(cells), compared(cells)
    headings = ["workload", "window", "batch", *(HEADINGS.get(name, name) for name in names)]
    headings += [f"{HEADINGS.get(above, above)} / {below}" for above, below in pairs]
    headings += ["p99/median", "memory"] if mine in names else []
    beside = [name for name in names if device_kind(name) in ("", device_kind(mine or ""))]
    headings += [
        f"{HEADINGS.get(name, name)}: {what}" for name in beside for what in ("CPU ms a call", "faults a call")
    ]
    lines = []
    for cell in cells:
        line = [cell["workload"], size(cell["window"]), size(cell["batch"])]
        line += [_millions(cell["contenders"][name]["rate"]) for name in names]
        line += [_times(ratio(cell, above, below)) for above, below in pairs]
        if mine in names:
            line += [_times(tail(cell, mine)), _times(memory(cell, mine))]
        for name in beside:
            line += [cpu_time(cell["contenders"][name]), faults(cell["contenders"][name])]
        lines.append(line)
    return headings, lines


def slow_rows(cells: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the contenders that were measured in some cells alone, as text."""
    mine, names = main_contender(cells), everywhere(cells)
    lines = []
    for cell in cells:
        for name, entry in cell["contenders"].items():
            if name not in names:
                times = _times(ratio(cell, mine, name)) if mine else ""
                where = [cell["workload"], size(cell["window"]), size(cell["batch"])]
                lines.append([name, *where, _millions(entry["rate"]), times])
    return ["contender", "workload", "window", "batch", "million rows/s", f"{mine} / this"], lines


def batch_rows(peers: dict) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the table of batch joins, as text."""
    lines = []
    mine = peers["contenders"].get("cpu")
    for name, entry in sorted(peers["contenders"].items(), key=lambda item: item[1]["median"]):
        times = _times(entry["median"] / mine["median"]) if mine else ""
        lines.append([name, entry["does"], f"{entry['median']:,.1f}", f"{max(entry['ms']):,.1f}", times])
    lines += [[name, f"left out: {reason}", "", "", ""] for name, reason in peers["missing"].items()]
    return ["engine", "how", "ms a batch, median", "most", "this / cpu"], lines


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.{2 if rate > 1e5 else 3}f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x" if value < 20 else f"{value:,.0f}x"


def spark_rows(spark: dict) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the Spark table, as text."""
    lines = []
    for name, entry in spark["contenders"].items():
        times = "" if name == "window_join" else f"{ratio(spark, 'window_join', name):.2f}x"
        lines.append([name, f"{entry['rate']:,.0f}", times])
    return ["through Spark", "rows/s", "window_join / this"], lines


def floor_rows(sizes: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the table of Spark's floor, as text."""
    lines = []
    for found in sizes:
        for name, entry in found["contenders"].items():
            line = [size(found["batch"]), name, f"{entry['rate']:,.0f}"]
            for shares in found["kept"].values():
                kept = shares.get(name)
                ends = () if kept is None else (f"{end:.0%}" for end in kept["interval"])
                line += ["" if kept is None else f"{kept['median']:.0%}", " to ".join(ends)]
            lines.append(line + [f"{of:.2f}" if of else "" for of in entry["cpu_seconds"].values()])
    columns = [column for floor in sizes[0]["kept"] for column in (f"of {floor}", "interval")]
    kinds = next(iter(sizes[0]["contenders"].values()))["cpu_seconds"]
    return ["rows a micro-batch", "through Spark", "rows/s", *columns, *(f"CPU s: {kind}" for kind in kinds)], lines


def state_rows(state: dict) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the table of what state costs, as text."""
    lines = []
    for name in dict.fromkeys([*state["rates"], *("in process", "daemon")]):
        rates, seconds = state["rates"].get(name), state["recovery"].get(name)
        cells = [""] * 4
        if rates is not None:
            cells = [f"{rates['without']:,.0f}", f"{rates['with']:,.0f}", f"{rates['share']:.1%}"]
            cells.append(" to ".join(f"{share:.1%}" for share in rates["quartiles"]))
        lines.append([name, *cells, "" if seconds is None else f"{seconds:.2f}"])
    return ["where", "rows/s without", "rows/s with state", "share kept", "its quartiles", "s to restore"], lines


def calls_rows(cases: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the table of short calls, as text."""
    names = ("median_us", "p99_us", "cpu_us", "encode_us", "core_us", "output_us", "functions")
    lines = [[case["join"], f"{case['rows']:,}", *(f"{case[name]:,.0f}" for name in names)] for case in cases]
    headings = ["join", "rows a side", "us a call, median", "p99", "CPU us a call", "encode", "core", "output"]
    return [*headings, "functions called"], lines


def condition_rows(figures: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the joins beyond one band, as text; but aggregates, which have a table of their own."""
    lines = []
    for figure in figures:
        contenders = figure.get("contenders", {})
        mine = next(iter(contenders), "")
        for name, entry in contenders.items():
            times = "" if name == mine else _times(ratio(figure, mine, name))
            lines.append([figure["figure"], figure["case"], name, f"{entry['rate']:,.0f}", times])
        for name, reason in figure.get("missing", {}).items():
            lines.append([figure["figure"], figure["case"], f"{name}, left out: {reason}", "", ""])
    return ["join", "case", "by", "rows/s", "the first / this"], lines


def print_condition(console: Console, figure: dict) -> None:
    """A line for each contender as soon as a figure is measured."""
    lines = aggregates.table(figure["points"])[1] if "points" in figure else condition_rows([figure])[1]
    for line in lines:
        start = [] if line[0] == figure["figure"] else [figure["figure"], "matches a row:"]
        console.print("  ".join([*start, *line]), highlight=False, markup=False, soft_wrap=True)


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
            console.print("  ".join(cells), highlight=False, markup=False, soft_wrap=True)


def tables(result: dict) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Every table of a result by its title."""
    found = {}
    if result.get("operator"):
        title = "Operator: million rows/s (both sides), probe and insert, row-number pairs out"
        found[title] = operator_rows(result["operator"])
        if (slow := slow_rows(result["operator"]))[1]:
            found["Slow contenders: the same in some cells"] = slow
    if result.get("peers"):
        peers = result["peers"]
        rows, batch = size(peers["window"]), size(peers["batch"])
        title = f"Batch joins: {batch} rows with a table of {rows}, {peers['pairs']:,} pairs out"
        found[title] = batch_rows(peers)
    if result.get("spark"):
        spark = result["spark"]
        rows, batch = size(spark["window"]), size(spark["batch"])
        title = f"Through Spark: {rows} rows a side in the window, {batch} rows a micro-batch"
        found[title] = spark_rows(spark)
    if floor := result.get("floor"):
        title = f"Floor: {size(floor[0]['window'])} rows a side in the window, medians of {floor[0]['turns']} turns"
        found[title] = floor_rows(floor)
    if result.get("state"):
        state = result["state"]
        rows, batch, large = (size(number) for number in (state["window"], state["batch"], state["recovery"]["window"]))
        title = f"State: {rows} rows a side in the window, {batch} rows a micro-batch; a window of {large} restored"
        found[title] = state_rows(state)
    if result.get("calls"):
        found["Short calls: on one thread"] = calls_rows(result["calls"])
    if conditions := result.get("conditions"):
        if (table := condition_rows(conditions))[1]:
            found["Conditions: equality with a band, ranges, outer and as-of joins"] = table
        for figure in conditions:
            if "points" in figure:
                found[f"Aggregates: count, sum, min and mean of what a row matches, {figure['case']}"] = (
                    aggregates.table(figure["points"])
                )
    beyond = {"conditions": result.get("conditions")}
    for title, of in (("Aims", {**result, "conditions": None}), ("Aims beyond one band", beyond)):
        if figures := aims(of):
            found[title] = (["figure", "aim", "measured"], [list(line) for line in figures])
    return found


def plot_rates(result: dict, path: Path) -> None:
    """Rows/s over the batch size, a panel per workload and window, of the contenders of every cell."""
    cells = result["operator"]
    kinds = list(dict.fromkeys(cell["workload"] for cell in cells))
    windows = list(dict.fromkeys(cell["window"] for cell in cells))
    names, mine = everywhere(cells), main_contender(cells) or ""
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
                    if (cell["workload"], cell["window"]) == (kind, window)
                )
                own = device_kind(name) == device_kind(mine)
                style = "-o" if name == mine else "--o" if own else "--s" if device_kind(name) else ":^"
                batches, rates = [p[0] for p in points], [p[1] for p in points]
                label = HEADINGS.get(name, name)
                axis.plot(batches, rates, style, label=label, color=colours(index), markersize=4)
            axis.set(xscale="log", yscale="log", title=f"{kind}, {size(window)} rows a side")
            axis.set_xticks(sorted({cell["batch"] for cell in cells}))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(int(value))))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g} M"))
            axis.title.set_fontsize(9)
            axis.grid(alpha=0.3)
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        handles.update(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    _head(figure, result)
    figure.supylabel("rows/s, both sides", fontsize=9)
    figure.supxlabel("rows a side in one call", fontsize=9)
    figure.legend(list(handles.values()), list(handles), loc="outside right upper", ncols=1, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_ratios(result: dict, path: Path) -> None:
    """A heat map per comparison: how many times as fast, by workload and window over the batch size."""
    cells = result["operator"]
    pairs = compared(cells)
    batches = sorted({cell["batch"] for cell in cells})
    groups = list(dict.fromkeys((cell["window"], cell["workload"]) for cell in cells))
    groups.sort(key=lambda group: -group[0])
    figure, axes = plt.subplots(
        1,
        len(pairs),
        figsize=(1.8 + 2.7 * len(pairs), 1.2 + 0.34 * len(groups)),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    scale = LogNorm(1 / 16, 16)  # 1 is the middle: red is slower, blue faster
    for axis, (above, below) in zip(axes.flat, pairs, strict=True):
        values = np.full((len(groups), len(batches)), np.nan)
        for cell in cells:
            value = ratio(cell, above, below)
            at = groups.index((cell["window"], cell["workload"])), batches.index(cell["batch"])
            values[at] = np.nan if value is None else value
            if value is not None:
                strong = not 1 / 5 < value < 5
                text = f"{value:.1f}" if value < 20 else f"{value:.0f}"
                axis.text(*reversed(at), text, ha="center", va="center", fontsize=8, color="w" if strong else "k")
        image = axis.imshow(values, norm=scale, cmap="RdBu", aspect="auto")
        axis.set_xticks(range(len(batches)), [size(batch) for batch in batches])
        axis.set_yticks(range(len(groups)), [f"{kind}, {size(window)}" for window, kind in groups])
        axis.set_title(f"{HEADINGS.get(above, above)} / {below}", fontsize=9)
        axis.tick_params(labelsize=8, length=0)
    _head(figure, result)
    figure.supxlabel("rows a side in one call", fontsize=9)
    bar = figure.colorbar(image, ax=axes, extend="both", format=lambda value, _: f"{value:g}x")
    bar.set_ticks([1 / 16, 1 / 4, 1, 4, 16])
    bar.ax.tick_params(labelsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _head(figure: Figure, result: dict) -> None:
    machine = result["machine"]
    figure.suptitle(f"{machine['cpu']}, {machine['cores']} cores, {result['date'][:10]}", fontsize=9)
