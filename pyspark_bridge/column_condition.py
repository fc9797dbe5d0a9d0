"""A condition that is a Column of Spark, as the text that a join reads and columns that Spark computes."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from muntin.host.errors import MuntinError, PredicateError
from muntin.host.sql import parse_condition
from muntin.pyspark_bridge.result_schema import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMPARED = ("=", "<=>", "<", "<=", ">", ">=")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
MICROS_PER_DAY = 86_400_000_000
MONTHS = "has months or years, which have no fixed length"


class UnknownError(Exception):
    """An expression that Spark is to compute."""


@dataclasses.dataclass
class Expression:
    """A node of a condition's tree.

    Attributes
    ----------
    kind : str
        A comparison or "+", "-"; "and", "or", "not", "negative", "abs"; "column", "field", "literal"; "coerced", a cast
        that Spark's analysis inserts; anything else is for Spark to compute.
    shown : callable
        The text that errors have of it.
    typed : callable
        Spark's short name of its type.
    source : object
        What Spark computes it from.
    children : tuple of Expression
    value : object
        Of a column its side and place there, of a field its name, of a literal what it is: None, a bool, a str, an
        `Interval` or a `Number`; of another kind what is wrong with it, or None.
    """

    kind: str
    shown: Callable[[], str]
    typed: Callable[[], str]
    source: Any
    children: tuple[Expression, ...] = ()
    value: Any = None

    def sides(self) -> set[str]:
        """The sides that it is about."""
        if self.kind == "column":
            return {self.value[0]}
        return {side for child in self.children for side in child.sides()}

    def columns(self) -> int:
        """How many columns are in it, one that is there twice counted twice."""
        return (self.kind == "column") + sum(child.columns() for child in self.children)

    def conjunction(self) -> list[Expression]:
        """What AND joins, in the text's order."""
        found, waiting = [], [self]
        while waiting:
            each = waiting.pop()
            if each.kind == "and":
                waiting += reversed(each.children)
            else:
                found.append(each)
        return found


class Number(str):
    """A number as it is written."""


class Interval(int):
    """Microseconds."""


