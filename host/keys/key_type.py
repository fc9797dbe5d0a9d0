"""Join keys as the device sees them: 32- or 64-bit integers in the order of the values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.errors import KeyTypeError
from muntin.host.sides import Side

NANOS_PER = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NANOS_PER_DAY = 86_400 * 1_000_000_000


LONG = np.dtype({"names": ["high", "low"], "formats": [np.int64, np.uint64], "offsets": [8, 0], "itemsize": 16})
"""Keys of 128 bits, the lower half first."""


class Family(enum.Enum):
    """Types of one family can be compared with one another, exactly."""

    NUMBER = "number"
    FLOAT = "floating-point number"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp with time zone"
    DURATION = "duration"
    TIME = "time of day"
    NONE = "NULL"


@dataclasses.dataclass(frozen=True)
class KeyType:
    """How the values of one column become device keys.

    The encoding keeps the order and is exact for every value. For the integer families a value is
    ``(encoded + offset) * unit``, in the family's own unit (1, days or nanoseconds).

    Attributes
    ----------
    arrow : pyarrow.DataType
        The column's type.
    family : Family
    bits : int
        Width of the encoded key: 32 or 64; 128 of keys that the host makes itself.
    minimum, maximum : int
        The encoded domain of the type, both ends included.
    offset : int
    unit : Fraction
    negated : bool
        Keys encode the negated values, for sums.
    """

    arrow: pa.DataType
    family: Family
    bits: int
    minimum: int
    maximum: int
    offset: int = 0
    unit: Fraction = Fraction(1)
    negated: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the encoded keys: int32, int64 or `LONG`."""
        return LONG if self.bits == 128 else np.dtype(np.int32 if self.bits == 32 else np.int64)

    @property
    def zero(self) -> int:
        """The key of the value 0."""
        return int(encode_float(np.zeros(1))[0]) if self.family is Family.FLOAT else -self.offset

    def encode(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """Encodes a column.

        Parameters
        ----------
        column : pyarrow.ChunkedArray
            Of this type, or of type null, n values.

        Returns
        -------
        keys : ndarray, shape (n,), dtype `self.dtype`
            Undefined where there is no value.
        valid : ndarray of bool, shape (n,), or None
            False for NULL and NaN; None where every row has a value.
        """
        keys, valid = self._encode(column)
        return (~keys if self.negated else keys), valid

    def turned(self) -> KeyType:
        """The same of an integer family with ``-value`` for each value, exactly."""
        # ~key is -key - 1, so -value is (~key + 1 - offset) * unit.
        return dataclasses.replace(
            self,
            minimum=~self.maximum,
            maximum=~self.minimum,
            offset=1 - self.offset,
            negated=not self.negated,
        )

    def _encode(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        if pa.types.is_null(column.type):
            return np.zeros(len(column), self.dtype), np.zeros(len(column), np.bool_)
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
        valid = None
        if array.null_count:
            valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        raw = _raw_values(array)
        if self.family is Family.FLOAT:
            raw = raw.astype(np.float64 if self.bits == 64 else np.float32, copy=False)
            nan = np.isnan(raw)
            if nan.any():
                valid = ~nan if valid is None else valid & ~nan
            return encode_float(raw), valid
        if pa.types.is_decimal(array.type):
            return self._encode_decimal(array, raw, valid)
        if pa.types.is_date64(array.type):
            raw = raw // 86_400_000
        if raw.dtype == np.uint64:
            return (raw ^ np.uint64(1 << 63)).view(np.int64), valid
        offset = 1 - self.offset if self.negated else self.offset
        if offset:
            return (raw.astype(np.int64) - offset).astype(self.dtype), valid
        return raw.astype(self.dtype, copy=False), valid

    def _encode_decimal(
        self, array: pa.Array, words: np.ndarray, valid: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        low = np.ascontiguousarray(words[:, 0]).view(np.int64)
        # The upper words of a value that fits 64 bits are copies of its sign.
        wrong = (words[:, 1:].view(np.int64) != (low >> 63)[:, None]).any(axis=1)
        if valid is not None:
            wrong &= valid
        if wrong.any():
            raise KeyTypeError(
                f"a key of type {self.arrow} does not fit 64 bits, {array[int(np.argmax(wrong))]}: "
                "cast the column to fewer digits"
            ).of_rows(None, np.flatnonzero(wrong))
        return low, valid


@contextmanager
def of_column(name: str, side: Side) -> Iterator[None]:
    """Has a KeyTypeError of values in here name their column and side."""
    try:
        yield
    except KeyTypeError as error:
        raise KeyTypeError(f"column {name!r} of the {side} side: {error}").of_rows(side, error.rows, name) from error


def _raw_values(array: pa.Array) -> np.ndarray:
    """The value buffer of a fixed-width array, its offset applied; wide decimals as rows of uint64 words."""
    kind = array.type
    n, start = len(array), array.offset
    buffer = array.buffers()[1] if n else None
    if pa.types.is_decimal(kind):
        words = kind.byte_width // 8
        if kind.byte_width < 8:  # decimal32
            small = np.zeros(0, np.int32) if buffer is None else np.frombuffer(buffer, np.int32)[start : start + n]
            return small.astype(np.int64).view(np.uint64).reshape(n, 1)
        if buffer is None:
            return np.zeros((0, words), np.uint64)
        return np.frombuffer(buffer, np.uint64)[start * words : (start + n) * words].reshape(n, words)
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        dtype = np.dtype(f"f{width}")
    elif pa.types.is_unsigned_integer(kind):
        dtype = np.dtype(f"u{width}")
    else:
        dtype = np.dtype(f"i{width}")
    if buffer is None:
        return np.zeros(0, dtype)
    return np.frombuffer(buffer, dtype)[start : start + n]


def key_type(arrow: pa.DataType, column: str) -> KeyType:
    """The encoding of a column's type.

    Raises
    ------
    KeyTypeError
        If values of the type cannot be join keys.
    """
    types = pa.types
    if types.is_integer(arrow):
        bits = arrow.bit_width
        if types.is_signed_integer(arrow):
            return KeyType(arrow, Family.NUMBER, 32 if bits <= 32 else 64, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if bits < 32:
            return KeyType(arrow, Family.NUMBER, 32, 0, (1 << bits) - 1)
        half = 1 << (bits - 1)
        return KeyType(arrow, Family.NUMBER, bits, -half, half - 1, offset=half)
    if types.is_floating(arrow):
        bits = 64 if arrow.bit_width == 64 else 32
        top = int(encode_float(np.array([np.inf], f"f{bits // 8}"))[0])
        return KeyType(arrow, Family.FLOAT, bits, -top - 1, top)
    full = {32: (-(1 << 31), (1 << 31) - 1), 64: (-(1 << 63), (1 << 63) - 1)}
    if types.is_date(arrow):
        bits = arrow.bit_width
        return KeyType(arrow, Family.DATE, bits, *full[bits])
    if types.is_timestamp(arrow):
        family = Family.TIMESTAMP if arrow.tz is None else Family.TIMESTAMP_TZ
        return KeyType(arrow, family, 64, *full[64], unit=Fraction(NANOS_PER[arrow.unit]))
    if types.is_duration(arrow):
        return KeyType(arrow, Family.DURATION, 64, *full[64], unit=Fraction(NANOS_PER[arrow.unit]))
    if types.is_time(arrow):
        return KeyType(
            arrow, Family.TIME, arrow.bit_width, *full[arrow.bit_width], unit=Fraction(NANOS_PER[arrow.unit])
        )
    if types.is_decimal(arrow):
        return KeyType(arrow, Family.NUMBER, 64, *full[64], unit=Fraction(10) ** -arrow.scale)
    if types.is_null(arrow):
        return KeyType(arrow, Family.NONE, 32, *full[32])
    raise KeyTypeError(
        f"column {column!r} has type {arrow}, which cannot be a key: use integers, floats, dates, timestamps, "
        "or decimals that fit 64 bits"
    )


def key_types(left: pa.DataType, left_name: str, right: pa.DataType, right_name: str) -> tuple[KeyType, KeyType]:
    """The encodings of the two columns of one predicate.

    An integer of at most 32 bits meets a float as float64, which holds it exactly; a wider one is refused. A date meets
    a timestamp without a time zone as its midnight. A column of type null holds no value of the other's type.

    Raises
    ------
    KeyTypeError
        If the two cannot be compared exactly.
    """
    a, b = key_type(left, left_name), key_type(right, right_name)
    if a.family is b.family:
        return a, b
    pair = {a.family, b.family}
    if Family.NONE in pair:
        known = b if a.family is Family.NONE else a
        return known, known
    if pair == {Family.NUMBER, Family.FLOAT}:
        return _as_float(a, left_name, right_name), _as_float(b, right_name, left_name)
    if pair == {Family.DATE, Family.TIMESTAMP}:
        return _as_timestamp(a), _as_timestamp(b)
    zone = ": a date has no time zone" if pair == {Family.DATE, Family.TIMESTAMP_TZ} else ""
    raise KeyTypeError(
        f"column {left_name!r} of type {left} and column {right_name!r} of type {right} cannot be compared exactly"
        f"{zone}: cast one of them"
    )


def _as_timestamp(kind: KeyType) -> KeyType:
    """A date as its midnight."""
    if kind.family is Family.TIMESTAMP:
        return kind
    return dataclasses.replace(kind, family=Family.TIMESTAMP, unit=kind.unit * NANOS_PER_DAY)


def _as_float(kind: KeyType, name: str, other: str) -> KeyType:
    if kind.family is Family.FLOAT:
        return kind
    if kind.arrow.bit_width > 32 or pa.types.is_decimal(kind.arrow):
        raise KeyTypeError(
            f"column {name!r} of type {kind.arrow} would be rounded to meet the floating-point column {other!r}: "
            "cast one of them so that both are integers or both are double"
        )
    top = int(encode_float(np.array([np.inf]))[0])
    return KeyType(kind.arrow, Family.FLOAT, 64, -top - 1, top)


__all__ = ["Family", "KeyType", "decode_float", "encode_float", "key_type", "key_types"]


def encode_float(values: np.ndarray) -> np.ndarray:
    """Order-preserving integers: float32 to int32, float64 to int64, shape kept; -0.0 and 0.0 get one code.

    NaN has no place in the order; its code is meaningless.
    """
    integers = np.int32 if values.dtype == np.float32 else np.int64
    bits = (values + values.dtype.type(0)).view(integers)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> (bits.itemsize * 8 - 1)) & np.iinfo(integers).max)


def decode_float(codes: np.ndarray) -> np.ndarray:
    """The inverse of `encode_float`; code -1, which no encoded value has, is -0.0."""
    bits = codes ^ ((codes >> (codes.itemsize * 8 - 1)) & np.iinfo(codes.dtype).max)
    return bits.view(np.float32 if codes.dtype == np.int32 else np.float64)
