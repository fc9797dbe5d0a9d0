"""A condition that is a Column of Spark, as the text that a join reads and columns that Spark computes."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from muntin.host.errors import MuntinError, PredicateError
from muntin.host.sides import Side
from muntin.host.sql import parse_condition
from muntin.pyspark_bridge.computed_column import ComputedColumns, uncast
from muntin.pyspark_bridge.expression import (
    COMPARED,
    Expression,
    Interval,
    Number,
    UnknownError,
    is_exact,
    is_number,
)
from muntin.pyspark_bridge.result_schema import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ColumnCondition(ComputedColumns):
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
                "both sides are one DataFrame, and a Column does not say which of them it belongs to: give them "
                "aliases, such as df.alias('a') and df.alias('b'), and write F.col('a.x') == F.col('b.x')"
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

    def _with(self, frame: DataFrame, made: list[tuple[str, str, Expression]]) -> DataFrame:
        """A frame with columns more: for each its side, its name and its expression."""
        columns = [self.computed(each).alias(name) for _, name, each in made]
        return frame.select("*", *columns) if columns else frame

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self._computed]

    @property
    def shown(self) -> dict[str, str]:
        """What is computed, by the names of the columns."""
        return {name: each.shown() for _, name, each in self._computed}

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
        expression = uncast(expression)
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
        if kind in (*COMPARED, "+", "-") and (sums := self._sums(expression)) is not None:
            return f"({self._value(sums[0])}) {kind if kind in COMPARED else '-'} ({self._value(sums[1])})"
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
            if made == given or given == "void" or (is_number(made) and is_number(given)):
                return self._text(children[0])  # exact values are compared, whatever their types
            raise UnknownError(f"Spark would cast {children[0].shown()} from {given} to {made}: cast one side yourself")
        why = "is about both sides" if len(expression.sides()) == 2 else "is unknown"
        raise UnknownError(f"{expression.shown()} {expression.value or why}")

    def _sums(self, expression: Expression) -> tuple[Expression, Expression] | None:
        """What a comparison or a difference of integers has of the left side, and of the right with its sign turned,
        where several terms come from one side; None for others."""
        if expression.columns() < 3 or len(expression.sides()) < 2 or expression.kind == "<=>":
            return None  # a NULL term makes its own operand NULL, and may not cross to the other one
        terms: dict[str, list[tuple[int, Expression]]] = {"left": [], "right": [], "": []}
        waiting = [(1, expression.children[0]), (1 if expression.kind == "+" else -1, expression.children[1])]
        while waiting:
            sign, each = waiting.pop()
            each = uncast(each)
            if not is_exact(each.typed()):
                return None
            if each.kind in ("+", "-", "negative"):
                signs = (-sign,) if each.kind == "negative" else (sign, sign if each.kind == "+" else -sign)
                waiting += reversed(list(zip(signs, each.children, strict=True)))
            elif len(each.sides()) > 1:
                return None
            else:
                terms["".join(each.sides())].append((sign, each))
        if not (terms["left"] and terms["right"]):
            return None
        turned = [(-sign, each) for sign, each in terms["right"] + terms[""]]
        return _sum(terms["left"]), _sum(turned)

    def _column(self, side: Side, at: int) -> str:
        names = (self._left if side == "left" else self._right).columns
        if names.count(names[at]) > 1:
            raise UnknownError(f"the {side} side has several columns {names[at]!r}")
        return f"{side}.{_quoted(names[at])}"


def _sum(terms: list[tuple[int, Expression]]) -> Expression:
    """Of integers or decimals, each plus or minus."""

    def made(kind: str, *children: Expression) -> Expression:
        shown = f" {kind} ".join(child.shown() for child in children)
        return Expression(kind, lambda: shown if len(children) > 1 else f"-{shown}", children[0].typed, None, children)

    sign, total = terms[0]
    total = total if sign > 0 else made("negative", total)
    for sign, each in terms[1:]:
        total = made("+" if sign > 0 else "-", total, each)
    return total


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
