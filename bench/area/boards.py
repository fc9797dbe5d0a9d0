"""What was built for boards, as lines of the report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.area.designs import ECP5, merged_per_cycle
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters

_CELLS = {"logic": "TRELLIS_COMB", "flip_flops": "TRELLIS_FF", "block_ram": "DP16KD", "dsp": "MULT18X18D"}


def board_lines(builds: Path) -> list[dict[str, Any]]:
    """A line for the newest build of each board and design that was placed and routed with open tools.

    Parameters
    ----------
    builds : Path
        Where `make bitstream` puts them.
    """
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(builds.glob("*/report.json"), key=lambda path: path.stat().st_mtime):
        report = json.loads(path.read_text())
        if "clocks" in report and "used" in report:
            newest[report["board"], report["design"]] = report
    return [_line(report) for report in newest.values()]


def _line(report: Mapping[str, Any]) -> dict[str, Any]:
    used = report["used"]
    line = {
        "design": f"board {report['board']}, {report['design']}, whole",
        "part": ECP5,
        "how": "placed and routed with its pins",
        **{name: used.get(cell, [0])[0] for name, cell in _CELLS.items()},
        "mhz": {name: round(of["reached_mhz"], 1) for name, of in report["clocks"].items()},
        "declared_mhz": {name: round(of["declared_mhz"], 1) for name, of in report["clocks"].items()},
        "rows_per_cycle": 0,
        "what": "",
        "date": report["date"],
        "commit": report["commit"],
        "tools": report["tools"],
    }
    own = report["parameters"]
    if set(own) == {field.name for field in dataclasses.fields(Parameters)}:
        parameters = Parameters(**own)
        memory = report.get("memory_bytes_per_cycle")
        if memory is None:  # of an older build
            return line
        rate = merged_per_cycle(parameters, memory)
        what = f"rows merged; as its memory allows, which moves {memory} bytes a cycle"
    elif set(own) == {field.name for field in dataclasses.fields(SplitJoinParameters)}:
        parameters = SplitJoinParameters(**own)
        rate = parameters.lanes / parameters.rows
        what = (
            f"rows joined, with full windows of {parameters.capacity} rows a side; {parameters.lanes} comparisons a "
            "cycle and core"
        )
    else:  # those of another version's kernel
        return line
    return line | {
        "rows_per_cycle": rate,
        "clock_mhz": parameters.clock_hz / 1e6,
        "what": f"{what}, at the clock it is built for",
    }
