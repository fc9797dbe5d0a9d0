"""Conditions of Spark Connect: the tree that its client has of a Column, with its columns as Spark resolves them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from muntin.host.errors import PredicateError
from muntin.pyspark_bridge.column_condition import (
    COMPARED,
    MONTHS,
    ColumnCondition,
    Expression,
    Interval,
    Number,
    is_number,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Of the client's functions.
_FUNCTIONS = {each: each for each in (*COMPARED, "+", "-", "and", "or", "not", "negative", "abs")}
_FUNCTIONS |= {"==": "=", "!": "not"}
_NODES: dict[Any, str] = {
    exp.And: "and",
    exp.Or: "or",
    exp.Not: "not",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "negative",
}
_ONE = ("not", "negative", "abs")  # take one operand
_GROUPS = (exp.Binary, exp.Unary, exp.Between, exp.In)
_OTHERWISE = "is SQL that Spark reads otherwise: write it with Columns"
_TYPES = exp.DataType.Type
_SUFFIXES = {_TYPES.BIGINT: "L", _TYPES.SMALLINT: "S", _TYPES.TINYINT: "Y", _TYPES.DOUBLE: "D", _TYPES.FLOAT: "F"}
_TIMES = {_TYPES.DATE: "DATE", _TYPES.TIMESTAMP: "TIMESTAMP", _TYPES.TIMESTAMPTZ: "TIMESTAMP"}
_TIMES |= {_TYPES.TIMESTAMPLTZ: "TIMESTAMP", _TYPES.TIMESTAMPNTZ: "TIMESTAMP_NTZ"}


def _cast(generator: Any, cast: exp.Cast) -> str:
    """Constants with their types, such as 5L and TIMESTAMP '2024-01-01', which the parser makes casts of."""
    literal, kind = cast.this, cast.to.this
    if isinstance(literal, exp.Literal) and kind in _SUFFIXES and not literal.is_string:
        return f"{literal.this}{_SUFFIXES[kind]}"
    if isinstance(literal, exp.Literal) and kind in _TIMES and literal.is_string:
        return f"{_TIMES[kind]} {generator.sql(literal)}"
    made = Spark.Generator.TRANSFORMS.get(type(cast))
    return str(made(generator, cast) if made is not None else generator.cast_sql(cast))


def _not(generator: Any, node: exp.Not) -> str:
    inner = node.this.unnest()
    if isinstance(inner, exp.Is):
        return f"{generator.sql(inner.this)} IS NOT {generator.sql(inner.expression)}"
    return str(generator.not_sql(node))


class _Sql(Spark):
    """Spark's SQL, of which functions are kept by their names."""

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar[dict[str, Any]] = {}

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **Spark.Generator.TRANSFORMS,
            exp.Cast: _cast,
            exp.TryCast: _cast,
            exp.Not: _not,
        }


