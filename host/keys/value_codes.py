"""Codes for values of any type with equality: small integers, the same for equal values of both sides."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.arrow_versions import is_binary_view, is_string_view
from muntin.host.errors import CapacityError, KeyTypeError
from muntin.host.keys.key_type import Family, KeyType, decode_float, encode_float, key_types, of_column
from muntin.host.sides import SIDES, Side, Sides

MAX_CODES = 1 << 29  # of values that the windows hold at a time
_APART = {side: object() for side in SIDES}  # stands for NaN
_MIN_SWEEP = 1 << 10  # codes in use before any are looked for that no row has


class ValueCodes:
    """One code for the values of several columns together, equal exactly where every column is equal.

    Codes are dense. One that no row of the windows has any more is given back, so there are never many more of them
    than values in the windows.

    Parameters
    ----------
    columns : sequence of (left type, left name, right type, right name, null_safe)
        The columns that are compared, pair by pair. With `null_safe` NULL equals NULL, else it equals nothing. NaN
        equals nothing.
    apart : bool
        NaN has a code too, on each side one that the other side never has.

    Raises
    ------
    KeyTypeError
        If the types of a pair have no common equality.
    """

    def __init__(self, columns: Sequence[tuple[pa.DataType, str, pa.DataType, str, bool]], *, apart: bool = False):
        self._apart = apart
        self._columns = [(_leaves(a, an, b, bn), null_safe) for a, an, b, bn, null_safe in columns]
        self._codes: dict[Hashable, int] = {}
        self._values: list[Hashable] = []  # by code
        self._free: list[int] = []
        self._last = {side: np.full(_MIN_SWEEP, -1, np.int64) for side in SIDES}  # newest row that has a code
        self._sweep_at = _MIN_SWEEP

    def __len__(self) -> int:
        """Codes in use."""
        return len(self._codes)

    def encode(
        self, side: Side, columns: Sequence[pa.ChunkedArray], rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The code of each row.

        Parameters
        ----------
        side : str
        columns : sequence of pyarrow.ChunkedArray
            One for each pair, n values each.
        rows : ndarray of int64, shape (n,)
            Their arrival numbers, ascending.

        Returns
        -------
        codes : ndarray of int64, shape (n,)
            0 where there is none.
        valid : ndarray of bool, shape (n,), or None
            Which rows have one; None for all.

        Raises
        ------
        CapacityError
            If there are more than 2**29 different values.
        """
        words: list[np.ndarray] = []  # of each leaf: integers that stand for its values within this batch
        values: list[_Words] = []
        valid = nan = None
        for (leaves, null_safe), column in zip(self._columns, columns, strict=True):
            for leaf in leaves:
                found = leaf.words(side, column)
                if not null_safe and found.null is not None:
                    valid = ~found.null if valid is None else valid & ~found.null
                elif found.null is not None:
                    words.append(found.null.astype(np.int64))
                    found.words = np.where(found.null, 0, found.words)
                    found.null_at = len(words) - 1
                if found.nan is not None:
                    valid = ~found.nan if valid is None else valid & ~found.nan
                    nan = found.nan if nan is None else nan | found.nan
                words.append(found.words)
                found.at = len(words) - 1
                values.append(found)
        every = rows
        if valid is not None:
            if valid.all():
                valid = None
            else:
                words, rows = [each[valid] for each in words], rows[valid]
        which, unique = _distinct(words)
        names = [each.values(unique) for each in values]
        codes = self._codes_of(names[0] if len(names) == 1 else list(zip(*names, strict=True)))[which]
        self._last[side][codes] = rows  # they ascend, and of several with one code the last is kept
        if valid is None:
            return codes, None
        spread = np.zeros(len(valid), np.int64)
        spread[valid] = codes
        if nan is not None and self._apart:
            code = self._codes_of([_APART[side]])[0]
            spread[nan] = code
            self._last[side][code] = every[nan][-1]
            valid = valid | nan
        return spread, valid

    def _codes_of(self, values: Sequence[Hashable]) -> np.ndarray:
        known = self._codes
        codes = np.fromiter((known.get(value, -1) for value in values), np.int64, len(values))
        for at in np.flatnonzero(codes < 0).tolist():
            value = values[at]
            if self._free:
                code = self._free.pop()
                self._values[code] = value
            else:
                code = len(self._values)
                if code == MAX_CODES:
                    raise CapacityError(
                        f"the windows would hold more than {MAX_CODES:,} different values of the columns compared for "
                        "equality: use smaller windows",
                        MAX_CODES + 1,
                        MAX_CODES,
                    )
                self._values.append(value)
            known[value] = codes[at] = code
        if len(self._values) > len(self._last["left"]):
            for side in SIDES:
                grown = np.full(2 * len(self._values), -1, np.int64)
                grown[: len(self._last[side])] = self._last[side]
                self._last[side] = grown
        return codes

    def forget(self, oldest: Sides[int]) -> None:
        """Gives back the codes that no row from these arrival numbers on has, once they may be half of all."""
        if len(self._codes) < self._sweep_at:
            return
        used = np.fromiter(self._codes.values(), np.int64, len(self._codes))
        gone = used[(self._last["left"][used] < oldest["left"]) & (self._last["right"][used] < oldest["right"])]
        self._give_back(gone)
        self._sweep_at = max(_MIN_SWEEP, 2 * len(self._codes))

    def keep(self, codes: np.ndarray) -> None:
        """Gives back all codes but these, int64."""
        kept = np.zeros(len(self._values), np.bool_)
        kept[codes] = True
        used = np.fromiter(self._codes.values(), np.int64, len(self._codes))
        self._give_back(used[~kept[used]])

    def _give_back(self, codes: np.ndarray) -> None:
        for code in codes.tolist():
            del self._codes[self._values[code]]
            self._values[code] = None
        self._free += codes.tolist()


