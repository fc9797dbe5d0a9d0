"""One line of the kernel's table."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KernelFigure:
    """One line of the kernel's table: a command on simulated DRAM, beside what the memory can do.

    Attributes
    ----------
    case : str
        Names the command and its sizes.
    channels : int
    quantity : str
        What `value` and `limit` are, with its unit.
    value : float
    limit : float
        The same quantity of what the command is held against, measured in the same run on the same memory.
    beside : str
        What that is.
    target : float or None
        For ``value / limit``; None where there is none.
    at_least : bool
        Whether `target` is a least or a greatest value.
    cycles : int
        Of the command.
    beats : int
        Moved by it, reads and writes together.
    counters : dict of str to int
        The kernel's, for this command alone.
    """

    case: str
    channels: int
    quantity: str
    value: float
    limit: float
    beside: str
    target: float | None
    at_least: bool
    cycles: int
    beats: int
    counters: dict[str, int] = field(repr=False)

    @property
    def ratio(self) -> float:
        """``value / limit``."""
        return self.value / self.limit

    @property
    def met(self) -> bool:
        """Whether the ratio is on the right side of the target, if there is one."""
        if self.target is None:
            return True
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target
