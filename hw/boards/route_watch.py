"""Tells from nextpnr's log whether its router still gets on."""

from __future__ import annotations

import re

PATIENCE = {"router2": 60, "router1": 8}
"""Lines of the router's log without fewer wires in conflict, or ways left, after which it is given up.

Of six large routes by router1 that ended well, none had more than one such line after the other.
"""

# router2 tells of each iteration over all wires, router1 of each thousand of ways that it has sought.
_LINES = {
    "router2": ("wires in conflict", re.compile(r"^Info:\s+iter=\d+ wires=\d+ overused=(\d+)", re.M)),
    "router1": (
        "ways still to be found",
        re.compile(r"^Info:\s+\d+ \|\s+\d+\s+\d+ \|\s+\d+\s+\d+ \|\s+(\d+)\|", re.M),
    ),
}


def given_up(log: str) -> str | None:
    """Why a route is to be given up.

    Either router goes on for ever where too many wires are wanted in one place: their number then falls for a while and
    stands still, or grows. With router2 the last few of a route that ends well may take some twenty iterations each;
    router1 may take minutes for each of its last lines.

    Parameters
    ----------
    log : str
        What nextpnr has said so far.

    Returns
    -------
    str or None
        The reason, with the fewest and when they were reached; None while it gets on.
    """
    for router, (what, line) in _LINES.items():
        left = [int(count) for count in line.findall(log)]
        best = min(range(len(left)), key=left.__getitem__, default=0)
        if left and left[best] and len(left) - 1 - best >= PATIENCE[router]:
            return f"{left[best]} {what} in line {best + 1} of the router's log, and never fewer up to line {len(left)}"
    return None
