"""A condition that is a Column of Spark, read from the tree that Spark's analysis of the join makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.host.errors import MuntinError, PredicateError
from muntin.host.sql import parse_condition
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from muntin.pyspark_bridge.spark_versions import column_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COMPARED = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_ADDED = {"Add": "+", "Subtract": "-", "TimeAdd": "+", "TimestampAddInterval": "+"}
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_MICROS_PER_DAY = 86_400_000_000


class _UnknownError(Exception):
    """An expression that Spark is to compute."""


class AnalysedColumn:
    """The text of a condition, over columns of both sides and others that Spark computes.

    Parameters
    ----------
    left, right : DataFrame
        Of a classic session.
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
        if one and len({_alias(left), _alias(right)} - {None}) < 2:
            raise PredicateError(
                "both sides are one DataFrame, and a Column does not say which of them it is of: give them aliases, "
                "such as df.alias('a') and df.alias('b'), and write F.col('a.x') == F.col('b.x')"
            )
        try:
            plan = left.join(right, condition)._jdf.queryExecution().analyzed()
        except AnalysisException as error:
            raise PredicateError(f"Spark does not take the condition: {str(error).splitlines()[0]}") from error
        while plan.getClass().getSimpleName() != "Join":  # Spark may put a projection on top
            plan = plan.children().apply(0)
        self._sides: dict[int, tuple[str, int]] = {}
        for side, output in (("left", plan.left().output()), ("right", plan.right().output())):
            for at in range(output.size()):
                self._sides[output.apply(at).exprId().id()] = (side, at)
        self._common: Any = None
        self._computed: list[tuple[str, str, Any]] = []
        taken = set(left.columns) | set(right.columns)
        self._free = (name for name in (f"_on{number}" for number in range(1 << 30)) if name not in taken)
        whole = plan.condition()
        parts = _conjunction(whole.get()) if whole.isDefined() else []
        texts = [self._part(part) for part in parts]
        self.text = " AND ".join(f"({text})" for text in texts) or "TRUE"

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self._computed]

    def frames(self) -> tuple[DataFrame, DataFrame]:
        """The sides with the columns that are computed; one object where they are one frame."""
        if self._one:
            both = self._with(self._left, ("left", "right"))
            return both, both
        return self._with(self._left, ("left",)), self._with(self._right, ("right",))

    def _with(self, frame: DataFrame, sides: tuple[str, ...]) -> DataFrame:
        made = [(name, expression) for side, name, expression in self._computed if side in sides]
        if not made:
            return frame
        output = frame._jdf.queryExecution().analyzed().output()
        columns = [column_of(frame.sparkSession, self._moved(frame, each, output)).alias(name) for name, each in made]
        return frame.select("*", *columns)

    def _moved(self, frame: DataFrame, expression: Any, output: Any) -> Any:
        """An expression over a frame's own columns: the join has given those of one side other ids."""
        if _kind(expression) == "AttributeReference":
            return output.apply(self._sides[expression.exprId().id()][1])
        jvm: Any = frame.sparkSession._jvm
        children = jvm.java.util.ArrayList()
        for child in _children(expression):
            children.add(self._moved(frame, child, output))
        return expression.withNewChildren(jvm.PythonUtils.toSeq(children)) if children else expression

    def _part(self, part: Any) -> str:
        if not part.deterministic():
            raise PredicateError(f"the part {part.sql()} of the condition is not deterministic: compute a column first")
        before = len(self._computed)
        failed: Exception
        try:
            text = self._text(part)
            schemas = [
                arrow_schema_of(frame, side) for frame, side in zip(self.frames(), ("left", "right"), strict=True)
            ]
            parse_condition(text, *schemas)
            return text
        except (_UnknownError, MuntinError) as error:
            failed = error
        del self._computed[before:]
        self._common = None
        sides = self._of(part)
        if len(sides) == 1:
            return f"{self._compute(part)} = TRUE"
        raise PredicateError(f"the part {part.sql()} of the condition is none of a window join's: {failed}") from failed

    def _of(self, expression: Any) -> set[str]:
        """The sides that an expression is about."""
        if _kind(expression) == "AttributeReference":
            return {self._sides[expression.exprId().id()][0]}
        if _kind(expression) == "CommonExpressionRef":
            return set() if self._common is None else self._of(self._common)
        return {side for child in _children(expression) for side in self._of(child)}

    def _columns(self, expression: Any) -> int:
        return (_kind(expression) == "AttributeReference") + sum(self._columns(c) for c in _children(expression))

    def _compute(self, expression: Any) -> str:
        (side,) = self._of(expression)
        name = next(self._free)
        self._computed.append((side, name, expression))
        return f'{side}."{name}"'

    def _value(self, expression: Any) -> str:
        """An operand: what is no column plus or minus a constant, Spark computes where its rows are."""
        sides = self._of(expression)
        try:
            if len(sides) == 1 and self._columns(expression) > 1:
                raise _UnknownError(f"{expression.sql()} has several columns of one side")
            return self._text(expression)
        except _UnknownError:
            kind = _kind(expression)
            if len(sides) != 1 or (kind == "Cast" and not _by_user(expression)):
                raise
            return self._compute(expression)

    def _text(self, expression: Any) -> str:
        kind, children = _kind(expression), _children(expression)
        if kind in ("And", "Or"):
            return f"({self._text(children[0])}) {kind.upper()} ({self._text(children[1])})"
        if kind == "Not":
            return f"NOT ({self._text(children[0])})"
        if kind in _COMPARED:
            return f"({self._value(children[0])}) {_COMPARED[kind]} ({self._value(children[1])})"
        if kind == "Between":  # a conjunction over a value that is computed once
            return self._text(children[0])
        if kind == "With" and len(children) == 2:
            outer, self._common = self._common, _children(children[1])[0]
            text = self._text(children[0])
            self._common = outer
            return text
        if kind == "CommonExpressionRef" and self._common is not None:
            return self._text(self._common)
        if kind in _ADDED:
            return f"({self._value(children[0])}) {_ADDED[kind]} ({self._value(children[1])})"
        if kind == "UnaryMinus":
            return f"-({self._value(children[0])})"
        if kind == "DatetimeSub":
            return self._text(children[0])
        if kind == "Abs" and len(self._of(expression)) == 2:
            return f"abs({self._value(children[0])})"
        if kind == "AttributeReference":
            return self._column(expression)
        if kind == "GetStructField":
            return f"{self._text(children[0])}.{_quoted(expression.extractFieldName())}"
        if kind == "Literal":
            return _literal(expression)
        if kind == "Cast" and not _by_user(expression):
            made, given = (each.dataType().simpleString() for each in (expression, children[0]))
            if made == given or (_is_number(made) and _is_number(given)):
                return self._text(children[0])  # exact values are compared, whatever their types
            raise _UnknownError(f"Spark would cast {children[0].sql()} from {given} to {made}: cast one side yourself")
        raise _UnknownError(f"{expression.sql()} is about both sides" if children else f"{expression.sql()} is unknown")

    def _column(self, attribute: Any) -> str:
        side, at = self._sides[attribute.exprId().id()]
        names = (self._left if side == "left" else self._right).columns
        if names.count(names[at]) > 1:
            raise _UnknownError(f"the {side} side has several columns {names[at]!r}")
        return f"{side}.{_quoted(names[at])}"


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _children(expression: Any) -> list[Any]:
    children = expression.children()
    return [children.apply(at) for at in range(children.size())]