class ConnectColumn(ColumnCondition):
    """A condition of Spark Connect. SQL in it (`F.expr`) is read by a parser, and taken where Spark reads it alike."""

    def _tree(self, condition: Column) -> Expression | None:
        # Analysed by Spark: each name is one column's, and the condition is a truth value.
        assert self._left.join(self._right, condition).columns
        self._both = self._left.crossJoin(self._right)
        self._known: dict[tuple[str, int | None], Expression | None] = {}
        self._plans = {side: set(_plan_ids(self._frame(side)._plan.to_proto(self._client).root)) for side in _SIDES}
        return self._read(condition.to_plan(self._client))  # type: ignore[operator]

    @property
    def _client(self) -> Any:
        return self._left.sparkSession.client

    def _frame(self, side: str) -> Any:
        return self._left if side == "left" else self._right

    def _node(self, kind: str, shown: str, source: Any, inner: list[Expression], value: Any = None) -> Expression:
        made = Expression(kind, lambda: shown, lambda: self._type(made).simpleString(), source, tuple(inner), value)
        if kind in COMPARED:
            one, two = (each.typed() for each in inner)
            if not _alike(one, two):  # Spark's analysis casts one of them
                made.children = Expression("coerced", inner[0].shown, lambda: two, None, (inner[0],)), inner[1]
        return made

    def _type(self, expression: Expression) -> Any:
        """Spark's type of it."""
        if expression.kind == "column":
            return self._frame(expression.value[0]).schema.fields[expression.value[1]].dataType
        if expression.kind == "field":
            return self._type(expression.children[0])[expression.value].dataType
        return self._both.select(_column(expression.source).alias("x")).schema.fields[0].dataType

    # Messages of the client

    def _read(self, message: Any) -> Expression:
        kind = message.WhichOneof("expr_type")
        if kind == "alias":
            return self._read(message.alias.expr)
        if kind == "expression_string":
            return self._sql(message.expression_string.expression)
        if kind == "literal":
            return self._literal(message)
        if kind == "unresolved_attribute":
            name = message.unresolved_attribute.unparsed_identifier
            plan = message.unresolved_attribute.plan_id if message.unresolved_attribute.HasField("plan_id") else None
            return self._reference(_parts(name), plan, message) or self._node("", name, message, [])
        inner = [self._read(each) for each in _expressions(message)]
        words = ", ".join(each.shown() for each in inner)
        if kind == "unresolved_function":
            name = message.unresolved_function.function_name
            shown = f"{name}({words})"
            if len(inner) == 2 and not re.match(r"\w", name):
                shown = f"({inner[0].shown()} {name} {inner[1].shown()})"
            known = _FUNCTIONS.get(name, "")
            return self._node(known if len(inner) == 2 - (known in _ONE) else "", shown, message, inner)
        if kind == "unresolved_extract_value":
            field = message.unresolved_extract_value.extraction.literal
            if field.WhichOneof("literal_type") == "string" and (found := self._field(inner[0], field.string, message)):
                return found
        return self._node("", f"{kind}({words})", message, inner)

    def _literal(self, message: Any) -> Expression:
        kind = message.literal.WhichOneof("literal_type")
        value: Any = getattr(message.literal, kind)
        if kind == "null":
            return self._node("literal", "NULL", message, [])
        shown = value.value if kind == "decimal" else str(value)
        if kind in ("byte", "short", "integer", "long", "float", "double", "decimal"):
            value = Number(shown)
        elif kind == "day_time_interval":
            value = Interval(value)
        elif kind not in ("boolean", "string"):
            return self._node("", shown, message, [], MONTHS if kind == "year_month_interval" else None)
        return self._node("literal", shown, message, [], value)

    # Names

    def _reference(self, parts: list[str], plan: int | None, source: Any) -> Expression | None:
        """The column or field that Spark resolves a name to, given in its parts; of one frame, where its plan is."""
        key = _name(parts), plan
        if key not in self._known:
            self._known[key] = None
            for count in range(len(parts), 0, -1):  # the longest name of a column: aliases go before fields
                places = {side: self._place(side, parts[:count], plan) for side in _SIDES}
                found = next(((side, at) for side, at in places.items() if at is not None), None)
                if found is not None:
                    made: Expression | None = self._node("column", ".".join(parts[:count]), source, [], found)
                    for field in parts[count:]:
                        made = made and self._field(made, field, source)
                    self._known[key] = made
                    break
        return self._known[key]

    def _place(self, side: str, parts: list[str], plan: int | None) -> int | None:
        """Which column of a side a name is: the one that Spark drops by it."""
        from pyspark.errors import AnalysisException

        frame = self._frame(side)
        names = frame.columns
        if plan is not None and plan not in self._plans[side]:
            return None
        if len(parts) == 1 and plan is None and parts[0] in names:  # without an alias in it
            return names.index(parts[0])
        try:
            rest = frame.drop(_column(_attribute(_name(parts), plan))).columns
        except AnalysisException:  # a column has no such field
            return None
        if len(rest) == len(names):
            return None
        return next((at for at, name in enumerate(rest) if name != names[at]), len(rest))

    def _field(self, parent: Expression, name: str, source: Any) -> Expression | None:
        fields = getattr(self._type(parent), "names", [])
        alike = [each for each in fields if each == name] or [each for each in fields if each.lower() == name.lower()]
        if not alike:
            return None
        return self._node("field", f"{parent.shown()}.{alike[0]}", source, [parent], alike[0])

    # SQL

    def _sql(self, text: str) -> Expression:
        from pyspark.sql import functions as F

        try:
            tree = sqlglot.parse_one(text, dialect=_Sql, into=exp.Condition)
        except SqlglotError as error:
            why = str(error).splitlines()[0]
            raise PredicateError(f"{text!r} in the condition is not read ({why}): write it with Columns") from error
        for node in reversed(list(tree.walk())):  # so that its text says how its parts belong together
            chained = isinstance(node, exp.Connector) and type(node.parent) is type(node)
            grouped = node.parent is None or isinstance(node.parent, exp.Paren) or chained
            if isinstance(node, _GROUPS) and not (grouped or isinstance(node, (exp.Dot, exp.Paren))):
                node.replace(exp.Paren(this=node.copy()))
        # Spark names a column by the tree that it has read.
        names = self._both.select(F.expr(text), F.expr(_text(tree))).columns
        if names[0].lower() != names[1].lower():
            return self._node("", text, _sql_message(text), self._names_in(tree), _OTHERWISE)
        return self._sql_node(tree)

    def _sql_node(self, node: Any) -> Expression:
        node = node.unnest()
        text = _text(node)
        message = _sql_message(text)
        if isinstance(node, (exp.Column, exp.Dot)):
            found = self._reference([part.name for part in node.parts], None, message) if _is_name(node) else None
            return found or self._node("", text, message, self._names_in(node))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            value, low, high = (self._sql_node(node.args[part]) for part in ("this", "low", "high"))
            ends = [self._node(">=", text, None, [value, low]), self._node("<=", text, None, [value, high])]
            return self._node("and", text, message, ends)
        if isinstance(node, exp.NEQ):
            equal = self._node("=", text, None, [self._sql_node(node.this), self._sql_node(node.expression)])
            return self._node("not", text, message, [equal])
        if isinstance(node, exp.Interval):
            return self._interval(text, message)
        constant = node.this if isinstance(node, exp.Cast) and node.to.this in _SUFFIXES else node  # 5L
        if isinstance(constant, (exp.Literal, exp.Boolean, exp.Null)):
            given: Any = None if isinstance(constant, exp.Null) else constant.this
            if isinstance(constant, exp.Literal) and not constant.is_string:
                given = Number(given)
            if (constant is node or isinstance(given, Number)) and not (isinstance(given, str) and "\\" in given):
                return self._node("literal", text, message, [], given)
        kind, parts = _NODES.get(type(node), ""), [node.this]
        if isinstance(node, exp.Anonymous) and node.name.lower() == "abs" and len(node.expressions) == 1:
            kind, parts = "abs", node.expressions
        if not kind:
            return self._node("", text, message, self._names_in(node))
        parts = parts if kind in _ONE else [node.this, node.expression]
        return self._node(kind, text, message, [self._sql_node(part) for part in parts])

    def _names_in(self, node: Any) -> list[Expression]:
        names = (self._reference([p.name for p in each.parts], None, None) for each in node.find_all(exp.Column))
        return [name for name in names if name is not None]  # others are of functions in it

    def _interval(self, text: str, message: Any) -> Expression:
        frame = self._left.sparkSession.range(1).select(_column(message).alias("x"))
        kind = frame.schema.fields[0].dataType.simpleString()
        if not kind.startswith("interval ") or "month" in kind or "year" in kind:
            return self._node("", text, message, [], MONTHS)
        value = frame.collect()[0][0]
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        return self._node("literal", text, message, [], Interval(micros))

    # Frames

    def _alias(self, frame: DataFrame) -> str | None:
        plan: Any = frame._plan
        return str(plan._alias) if type(plan).__name__ == "SubqueryAlias" else None

    def _with(self, frame: DataFrame, made: list[tuple[str, str, Expression]]) -> DataFrame:
        for side in _SIDES:
            columns = [
                _column(_free(each.source) if self._one else each.source).alias(name)
                for of, name, each in made
                if of == side
            ]
            if self._one:  # of both roles
                frame = frame.alias(str(self._alias(self._frame(side))))
            frame = frame.select("*", *columns) if columns else frame
        return frame


