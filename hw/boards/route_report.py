"""What a router says: how far it is, whether it gets on, and why it stopped."""

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
    crossings : dict of str to str
        For each two clocks with a path from one's registers to the other's, as ``"clk -> other"``, the longest such
        path: where it begins and ends.
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
        self.crossings: dict[str, str] = {}
        for path in report["critical_paths"]:
            first, last = (_clock(path[end].split()[-1]) for end in ("from", "to"))
            if first != last and _NO_CLOCK not in (first, last):
                cells = path["path"][0]["from"]["cell"], path["path"][-1]["to"]["cell"]
                self.crossings[f"{first} -> {last}"] = " -> ".join(cells)

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


_NO_CLOCK = "<async>"  # pins


def _clock(net: str) -> str:
    """A clock's name, without what nextpnr adds for the network it is on."""
    return re.sub(r"^\$glbnet\$", "", net)


PATIENCE = {"router2": 60, "router1": 8}
"""Lines of the router's log without fewer overused wires, or unrouted nets, after which it is given up.

Of six large routes that router1 completed, none had two such lines in a row.
"""

# router2 logs each iteration over all wires, router1 each thousand arcs (of a net, from its driver to one load) that it
# has tried.
_LINES = {
    "router2": ("overused wires", re.compile(r"^Info:\s+iter=\d+ wires=\d+ overused=(\d+)", re.M)),
    "router1": (
        "unrouted nets",
        re.compile(r"^Info:\s+\d+ \|\s+\d+\s+\d+ \|\s+\d+\s+\d+ \|\s+(\d+)\|", re.M),
    ),
}


def given_up(log: str) -> str | None:
    """Why a route is to be given up.

    Neither router ends where too many nets need the same wires: the number left falls for a while, then stays or grows.
    With router2 the last few of a route that completes may take some twenty iterations each; router1 may take minutes
    for each of its last lines.

    Parameters
    ----------
    log : str
        What nextpnr has said so far.

    Returns
    -------
    str or None
        The reason, with the fewest and when they were reached; None while it makes progress.
    """
    for router, (what, line) in _LINES.items():
        left = [int(count) for count in line.findall(log)]
        best = min(range(len(left)), key=left.__getitem__, default=0)
        if left and left[best] and len(left) - 1 - best >= PATIENCE[router]:
            return f"{left[best]} {what} in line {best + 1} of the router's log, and never fewer up to line {len(left)}"
    return None
