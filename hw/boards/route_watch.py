"""Tells from nextpnr's log whether its router makes progress."""

from __future__ import annotations

import re

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
