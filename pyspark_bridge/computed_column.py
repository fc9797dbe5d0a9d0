"""What Spark computes for a condition, with the arithmetic and the comparisons of the join.

Spark's integers wrap or fail beyond their type; here they are exact, as far as decimals of 38 digits go. NaN is equal
to itself and greater than other numbers in Spark; here it is as NULL is, unknown.
"""

from __future__ import annotations

import dataclasses
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from muntin.host.errors import PredicateError
from muntin.pyspark_bridge.expression import COMPARED, FLOATS, Expression, Number, holds, is_exact, is_number, range_of

if TYPE_CHECKING:
    from pyspark.sql import Column

ARITHMETIC = ("+", "-", "*", "%", "negative", "abs")
_OF_ANY_TYPE = ("cast", "test")
_MAX_DIGITS = 38  # of Spark's decimals
_NEGATED_DIGITS = 34  # to which Spark rounds the negative of a decimal
_DIGITS = Context(prec=_MAX_DIGITS)  # Python's own has 28
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclasses.dataclass(frozen=True)
class Exact:
    """A column of integers, or of decimals, with what is known of its values.

    Attributes
    ----------
    column : Column
    low, high : int
        The least and the greatest value that may be there, in units of the last digit.
    scale : int
        Digits after the point.
    """

    column: Column
    low: int
    high: int
    scale: int = 0

    @property
    def kind(self) -> str | None:
        """The type that has all the values; None where Spark has none."""
        if self.scale == 0 and self.low >= -(1 << 63) and self.high < 1 << 63:
            return "bigint"
        digits = max(self._digits, self.scale)
        return None if digits > _MAX_DIGITS else f"decimal({digits},{self.scale})"

    @property
    def _digits(self) -> int:
        return len(str(max(-self.low, self.high, 1)))

    @property
    def whole_digits(self) -> int:
        """Before the point."""
        return max(self._digits - self.scale, 0)

    def scaled(self, scale: int) -> Exact:
        """The same in units of another last digit, with more of them."""
        more = 10 ** (scale - self.scale)
        return Exact(self.column, self.low * more, self.high * more, scale)


