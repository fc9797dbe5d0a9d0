"""Aggregates of the rows that a row matches: what ``form="aggregate"`` gives."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.columns import column_of, column_type, has_column
from muntin.host.errors import KeyTypeError, PredicateError, SchemaError, SumOverflowError
from muntin.host.float_order import decode_float, encode_float
from muntin.host.key_type import _raw_values

_INT64 = np.iinfo(np.int64)
_OTHER = {"left": "right", "right": "left"}
_LIMB_DIGITS = 18  # decimals of so many digits fit 64 bits
_MOST_DIGITS = 38


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """One value made of a column of all rows of the other side that a row matches.

    Parameters
    ----------
    column : str
        A column, or a field of a struct (``"quote.price"``), of the other side.
    name : str, optional
        Of the column in the result; as Spark has it by default, such as ``"sum(price)"``.

    Raises
    ------
    PredicateError
        If either is no text.
    """

    column: str | None
    name: str | None = None
    function: ClassVar[str]

    def __post_init__(self) -> None:
        for what in ("column", "name"):
            value = getattr(self, what)
            optional = what == "name" or isinstance(self, Count)
            if not (isinstance(value, str) and value) and not (optional and value is None):
                raise PredicateError(f"{what} of {type(self).__name__} must be the name of a column, not {value!r}")

    @property
    def output(self) -> str:
        """The name of the column in the result."""
        return self.name or f"{self.function}({1 if self.column is None else self.column})"

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `aggregate_from_dict`."""
        return {"function": self.function, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class Count(Aggregate):
    """How many rows match, int64; of a column, how many of them are not NULL there."""

    column: str | None = None
    function = "count"


@dataclasses.dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of the values that are not NULL; NULL where there are none.

    Exact for integers, which give int64 (uint64: uint64), and for decimals of p digits, which give decimals of p + 10,
    38 at most; a sum that does not fit is a `SumOverflowError`. Floats give float64, off by at most 2**-51 of the sum
    of the absolute values that are added.
    """

    function = "sum"


@dataclasses.dataclass(frozen=True)
class Min(Aggregate):
    """The least value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it."""

    function = "min"


@dataclasses.dataclass(frozen=True)
class Max(Aggregate):
    """The greatest value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it."""

    function = "max"


@dataclasses.dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of the values that are not NULL; NULL where there are none.

    float64: the sum, rounded, by their number; decimals of p digits, s of them behind the point, give p + 4 and s + 4,
    38 at most, rounded half up.
    """

    function = "avg"


_KINDS: dict[str, type[Aggregate]] = {"count": Count, "sum": Sum, "min": Min, "max": Max, "avg": Mean, "mean": Mean}
_TEXT = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*(?:\s+as\s+(\S+)\s*)?", re.IGNORECASE)


def aggregate_from_dict(data: dict[str, Any]) -> Aggregate:
    """What `Aggregate.to_dict` gave. Raises KeyError, TypeError for anything else."""
    return _KINDS[data["function"]](column=data["column"], name=data["name"])


def open_aggregates(given: Any) -> tuple[Aggregate, ...]:
    """Aggregates, or their text such as ``"sum(price)"``, ``"count(*)"`` or ``"avg(price) as mean"``.

    Raises
    ------
    PredicateError
        If one is neither.
    """
    if isinstance(given, (str, Aggregate)):
        given = (given,)
    return tuple(each if isinstance(each, Aggregate) else _parsed(each) for each in given)


def _parsed(text: Any) -> Aggregate:
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    kind = _KINDS.get(found[1].lower()) if found else None
    if found is None or kind is None or (kind is not Count and found[2] in ("", "*", "1")):
        raise PredicateError(
            f"{text!r} is no aggregate: use count(*), count(column), sum(column), min(column), max(column) or "
            "avg(column), behind it 'as name' where it is to have another name"
        )
    return kind(None if found[2] in ("", "*", "1") else found[2], found[3])


def result_type(aggregate: Aggregate, kind: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate of a column of this type (None: of rows).

    Raises
    ------
    KeyTypeError
        If there is none.
    """
    types = pa.types
    if isinstance(aggregate, Count):
        return pa.int64()
    assert kind is not None
    if types.is_null(kind):
        return kind if isinstance(aggregate, (Min, Max)) else pa.float64()
    wide = types.is_decimal(kind) and kind.precision > _MOST_DIGITS
    number = types.is_integer(kind) or types.is_floating(kind) or (types.is_decimal(kind) and not wide)
    if isinstance(aggregate, (Min, Max)):
        if number or types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind):
            return kind
    elif types.is_decimal(kind) and not wide:
        more, places = (10, 0) if isinstance(aggregate, Sum) else (4, 4)
        return pa.decimal128(min(kind.precision + more, _MOST_DIGITS), min(kind.scale + places, _MOST_DIGITS))
    elif types.is_integer(kind) and isinstance(aggregate, Sum):
        return pa.uint64() if types.is_uint64(kind) else pa.int64()
    elif number:
        return pa.float64()
    raise KeyTypeError(
        f"there is no {aggregate.function} of column {aggregate.column!r} of type {kind}: use integers, floats, "
        "decimals of at most 38 digits" + (", dates or timestamps" if isinstance(aggregate, (Min, Max)) else "")
    )


class AggregatePlan:
    """What an engine keeps of the rows of each side, and what it makes of that.

    Parameters
    ----------
    aggregates : tuple of Aggregate
    schemas : dict of str to pyarrow.Schema
        Columns of each side whose rows may be met.

    Attributes
    ----------
    folds : dict of str to list of str
        What is kept of the rows of each side, as the core names it: ``"sum"``, ``"add"``, ``"least"``,
        ``"least_wide"`` or ``"some"``.
    fields : list of pyarrow.Field
        The columns of the result.

    Raises
    ------
    SchemaError
        If no side has a column, or two columns of the result have one name.
    KeyTypeError
        If a column's type has no such aggregate, or the two sides differ in it.
    """

    def __init__(self, aggregates: tuple[Aggregate, ...], schemas: dict[str, pa.Schema]):
        self._aggregates = aggregates
        self._kept: dict[str, list[tuple[str, str]]] = {side: [] for side in schemas}  # folds, and their columns
        self._kinds: dict[tuple[str, str], pa.DataType] = {}
        self.fields: list[pa.Field] = []
        for aggregate in aggregates:
            column = aggregate.column
            kinds = {}
            for side, schema in schemas.items():
                if column is not None and has_column(schema, column):
                    kinds[side] = self._kinds[side, column] = column_type(schema, column)
            if column is not None and not kinds:
                there = "; ".join(f"the {side} side has {', '.join(schema.names)}" for side, schema in schemas.items())
                raise SchemaError(f"there is no column {column!r}, of {aggregate.output!r}: {there}")
            types = {side: result_type(aggregate, kind) for side, kind in kinds.items()} or {"": pa.int64()}
            # NULL is of the other side's type too.
            types = {side: kind for side, kind in types.items() if not self._null(side, column)} or types
            if len(set(types.values())) > 1:
                raise KeyTypeError(
                    f"{aggregate.output!r} has type {types['left']} of left rows and {types['right']} of right rows: "
                    f"cast column {column!r} on one side"
                )
            if any(field.name == aggregate.output for field in self.fields):
                raise SchemaError(f"the result would have two columns {aggregate.output!r}: give one of them a name=")
            self.fields.append(pa.field(aggregate.output, next(iter(types.values()))))
            for side, kind in kinds.items():
                for fold in self._folds(aggregate, kind):
                    if fold not in self._kept[side]:
                        self._kept[side].append(fold)

    def _null(self, side: str, column: str | None) -> bool:
        return column is not None and pa.types.is_null(self._kinds[side, column])

    @property
    def folds(self) -> dict[str, list[str]]:
        return {side: [_CORE[fold] for fold, _ in kept] for side, kept in self._kept.items()}

    @staticmethod
    def _folds(aggregate: Aggregate, kind: pa.DataType) -> list[tuple[str, str]]:
        """What an aggregate is made of: folds, and the column."""
        column = aggregate.column
        assert column is not None
        folds = ["some"]
        if pa.types.is_null(kind):
            pass
        elif isinstance(aggregate, (Min, Max)):
            folds.append(aggregate.function + ("_wide" if _wide(kind) and not pa.types.is_uint64(kind) else ""))
        elif isinstance(aggregate, (Sum, Mean)):
            folds += ["add"] if pa.types.is_floating(kind) else ["upper", "lower"] if _wide(kind) else ["sum"]
        return [(fold, column) for fold in folds]

    def encode(self, side: str, table: pa.Table) -> tuple[np.ndarray, ...]:
        """What is kept of rows of a side: an array for each fold, shape (n,), or (n, 2) for ``"least_wide"``.

        Raises
        ------
        KeyTypeError
            If a decimal has more digits than its type says.
        """
        given = {column: column_of(table, column) for _, column in self._kept[side]}
        valid = {column: pc.is_valid(values).to_numpy().astype(np.bool_) for column, values in given.items()}
        raw: dict[str, np.ndarray] = {}
        out = []
        for fold, column in self._kept[side]:
            if fold == "some":
                out.append(valid[column].view(np.uint8))
                continue
            kind = self._kinds[side, column]
            if column not in raw:
                raw[column] = _raw_values(pa.concat_arrays([pa.array([], kind), *given[column].chunks]))
            out.append(_encoded(fold, kind, raw[column], None if valid[column].all() else valid[column]))
        return tuple(out)

    def columns(self, side: str, counts: np.ndarray, results: list[np.ndarray]) -> list[pa.Array]:
        """The columns of the result for rows of one side.

        Parameters
        ----------
        side : str
            Whose rows have probed.
        counts : ndarray of int64, shape (n,)
            How many rows each has met.
        results : list of ndarray
            What the core gives for each fold of the other side.

        Raises
        ------
        SumOverflowError
            If a sum or mean does not fit its type.
        """
        other = _OTHER[side]
        held = dict(zip(self._kept[other], results, strict=True))
        out = []
        for aggregate, field in zip(self._aggregates, self.fields, strict=True):
            column = aggregate.column
            if column is None:
                out.append(pa.array(counts))
            elif (other, column) not in self._kinds or (self._null(other, column) and not isinstance(aggregate, Count)):
                out.append(pa.nulls(len(counts), field.type))
            else:
                kind = self._kinds[other, column]
                own = {fold: held[fold, column] for fold, _ in self._folds(aggregate, kind)}
                out.append(_value(aggregate, kind, field.type, own))
        return out


#: What the core does for each fold.
_CORE = {
    "some": "some", "sum": "sum", "upper": "sum", "lower": "sum", "add": "add", "min": "least", "max": "least",
    "min_wide": "least_wide", "max_wide": "least_wide",
}  # fmt: skip


def _wide(kind: pa.DataType) -> bool:
    """Whether values of a type take more than 64 bits, signed."""
    return pa.types.is_uint64(kind) or (pa.types.is_decimal(kind) and kind.precision > _LIMB_DIGITS)


def _words(raw: np.ndarray, kind: pa.DataType) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper 64 bits of values, int64."""
    if raw.ndim == 1:
        return raw.view(np.int64), np.zeros(len(raw), np.int64)  # uint64
    low = np.ascontiguousarray(raw[:, 0]).view(np.int64)
    if raw.shape[1] == 1:
        return low, low >> 63
    return low, np.ascontiguousarray(raw[:, 1]).view(np.int64)


def _encoded(fold: str, kind: pa.DataType, raw: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    """The values of one column as the core keeps them, those of NULL such that they change nothing."""
    if fold in ("min_wide", "max_wide"):
        low, high = _words(raw, kind)
        words = np.stack([low, high], axis=1)
        words = ~words if fold == "max_wide" else words
        return words if valid is None else np.where(valid[:, None], words, np.array([-1, _INT64.max]))
    if fold in ("upper", "lower"):
        low, high = _words(raw, kind)
        values = low if fold == "lower" else high + (low < 0)  # the lower part counts as signed
    elif fold == "add":
        values = raw.astype(np.float64)
    elif pa.types.is_floating(kind):
        raw = raw.astype(np.float64)
        values = np.where(np.isnan(raw), _INT64.max, encode_float(raw))
    elif pa.types.is_decimal(kind):
        values, high = _words(raw, kind)
        wrong = high != values >> 63
        if valid is not None:
            wrong &= valid
        if wrong.any():
            raise KeyTypeError(f"a value of type {kind} has more digits than that: cast the column to more digits")
    elif pa.types.is_uint64(kind):
        values = (raw ^ np.uint64(1 << 63)).view(np.int64)
    else:
        values = raw.astype(np.int64)
    if fold == "max":
        values = ~values
    nothing = _INT64.max if fold in ("min", "max") else 0
    values = values if valid is None else np.where(valid, values, values.dtype.type(nothing))
    return np.ascontiguousarray(values)


def _value(aggregate: Aggregate, kind: pa.DataType, out: pa.DataType, held: dict[str, np.ndarray]) -> pa.Array:
    """One aggregate of every probing row from what the core gives."""
    some = held["some"]
    if isinstance(aggregate, Count):
        return pa.array(some)
    valid = some > 0
    if isinstance(aggregate, (Min, Max)):
        fold = next(name for name in held if name != "some")
        codes = ~held[fold] if isinstance(aggregate, Max) else held[fold]
        return _extremes(codes, kind, valid)
    if "add" in held:
        sums = held["add"]
        with np.errstate(invalid="ignore", over="ignore"):
            values = sums if isinstance(aggregate, Sum) else sums / np.maximum(some, 1)
        return pa.array(values, pa.float64(), mask=~valid)
    low, high, fits = _totals(held)
    if isinstance(aggregate, Mean):
        if pa.types.is_decimal(kind):
            return _decimal_means(aggregate, kind, out, low, high, fits, some)
        unsigned = low.view(np.uint64).astype(np.float64)
        small = fits & (high == low >> 63)
        values = np.where(small, low.astype(np.float64), high.astype(np.float64) * 2.0**64 + unsigned)
        return pa.array(values / np.maximum(some, 1), pa.float64(), mask=~valid)
    if pa.types.is_decimal(out):
        if kind.precision + 10 > _MOST_DIGITS:
            top = 10**out.precision >> 64
            for at in np.flatnonzero(fits & ((high >= top) | (high < -top))).tolist():
                fits[at] = abs(_integer(low, high, at)) < 10**out.precision
    else:
        fits &= high == (0 if out == pa.uint64() else low >> 63)
    if not fits.all():
        raise SumOverflowError(
            f"a {aggregate.output} does not fit {out}: cast column {aggregate.column!r} to a decimal of more "
            "digits, or to double"
        )
    if pa.types.is_decimal(out):
        return _fixed(out, np.stack([low, high], axis=1), valid)
    return _fixed(out, low, valid)


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


def _integer(low: np.ndarray, high: np.ndarray, at: int) -> int:
    return (int(high[at]) << 64) + (int(low[at]) & ((1 << 64) - 1))


def _decimal_means(
    aggregate: Aggregate, kind: pa.DataType, out: pa.DataType, low: np.ndarray, high: np.ndarray, fits: np.ndarray,
    some: np.ndarray,
) -> pa.Array:  # fmt: skip
    words, top = np.zeros((len(low), 2), np.int64), 10**out.precision
    for at, count in enumerate(some.tolist()):
        if count == 0:
            continue
        total = _integer(low, high, at)
        doubled = 2 * abs(total) * 10 ** (out.scale - kind.scale)
        mean = (doubled + count) // (2 * count) * (1 if total >= 0 else -1)
        if not fits[at] or abs(mean) >= top:
            raise SumOverflowError(
                f"a {aggregate.output} does not fit {out}: cast column {aggregate.column!r} to double"
            )
        words[at] = ((mean & ((1 << 64) - 1)) ^ (1 << 63)) - (1 << 63), mean >> 64
    return _fixed(out, words, some > 0)


def _extremes(codes: np.ndarray, kind: pa.DataType, valid: np.ndarray) -> pa.Array:
    """What `_encoded` made of the values of a type, back."""
    if pa.types.is_floating(kind):
        with np.errstate(invalid="ignore"):
            values = np.where(codes == _INT64.max, np.nan, decode_float(np.where(valid, codes, 0)))
        return pa.array(values.astype(f"f{kind.bit_width // 8}"), kind, mask=~valid)
    if pa.types.is_decimal(kind):
        words = codes.reshape(-1, 2) if _wide(kind) else np.stack([codes, codes >> 63], axis=1)
        return _fixed(pa.decimal128(kind.precision, kind.scale), words, valid).cast(kind)
    if pa.types.is_uint64(kind):
        return _fixed(kind, codes.view(np.uint64) ^ np.uint64(1 << 63), valid)
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    return _fixed(kind, codes.astype(f"{sign}{kind.bit_width // 8}"), valid)


def _fixed(kind: pa.DataType, raw: np.ndarray, valid: np.ndarray) -> pa.Array:
    """An array of a type of fixed width from the raw values, NULL where they are not valid."""
    bits = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(valid), [bits, pa.py_buffer(np.ascontiguousarray(raw))])
