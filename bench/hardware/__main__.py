"""Measures the hardware in simulation, in exact cycles: `python -m bench.hardware kernel`."""

import argparse
import dataclasses
import itertools
import json
from collections import defaultdict
from pathlib import Path

from bench.hardware.columns_bench import columns_bench
from bench.hardware.copy_bench import copy_bench
from bench.hardware.kernel_bench import Trace, kernel_bench
from bench.hardware.kernel_plot import plot_traces
from bench.hardware.lanes_bench import lanes_bench
from bench.hardware.merger_bench import MergerFigure, merger_bench
from bench.hardware.splitjoin_bench import CORES, sorted_bench, splitjoin_bench
from bench.hardware.splitjoin_latency import splitjoin_latency


def _copy(options: argparse.Namespace) -> list[dict]:
    line = "{:>8}  {:<9}  {:>7}  {:>8}  {:>8}  {:>11}  {}"
    print(line.format("channels", "operation", "turn >=", "beats", "cycles", "beats/cycle", "memory"))
    figures = []
    for figure in copy_bench(options.mebibytes << 20):
        turn = figure.turn_bytes or "-"
        rate = f"{figure.beats_per_cycle:.4f}"
        cells = figure.channels, figure.operation, turn, figure.beats, figure.cycles, rate, figure.memory
        print(line.format(*cells), flush=True)
        figures.append(dataclasses.asdict(figure) | {"beats_per_cycle": figure.beats_per_cycle})
    return figures


def _merger(options: argparse.Namespace) -> list[dict]:
    print("| W | shapes of data | least rows a cycle / W |\n| --: | --: | --: |")
    by_width: dict[int, list[MergerFigure]] = defaultdict(list)
    for figure in merger_bench(options.seed):
        by_width[figure.width].append(figure)
    for width, figures in by_width.items():
        print(f"| {width} | {len(figures)} | {min(figure.share for figure in figures):.5f} |", flush=True)
    return [dataclasses.asdict(figure) | {"share": figure.share} for part in by_width.values() for figure in part]


def _kernel(options: argparse.Namespace) -> list[dict]:
    print("| command | channels | what | value | beside | its value | ratio | aim |  |")
    print("| :-- | --: | :-- | --: | :-- | --: | --: | --: | :-- |")
    figures = []
    traces: list[Trace] = []
    for figure in kernel_bench(options.rows << 20, options.seed, traces):
        numbers = [f"{n:,.4f}" if n < 100 else f"{n:,.0f}" for n in (figure.value, figure.limit)]
        aim = "" if figure.target is None else f"{'≥' if figure.at_least else '≤'} {figure.target}"
        cells = [figure.case, str(figure.channels), figure.quantity, numbers[0], figure.beside, numbers[1]]
        print(
            "| " + " | ".join([*cells, f"{figure.ratio:.4f}", aim, "" if figure.met else "missed"]) + " |", flush=True
        )
        figures.append(dataclasses.asdict(figure) | {"ratio": figure.ratio, "met": figure.met})
    picture = options.json.with_suffix(".png")
    plot_traces(traces, picture)
    print(f"drawn in {picture}")
    return figures


def _splitjoin(options: argparse.Namespace) -> list[dict]:
    cells = ["what", "sub-window", "J", "C", "window", "order", "rows from", "comparators busy", "rows/cycle"]
    cells += ["J C / window", "results/cycle"]
    print("| " + " | ".join(cells) + " |\n" + "| :-- | :-- | --: | --: | --: | :-- | :-- | --: | --: | --: | --: |")
    figures = []
    for figure in itertools.chain(splitjoin_bench(options.seed, options.cores), sorted_bench(options.seed)):
        root = f"{figure.results_per_cycle:.4f}" if figure.what == "everything matches" else ""
        sides = {"in turn": "both, in turn"}.get(figure.sides, figure.sides)
        order = figure.order + (", apart" if figure.apart else "")
        row = [figure.what, figure.sub_window, figure.cores, figure.lanes, f"{figure.window:,}", order, sides]
        busy = f"{figure.busy:.4f}" if figure.sub_window == "nested loop" else ""  # others compare what they must
        row += [busy, f"{figure.rows_per_cycle:.6f}", f"{figure.bound:.6f}", root]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        shown = {name: getattr(figure, name) for name in ("rows_per_cycle", "bound", "busy", "results_per_cycle")}
        figures.append(dataclasses.asdict(figure) | shown)
    print("\n| J | k | cycles to the first result | levels of both trees | the rest |\n| --: | --: | --: | --: | --: |")
    for cores, fan_out in itertools.product(options.latency_cores, (2, 4)):
        cycles, levels = splitjoin_latency(cores, fan_out)
        print(f"| {cores} | {fan_out} | {cycles} | {2 * levels} | {cycles - 2 * levels} |", flush=True)
        figures.append({"what": "latency", "cores": cores, "fan_out": fan_out, "cycles": cycles, "levels": 2 * levels})
    return figures


