"""Joins and join conditions as SQL text, read into the same `JoinSpec` as objects are.

sqlglot makes the tree; here it becomes bands, comparisons, windows, or an error that names the place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType
from sqlglot.tokens import Tokenizer as BaseTokenizer

from muntin.host.columns import column_type, has_column
from muntin.host.constants import exact_float, moment, read_moment
from muntin.host.durations import duration_text, nanoseconds
from muntin.host.errors import KeyTypeError, MuntinError, PredicateError, SqlError, WindowError
from muntin.host.join.condition import Condition
from muntin.host.key_type import NANOS_PER_DAY, Family, KeyType, key_type, key_types
from muntin.host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Predicate, Where, one_sided
from muntin.host.predicates.where import DISTINCT
from muntin.host.spec import JoinSpec
from muntin.host.windows import Rows, Watermark, Within

SIDES = ("left", "right")
Node = Any  # of sqlglot's tree


@dataclasses.dataclass(frozen=True)
class SqlJoin:
    """A join as a SQL text has it.

    Attributes
    ----------
    left, right : str
        Names of the tables of the two sides, as the text has them.
    spec : JoinSpec
        The join; its `select` names the columns that the text selects.
    columns : tuple of (str, str)
        Of each column of the text's result, its name in the result of the specification and the name that it is given.
    """

    left: str
    right: str
    spec: JoinSpec
    columns: tuple[tuple[str, str], ...]


def parse_join(
    text: str,
    schemas: Mapping[str, pa.Schema],
    *,
    rows: tuple[int | Rows, int | Rows] | None = None,
    times: tuple[str, str] | None = None,
    watermark: Watermark | None = None,
    event_times: Mapping[str, Iterable[str]] | None = None,
    bounded: Mapping[str, int] | None = None,
    suffix: str = "_right",
    **options: Any,
) -> SqlJoin:
    """Reads ``SELECT ... FROM a JOIN b ON ...``.

    Parameters
    ----------
    text : str
    schemas : mapping of str to pyarrow.Schema
        The columns of each table, by its name.
    rows : (left, right), optional
        Count windows. Then bounds on times are parts of the condition like others.
    times : (str, str), optional
        The event-time columns of the left and the right side. By default the first pair of timestamps, one of each
        side, whose difference the text bounds at both ends.
    watermark : Watermark, optional
    event_times : mapping of str to iterable of str, optional
        By the names of the tables, columns that carry a watermark: a pair of them goes before other timestamps.
    bounded : mapping of str to int, optional
        The rows of each table, where these are all that there will be: its count windows, where there is no window.
    suffix, **options
        Of `JoinSpec`.

    Raises
    ------
    SqlError
        What the text has and a join here has not, with its line and column.
    WindowError
        If `times` names columns whose difference the text does not bound at both ends.
    MuntinError
        What `JoinSpec` raises.
    """
    reader = _Reader(text)
    with reader.shallow():
        return _join(reader, schemas, rows, times, watermark, event_times or {}, bounded, suffix, options)


def _join(
    reader: _Reader, schemas: Mapping[str, pa.Schema], rows: Any, times: Any, watermark: Watermark | None,
    event_times: Mapping[str, Iterable[str]], bounded: Mapping[str, int] | None, suffix: str, options: dict[str, Any],
) -> SqlJoin:  # fmt: skip
    tree = reader.statement()
    tables, how = reader.tables(tree, schemas)
    names = {side: name for side, (name, _) in zip(SIDES, tables, strict=True)}
    sides = {side: schemas[name] for side, name in names.items()}
    reader.know(sides, {side: alias for side, (_, alias) in zip(SIDES, tables, strict=True)})
    join, where = tree.args["joins"][0], tree.args.get("where")
    conditions = [join.args.get("on"), where and where.this]
    parts = reader.conjunction(*((each, True) for each in conditions if each is not None))
    windows: dict[str, Any] = {}
    if reader.as_of:
        if rows is not None or times is not None:
            raise WindowError("an as-of join has no window: leave out rows= and times=")
        on: Any = reader.nearest(join, parts)
    elif rows is not None:
        windows = dict(zip(SIDES, rows, strict=True))
    else:
        within = reader.window(parts, times, {side: event_times.get(name, ()) for side, name in names.items()})
        if within is not None:
            windows["within"] = within
        elif times is not None:
            raise WindowError(
                f"the text bounds no difference of {times!r} at both ends, as 'a.time BETWEEN b.time - INTERVAL 1 "
                "MINUTE AND b.time' would"
            )
        elif bounded is not None:
            windows = {side: Rows(max(1, bounded[name])) for side, name in names.items()}
    if not reader.as_of:
        on = reader.whole(parts)
    spec = JoinSpec(on=on, how=how, suffix=suffix, watermark=watermark, **windows, **options)
    columns = reader.selected(tree, spec, sides)
    made = tuple(name for _, _, name in spec.output_columns(sides["left"], sides["right"]))
    if columns is None:
        columns = [(name, name) for name in made]
    else:
        selected = tuple(dict.fromkeys(name for name, _ in columns))
        if selected != made:
            spec = dataclasses.replace(spec, select=selected)
    return SqlJoin(tables[0][0], tables[1][0], spec, tuple(columns))


def parse_condition(text: str, left: pa.Schema, right: pa.Schema) -> Predicate | Where | AllOf:
    """Reads a condition such as ``left.venue = right.venue AND right.price BETWEEN left.limit - 5 AND left.limit + 5``.

    Parameters
    ----------
    text : str
        Columns are ``left.name`` and ``right.name``, or the name alone where one side alone has it.
    left, right : pyarrow.Schema

    Raises
    ------
    SqlError
        What the text has and a condition here has not, with its line and column.
    """
    return _condition(text, left, right, None)[0]


def parse_windowed(
    text: str, left: pa.Schema, right: pa.Schema, event_times: Mapping[str, Iterable[str]] | None = None
) -> tuple[Predicate | Where | AllOf, Within | None]:
    """Reads a condition as `parse_condition` does, and the time window that it has: the first pair of timestamps, one
    of each side, whose difference it bounds at both ends, those in `event_times` before others. Equal times are bounded
    by 0, and so are the ends of equal windows of time.

    Parameters
    ----------
    event_times : mapping of str to iterable of str, optional
        By "left" and "right": columns that carry a watermark.

    Returns
    -------
    condition, window
        None where the text bounds no times.

    Raises
    ------
    SqlError
        What the text has and a condition here has not, with its line and column.
    """
    return _condition(text, left, right, {} if event_times is None else event_times)


def condition_tokens(text: str) -> list[Token]:
    """The words of a condition's text. Raises sqlglot's TokenError."""
    return _Condition().tokenize(text)


def _condition(
    text: str, left: pa.Schema, right: pa.Schema, event_times: Mapping[str, Iterable[str]] | None
) -> tuple[Predicate | Where | AllOf, Within | None]:
    reader = _Reader(text)
    with reader.shallow():
        tree = reader.condition()
        reader.know({"left": left, "right": right}, {"left": "left", "right": "right"})
        parts = reader.conjunction((tree, True))
        within = None if event_times is None else reader.window(parts, None, event_times)
        return reader.whole(parts), within


# The dialect: what Spark and DuckDB have in common, either's quotes around names.

_KEYWORDS = BaseTokenizer.KEYWORDS | {"MATCH_CONDITION": TokenType.MATCH_CONDITION, "//": TokenType.DIV}
_HEX: list[str | tuple[str, str]] = [("x'", "'"), ("X'", "'")]


class _Statement(Dialect):
    class Tokenizer(BaseTokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 (as sqlglot has it)
        HEX_STRINGS = _HEX
        KEYWORDS = _KEYWORDS


class _Condition(Dialect):
    """Without joins, `left` and `right` are names."""

    class Tokenizer(BaseTokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        HEX_STRINGS = _HEX
        KEYWORDS = {name: kind for name, kind in _KEYWORDS.items() if name not in ("LEFT", "RIGHT")}  # noqa: RUF012


# Operators, as they compare right - left with a number.

_OPERATORS: dict[Any, str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "!=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: DISTINCT,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "<=>": DISTINCT, DISTINCT: "<=>"}
_HOLDS = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "<=>": "__eq__",
          DISTINCT: "__ne__"}  # fmt: skip
_HOW = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right", ("FULL", ""): "full", ("FULL", "OUTER"): "full", ("LEFT", "SEMI"): "left_semi",
    ("LEFT", "ANTI"): "left_anti", ("", "SEMI"): "left_semi", ("", "ANTI"): "left_anti",
}  # fmt: skip
_MOST_DIGITS = 400
"""Of a constant: float64 has values of 309 digits before the point, and of 324 places behind it."""
_TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_TZ, Family.DURATION, Family.TIME)


@dataclasses.dataclass(frozen=True)
class _Column:
    side: str
    path: str
    node: Node


@dataclasses.dataclass
class _Linear:
    """Columns, each plus or minus, and a constant: a number, or nanoseconds.

    Attributes
    ----------
    steps : int
        How many additions and subtractions have a column in them.
    """

    columns: list[tuple[int, _Column]]
    number: Fraction = Fraction(0)
    duration: Fraction = Fraction(0)
    steps: int = 0
    kinds: frozenset[str] = frozenset()

    def plus(self, other: _Linear, sign: int) -> _Linear:
        columns = self.columns + [(sign * s, column) for s, column in other.columns]
        steps = self.steps + other.steps + bool(columns)
        number, duration = self.number + sign * other.number, self.duration + sign * other.duration
        return _Linear(columns, number, duration, steps, self.kinds | other.kinds)


@dataclasses.dataclass
class _Part:
    """A part that is done."""

    part: Predicate | Where

    def predicate(self) -> Predicate | Where:
        return self.part


@dataclasses.dataclass
class _Apart:
    """Bounds of right - left, or of their sum, in the keys' unit of account: 1, or nanoseconds."""

    left: _Column
    right: _Column
    low: Fraction | None = None
    high: Fraction | None = None
    kinds: tuple[KeyType, KeyType] | None = None
    compare: str | None = None  # left OP right, where it is just that
    sum: bool = False

    def predicate(self) -> Predicate:
        if self.compare is not None:
            return Compare(self.left.path, self.compare, self.right.path)
        if self.low == self.high == 0 and not self.sum:
            return Compare(self.left.path, "=", self.right.path)
        if self.closed() and self.low > self.high:  # type: ignore[operator]
            return AnyOf()
        return Band(self.left.path, self.right.path, self.bound(self.low), self.bound(self.high), self.sum)

    def within(self) -> Within:
        return Within(self.left.path, self.right.path, self.bound(self.low), self.bound(self.high))

    def bound(self, value: Fraction | None) -> Any:
        if value is None or self.kinds is None:
            return None
        family = self.kinds[0].family
        if family in _TIMES:
            return duration_text(value)
        return _number(value, family)

    def closed(self) -> bool:
        return self.low is not None and self.high is not None

    def one_end(self) -> bool:
        return (self.low is None) != (self.high is None)

    def merged(self, other: _Apart) -> _Apart:
        """Both as one, of which one has a lower and one an upper end alone."""
        low = self.low if other.low is None else other.low
        high = self.high if other.high is None else other.high
        return _Apart(self.left, self.right, low, high, self.kinds, sum=self.sum)

    def step(self) -> Fraction:
        """The least length by which two different keys lie apart."""
        assert self.kinds is not None
        if self.kinds[0].family is Family.DATE:
            return Fraction(NANOS_PER_DAY)
        return min(self.kinds[0].unit, self.kinds[1].unit)


