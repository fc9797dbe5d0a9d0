"""Arrow columns and bounds as exact Python numbers, for the oracles."""

import datetime as dt
import decimal
from fractions import Fraction

import pyarrow as pa

from muntin.host.arrow_versions import is_binary_view, is_string_view

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
_BYTES = (
    *(pa.types.is_string, pa.types.is_large_string, is_string_view, pa.types.is_binary),
    *(pa.types.is_large_binary, is_binary_view, pa.types.is_fixed_size_binary),
)


def is_temporal(kind: pa.DataType) -> bool:
    """Whether bounds on keys of this type are durations."""
    return pa.types.is_temporal(kind)


def exact(column: pa.ChunkedArray | pa.Array) -> list:
    """The values of a key or time column, None where NULL.

    Integers come as int, floats as (float64) float, decimals as Fraction, dates, timestamps, times of day and
    durations as int nanoseconds, since the epoch or midnight, structs as tuples. Nothing is rounded.
    """
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in exact(chunk)]
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    if pa.types.is_dictionary(kind):
        values = exact(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    if is_temporal(kind) and not pa.types.is_date(kind):
        scale, whole = NANOSECONDS[kind.unit], pa.int32() if kind.bit_width == 32 else pa.int64()
        return [None if v is None else v * scale for v in column.cast(whole).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if v is None else v * DAY for v in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_date64(kind):
        return [None if v is None else v * 10**6 for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else Fraction(v) for v in column.to_pylist()]
    if pa.types.is_integer(kind):
        return column.to_pylist()
    if pa.types.is_floating(kind):
        return [None if v is None else float(v) for v in column.to_pylist()]
    if pa.types.is_struct(kind):
        fields = [exact(each) for each in column.flatten()]
        return [
            row if there else None
            for row, there in zip(zip(*fields, strict=True), column.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_boolean(kind) or any(is_kind(kind) for is_kind in _BYTES):
        return column.to_pylist()
    raise TypeError(f"the oracle does not know keys of type {kind}")


def exact_bound(bound: object) -> int | Fraction | None:
    """A band bound as an exact number; a duration as nanoseconds; None (open) stays None."""
    if bound is None or isinstance(bound, int | Fraction):
        return bound
    if isinstance(bound, dt.timedelta):
        return ((bound.days * 86_400 + bound.seconds) * 10**6 + bound.microseconds) * 1000
    if isinstance(bound, float | decimal.Decimal):
        return Fraction(bound)
    raise TypeError(f"the oracle does not know bounds like {bound!r}")
