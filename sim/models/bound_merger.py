"""Model of the bound merger."""

import numpy as np


def merge_bounds(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds in one ascending order, of equal ones the lower ones first.

    Returns
    -------
    tuple of ndarray
        The bounds, object, and whether each is an upper one, bool.
    """
    below = np.concatenate([lower, upper])
    kind = np.repeat([False, True], [len(lower), len(upper)])
    order = sorted(range(len(below)), key=lambda at: (below[at], kind[at]))
    return below[order], kind[order]