def _number(value: Fraction, family: Family) -> int | float | Decimal:
    if value.denominator == 1:
        return value.numerator
    if family is Family.FLOAT and (near := exact_float(value)) is not None:
        return near
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1  # a constant of the text has an end
    return Decimal((value * 10**digits).numerator).scaleb(-digits)


def _time_pair(parts: list[Any], times: tuple[str, str] | None, known: dict[str, set[str]]) -> _Apart | None:
    """The part that is the time window."""
    pairs = [part for part in parts if isinstance(part, _Apart) and part.closed() and part.predicate() != AnyOf()]
    if times is not None:
        return next((part for part in pairs if (part.left.path, part.right.path) == tuple(times)), None)
    stamps = [
        part
        for part in pairs
        if part.kinds is not None and all(pa.types.is_timestamp(kind.arrow) for kind in part.kinds)
    ]

    def marks(part: _Apart) -> int:
        return (part.left.path in known["left"]) + (part.right.path in known["right"])

    return max(stamps, key=marks, default=None)


class _Reader:
    """One text."""

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise PredicateError(f"SQL must be text, not {text!r}")
        self.text = text
        self.schemas: dict[str, pa.Schema] = {}
        self.aliases: dict[str, str] = {}
        self.as_of = False
        self.using: list[str] = []

    def know(self, schemas: dict[str, pa.Schema], aliases: dict[str, str]) -> None:
        """The columns of both sides, and what the text calls the sides."""
        self.schemas, self.aliases = schemas, aliases

    # Errors

    def refuse(self, node: Node, what: str) -> NoReturn:
        raise self.error(self._start(node), what)

    def error(self, start: int, what: str) -> SqlError:
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        return SqlError(f"line {line}, column {column}: {what}", line, column)

    @contextlib.contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Gives errors the place of a node, where they have none."""
        try:
            yield
        except SqlError:
            raise
        except MuntinError as error:
            self.refuse(node, str(error))

    def _start(self, node: Node) -> int:
        """Where an expression begins: of what sqlglot says of its parts, the first."""
        while node is not None:
            starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
            if starts:
                return min(starts)
            node = node.parent
        return 0

    def _word(self, *words: str) -> int:
        """Where the first of these keywords stands."""
        for token in _Statement().tokenize(self.text):
            if " ".join(token.text.upper().split()) in words:
                return token.start
        return 0

    @contextlib.contextmanager
    def shallow(self) -> Iterator[None]:
        """Refuses a text that nests deeper than the interpreter's stack goes, at its deepest place."""
        try:
            yield
        except RecursionError:
            depth = most = place = before = 0
            for token in _once_nested(_Statement().tokenize(self.text)):
                word = token.text.upper()
                before = before + 1 if word in ("NOT", "-") else 0
                depth += (word in ("(", "CASE")) - (word in (")", "END"))
                if depth + before > most:
                    most, place = depth + before, token.start
            raise self.error(
                place,
                f"the text nests {most} deep here, which is more than can be read: write it with fewer levels",
            ) from None

    # The tree

    def condition(self) -> Node:
        return self._parsed(_Condition(), exp.Condition)

    def statement(self) -> Node:
        first = self.text.split(maxsplit=1)
        if first and first[0].isalpha() and first[0].upper() not in ("SELECT", "WITH"):
            raise self.error(self.text.index(first[0]), f"only SELECT is supported, not {first[0].upper()}")
        tree = self._parsed(_Statement(), None)
        if not isinstance(tree, exp.Select):
            self.refuse(tree, f"only a plain SELECT is supported, not {type(tree).__name__.upper()}")
        return tree

    def _parsed(self, dialect: Dialect, into: Any) -> Node:
        try:
            tokens = _once_nested(_asof_first(dialect.tokenize(self.text)))
            parser = dialect.parser()
            found = parser.parse(tokens, self.text) if into is None else parser.parse_into(into, tokens, self.text)
        except TokenError as error:
            place = re.fullmatch(r"(.*) from \d+:(\d+)", str(error.__cause__), re.DOTALL)
            what = f"{place[1]} at its end" if place else str(error)
            raise self.error(int(place[2]) if place else 0, what) from error
        except SqlglotError as error:
            told = getattr(error, "errors", None) or [{}]
            line, end = told[0].get("line", 1), told[0].get("col", 1)
            word = told[0].get("highlight") or ""
            start = sum(len(each) + 1 for each in self.text.split("\n")[: line - 1]) + max(0, end - max(1, len(word)))
            what = str(told[0].get("description") or error).split(". Line")[0].split("<")[0].strip()
            raise self.error(start, f"{what}{f': {word!r}' if word else ''}") from error
        found = [tree for tree in found if tree is not None]
        if len(found) != 1:
            raise self.error(0, f"the text must be one {'SELECT' if into is None else 'condition'}, not {len(found)}")
        return found[0]

    def tables(self, tree: Node, schemas: Mapping[str, pa.Schema]) -> tuple[list[tuple[str, str]], str]:
        """Name and alias of the table of each side, and how they are joined."""
        known = {"expressions", "from_", "joins", "kind", "where"}
        for clause, value in tree.args.items():
            if value and clause not in known:
                word = {"with_": "WITH", "group": "GROUP BY", "order": "ORDER BY"}.get(
                    clause, clause.upper().strip("_")
                )
                raise self.error(self._word(word), f"{word} is not supported")
        joins = tree.args.get("joins") or []
        source = tree.args.get("from_")
        if source is None or len(joins) != 1:
            place = joins[1] if len(joins) > 1 else tree
            self.refuse(
                place, f"a join has two tables, FROM a JOIN b ON ...; this has {len(joins) + (source is not None)}"
            )
        join = joins[0]
        found = [self._table(table, schemas) for table in (source.this, join.this)]
        if found[0][1].lower() == found[1][1].lower():
            self.refuse(join.this, f"both sides are called {found[1][1]!r}: give them aliases, FROM t a JOIN t b")
        method, kind = join.args.get("method") or "", (join.side or "", join.kind or "")
        crossed = kind == ("", "CROSS") or self._behind_comma(join.this)
        self.as_of = method == "ASOF" and not crossed and _HOW.get(kind) in ("inner", "left")
        if (method and not self.as_of) or kind not in _HOW:
            words = " ".join(word for word in (method, *kind) if word)
            raise self.error(self._word(*words.split()), f"{words} JOIN is not supported")
        for clause in ("using", "match_condition"):
            if join.args.get(clause) and not self.as_of:
                raise self.error(self._word(clause.upper()), f"{clause.upper()} is not supported here: use ON")
        matched = self.as_of and (join.args.get("match_condition") or join.args.get("using"))
        if join.args.get("on") is None and not matched and not crossed:
            self.refuse(join.this, "the join has no ON: for every pair of rows write CROSS JOIN")
        how = _HOW[kind]
        if tree.args.get("where") and (how != "inner" or self.as_of):
            words = "ASOF" if self.as_of else how.upper().replace("_", " ")
            raise self.error(
                self._word("WHERE"),
                f"WHERE behind {words} JOIN takes rows from its result, which is not supported: put what decides on "
                "matches behind ON, and filter the result by the rest",
            )
        return found, how

    def _behind_comma(self, table: Node) -> bool:
        start = self._start(table)
        before = [token for token in _Statement().tokenize(self.text) if token.start < start]
        return bool(before) and before[-1].token_type == TokenType.COMMA

    def _table(self, table: Node, schemas: Mapping[str, pa.Schema]) -> tuple[str, str]:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            self.refuse(table, "a side must be a table by its name")
        extra = [name for name, value in table.args.items() if value and name not in ("this", "alias")]
        if extra:
            self.refuse(table, f"a side must be a table by its name alone, not {_told(table)}")
        if table.args.get("alias") is not None and table.args["alias"].args.get("columns"):
            self.refuse(table.args["alias"], "names of columns behind an alias are not supported")
        name = self._known(table.name, schemas, table.this.quoted)
        if name is None:
            self.refuse(table, f"there is no table {table.name!r}: there are {', '.join(schemas) or 'none'}")
        return name, table.alias or table.name

    @staticmethod
    def _known(name: str, among: Iterable[str], quoted: bool) -> str | None:
        """What is called so: in any case, where the name has no quotes and one thing alone has it."""
        among = list(among)
        if name in among:
            return name
        alike = [each for each in among if each.lower() == name.lower()]
        return alike[0] if len(alike) == 1 and not quoted else None

    def selected(self, tree: Node, spec: JoinSpec, schemas: dict[str, pa.Schema]) -> list[tuple[str, str]] | None:
        """Names in the join's result, and the names that they are given; None for all."""
        made = {(side, column): name for side, column, name in spec.output_columns(schemas["left"], schemas["right"])}
        if len(tree.expressions) == 1 and isinstance(tree.expressions[0], exp.Star):
            self._plain_star(tree.expressions[0])
            if not self.using:
                return None
        found: list[tuple[str, str]] = []

        def add(side: str, column: str, name: str | None, node: Node) -> None:
            if (side, column) not in made:
                self.refuse(node, f"a {spec.how} join has the columns of the left side alone")
            given = name or column
            taken = {each: of for of, each in found}
            if name is None and given in taken and taken[given] != made[side, column]:
                given = made[side, column]  # with the suffix
            if given in taken:
                self.refuse(node, f"the result would have two columns {given!r}: give one another name with AS")
            found.append((made[side, column], given))

        for item in tree.expressions:
            alias = item.alias if isinstance(item, exp.Alias) else None
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star):
                self._plain_star(inner)
                for side, column in made:
                    if side == "left" or column not in self.using:
                        add(side, column, None, item)
            elif isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
                self._plain_star(inner.this)
                starred = self._side(inner.args["table"])
                if starred is None:
                    self.refuse(inner, f"there is no table {inner.table!r}")
                for side, column in made:
                    if side == starred:
                        add(side, column, None, item)
            elif isinstance(inner, exp.Column):
                named = self._column(inner)
                if named.path not in self.schemas[named.side].names:
                    self.refuse(inner, "a field of a struct in SELECT is not supported: select the whole column")
                add(named.side, named.path, alias, inner)
            else:
                self.refuse(inner, f"SELECT takes columns by name and *, not {_told(inner)}")
        return found

    def _plain_star(self, star: Node) -> None:
        for clause, value in star.args.items():
            if value:
                self.refuse(value[0], f"* with {clause.strip('_').upper()} is not supported: name the columns")

    # Columns

    def _side(self, name: Node) -> str | None:
        alias = self._known(name.name, self.aliases.values(), name.quoted)
        return next((side for side in SIDES if alias is not None and self.aliases[side] == alias), None)

    def _column(self, node: Node) -> _Column:
        steps: list[Any] = []
        inner = node
        while isinstance(inner, exp.Dot):
            steps.insert(0, inner.expression)
            inner = inner.this
        if not isinstance(inner, exp.Column) or not all(isinstance(s, exp.Identifier) for s in [*steps, *inner.parts]):
            self.refuse(node, f"{_told(node)} is not supported")
        names = [*inner.parts, *steps]
        side = self._side(names[0]) if len(names) > 1 else None
        if side is not None and (path := self._path(side, names[1:])) is not None:
            return _Column(side, path, node)
        found = [(each, path) for each in SIDES if (path := self._path(each, names)) is not None]
        text = ".".join(name.name for name in names)
        if not found:
            if side is not None:
                there = ", ".join(self.schemas[side].names) or "none"
                self.refuse(node, f"{self.aliases[side]} has no column {text.split('.', 1)[1]!r}: it has {there}")
            self.refuse(node, f"neither side has a column {text!r}")
        if len(found) > 1:
            a, b = self.aliases.values()
            self.refuse(node, f"both sides have a column {text!r}: write {a}.{text} or {b}.{text}")
        return _Column(*found[0], node)

    def _path(self, side: str, names: list[Any]) -> str | None:
        """The column or field of a side of this name."""
        schema = self.schemas[side]
        path = ".".join(name.name for name in names)
        if has_column(schema, path):
            return path
        found = []
        among, kind = schema.names, None
        for name in names:
            known = self._known(name.name, among, name.quoted)
            if known is None:
                return None
            found.append(known)
            kind = schema.field(known).type if kind is None else kind.field(known).type
            among = [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        return ".".join(found)

    # Conditions

    def conjunction(self, *conditions: tuple[Node, bool]) -> list[Any]:
        """The parts of conditions that all hold (False: that all fail), with both ends of a band as one part."""
        parts: list[Any] = []
        waiting: dict[tuple[Any, ...], list[int]] = {}  # parts that lack one end of a band
        for node, holds in conditions:
            for leaf, positive in _leaves(node, holds, exp.And):
                for part in self._parts(leaf, positive):
                    self._check(leaf, part)
                    if isinstance(part, _Apart) and part.one_end():
                        pair = (part.left.path, part.right.path, part.sum)
                        if lacking := waiting.get((*pair, part.low is None)):
                            at = lacking.pop(0)
                            parts[at] = parts[at].merged(part)
                            continue
                        waiting.setdefault((*pair, part.high is None), []).append(len(parts))
                    parts.append(part)
        return parts

    def window(self, parts: list[Any], times: Any, event_times: Mapping[str, Iterable[str]]) -> Within | None:
        """The time window of a conjunction. Its part is taken out where others are left that compare both sides;
        windows of time that are equal are left, as their ends alone make it."""
        pairs = [self._ends(part) or part for part in parts]
        pair = _time_pair(pairs, times, {side: set(event_times.get(side, ())) for side in SIDES})
        if pair is None:
            return None
        with self.at(pair.left.node):
            within = pair.within()
        if pair in parts and any(not one_sided(part.predicate()) for part in parts if part is not pair):
            parts.remove(pair)
        return within

    def whole(self, parts: list[Any]) -> Predicate | Where | AllOf:
        """The condition that all parts make."""
        made = [part.predicate() for part in parts]
        return made[0] if len(made) == 1 else AllOf(*made)

    def _check(self, node: Node, part: Any) -> None:
        """Refuses what cannot be asked of the columns' types, at its place in the text."""
        with self.at(node):
            Condition(part.predicate(), self.schemas["left"], self.schemas["right"])

    def _ends(self, part: Any) -> _Apart | None:
        """The equality of the ends of two windows of time that a part compares, such as Spark's `window` makes them."""
        if not isinstance(part, _Apart) or part.compare != "=":
            return None
        kinds = []
        for column in (part.left, part.right):
            kind = column_type(self.schemas[column.side], column.path)
            if not pa.types.is_struct(kind) or {field.name for field in kind} != {"start", "end"}:
                return None
            kinds.append(kind.field("end").type)
        left, right = (dataclasses.replace(column, path=f"{column.path}.end") for column in (part.left, part.right))
        bound = Fraction(0)
        return _Apart(left, right, bound, bound, self._kinds(part.left.node, left, right, needed=False), "=")

    def nearest(self, join: Node, parts: list[Any]) -> AsOf:
        """The condition of an as-of join: one of times, behind ON or in MATCH_CONDITION, and equalities."""
        match = join.args.get("match_condition")
        place = match if match is not None else join.args.get("on") or join.this
        equal = [part for part in parts if isinstance(part, _Apart) and part.compare == "="]
        tests = [part for part in parts if not isinstance(part, _Apart) and one_sided(part.predicate())]
        rest = [part for part in parts if part not in equal and part not in tests]
        if match is not None:
            if rest:
                self.refuse(
                    join.args["on"],
                    "beside MATCH_CONDITION an as-of join takes equalities of columns, and parts about one side alone",
                )
            rest = self.conjunction((match, True))
        for name in join.args.get("using") or ():
            paths = [self._path(side, [name]) for side in SIDES]
            if None in paths:
                self.refuse(name, f"not both sides have a column {name.name!r}")
            left, right = (_Column(side, str(path), name) for side, path in zip(SIDES, paths, strict=True))
            equal.append(_Apart(left, right))
            self.using.append(str(paths[1]))
        if self.using and match is None:  # as DuckDB has it: the last is the time, at or before the left one
            rest = [dataclasses.replace(equal.pop(), compare=">=")]
        times = rest[0] if len(rest) == 1 else None
        if not isinstance(times, _Apart) or times.compare not in ("<", "<=", ">", ">=", None):
            self.refuse(
                place,
                "an as-of join compares one pair of times by <, <=, > or >=, and other columns by =; further parts are "
                "about one side alone",
            )
        tolerance = None
        if times.compare is not None:
            direction, exact = "backward" if times.compare[0] == ">" else "forward", times.compare[-1] == "="
        elif times.kinds is not None and times.closed() and not times.sum:
            step = times.step()  # times that are not equal are so far apart at least
            back = times.high in (0, -step)
            near, far = (-times.high, -times.low) if back else (times.low, times.high)  # type: ignore[operator]
            if near not in (0, step):
                self.refuse(place, "an as-of join has one time at or before the other, and at most a greatest distance")
            if times.kinds[0].family is Family.FLOAT:
                self.refuse(
                    place,
                    "a greatest distance of floating-point times is rounded as the text has it: AsOf(tolerance=...) is "
                    "exact",
                )
            direction, exact = "backward" if back else "forward", near == 0
            tolerance = times.bound(far)
        else:
            self.refuse(place, "an as-of join has one time at or before the other, and at most a greatest distance")
        by = [(part.left.path, part.right.path) for part in equal]
        where = [part.predicate() for part in tests]
        with self.at(place):
            return AsOf(times.left.path, times.right.path, direction, tolerance, by, exact, where)

    def _parts(self, node: Node, holds: bool) -> list[Any]:
        """The parts of a condition that is no conjunction, or of its negation: NULL satisfies neither."""
        constant = self._constant(node)
        if constant is not None:
            return [] if constant[0] is holds else [_Part(AnyOf())]
        if isinstance(node, (exp.And, exp.Or)):
            branches = list(_leaves(node, holds, exp.Or))
            return self._union(node, [(branch, self.conjunction((branch, positive))) for branch, positive in branches])
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                self.refuse(node, "BETWEEN SYMMETRIC is not supported")
            value, low, high = node.this, node.args["low"], node.args["high"]
            if holds:
                return self._compared(node, ">=", value, low) + self._compared(node, "<=", value, high)
            ends = (self._compared(node, "<", value, low), self._compared(node, ">", value, high))
            return self._union(node, [(node, end) for end in ends])
        if isinstance(node, exp.In):
            if not node.expressions:
                self.refuse(node, "IN takes a list of constants")
            made = [self._compared(node, "=" if holds else "!=", node.this, each) for each in node.expressions]
            return (
                self._union(node, [(node, part) for part in made])
                if holds
                else [each for part in made for each in part]
            )
        if isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean)):
            value = None if isinstance(node.expression, exp.Null) else bool(node.expression.this)
            return [self._test(node, node.this.unnest(), "<=>" if holds else DISTINCT, value)]
        if isinstance(node, (exp.Column, exp.Dot)):
            return [self._test(node, node, "=", holds)]
        operator = _OPERATORS.get(type(node))
        if operator is None:
            self.refuse(node, f"{_told(node)} is not supported in a condition")
        return self._compared(node, operator if holds else _NEGATED[operator], node.left, node.right)

    def _constant(self, node: Node) -> tuple[bool | None] | None:
        """Whether a condition without columns holds, in a tuple, None for NULL; None for one with columns."""
        if isinstance(node, exp.Boolean):
            return (bool(node.this),)
        if isinstance(node, exp.Null):
            return (None,)
        operator = _OPERATORS.get(type(node))
        if operator is None or node.find(exp.Column) is not None:
            return None
        empty = [isinstance(side.unnest(), exp.Null) for side in (node.left, node.right)]
        if any(empty):
            return (all(empty) == (operator == "<=>") if operator in ("<=>", DISTINCT) else None,)
        one, other = self._linear(node.left), self._linear(node.right)
        if one.kinds != other.kinds and not (one.kinds | other.kinds) <= {"number"}:
            self.refuse(node, "a number is no length of time: write an INTERVAL")
        return (bool(getattr(one.number + one.duration, _HOLDS[operator])(other.number + other.duration)),)

    def _union(self, node: Node, branches: list[tuple[Node, list[Any]]]) -> list[Any]:
        """The part that holds where the parts of one branch at least all do."""
        made = []
        for branch, parts in branches:
            if not parts:
                return []
            predicates = [part.predicate() for part in parts]
            if AnyOf() in predicates:
                continue
            if len(parts) > 1:
                self.refuse(branch, "a conjunction inside OR is not supported, but for both ends of one band")
            made += predicates
        if len(made) == 1:
            return [_Part(made[0])]
        with self.at(node):
            return [_Part(AnyOf(*made))]

    def _compared(self, node: Node, operator: str, one: Node, other: Node) -> list[Any]:
        one, other = one.unnest(), other.unnest()
        if isinstance(other, exp.Abs) and not isinstance(one, exp.Abs):
            one, other, operator = other, one, _TURNED.get(operator, operator)
        if isinstance(one, exp.Abs):
            return self._distance(node, operator, one.this, other)
        for value, plain, op in ((other, one, operator), (one, other, _TURNED.get(operator, operator))):
            literal = self._literal(value)
            if literal is not None:
                return [self._test(node, plain, op, literal[0])]
        difference = self._linear(one).plus(self._linear(other), -1)
        return self._solved(node, operator, difference, (one, other))

    def _distance(self, node: Node, operator: str, inner: Node, limit: Node) -> list[Any]:
        """``abs(inner) OP limit``."""
        value, bound = self._linear(inner.unnest()), self._linear(limit)
        if bound.columns or operator == "<=>":
            self.refuse(node, "abs(...) must be compared with a constant")
        if bound.number < 0 or bound.duration < 0:
            self.refuse(limit, "abs(...) is compared with a constant below 0")
        above, below = value.plus(bound, -1), value.plus(bound, 1)
        sides = (inner, limit)
        if operator in ("<", "<="):
            return self._solved(node, operator, above, sides, exact=False) + self._solved(
                node, _TURNED[operator], below, sides, exact=False
            )
        if operator == "!=":
            return self._solved(node, "!=", above, sides, exact=False) + self._solved(
                node, "!=", below, sides, exact=False
            )
        parts = [
            self._solved(node, operator, above, sides, exact=False),
            self._solved(node, _TURNED.get(operator, operator), below, sides, exact=False),
        ]
        return [_Part(AnyOf(*(part.predicate() for made in parts for part in made)))]

    def _solved(
        self, node: Node, operator: str, difference: _Linear, sides: tuple[Any, Any], *, exact: bool = True
    ) -> list[Any]:
        """Parts for ``difference OP 0``; `exact` where the text computes no difference itself."""
        signs = [sign for sign, _ in difference.columns]
        of = [column.side for _, column in difference.columns]
        if len(of) == 1:
            return [self._one_column(node, operator, difference)]
        if sorted(of) != ["left", "right"]:
            same = len(of) == 2 and of[0] == of[1]
            what = "both columns are of one side" if same else "it is no difference or sum of one column of each side"
            self.refuse(node, f"a condition compares one column of the left side with one of the right: {what}")
        left, right = (next(column for _, column in difference.columns if column.side == side) for side in SIDES)
        positive = next(sign for sign, column in difference.columns if column.side == "right") > 0
        if not positive:
            operator = _TURNED.get(operator, operator)
        added = signs[0] == signs[1]
        if operator in ("<=>", DISTINCT):
            if difference.kinds or difference.steps > 1 or added:
                self.refuse(node, f"{operator} compares plain columns: arithmetic in it is not supported")
            return [_Apart(left, right, None, None, None, operator)]
        plain = difference.steps <= 1 and not difference.kinds  # the one step is our own
        kinds = self._kinds(node, left, right, needed=not plain or added)
        compare = _TURNED.get(operator, operator)  # right OP left, as left OP right
        if kinds is None:
            return [_Apart(left, right, None, None, None, compare)]
        bound = self._amount(node, difference, kinds[0].family) * (-1 if positive else 1)
        floating = kinds[0].family is Family.FLOAT
        if added and kinds[0].family not in (Family.NUMBER, Family.DURATION, Family.NONE):
            why = "its sum is rounded" if floating else f"a {kinds[0].family.value} has no sum"
            self.refuse(node, f"the sum of {left.path!r} and {right.path!r} ({kinds[0].arrow}) is not supported: {why}")
        if floating and not plain:
            self._check_float(node, operator, difference, left, right, sides, exact)
        strict = operator in ("<", ">", "!=")
        if (floating and strict) or (bound == 0 and operator == "!=" and not added):
            return [_Apart(left, right, None, None, None, compare)]
        step = _Apart(left, right, kinds=kinds).step()
        # On discrete keys, less than a bound is at most the value before it.
        below, above = (-(-bound // step) - 1) * step, (bound // step + 1) * step
        made = functools.partial(_Apart, left, right, kinds=kinds, sum=added)
        if operator == "!=":
            return [_Part(AnyOf(made(None, below).predicate(), made(above, None).predicate()))]
        if operator == "=":
            return [made(bound, bound, compare="=" if not bound and not added else None)]
        plain_compare = compare if not bound and not added else None
        if operator in ("<", "<="):
            return [made(None, below if operator == "<" else bound, compare=plain_compare)]
        return [made(above if operator == ">" else bound, None, compare=plain_compare)]

    def _kinds(self, node: Node, left: _Column, right: _Column, *, needed: bool) -> tuple[KeyType, KeyType] | None:
        """Key types of a pair; None where they have none, and none are needed."""
        types = [column_type(self.schemas[column.side], column.path) for column in (left, right)]
        try:
            return key_types(types[0], left.path, types[1], right.path)
        except KeyTypeError as error:
            if needed:
                self.refuse(node, str(error))
            return None  # text and the like; what does not go together is told with the schemas

    def _amount(self, node: Node, difference: _Linear, family: Family) -> Fraction:
        """The constant of a difference, in the keys' unit of account."""
        if family is Family.NONE:
            return difference.number + difference.duration
        if family not in _TIMES:
            if difference.duration:
                self.refuse(node, "an INTERVAL is for times, and these columns are numbers")
            return difference.number
        if not difference.number:
            return difference.duration
        if family is Family.DATE:
            return difference.number * NANOS_PER_DAY + difference.duration
        self.refuse(node, "a number is no length of time: write an INTERVAL")

    def _check_float(
        self, node: Node, operator: str, difference: _Linear, left: _Column, right: _Column,
        sides: tuple[Any, Any], exact: bool,
    ) -> None:  # fmt: skip
        """Refuses arithmetic on floats that is rounded otherwise than ``left + low <= right <= left + high``."""
        hint = (
            f"on floating-point columns arithmetic is exact as {self.aliases['left']}.{left.path} plus or minus one "
            f"constant, compared with {self.aliases['right']}.{right.path} by =, <=, >= or BETWEEN: written so it is "
            "taken; in another form it is rounded otherwise"
        )
        forms = [self._linear(side) for side in sides]
        plain = [form for form in forms if len(form.columns) == 1 and form.columns[0] == (1, right) and not form.steps]
        moved = [form for form in forms if len(form.columns) == 1 and form.columns[0] == (1, left) and form.steps == 1]
        if not exact or len(plain) != 1 or len(moved) != 1:
            self.refuse(node, hint)
        if operator not in ("=", "<=", ">="):
            self.refuse(node, f"{operator} with arithmetic on floating-point columns is not supported: {hint}")
        kind = column_type(self.schemas["left"], left.path)
        whole = difference.number.denominator == 1 and abs(difference.number) < 1 << 52
        if pa.types.is_floating(kind) and kind.bit_width < 64:
            self.refuse(node, f"{left.path!r} has type {kind}, and its sums are rounded to it: cast it to double")
        if not pa.types.is_floating(kind) and not whole:
            self.refuse(
                node, f"the sum of {left.path!r} ({kind}) and a fraction is rounded otherwise: cast it to double"
            )

    # One column

    def _one_column(self, node: Node, operator: str, difference: _Linear) -> _Part:
        """``column OP number``."""
        sign, column = difference.columns[0]
        kind = self._one_kind(node, column)
        family = kind.family
        if sign < 0:
            operator = _TURNED.get(operator, operator)
        if family is Family.FLOAT and difference.steps > 1:
            self.refuse(
                node, "arithmetic on a floating-point column and a constant is not supported: compare the column"
            )
        if family in (Family.NUMBER, Family.FLOAT) or (family is Family.NONE and not difference.duration):
            if difference.duration:
                self.refuse(node, "an INTERVAL is for times, and this column holds numbers")
            number = -sign * difference.number
            if family is Family.FLOAT and exact_float(number) is None:
                self.refuse(
                    node, f"{column.path!r} has type {kind.arrow}, and the constant does not fit float64: round it"
                )
            value: Any = _number(number, family)
            if family is Family.FLOAT and kind.bits == 32 and float(np.float32(value)) != float(value):
                self.refuse(
                    node, f"{column.path!r} has type {kind.arrow}, which {value} does not fit: cast it to double"
                )
            if family is Family.FLOAT:
                value = float(value)
        elif family in (Family.DURATION, Family.NONE) and not difference.number:
            value = duration_text(-sign * difference.duration) or "0 seconds"
        else:
            self.refuse(node, f"{column.path!r} has type {kind.arrow}: compare it with a constant of that type")
        return self._where(node, column, operator, value)

    def _one_kind(self, node: Node, column: _Column) -> KeyType:
        try:
            return key_type(column_type(self.schemas[column.side], column.path), column.path)
        except KeyTypeError:
            self.refuse(node, f"{column.path!r} is no column of numbers or times")

    def _test(self, node: Node, plain: Node, operator: str, value: Any) -> _Part:
        """``column OP literal``, of what is no number."""
        column = self._column(plain)
        if value is None and operator not in ("<=>", DISTINCT):
            self.refuse(node, f"{operator} NULL holds for no row: use IS NULL")
        return self._where(node, column, operator, value)

    def _where(self, node: Node, column: _Column, operator: str, value: Any) -> _Part:
        with self.at(node):
            return _Part(Where(column.side, column.path, operator, value))

    # Values

    def _literal(self, node: Node) -> tuple[Any] | None:
        """The constant, in a tuple, if it is one that has no arithmetic here: text, a date, a truth value, NULL."""
        if isinstance(node, exp.Null):
            return (None,)
        if isinstance(node, exp.Boolean):
            return (bool(node.this),)
        if isinstance(node, exp.Literal) and node.is_string:
            return (node.this,)
        if isinstance(node, exp.HexString):
            try:
                return (bytes.fromhex(node.this),)
            except ValueError:
                self.refuse(node, f"x'{node.this}' is no bytes in hexadecimal digits")
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            kind = node.to.this
            try:
                if kind == exp.DataType.Type.DATE:
                    day = read_moment(node.this.this, Family.DATE)
                    if moment(day).family is not Family.DATE:  # type: ignore[union-attr]
                        self.refuse(node, f"{node.this.this!r} is no date alone: write TIMESTAMP")
                    return (day,)
                if kind in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPNTZ):
                    stamp = read_moment(node.this.this, Family.TIMESTAMP)
                    return (dt.datetime.combine(stamp, dt.time()) if type(stamp) is dt.date else stamp,)
                if kind == exp.DataType.Type.TIME:
                    return (read_moment(node.this.this, Family.TIME),)
            except ValueError as error:
                self.refuse(node, str(error))
        return None

    def _linear(self, node: Node) -> _Linear:
        added = []  # from the right: a sum may have any number of terms
        while isinstance(node := node.unnest(), (exp.Add, exp.Sub)):
            added.append((node.right, 1 if isinstance(node, exp.Add) else -1))
            node = node.left
        total = self._term(node)
        for term, sign in reversed(added):
            total = total.plus(self._linear(term), sign)
        return total

    def _term(self, node: Node) -> _Linear:
        if isinstance(node, (exp.Column, exp.Dot)):
            return _Linear([(1, self._column(node))])
        if isinstance(node, exp.Literal) and not node.is_string:
            number = Decimal(node.this)
            if abs(number.adjusted()) > _MOST_DIGITS or len(number.as_tuple().digits) > _MOST_DIGITS:
                self.refuse(node, f"a number of more than {_MOST_DIGITS} digits fits no column")
            return _Linear([], number=Fraction(number), kinds=frozenset({"number"}))
        if isinstance(node, exp.Interval):
            return _Linear([], duration=Fraction(self._interval(node)), kinds=frozenset({"duration"}))
        if isinstance(node, exp.Neg):
            return _Linear([]).plus(self._linear(node.this), -1)
        if isinstance(node, exp.Mul):
            one, other = self._linear(node.left), self._linear(node.right)
            if not one.columns and not other.columns and not (one.duration and other.duration):
                duration = one.duration * other.number + other.duration * one.number
                return _Linear([], one.number * other.number, duration, 0, one.kinds | other.kinds)
        self.refuse(node, f"{_told(node)} is not supported in a condition")

    def _interval(self, node: Node) -> int:
        """Nanoseconds."""
        value = node.this.unnest() if node.this is not None else None
        sign = 1
        if isinstance(value, exp.Neg):
            sign, value = -1, value.this.unnest()
        if not isinstance(value, exp.Literal):
            self.refuse(node, "an INTERVAL must be a constant")
        unit = node.args.get("unit")
        text = value.this if unit is None else f"{value.this} {unit.name}"
        try:
            return sign * nanoseconds(text)
        except WindowError as error:
            self.refuse(
                node,
                f"{error}; months and years have no fixed length"
                if "month" in text.lower() or "year" in text.lower()
                else str(error),
            )


def _asof_first(tokens: list[Token]) -> list[Token]:
    """With ``LEFT [OUTER] ASOF JOIN`` as ``ASOF LEFT [OUTER] JOIN``, which the parser knows."""
    tokens = list(tokens)
    for at, token in enumerate(tokens):
        first = at
        while first > 0 and tokens[first - 1].text.upper() in ("LEFT", "OUTER", "INNER"):
            first -= 1
        if token.text.upper() == "ASOF" and first < at:
            tokens[first : at + 1] = [token, *tokens[first:at]]
    return tokens


def _pairs(tokens: list[Token]) -> dict[int, int]:
    """Where the parenthesis that closes each opening one stands, among tokens."""
    found, open_ones = {}, []
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            open_ones.append(at)
        elif token.token_type == TokenType.R_PAREN and open_ones:
            found[open_ones.pop()] = at
    return found


def _once_nested(tokens: list[Token]) -> list[Token]:
    """Without parentheses that enclose what others enclose already: the parser goes down into each pair."""
    pairs = _pairs(tokens)
    twice = {at + 1 for at, end in pairs.items() if pairs.get(at + 1) == end - 1}
    left_out = twice | {pairs[at] for at in twice}
    return [token for at, token in enumerate(tokens) if at not in left_out]


def _leaves(node: Node, holds: bool, joined: Any) -> Iterator[tuple[Node, bool]]:
    """What ``AND`` (or ``OR``, as `joined` says) joins, and whether it is to hold or to fail, NOT resolved."""
    other = exp.Or if joined is exp.And else exp.And
    waiting = [(node, holds)]
    while waiting:
        node, holds = waiting.pop()
        while isinstance(node := node.unnest(), exp.Not):
            node, holds = node.this, not holds
        if isinstance(node, joined if holds else other):
            waiting += [(node.right, holds), (node.left, holds)]
        else:
            yield node, holds


def _told(node: Node) -> str:
    """An expression as an error names it."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}(...)"
    return f"{type(node).__name__.upper()} ({sqlglot.Dialect.get_or_raise(None).generate(node, copy=True)})"
