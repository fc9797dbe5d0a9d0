"""Types of columns and their values: what the contract takes as keys, times and payload, with values at their ends."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.arrow_versions import is_binary_view, is_string_view
from tests.oracles.exact import DAY, NANOSECONDS

INTEGERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
# Older versions of pyarrow lack the narrow decimals and the views.
DECIMALS = (
    *(getattr(pa, "decimal32", pa.decimal128)(7, 2), getattr(pa, "decimal64", pa.decimal128)(15, 3)),
    *(pa.decimal128(9, 2), pa.decimal128(18, 0), pa.decimal128(18, 6)),
    *(pa.decimal128(30, 3), pa.decimal256(50, 4), pa.decimal128(5, -2)),
)
FLOATS = (pa.float16(), pa.float32(), pa.float64())
DATES = (pa.date32(), pa.date64())
STAMPS = tuple(pa.timestamp(unit) for unit in NANOSECONDS)
ZONED = tuple(pa.timestamp(unit, zone) for unit in NANOSECONDS for zone in ("UTC", "Europe/Berlin", "+05:30"))
DURATIONS = tuple(pa.duration(unit) for unit in NANOSECONDS)
TIMES = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
TEXTS = (pa.string(), pa.large_string(), getattr(pa, "string_view", pa.string)())
BYTES = (pa.binary(), pa.large_binary(), getattr(pa, "binary_view", pa.binary)(), pa.binary(2))
#: Types that can be compared with one another, and how often they are drawn.
FAMILIES: dict[str, tuple[tuple[pa.DataType, ...], int]] = {
    "number": (INTEGERS + DECIMALS[:5] + INTEGERS, 6),
    "decimal": (DECIMALS + INTEGERS, 1),
    "float": (FLOATS + FLOATS + (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32()), 4),
    "date": (DATES, 1),
    "timestamp": (STAMPS, 2),
    "zoned": (ZONED, 1),
    "duration": (DURATIONS, 1),
    "time": (TIMES, 1),
    "mixed": (INTEGERS + FLOATS + DATES + STAMPS + ZONED + DECIMALS, 0),
    "text": (TEXTS, 2),
    "bytes": (BYTES, 1),
    "bool": ((pa.bool_(),), 1),
}
ORDERED = ("number", "decimal", "float", "date", "timestamp", "zoned", "duration", "time")
WORDS = ("", "a", "b", "ab", "B", "é", "a\0", "a word that is longer than a view holds inline", "\U0001f600")


@dataclass(frozen=True)
class Given:
    """A bound or constant as a user writes it, and what it stands for."""

    given: Any
    exact: Any

    def __repr__(self) -> str:
        return repr(self.given)


OPEN = Given(None, None)


def scalar_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, where these stand in a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def unit(kind: pa.DataType) -> Fraction:
    """What one is worth in storage: nanoseconds for times."""
    if pa.types.is_decimal(kind):
        return Fraction(10) ** -kind.scale
    if pa.types.is_date(kind):
        return Fraction(DAY)
    if is_temporal(kind):
        return Fraction(NANOSECONDS[kind.unit])
    return Fraction(1)


def is_temporal(kind: pa.DataType) -> bool:
    """Whether distances between values are durations."""
    return pa.types.is_temporal(kind)


def ends(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of a type in its unit."""
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        return -top, top
    if pa.types.is_date64(kind):
        top = (2**63 - 1) // 86_400_000
        return -top, top
    if pa.types.is_time(kind):
        return 0, int(DAY // unit(kind)) - 1
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def pool(rng: random.Random, left: pa.DataType, right: pa.DataType) -> list[Any]:
    """Values near one another, of which each side takes those that its type has: exact numbers, nanoseconds of times,
    text, bytes, tuples of the fields of structs."""
    if pa.types.is_struct(left):
        fields = [pool(rng, left.field(at).type, right.field(at).type) for at in range(left.num_fields)]
        return [tuple(rng.choice([None, *of] if rng.random() < 0.2 else of) for of in fields) for _ in range(6)]
    kinds = scalar_type(left), scalar_type(right)
    if pa.types.is_null(kinds[0]) or pa.types.is_null(kinds[1]):
        kinds = tuple(kind for kind in kinds if not pa.types.is_null(kind)) or (pa.int64(),)
    one = kinds[0]
    if pa.types.is_boolean(one):
        return [False, True]
    if is_text(one) or is_bytes(one):
        words = rng.sample(WORDS, rng.randint(1, 6))
        if any(pa.types.is_fixed_size_binary(kind) for kind in kinds):
            words = ["ab", "ba", "aa", "\0\0"]
        return words if is_text(one) else [word.encode() for word in words]
    if any(pa.types.is_floating(kind) for kind in kinds):
        step = rng.choice([0.1, 0.25, 1.0])
        values: list[Any] = [step * at for at in range(-5, 6)]
        special = [math.inf, -math.inf, -0.0, 0.0, 2.0**53, 1e308, -1e308, 5e-324, 65504.0, 3e38, 0.1 + 0.2]
        special += [float(value) for kind in kinds if pa.types.is_integer(kind) for value in ends(kind)]
        return values + rng.sample(special, rng.randint(0, 5))
    units = [unit(kind) for kind in kinds]
    steps = [min(units), max(units)]
    centers = [Fraction(0)] * 4
    for kind in kinds:
        centers += [end * unit(kind) for end in ends(kind)]
    if any(pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in kinds):
        centers += [Fraction(20_000 * DAY)] * 3
    if any(pa.types.is_decimal(kind) for kind in kinds):
        centers += [sign * (2**63) * each for each in units for sign in (1, -1)][: rng.choice([0, 0, 4])]
    if rng.random() < 0.8:  # where values of both sides can be near one another
        low, high = (choose(end[at] * unit(kind) for kind, end in zip(kinds, map(ends, kinds), strict=True))
                     for at, choose in ((0, max), (1, min)))  # fmt: skip
        centers = [center for center in centers if low <= center <= high] or [Fraction(0)]
    found: list[Any] = []
    for center in rng.choices(centers, k=rng.choice([1, 1, 2, 3])):
        step = rng.choice(steps)
        found += [center // each * each + at * step for at in range(-6, 7) for each in steps[-1:]]
    return found


def is_text(kind: pa.DataType) -> bool:
    """Text of any layout."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_string_view(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Bytes of any layout."""
    types = pa.types
    return (
        types.is_binary(kind) or types.is_large_binary(kind) or is_binary_view(kind) or types.is_fixed_size_binary(kind)
    )


def fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a type that is no float has an exact value."""
    inner = value / unit(kind)
    low, high = ends(kind)
    return inner.denominator == 1 and low <= inner <= high


def draw(rng: random.Random, values: list[Any], kind: pa.DataType, count: int, nulls: float) -> list[Any]:
    """Some values of a pool, as a column of this type has them: None, numbers in the unit of the type, ..."""
    inner = scalar_type(kind)
    if pa.types.is_null(inner):
        return [None] * count
    if pa.types.is_struct(inner):
        rows = [rng.choice(values) for _ in range(count)]
        fields = [
            [None if row[at] is None else draw(rng, [row[at]], inner.field(at).type, 1, 0)[0] for row in rows]
            for at in range(inner.num_fields)
        ]
        found = [tuple(field[row] for field in fields) for row in range(count)]
    elif pa.types.is_floating(inner):
        found = [math.nan if rng.random() < 0.04 else float(rng.choice(values)) for _ in range(count)]
    elif pa.types.is_boolean(inner) or is_text(inner) or is_bytes(inner):
        found = [rng.choice(values) for _ in range(count)]
    else:
        low, high = ends(inner)
        own = []
        for value in values:
            if not isinstance(value, float):
                scaled = Fraction(value) / unit(inner)
            elif math.isfinite(value):
                scaled = Fraction(round(value))
            else:
                continue
            if low <= scaled <= high and (scaled.denominator == 1 or isinstance(value, float)):
                own.append(int(scaled))
        own = own or [max(low, 0), min(high, 1)]
        found = [rng.choice(own) for _ in range(count)]
    return [None if rng.random() < nulls else value for value in found]


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The column of what `draw` gives."""
    types = pa.types
    if types.is_dictionary(kind):
        known = list({repr(value): value for value in values if value is not None}.values())
        places = {repr(value): at for at, value in enumerate(known)}
        indices = pa.array([None if value is None else places[repr(value)] for value in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, array(known, kind.value_type))
    if types.is_struct(kind):
        fields = [
            array([None if row is None else row[at] for row in values], kind.field(at).type)
            for at in range(kind.num_fields)
        ]
        missing = pa.array([row is None for row in values], pa.bool_())
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=missing)
    if types.is_decimal(kind):
        with decimal.localcontext(prec=100):
            return pa.array([None if v is None else decimal.Decimal(v).scaleb(-kind.scale) for v in values], kind)
    if types.is_floating(kind):
        mask = np.array([value is None for value in values], bool)
        with np.errstate(over="ignore"):
            plain = np.array([0.0 if value is None else value for value in values], kind.to_pandas_dtype())
        return pa.array(plain, kind, mask=mask)
    if types.is_date64(kind):
        return pa.array([None if v is None else v * 86_400_000 for v in values], pa.int64()).cast(kind)
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if is_temporal(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def sorted_by(table: pa.Table, column: str) -> pa.Table:
    """The rows in the order of a column without NULL, those of equal values as they are; by slices, which every type
    has."""
    keys = plain(table[column])
    pieces = [table.slice(row, 1) for row in sorted(range(len(keys)), key=keys.__getitem__)]
    return pa.concat_tables([table.slice(0, 0), *pieces])


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that compare bit by bit, of any type: times as numbers, floats as text."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain(chunk)]
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        values = plain(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    if types.is_struct(kind):
        fields = [plain(field) for field in column.flatten()]
        rows = zip(*fields, strict=True) if fields else [()] * len(column)
        return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if types.is_map(kind):
        return plain(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    if isinstance(column, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        inside, lengths = iter(plain(column.flatten())), pc.list_value_length(column).to_pylist()
        return [None if size is None else [next(inside) for _ in range(size)] for size in lengths]
    if types.is_floating(kind):
        return [None if value is None else repr(float(value)) for value in column.to_pylist()]
    if types.is_date32(kind) or types.is_time32(kind):
        return column.cast(pa.int32()).to_pylist()
    if types.is_temporal(kind) and not types.is_interval(kind):
        return column.cast(pa.int64()).to_pylist()
    return column.to_pylist()


def length(rng: random.Random, exact: Fraction | None, *, temporal: bool) -> Given:
    """A distance, in one of the ways in which a user writes it."""
    if exact is None:
        return OPEN
    exact = Fraction(exact)
    ways: list[Any] = []
    if temporal:
        exact = Fraction(round(exact))  # beside a column of another family
        nanos = int(exact)
        ways.append(f"{nanos} ns")
        if abs(nanos) < 2**62 and rng.random() < 0.05:
            return Given(rng.choice([pd.Timedelta(nanos, "ns"), np.timedelta64(nanos, "ns")]), nanos)
        if nanos % 1000 == 0 and abs(nanos) < 2**62:
            ways += [dt.timedelta(microseconds=nanos // 1000)] * 2
        for word, size in (("days", DAY), ("seconds", 10**9), ("milliseconds", 10**6)):
            if nanos % size == 0:
                ways.append(f"{nanos // size} {word}")
        return Given(rng.choice(ways), nanos)
    if exact.denominator == 1:
        ways.append(int(exact))
        if abs(exact) < 2**53 and rng.random() < 0.1:
            ways += [float(exact), np.int64(int(exact))]
    else:
        with decimal.localcontext(prec=100):
            ways += [decimal.Decimal(exact.numerator) / decimal.Decimal(exact.denominator)]
    return Given(rng.choice(ways), exact)


def constant(rng: random.Random, values: list[Any], kind: pa.DataType) -> Given:
    """A value of a pool, as `Where` takes it beside a column of this type."""
    inner = scalar_type(kind)
    value = rng.choice(values)
    if pa.types.is_boolean(inner) or is_text(inner) or is_bytes(inner):
        return Given(value, value)
    if pa.types.is_floating(inner):
        return Given(float(value), float(value))
    if not is_temporal(inner):
        if isinstance(value, float):  # of a pool that is shared with a column of floats: 0.1 means a tenth
            return Given(value, Fraction(decimal.Decimal(repr(value))) if math.isfinite(value) else value)
        exact = Fraction(value)
        if exact.denominator == 1:
            return Given(int(exact), exact)
        with decimal.localcontext(prec=100):
            return Given(decimal.Decimal(exact.numerator) / decimal.Decimal(exact.denominator), exact)
    nanos = int(value)
    if pa.types.is_duration(inner):
        return length(rng, Fraction(nanos), temporal=True)
    if pa.types.is_date(inner):
        days = nanos // DAY
        days = max(min(days, 2_000_000), -700_000)
        date = dt.date(1970, 1, 1) + dt.timedelta(days=days)
        return Given(rng.choice([date, date.isoformat()]), days * DAY)
    if pa.types.is_time(inner):
        nanos %= DAY
        micros, seconds = nanos // 1000 % 10**6, nanos // 10**9
        time = dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
        return Given(time, nanos // 1000 * 1000)
    nanos = max(min(nanos, 2**62), -(2**62))
    stamp = pd.Timestamp(nanos, unit="ns", tz=None if inner.tz is None else "UTC")
    text = stamp.isoformat()
    cut = nanos // 1000 * 1000
    moment = dt.datetime(1970, 1, 1, tzinfo=None if inner.tz is None else dt.UTC) + dt.timedelta(
        microseconds=nanos // 1000
    )
    return rng.choice([Given(stamp, nanos), Given(text, nanos), Given(moment, cut)])