class ColumnCondition(ABC):
    """The text of a condition, over columns of both sides and others that Spark computes.

    Parameters
    ----------
    left, right : DataFrame
    condition : Column
    one : bool
        Both are one frame, which has two aliases.

    Attributes
    ----------
    text : str
        As `parse_condition` reads it.
    names : list of str
        Of the columns that are computed.

    Raises
    ------
    PredicateError
        What a condition here cannot be, with the part that is not.
    """

    def __init__(self, left: DataFrame, right: DataFrame, condition: Column, one: bool):
        from pyspark.errors import AnalysisException

        self._left, self._right, self._one = left, right, one
        if one and len({self._alias(left), self._alias(right)} - {None}) < 2:
            raise PredicateError(
                "both sides are one DataFrame, and a Column does not say which of them it is of: give them aliases, "
                "such as df.alias('a') and df.alias('b'), and write F.col('a.x') == F.col('b.x')"
            )
        try:
            tree = self._tree(condition)
        except AnalysisException as error:
            raise PredicateError(f"Spark does not take the condition: {str(error).splitlines()[0]}") from error
        self._computed: list[tuple[str, str, Expression]] = []
        self._frames: tuple[int, Any] = (-1, None)
        taken = set(left.columns) | set(right.columns)
        self._free = (name for name in (f"_on{number}" for number in range(1 << 30)) if name not in taken)
        texts = [self._part(part) for part in ([] if tree is None else tree.conjunction())]
        self.text = " AND ".join(f"({text})" for text in texts) or "TRUE"

    @abstractmethod
    def _tree(self, condition: Column) -> Expression | None:
        """The condition of the join; None for TRUE. Raises AnalysisException, PredicateError."""

    @abstractmethod
    def _alias(self, frame: DataFrame) -> str | None:
        """The name that `DataFrame.alias` has given."""

    @abstractmethod
    def _with(self, frame: DataFrame, made: list[tuple[str, str, Expression]]) -> DataFrame:
        """A frame with columns more: for each its side, its name and its expression."""

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self._computed]

    def frames(self) -> tuple[DataFrame, DataFrame]:
        """The sides with the columns that are computed; one object where they are one frame."""
        if self._frames[0] != len(self._computed):
            of = {side: [made for made in self._computed if made[0] == side] for side in ("left", "right")}
            if self._one:
                both = self._with(self._left, of["left"] + of["right"])
                made = both, both
            else:
                made = self._with(self._left, of["left"]), self._with(self._right, of["right"])
            self._frames = len(self._computed), made
        return self._frames[1]

    def _part(self, part: Expression) -> str:
        before = len(self._computed)
        failed: Exception
        try:
            text = self._text(part)
            schemas = [
                arrow_schema_of(frame, side) for frame, side in zip(self.frames(), ("left", "right"), strict=True)
            ]
            parse_condition(text, *schemas)
            return text
        except (UnknownError, MuntinError) as error:
            failed = error
        self._forget(before)
        if len(part.sides()) == 1:
            return f"{self._compute(part)} = TRUE"
        raise PredicateError(
            f"the part {part.shown()} of the condition is none of a window join's: {failed}"
        ) from failed

    def _forget(self, count: int) -> None:
        del self._computed[count:]
        self._frames = (-1, None)

    def _compute(self, expression: Expression) -> str:
        (side,) = expression.sides()
        name = next(self._free)
        self._computed.append((side, name, expression))
        return f'{side}."{name}"'

    def _value(self, expression: Expression) -> str:
        """An operand: what is no column plus or minus a constant, Spark computes where its rows are."""
        sides = expression.sides()
        try:
            if len(sides) == 1 and expression.columns() > 1:
                raise UnknownError(f"{expression.shown()} has several columns of one side")
            return self._text(expression)
        except UnknownError:
            if len(sides) != 1 or expression.kind == "coerced":
                raise
            return self._compute(expression)

    def _text(self, expression: Expression) -> str:
        kind, children = expression.kind, expression.children
        if kind in ("and", "or"):
            return f"({self._text(children[0])}) {kind.upper()} ({self._text(children[1])})"
        if kind == "not":
            return f"NOT ({self._text(children[0])})"
        if kind in COMPARED or kind in ("+", "-"):
            return f"({self._value(children[0])}) {kind} ({self._value(children[1])})"
        if kind == "negative":
            return f"-({self._value(children[0])})"
        if kind == "abs" and len(expression.sides()) == 2:
            return f"abs({self._value(children[0])})"
        if kind == "column":
            return self._column(*expression.value)
        if kind == "field":
            return f"{self._text(children[0])}.{_quoted(expression.value)}"
        if kind == "literal":
            return _literal(expression.value)
        if kind == "coerced":
            made, given = expression.typed(), children[0].typed()
            if made == given or (is_number(made) and is_number(given)):
                return self._text(children[0])  # exact values are compared, whatever their types
            raise UnknownError(f"Spark would cast {children[0].shown()} from {given} to {made}: cast one side yourself")
        why = "is about both sides" if len(expression.sides()) == 2 else "is unknown"
        raise UnknownError(f"{expression.shown()} {expression.value or why}")

    def _column(self, side: str, at: int) -> str:
        names = (self._left if side == "left" else self._right).columns
        if names.count(names[at]) > 1:
            raise UnknownError(f"the {side} side has several columns {names[at]!r}")
        return f"{side}.{_quoted(names[at])}"


def is_number(kind: str) -> bool:
    """Whether a type, by Spark's short name, has numbers."""
    return kind.split("(")[0] in _NUMBERS


def _quoted(name: str) -> str:
    if any(letter in name for letter in '"`.'):
        raise UnknownError(f"the name {name!r} has a quote or a dot")
    return f'"{name}"'


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Interval):
        return f"({'-' if value < 0 else ''}INTERVAL '{abs(value)}' MICROSECOND)"
    if isinstance(value, Number):
        if not set(value.lower()) <= set("0123456789.e+-"):
            raise UnknownError(f"{value} is no number")
        return f"({value})"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise UnknownError(f"{value!r} is unknown")
