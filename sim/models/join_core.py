"""Model of a join core."""

from __future__ import annotations

from muntin.sim.models.join_settings import JoinResult, JoinRow, JoinSettings
from muntin.sim.models.region import Region


class JoinCore:
    """Two regions, each of which sees every row.

    Parameters
    ----------
    settings : JoinSettings
    index, cores, rows : int
        As of `Region`.
    """

    def __init__(self, settings: JoinSettings, *, index: int, cores: int, rows: int):
        self.regions = [Region(settings, index=index, cores=cores, rows=rows, side=1 - side) for side in (0, 1)]

    def take(self, row: JoinRow) -> list[JoinResult]:
        """The results of a row, in order."""
        return self.regions[row.side].take(row) + self.regions[1 - row.side].take(row)

    @property
    def overflow(self) -> bool:
        """Whether a time window did not fit."""
        return any(region.overflow for region in self.regions)