def _conjunction(expression: Any) -> list[Any]:
    """What AND joins, in the text's order."""
    found, waiting = [], [expression]
    while waiting:
        each = waiting.pop()
        if _kind(each) == "And":
            waiting += reversed(_children(each))
        else:
            found.append(each)
    return found


def _alias(frame: DataFrame) -> str | None:
    plan = frame._jdf.queryExecution().analyzed()
    return str(plan.alias()) if plan.getClass().getSimpleName() == "SubqueryAlias" else None


def _by_user(cast: Any) -> bool:
    """Whether the query has this cast, rather than Spark's analysis of it."""
    tags = getattr(cast, "getTagValue")  # noqa: B009
    return bool(tags(cast.USER_SPECIFIED_CAST()).isDefined())


def _is_number(kind: str) -> bool:
    return kind.split("(")[0] in _NUMBERS


def _quoted(name: str) -> str:
    if any(letter in name for letter in '"`.'):
        raise _UnknownError(f"the name {name!r} has a quote or a dot")
    return f'"{name}"'


def _literal(literal: Any) -> str:
    kind, value = literal.dataType().simpleString(), literal.value()
    if value is None:
        return "NULL"
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind == "string":
        return "'" + str(value.toString() if hasattr(value, "toString") else value).replace("'", "''") + "'"
    if _is_number(kind):
        text = literal.value().toString() if hasattr(value, "toString") else repr(value)
        if (
            not text.strip("-")
            .replace(".", "")
            .replace("E", "")
            .replace("e", "")
            .replace("-", "")
            .replace("+", "")
            .isdigit()
        ):
            raise _UnknownError(f"{literal.sql()} is no number")
        return f"({text})"
    if kind == "interval":
        if value.months:
            raise _UnknownError(f"{literal.sql()}: months have no fixed length")
        return _interval(value.days * _MICROS_PER_DAY + value.microseconds)
    if kind.startswith("interval") and not ("year" in kind or "month" in kind):
        return _interval(int(value))
    if kind.startswith("interval"):
        raise _UnknownError(f"{literal.sql()}: months and years have no fixed length")
    raise _UnknownError(f"{literal.sql()} is unknown")


def _interval(micros: int) -> str:
    return f"({'-' if micros < 0 else ''}INTERVAL '{abs(micros)}' MICROSECOND)"
