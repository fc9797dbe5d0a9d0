"""Figures of copies and lanes, in cycles."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CopyFigure:
    """One line of the copy table: what a memory gave.

    Attributes
    ----------
    memory : str
        Which controller, in words.
    channels : int
        1, or 2 with reads on the first and writes on the second.
    operation : str
        ``read``, ``write`` or ``copy``.
    turn_bytes : int or None
        Bytes of a direction before the other's turn, where both share a channel; a turn goes on while the
        other direction has nothing to ask for.
    beats, cycles : int
        Beats moved, reads and writes counted together where they share a channel, and how long it took.
    """

    memory: str
    channels: int
    operation: str
    turn_bytes: int | None
    beats: int
    cycles: int

    @property
    def beats_per_cycle(self) -> float:
        """Per channel; 1 is the limit of the data bus."""
        return self.beats / self.cycles


@dataclass(frozen=True)
class LanesFigure:
    """One line of the lanes' table: a command cut into one part for each lane of a kernel.

    Attributes
    ----------
    case : str
        Names the command and its sizes, all lanes together.
    lanes : int
        Each with a memory channel of its own.
    cycles : int
        From the first word that is pushed to the end of all parts.
    one_lane : int
        Cycles of the same on one lane, in the same run.
    beats : int
        Moved by all parts, reads and writes together.
    share : float
        Rows of the largest part, of all rows.
    """

    case: str
    lanes: int
    cycles: int
    one_lane: int
    beats: int
    share: float

    @property
    def faster(self) -> float:
        """How many times faster than one lane."""
        return self.one_lane / self.cycles

    @property
    def beats_per_cycle(self) -> float:
        """Of each channel."""
        return self.beats / self.cycles / self.lanes
