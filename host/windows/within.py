"""The time window."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from muntin.host.errors import WindowError
from muntin.host.keys.durations import length, nanoseconds
from muntin.host.public import public


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Within:
    """``low <= right_time - left_time <= high``, whatever the order of arrival.

    A strict end is one tick of the columns further in: ``"5 seconds 1 ns"`` is above five seconds in any unit.

    Parameters
    ----------
    left_time, right_time : str
        Time column of each side: timestamps, dates, times of day, durations or integers.
    low, high : str, timedelta or int
        Durations such as ``"-10 minutes"``, of NumPy, pandas and Arrow too; plain integers for integer columns. Both
        ends included; None: that end is open, and the rows that it would bound are kept without end.

    Raises
    ------
    WindowError
        If an end cannot be read, both are open, or `low` lies above `high`.

    Examples
    --------
    >>> from muntin import Within
    >>> within = Within("impressed", "clicked", "0 s", "10 minutes")
    >>> within.in_words()
    '0 s <= right.clicked - left.impressed <= 10 minutes'
    """

    left_time: str
    right_time: str
    low: Any
    high: Any

    def __post_init__(self) -> None:
        for name in ("left_time", "right_time"):
            if not isinstance(getattr(self, name), str):
                raise WindowError(f"{name} must be the name of a column, not {getattr(self, name)!r}")
        if self.low is None and self.high is None:
            raise WindowError("low and high of a time window cannot both be open: leave within= out to keep every row")
        ends = []
        for name in ("low", "high"):
            end = length(name, getattr(self, name), WindowError)
            object.__setattr__(self, name, end)
            if end is None:
                continue
            if isinstance(end, bool) or not isinstance(end, (str, dt.timedelta, int)):
                raise WindowError(f"{name} of a time window must be a duration or an integer, not {end!r}")
            ends.append(end if isinstance(end, int) else nanoseconds(end))
        if len(ends) == 1:
            return
        both_integers = isinstance(self.low, int) == isinstance(self.high, int)
        if not both_integers and 0 not in ends:
            raise WindowError(f"low={self.low!r} and high={self.high!r}: give both as durations or both as integers")
        if ends[0] > ends[1]:
            raise WindowError(f"low={self.low!r} lies above high={self.high!r}: the window is empty")

    @property
    def equal_times(self) -> bool:
        """Whether both ends are 0."""
        ends = (self.low, self.high)
        return None not in ends and not any(end if isinstance(end, int) else nanoseconds(end) for end in ends)

    def in_words(self) -> str:
        """As one would write it, such as ``0 <= right.time - left.time <= 5 minutes``."""
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" <= {self.high}"
        return f"{low}right.{self.right_time} - left.{self.left_time}{high}"
