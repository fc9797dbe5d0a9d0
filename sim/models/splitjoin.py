"""Model of SplitJoin."""

from __future__ import annotations

from muntin.sim.models.distributor import distribute
from muntin.sim.models.join_core import JoinCore
from muntin.sim.models.join_settings import JoinResult, JoinRow, JoinSettings
from muntin.sim.models.rap_merger import merge_punctuated


class SplitJoin:
    """Join cores behind a distributor, and their results merged, each side's apart.

    Parameters
    ----------
    settings : JoinSettings
    cores, rows : int
        J, and the rows of one stream that each core holds.
    """

    def __init__(self, settings: JoinSettings, *, cores: int, rows: int):
        self.cores = [JoinCore(settings, index=index, cores=cores, rows=rows) for index in range(cores)]

    def take(self, rows: list[JoinRow]) -> tuple[list[JoinResult], list[JoinResult]]:
        """The results of some rows: those of probing rows of the left stream, and of the right one."""
        found: tuple[list[list[JoinResult]], ...] = ([], [])
        for core, stream in zip(self.cores, distribute(rows, len(self.cores)), strict=True):
            sides: tuple[list[JoinResult], list[JoinResult]] = ([], [])
            for row in stream:
                sides[row.side].extend(core.take(row))
            for side in (0, 1):
                found[side].append(sides[side])
        return merge_punctuated(found[0]), merge_punctuated(found[1])

    @property
    def overflow(self) -> bool:
        """Whether a time window did not fit."""
        return any(core.overflow for core in self.cores)