class ComputedColumns(ABC):
    """Makes Columns of expressions over one side."""

    @abstractmethod
    def _plain(self, expression: Expression) -> Column:
        """What the query has, as Spark computes it."""

    @abstractmethod
    def _rebuilt(self, expression: Expression, children: list[Column]) -> Column:
        """The same of other operands, which have the types of those that were there."""

    @abstractmethod
    def _inserted(self, expression: Expression) -> tuple[Expression, ...]:
        """Its children, with the casts that Spark's analysis inserts."""

    def computed(self, expression: Expression) -> Column:
        """A Column of an expression; of arithmetic on integers in a type that has every value of it.

        Raises
        ------
        PredicateError
            Values that no type of Spark has, and casts inserted by its analysis that would round.
        """
        if self._is_exact(expression):
            return self._exact(expression).column
        return self._made(expression)

    def _made(self, expression: Expression) -> Column:
        made = self._changed(expression)
        return self._plain(expression) if made is None else made

    def _changed(self, expression: Expression) -> Column | None:
        """A Column of the type that Spark has for an expression; None where Spark's own is right."""
        kind = expression.kind
        if self._is_exact(expression):
            return self._fitted(expression, expression.typed())
        if kind in COMPARED or kind == "in":
            return self._compared(expression)
        if kind == "opaque":
            if _has_arithmetic(expression):
                raise PredicateError(
                    f"{expression.shown()} has arithmetic or a comparison that Spark would compute its own way: make a "
                    "column of it first"
                )
            return None
        children = self._inserted(expression)
        if kind == "coerced":
            self._check_cast(children[0], expression.typed())
            if self._is_exact(children[0]):
                return self._fitted(children[0], expression.typed())
        made = [
            self._exact(child).column if kind in _OF_ANY_TYPE and self._is_exact(child) else self._changed(child)
            for child in children
        ]
        if all(each is None for each in made):
            return None
        both = [self._plain(child) if each is None else each for child, each in zip(children, made, strict=True)]
        if kind in ("and", "or"):
            return both[0] & both[1] if kind == "and" else both[0] | both[1]
        return ~both[0] if kind == "not" else self._rebuilt(expression, both)

    # Integers and decimals

    @staticmethod
    def _is_exact(expression: Expression) -> bool:
        return expression.kind in ARITHMETIC and is_exact(expression.typed())

    def _exact(self, expression: Expression) -> Exact:
        kind = expression.kind
        if kind == "coerced" and is_exact(expression.children[0].typed()):
            return self._exact(expression.children[0])
        if kind in ("+", "-", "*", "%") and self._is_exact(expression):
            one, other = (self._exact(child) for child in expression.children)
            return self._combined(expression, one, other)
        if self._is_exact(expression):
            (value,) = (self._exact(child) for child in expression.children)
            ends = -value.high, -value.low
            if kind == "abs":
                inside = value.low <= 0 <= value.high
                ends = 0 if inside else min(map(abs, (value.low, value.high))), max(-value.low, value.high)
            wide = Exact(value.column, min(value.low, ends[0]), max(value.high, ends[1]), value.scale)
            column = value.column.cast(self._holding(expression, wide))
            turned = self._turned(expression, dataclasses.replace(wide, column=column))
            return self._typed(expression, Exact(abs_(column, turned) if kind == "abs" else turned, *ends, value.scale))
        given = expression.typed()
        if not is_exact(given) and given != "void":
            raise PredicateError(_rounds(expression, given, "a number"))
        low, high, scale = (0, 0, 0) if given == "void" else range_of(given)
        if kind == "literal" and isinstance(expression.value, Number):
            low = high = int(Decimal(expression.value).scaleb(scale, _DIGITS))
        return self._typed(expression, Exact(self._made(expression), low, high, scale))

    def _turned(self, expression: Expression, value: Exact) -> Column:
        """The negative, which Spark rounds where it is long, but not a difference."""
        column = value.column
        if len(str(max(-value.low, value.high))) <= _NEGATED_DIGITS:
            return -column
        if value.scale and value.whole_digits + 1 + value.scale > _MAX_DIGITS:
            raise self._too_long(expression)
        return (column - column).cast("decimal(1,0)") - column

    def _combined(self, expression: Expression, one: Exact, other: Exact) -> Exact:
        """Of two operands, each cast to the fewest digits: the type that Spark gives the result rounds none then."""
        kind = expression.kind
        scale = one.scale + other.scale if kind == "*" else max(one.scale, other.scale)
        if kind == "*":
            ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
            digits = one.whole_digits + other.whole_digits + 1 + scale
        else:
            a, b = one.scaled(scale), other.scaled(scale)
            digits = max(one.whole_digits, other.whole_digits) + 1 + scale
            if kind == "%":  # below the divisor, of the dividend's sign
                most = min(max(-a.low, a.high), max(-b.low, b.high))
                ends = [-most if a.low < 0 else 0, most if a.high > 0 else 0]
            else:
                ends = [a.low + b.low, a.high + b.high] if kind == "+" else [a.low - b.high, a.high - b.low]
        made = Exact(one.column, min(ends), max(ends), scale)
        if self._holding(expression, made) == "bigint" and one.kind == other.kind == "bigint":
            columns = [each.column.cast("bigint") for each in (one, other)]
        elif scale and digits > _MAX_DIGITS:
            raise self._too_long(expression)
        else:
            columns = [each.column.cast(_decimal(each)) for each in (one, other)]
        return self._typed(expression, dataclasses.replace(made, column=_OPERATORS[kind](*columns)))

    def _typed(self, expression: Expression, value: Exact) -> Exact:
        return dataclasses.replace(value, column=value.column.cast(self._holding(expression, value)))

    def _holding(self, expression: Expression, value: Exact) -> str:
        if value.kind is None:
            raise self._too_long(expression)
        return value.kind

    @staticmethod
    def _too_long(expression: Expression) -> PredicateError:
        return PredicateError(
            f"{expression.shown()} may have more than the {_MAX_DIGITS} digits of Spark's decimals: cast its columns "
            "to fewer digits"
        )

    def _fitted(self, expression: Expression, kind: str) -> Column:
        """Arithmetic as an operand of a function of Spark, whose type must not change: values that do not fit fail."""
        from pyspark.sql import functions as F

        value = self._exact(expression)
        if kind in FLOATS:
            return value.column.cast(kind)  # which is checked
        low, high, scale = range_of(kind)
        if scale < value.scale:
            raise PredicateError(
                f"Spark would round {expression.shown()} to {kind}: cast its columns to fewer digits after the point"
            )
        exact = value.scaled(scale)
        if low <= exact.low and exact.high <= high:
            return value.column.cast(kind)
        ends = [F.lit(Decimal(end).scaleb(-scale, _DIGITS)) for end in (low, high)]
        why = f"{expression.shown()} does not fit {kind}: cast one of its columns to a wider type"
        beyond = (value.column < ends[0]) | (value.column > ends[1])
        return F.when(beyond, F.raise_error(F.lit(why))).otherwise(value.column.cast(kind))

    # Comparisons

    def _compared(self, expression: Expression) -> Column:
        operands = [uncast(child) for child in expression.children]
        kinds = [each.typed() for each in operands]
        present = [kind for kind in kinds if kind != "void"]
        if expression.kind == "<=>" and set(present) & set(FLOATS):
            return self._same_floats(expression, operands, kinds)
        if present and all(is_exact(kind) for kind in present):
            columns = self._alike(expression, operands, kinds)
        elif present and all(is_number(kind) for kind in present):
            columns = [self._float(each, kind, nan=False) for each, kind in zip(operands, kinds, strict=True)]
        else:
            columns = [self._made(child) for child in self._inserted(expression)]
        if expression.kind == "in":
            return columns[0].isin(*columns[1:])
        if expression.kind == "<=>":
            return columns[0].eqNullSafe(columns[1])
        return _OPERATORS[expression.kind](*columns)

    def _alike(self, expression: Expression, operands: list[Expression], kinds: list[str]) -> list[Column]:
        """Integers and decimals in one type."""
        values = [None if kind == "void" else self._exact(each) for each, kind in zip(operands, kinds, strict=True)]
        known = [value for value in values if value is not None]
        scale = max(value.scale for value in known)
        scaled = [value.scaled(scale) for value in known]
        wide = Exact(known[0].column, min(v.low for v in scaled), max(v.high for v in scaled), scale)
        kind = self._holding(expression, wide)
        return [
            (self._plain(each) if value is None else value.column).cast(kind)
            for each, value in zip(operands, values, strict=True)
        ]

    def _float(self, expression: Expression, kind: str, *, nan: bool) -> Column:
        """As float64, with NULL for NaN unless `nan`."""
        from pyspark.sql import functions as F

        self._check_cast(expression, "double")
        made = self.computed(expression).cast("double")
        return made if nan or kind not in FLOATS else F.nanvl(made, F.lit(None).cast("double"))

    def _same_floats(self, expression: Expression, operands: list[Expression], kinds: list[str]) -> Column:
        from pyspark.sql import functions as F

        one, other = (self._float(each, kind, nan=True) for each, kind in zip(operands, kinds, strict=True))
        return one.eqNullSafe(other) & ~F.isnan(one) & ~F.isnan(other)

    # Casts

    def _check_cast(self, expression: Expression, made: str) -> None:
        """Refuses a cast of Spark's analysis to a type of numbers that would round, but of a constant."""
        given = expression.typed()
        if not is_number(made) or expression.kind == "literal":
            return
        if self._is_exact(expression) and made in FLOATS:
            value = self._exact(expression)
            fits = value.scale == 0 and max(-value.low, value.high) <= 1 << FLOATS[made]
        else:
            fits = given != "string" and (not is_number(given) or holds(made, given))
        if not fits:
            raise PredicateError(_rounds(expression, given, made))


def abs_(column: Column, turned: Column) -> Column:
    """The absolute value of a column, by its negative."""
    from pyspark.sql import functions as F

    return F.greatest(column, turned)


def _decimal(value: Exact) -> str:
    """The decimals of the fewest digits that have all values."""
    digits = max(value.whole_digits + value.scale, 1)
    return f"decimal({digits},{value.scale})"


def uncast(expression: Expression) -> Expression:
    """A number without the cast to another type of numbers that Spark's analysis inserts."""
    if expression.kind == "coerced" and is_number(expression.typed()) and is_number(expression.children[0].typed()):
        return expression.children[0]
    return expression


def _has_arithmetic(expression: Expression) -> bool:
    kinds = (*ARITHMETIC, *COMPARED, "in")
    return expression.kind in kinds or any(_has_arithmetic(child) for child in expression.children)


def _rounds(expression: Expression, given: str, made: str) -> str:
    return f"Spark would cast {expression.shown()} from {given} to {made}, which may round: cast it yourself"
