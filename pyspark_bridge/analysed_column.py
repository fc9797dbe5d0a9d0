"""Conditions of classic sessions, read from the tree that Spark's analysis of the join makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.host.errors import PredicateError
from muntin.pyspark_bridge.column_condition import (
    MICROS_PER_DAY,
    MONTHS,
    ColumnCondition,
    Expression,
    Interval,
    Number,
    UnknownError,
    is_number,
)
from muntin.pyspark_bridge.spark_versions import column_of

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
    "Add": "+",
    "Subtract": "-",
    "SubtractTimestamps": "-",
    "TimeAdd": "+",
    "TimestampAddInterval": "+",
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
        kind = _KINDS.get(kind, "coerced" if kind == "Cast" and not _by_user(node) else "")
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

    def _with(self, frame: DataFrame, made: list[tuple[str, str, Expression]]) -> DataFrame:
        if not made:
            return frame
        output = frame._jdf.queryExecution().analyzed().output()
        spark = frame.sparkSession
        columns = [column_of(spark, self._moved(spark, each.source, output)).alias(name) for _, name, each in made]
        return frame.select("*", *columns)

    def _moved(self, spark: Any, node: Any, output: Any) -> Any:
        """An expression over a frame's own columns: the join has given those of one side other ids."""
        if node.getClass().getSimpleName() == "AttributeReference":
            return output.apply(self._sides[node.exprId().id()][1])
        children = spark._jvm.java.util.ArrayList()
        for at in range(node.children().size()):
            children.add(self._moved(spark, node.children().apply(at), output))
        return node.withNewChildren(spark._jvm.PythonUtils.toSeq(children)) if children else node


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
