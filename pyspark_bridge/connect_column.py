"""Conditions of Spark Connect: the tree that its client has of a Column, with its columns as Spark resolves them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from muntin.host.errors import PredicateError
from muntin.host.sides import SIDES, Side
from muntin.pyspark_bridge.column_condition import ColumnCondition
from muntin.pyspark_bridge.computed_column import ARITHMETIC
from muntin.pyspark_bridge.expression import COMPARED, FLOATS, MONTHS, Expression, Interval, Number, holds, is_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Of the client's functions.
_FUNCTIONS = {each: each for each in (*COMPARED, *ARITHMETIC, "and", "or", "not", "in")}
_FUNCTIONS |= {"==": "=", "!": "not", "isnull": "test", "isnotnull": "test"}
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
    exp.Mul: "*",
    exp.Mod: "%",
    exp.Neg: "negative",
}
_SQL_FUNCTIONS = {exp.Div: "/", exp.IntDiv: "div"}
_ONE = ("not", "negative", "abs", "test")  # take one operand
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
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: made
            for name, made in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "TRIM")  # have words in them
        }

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
        self._types: dict[bytes, Any] = {}
        self._plans = {side: set(_plan_ids(self._frame(side)._plan.to_proto(self._client).root)) for side in SIDES}
        return self._read(condition.to_plan(self._client))  # type: ignore[operator]

    @property
    def _client(self) -> Any:
        return self._left.sparkSession.client

    def _frame(self, side: Side) -> Any:
        return self._left if side == "left" else self._right

    def _node(self, kind: str, shown: str, source: Any, inner: Iterable[Expression], value: Any = None) -> Expression:
        inner = tuple(inner)
        made = Expression(kind, lambda: shown, lambda: self._type(made).simpleString(), source, inner, value)
        if kind in COMPARED:
            one, two = (each.typed() for each in inner)
            if not _alike(one, two):  # Spark's analysis casts one of them
                first = not (is_number(one) and two == "string")
                made.children = (_coerced(inner[0], two), inner[1]) if first else (inner[0], _coerced(inner[1], one))
        return made

    def _type(self, expression: Expression) -> Any:
        """Spark's type of it."""
        if expression.kind == "column":
            return self._frame(expression.value[0]).schema.fields[expression.value[1]].dataType
        if expression.kind == "field":
            return self._type(expression.children[0])[expression.value].dataType
        key = expression.source.SerializeToString()
        if key not in self._types:
            self._types[key] = self._both.select(_column(expression.source).alias("x")).schema.fields[0].dataType
        return self._types[key]

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
        if kind == "lambda_function":
            return self._node("opaque", kind, message, list(self._inside(message)))
        inner = [self._read(each) for each in _expressions(message)]
        words = ", ".join(each.shown() for each in inner)
        if kind == "unresolved_function":
            name = message.unresolved_function.function_name
            shown = f"{name}({words})"
            if len(inner) == 2 and not re.match(r"\w", name):
                shown = f"({inner[0].shown()} {name} {inner[1].shown()})"
            known = _FUNCTIONS.get(name.lower(), "")
            fits = known == "in" or len(inner) == 2 - (known in _ONE)
            return self._node(known if fits else "", shown, message, inner)
        if kind == "unresolved_extract_value":
            field = message.unresolved_extract_value.extraction.literal
            if field.WhichOneof("literal_type") == "string" and (found := self._field(inner[0], field.string, message)):
                return found
        return self._node("cast" if kind == "cast" else "", f"{kind}({words})", message, inner)

    def _inside(self, message: Any) -> Iterator[Expression]:
        """What is in a function of elements, whose types Spark does not say: names, and what is computed there."""
        for each in _expressions(message):
            if each.WhichOneof("expr_type") in ("unresolved_attribute", "expression_string"):
                yield self._read(each)
            known = _FUNCTIONS.get(each.unresolved_function.function_name.lower(), "")
            yield Expression(known, lambda: "", lambda: "", each, tuple(self._inside(each)))

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
                places = {side: self._place(side, parts[:count], plan) for side in SIDES}
                found = next(((side, at) for side, at in places.items() if at is not None), None)
                if found is not None:
                    made: Expression | None = self._node("column", ".".join(parts[:count]), source, [], found)
                    for field in parts[count:]:
                        made = made and self._field(made, field, source)
                    self._known[key] = made
                    break
        return self._known[key]

    def _place(self, side: Side, parts: list[str], plan: int | None) -> int | None:
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
            return self._opaque(tree, text, _OTHERWISE)
        return self._sql_node(tree)

    def _sql_node(self, node: Any) -> Expression:
        node = node.unnest()
        text = _text(node)
        message = _sql_message(text)
        if isinstance(node, (exp.Column, exp.Dot)):
            found = self._reference([part.name for part in node.parts], None, message) if _is_name(node) else None
            return found or self._opaque(node, text)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            value, low, high = (self._sql_node(node.args[part]) for part in ("this", "low", "high"))
            ends = [self._call(">=", text, [value, low]), self._call("<=", text, [value, high])]
            return self._node("and", text, message, ends)
        if isinstance(node, (exp.NEQ, exp.NullSafeNEQ)):
            both = [self._sql_node(node.this), self._sql_node(node.expression)]
            equal = self._call("=" if isinstance(node, exp.NEQ) else "<=>", text, both)
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
        if kind:
            parts = parts if kind in _ONE else [node.this, node.expression]
            return self._call(kind, text, [self._sql_node(part) for part in parts])
        return self._sql_function(node, text) or self._opaque(node, text)

    def _sql_function(self, node: Any, text: str) -> Expression | None:
        """What Spark has as a function of operands that are taken apart; None for other nodes."""
        if isinstance(node, exp.Cast) and text.upper().startswith("CAST(") and not isinstance(node.this, exp.Literal):
            inner = self._sql_node(node.this)
            message = _message()
            message.cast.expr.CopyFrom(inner.source)
            message.cast.type_str = node.to.sql(_Sql)
            return self._node("cast", text, message, [inner])
        name, parts = _SQL_FUNCTIONS.get(type(node)), [node.this, node.expression]
        if isinstance(node, exp.Anonymous) and node.expressions and not node.find(exp.Lambda, exp.Distinct):
            name, parts = node.name, node.expressions
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            name, parts = "isnull", [node.this]
        elif isinstance(node, exp.In) and node.expressions:
            return self._call("in", text, [self._sql_node(part) for part in (node.this, *node.expressions)])
        elif isinstance(node, exp.If):
            name, parts = "when", [node.args[part] for part in ("this", "true", "false") if node.args.get(part)]
        elif isinstance(node, exp.Case):
            name, parts = "when", [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
            if node.this is not None:
                parts[::2] = [exp.EQ(this=node.this.copy(), expression=part.copy()) for part in parts[::2]]
            parts += [node.args["default"]] if node.args.get("default") is not None else []
        return None if name is None else self._call(name, text, [self._sql_node(part) for part in parts])

    def _call(self, name: str, text: str, inner: list[Expression]) -> Expression:
        message = _message()
        message.unresolved_function.function_name = "==" if name == "=" else name
        message.unresolved_function.arguments.extend(each.source for each in inner)
        return self._node(_FUNCTIONS.get(name.lower(), ""), text, message, inner)

    def _opaque(self, node: Any, text: str, value: str | None = None) -> Expression:
        """SQL that is not taken apart: the names in it, but for those of functions there, and what it computes."""
        names = (
            self._reference([part.name for part in each.parts], None, _sql_message(_text(each)))
            for each in node.find_all(exp.Column)
        )
        kinds = [_NODES.get(type(each), "in" if isinstance(each, (exp.In, exp.Between, exp.NEQ)) else "")
                 for each in node.walk()]  # fmt: skip
        inner = [Expression(kind, lambda: "", lambda: "", None) for kind in kinds if kind]
        inner += [name for name in names if name is not None]
        return self._node("opaque", text, _sql_message(text), inner, value)

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
        if not self._one:
            return super()._with(frame, made)
        for side in SIDES:  # of both roles
            frame = frame.alias(str(self._alias(self._frame(side))))
            frame = super()._with(frame, [each for each in made if each[0] == side])
        return frame

    def _plain(self, expression: Expression) -> Column:
        if expression.kind == "coerced":  # Spark's analysis inserts it again
            return self._plain(expression.children[0])
        return _column(_free(expression.source) if self._one else expression.source)

    def _rebuilt(self, expression: Expression, children: list[Column]) -> Column:
        if expression.kind == "coerced":
            return children[0]
        operands: list[Any] = [child.to_plan(self._client) for child in children]  # type: ignore[operator]
        return _column(_of_operands(expression.source, operands))

    def _inserted(self, expression: Expression) -> tuple[Expression, ...]:
        if expression.kind not in ("", *ARITHMETIC):
            return expression.children
        return tuple(self._cast(expression, at, child) for at, child in enumerate(expression.children))

    def _cast(self, expression: Expression, at: int, child: Expression) -> Expression:
        """An operand with the cast to another type of numbers that Spark's analysis inserts, if that may round."""
        if child.kind in ("literal", "opaque"):
            return child
        given, made = child.typed(), expression.typed()
        if given == "string" and is_number(made):
            kinds = ["bigint", "double"]
        elif is_number(given):
            kinds = [kind for kind in dict.fromkeys(("double", "float", "int", made)) if is_number(kind)]
            wide = self._is_exact(child)  # wider than Spark's type of it
            kinds = [kind for kind in kinds if not holds(kind, given) or (wide and kind in FLOATS)]
        else:
            return child
        before = self._both.select(_column(expression.source))
        for kind in kinds:
            operands = list(_expressions(expression.source))
            cast = _message()
            cast.cast.expr.CopyFrom(operands[at])
            cast.cast.type_str = kind
            operands[at] = cast
            if before.sameSemantics(self._both.select(_column(_of_operands(expression.source, operands)))):
                return _coerced(child, kind)
        return child


def _coerced(expression: Expression, kind: str) -> Expression:
    return Expression("coerced", expression.shown, lambda: kind, None, (expression,))


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


def _of_operands(message: Any, operands: list[Any]) -> Any:
    """A message with others for the expressions right below it."""
    made = type(message)()
    made.CopyFrom(message)
    for place, operand in zip(list(_expressions(made)), operands, strict=True):
        place.CopyFrom(operand)
    return made


def _free(message: Any) -> Any:
    """An expression whose names may belong to any frame."""
    made = type(message)()
    made.CopyFrom(message)
    waiting = [made]
    while waiting:
        each = waiting.pop()
        if each.WhichOneof("expr_type") == "unresolved_attribute":
            each.unresolved_attribute.ClearField("plan_id")
        waiting += _expressions(each)
    return made


def _message() -> Any:
    from pyspark.sql.connect.proto import Expression as Message

    return Message()


def _attribute(name: str, plan: int | None) -> Any:
    made = _message()
    made.unresolved_attribute.unparsed_identifier = name
    if plan is not None:
        made.unresolved_attribute.plan_id = plan
    return made


def _sql_message(text: str) -> Any:
    made = _message()
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
