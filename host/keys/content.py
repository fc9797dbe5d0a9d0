"""What tells whether the rows of a batch that comes again are those that came before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.arrow_versions import LIST_VIEW_ARRAYS
from muntin.host.errors import ReplayError
from muntin.host.sides import SIDES

_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_MULTIPLIER, -1, 1 << 64)
_NULL = np.uint64(0x632BE59BD9B4E019)
_LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray, *LIST_VIEW_ARRAYS)
_MAX_BYTES = 1 << 26  # of rows that are hashed at a time: text takes many times its bytes


class Content:
    """Rows of both sides, counted and added up: the same for the same rows in any order and in any batches.

    Not a secret hash: it tells accidents, not attacks.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = dict.fromkeys(SIDES, 0)
        self._sums: dict[str, int] = dict.fromkeys(SIDES, 0)

    def add(self, side: str, rows: pa.RecordBatch) -> None:
        """Takes rows of one side."""
        self._counts[side] += rows.num_rows
        self._sums[side] += int(np.sum(row_hashes(rows), dtype=np.uint64))

    @property
    def digest(self) -> dict[str, str]:
        """For each side a text, such as ``"120 rows, 9f3c..."``."""
        return {side: f"{self._counts[side]:,} rows, {self._sums[side] % (1 << 64):016x}" for side in SIDES}

    @classmethod
    def of(cls, left: pa.Table | None, right: pa.Table | None) -> Content:
        """That of two tables."""
        content = cls()
        for side, table in zip(SIDES, (left, right), strict=True):
            for batch in [] if table is None else table.to_batches():
                content.add(side, batch)
        return content


def check_repeat(batch: int, known: dict[str, str] | None, rows: Iterable[tuple[str, pa.RecordBatch]]) -> None:
    """Reads the rows of a batch that comes again to their end.

    Raises
    ------
    ReplayError
        If their content is not what is known of it.
    """
    content = Content()
    for side, part in rows:
        if known is not None:  # else a later batch came meanwhile, or these rows are a part of the batch
            content.add(side, part)
    if known is not None:
        check_same(batch, known, content.digest)


def check_same(batch: int, known: dict[str, str], found: dict[str, str]) -> None:
    """Raises ReplayError where two digests of a batch differ."""
    for side in SIDES:
        if known[side] != found[side]:
            raise other_rows(batch, found[side], known[side], side)


def other_rows(batch: int, found: str, known: str, side: str = "") -> ReplayError:
    """The error of a batch that comes again with other rows."""
    return ReplayError(
        f"batch {batch} comes again with other {side}{' ' if side else ''}rows: {found}; it was joined with {known}. "
        "The input must be the same each time it is read: is a column random, or a source changed?"
    )


def row_hashes(rows: pa.RecordBatch) -> np.ndarray:
    """A number for each row, uint64, shape (n,), that is the same for equal rows."""
    if rows.nbytes > _MAX_BYTES and rows.num_rows > 1:
        half = rows.num_rows // 2
        return np.concatenate([row_hashes(rows.slice(0, half)), row_hashes(rows.slice(half))])
    hashes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        hashes = mixed(hashes * np.uint64(_MULTIPLIER) + _values(column) + np.uint64(1))
    return hashes


def _values(column: pa.Array) -> np.ndarray:
    """A number for each value, uint64, shape (n,)."""
    kind = column.type
    found = np.zeros(len(column), np.uint64)
    if pa.types.is_boolean(kind):
        found = _plain(column.cast(pa.uint8()))
    elif pa.types.is_primitive(kind):
        found = _plain(column.view(f"uint{kind.bit_width}"))
    elif kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        found = _texts(column.cast(pa.large_binary()))
    elif pa.types.is_dictionary(kind):
        found = np.append(_values(column.dictionary), _NULL)[_plain(column.indices)]
    elif pa.types.is_struct(kind):
        for field in column.flatten():
            found = mixed(found * np.uint64(_MULTIPLIER) + _values(field) + np.uint64(1))
    elif pa.types.is_map(kind):
        found = _values(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif isinstance(column, _LISTS):
        values = _values(column.flatten())
        ends = np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy())
        found = np.array([_of_object(own.tolist()) for own in np.split(values, ends[:-1])], np.uint64)[: len(column)]
    elif isinstance(kind, pa.BaseExtensionType):
        found = _values(column.storage)
    elif not pa.types.is_null(kind):
        found = np.array([_of_object(value) for value in column.to_pylist()], np.uint64)
    if column.null_count:
        found = np.where(pc.is_valid(column).to_numpy(zero_copy_only=False), found, _NULL)
    return found


def _plain(column: pa.Array) -> np.ndarray:
    filled = column.fill_null(0) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False).astype(np.uint64)


def _texts(column: pa.LargeBinaryArray) -> np.ndarray:
    """Polynomials of the bytes of texts, and their lengths."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    if not len(ends) or data is None:
        return np.zeros(len(column), np.uint64)
    first = int(ends[0])
    size = int(ends[-1]) - first
    if size > _MAX_BYTES and len(column) == 1:  # the powers of some bytes are those of the first, times one of them
        total = size
        for start in range(0, size, _MAX_BYTES):
            piece = data[first + start : first + min(start + _MAX_BYTES, size)]
            octets = np.frombuffer(piece, np.uint8).astype(np.uint64) + np.uint64(1)
            own = int(np.sum(octets * _powers(_MULTIPLIER, len(octets)), dtype=np.uint64))
            total += own * pow(_MULTIPLIER, start, 1 << 64)
        return np.array([total % (1 << 64)], np.uint64)
    octets = np.frombuffer(data, np.uint8)[first : first + size].astype(np.uint64) + np.uint64(1)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(octets * _powers(_MULTIPLIER, size), dtype=np.uint64)])
    at = ends - first
    back = _powers(_INVERSE, size + 1)[at[:-1]]
    return (sums[at[1:]] - sums[at[:-1]]) * back + np.diff(at).astype(np.uint64)


def _powers(base: int, count: int) -> np.ndarray:
    """Powers of a number from 0 on, modulo 2**64."""
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.multiply.accumulate(powers)


def _of_object(value: Any) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


def mixed(values: np.ndarray) -> np.ndarray:
    """Numbers, uint64, whose bits all depend on all bits of a value (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
