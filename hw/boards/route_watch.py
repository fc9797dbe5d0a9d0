"""Tells from nextpnr's log whether its router still gets on."""

from __future__ import annotations

import re

PATIENCE = 60
"""Iterations of the router without fewer wires in conflict after which it is given up."""

_ITERATION = re.compile(r"^Info:\s+iter=(\d+) wires=\d+ overused=(\d+)", re.M)


def given_up(log: str) -> str | None:
    """Why a route is to be given up.

    The router goes on for ever where too many wires are wanted in one place: their number then falls for some twenty
    iterations and stands still, or grows. The last few of a route that ends well may take some twenty iterations each.

    Parameters
    ----------
    log : str
        What nextpnr's router2 has said so far.

    Returns
    -------
    str or None
        The reason, with the fewest wires in conflict and when they were reached; None while it gets on.
    """
    overused = [int(wires) for _, wires in _ITERATION.findall(log)]
    if not overused:
        return None
    best = min(range(len(overused)), key=overused.__getitem__)
    if overused[best] == 0 or len(overused) - 1 - best < PATIENCE:
        return None
    now = len(overused)
    return f"{overused[best]} wires in conflict after iteration {best + 1}, and never fewer up to iteration {now}"
