"""Model of the prober."""

import numpy as np


def probe(
    keys: np.ndarray, below: np.ndarray, partitions: np.ndarray, partition_log2: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scans the partitions that a batch touches.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
        The run, ascending.
    below : ndarray of object, shape (m,)
        Bounds, ascending.
    partitions : ndarray of int64, shape (m,)
        The partition of each, -1 for none.
    partition_log2 : int

    Returns
    -------
    positions : ndarray of int64, shape (m,)
        Keys of the run below each bound.
    touched : ndarray of int64
        The partitions that were read, each once, ascending.
    """
    positions = np.zeros(len(below), np.int64)
    for at, (bound, which) in enumerate(zip(below, partitions, strict=True)):
        if which >= 0:
            start = int(which) << partition_log2
            part = keys[start : start + (1 << partition_log2)]
            positions[at] = start + sum(int(key) < bound for key in part)
    return positions, np.unique(partitions[partitions >= 0])
