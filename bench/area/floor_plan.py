"""A floor plan for join cores: one is placed alone, and the registers of all others take its relative positions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from bench.area.ecp5 import place_and_route, synthesize
from bench.area.ring import Ring
from muntin.contract import ParameterError

SLOTS = tuple((right + far, down) for right in (0, 65) for down in (0, 48) for far in (0, 27))
"""How far right and down of the first core each one is, in tiles: neighbours in the trees beside each other.

Columns of block RAM are 9 tiles apart in either half of an ECP5-85, rows of it 24.
"""
WIDTH = 27
"""Tiles from a core to the next one."""
_FIRST_COLUMN, _MEMORY_ROW = 2, 22
_SEEDS = range(1, 5)
_GOAL_MHZ = 250
_BEYOND = 0.01  # as many of a core's registers may lie beyond its width
_BELS = re.compile(r"X(\d+)/Y(\d+)/(.+)")
_OUTPUTS = {"LUT4": ("Z",), "CCU2C": ("S0", "S1"), "TRELLIS_DPR16X4": ("DO",)}
"""Of the cells that a register behind them is placed with."""
_PORTS_OF_A_GROUP = 4  # block RAMs side by side, two tiles each


def core_places(core: wiring.Component, folder: Path, name: str, *, speed: int) -> dict[str, str]:
    """Place and route a core by itself with some seeds, its memory gathered.

    Parameters
    ----------
    core : Component
    folder : Path
        Where netlists and reports go.
    name : str
        Of the files.
    speed : int
        One of `bench.area.ecp5.SPEEDS`.

    Returns
    -------
    dict of str to str
        As of `places`, with the seed that gives the highest clock rate of those by which nearly all registers lie
        within `WIDTH`, or, where there is none, that by which most do.

    Raises
    ------
    BuildError
        If a tool fails.
    """
    ring = synthesize(Ring(core), folder, name, apart=["*.block", "*.admission"])  # as the cores of a whole one
    gather_memory(ring)
    routed = [place_and_route(ring, seed=seed, speed=speed, goal_mhz=_GOAL_MHZ) for seed in _SEEDS]
    found = [(places(ring, one.placed), one.mhz) for one in routed]

    def merit(one: tuple[dict[str, str], float]) -> tuple[float, float]:
        bels = {bel for bel in one[0].values() if ".FF" in bel}
        beyond = sum(int(bel[1:].partition("/")[0]) >= _FIRST_COLUMN + WIDTH for bel in bels)
        return -max(beyond / len(bels), _BEYOND), one[1]

    return max(found, key=merit)[0]


def gather_memory(netlist: Path) -> None:
    """Give the block RAMs of one core, in a ring alone, places side by side: one region's, then the other's.

    Parameters
    ----------
    netlist : Path
        As `bench.area.ecp5.synthesize` wrote it; rewritten in place.

    Raises
    ------
    ParameterError
        If a region has more block RAMs than fit side by side.
    """
    content = json.loads(netlist.read_text())
    count: defaultdict[str, int] = defaultdict(int)
    for name, cell in sorted(_module(content)["cells"].items()):
        if cell["type"] != "DP16KD":
            continue
        side = "left" if ".left_probes." in f".{name}" else "right"
        at = count[side]
        count[side] += 1
        if at >= _PORTS_OF_A_GROUP:
            raise ParameterError(f"a region's rows must fit {_PORTS_OF_A_GROUP} block RAMs, for a floor plan of cores")
        column = 4 + (9 if side == "right" else 0) + 2 * at
        _fix(cell, f"X{column}/Y{_MEMORY_ROW}/EBR{at}")
    netlist.write_text(json.dumps(content))


def places(netlist: Path, placed: Path) -> dict[str, str]:
    """Where a core's registers and block RAMs are placed.

    Parameters
    ----------
    netlist, placed : Path
        The core alone in a ring, as `bench.area.ecp5.synthesize` and as nextpnr wrote it.

    Returns
    -------
    dict of str to str
        By the register's name and bit, or the block RAM's, without the ring's own: nextpnr's name of the place. Not of
        registers that are placed together with an adder or a look-up table of several registers, nor of those that are
        fed by distributed RAM, which has no place: they stay near it.
    """
    before, after = _module(json.loads(netlist.read_text())), _module(json.loads(placed.read_text()))
    names, tables = _names(before), _tables(before)
    found: dict[str, str] = {}
    for name, cell in before["cells"].items():
        if cell["type"] == "DP16KD":
            keys = [name]
        elif name in tables:
            keys = names[cell["connections"]["Q"][0]]
        else:
            continue
        for key in keys:
            if key.startswith("block."):
                found[key.removeprefix("block.")] = after["cells"][name]["attributes"]["NEXTPNR_BEL"]
    return found


def plan(netlist: Path, first: Mapping[str, str]) -> int:
    """Give the cores of a SplitJoin places as those of one core by itself.

    Parameters
    ----------
    netlist : Path
        SplitJoin in a ring, its cores synthesized apart, as `bench.area.ecp5.synthesize` wrote it; rewritten in
        place.
    first : mapping of str to str
        As of `places`.

    Returns
    -------
    int
        Registers and block RAMs that have places now, and with a register the look-up table before it that is its own.
        Those that do not fit into a core's `WIDTH`, or are not alike in all cores, have none.

    Raises
    ------
    ParameterError
        If there are more cores than `SLOTS`.
    """
    content = json.loads(netlist.read_text())
    module = _module(content)
    names, tables = _names(module), _tables(module)
    shared: dict[str, tuple] = {}  # by slice: what its registers have in common
    taken: set[str] = set()
    for name, cell in module["cells"].items():
        where = re.search(r"block\.core_(\d+)\.", name)
        if where is None or not (cell["type"] == "DP16KD" or name in tables):
            continue
        core, prefix = int(where[1]), where[0]
        if core >= len(SLOTS):
            raise ParameterError(f"a floor plan has {len(SLOTS)} cores at most, not {core + 1}")
        keys = [name] if cell["type"] == "DP16KD" else names[cell["connections"]["Q"][0]]
        place = next(_found(keys, prefix, first), None)
        if place is None:
            continue
        column, row, rest = place
        if cell["type"] == "TRELLIS_FF" and column >= _FIRST_COLUMN + WIDTH:
            continue
        right, down = SLOTS[core]
        bel = f"X{column + right}/Y{row + down}/{rest}"
        if cell["type"] == "TRELLIS_FF":
            control = tuple(cell["connections"].get(port, [None])[0] for port in ("CLK", "CE", "LSR"))
            control += tuple(cell["parameters"].get(name) for name in ("CEMUX", "LSRMUX", "SRMODE"))
            if shared.setdefault(bel.rpartition(".")[0], control) != control:
                continue
        if bel not in taken:
            taken.add(bel)
            _fix(cell, bel)
            if tables.get(name):
                _fix(module["cells"][tables[name]], bel.replace(".FF", ".K"))
    netlist.write_text(json.dumps(content))
    return len(taken)


def _found(keys: list[str], prefix: str, first: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    for key in keys:
        place = first.get(key.removeprefix(prefix)) if key.startswith(prefix) else None
        parts = _BELS.fullmatch(place or "")
        if parts is not None:
            yield int(parts[1]), int(parts[2]), parts[3]


def _tables(module: dict[str, Any]) -> dict[str, str]:
    """Of each register that is placed by itself, or with a look-up table of its own that distributed RAM does not feed:
    that one, or nothing."""
    drivers: dict[Any, str] = {}
    fed: defaultdict[Any, int] = defaultdict(int)  # registers, by the bit that they take
    cells = module["cells"]
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if port in _OUTPUTS.get(cell["type"], ()):
                drivers |= dict.fromkeys(bits, name)
            elif cell["type"] == "TRELLIS_FF" and port == "DI":
                fed[bits[0]] += 1
    found = {}
    for name, cell in cells.items():
        if cell["type"] == "TRELLIS_FF":
            bit = cell["connections"].get("DI", ["0"])[0]
            driver = drivers.get(bit, "")
            if not driver or (cells[driver]["type"] == "LUT4" and fed[bit] == 1 and not _reads(cells, drivers, driver)):
                found[name] = driver
    return found


def _reads(cells: dict[str, Any], drivers: dict[Any, str], table: str) -> bool:
    """Whether a look-up table is fed by distributed RAM."""
    bits = [bit for port in "ABCD" for bit in cells[table]["connections"].get(port, ())]
    return any(cells[drivers[bit]]["type"] == "TRELLIS_DPR16X4" for bit in bits if bit in drivers)


def _fix(cell: dict[str, Any], bel: str) -> None:
    cell.setdefault("attributes", {})["BEL"] = bel


def _module(content: dict[str, Any]) -> dict[str, Any]:
    """The top one; others are of cells."""
    return next(
        module
        for module in content["modules"].values()
        if "top" in module["attributes"] and int(module["attributes"]["top"], 2)
    )


def _names(module: dict[str, Any]) -> defaultdict[Any, list[str]]:
    """Of each bit, those out of the source."""
    names: defaultdict[Any, list[str]] = defaultdict(list)
    for name, net in module["netnames"].items():
        if not name.startswith("$"):
            for at, bit in enumerate(net["bits"]):
                names[bit].append(f"{name}#{at}")
    return names
