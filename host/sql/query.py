"""Runs a SELECT over joins: the joins here, left to right, and what is around them by the engine of the tables."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from muntin.host.errors import MuntinError, SqlError, UnsupportedError, WindowError
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.spec import JoinSpec
from muntin.host.sql.condition import Reader, sides_of
from muntin.host.sql.joins import Operand, Step, leave_behind, place_where, random_call, steps
from muntin.host.sql.names import Outputs, inner_columns
from muntin.host.sql.terms import Node, Source, known
from muntin.host.sql.text import argument, told
from muntin.host.windows import Rows, Within
from muntin.host.windows.rows import of_sides


class SqlEngine(ABC):
    """What runs the text around joins, and has the tables.

    Attributes
    ----------
    name : str
    reads, writes : Dialect
        Of texts over its tables, with either's quotes around names; and its own.
    keys_first : bool
        Whether ``*`` has columns of USING before all others.
    lazy : bool
        Whether what a text gives is computed each time that it is read.
    options : mapping
        Of its joins; `of_one` are those that several in one text cannot share.
    """

    name: ClassVar[str]
    reads: ClassVar[Dialect]
    writes: ClassVar[Dialect]
    keys_first: ClassVar[bool]
    lazy: ClassVar[bool]
    of_one: ClassVar[tuple[str, ...]] = ()
    options: Mapping[str, Any]

    @abstractmethod
    def schema(self, frame: Any, name: str) -> pa.Schema:
        """The columns of a table."""

    def columns(self, frame: Any) -> list[str]:
        """Their names alone."""
        return list(self.schema(frame, "").names)

    def event_times(self, frame: Any) -> Iterable[str]:
        """The columns that carry a watermark."""
        return ()

    def bounded(self, frame: Any) -> int | None:
        """The rows of a table where these are all that there will be, and a join is to have count windows of them."""
        return None

    @abstractmethod
    def renamed(self, frame: Any, names: Iterable[tuple[str, str]]) -> Any:
        """Columns of a table, by their names there and the names that they are given."""

    @abstractmethod
    def either(self, frame: Any, columns: list[tuple[str, str, str]]) -> Any:
        """A table with columns more: of each its name, and two columns, of which it has the one that is not NULL."""

    def numbered(self, frame: Any, name: str) -> Any:
        """A table with a column of numbers of its rows; of engines that are not `lazy`."""
        raise NotImplementedError

    @abstractmethod
    def computed(self, reader: Reader, step: Step, left: Any, right: Any) -> Computed:
        """What a condition needs and a join here has not, as columns of the tables.

        Raises
        ------
        MuntinError
            What the engine cannot do either; UnsupportedError where it is not installed.
        """

    @abstractmethod
    def joined(self, left: Any, right: Any, spec: JoinSpec) -> Any:
        """Two tables joined."""

    @abstractmethod
    def query(self, tree: Node, frames: Mapping[str, Any], reader: Reader) -> Any:
        """The rows of a query over tables, by the names that it has for them. Raises SqlError."""

    def text(self, tree: Node) -> str:
        return str(self.writes.generate(tree, copy=True, normalize_functions=False))


@dataclasses.dataclass
class Computed:
    """Tables with columns that are computed for a condition, and the condition over these.

    Attributes
    ----------
    left, right : table
    text : str
        As `parse_condition` reads it.
    columns : dict of str to str
        What was computed, by the names of the columns.
    """

    left: Any
    right: Any
    text: str
    columns: dict[str, str]


@dataclasses.dataclass
class Joined:
    """One join that was made, for explanations."""

    left: str
    right: str
    spec: JoinSpec
    schemas: tuple[pa.Schema, pa.Schema]
    columns: dict[str, str]


@dataclasses.dataclass
class Handed:
    """One text that an engine was given."""

    engine: str
    text: str


@dataclasses.dataclass
class Result:
    """What a text gives.

    Attributes
    ----------
    frame : table
    sources : dict of str to (str, str)
        Of columns of the result that are columns of a given table, its name and theirs there.
    spec : JoinSpec or None
        Where the text has one join.
    parts : list of Joined and Handed
        What was done, in order.
    """

    frame: Any
    sources: dict[str, tuple[str, str]]
    spec: JoinSpec | None
    parts: list[Joined | Handed]

    def explain(self) -> str:
        """What ran here and what the engine was given, part by part."""
        lines = []
        joins = 0
        for part in self.parts:
            if isinstance(part, Handed):
                lines.append(f"{part.engine} runs: {part.text}")
                continue
            joins += 1
            lines.append(f"join {joins}, here: {part.left} with {part.right}, {part.spec.how}")
            lines += [f"  computed:  {name} = {text}" for name, text in part.columns.items()]
            lines += [f"  {line}" for line in part.spec.explain(*part.schemas).splitlines()]
        return "\n".join(lines)


#: Options for one join, not for several in one text.
_OF_ONE = ("rows", "times", "watermark", "sequence", "form")


class Query:
    """One text.

    Parameters
    ----------
    text : str
    engine : SqlEngine
    frames : mapping
        The tables, by name.
    rows, times, watermark, suffix, **options
        As of `muntin.sql`; options are those of `JoinSpec`.
    """

    def __init__(
        self, text: str, engine: SqlEngine, frames: Mapping[str, Any], *, rows: Any = None, times: Any = None,
        watermark: Any = None, suffix: str = "_right", **options: Any,
    ):  # fmt: skip
        self.reader = Reader(text, engine.reads)
        self.engine = engine
        self.frames = frames
        self._options = {"rows": rows, "times": times, "watermark": watermark, "suffix": suffix, **options}
        self._parts: list[Joined | Handed] = []
        self._taken: set[str] = set()
        self._made_names: set[str] = set()
        self._of_given: dict[str, str] = {}  # by alias, which of the given tables it is
        self._spec: JoinSpec | None = None
        self._joins = 0

    def run(self) -> Result:
        """Raises SqlError, WindowError, MuntinError."""
        reader = self.reader
        with reader.shallow():
            tree = reader.statement()
            while isinstance(tree, exp.Subquery) and not set(_given(tree)) - {"this"}:
                tree = tree.this
            self._taken = {token.text.lower() for token in reader.tokens}
            self._joins = _joins(reader, tree)
            given = {**self._options, **self.engine.options}
            for name in (*_OF_ONE, *self.engine.of_one) if self._joins > 1 else ():
                if (value := given.get(name)) is not None and value != "rows":
                    raise WindowError(
                        f"{name}={value!r} is for one join, and this text has {self._joins}: leave it out, or join the "
                        "tables one by one"
                    )
            scope = dict(self.frames)
            joins = isinstance(tree, exp.Select) and _split(reader, tree)[0]
            if not joins and self._options.get("form", "rows") != "rows":
                self._alone(tree)
            result = self._outermost(tree, self._with(tree, scope)) if joins else (self._run(tree, scope), {})
        return Result(*result, self._spec, self._parts)

    def unique(self, name: str) -> str:
        """A name that no word of the text is, and no other column."""
        name = made = re.sub(r"\W", "_", name)
        at = 1
        while made.lower() in self._taken:
            at += 1
            made = f"{name}_{at}"
        self._taken.add(made.lower())
        self._made_names.add(made)
        return made

    # Texts of the engine

    def _with(self, tree: Node, scope: dict[str, Any]) -> dict[str, Any]:
        """The tables that WITH makes, and those that there were."""
        clause = argument(tree, "with")
        if clause is None:
            return scope
        scope = dict(scope)
        for each in clause.expressions:
            alias = each.args["alias"]
            inner = each.this
            call = random_call(inner) if self.engine.lazy else None
            if call is not None and sum(t.name.lower() == alias.name.lower() for t in tree.find_all(exp.Table)) > 1:
                self.reader.refuse(
                    call,
                    f"{told(call)} in WITH {alias.name}, which is read more than once: {self.engine.name} would "
                    "compute it each time; make a table of it first",
                )
            if clause.args.get("recursive") and any(
                t.name.lower() == alias.name.lower() for t in inner.find_all(exp.Table)
            ):
                if any(argument(select, "joins") for select in inner.find_all(exp.Select)):
                    self.reader.refuse(alias, "a join in a recursive WITH is not supported")
                inner = exp.select("*").from_(exp.to_identifier(alias.name, quoted=True))
                inner.set("with_" if "with_" in tree.args else "with", exp.With(expressions=[each], recursive=True))
                scope[alias.name] = self._run(inner, scope, local={alias.name})
                continue
            if alias.args.get("columns"):
                named = exp.TableAlias(this=exp.to_identifier(alias.name), columns=alias.args["columns"])
                inner = exp.select("*").from_(exp.Subquery(this=inner, alias=named))
            made = self._run(inner, scope)
            for name in [name for name in scope if name.lower() == alias.name.lower()]:
                del scope[name]
            scope[alias.name] = made
        for name in ("with_", "with"):
            if tree.args.get(name):
                tree.set(name, None)
        return scope

    def _run(self, tree: Node, scope: dict[str, Any], local: Iterable[str] = ()) -> Any:
        """The rows of a query."""
        handed: dict[str, Any] = {}
        self._prepare(tree, scope, handed, set(local))
        return self._finished(tree, handed)

    def _finished(self, tree: Node, handed: Mapping[str, Any]) -> Any:
        self._parts.append(Handed(self.engine.name, self.engine.text(tree)))
        return self.engine.query(tree, handed, self.reader)

    def _prepare(self, tree: Node, scope: dict[str, Any], handed: dict[str, Any], local: set[str]) -> None:
        """Runs the joins of a query and of those within it, and puts what they give in their places."""
        if not local:
            scope = self._with(tree, scope)
        if isinstance(tree, exp.Select) and _split(self.reader, tree)[0]:
            frame, sources, outputs = self._made(tree, scope, outermost=False)
            self._around(tree, frame, sources, outputs, handed)
        self._inner(tree, scope, handed, local)

    def _inner(self, tree: Node, scope: dict[str, Any], handed: dict[str, Any], local: set[str]) -> None:
        for each in _within(tree, exp.Query):
            if not isinstance(each, exp.Table):
                self._prepare(each, scope, handed, local)
        for table in _within(tree, exp.Table):
            self._place(table, scope, handed, local)

    def _place(self, table: Node, scope: dict[str, Any], handed: dict[str, Any], local: set[str]) -> None:
        """Gives the engine a table that its text names."""
        if not isinstance(table.this, exp.Identifier) or table.name in local or table.meta.get("ours"):
            return
        name = self._known(table, scope)
        frame = scope[name]
        given = name
        while any(each.lower() == given.lower() and handed[each] is not frame for each in handed):
            given += "_"
        handed[given] = frame
        if not table.args.get("alias"):
            table.set("alias", _alias(table.name))
        table.set("this", exp.to_identifier(given, quoted=True))
        table.meta["ours"] = True

    def _known(self, table: Node, scope: Mapping[str, Any]) -> str:
        if table.args.get("db") or table.args.get("catalog"):
            self.reader.refuse(table, f"a table must be there by its name alone, not {told(table)}")
        name = known(table.name, scope, table.this.quoted)
        if name is None:
            self.reader.refuse(table, f"there is no table {table.name!r}: there are {', '.join(scope) or 'none'}")
        return name

    # Joins

    def _operand(self, table: Node, scope: dict[str, Any]) -> Operand:
        alias = table.alias_or_name
        plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        if plain and _given(table) <= {"this", "alias", "db", "catalog"} and not table.alias_column_names:
            name = self._known(table, scope)
            return Operand(alias, name, scope[name], self.engine.schema(scope[name], name), table)
        if _nested(table):
            self.reader.refuse(table, "a join inside a join is not supported: write it as (SELECT ...) AS name")
        if not alias:
            self.reader.refuse(table, "a subquery that is joined needs a name: (SELECT ...) AS name")
        frame = self._run(exp.select("*").from_(table.copy()), scope)
        return Operand(alias, alias, frame, self.engine.schema(frame, alias), table)

    def _operands(self, tables: list[Node], scope: dict[str, Any]) -> list[Operand]:
        found = [self._operand(each, scope) for each in tables]
        aliases: set[str] = set()
        for each in found:
            if each.alias.lower() in aliases:
                what = "both sides are" if len(found) == 2 else "two tables are"
                self.reader.refuse(each.node, f"{what} called {each.alias!r}: give them aliases, FROM t a JOIN t b")
            aliases.add(each.alias.lower())
        return found

    def _outermost(self, select: Node, scope: dict[str, Any]) -> tuple[Any, dict[str, tuple[str, str]]]:
        """The result of a text that is one SELECT: without an engine where its columns are just those of the join."""
        frame, sources, outputs = self._made(select, scope, outermost=True)
        if self._spec is not None and self._spec.form != "rows":
            if not outputs.plain:
                self._alone(select)
            return frame, {}
        origin = {}
        for path, name in outputs.columns:
            alias, column = _origin(path, sources) or ("", path)
            if alias in self._of_given:
                origin[name] = self._of_given[alias], column
        if outputs.plain:
            return self.engine.renamed(frame, outputs.columns), origin
        handed: dict[str, Any] = {}
        self._around(select, frame, sources, outputs, handed)
        self._inner(select, scope, handed, set())
        return self._finished(select, handed), origin

    def _alone(self, tree: Node) -> NoReturn:
        form = self._options["form"]
        self.reader.refuse(tree, f"form={form!r} is for a join alone: leave out what is around it in the text")

    def _around(
        self, select: Node, frame: Any, sources: list[Source], outputs: Outputs, handed: dict[str, Any]
    ) -> None:
        """Leaves of a SELECT what is around its joins, over the table that they have given."""
        names = {}
        for path in outputs.used:
            alias, column = _origin(path, sources) or ("", path)
            names[path] = path if path in self._made_names else self.unique(f"{alias}_{column}")
        name = self.unique("joined")
        handed[name] = self.engine.renamed(frame, names.items())
        table = exp.Table(this=exp.to_identifier(name, quoted=True), alias=_alias(name))
        table.meta["ours"] = True
        argument(select, "from").set("this", table)
        outputs.write(name, names)

    def _made(self, select: Node, scope: dict[str, Any], *, outermost: bool) -> tuple[Any, list[Source], Outputs]:
        """Runs the joins of a SELECT, of which it leaves the others and what is left of WHERE.

        Returns
        -------
        frame, sources
            What they give, and the tables of which its columns are.
        outputs : Outputs
        """
        reader, engine = self.reader, self.engine
        joins, laterals = _split(reader, select)
        operands = self._operands([argument(select, "from").this, *(join.this for join in joins)], scope)
        if outermost:
            self._of_given = {e.alias: e.name for e in operands if e.frame is self.frames.get(e.name)}
        several = len(operands) > 2
        outer = not engine.lazy and self._options.get("form", "rows") == "rows"
        while True:
            names = [
                {column: self.unique(f"{each.alias}_{column}") if several else column for column in each.schema.names}
                for each in operands
            ]
            found = steps(reader, joins, operands, names, self.unique)
            rest = leave_behind(reader, found, outer=outer)
            if several or not any(step.behind for step in found):
                break
            several = True  # names of both sides in one table
        frames = [
            engine.renamed(each.frame, named.items()) if several else each.frame
            for each, named in zip(operands, names, strict=True)
        ]
        where = select.args.get("where")
        rest += [] if where is None else place_where(reader, where, found)
        left = [exp.Paren(this=node) if positive else exp.Not(this=exp.Paren(this=node)) for node, positive in rest]
        select.set("where", exp.Where(this=exp.and_(*left, copy=False)) if left else None)
        select.set("joins", laterals)
        select.set("hint", None)  # of joins of the engine
        sources, gone = self._shown(found, several=several)
        columns = inner_columns(scope, engine.columns)
        suffix = self._options["suffix"]
        outputs = Outputs(reader, select, sources, gone, laterals, suffix, engine.keys_first, columns, outermost)
        single = self._joins == 1
        frame = frames[0]
        name = operands[0].name
        for at, step in enumerate(found):
            needed = [*outputs.used, *(path for each in found[at + 1 :] for path in each.names(reader))]
            ordered = outputs.plain and len(found) == 1
            if step.behind:
                frame = self._behind(step, frame, frames[at + 1], needed, name=name, single=single)
            else:
                frame = self._join(step, frame, frames[at + 1], needed, name=name, single=single, ordered=ordered)
            name = f"the result of join {at + 1}"
        return frame, sources, outputs

    def _shown(self, found: list[Step], *, several: bool) -> tuple[list[Source], list[Source]]:
        """The tables that joins have in their result, by the names there, and those of which nothing is left."""
        last = found[-1]
        shown = last.shown
        gone = [each for step in found for each in step.after if each not in step.shown]
        if several:
            return shown, gone
        there = {name for each in last.before if each.side == "left" for name in each.names.values()}
        made = []
        for each in shown:
            taken = there if each.side == "right" else set()
            names = {
                column: path + self._options["suffix"] if path in taken else path for column, path in each.names.items()
            }
            made.append(dataclasses.replace(each, names=names))
        return made, gone

    # One join

    def _behind(self, step: Step, left: Any, right: Any, needed: list[str], *, name: str, single: bool) -> Any:
        """What a join gives of whose condition a part is asked by the engine: the pairs; and of another than an inner
        one, rows that are in none, or those that are in one."""
        engine, how = self.engine, step.how
        kept = [*dict.fromkeys(needed)]
        needed = [*needed, *step.names(self.reader, behind=True)]
        tables: Sides[Any] = {"left": left, "right": right}
        rows: Sides[str] = {}
        if how != "inner":
            rows = {side: self.unique("row") for side in SIDES}
            tables = {side: engine.numbered(tables[side], rows[side]) for side in SIDES}
        joined = dataclasses.replace(step, how="inner")
        frame = self._join(
            joined, tables["left"], tables["right"], [*needed, *rows.values()], name=name, single=single, ordered=False
        )
        table = self.unique("joined")
        asked = exp.select("*").from_(exp.Table(this=exp.to_identifier(table, quoted=True), alias=_alias(table)))
        asked.set("where", exp.Where(this=step.filter(self.reader, table)))
        frame = self._finished(asked, {table: frame})
        if how == "inner":
            return frame
        columns = {
            side: [f'"{each}"' for each in engine.columns(of) if each in kept] or ["0 AS _"]
            for side, of in tables.items()
        }

        def of_side(side: Side, word: str) -> str:
            row = rows[side]
            return (
                f'SELECT {", ".join(columns[side])} FROM "{side}" WHERE "{row}" {word} (SELECT "{row}" FROM "{table}")'
            )

        if how in ("left_semi", "left_anti"):
            text = of_side("left", "IN" if how == "left_semi" else "NOT IN")
        else:
            alone = [side for side in SIDES if how in (side, "full")]
            text = " UNION ALL BY NAME ".join(
                [f'SELECT * FROM "{table}"', *(of_side(side, "NOT IN") for side in alone)]
            )
        made = self.engine.reads.parse(text)[0]
        return self._finished(made, {table: frame, "left": tables["left"], "right": tables["right"]})

    def _join(
        self, step: Step, left: Any, right: Any, needed: list[str], *, name: str, single: bool, ordered: bool
    ) -> Any:
        """What one join gives, with those of its columns that are needed, in their order if it is `ordered`."""
        reader, engine, options = self.reader, self.engine, dict(self._options)
        rows, times, watermark = (options.pop(each) for each in ("rows", "times", "watermark"))
        if step.as_of and not rows is times is None:
            raise WindowError("an as-of join has no window: leave out rows= and times=")
        marks = {"left": engine.event_times(left), "right": engine.event_times(right)}
        columns: dict[str, str] = {}
        reader.know(step.before, {"left": engine.schema(left, "left"), "right": engine.schema(right, "right")})
        try:
            parts = step.parts(reader)
            on, within = (step.nearest(reader, parts), None) if step.as_of else self._windowed(reader, parts, marks)
        except SqlError as error:
            made = self._computed(step, left, right, error)
            left, right, columns = made.left, made.right, made.columns
            other = Reader(made.text)
            schemas: Sides[pa.Schema] = {"left": engine.schema(left, "left"), "right": engine.schema(right, "right")}
            other.know(sides_of(schemas["left"], schemas["right"]), schemas)
            try:
                tree = other.condition()
                parts = other.conjunction((tree, True))
                on, within = (
                    (other.nearest(tree, parts, None, []), None) if step.as_of else self._windowed(other, parts, marks)
                )
            except SqlError:
                raise error from None
        windows: dict[str, Any] = {}
        bounded = [engine.bounded(frame) for frame in (left, right)]
        if rows is not None:
            windows = dict(zip(SIDES, of_sides(rows), strict=True))
        elif within is not None:
            windows["within"] = within
        elif not step.as_of and None not in bounded:
            windows = {side: Rows(max(1, int(count or 0))) for side, count in zip(SIDES, bounded, strict=True)}
        spec = JoinSpec(on=on, how=step.how, watermark=watermark, **windows, **options)
        schemas = {"left": engine.schema(left, "left"), "right": engine.schema(right, "right")}
        either: list[tuple[str, str, str]] = []
        if spec.form == "rows":
            names = {made[:2]: made[2] for made in spec.output_columns(schemas["left"], schemas["right"])}
            either = [(each, names["left", one], names["right", other]) for each, one, other in step.either]
            either = [each for each in either if each[0] in needed]
            needed = [name for each in needed for name in next((e[1:] for e in either if e[0] == each), (each,))]
            every = tuple(name for (_, column), name in names.items() if column not in columns)
            chosen = (
                tuple(dict.fromkeys(needed) if ordered else [each for each in every if each in needed]) or every[:1]
            )
            if columns or chosen != every:
                spec = dataclasses.replace(spec, select=chosen)
        if single:
            self._spec = spec
        self._parts.append(Joined(name, step.right.name, spec, (schemas["left"], schemas["right"]), columns))
        frame = engine.joined(left, right, spec)
        return engine.either(frame, either) if either else frame

    def _windowed(
        self, reader: Reader, parts: list[Any], marks: Mapping[str, Iterable[str]]
    ) -> tuple[Any, Within | None]:
        """The condition of a join and the time window that it has."""
        within, times = None, self._options["times"]
        if self._options["rows"] is None:
            within = reader.window(parts, times, marks)
            if within is None and times is not None:
                raise WindowError(
                    f"the text bounds no difference of {times!r} at both ends, as 'a.time BETWEEN b.time - INTERVAL 1 "
                    "MINUTE AND b.time' would"
                )
        return reader.whole(parts), within

    def _computed(self, step: Step, left: Any, right: Any, error: SqlError) -> Computed:
        """The tables with what the engine computes for a condition that a join here does not take."""
        if not step.conditions() or error is self.reader.final:
            raise error
        try:
            return self.engine.computed(self.reader, step, left, right)
        except UnsupportedError as missing:
            raise SqlError(f"{error}; {missing}", error.line, error.column) from None
        except MuntinError as other:
            if other is not self.reader.final:
                raise error from other
            reason = str(other).partition(": ")[2]
            raise SqlError(f"{error}; {reason}", error.line, error.column) from other


def _alias(name: str) -> Node:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _given(node: Node) -> set[str]:
    """The clauses that a tree has."""
    return {clause for clause, value in node.args.items() if value}


def _origin(path: str, sources: list[Source]) -> tuple[str, str] | None:
    """The table and the column of it that a column of the joins is."""
    for each in sources:
        for column, name in each.names.items():
            if name == path and each.alias:
                return each.alias, column
    return None


def _nested(table: Node) -> bool:
    """Whether it is a join, in parentheses or before the ON of another one, and no table."""
    return bool(table.args.get("joins")) or (isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table))


def _lateral(join: Node) -> bool:
    return isinstance(join.this, (exp.Unnest, exp.Lateral))


def _split(reader: Reader, select: Node) -> tuple[list[Node], list[Node]]:
    """The joins of a SELECT that run here, and those behind them that the engine runs."""
    joins = argument(select, "joins") or []
    at = next((at for at, join in enumerate(joins) if _lateral(join)), len(joins))
    for join in joins[at:]:
        if not _lateral(join):
            reader.refuse(join.this, "a join behind UNNEST or LATERAL is not supported: join the tables first")
    return joins[:at], joins[at:]


def _joins(reader: Reader, tree: Node) -> int:
    """How many joins a text has."""
    count = 0
    for select in tree.find_all(exp.Select):
        source = argument(select, "from")
        while (
            source is not None
            and isinstance(source.this, exp.Subquery)
            and _nested(source.this)
            and not source.this.alias
        ):  # FROM (a JOIN b ON ...)
            source.set("this", source.this.this)
        if source is not None and source.this.args.get("joins"):  # FROM a JOIN b SELECT ...
            select.set("joins", [*source.this.args["joins"], *(select.args.get("joins") or ())])
            source.this.set("joins", None)
        count += len(_split(reader, select)[0])
    if not count:
        tables = len(list(tree.find_all(exp.Table)))
        reader.refuse(tree, f"a join has two tables, FROM a JOIN b ON ...; this has {tables}")
    return count


def _within(tree: Node, kind: Any) -> list[Node]:
    """The nodes of a kind that are in a query, but in no query within it."""
    found: list[Node] = []
    waiting = [tree]
    while waiting:
        for value in waiting.pop().args.values():
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, exp.Expression):
                    continue
                if isinstance(each, kind):
                    found.append(each)
                if not isinstance(each, exp.Query) or isinstance(each, exp.Table):
                    waiting.append(each)
    return found
