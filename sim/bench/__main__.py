"""Measures simulated boards: `python -m sim.bench copy`."""

import argparse
import dataclasses
import json
from pathlib import Path

from sim.bench.copy_bench import copy_bench


def main(arguments: list[str] | None = None) -> int:
    """Run a bench, print its table as it comes, and write it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m sim.bench", description=__doc__)
    benches = parser.add_subparsers(dest="bench", required=True)
    copy = benches.add_parser("copy", help="read, write and copy runs on simulated DRAM")
    copy.add_argument("--mebibytes", type=int, default=4, choices=range(1, 65), metavar="1..64", help="of a run")
    copy.add_argument("--json", type=Path, default=Path("build/bench/copy.json"), help="where the figures go")
    options = parser.parse_args(arguments)

    line = "{:>8}  {:<9}  {:>7}  {:>8}  {:>8}  {:>11}  {}"
    print(line.format("channels", "operation", "turn >=", "beats", "cycles", "beats/cycle", "memory"))
    figures = []
    for figure in copy_bench(options.mebibytes << 20):
        turn = figure.turn_bytes or "-"
        rate = f"{figure.beats_per_cycle:.4f}"
        cells = figure.channels, figure.operation, turn, figure.beats, figure.cycles, rate, figure.memory
        print(line.format(*cells), flush=True)
        figures.append(dataclasses.asdict(figure) | {"beats_per_cycle": figure.beats_per_cycle})
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"bench": "copy", "figures": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
