"""Watermarks: how far behind the newest row a late one may come."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from muntin.host.errors import WindowError
from muntin.host.keys.constants import whole_number
from muntin.host.keys.durations import length, nanoseconds
from muntin.host.public import public
from muntin.host.sides import SIDES

MAX_LAG = 1 << 16


@public("muntin")
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
        A call's late rows are judged by the watermark made of all calls before it but the last `lag`, at most 65,536.
        What is late in the next call also decides which rows go after this one, unmatched or forgotten. 1, the default,
        is Spark where micro-batches follow at once; 0 is Spark where it finds time for a micro-batch without data.
    initial : int or None
        The watermark before the first call and of a side with no rows yet, in milliseconds since 1970 (in the
        column's own unit for integers); None: there is none yet. Spark starts at 0.
    idle_after : str, timedelta, int or None
        A side does not hold the watermark back while it has sent no event time for more than this much event time of
        the other side; None: it always does. What it sends then may be late. Event time decides, not the clock, so
        that a replay gives the same result. Both sides need a delay.
    left_column, right_column : str or None
        The column whose newest value, less the delay, is the watermark of the side, of the type of its time column; by
        default the time column. For windows made of event times, ``Within("window.end", "window.end", 0, 0)``: the
        event time, or ``"window.start"`` where that is gone.

    Raises
    ------
    WindowError
        If both sides have none, a length is negative or unreadable, `policy` is unknown, or `idle_after` or a column is
        given for a side that has no delay.

    Examples
    --------
    >>> from muntin import Compare, Watermark, WindowJoin, Within
    >>> join = WindowJoin(
    ...     on=Compare("ad", "=", "ad"), how="left", within=Within("impressed", "clicked", "0 s", "10 minutes"),
    ...     watermark=Watermark(left="1 minute", right="1 minute"),
    ... )
    """

    left: Any = None
    right: Any = None
    policy: str = "min"
    lag: int = 1
    initial: int | None = None
    idle_after: Any = None
    left_column: str | None = None
    right_column: str | None = None

    def __post_init__(self) -> None:
        if self.left is None and self.right is None:
            raise WindowError("a watermark needs the delay of at least one side")
        for name in ("left", "right", "idle_after"):
            delay = length(f"the watermark's {name}", getattr(self, name), WindowError)
            object.__setattr__(self, name, delay)
            if isinstance(delay, bool) or not isinstance(delay, (type(None), int, str, dt.timedelta)):
                raise WindowError(f"the watermark's {name} must be a duration or an integer, not {delay!r}")
            if delay is not None and (delay if isinstance(delay, int) else nanoseconds(delay)) < 0:
                raise WindowError(f"the watermark's {name}={delay!r} is negative")
        for side in SIDES:
            column = getattr(self, f"{side}_column")
            if column is not None and not isinstance(column, str):
                raise WindowError(f"the watermark's {side}_column must be the name of a column, not {column!r}")
            for name in (f"{side}_column", "idle_after"):
                if getattr(self, side) is None and getattr(self, name) is not None:
                    raise WindowError(
                        f"the watermark's {name}={getattr(self, name)!r} needs the {side} side's delay: without it "
                        "that side makes no watermark"
                    )
        if self.policy not in ("min", "max"):
            raise WindowError(f"the watermark's policy must be 'min' or 'max', not {self.policy!r}")
        lag = whole_number(self.lag)
        if lag is None or not 0 <= lag <= MAX_LAG:
            raise WindowError(f"the watermark's lag must be a whole number of calls, 0 to {MAX_LAG}, not {self.lag!r}")
        object.__setattr__(self, "lag", lag)
        if self.initial is not None:
            if (initial := whole_number(self.initial)) is None:
                raise WindowError(f"the watermark's initial value must be a whole number or None, not {self.initial!r}")
            object.__setattr__(self, "initial", initial)
