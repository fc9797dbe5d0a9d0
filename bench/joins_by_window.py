"""Draws how fast SplitJoin and the BI-Sort kernel join as the window grows, and SplitJoin's latency over its cores.

``python -m bench.joins_by_window`` takes what ``python -m bench.hardware splitjoin`` and
``python -m bench.simulated_join`` wrote.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import click
import matplotlib
import numpy as np

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt


def overtaking(splitjoin: list[tuple[int, float]], sorted_joins: list[tuple[int, float]]) -> float | None:
    """The window at which a join whose rate falls slowly overtakes one whose rate falls as the window grows.

    Parameters
    ----------
    splitjoin, sorted_joins : list of tuple
        Windows and rows a cycle. Between two windows rates are taken as straight lines on scales of powers; before the
        first and behind the last one, SplitJoin's as inverse to the window, the other's as what it was there.

    Returns
    -------
    float or None
        None where neither overtakes.
    """
    windows = np.geomspace(64, 1 << 24, 4000)
    rates = []
    for points, slope in ((splitjoin, -1.0), (sorted_joins, 0.0)):
        x, y = np.log(np.array(sorted(points), float)).T
        at = np.log(windows)
        inside = np.interp(at, x, y)
        inside += np.where(at < x[0], slope * (at - x[0]), 0) + np.where(at > x[-1], slope * (at - x[-1]), 0)
        rates.append(inside)
    ahead = rates[1] > rates[0]
    return float(windows[ahead.argmax()]) if ahead.any() and not ahead[0] else None


@click.command()
@click.option("--splitjoin", type=click.Path(path_type=Path, exists=True), default=Path("build/bench/splitjoin.json"))
@click.option(
    "--bisort",
    "bisorts",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    default=[Path("build/bench/simulated_join.json")],
    help="Repeatable.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/splitjoin.png"), show_default=True)
def main(splitjoin: Path, bisorts: tuple[Path, ...], out: Path) -> None:
    """Draw both joins over the window, and print where one overtakes the other."""
    figures = json.loads(splitjoin.read_text())["figures"]
    costs = [cost for path in bisorts for cost in json.loads(path.read_text())["costs"] if cost["by"] == "simulation"]
    if not costs:
        raise click.ClickException(f"{bisorts[0]} has no window in cycles: give --cycles-window to simulated_join")
    nested: dict[int, dict[int, float]] = defaultdict(dict)
    parts: dict[str, dict[int, float]] = defaultdict(dict)
    for figure in figures:
        if figure["what"] == "latency" or figure["sides"] != "in turn" or figure["apart"]:
            continue
        if figure["what"] == "sub-windows":
            parts[figure["sub_window"]][figure["window"]] = figure["rows_per_cycle"]
        elif figure["order"] == "outer":
            nested[figure["cores"]][figure["window"]] = figure["rows_per_cycle"]
    kernel: dict[str, dict[int, float]] = defaultdict(dict)
    for cost in costs:
        cycles = sum(part["cycles"] for part in cost["costs"].values())
        kernel[cost["index"]][cost["window"]] = cost["rows"] / cycles

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.4))
    colours = iter(("#2f6db3", "#7fa8d6", "#16365c"))
    for cores, points in sorted(nested.items()):
        windows, rates = zip(*sorted(points.items()), strict=True)
        colour = next(colours)
        left.plot(windows, rates, "o-", color=colour, label=f"SplitJoin, J = {cores}, C = 1 (measured)")
        far = np.array([windows[-1], 1 << 21])
        left.plot(far, 2 * cores / far, ":", color=colour)
    warm = iter(("#e08a2e", "#b04a4a"))
    for index, points in kernel.items():
        windows, rates = zip(*sorted(points.items()), strict=True)
        left.plot(windows, rates, "s-", color=next(warm), label=f"BI-Sort, {index}, on simulated DDR3 (measured)")
    left.set_title("rows a cycle over the window (dotted: 2 J C / window)", fontsize=9)
    for name, points in parts.items():
        windows, rates = zip(*sorted(points.items()), strict=True)
        middle.plot(windows, rates, "o-", label=f"4 cores, sub-windows: {name}")
    middle.set_title("BI-Sort as the sub-window", fontsize=9)
    for axis in (left, middle):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("rows a side in the window")
        axis.set_ylabel("rows a cycle, both sides together")
    left.set_ylim(1e-5, 10)  # room for the legend
    latencies: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for entry in figures:
        if entry["what"] == "latency":
            latencies[entry["fan_out"]].append((entry["cores"], entry["cycles"]))
    for fan_out, measured in sorted(latencies.items()):
        cores_at, cycles_at = zip(*sorted(measured), strict=True)
        right.plot(cores_at, cycles_at, "o-", label=f"SplitJoin, k = {fan_out} (measured)")
        right.plot(cores_at, cores_at, "--", color="#999999", label="handshake join: J" if fan_out == 2 else None)
    right.set_xscale("log", base=2)
    right.set_ylim(0, 80)
    right.set_xlabel("J")
    right.set_ylabel("cycles from a row to its first result")
    right.set_title("latency", fontsize=9)
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"drawn in {out}")
    for cores, points in sorted(nested.items()):
        for index, others in kernel.items():
            window = overtaking(list(points.items()), list(others.items()))
            where = f"{window:,.0f} rows" if window else "no window"
            if window and not max(min(points), min(others)) <= window <= min(max(points), max(others)):
                where += ", beyond what was measured of both"
            print(f"BI-Sort ({index}) overtakes {cores} nested loops at {where}")
    window = overtaking(list(parts["nested loop"].items()), list(parts["BI-Sort"].items()))
    print("as the sub-window of 4 cores: at " + (f"{window:,.0f} rows" if window else "no window"))


if __name__ == "__main__":
    main()
