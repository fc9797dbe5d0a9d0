"""Where the ranges of keys of several lanes meet."""

from __future__ import annotations

import numpy as np


class KeyCut:
    """Cuts all keys into one range for each lane: lane n has those from ``keys[n - 1]`` to below ``keys[n]``.

    Which keys cut decides how evenly rows are spread over the lanes, and nothing else: every key lies in one range,
    and a lane is asked for all that it may have. A range may be empty, and all rows may lie in one.

    Parameters
    ----------
    keys : ndarray, shape (lanes - 1,)
        Ascending.
    """

    def __init__(self, keys: np.ndarray):
        self.keys = keys

    @classmethod
    def of(cls, keys: np.ndarray, lanes: int) -> KeyCut:
        """Ranges that hold about as many rows each, if all rows are like these: ascending keys, shape (n,), n >= 1."""
        return cls(keys[np.arange(1, lanes) * len(keys) // lanes].copy())

    @property
    def lanes(self) -> int:
        """How many ranges there are."""
        return len(self.keys) + 1

    def rows(self, keys: np.ndarray) -> list[slice]:
        """Which of some rows lie in each range, by their ascending keys."""
        ends = np.searchsorted(keys, self.keys, "left").tolist()
        return [slice(*both) for both in zip([0, *ends], [*ends, len(keys)], strict=True)]

    def probes(self, lower: np.ndarray, upper: np.ndarray) -> list[slice]:
        """Which of some probes may find a row in each range: those with ``lower <= key <= upper`` for any key in it.

        Both bounds ascend, and ``lower <= upper``.
        """
        starts = [0, *np.searchsorted(upper, self.keys, "left").tolist()]
        stops = [*np.searchsorted(lower, self.keys, "left").tolist(), len(lower)]
        return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
