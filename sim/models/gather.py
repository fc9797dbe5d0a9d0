"""Model of the gather."""

from __future__ import annotations

import numpy as np


def gather(
    rows: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of ranges of a run.

    Parameters
    ----------
    rows : ndarray of uint32, shape (n,)
        Row numbers of the run, by position.
    start, stop : ndarray of integers, shape (m,)
        One range for each probe.
    limits : tuple of ndarray of uint32, shape (m,), or None
        `first` and `span`: a row counts where ``first <= row < first + span`` modulo 2**32.

    Returns
    -------
    tuple of ndarray
        Number of the probe and row number of each pair, uint32, in the order of the ranges.
    """
    probes, found = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for number, (low, high) in enumerate(zip(start, stop, strict=True)):
        part = rows[int(low) : int(high)]
        if limits is not None:
            part = part[part - limits[0][number] < limits[1][number]]
        probes.append(np.full(len(part), number, np.uint32))
        found.append(part)
    return np.concatenate(probes), np.concatenate(found)
