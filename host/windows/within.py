"""The time window."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from host.durations import nanoseconds
from host.errors import WindowError


@dataclasses.dataclass(frozen=True)
class Within:
    """``low <= right_time - left_time <= high``, whatever the order of arrival.

    Parameters
    ----------
    left_time, right_time : str
        Time column of each side: timestamps, dates or integers.
    low, high : str, timedelta or int
        Durations such as ``"-10 minutes"``; plain integers for integer columns. Both ends included.

    Raises
    ------
    WindowError
        If an end cannot be read, is open, or `low` lies above `high`.
    """

    left_time: str
    right_time: str
    low: Any
    high: Any

    def __post_init__(self) -> None:
        for name in ("left_time", "right_time"):
            if not isinstance(getattr(self, name), str):
                raise WindowError(f"{name} must be the name of a column, not {getattr(self, name)!r}")
        ends = []
        for name in ("low", "high"):
            end = getattr(self, name)
            if isinstance(end, bool) or not isinstance(end, (str, dt.timedelta, int)):
                raise WindowError(f"{name} of a time window must be a duration or an integer, not {end!r}")
            ends.append(end if isinstance(end, int) else nanoseconds(end))
        both_integers = isinstance(self.low, int) == isinstance(self.high, int)
        if not both_integers and 0 not in ends:
            raise WindowError(f"low={self.low!r} and high={self.high!r}: give both as durations or both as integers")
        if ends[0] > ends[1]:
            raise WindowError(f"low={self.low!r} lies above high={self.high!r}: the window is empty")
