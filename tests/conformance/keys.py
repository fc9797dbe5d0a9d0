"""Key types of the contract, and streams of hard keys for each."""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

SHAPES = ("random", "equal", "extremes", "nulls", "rising", "mixed")


@dataclass(frozen=True)
class KeyCase:
    """A pair of key types and the step ("tick") in which test keys and bounds are laid out.

    Parameters
    ----------
    name
        For test names.
    left, right
        Arrow types of the two key columns.
    unit
        One tick as a bound of a `Band`.
    scales
        One tick in each column's own storage unit. Where it is more than 1, keys also fall between ticks.
    """

    name: str
    left: pa.DataType
    right: pa.DataType
    unit: object
    scales: tuple[float, float] = (1, 1)

    @property
    def bits(self) -> int:
        """Bits of the wider key, encoded: a decimal counts as the integer that holds its digits."""
        return max(
            (64 if kind.precision > 9 else 32) if pa.types.is_decimal(kind) else kind.bit_width
            for kind in (self.left, self.right)
        )

    @property
    def floating(self) -> bool:
        return pa.types.is_floating(self.left) or pa.types.is_floating(self.right)

    def bound(self, ticks: int | None) -> object:
        """A distance in ticks as a user writes it; None stays open."""
        return None if ticks is None else ticks * self.unit

    def keys(self, side: str, shape: str, count: int, rng: np.random.Generator) -> pa.Array:
        """`count` keys of one side."""
        kind, scale = (self.left, self.scales[0]) if side == "left" else (self.right, self.scales[1])
        unsigned = pa.types.is_unsigned_integer(self.left) or pa.types.is_unsigned_integer(self.right)
        base = 0 if unsigned else -20
        if shape == "equal":
            ticks = np.full(count, 7)
        elif shape == "rising":
            ticks = np.sort(rng.integers(base, base + 41, count))
        else:
            ticks = rng.integers(base, base + 41, count)
        if pa.types.is_floating(kind):
            values = [float(t) * scale for t in ticks]
        else:
            # Keys between the ticks of the coarser side: a unit conversion that rounds is found out.
            between = rng.integers(0, scale, count) if scale > 1 and shape == "random" else np.zeros(count, int)
            step = 86_400_000 if kind == pa.date64() else 1
            values = [(int(t) * int(scale) + int(b)) * step for t, b in zip(ticks, between, strict=True)]
        hard = {"extremes": 1.0, "mixed": 0.3}.get(shape, 0.0)
        special = extremes(kind)
        nulls = {"nulls": 0.3, "mixed": 0.1}.get(shape, 0.0)
        for row in range(count):
            if rng.random() < hard:
                values[row] = special[rng.integers(len(special))]
            if rng.random() < nulls:
                values[row] = None if not pa.types.is_floating(kind) or rng.random() < 0.5 else math.nan
        return from_storage(values, kind)


