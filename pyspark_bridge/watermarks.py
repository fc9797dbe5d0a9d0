"""The watermarks of two DataFrames, as the join's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from host import AsOf, Watermark, Within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

#: Where Spark keeps the delay of `withWatermark`, in milliseconds: in the metadata of the column.
DELAY_KEY = "spark.watermarkDelayMs"
POLICY_CONF = "spark.sql.streaming.multipleWatermarkPolicy"

#: Spark's stream-stream join drops late rows by the watermark of the micro-batch before, which is made from
#: the rows up to two micro-batches back. Where Spark finds time for a micro-batch without data in between,
#: it is one closer; Spark's own result depends on that timing. One micro-batch of lag is what it does while
#: data keeps coming, and never drops a row that Spark is bound to keep.
LATE_ROW_LAG = 1
#: Spark's watermark before any row was seen, in milliseconds since 1970.
INITIAL_WATERMARK = 0


def watermark_of(left: DataFrame, right: DataFrame, times: object) -> Watermark | None:
    """The join's `Watermark`; None where neither side has `withWatermark` on its column of `times`: a `Within` or
    an `AsOf`."""
    if not isinstance(times, (Within, AsOf)):  # JoinSpec says what is wrong with anything else
        return None
    left_delay = _delay(left, times.left_time, "left")
    right_delay = _delay(right, times.right_time, "right")
    if left_delay is None and right_delay is None:
        return None
    policy = left.sparkSession.conf.get(POLICY_CONF) or "min"
    return Watermark(
        left=left_delay, right=right_delay, policy=policy.lower(), lag=LATE_ROW_LAG, initial=INITIAL_WATERMARK
    )


def _delay(frame: DataFrame, column: str, side: str) -> str | None:
    delays = {
        field.name: field.metadata[DELAY_KEY] for field in frame.schema.fields if DELAY_KEY in (field.metadata or {})
    }
    if column in delays:
        return f"{delays[column]} milliseconds"
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
