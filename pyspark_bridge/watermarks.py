"""The watermarks of two DataFrames, as the join's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from muntin.host.errors import UnsupportedError, WindowError
from muntin.host.keys.durations import nanoseconds
from muntin.host.predicates import AsOf
from muntin.host.sides import SIDES, Side
from muntin.host.spec import JoinSpec
from muntin.host.windows import Watermark, Within

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

#: Where Spark keeps the delay of `withWatermark`, in milliseconds: in the metadata of the column.
DELAY_KEY = "spark.watermarkDelayMs"
#: Where it is false, a query has one watermark, and operators may stand behind one another's.
MULTIPLE_CONF = "spark.sql.streaming.statefulOperator.allowMultiple"
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
            raise WindowError(f"idle_after={idle_after!r} needs a watermark, and only time windows (within=) have one")
        return None
    columns = {"left": times.left_time, "right": times.right_time}
    delays = {side: _delay(frame, columns[side], side) for side, frame in zip(SIDES, (left, right), strict=True)}
    if not any(delays.values()):
        if idle_after is not None:
            raise WindowError(
                f"idle_after={idle_after!r} needs a watermark: give both sides withWatermark, on "
                f"{columns['left']!r} and {columns['right']!r}"
            )
        return None
    policy = left.sparkSession.conf.get(POLICY_CONF) or "min"
    marks = {}
    for side, frame in zip(SIDES, (left, right), strict=True):
        column = columns[side]
        # The rows no longer have the times that a window is of. It ends after them: its start never runs ahead of
        # Spark's own watermark.
        if delays[side] is not None and column not in frame.columns and column.endswith(".end"):
            marks[f"{side}_column"] = f"{column.removesuffix('.end')}.start"
    return Watermark(
        **delays, policy=policy.lower(), lag=lag, initial=INITIAL_WATERMARK, idle_after=idle_after, **marks
    )


def _delay(frame: DataFrame, column: str, side: Side) -> str | None:
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


def result_delay(spec: JoinSpec, name: Any, left: pa.Schema, right: pa.Schema, multiple: str | None) -> str:
    """The delay of a time column of a join's result: no row of it is later than that.

    Parameters
    ----------
    name : str
        Of one of the two columns of the time window, in the result.
    left, right : pyarrow.Schema
        Of the sides.
    multiple : str or None
        What the session has for `MULTIPLE_CONF`.

    Returns
    -------
    str
        In milliseconds, for `withWatermark`.

    Raises
    ------
    WindowError
        It is no such column.
    UnsupportedError
        Rows of the result may be late by any time, or the session takes no second watermark.
    """
    within, watermark = spec.within, spec.watermark
    times: dict[str, str] = {}
    if within is not None and spec.form == "rows":
        times = {"left": within.left_time, "right": within.right_time}
    shown = {made: side for side, column, made in spec.output_columns(left, right) if times.get(side) == column}
    if name not in shown:
        there = " or ".join(map(repr, shown)) or "none: it takes within= and form='rows'"
        raise WindowError(f"result_watermark={name!r} is no time of the window in the result: there is {there}")
    assert within is not None
    if watermark is None or None in (watermark.left, watermark.right, within.low, within.high):
        raise UnsupportedError(
            f"result_watermark={name!r} needs withWatermark on both sides and a window with two ends: else rows of the "
            "result may be late by any time"
        )
    for wrong, why in (
        (spec.unmatched, f"how={spec.how!r}: a row that can match nothing comes out at once, before others"),
        (watermark.lag, f"lag={watermark.lag}: Spark's watermark behind the join would be the newer one. Give lag=0"),
        (watermark.policy != "min", f"{POLICY_CONF}=max: the slower side's rows may be late by any time"),
        (watermark.idle_after, f"idle_after={watermark.idle_after!r}: an idle side's rows may be late by any time"),
        (
            multiple != "false",
            f"{MULTIPLE_CONF}=true: Spark refuses a watermark behind another one there. Set it to false",
        ),
    ):
        if wrong:
            raise UnsupportedError(f"result_watermark={name!r} does not go with {why}")
    a, b, low, high = (
        0 if length == 0 else nanoseconds(length)
        for length in (watermark.left, watermark.right, within.low, within.high)
    )
    delay = max(a, b - low) + max(high, 0) if shown[name] == "left" else max(b, a + high) + max(-low, 0)
    return f"{-(-delay // 1_000_000)} milliseconds"