def extremes(kind: pa.DataType) -> list:
    """Values at the ends of a type, in its storage unit."""
    if pa.types.is_floating(kind):
        info = np.finfo(kind.to_pandas_dtype())
        values = [0.0, 1.0, math.inf, float(info.max), float(info.max) / 2, float(info.tiny)]
        values += [float(info.smallest_subnormal), 2.0**53]
        return [sign * v for v in values for sign in (1, -1)] + [math.nan]
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        return [top, top - 1, 1, 0, -1, 1 - top, -top]
    if kind == pa.date64():
        # Whole days only: Arrow lets date64 hold nothing else.
        top = (2**63 - 1) // 86_400_000
        return [days * 86_400_000 for days in (top, top - 1, 1, 0, -1, -top)]
    if pa.types.is_unsigned_integer(kind):
        top = 2**kind.bit_width - 1
        return [top, top - 1, top // 2, top // 2 + 1, 1, 0]
    top = 2 ** (kind.bit_width - 1) - 1
    return [top, top - 1, top - 4, 1, 0, -1, 3 - top, -top, -top - 1]


def from_storage(values: list, kind: pa.DataType) -> pa.Array:
    """An array of `kind` from numbers in its storage unit, None for NULL."""
    if pa.types.is_decimal(kind):
        # Scale by text: Decimal arithmetic would round to the context's precision.
        return pa.array([None if v is None else Decimal(f"{v}e{-kind.scale}") for v in values], kind)
    if pa.types.is_floating(kind):
        mask = np.array([v is None for v in values], bool)
        plain = np.array([0.0 if v is None else v for v in values], kind.to_pandas_dtype())
        return pa.array(plain, kind, mask=mask)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


def _integers() -> list[KeyCase]:
    names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    cases = [KeyCase(n, getattr(pa, n)(), getattr(pa, n)(), 1) for n in names]
    mixed = [
        ("int8", "uint8"),
        ("int16", "int32"),
        ("int32", "int64"),
        ("int64", "int32"),
        ("uint32", "int64"),
        ("int32", "uint32"),
        ("uint64", "int64"),
        ("int64", "uint64"),
        ("uint64", "int8"),
    ]
    return cases + [KeyCase(f"{a}-{b}", getattr(pa, a)(), getattr(pa, b)(), 1) for a, b in mixed]


def _floats() -> list[KeyCase]:
    f32, f64 = pa.float32(), pa.float64()
    return [
        KeyCase("float32", f32, f32, 0.1, (0.1, 0.1)),
        KeyCase("float64", f64, f64, 0.1, (0.1, 0.1)),
        KeyCase("float64-halves", f64, f64, 0.5, (0.5, 0.5)),
        KeyCase("float32-float64", f32, f64, 0.1, (0.1, 0.1)),
        KeyCase("float64-float32", f64, f32, 0.25, (0.25, 0.25)),
        KeyCase("int32-float64", pa.int32(), f64, 1, (1, 1.0)),
        KeyCase("float64-uint32", f64, pa.uint32(), 1.0, (1.0, 1)),
        KeyCase("int16-float32", pa.int16(), f32, 0.5, (1, 0.5)),
    ]


def _temporals() -> list[KeyCase]:
    second, milli, micro = dt.timedelta(seconds=1), dt.timedelta(milliseconds=1), dt.timedelta(microseconds=1)
    s, ms, us, ns = (pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))
    return [
        KeyCase("date32", pa.date32(), pa.date32(), dt.timedelta(days=1)),
        KeyCase("date64", pa.date64(), pa.date64(), dt.timedelta(days=1)),
        KeyCase("timestamp-s", s, s, second),
        KeyCase("timestamp-ms", ms, ms, milli),
        KeyCase("timestamp-us", us, us, micro),
        KeyCase("timestamp-ns", ns, ns, micro, (1000, 1000)),
        KeyCase("timestamp-us-utc", pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), micro),
        KeyCase("timestamp-us-zones", pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), micro),
        KeyCase("timestamp-ms-fine", ms, ms, second, (1000, 1000)),
    ]


def _decimals() -> list[KeyCase]:
    decimal = pa.decimal128
    return [
        KeyCase("decimal-9-2", decimal(9, 2), decimal(9, 2), Decimal("0.01")),
        KeyCase("decimal-18-0", decimal(18, 0), decimal(18, 0), Decimal(1)),
        KeyCase("decimal-18-6", decimal(18, 6), decimal(18, 6), Decimal("0.000001")),
        KeyCase("decimal-scales", decimal(10, 2), decimal(12, 4), Decimal("0.01"), (1, 100)),
        KeyCase("decimal-scales-back", decimal(14, 5), decimal(8, 1), Decimal("0.1"), (10_000, 1)),
    ]


KEYS = _integers() + _floats() + _temporals() + _decimals()

# Pairs of types whose common unit has values beyond 64 bits: exact where a device carries them out, else
# refused by type or by value, but never rounded or wrapped.
WIDE_KEYS = [
    KeyCase("timestamp-s-ns", pa.timestamp("s"), pa.timestamp("ns"), dt.timedelta(seconds=1), (1, 10**9)),
    KeyCase("timestamp-ms-us", pa.timestamp("ms"), pa.timestamp("us"), dt.timedelta(milliseconds=1), (1, 1000)),
    KeyCase("timestamp-us-s", pa.timestamp("us"), pa.timestamp("s"), dt.timedelta(seconds=1), (10**6, 1)),
    KeyCase("date32-timestamp", pa.date32(), pa.timestamp("us"), dt.timedelta(days=1), (1, 86_400 * 10**6)),
    KeyCase("decimal-18-2-18-4", pa.decimal128(18, 2), pa.decimal128(18, 4), Decimal("0.01"), (1, 100)),
    KeyCase("decimal-int64", pa.decimal128(18, 2), pa.int64(), Decimal(1), (100, 1)),
]