class _Words:
    """The values of one leaf in one batch.

    Attributes
    ----------
    words : ndarray of int64, shape (n,)
        Alike where the values are; anything where there is no value.
    null, nan : ndarray of bool, shape (n,), or None
        Which rows are NULL, and which NaN; None: none.
    at, null_at : int
        Which of the batch's words these are, and which say where they are NULL; -1: none do.
    """

    def __init__(self, words: np.ndarray, null: np.ndarray | None, nan: np.ndarray | None = None):
        self.words, self.null, self.nan = words, null, nan
        self.at = self.null_at = -1

    def of(self, words: np.ndarray) -> list[Hashable]:
        """The values that words of this batch stand for, equal for both sides and all batches."""
        return words.tolist()

    def values(self, unique: list[np.ndarray]) -> list[Hashable]:
        """The same with None for NULL, from all words of distinct rows."""
        found = self.of(unique[self.at])
        if self.null_at < 0:
            return found
        return [None if null else value for value, null in zip(found, unique[self.null_at].tolist(), strict=True)]


class _Numbers(_Words):
    """Integers of an offset and a unit, as exact Python integers in the finer unit of both sides."""

    offset, times = 0, 1

    def of(self, words: np.ndarray) -> list[Hashable]:
        if (self.offset, self.times) == (0, 1):
            return words.tolist()
        return [(word + self.offset) * self.times for word in words.tolist()]


class _Listed(_Words):
    """Values by their place in the batch's own dictionary."""

    dictionary: list[Hashable]

    def of(self, words: np.ndarray) -> list[Hashable]:
        return [self.dictionary[word] for word in words.tolist()] if self.dictionary else [None] * len(words)


class _NumberLeaf:
    """A column, or a field of a struct, of a type that encodes to 64 bits."""

    def __init__(self, path: Sides[list[int]], kinds: Sides[KeyType], names: Sides[str]):
        self._path, self._kinds, self._names = path, kinds, names
        self._unit = min(kind.unit for kind in kinds.values())

    def words(self, side: Side, column: pa.ChunkedArray) -> _Words:
        column, kind = comparable_values(_field(column, self._path[side])), self._kinds[side]
        with of_column(self._names[side], side):
            keys, valid = kind.encode(column)
        null = pc.is_null(column).to_numpy() if column.null_count else None
        if kind.family is Family.FLOAT:
            nan = None if valid is None else ~valid if null is None else ~valid & ~null
            codes = encode_float(decode_float(keys).astype(np.float64))
            return _Words(codes, null, nan if nan is not None and nan.any() else None)
        found = _Numbers(keys.astype(np.int64, copy=False), null)
        found.offset, found.times = kind.offset, int(kind.unit / self._unit)
        return found


class _ValueLeaf:
    """A column, or a field of a struct, of text, bytes or truth values."""

    def __init__(self, path: Sides[list[int]]):
        self._path = path

    def words(self, side: Side, column: pa.ChunkedArray) -> _Words:
        column = comparable_values(_field(column, self._path[side]))
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        null = pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None
        coded = array.dictionary_encode()
        found = _Listed(coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), null)
        found.dictionary = coded.dictionary.to_pylist()
        return found


