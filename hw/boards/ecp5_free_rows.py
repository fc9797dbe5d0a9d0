"""Rows of an ECP5's tiles that are kept free of logic, for wires."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from muntin.hw.boards.tools import BuildError

_OF = 3
"""One row of so many is kept free."""


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """Where a device has tiles with look-up tables, eight in each, in nextpnr's coordinates."""

    columns: range
    rows: tuple[int, ...]


_TILES = {
    # Every twelfth row has block RAM and multipliers in place of logic.
    f"{kind}-85k": _Tiles(columns=range(2, 125), rows=tuple(row for row in range(2, 94) if row % 12 != 10))
    for kind in ("um5g", "um")
}


def keep_rows_free(netlist: Path, device: str) -> int:
    """Put look-up tables without a wire into every third row of tiles, so that place and route puts no others there.

    nextpnr's placer fills tiles completely while others stay empty, and where full ones cluster, nets may stay unrouted
    though the device has wires enough. The flip-flops and the wires of the rows stay in use.

    Parameters
    ----------
    netlist : Path
        A flat netlist for an ECP5 as Yosys writes it, in JSON; rewritten in place.
    device : str
        As nextpnr calls it.

    Returns
    -------
    int
        Look-up tables that block a place, which nextpnr counts as used.

    Raises
    ------
    BuildError
        If it is not known where the device has tiles.

    Source
    ------
    The database of Project Trellis, for the places.
    """
    tiles = _TILES.get(device)
    if tiles is None:
        raise BuildError(f"rows can be kept free on {', '.join(_TILES)}, not on {device!r}: leave free_rows empty")
    content = json.loads(netlist.read_text())
    cells = content["modules"]["top"]["cells"]
    places = [
        f"X{column}/Y{row}/SLICE{part}.K{half}"
        for row in tiles.rows
        if row % _OF == 1
        for column in tiles.columns
        for part in "ABCD"
        for half in range(2)
    ]
    for place in places:
        cells[f"free_{place}"] = {
            "hide_name": 0,
            "type": "TRELLIS_COMB",
            "parameters": {"MODE": "LOGIC", "INITVAL": "0" * 16},
            "attributes": {"BEL": place},
            "port_directions": {},
            "connections": {},
        }
    netlist.write_text(json.dumps(content))
    return len(places)