def _lanes(options: argparse.Namespace) -> list[dict]:
    print("| command | lanes | cycles | beats | beats/cycle of a channel | largest part | times one lane |")
    print("| :-- | --: | --: | --: | --: | --: | --: |")
    figures = []
    for figure in lanes_bench(options.rows << 20, options.seed):
        counted = f"{figure.lanes} | {figure.cycles:,} | {figure.beats:,} | {figure.beats_per_cycle:.3f}"
        print(f"| {figure.case} | {counted} | {figure.share:.3f} | {figure.faster:.2f} |", flush=True)
        figures.append(dataclasses.asdict(figure) | {"faster": figure.faster})
    return figures


def _columns(options: argparse.Namespace) -> list[dict]:
    print("| columns | bands of | window | cycles a row | results a row | bytes a row, in and out | host, us | pairs |")
    print("| --: | --: | --: | --: | --: | --: | --: | --: |")
    figures = []
    for figure in columns_bench(options.seed, window=options.window, rows=options.rows, reaches=tuple(options.reach)):
        rates = [figure.cycles / figure.rows, figure.results / figure.rows, figure.bytes_per_row]
        rates.append(1e6 * figure.residual_seconds / figure.rows)
        cells = [figure.columns, f"± {figure.reach}", f"{figure.window:,}", *(f"{rate:.1f}" for rate in rates)]
        print("| " + " | ".join(map(str, [*cells, figure.pairs])) + " |", flush=True)
        figures.append(dataclasses.asdict(figure) | {"bytes_per_row": figure.bytes_per_row})
    return figures


_BENCHES = {
    "columns": _columns,
    "copy": _copy,
    "merger": _merger,
    "kernel": _kernel,
    "lanes": _lanes,
    "splitjoin": _splitjoin,
}


def main(arguments: list[str] | None = None) -> int:
    """Run a bench, print its table as it comes, and write it as JSON; that of the kernel is drawn, too."""
    parser = argparse.ArgumentParser(prog="python -m bench.hardware", description=__doc__)
    benches = parser.add_subparsers(dest="bench", required=True)
    copy = benches.add_parser("copy", help="read, write and copy runs on simulated DRAM")
    copy.add_argument("--mebibytes", type=int, default=4, choices=range(1, 65), metavar="1..64", help="of a run")
    merger = benches.add_parser("merger", help="the merger alone, at every width")
    kernel = benches.add_parser("kernel", help="merges and probes of the BI-Sort kernel on simulated DRAM")
    kernel.add_argument("--rows", type=int, default=8, choices=(1, 2, 4, 8), help="million rows of the large run")
    splitjoin = benches.add_parser("splitjoin", help="SplitJoin alone: rates, orders, scaling, latency")
    splitjoin.add_argument("--cores", type=int, nargs="+", default=list(CORES), help="J; each is compiled")
    splitjoin.add_argument("--latency-cores", type=int, nargs="*", default=[4, 16, 64, 256])
    lanes = benches.add_parser("lanes", help="a merge and a probe on one lane and on two, each with a channel")
    lanes.add_argument("--rows", type=int, default=2, choices=(1, 2), help="million rows of the large run")
    columns = benches.add_parser("columns", help="two bands on SplitJoin kernels of one column and of two")
    columns.add_argument("--window", type=int, default=4096, help="rows of the full window")
    columns.add_argument("--rows", type=int, default=1024, help="of the other stream; a multiple of 256")
    columns.add_argument("--reach", type=int, nargs="+", default=[10, 500], help="of both bands")
    for bench in (columns, merger, kernel, lanes, splitjoin):
        bench.add_argument("--seed", type=int, default=1, help="of the keys")
    for name, bench in benches.choices.items():
        bench.add_argument("--json", type=Path, default=Path(f"build/bench/{name}.json"), help="where the figures go")
    options = parser.parse_args(arguments)
    figures = _BENCHES[options.bench](options)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"bench": options.bench, "figures": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
