"""Conditions of classic sessions, read from the tree that Spark's analysis of the join makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.host.errors import PredicateError
from muntin.pyspark_bridge.column_condition import ColumnCondition
from muntin.pyspark_bridge.expression import (
    MICROS_PER_DAY,
    MONTHS,
    Expression,
    Interval,
    Number,
    UnknownError,
    is_number,
)
from muntin.pyspark_bridge.spark_versions import column_of, expression_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KINDS = {
    "And": "and",
    "Or": "or",
    "Not": "not",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "test",
    "IsNotNull": "test",
    "LambdaFunction": "opaque",
    "Add": "+",
    "Subtract": "-",
    "SubtractTimestamps": "-",
    "TimeAdd": "+",
    "TimestampAddInterval": "+",
    "Multiply": "*",
    "Remainder": "%",
    "UnaryMinus": "negative",
    "Abs": "abs",
    "AttributeReference": "column",
    "GetStructField": "field",
    "Literal": "literal",
}


class AnalysedColumn(ColumnCondition):
    """A condition of classic sessions."""

    def _tree(self, condition: Column) -> Expression | None:
        plan = self._left.join(self._right, condition)._jdf.queryExecution().analyzed()
        while plan.getClass().getSimpleName() != "Join":  # Spark may put a projection on top
            plan = plan.children().apply(0)
        self._sides: dict[int, tuple[str, int]] = {}
        for side, output in (("left", plan.left().output()), ("right", plan.right().output())):
            for at in range(output.size()):
                self._sides[output.apply(at).exprId().id()] = (side, at)
        whole = plan.condition()
        return self._read(whole.get(), None) if whole.isDefined() else None

    def _read(self, node: Any, common: Expression | None) -> Expression:
        kind = str(node.getClass().getSimpleName())
        if kind == "CommonExpressionRef" and common is not None:
            return common
        children = node.children()
        nodes = [children.apply(at) for at in range(children.size())]
        if kind == "With" and len(nodes) == 2:  # a value that stands twice and is computed once
            return self._read(nodes[0], self._read(nodes[1].children().apply(0), common))
        if kind in ("Between", "DatetimeSub"):  # what stands for it
            return self._read(nodes[0], common)
        if kind not in ("And", "Or") and not node.deterministic():
            raise PredicateError(f"the part {node.sql()} of the condition is not deterministic: compute a column first")
        kind = _KINDS.get(kind, "" if kind != "Cast" else "cast" if _by_user(node) else "coerced")
        value: Any = None
        if kind == "column":
            value = self._sides[node.exprId().id()]
        elif kind == "field":
            value = str(node.childSchema().fields()[node.ordinal()].name())  # whatever case the query has
        elif kind == "literal":
            try:
                value = _constant(node)
            except UnknownError as error:
                kind, value = "", str(error) or None
        made = tuple(self._read(each, common) for each in nodes)
        return Expression(kind, node.sql, lambda: str(node.dataType().simpleString()), node, made, value)

    def _alias(self, frame: DataFrame) -> str | None:
        plan = frame._jdf.queryExecution().analyzed()
        return str(plan.alias()) if plan.getClass().getSimpleName() == "SubqueryAlias" else None

    def _plain(self, expression: Expression) -> Column:
        return column_of(self._left.sparkSession, self._moved(expression.source))

    def _rebuilt(self, expression: Expression, children: list[Column]) -> Column:
        spark = self._left.sparkSession
        nodes = [expression_of(spark, child) for child in children]
        return column_of(spark, self._of_children(expression.source, nodes))

    def _inserted(self, expression: Expression) -> tuple[Expression, ...]:
        return expression.children

    def _moved(self, node: Any) -> Any:
        """An expression over a frame's own columns: the join has given those of one side other ids."""
        if node.getClass().getSimpleName() == "AttributeReference":
            side, at = self._sides[node.exprId().id()]
            frame = self._left if self._one or side == "left" else self._right
            return frame._jdf.queryExecution().analyzed().output().apply(at)
        children = [self._moved(node.children().apply(at)) for at in range(node.children().size())]
        return self._of_children(node, children) if children else node

    def _of_children(self, node: Any, children: list[Any]) -> Any:
        jvm: Any = self._left.sparkSession._jvm
        made = jvm.java.util.ArrayList()
        for child in children:
            made.add(child)
        return node.withNewChildren(jvm.PythonUtils.toSeq(made))


def _by_user(cast: Any) -> bool:
    """Whether the query has this cast, rather than Spark's analysis of it."""
    tags = getattr(cast, "getTagValue")  # noqa: B009
    return bool(tags(cast.USER_SPECIFIED_CAST()).isDefined())


def _constant(literal: Any) -> Any:
    """What a literal is, as `Expression` has it. Raises UnknownError."""
    kind, value = literal.dataType().simpleString(), literal.value()
    if value is None or kind == "boolean":
        return value
    if kind == "string":
        return str(value.toString() if hasattr(value, "toString") else value)
    if is_number(kind):
        return Number(literal.value().toString() if hasattr(value, "toString") else repr(value))
    if kind == "interval" and not value.months:
        return Interval(value.days * MICROS_PER_DAY + value.microseconds)
    if kind.startswith("interval ") and not ("year" in kind or "month" in kind):
        return Interval(int(value))
    raise UnknownError(MONTHS if kind.startswith("interval") else "")
