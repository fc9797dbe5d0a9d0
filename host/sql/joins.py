"""The joins of a SELECT: their tables, kinds and conditions, left to right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.host.errors import SqlError
from muntin.host.predicates import AsOf
from muntin.host.sides import SIDES, Sides
from muntin.host.sql.condition import Reader
from muntin.host.sql.terms import Apart, Column, Node, Source
from muntin.host.sql.text import leaves, told

_HOW = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right", ("FULL", ""): "full", ("FULL", "OUTER"): "full", ("LEFT", "SEMI"): "left_semi",
    ("LEFT", "ANTI"): "left_anti", ("", "SEMI"): "left_semi", ("", "ANTI"): "left_anti",
}  # fmt: skip
_SEMI = ("left_semi", "left_anti")
_KEEPS_LEFT = ("inner", "left", *_SEMI)
"""Joins of which a condition on the left side may as well be asked before."""
_WORDS = ("JOIN", "INNER", "CROSS", "OUTER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "ASOF", "NATURAL", "POSITIONAL")
_PARTS = ("this", "side", "kind", "method", "on", "using", "match_condition")

#: Functions of which no two calls need give the same, by sqlglot's names and the engines'.
_RANDOM = {
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "setseed", "nextval", "currval", "uuidv4",
    "uuidv7", "genrandomuuid", "monotonicallyincreasingid", "sparkpartitionid", "inputfilename", "txidcurrent",
}  # fmt: skip
_CLOCK = {
    "now", "today", "currenttimestamp", "currenttimestamptz", "currenttimestampltz", "currentdate", "currenttime",
    "currentdatetime", "localtime", "localtimestamp", "getcurrenttimestamp", "getcurrenttime", "transactiontimestamp",
    "utctimestamp", "utcdate", "utctime", "currentlocaltimestamp",
}  # fmt: skip


@dataclasses.dataclass
class Operand:
    """A table of a FROM.

    Attributes
    ----------
    alias : str
    name : str
        What explanations call it.
    frame : Any
    schema : pyarrow.Schema
    node : Node
    """

    alias: str
    name: str
    frame: Any
    schema: pa.Schema
    node: Node


@dataclasses.dataclass
class Step:
    """One join: what there is so far, on the left, with one more table.

    Attributes
    ----------
    join : Node
    how : str
    as_of : bool
    right : Operand
    before, after : list of Source
        What its ON may name, and what a WHERE behind it.
    using : list of (Column, Column)
        Columns that are equal by name.
    on : list of (Node, bool)
        Parts of ON, and whether they are to hold or to fail.
    where : list of (Node, bool)
        Parts of the WHERE that are parts of its condition, and whether they are to hold or to fail.
    behind : list of (Node, bool)
        Parts of ON that are asked of its result, before the next join.
    either : list of (str, str, str)
        Columns that a full join by name has besides: what each is called, and whose value it has, the left column's or
        the right one's.
    """

    join: Node
    how: str
    as_of: bool
    right: Operand
    before: list[Source]
    after: list[Source]
    using: list[tuple[Column, Column]]
    on: list[tuple[Node, bool]]
    where: list[tuple[Node, bool]] = dataclasses.field(default_factory=list)
    behind: list[tuple[Node, bool]] = dataclasses.field(default_factory=list)
    either: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)

    @property
    def match(self) -> Node | None:
        return self.join.args.get("match_condition")

    @property
    def schemas(self) -> Sides[pa.Schema]:
        """The columns of both sides."""
        fields: Sides[dict[str, pa.Field]] = {side: {} for side in SIDES}
        for each in self.before:
            for column, name in each.names.items():
                fields[each.side].setdefault(name, each.schema.field(column).with_name(name))
        return {side: pa.schema(of.values()) for side, of in fields.items()}

    @property
    def shown(self) -> list[Source]:
        """The tables of its result."""
        return [each for each in self.after if each.side == "left" or self.how not in _SEMI]

    def conditions(self) -> list[tuple[Node, list[Source]]]:
        """What is asked, by the tables that it may name."""
        found = [(node, self.before) for node, _ in self.on] + [(node, self.after) for node, _ in self.where]
        return found if self.match is None else [*found, (self.match, self.before)]

    def parts(self, reader: Reader) -> list[Any]:
        """The parts of the condition, but for what an as-of join adds."""
        reader.sources = self.before
        parts = reader.conjunction(*self.on)
        if not self.as_of:
            parts += [part for pair in self.using for part in reader.equal(*pair)]
        reader.sources = self.after
        parts = reader.conjunction(*self.where, before=parts)
        reader.sources = self.before
        return parts

    def nearest(self, reader: Reader, parts: list[Any]) -> AsOf:
        """The condition of an as-of join."""
        place = self.join.args.get("on") or self.match or self.join.this
        return reader.nearest(place, parts, self.match, [Apart(*pair) for pair in self.using])

    def names(self, reader: Reader, *, behind: bool = False) -> Iterator[str]:
        """The columns that its condition needs, or what is asked behind it."""
        waiting = [(node, self.before) for node, _ in self.behind]
        if not behind:
            waiting += self.conditions()
            for pair in self.using:
                yield from (column.path for column in pair)
        for node, sources in waiting:
            reader.sources = sources
            for column in node.find_all(exp.Column):
                for source, path in reader.found(reader.names(column)):
                    yield _root(path, source.names.values())

    def filter(self, reader: Reader, table: str) -> Node:
        """What is asked of its result, as a table."""
        made = [
            exp.Paren(this=_written(reader, node, self.before, table))
            if positive
            else exp.Not(this=exp.Paren(this=_written(reader, node, self.before, table)))
            for node, positive in self.behind
        ]
        return exp.and_(*made, copy=False)

    def written(self, reader: Reader) -> list[Node]:
        """The parts of its condition over columns of ``left`` and ``right``, what is asked of times among them."""
        made = [_written(reader, node, sources) for node, sources in self.conditions()]
        for at, (_, positive) in enumerate([*self.on, *self.where]):
            if not positive:
                made[at] = exp.Not(this=exp.Paren(this=made[at]))
        named = ([_of_side(column, self.before) for column in pair] for pair in self.using)
        return [*made, *(exp.EQ(this=left, expression=right) for left, right in named)]


def one_join(reader: Reader, join: Node) -> tuple[str, bool]:
    """How a join's sides are joined, and whether it is an as-of join."""
    after = _words_of(reader, join)
    method, kind = join.args.get("method") or "", (join.side or "", join.kind or "")
    crossed = kind == ("", "CROSS") or behind_comma(reader, join.this)
    as_of = method == "ASOF" and not crossed and _HOW.get(kind) in ("inner", "left")
    if (method and not as_of and method != "NATURAL") or kind not in _HOW:
        words = " ".join(word for word in (method, *kind) if word)
        raise reader.error(reader.word(*words.split(), after=after), f"{words} JOIN is not supported")
    for clause, value in join.args.items():
        if value and clause not in _PARTS:
            reader.refuse(join, f"a join with {clause.strip('_').upper()} is not supported")
    if join.args.get("match_condition") and not as_of:
        raise reader.error(reader.word("MATCH_CONDITION", after=after), "MATCH_CONDITION needs ASOF JOIN: use ON")
    conditions = [join.args.get(each) for each in ("on", "using", "match_condition")]
    if not any(conditions) and not crossed and method != "NATURAL":
        reader.refuse(join.this, "the join has no ON: for every pair of rows write CROSS JOIN")
    return _HOW[kind], as_of


