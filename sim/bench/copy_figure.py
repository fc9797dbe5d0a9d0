"""One line of the copy table."""

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
