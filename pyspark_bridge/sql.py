"""SQL texts over Spark DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muntin.host.sql import SqlJoin, parse_join
from muntin.host.windows import Rows
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from muntin.pyspark_bridge.watermarks import delayed_columns
from muntin.pyspark_bridge.window_join import window_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What a text decides of a join; the other options are those of `window_join`.
_OF_TEXT = ("on", "left", "right", "within", "how", "suffix", "select")
_OF_SPEC = ("sequence", "form", "order", "index", "engine", "capacity")


def sql_frames(
    text: str,
    frames: Mapping[str, DataFrame],
    *,
    rows: tuple[int | Rows, int | Rows] | None = None,
    times: tuple[str, str] | None = None,
    suffix: str = "_right",
    **options: Any,
) -> DataFrame:
    """Two DataFrames joined as a text says; see `muntin.sql` and `window_join`."""
    join = _parsed(text, frames, rows=rows, times=times, suffix=suffix, options=options)
    chosen = {name: getattr(join.spec, name) for name in _OF_TEXT}
    joined = window_join(frames[join.left], frames[join.right], **chosen, **options)
    if join.spec.form != "rows" or all(name == given for name, given in join.columns):
        return joined
    from pyspark.sql import functions as F

    return joined.select(*(F.col(f"`{name.replace('`', '``')}`").alias(given) for name, given in join.columns))


def _parsed(
    text: str, frames: Mapping[str, DataFrame], *, rows: Any, times: Any, suffix: str, options: Mapping[str, Any]
) -> SqlJoin:
    schemas = {name: arrow_schema_of(frame, name) for name, frame in frames.items()}
    delayed = {name: delayed_columns(frame) for name, frame in frames.items()}
    of_spec = {name: options[name] for name in _OF_SPEC if name in options}
    return parse_join(text, schemas, rows=rows, times=times, suffix=suffix, event_times=delayed, **of_spec)