def _words_of(reader: Reader, join: Node) -> int:
    """Where the words before a join's table begin."""
    start = reader.start(join.this)
    words = [token for token in reader.tokens if token.start < start]
    place = start
    while words and words[-1].text.upper() in _WORDS:
        place = words.pop().start
    return place


def behind_comma(reader: Reader, table: Node) -> bool:
    start = reader.start(table)
    before = [token for token in reader.tokens if token.start < start]
    return bool(before) and before[-1].token_type == TokenType.COMMA


def _root(path: str, names: Iterable[str]) -> str:
    """The column of these that is, or holds, a column or field."""
    names = list(names)
    return path if path in names else next(name for name in names if path.startswith(f"{name}."))


def _of_side(column: Column, sources: list[Source], table: str | None = None) -> Node:
    """A column or field by its side's name, or of a table."""
    name = _root(column.path, (name for each in sources for name in each.names.values()))
    fields = column.path[len(name) :].split(".")[1:]
    of = exp.to_identifier(table or column.side, quoted=True)
    made: Node = exp.column(exp.to_identifier(name, quoted=True), of)
    for field in fields:
        made = exp.Dot(this=made, expression=exp.to_identifier(field, quoted=True))
    return made


def _written(reader: Reader, node: Node, sources: list[Source], table: str | None = None) -> Node:
    holder = exp.Paren(this=node.copy())
    reader.sources = sources
    for column in list(holder.find_all(exp.Column)):
        column.replace(_of_side(reader.column(column), sources, table))
    return holder.this


