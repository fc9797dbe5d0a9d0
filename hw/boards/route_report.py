"""What nextpnr reports of a design's clocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class RouteReport:
    """What nextpnr reports of a design that was placed and routed.

    Parameters
    ----------
    report : mapping
        Its report, from JSON.
    in_the_way : int
        Look-up tables that do nothing, as of `keep_rows_free`.

    Attributes
    ----------
    clocks : dict of str to dict
        For each clock ``declared_mhz`` and ``reached_mhz``.
    used : dict of str to list
        For each kind of cell, those used and those there are.
    met : bool
        Whether every clock reaches what was declared for it.
    """

    def __init__(self, report: Mapping[str, Any], *, in_the_way: int = 0):
        self._report = report
        self.clocks = {
            _clock(net): {"declared_mhz": of["constraint"], "reached_mhz": of["achieved"]}
            for net, of in report["fmax"].items()
        }
        self.used = {cell: [of["used"], of["available"]] for cell, of in report["utilization"].items() if of["used"]}
        if in_the_way:
            self.used["TRELLIS_COMB"][0] -= in_the_way
        self.met = self.slack() >= 1

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {of['reached_mhz']:.1f} of {of['declared_mhz']:.1f} MHz" for name, of in self.clocks.items()
        )

    def slack(self) -> float:
        """What the clock that falls shortest reaches, over what was declared for it."""
        return min(of["reached_mhz"] / of["declared_mhz"] for of in self.clocks.values())

    def worst_path(self) -> str:
        """The longest path of the clock that falls shortest, a line for each part of it."""
        worst = min(self.clocks, key=lambda name: self.clocks[name]["reached_mhz"] / self.clocks[name]["declared_mhz"])
        for path in self._report["critical_paths"]:
            if _clock(path["from"].split()[-1]) == worst == _clock(path["to"].split()[-1]):
                break
        else:
            return f"{worst}: nextpnr tells no path"
        lines, total = [f"worst path of {worst}:"], 0.0
        for part in path["path"]:
            total += part["delay"]
            ends = f"{part['from']['cell']} -> {part['to']['cell']}"
            lines.append(f"  {total:7.2f} ns  {part['type']:9} {part['delay']:5.2f}  {ends}")
        return "\n".join(lines)


def _clock(net: str) -> str:
    """A clock's name, without what nextpnr adds for the network it is on."""
    return re.sub(r"^\$glbnet\$", "", net)
