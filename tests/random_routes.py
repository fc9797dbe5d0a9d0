"""Routes that change as fast as they can."""

from __future__ import annotations

import zlib

import numpy as np

from muntin.host.engine.routes import COPIED, DIVIDED, BinHistogram, RoutePlanner


def at_random(planner: RoutePlanner, loads: BinHistogram, table: np.ndarray) -> np.ndarray:
    """For `RoutePlanner._wanted`: another table in each call, as its rows say, so that all partitions make the same."""
    counts = [zlib.crc32(of_role.tobytes()) for _, of_role in sorted(loads.rows.items())]
    rng = np.random.default_rng([planner.routes(loads.partitions).epoch, *counts])
    wanted = rng.integers(COPIED if loads.swappable else DIVIDED, loads.partitions, len(table)).astype(np.int16)
    return np.where((wanted < 0) & (table < 0) & (wanted != table), np.int16(0), wanted)
