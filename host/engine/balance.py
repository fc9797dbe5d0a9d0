"""When partitions are uneven, and what is heavy: one rule for partitions in process and for those that Spark sends to.

Both judge by a sample or a histogram, whose noise counts for less the more rows it has. A value, or a bin, is *heavy*
with more than a fifth of a partition's even share, and stays so until it has an eighth of that: what changes places at
each call would cost more than it gains.

Source: the hysteresis is ours; that splitters follow a histogram of the rows before is PanJoin, section III-B.
"""

from __future__ import annotations

import numpy as np

HEAVY = 0.2
"""Of a partition's even share of the rows: what has more is spread."""
UNEVEN = 1.1
"""Rows are divided again once a partition has more than so much of its even share."""


def unevenness(loads: np.ndarray) -> float:
    """The most rows of a partition, over the mean, of the rows of each; float64, shape (partitions,)."""
    return float(loads.max() / max(loads.mean(), 1e-9))


def limit(partitions: int, rows: int, most: float = UNEVEN) -> float:
    """The unevenness that so many rows may show by chance, where that of all rows is at most `most`."""
    return most * (1 + 3 * (partitions / rows) ** 0.5)


def heavy(counts: np.ndarray, rows: int, partitions: int) -> np.ndarray:
    """Which of these counts, of so many rows in all, are heavy; bool, shape (n,)."""
    return counts > HEAVY * rows / partitions


def cold(counts: np.ndarray, rows: int, partitions: int) -> np.ndarray:
    """Which of these counts, of what was heavy, are so no longer; bool, shape (n,)."""
    return counts < HEAVY / 8 * rows / partitions
