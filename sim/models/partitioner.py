"""Model of the partitioner."""

import numpy as np

from muntin.sim.models.count_below import count_below


def partition(index: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The last partition whose first key is below each bound, int64; -1 where there is none."""
    return count_below(index, below) - 1
