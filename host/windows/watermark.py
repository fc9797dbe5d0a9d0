"""Watermarks: how far behind the newest row a late one may come."""

from __future__ import annotations

import dataclasses
from typing import Any

from host.durations import nanoseconds
from host.errors import WindowError

MOST_LAG = 1 << 16


@dataclasses.dataclass(frozen=True)
class Watermark:
    """When rows of a time window count as late, as Spark defines it.

    After every call the watermark of a side is the newest event time seen on it less its delay; the watermark
    of the join is the lesser of the two (or the greater, by `policy`), never goes back, and is in whole
    milliseconds for timestamp columns. A row of a side that has a delay is late, dropped and counted if its time
    is at or before the watermark in force. Where the window asks for equal times, ``Within(..., 0, 0)``, a delay on
    either side holds for both.

    Parameters
    ----------
    left, right : str, timedelta, int or None
        The delay of each side, as for Spark's ``withWatermark``; None: the side has none, and its rows are
        not late. Integers for integer time columns.
    policy : str
        ``"min"`` or ``"max"``, as ``spark.sql.streaming.multipleWatermarkPolicy``.
    lag : int
        The filter uses the watermark as of this many further calls back, at most 65,536.
    initial : int or None
        The watermark before the first call and of a side with no rows yet, in milliseconds since 1970 (in the
        column's own unit for integers); None: there is none yet. Spark starts at 0.

    Raises
    ------
    WindowError
        If both sides have none, a delay is negative or unreadable, or `policy` is unknown.
    """

    left: Any = None
    right: Any = None
    policy: str = "min"
    lag: int = 0
    initial: int | None = None

    def __post_init__(self) -> None:
        if self.left is None and self.right is None:
            raise WindowError("a watermark needs the delay of at least one side")
        for name in ("left", "right"):
            delay = getattr(self, name)
            if delay is not None and (delay if isinstance(delay, int) else nanoseconds(delay)) < 0:
                raise WindowError(f"the watermark's delay {name}={delay!r} is negative")
        if self.policy not in ("min", "max"):
            raise WindowError(f"the watermark's policy must be 'min' or 'max', not {self.policy!r}")
        if not _whole(self.lag) or not 0 <= self.lag <= MOST_LAG:
            raise WindowError(f"the watermark's lag must be a whole number of calls, 0 to {MOST_LAG}, not {self.lag!r}")
        if self.initial is not None and not _whole(self.initial):
            raise WindowError(f"the watermark's initial value must be a whole number or None, not {self.initial!r}")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