_SIDES = ("left", "right")


def _alike(one: str, two: str) -> bool:
    """Whether Spark compares values of two types, by their short names, as they are, or numbers, which are exact."""
    kinds = [each.split("(")[0].split(" ")[0] for each in (one, two)]
    return one == two or "void" in kinds or (is_number(one) and is_number(two)) or kinds == ["interval", "interval"]


def _parts(name: str) -> list[str]:
    """The parts of a name with dots and backticks, as Spark reads it."""
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", name)
    return [plain or quoted.replace("``", "`") for quoted, plain in found]


def _name(parts: list[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def _is_name(node: Any) -> bool:
    return all(isinstance(part, exp.Identifier) for part in node.parts)


def _text(node: Any) -> str:
    return str(node.sql(_Sql, normalize_functions=False))


def _messages(message: Any) -> Iterator[Any]:
    """The messages right in one."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            several = value.values() if hasattr(value, "values") else value
            yield from [value] if hasattr(value, "ListFields") else (m for m in several if hasattr(m, "ListFields"))


def _expressions(message: Any) -> Iterator[Any]:
    """The expressions right below one."""
    for each in _messages(message):
        if each.DESCRIPTOR.full_name == "spark.connect.Expression":
            yield each
        else:
            yield from _expressions(each)


def _plan_ids(relation: Any) -> Iterator[int]:
    """Of a relation and all below it."""
    for each in _messages(relation):
        if each.DESCRIPTOR.full_name == "spark.connect.RelationCommon":
            yield each.plan_id
        else:
            yield from _plan_ids(each)


def _free(message: Any) -> Any:
    """An expression whose names are of any frame."""
    made = type(message)()
    made.CopyFrom(message)
    waiting = [made]
    while waiting:
        each = waiting.pop()
        if each.WhichOneof("expr_type") == "unresolved_attribute":
            each.unresolved_attribute.ClearField("plan_id")
        waiting += _expressions(each)
    return made


def _attribute(name: str, plan: int | None) -> Any:
    from pyspark.sql.connect.proto import Expression as Message

    made = Message()
    made.unresolved_attribute.unparsed_identifier = name
    if plan is not None:
        made.unresolved_attribute.plan_id = plan
    return made


def _sql_message(text: str) -> Any:
    from pyspark.sql.connect.proto import Expression as Message

    made = Message()
    made.expression_string.expression = text
    return made


def _column(message: Any) -> Column:
    """A Column of the client."""
    from pyspark.sql.connect.column import Column as Made

    return Made(_given()(message))


@functools.cache
def _given() -> Any:
    from pyspark.sql.connect.expressions import Expression as Base

    class Given(Base):
        """An expression that is a message already."""

        def __init__(self, message: Any):
            super().__init__()
            self._message = message

        def to_plan(self, session: Any) -> Any:
            return self._message

        def __repr__(self) -> str:
            return "expression"

    return Given
