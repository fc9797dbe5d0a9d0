"""Values of columns as the core folds them, and what it gives, back as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.host.errors import KeyTypeError, ResultTooLargeError
from muntin.host.keys.key_type import decode_float, encode_float

if TYPE_CHECKING:
    from muntin.host.call import Batch

_INT64 = np.iinfo(np.int64)
_LIMB_DIGITS = 18  # decimals of so many digits fit 64 bits
MAX_DIGITS = 38
_SUM_DIGITS = 10  # that sums of decimals have more than these: 10**10 rows of the greatest value fit
_WORD = (1 << 64) - 1
_LIST_ROWS = 1 << 24  # values of lists that are made at a time
_NO_ROW = np.array([-1, _INT64.max, _INT64.max])  # of what the core ranks

#: What is kept of a row, by the core's operation for it.
CORE = {
    "some": "some", "sum": "sum", "upper": "sum", "lower": "sum", "add": "add", "min": "least", "max": "least",
    "min_wide": "least_wide", "max_wide": "least_wide", "moments": "moments", "first": "least_row",
    "last": "least_row", "arg_min": "least_row", "arg_max": "least_row", "each": "each", "each_value": "each",
    "upper_product": "sum", "lower_product": "sum", "upper_weight": "sum", "lower_weight": "sum", "product": "add",
    "weight": "add",
}  # fmt: skip

EXACT_PRODUCT = ("upper_product", "lower_product", "upper_weight", "lower_weight")
PRODUCT = ("product", "weight")


@dataclasses.dataclass(frozen=True)
class Column:
    """Values of a column, as `_raw_values` gives them."""

    kind: pa.DataType
    raw: np.ndarray

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Integers and decimals: the lower and upper 64 bits, int64."""
        raw = self.raw
        if raw.ndim == 1:
            low = raw.astype(np.uint64 if pa.types.is_uint64(self.kind) else np.int64).view(np.int64)
            return low, np.zeros_like(low) if pa.types.is_uint64(self.kind) else low >> 63
        low = np.ascontiguousarray(raw[:, 0]).view(np.int64)
        return low, low >> 63 if raw.shape[1] == 1 else np.ascontiguousarray(raw[:, 1]).view(np.int64)

    def numbers(self) -> np.ndarray:
        """Float64; of decimals as if they had no places behind the point."""
        if pa.types.is_decimal(self.kind):
            low, high = self.words()
            return float_of(low, high)
        return self.raw.astype(np.float64)

    def codes(self, valid: np.ndarray) -> np.ndarray:
        """Int64 in the order of the values; those of decimals of more than 18 digits do not fit it.

        Raises
        ------
        KeyTypeError
            If a valid decimal has more digits than its type says.
        """
        if pa.types.is_floating(self.kind):
            raw = self.raw.astype(np.float64)
            return np.where(np.isnan(raw), _INT64.max, encode_float(raw))
        if pa.types.is_decimal(self.kind):
            low, high = self.words()
            if (wrong := (high != low >> 63) & valid).any():
                raise KeyTypeError(
                    f"a value of type {self.kind} has more digits than that: cast the column to more digits"
                ).of_rows(None, np.flatnonzero(wrong))
            return low
        if pa.types.is_uint64(self.kind):
            return (self.raw ^ np.uint64(1 << 63)).view(np.int64)
        return self.raw.astype(np.int64)

    def ordered_words(self, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of any type, the lower and upper 64 bits of numbers in the order of the values. Raises as `codes`."""
        if pa.types.is_decimal(self.kind) and is_wide(self.kind):
            return self.words()
        codes = self.codes(valid)
        return codes, codes >> 63


def is_wide(kind: pa.DataType) -> bool:
    """Whether values of a type take more than 64 bits, signed."""
    return pa.types.is_uint64(kind) or (pa.types.is_decimal(kind) and kind.precision > _LIMB_DIGITS)


def is_exact(kinds: list[pa.DataType]) -> bool:
    """Whether columns are all of integers and decimals."""
    return not any(map(pa.types.is_floating, kinds))


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Of sums of integers and decimals: no sum of values within `sum_limit` is beyond it."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + _SUM_DIGITS, MAX_DIGITS), kind.scale)
    return pa.int64() if kind.bit_width < 64 else pa.decimal128(MAX_DIGITS, 0)


def sum_limit(kind: pa.DataType) -> int:
    """The greatest absolute value of a decimal, its point left out, that is added up."""
    return 10 ** min(kind.precision, MAX_DIGITS - _SUM_DIGITS) - 1


def mean_type(kind: pa.DataType) -> pa.DataType:
    """Of means of decimals, which are never beyond the greatest of the values: four more places, as far as they fit."""
    more = min(4, MAX_DIGITS - kind.precision)
    return pa.decimal128(kind.precision + more, kind.scale + more)


def sum_folds(kind: pa.DataType) -> tuple[str, ...]:
    """What sums of a type are made of."""
    return ("add",) if pa.types.is_floating(kind) else ("upper", "lower") if is_wide(kind) else ("sum",)


def product_fits(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether products of values of two types fit 127 bits."""
    return _greatest(a) * _greatest(b) < 1 << 127


def _greatest(kind: pa.DataType) -> int:
    if pa.types.is_decimal(kind):
        return 10**kind.precision - 1
    if pa.types.is_null(kind):
        return 0
    return (1 << kind.bit_width) - 1 if pa.types.is_unsigned_integer(kind) else 1 << (kind.bit_width - 1)


def encoded(fold: str, columns: list[Column], valid: np.ndarray, batch: Batch) -> np.ndarray:
    """What is kept of some rows, those that do not count such that they change nothing.

    Parameters
    ----------
    fold : str
        Of `CORE`.
    columns : list of Column
        Those that it is of.
    valid : ndarray of bool, shape (n,)
        Which rows count.
    batch : Batch
        The rows.

    Raises
    ------
    KeyTypeError
        If a decimal has more digits than its type says.
    """
    if fold == "some":
        return np.ascontiguousarray(valid).view(np.uint8)
    if CORE[fold] in ("least_row", "each"):
        return _ranked(fold, columns, valid, batch)
    first = columns[0]
    nothing = 0
    if fold in ("min_wide", "max_wide"):
        words = np.stack(first.words(), axis=1)
        return np.where(valid[:, None], ~words if fold == "max_wide" else words, _NO_ROW[:2])
    if fold in ("add", "moments"):
        given = first.numbers()
    elif fold in ("product", "weight"):
        weights = columns[1].numbers() / unit(columns[1].kind)
        with np.errstate(invalid="ignore", over="ignore"):
            given = weights if fold == "weight" else first.numbers() / unit(first.kind) * weights
    elif "_" in fold or fold in ("upper", "lower"):
        part, _, of = fold.partition("_")
        low, high = _product(first, columns[1]) if of == "product" else columns[of == "weight"].words()
        given = low if part == "lower" else high + (low < 0)  # the lower part counts as signed
    else:
        given = first.codes(valid)
        if fold == "max":
            given = ~given
        nothing = _INT64.max if fold in ("min", "max") else 0
    return np.ascontiguousarray(np.where(valid, given, given.dtype.type(nothing)))


def beyond(column: Column, least: int, greatest: int) -> np.ndarray:
    """Which values, of integers and decimals, their point left out, are below or above these: bool, shape (n,)."""
    low, high = column.words()
    below, above = (high < least >> 64), (high > greatest >> 64)
    below |= (high == least >> 64) & (low.view(np.uint64) < np.uint64(least & _WORD))
    above |= (high == greatest >> 64) & (low.view(np.uint64) > np.uint64(greatest & _WORD))
    return below | above


def unit(kind: pa.DataType) -> float:
    return 10.0**kind.scale if pa.types.is_decimal(kind) else 1.0


def _ranked(fold: str, columns: list[Column], valid: np.ndarray, batch: Batch) -> np.ndarray:
    """Rows by time or by a column, then by arrival, as the core ranks them."""
    rows = batch.rows
    if fold != "each" and columns:
        low, high = columns[0].ordered_words(valid)
    else:
        low = np.zeros(len(rows), np.int64) if batch.times is None else batch.times
        high = low >> 63
    if fold in ("arg_max", "last"):
        low, high = ~low, ~high
    words = np.stack([low, high, ~rows if fold == "last" else rows], axis=1)
    return np.where(valid[:, None], words, _NO_ROW)


def chosen_rows(held: np.ndarray, *, last: bool) -> np.ndarray:
    """The arrival numbers of the rows that the core has chosen, -1 where there is none."""
    rows = held.reshape(-1, 3)[:, 2]
    return np.where(rows == _INT64.max, -1, ~rows if last else rows)


def _product(a: Column, b: Column) -> tuple[np.ndarray, np.ndarray]:
    """Products, which fit 127 bits, as their lower and upper 64 bits, int64."""
    (a_low, a_high), (b_low, b_high) = ([word.view(np.uint64) for word in each.words()] for each in (a, b))
    half, shift = np.uint64((1 << 32) - 1), np.uint64(32)
    a0, a1, b0, b1 = a_low & half, a_low >> shift, b_low & half, b_low >> shift
    middle = a0 * b1 + (a0 * b0 >> shift)  # fits: (2**32 - 1)**2 + 2**32 - 1
    cross = a1 * b0 + (middle & half)
    high = a1 * b1 + (middle >> shift) + (cross >> shift) + a_low * b_high + a_high * b_low  # modulo 2**64
    return (a_low * b_low).view(np.int64), high.view(np.int64)


# Results


def sums(out: pa.DataType, held: dict[str, Any]) -> pa.Array:
    """Sums of a column; they fit their type."""
    valid = held["some"] > 0
    if "add" in held:
        return pa.array(held["add"], out, mask=~valid)
    low, high, _ = _totals(held)
    return fixed(out, np.stack([low, high], axis=1) if pa.types.is_decimal(out) else low, valid)


def means(kind: pa.DataType, out: pa.DataType, held: dict[str, Any]) -> pa.Array:
    """Means of a column of a type, weighted where weights are held."""
    some = held["some"]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if "weight" in held:
            return pa.array(held["product"] / held["weight"], out, mask=(some == 0) | (held["weight"] == 0))
        if "add" in held:
            return pa.array(held["add"] / np.maximum(some, 1), out, mask=some == 0)
    weighing, valid = None, some > 0
    if "upper_weight" in held:
        weighing = {"upper": held["upper_weight"], "lower": held["lower_weight"]}
        held = {"upper": held["upper_product"], "lower": held["lower_product"]}
        low, high, fits = _totals(weighing)
        valid &= (low != 0) | (high != 0) | ~fits
    if pa.types.is_decimal(out):
        return _decimal_means(kind, out, held, some if weighing is None else weighing, valid)
    number = some.astype(np.float64) if weighing is None else _float_total(weighing)
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.array(_float_total(held) / number, out, mask=~valid)


def quantiles(q: float, kind: pa.DataType, starts: np.ndarray, words: np.ndarray) -> pa.Array:
    """Quantiles of values, each between two of them, from what the core gives of each place."""
    counts = np.diff(starts)
    place = np.maximum(counts - 1, 0) * q
    below, above = np.floor(place), np.ceil(place)
    low, high = words.reshape(-1, 3)[:, :2].T if len(words) else np.zeros((2, 1), np.int64)
    near = (np.minimum(starts[:-1] + end.astype(np.int64), len(low) - 1) for end in (below, above))
    a, b = (_ordered_numbers(kind, low[at], high[at]) for at in near)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.where(below == above, a, (above - place) * a + (place - below) * b) / unit(kind)
    return pa.array(found, pa.float64(), mask=counts == 0)


def _ordered_numbers(kind: pa.DataType, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What `Column.ordered_words` made of numbers, as float64; of decimals as `Column.numbers`."""
    if pa.types.is_floating(kind):
        with np.errstate(invalid="ignore"):
            return np.where(low == _INT64.max, np.nan, decode_float(low))
    if pa.types.is_uint64(kind):
        return (low.view(np.uint64) ^ np.uint64(1 << 63)).astype(np.float64)
    return float_of(low, high)


def listed(kind: pa.DataType) -> pa.DataType:
    """The type of the values of lists of a type: its texts and bytes, within structs and lists too, have offsets of 64
    bits, so that no list has more than these number."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(listed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(listed(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(listed(kind.value_type)), kind.list_size)
    return kind


def lists(
    name: str, starts: np.ndarray, rows: np.ndarray, take: Callable[[np.ndarray], pa.ChunkedArray]
) -> pa.ChunkedArray:
    """Lists of the values of rows, of the type that `listed` says, in chunks of which no one has more values, or parts
    of them, than Arrow's offsets number.

    Raises
    ------
    ResultTooLargeError
        If one list has.
    """
    chunks: list[pa.Array] = []
    first, most = 0, _LIST_ROWS
    taken = take(rows[:0]).type
    kind = listed(taken)
    while first + 1 < len(starts):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most, "right")) - 1)
        values = take(rows[starts[first] : starts[last]])
        if values.num_chunks > 1 and kind == taken:
            if last == first + 1:
                raise ResultTooLargeError(
                    f"a {name} of {len(values):,} values has more bytes than a list of Arrow has offsets for: narrow "
                    "the window"
                )
            most = int(starts[last] - starts[first]) // 2
            continue
        offsets = pa.array((starts[first : last + 1] - starts[first]).astype(np.int32))
        wide = values if kind == taken else values.cast(kind)  # there are types that Arrow cannot cast to themselves
        flat = pa.concat_arrays([pa.nulls(0, kind), *wide.chunks])
        chunks.append(pa.ListArray.from_arrays(offsets, flat))
        first, most = last, _LIST_ROWS
    return pa.chunked_array(chunks, pa.list_(kind))


