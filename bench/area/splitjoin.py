"""``python -m bench.area.splitjoin``: area and clock rate of a join core and of SplitJoin on an ECP5-85."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from bench.area.designs import SPLITJOIN_PARTS
from bench.area.ecp5 import DEVICE, SPEEDS, Area, Routed, area, place_and_route, synthesize
from bench.area.floor_plan import SLOTS, core_places, plan
from bench.area.ring import Ring
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.boards.tools import RoutingError
from muntin.hw.splitjoin.join_core import JoinCore
from muntin.hw.splitjoin.splitjoin import SplitJoin


def main() -> None:
    """Prints the area of one join core and of SplitJoin alone, how many cores fit, and the clock rate of both in a ring
    of registers."""
    parser = argparse.ArgumentParser(prog="python -m bench.area.splitjoin", description=main.__doc__)
    parser.add_argument("--preset", default="ecp5", help="of SplitJoin's parameters")
    parser.add_argument("--cores", type=int, help="J, where not the preset's")
    parser.add_argument("--columns", type=int, help="of a build with bounds")
    parser.add_argument("--seeds", type=int, default=5, help="0 for area only")
    parser.add_argument("--speed", type=int, default=8, choices=SPEEDS, help="speed grade")
    parser.add_argument("--goal", type=int, default=250, help="MHz that place and route aims at")
    parser.add_argument("--only", choices=("core", "whole"), help="one of the two")
    parser.add_argument("--paths", action="store_true", help="print the path that bounds each rate")
    parser.add_argument("--keep", type=Path, help="folder for the netlists and reports")
    parser.add_argument("--json", type=Path, default=Path("build/report/splitjoin.json"), help="where the figures go")
    arguments = parser.parse_args()
    parameters = SplitJoinParameters.preset(arguments.preset)
    if arguments.cores:
        parameters = dataclasses.replace(parameters, cores=arguments.cores)
    if arguments.columns:
        parameters = dataclasses.replace(parameters, bounds=1, columns=arguments.columns)
    designs = {"core": lambda: JoinCore(parameters, index=0), "whole": lambda: SplitJoin(parameters)}
    if arguments.only:
        designs = {arguments.only: designs[arguments.only]}
    print(
        f"SplitJoin of J={parameters.cores} cores, C={parameters.lanes}, {parameters.rows} rows a side each, "
        f"{parameters.key_bits}-bit keys" + f", {arguments.columns} with bounds" * bool(arguments.columns)
    )
    sizes: dict[str, Area] = {}
    routed: dict[str, list[Routed]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, make in designs.items():
            apart = SPLITJOIN_PARTS if name == "whole" else ()
            sizes[name] = area(synthesize(make(), folder, f"splitjoin_{name}", apart=apart))
            print(f"{name}: {sizes[name]}", flush=True)
            routed[name] = []
            if not arguments.seeds:
                continue
            ring = synthesize(Ring(make()), folder, f"splitjoin_{name}_ring", apart=apart)
            planned = False
            if name == "whole" and parameters.cores > len(SLOTS):
                print(f"without a floor plan, which has places for {len(SLOTS)} cores", flush=True)
            elif planned := name == "whole":
                places = core_places(
                    JoinCore(parameters, index=0), folder, "splitjoin_placed_core", speed=arguments.speed
                )
                print(f"{plan(ring, places)} registers and block RAMs are placed as in a core alone", flush=True)
            for seed in range(1, arguments.seeds + 1):
                try:
                    now = place_and_route(
                        ring, seed=seed, speed=arguments.speed, goal_mhz=arguments.goal, planned=planned
                    )
                except RoutingError as error:
                    print(f"{name}, seed {seed}: not routed: {error}", flush=True)
                    continue
                routed[name].append(now)
                print(f"{name}, ECP5-85 -{arguments.speed}, seed {seed}: {now.mhz:.1f} MHz", flush=True)
                if arguments.paths:
                    print("\n".join(f"    {step}" for step in now.slowest))
            if rates := [now.mhz for now in routed[name]]:
                print(f"{name}: worst {min(rates):.1f}, best {max(rates):.1f} MHz")
    if len(sizes) == 2:
        print(fit_text(sizes["core"], sizes["whole"], parameters.cores))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        name: {
            "area": dataclasses.asdict(sizes[name]),
            "speed": arguments.speed,
            "mhz": {now.seed: now.mhz for now in routed[name]},
        }
        for name in sizes
    }
    content = {"report": "splitjoin", "parameters": dataclasses.asdict(parameters), "designs": figures}
    arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def fit_text(core: Area, whole: Area, cores: int) -> str:
    """How many cores fit an ECP5-85, by what runs out first: each core with its share of the trees."""
    luts, block_ram = whole.luts / cores, core.block_ram
    by = {
        "look-up tables": int(DEVICE.luts / luts),
        "flip-flops": int(DEVICE.flip_flops / (whole.flip_flops / cores)),
        "block RAM": DEVICE.block_ram // block_ram,
    }
    least = min(by, key=lambda name: by[name])
    return (
        f"{by[least]} cores fit an ECP5-85 (84 K LUT, 208 block RAM), bound by {least}: one takes {luts:.0f} LUT with "
        f"its share of the trees and {block_ram} block RAM; by each alone: "
        + ", ".join(f"{name} {count}" for name, count in by.items())
    )


if __name__ == "__main__":
    main()