def steps(
    reader: Reader,
    joins: list[Node],
    operands: list[Operand],
    names: list[dict[str, str]],
    unique: Callable[[str], str],
) -> list[Step]:
    """The joins of a SELECT, one after the other.

    Parameters
    ----------
    joins : list of Node
    operands : list of Operand
    names : list of dict
        Of each one's columns, what they are called on their side of the join.
    unique : callable
        Makes a name that nothing else has.
    """
    found: list[Step] = []
    left = [Source(operands[0].alias, "left", operands[0].schema, names[0])]
    comma = False
    for join, right, named in zip(joins, operands[1:], names[1:], strict=True):
        how, as_of = one_join(reader, join)
        comma = comma or behind_comma(reader, join.this)
        if comma and how in ("right", "full"):
            reader.refuse(join.this, f"a {how} join behind a comma is not supported: write CROSS JOIN in its place")
        before = [*left, Source(right.alias, "right", right.schema, named)]
        on = join.args.get("on")
        parts = [] if on is None else list(leaves(on, True, exp.And))
        step = Step(join, how, as_of, right, before, before, _using(reader, join, left, before[-1]), parts)
        for node, _ in step.conditions():
            check_condition(reader, node)
        if step.using:
            step.after = _after_using(step, unique)
        found.append(step)
        left = [dataclasses.replace(each, side="left") for each in step.shown]
    return found


def random_call(tree: Node, names: set[str] = _RANDOM) -> Node | None:
    """A function in a tree of which no two calls need give the same."""
    for each in tree.find_all(exp.Func):
        name = each.name if isinstance(each, exp.Anonymous) else type(each).__name__
        if name.lower().replace("_", "") in names:
            return each
    return None


def check_condition(reader: Reader, node: Node) -> None:
    """Refuses what no condition of a join can have, by its name."""
    if (call := random_call(node, _RANDOM | _CLOCK)) is not None:
        reader.refuse(
            call,
            f"{told(call)} in the condition of a join: no two calls of it need give the same, so it cannot be "
            "computed before the join; ask for it in WHERE, or make a column of it first",
        )
    for each in node.walk():
        if isinstance(each, (exp.Query, exp.AggFunc, exp.Window)):
            kind = "a subquery" if isinstance(each, exp.Query) else "a function of several rows"
            reader.refuse(each, f"{kind} in the condition of a join is not supported: make a column of it first")


def _using(reader: Reader, join: Node, left: list[Source], right: Source) -> list[tuple[Column, Column]]:
    """The pairs of columns that USING or NATURAL names."""
    names = list(join.args.get("using") or ())
    natural = join.args.get("method") == "NATURAL"
    if natural:
        there = {name.lower() for source in left for name in source.names}
        names = [exp.to_identifier(name, quoted=True) for name in right.names if name.lower() in there]
        if not names:
            reader.refuse(join.this, "NATURAL JOIN of tables that share no name of a column: write CROSS JOIN")
    found = []
    for name in names:
        place = join.this if natural else name
        reader.sources = left
        of_left, path = reader.found([name]), right.path([name])
        if not of_left or path is None:
            reader.refuse(place, f"not both sides have a column {name.name!r}")
        if len(of_left) > 1:
            raise reader.no_column(place, [name], of_left)
        found.append((Column("left", of_left[0][1], place), Column("right", path, place)))
    if natural:
        join.set("using", names)
    return found


