"""How durations are spread."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

#: Upper ends of the buckets, in seconds; one more has what is above.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """Counts durations by size, in the buckets of `BOUNDS`."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def to_wire(self) -> dict[str, Any]:
        """JSON-able: `counts` by bucket and the `sum` of all, in seconds."""
        return {"counts": list(self._counts), "sum": self._sum}
