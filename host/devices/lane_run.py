"""What a lane holds of a run."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(eq=False)
class LaneRun:
    """A run in the memory of one lane, or its part there.

    Attributes
    ----------
    lane : int
    length : int
        Rows, at least 1.
    granules : int
        Size of its place in memory; 0 where that is the insertion buffer.
    channel, start : int
        Where that is: the channel, and the granule there.
    """

    lane: int
    length: int
    granules: int = 0
    channel: int = 0
    start: int = 0
