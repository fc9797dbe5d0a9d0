"""How two contenders of one cell compare."""

from __future__ import annotations

import statistics


def ratio(cell: dict, above: str, below: str) -> float | None:
    """How many times faster one contender is than another: the median over the turns that measured both.

    Returns None where the cell lacks one of them.
    """
    contenders = cell["contenders"]
    if above not in contenders or below not in contenders:
        return None
    rates = zip(contenders[above]["rates"], contenders[below]["rates"], strict=False)
    return statistics.median(a / b for a, b in rates)
