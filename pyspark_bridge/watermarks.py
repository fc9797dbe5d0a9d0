"""The watermarks of two DataFrames, as the join's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from muntin.host import AsOf, Watermark, Within
from muntin.host.errors import WindowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

#: Where Spark keeps the delay of `withWatermark`, in milliseconds: in the metadata of the column.
DELAY_KEY = "spark.watermarkDelayMs"
POLICY_CONF = "spark.sql.streaming.multipleWatermarkPolicy"

#: Spark's watermark before any row was seen, in milliseconds since 1970.
INITIAL_WATERMARK = 0


def delayed_columns(frame: DataFrame) -> dict[str, str]:
    """The columns that carry a watermark, and its delay; windows of event time by their field `end`."""
    found = {}
    for field in frame.schema.fields:
        if (delay := (field.metadata or {}).get(DELAY_KEY)) is not None:
            ends = getattr(field.dataType, "names", [])
            found[f"{field.name}.end" if "end" in ends else field.name] = f"{delay} milliseconds"
    return found


def watermark_of(left: DataFrame, right: DataFrame, times: object, lag: int, idle_after: Any) -> Watermark | None:
    """The join's `Watermark`; None where neither side has `withWatermark` on its column of `times`: a `Within` or
    an `AsOf`.

    Raises
    ------
    WindowError
        What `Watermark` raises; or there is none, and `idle_after` is given.
    """
    if not isinstance(times, (Within, AsOf)):  # JoinSpec says what is wrong with anything else
        if idle_after is not None:
            raise WindowError(f"idle_after={idle_after!r} is of a watermark, and only time windows (within=) have one")
        return None
    columns = {"left": times.left_time, "right": times.right_time}
    delays = {side: _delay(frame, columns[side], side) for side, frame in (("left", left), ("right", right))}
    if not any(delays.values()):
        if idle_after is not None:
            raise WindowError(
                f"idle_after={idle_after!r} is of a watermark: give both sides withWatermark, on "
                f"{columns['left']!r} and {columns['right']!r}"
            )
        return None
    policy = left.sparkSession.conf.get(POLICY_CONF) or "min"
    marks = {}
    for side, frame in (("left", left), ("right", right)):
        column = columns[side]
        # The rows no longer have the times that a window is of. It ends after them: its start never runs ahead of
        # Spark's own watermark.
        if delays[side] is not None and column not in frame.columns and column.endswith(".end"):
            marks[f"{side}_column"] = f"{column.removesuffix('.end')}.start"
    return Watermark(
        **delays, policy=policy.lower(), lag=lag, initial=INITIAL_WATERMARK, idle_after=idle_after, **marks
    )


def _delay(frame: DataFrame, column: str, side: str) -> str | None:
    delays = delayed_columns(frame)
    if column in delays:
        return delays[column]
    if delays:
        log.warning(
            "the %s side has a watermark on %s, but the window is on %r: no row of that side counts as late, "
            "and the other "
            "side's rows are kept for it without end",
            side,
            ", ".join(sorted(delays)),
            column,
        )
    return None
