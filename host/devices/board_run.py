"""A run on a board."""

from __future__ import annotations

import dataclasses

from muntin.host.devices.lane_run import LaneRun


@dataclasses.dataclass(eq=False)
class BoardRun:
    """A run on a board: what each lane holds of it.

    Attributes
    ----------
    length : int
        Rows.
    parts : list of LaneRun or None, one for each lane
        None where the run has no key of the lane's range.
    """

    length: int
    parts: list[LaneRun | None]
