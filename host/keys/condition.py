"""A join condition as it is carried out: which part drives, which ones are residual, which rows cannot match at all.

Source: SPO-Join, section II, for conjunctions of conditions over several columns; which part drives, and composite keys
for equality with a band, are ours.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable, Collection
from fractions import Fraction
from typing import TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.errors import KeyTypeError, PredicateError
from muntin.host.keys.boundary_generator import (
    CODE_TYPE,
    BoundaryGenerator,
    CompositeGenerator,
    LongCompositeGenerator,
    open_ends,
)
from muntin.host.keys.columns import column_of, column_type
from muntin.host.keys.constants import exact_float, moment, read_moment
from muntin.host.keys.durations import nanoseconds
from muntin.host.keys.key_type import NANOS_PER_DAY, Family, KeyType, decode_float, key_type, key_types, of_column
from muntin.host.keys.value_codes import ValueCodes, comparable_type, comparable_values, has_codes
from muntin.host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Predicate, Where, one_sided
from muntin.host.predicates.predicate import DISTINCT
from muntin.host.sides import Side, Sides


class Condition:
    """A condition over the columns of two schemas.

    One part, or several as one key, *drive*: an engine finds the pairs that satisfy them. The other parts that compare
    the two sides are *residual*: they are asked of each pair found. Parts about one side alone are asked of each row.

    1. Where parts compare for equality, they drive together. One alone, of a type that encodes to 64 bits, drives by
       its own encoding; otherwise each distinct value has a code.
    2. Beside the codes goes the first other part by the order of 3 whose keys fit: the two are one composite key, of 64
       bits for values of 32, else of 128. Where no such part is there, all others are residual.
    3. Without equality, the first part given that is bounded at both ends drives, else the first with one open end,
       else the first; an engine may let another part drive later on. Where no part compares the two sides, all keys are
       equal.

    Of ``is distinct from``, and of ``!=`` on text and the like, each distinct value of the part has a code. Of a union
    with ``<=>``, whether the values are NULL is one of the parts of 1, and the union itself, with 0 for NULL, one of
    those of 2.

    Parameters
    ----------
    on : Predicate, AllOf or Where
    left, right : pyarrow.Schema
    key_bits : int
        Of the widest composite key: 64, or 128.

    Attributes
    ----------
    generator : BoundaryGenerator
        Of the driving keys.
    residuals : list of BoundaryGenerator
        Of the residual parts, whose keys stand in `Batch.others` in this order.
    exchangeable : bool
        Any of the parts may drive: there are several, and none compares for equality.
    one_column : bool
        All columns have one name on both sides: in a self join, both sides have the same keys.
    codes : ValueCodes or None
        Where values have codes.

    Raises
    ------
    SchemaError
        If a column is missing.
    KeyTypeError
        If a column has a type that the part cannot be asked of.
    PredicateError
        If a bound or a constant does not fit the type of its column.
    """

    def __init__(self, on: Predicate | AllOf | Where, left: pa.Schema, right: pa.Schema, key_bits: int = 64):
        parts = on.conjuncts
        self._schemas: Sides[pa.Schema] = {"left": left, "right": right}
        pairs = [part for part in parts if isinstance(part, Predicate) and not one_sided(part)]
        self._filters = [Filter(part, self._schemas) for part in parts if one_sided(part)]
        # A union with `<=>` is an equality of whether the values are NULL, and a union in which NULL stands as 0.
        equal = [part for part in pairs if _equates(part)]
        self._unequal = {
            part: ValueCodes([(*self._types(part), part.null_safe)], apart=part.op == DISTINCT)
            for part in pairs
            if isinstance(part, Compare) and (part.op == DISTINCT or (part.op == "!=" and self._coded(part)))
        }
        rest = [part for part in pairs if part not in equal or isinstance(part, AnyOf)]
        kinds = {part: self._key_types(part) for part in rest}
        by_ends = sorted(rest, key=open_ends)  # stable: those alike stay as they were given
        self.codes: ValueCodes | None = None
        self._value: Predicate | None = None  # the part whose values go beside the codes
        self._too_wide: Predicate | None = None  # the part that would go beside the codes, were the keys wider
        self._equal = equal
        if equal:
            fitting = [part for part in by_ends if key_bits == 128 or _narrow(kinds[part])]
            plain = len(equal) == 1 and not equal[0].null_safe and not self._coded(equal[0])
            if plain and not fitting:
                self.generator = BoundaryGenerator(equal[0], *self._key_types(equal[0]))
            else:
                self.codes = ValueCodes([self._compared(part) for part in equal])
                if fitting:
                    self._value = fitting[0]
                    kind = CompositeGenerator if _narrow(kinds[fitting[0]]) else LongCompositeGenerator
                    self.generator = kind(fitting[0], *kinds[fitting[0]])
                else:
                    alike = Compare(equal[0].left, "=", equal[0].right)
                    self.generator = BoundaryGenerator(alike, CODE_TYPE, CODE_TYPE)
            self._driver: Predicate | None = equal[0]
            if by_ends and by_ends[0] is not self._value:
                self._too_wide = by_ends[0]
        elif rest:
            self._driver = by_ends[0]
            self.generator = BoundaryGenerator(self._driver, *kinds[self._driver])
        else:
            self._driver = None
            self.generator = BoundaryGenerator(Compare("", "=", ""), CODE_TYPE, CODE_TYPE)
        taken = self._value if equal else self._driver
        self._residual_parts = [part for part in rest if part != taken]
        self.residuals = [BoundaryGenerator(part, *kinds[part]) for part in self._residual_parts]
        self.one_column = not self._filters and all(part.left == part.right and not part.sum for part in pairs)
        self.one_column &= not any(isinstance(part, Compare) and part.op == DISTINCT for part in pairs)  # NaN is apart
        self.exchangeable = not equal and bool(self.residuals)
        for generator in (self.generator, *self.residuals):
            generator.one_column = self.one_column  # else the sides differ in rows or other keys

    def _types(self, part: Predicate) -> tuple[pa.DataType, str, pa.DataType, str]:
        left, right = self._schemas["left"], self._schemas["right"]
        return column_type(left, part.left), part.left, column_type(right, part.right), part.right

    def _compared(self, part: Compare | AnyOf) -> tuple[pa.DataType, str, pa.DataType, str, bool]:
        """What is compared for equality, as `ValueCodes` takes it."""
        if isinstance(part, AnyOf):
            return pa.bool_(), part.left, pa.bool_(), part.right, False
        return (*self._types(part), part.null_safe)

    def _coded(self, part: Predicate) -> bool:
        left, _, right, _ = self._types(part)
        return has_codes(left) or has_codes(right)

    def _key_types(self, part: Predicate) -> tuple[KeyType, KeyType]:
        if part in self._unequal:
            return CODE_TYPE, CODE_TYPE
        left, right = key_types(*self._types(part))
        if part.sum and left.family not in (Family.NUMBER, Family.DURATION, Family.NONE):
            why = "its sums are rounded" if left.family is Family.FLOAT else f"a {left.family.value} has no sum"
            raise KeyTypeError(
                f"left.{part.left} + right.{part.right} is not supported for {left.arrow} and {right.arrow}, as {why}: "
                "use integers, decimals or durations"
            )
        return (left.turned() if part.sum else left), right

    @property
    def ordered(self) -> bool:
        """Whether driving keys have the order of values: they are no codes."""
        return self.codes is None and self._driver is not None and self._driver not in self._unequal

    def encode(
        self, side: Side, table: pa.Table, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, tuple[np.ndarray, ...]]:
        """The keys of some rows.

        Parameters
        ----------
        side : str
        table : pyarrow.Table
            The rows, n of them, with at least the columns of the condition.
        rows : ndarray of int64, shape (n,)
            Their arrival numbers.

        Returns
        -------
        keys : ndarray of int32, int64 or `muntin.host.keys.key_type.LONG`, shape (n,)
            What drives; undefined where a row is not valid.
        valid : ndarray of bool, shape (n,), or None
            Which rows can match at all: they have a value in every column that needs one, and satisfy every part about
            their side alone. None where all can.
        others : tuple of ndarray, shape (n,) each
            Keys of the residual parts.

        Raises
        ------
        KeyTypeError
            If a key does not fit 64 bits.
        CapacityError
            If there are too many different values of the columns compared for equality.
        """
        valid = self._passing(side, table)
        others = []
        for part, generator in zip(self._residual_parts, self.residuals, strict=True):
            keys, known = self._encoded(side, table, rows, part, generator.key_types[side])
            others.append(keys)
            valid = both(valid, known)
        if self._driver is None:
            return np.zeros(len(table), np.int64), valid, tuple(others)
        if self.codes is None:
            keys, known = self._encoded(side, table, rows, self._driver, self.generator.key_types[side])
            return keys, both(valid, known), tuple(others)
        columns = [column_of(table, getattr(part, side)) for part in self._equal]
        columns = [pc.is_null(c) if isinstance(p, AnyOf) else c for p, c in zip(self._equal, columns, strict=True)]
        keys, known = self.codes.encode(side, columns, rows)
        valid = both(valid, known)
        if self._value is not None:
            assert isinstance(self.generator, CompositeGenerator)
            values, known = self._encoded(side, table, rows, self._value, self.generator.values.key_types[side])
            valid = both(valid, known)
            keys = self.generator.keys(keys, values)
        return keys, valid, tuple(others)

    def _passing(self, side: Side, table: pa.Table) -> np.ndarray | None:
        """Which rows satisfy every part about their side alone; bool, shape (n,); None where there is no such part."""
        valid: np.ndarray | None = None
        for test in self._filters:
            if side in test.sides:
                valid = both(valid, test.holds(table))
        return valid

    def _encoded(
        self, side: Side, table: pa.Table, rows: np.ndarray, part: Predicate, kind: KeyType
    ) -> tuple[np.ndarray, np.ndarray | None]:
        name = getattr(part, side)
        column = column_of(table, name)
        if self._unequal and part in self._unequal:
            return self._unequal[part].encode(side, [column], rows)
        with of_column(name, side):
            keys, valid = kind.encode(column)
        if column.null_count and isinstance(part, AnyOf) and part.null_safe:
            null = pc.is_null(column).to_numpy()
            keys, valid = np.where(null, keys.dtype.type(kind.zero), keys), null | valid
        return keys, valid

    @property
    def has_equality(self) -> bool:
        """Whether a part compares the two sides for equality."""
        return bool(self._equal)

    @property
    def equality_alone(self) -> bool:
        """Whether rows of the two sides are compared for equality, if at all, and not otherwise."""
        return self._value is None and not self._residual_parts and (bool(self._equal) or self._driver is None)

    @property
    def bounded(self) -> bool:
        """Whether every interval that a driving key may meet has two ends."""
        return bool(self._equal) or (self._driver is not None and open_ends(self._driver) == 0)

    def equality_hashes(self, side: Side, keys: np.ndarray) -> np.ndarray:
        """For driving keys, shape (n,), numbers, uint64, that are the same for rows whose columns compared for equality
        are equal."""
        if self._value is not None:
            assert isinstance(self.generator, CompositeGenerator)
            return self.generator.codes(keys).view(np.uint64)
        kinds = self.generator.key_types
        kind = kinds[side]
        if kind.family is Family.FLOAT:
            return decode_float(keys).astype(np.float64).view(np.uint64)
        scale = int(kind.unit / min(each.unit for each in kinds.values()))
        # Modulo 2**64: what is equal stays so.
        return (keys.astype(np.int64).view(np.uint64) + np.uint64(kind.offset % 2**64)) * np.uint64(scale % 2**64)

    def forget(self, oldest: Sides[int]) -> None:
        """Lets go of what is known of rows before these arrival numbers."""
        for codes in (self.codes, *self._unequal.values()):
            if codes is not None:
                codes.forget(oldest)

    def explain(self, *, indexed: bool = False, beside: Collection[int] = (), driver: int = 0) -> list[str]:
        """What drives, what is residual and what is asked of each row: a line each.

        Parameters
        ----------
        indexed : bool
            The index takes every part: none is residual.
        beside : collection of int
            Which of the residual parts the device compares beside what drives.
        driver : int
            Which of the parts drives, where they are exchangeable: 0 for the one that does at first, then the others.
        """
        parts = [part for part in (self._driver, *self._residual_parts) if part is not None]
        driving = parts.pop(driver) if parts else None
        equal = " and ".join(
            f"(left.{part.left} is null) = (right.{part.right} is null)" if isinstance(part, AnyOf) else in_words(part)
            for part in self._equal
        )
        if self._value is not None:
            bits = self.generator.key_types["left"].bits
            words = f"{equal} and {in_words(self._value)}, as one composite key of {bits} bits: a code, then the value"
        elif self.codes is not None:
            words = f"{equal}, by a code for each distinct value"
        elif driving is None:
            words = "every pair"
        else:
            words = in_words(driving)
        lines = [f"{'indexed:  ' if indexed else 'driver:   '} {words}"]
        for at, part in enumerate(parts):  # in the order of the residual ones where any is compared beside the first
            kind = "indexed:  " if indexed else "compared: " if at in beside else "residual: "
            wide = part is self._too_wide and kind == "residual: "
            why = ", whose values fit no composite key of this device, index and form" if wide else ""
            lines.append(f"{kind} {in_words(part)}{why}")
        return [*lines, *self._row_tests()]

    def _row_tests(self) -> list[str]:
        """What is asked of each row: a line each."""
        return [f"row test:  {in_words(test.part)}" for test in self._filters]


def check_side(on: Predicate | AllOf | AsOf | Where, side: Side, schema: pa.Schema) -> None:
    """Checks the types of the columns of one side, which are there. Raises KeyTypeError, PredicateError."""
    if isinstance(on, AsOf):
        for name in on.names(side):
            if not has_codes(column_type(schema, name)):
                key_type(comparable_type(column_type(schema, name)), name)
        key_type(column_type(schema, on.time(side)), on.time(side))
    for part in on.conjuncts:
        if one_sided(part):
            if side in _sides(part):
                Filter(part, {side: schema})
            continue
        name = getattr(part, side)
        kind = column_type(schema, name)
        if isinstance(part, Compare) and (part.equality or part.op in ("!=", DISTINCT)) and has_codes(kind):
            continue
        key_type(kind, name)


def condition_columns(on: Predicate | AllOf | AsOf | Where, side: Side) -> list[tuple[str, Predicate | AsOf | Where]]:
    """The columns of one side that a condition names, with the part that does."""
    found: list[tuple[str, Predicate | AsOf | Where]] = []
    if isinstance(on, AsOf):
        found += [(name, on) for name in on.names(side)]
    for part in on.conjuncts:
        if one_sided(part):
            found += [(test.column, part) for test in _wheres(part)[:1] if test.side == side]
        else:
            found.append((getattr(part, side), part))
    return found


def in_words(part: Predicate | Where | AllOf | AsOf) -> str:
    """A part as one would write it, such as ``-3 <= right.price - left.limit <= 3``."""
    if isinstance(part, AsOf):
        by = "".join(f"left.{a} = right.{b} and " for a, b in part.by)
        near = {"backward": "the last at or before", "forward": "the first at or after", "nearest": "the nearest to"}
        strict = "" if part.exact else ", equal times left out"
        most = "" if part.tolerance is None else f", at most {part.tolerance} away"
        tests = "".join(f" and {in_words(test)}" for test in part.where)
        return f"{by}right.{part.right_time} {near[part.direction]} left.{part.left_time}{most}{strict}{tests}"
    if isinstance(part, Compare):
        return f"left.{part.left} {part.op} right.{part.right}"
    if isinstance(part, Where):
        return f"{part.side}.{part.column} {part.op} {'NULL' if part.value is None else repr(part.value)}"
    if isinstance(part, Band):
        (piece,) = part.pieces()
        low = "" if part.low is None else f"{part.low} {'<' if piece.low_strict else '<='} "
        high = "" if part.high is None else f" {'<' if piece.high_strict else '<='} {part.high}"
        return f"{low}right.{part.right} {'+' if part.sum else '-'} left.{part.left}{high}"
    assert isinstance(part, (AnyOf, AllOf))
    if not part.parts:
        return "TRUE" if isinstance(part, AllOf) else "FALSE"
    joined = (" or " if isinstance(part, AnyOf) else " and ").join(map(in_words, part.parts))
    return f"({joined})" if isinstance(part, AnyOf) else joined


def _equates(part: Predicate) -> TypeGuard[Compare | AnyOf]:
    """Whether a part compares for equality: the values, or, in a union with ``<=>``, whether they are NULL."""
    return (isinstance(part, Compare) and part.equality) or (isinstance(part, AnyOf) and part.null_safe)


def _narrow(kinds: tuple[KeyType, KeyType]) -> bool:
    """Whether keys fit a composite key of 64 bits."""
    return all(kind.bits == 32 for kind in kinds)


def both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return b if a is None else a if b is None else a & b


class Filter:
    """A part that does not compare the sides: about one of them, or one that no row of either satisfies."""

    def __init__(self, part: Predicate | Where, schemas: Sides[pa.Schema]):
        self.part = part
        self.sides = _sides(part)
        tests = _wheres(part)
        self._column = tests[0].column if tests else None
        self._tests = [_test(test, column_type(schemas[test.side], test.column)) for test in tests]

    def holds(self, table: pa.Table) -> np.ndarray:
        """For which rows it holds; bool, shape (n,)."""
        found = np.zeros(len(table), np.bool_)
        if self._column is not None:
            column = column_of(table, self._column)
            for test in self._tests:
                found |= test(column)
        return found


def _sides(part: object) -> tuple[str, ...]:
    """The sides whose rows a part decides on by itself."""
    return tuple({test.side for test in _wheres(part)}) or ("left", "right")


def _wheres(part: object) -> list[Where]:
    return [part] if isinstance(part, Where) else [test for each in part.parts for test in _wheres(each)]  # type: ignore[attr-defined]


_ARROW = {"=": pc.equal, "<=>": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
          ">=": pc.greater_equal}  # fmt: skip
_NUMPY: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "=": np.equal, "<=>": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


def _test(where: Where, kind: pa.DataType) -> Callable[[pa.ChunkedArray], np.ndarray]:
    """What tells for which rows of a column a part holds. Raises KeyTypeError, PredicateError."""
    value, op = where.value, where.op
    plain = comparable_type(kind)
    if op == DISTINCT:
        same = _test(dataclasses.replace(where, op="<=>"), kind)
        return lambda column: ~same(column)
    if value is None:
        return lambda column: pc.is_null(column).to_numpy().astype(np.bool_, copy=False)
    if pa.types.is_null(plain):
        return lambda column: np.zeros(len(column), np.bool_)
    if has_codes(kind) and not pa.types.is_struct(plain):
        wanted = bool if pa.types.is_boolean(plain) else str if plain == pa.large_string() else bytes
        if type(value) is not wanted:
            raise _misfit(where, kind, f"a value of {wanted.__name__}")
        scalar = pa.scalar(value, plain)

        def listed(column: pa.ChunkedArray) -> np.ndarray:
            found = _ARROW[op](comparable_values(column), scalar).fill_null(False)
            return found.to_numpy().astype(np.bool_, copy=False)

        return listed
    of = key_type(plain, where.column)
    exact = _constant(where, of)

    def encoded(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        with of_column(where.column, where.side):
            return of.encode(comparable_values(column))

    if of.family is Family.FLOAT:
        number = float(exact)

        def compare(column: pa.ChunkedArray) -> np.ndarray:
            keys, valid = encoded(column)
            found = _NUMPY[op](decode_float(keys).astype(np.float64), number)
            return found if valid is None else found & valid

        return compare
    low, high, inside = _interval(op, exact, of)

    def within(column: pa.ChunkedArray) -> np.ndarray:
        keys, valid = encoded(column)
        found = np.zeros(len(keys), np.bool_) if low > high else (keys >= low) & (keys <= high)
        found = found if inside else ~found
        return found if valid is None else found & valid

    return within


def _interval(op: str, exact: Fraction | float, of: KeyType) -> tuple[int, int, bool]:
    """The encoded values for which ``value OP constant`` holds: those within two ends, or those outside."""
    low, high = of.minimum, of.maximum
    if isinstance(exact, float):  # an infinity
        exact = Fraction(of.minimum - 1 if exact < 0 else of.maximum + 1)
    else:
        exact = exact / of.unit - of.offset
    down, up = exact.numerator // exact.denominator, -(-exact.numerator // exact.denominator)
    if op in ("=", "<=>", "!="):
        low, high = max(low, up), min(high, down)
    elif op in ("<", "<="):
        high = min(high, up - 1 if op == "<" else down)
    else:
        low = max(low, down + 1 if op == ">" else up)
    return low, high, op != "!="


_WANTED = {
    Family.DURATION: "a timedelta or a duration",
    Family.DATE: "a date, or a datetime without a time zone, or its ISO 8601 text",
    Family.TIMESTAMP: "a datetime without a time zone, or its ISO 8601 text",
    Family.TIMESTAMP_TZ: "a datetime with a time zone, or its ISO 8601 text",
    Family.TIME: "a time of day without a time zone, or its ISO 8601 text",
}


def _constant(where: Where, of: KeyType) -> Fraction | float:
    """A constant in the unit of a column's family, exact; a float for float columns, and for infinities."""
    value, family = where.value, of.family
    if family in (Family.NUMBER, Family.FLOAT):
        if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
            raise _misfit(where, of.arrow, "a number")
        if value in (float("inf"), float("-inf")):
            return float(value)
        if family is Family.FLOAT:
            number = exact_float(value)
            if number is None:
                raise _misfit(where, of.arrow, "a number that fits float64")
            return number
        if isinstance(value, float) and not value.is_integer():  # 0.1 means a tenth
            return Fraction(decimal.Decimal(repr(value)))
        return Fraction(value)
    if isinstance(value, str):
        try:
            value = nanoseconds(value) if family is Family.DURATION else read_moment(value, family)
        except (ValueError, OverflowError):
            raise _misfit(where, of.arrow, _WANTED[family]) from None
        if family is Family.DURATION:
            return Fraction(value)
    found = moment(value)
    days = (Family.DATE, Family.TIMESTAMP)  # a date is its midnight
    if found is None or not (found.family is family or (found.family in days and family in days)):
        raise _misfit(where, of.arrow, _WANTED[family])
    return found.nanoseconds / (NANOS_PER_DAY if family is Family.DATE else 1)


def _misfit(where: Where, kind: pa.DataType, wanted: str) -> PredicateError:
    return PredicateError(
        f"column {where.column!r} of the {where.side} side has type {kind}: compare it with {wanted}, "
        f"not {where.value!r}"
    )
