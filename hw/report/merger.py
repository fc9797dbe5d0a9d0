"""``python -m muntin.hw.report.merger``: area and clock rate of the merger on an ECP5-85, over several seeds."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from muntin.hw.bisort.merger import Merger
from muntin.hw.report.ecp5 import SPEEDS, area, place_and_route, synthesize
from muntin.hw.report.ring import Ring


def main() -> None:
    """Prints the area of the merger alone, and the clock rate of the merger in a ring of registers."""
    parser = argparse.ArgumentParser(prog="python -m muntin.hw.report.merger", description=main.__doc__)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--key-bits", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--speed", type=int, default=8, choices=SPEEDS, help="speed grade")
    parser.add_argument("--goal", type=int, default=250, help="MHz that place and route aims at")
    parser.add_argument("--keep", type=Path, help="folder for the netlists and reports")
    arguments = parser.parse_args()
    size = {"key_bits": arguments.key_bits, "width": arguments.width}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = area(synthesize(Merger(**size), folder, "merger"))
        print(f"merger W={arguments.width}, {arguments.key_bits}-bit keys: {found}")
        ring = synthesize(Ring(Merger(**size)), folder, "ring")
        rates = []
        for seed in range(1, arguments.seeds + 1):
            rates.append(place_and_route(ring, seed=seed, speed=arguments.speed, goal_mhz=arguments.goal).mhz)
            print(f"ECP5-85 -{arguments.speed}, seed {seed}: {rates[-1]:.1f} MHz", flush=True)
        if rates:
            print(f"worst {min(rates):.1f}, best {max(rates):.1f} MHz")


if __name__ == "__main__":
    main()