class _PresenceLeaf:
    """Whether a struct is there."""

    def __init__(self, path: Sides[list[int]]):
        self._path = path

    def words(self, side: Side, column: pa.ChunkedArray) -> _Words:
        column = _field(column, self._path[side])
        null = pc.is_null(column).to_numpy() if column.null_count else None
        return _Words(np.zeros(len(column), np.int64), null)


def _leaves(
    left: pa.DataType, left_name: str, right: pa.DataType, right_name: str, path: Sides[list[int]] | None = None
) -> list[_NumberLeaf | _ValueLeaf | _PresenceLeaf]:
    """The plain columns that two columns are compared by: themselves, or the fields of structs, in order."""
    path = {side: [] for side in SIDES} if path is None else path
    kinds = [comparable_type(left), comparable_type(right)]
    if any(map(pa.types.is_null, kinds)):  # it holds no value of the other's type
        kinds = [kinds[1] if pa.types.is_null(kinds[0]) else kinds[0]] * 2
    if all(pa.types.is_struct(kind) for kind in kinds):
        if kinds[0].num_fields != kinds[1].num_fields:
            raise KeyTypeError(
                f"column {left_name!r} has {kinds[0].num_fields} fields and column {right_name!r} has "
                f"{kinds[1].num_fields}: compare the fields that both have, one by one"
            )
        found: list[_NumberLeaf | _ValueLeaf | _PresenceLeaf] = [_PresenceLeaf(path)]
        for at in range(kinds[0].num_fields):
            a, b = kinds[0].field(at), kinds[1].field(at)
            below = {side: [*steps, at] for side, steps in path.items()}
            found += _leaves(a.type, f"{left_name}.{a.name}", b.type, f"{right_name}.{b.name}", below)
        return found
    if _is_listed(kinds[0]) and kinds[0] == kinds[1]:
        return [_ValueLeaf(path)]
    for kind, name in ((kinds[0], left_name), (kinds[1], right_name)):
        if _is_listed(kind) or pa.types.is_struct(kind):
            raise KeyTypeError(
                f"column {left_name!r} of type {left} and column {right_name!r} of type {right} cannot be compared: "
                f"cast {name!r}"
            )
    kinds_of = dict(zip(SIDES, key_types(kinds[0], left_name, kinds[1], right_name), strict=True))
    return [_NumberLeaf(path, kinds_of, {"left": left_name, "right": right_name})]


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """A type of the same values whose arrays can be dictionary-encoded, alike for all types of text and of bytes."""
    types = pa.types
    if types.is_dictionary(kind):
        return comparable_type(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind) or is_binary_view(kind):
        return pa.large_binary()
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return pa.large_binary()
    return kind


def comparable_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as the type that `comparable_type` gives for its own."""
    while pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    plain = comparable_type(column.type)
    return column if column.type == plain else column.cast(plain)


def _is_listed(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind) or kind in (pa.large_string(), pa.large_binary())


def has_codes(kind: pa.DataType) -> bool:
    """Whether values of a type are compared by their codes alone: text, bytes, truth values and structs."""
    plain = comparable_type(kind)
    return _is_listed(plain) or pa.types.is_struct(plain)


def _field(column: pa.ChunkedArray, path: list[int]) -> pa.ChunkedArray:
    """A field of a struct, NULL where the struct is; without a path the column itself, and one of type null as well."""
    for at in path:
        if pa.types.is_null(column.type):
            return column
        column = pa.chunked_array([pc.struct_field(chunk, [at]) for chunk in column.chunks], column.type.field(at).type)
    return column


def _distinct(words: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Distinct rows of several columns of int64: which one each row is, and their words by column."""
    if len(words) == 1:
        coded = pa.array(words[0]).dictionary_encode()
        return coded.indices.to_numpy(), [coded.dictionary.to_numpy()]
    rows = np.stack(words, axis=1)
    kind = pa.binary(8 * len(words))
    array = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
    coded = array.dictionary_encode()
    buffer = coded.dictionary.buffers()[1]
    unique = np.frombuffer(buffer, np.int64)[: len(coded.dictionary) * len(words)] if buffer is not None else rows[:0]
    unique = unique.reshape(-1, len(words))
    return coded.indices.to_numpy(), [unique[:, at] for at in range(len(words))]