def variances(kind: pa.DataType, some: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Sample variances from sums and sums of squares, each an unevaluated sum of two; undefined of fewer than two."""
    s, s_error, q, q_error = moments.reshape(-1, 4).T
    count = np.maximum(some, 2).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        s, s_error = _two_sum(s, s_error)
        square, error = _two_product(s, s)
        error = error + 2 * s * s_error
        mean = square / count
        again, lost = _two_product(mean, count)
        error = ((square - again) - lost + error) / count
        spread, rest = _two_sum(q, -mean)
        spread = (spread + (rest + q_error - error)) / (count - 1)
        return np.maximum(spread, 0) / unit(kind) ** 2


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sum, rounded, and what is lacking. Source: Knuth, The Art of Computer Programming, volume 2, 4.2.2."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A product, rounded, and what is lacking. Source: Dekker, Numerische Mathematik 18 (1971)."""

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        large = x * 134217729.0
        upper = large - (large - x)
        return upper, x - upper

    product, (a1, a0), (b1, b0) = a * b, halves(a), halves(b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def float_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Numbers of 128 bits, by their lower and upper words, as float64."""
    wide = high.astype(np.float64) * 2.0**64 + low.view(np.uint64).astype(np.float64)
    return np.where(high == low >> 63, low.astype(np.float64), wide)


def _totals(held: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums as their lower and upper 64 bits, and which of them fit those."""
    if "sum" in held:
        words = held["sum"].reshape(-1, 2)
        return np.ascontiguousarray(words[:, 0]), words[:, 1], np.ones(len(words), np.bool_)
    upper, lower = held["upper"].reshape(-1, 2), held["lower"].reshape(-1, 2)
    fits = upper[:, 1] == upper[:, 0] >> 63
    high = upper[:, 0] + lower[:, 1]  # wraps
    fits &= ((upper[:, 0] ^ high) & (lower[:, 1] ^ high)) >= 0
    return np.ascontiguousarray(lower[:, 0]), high, fits


def _float_total(held: dict[str, np.ndarray]) -> np.ndarray:
    """Sums as float64, those too that do not fit 128 bits."""
    low, high, fits = _totals(held)
    if fits.all():
        return float_of(low, high)
    upper, lower = (held[half].reshape(-1, 2).T for half in ("upper", "lower"))
    return np.where(fits, float_of(low, high), float_of(*upper) * 2.0**64 + float_of(*lower))


def _total(held: dict[str, np.ndarray], at: int) -> int:
    """One of the sums, exact."""

    def whole(fold: str) -> int:
        return (int(held[fold][2 * at + 1]) << 64) + (int(held[fold][2 * at]) & _WORD)

    return whole("sum") if "sum" in held else (whole("upper") << 64) + whole("lower")


def _decimal_means(
    kind: pa.DataType, out: pa.DataType, held: dict[str, np.ndarray], weights: Any, valid: np.ndarray
) -> pa.Array:
    """Totals by weights, or numbers of rows, rounded half up."""
    words, places = np.zeros((len(valid), 2), np.int64), 10 ** (out.scale - kind.scale)
    for at in np.flatnonzero(valid).tolist():
        total, weight = _total(held, at), _total(weights, at) if isinstance(weights, dict) else int(weights[at])
        mean = (2 * abs(total) * places + weight) // (2 * weight) * (1 if total >= 0 else -1)
        words[at] = ((mean & _WORD) ^ (1 << 63)) - (1 << 63), mean >> 64
    return fixed(out, words, valid)


def extremes(codes: np.ndarray, kind: pa.DataType, valid: np.ndarray) -> pa.Array:
    """What `encoded` made of the values of a type, back."""
    if pa.types.is_floating(kind):
        with np.errstate(invalid="ignore"):
            values = np.where(codes == _INT64.max, np.nan, decode_float(np.where(valid, codes, 0)))
        return pa.array(values.astype(f"f{kind.bit_width // 8}"), kind, mask=~valid)
    if pa.types.is_decimal(kind):
        words = codes.reshape(-1, 2) if is_wide(kind) else np.stack([codes, codes >> 63], axis=1)
        return fixed(pa.decimal128(kind.precision, kind.scale), words, valid).cast(kind)
    if pa.types.is_uint64(kind):
        return fixed(kind, codes.view(np.uint64) ^ np.uint64(1 << 63), valid)
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    return fixed(kind, codes.astype(f"{sign}{kind.bit_width // 8}"), valid)


def fixed(kind: pa.DataType, raw: np.ndarray, valid: np.ndarray) -> pa.Array:
    """An array of a type of fixed width from the raw values, NULL where they are not valid."""
    bits = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(valid), [bits, pa.py_buffer(np.ascontiguousarray(raw))])