def _after_using(step: Step, unique: Callable[[str], str]) -> list[Source]:
    """The tables behind a join by name, with one more: the columns that its name alone finds."""
    names = [name.name for name in step.join.args["using"]]
    lower = {name.lower() for name in names}
    made = {}
    for name, (left, right) in zip(names, step.using, strict=True):
        made[name] = right if step.how == "right" else left
        if step.how == "full":
            made[name] = dataclasses.replace(left, path=unique(f"either_{name}"))
            step.either.append((made[name].path, left.path, right.path))
    types = step.schemas
    found = []
    for (name, column), (left, _) in zip(made.items(), step.using, strict=True):
        kind = types["left"].field(left.path).type
        found.append(Source("", column.side, pa.schema([pa.field(name, kind)]), {name: column.path}))
    for each in step.before:
        if each.alias:
            hidden = {name for name in each.schema.names if name.lower() in lower}
            found.append(dataclasses.replace(each, hidden=each.hidden | hidden))
        elif not {name.lower() for name in each.names} & lower:
            found.append(each)
    return found


#: What a part may have over columns of both sides.
_OVER_BOTH = (
    exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between,
    exp.In, exp.Is, exp.Abs, exp.Add, exp.Sub, exp.Neg,
)  # fmt: skip


def leave_behind(reader: Reader, found: list[Step], *, outer: bool) -> list[tuple[Node, bool]]:
    """Takes out of joins, where others are left, the parts that have both sides and are no comparison of one operand of
    each: of inner joins, which mean the same behind them, and of others too if `outer` is. Gives those that may wait
    until all joins are made."""
    rest = []
    for at, step in enumerate(found):
        if step.as_of or (step.how != "inner" and (not outer or step.either)):
            continue
        beyond = [part for part in step.on if not _parses(reader, step, *part) and _beyond(reader, step, part[0])]
        if len(beyond) == len(step.on) and not step.using:
            continue
        step.on = [part for part in step.on if part not in beyond]
        if step.how == "inner" and all(each.how in _KEEPS_LEFT for each in found[at + 1 :]):
            rest += beyond
        else:
            step.behind = beyond
    return rest


def _parses(reader: Reader, step: Step, node: Node, positive: bool, sources: list[Source] | None = None) -> bool:
    reader.know(step.before if sources is None else sources, step.schemas)
    try:
        reader.conjunction((node, positive))
    except SqlError:
        return False
    return True


def _beyond(reader: Reader, step: Step, node: Node) -> bool:
    def sides(each: Node) -> set[str]:
        return {reader.column(column).side for column in each.find_all(exp.Column)}

    reader.sources = step.before
    operands: list[str] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        of = sides(each)
        if len(of) == 1:
            operands += of
        elif of and not isinstance(each, _OVER_BOTH):
            return True
        elif of:
            waiting += each.iter_expressions()
    return set(operands) == set(SIDES) and len(operands) > 2 and not isinstance(node.unnest(), (exp.Between, exp.In))


def place_where(reader: Reader, where: Node, found: list[Step]) -> list[tuple[Node, bool]]:
    """Makes those parts of a WHERE that can be parts of an inner join's condition such parts: of the first join that
    has their columns and behind which no join makes rows without a left side. Gives the others."""
    rest = []
    for node, positive in leaves(where.this, True, exp.And):
        for at, step in enumerate(found):
            if _takes(reader, step, found[at + 1 :], node, positive):
                step.where.append((node, positive))
                break
        else:
            rest.append((node, positive))
    return rest


def _takes(reader: Reader, step: Step, later: list[Step], node: Node, positive: bool) -> bool:
    if step.how != "inner" or step.as_of or any(each.how not in _KEEPS_LEFT for each in later):
        return False
    columns = list(node.find_all(exp.Column))
    if later:
        reader.sources = later[-1].after
        ends = [{(source.alias, path) for source, path in reader.found(reader.names(each))} for each in columns]
        reader.sources = step.after
        if ends != [{(source.alias, path) for source, path in reader.found(reader.names(each))} for each in columns]:
            return False
    return _parses(reader, step, node, positive, step.after)
