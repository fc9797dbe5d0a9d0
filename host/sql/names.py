"""What the names in a SELECT over joins are, and what its columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlglot import exp

from muntin.host.sql.condition import Reader
from muntin.host.sql.terms import Node, Source, known
from muntin.host.sql.text import argument, told

_FROM = ("from_", "from", "joins", "with_", "with")


class Outputs:
    """The part of a SELECT around its joins.

    Parameters
    ----------
    reader : Reader
    select : Node
        Without what its joins have taken of WHERE.
    sources, gone : list of Source
        The tables that the joins' result has, and those that semi and anti joins have left out.
    joins : list of Node
        Those that are left: UNNEST and the like.
    suffix : str
        Of a column whose name an earlier table has too.
    keys_first : bool
        As of `SqlEngine`.
    inner : callable
        Of a table of an inner query the names of its columns, None where they are not known.
    outermost : bool
        Names that nothing here has are no names of an outer query.

    Attributes
    ----------
    items : list of (path, name) or (Node, name)
        The columns of the result: a column of the joins, or an expression, and the name.
    used : dict
        The columns of the joins that are needed.
    plain : bool
        The result is columns of the joins and nothing else.

    Raises
    ------
    SqlError
    """

    def __init__(
        self, reader: Reader, select: Node, sources: list[Source], gone: list[Source], joins: list[Node], suffix: str,
        keys_first: bool, inner: Callable[[Node], list[str] | None], outermost: bool,
    ):  # fmt: skip
        self._reader, self._select, self._suffix = reader, select, suffix
        self._sources, self._gone, self._keys_first = sources, gone, keys_first
        self._inner, self._outermost = inner, outermost
        self._more = joins or select.args.get("laterals")  # whose columns are not known
        self.used: dict[str, None] = {}
        self._found: list[tuple[Node, str, str]] = []  # nodes, columns and fields
        self._paths = {path for source in sources for path in source.names.values()}
        self._natural = self._named()
        self.items: list[tuple[Any, str]] = []
        self._taken: dict[str, Any] = {}
        reader.sources = [*sources, *gone]
        for item in select.expressions:
            self._item(item)
        self._aliases = {name.lower() for _, name in self.items}
        written = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
        for clause, value in select.args.items():
            if clause in (*_FROM, "expressions") or not value:
                continue
            first = self._aliases if clause == "order" else set()
            for each in value if isinstance(value, list) else [value]:
                self._visit(each, [], first, written | (self._aliases if clause == "order" else set()))
        for node, _ in self.items:
            if not isinstance(node, str):
                self._visit(node, [], set(), written)
        for join in joins:
            self._visit(join, [], set(), set())
        if not self.used:  # COUNT(*)
            self.used[next(iter(self._natural))] = None
        clauses = {clause for clause, value in select.args.items() if value and clause not in _FROM}
        self.plain = clauses <= {"expressions", "kind"} and not joins and all(isinstance(i, str) for i, _ in self.items)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Those that are columns of the joins, and their names."""
        return [(item, name) for item, name in self.items if isinstance(item, str)]

    def write(self, table: str, names: dict[str, str]) -> None:
        """Puts the names of a table, by the columns of the joins, in the place of those of the text."""

        def column(path: str) -> Node:
            made = exp.column(exp.to_identifier(names[path], quoted=True), exp.to_identifier(table, quoted=True))
            made.meta["ours"] = True
            return made

        made = [column(item) if isinstance(item, str) else item for item, _ in self.items]
        aliased = [
            exp.Alias(this=item, alias=exp.to_identifier(name, quoted=True))
            for item, (_, name) in zip(made, self.items, strict=True)
        ]
        self._select.set("expressions", aliased)
        for node, path, fields in self._found:
            new = column(path)
            for field in fields.split(".")[1:]:
                new = exp.Dot(this=new, expression=exp.to_identifier(field, quoted=True))
            node.replace(new)

    # Columns of the result

    def _named(self) -> dict[str, str]:
        """Of the joins' columns, the names in ``SELECT *``."""
        names: dict[str, str] = {}
        taken: set[str] = set()
        for source in self._sources:
            for column, path in source.names.items():
                if source.alias and path not in names:
                    name = column
                    while name in taken:
                        name += self._suffix
                    names[path] = name
                    taken.add(name)
        return names

    def _item(self, item: Node) -> None:
        alias = item.alias if isinstance(item, exp.Alias) else None
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            self._star(inner)
        elif isinstance(inner, exp.Column) and (found := self._resolved(inner)) is not None:
            if found[1] in self._paths:
                self._add(found[1], alias, inner, self._column(*found))
            else:
                self._add(inner, alias or found[1].rpartition(".")[2], inner)
        else:
            named = isinstance(inner, (exp.Column, exp.Dot))
            self._add(
                inner, alias or (inner.name if named else inner.sql(comments=False, normalize_functions=False)), inner
            )

    def _root(self, path: str) -> str:
        """The column of the joins in which a field is."""
        while path not in self._paths:
            path = path.rpartition(".")[0]
        return path

    def _column(self, source: Source, path: str) -> str:
        return next(column for column, each in source.names.items() if each == path)

    def _add(self, item: Any, name: str | None, place: Node, column: str = "") -> None:
        given = name or column
        if name is None and given in self._taken and self._taken[given] != item:
            given = self._natural.get(item, given)  # with the suffix
        if given in self._taken:
            self._reader.refuse(place, f"the result would have two columns {given!r}: give one another name with AS")
        self._taken[given] = item
        if isinstance(item, str):
            self.used[item] = None
        self.items.append((item, given))

    def _star(self, inner: Node) -> None:
        star = inner if isinstance(inner, exp.Star) else inner.this
        of = self._sources
        if star is not inner:
            source = self._reader.source(inner.args["table"])
            if source is None:
                self._reader.refuse(inner, f"there is no table {inner.table!r}")
            if source in self._gone:
                self._gone_error(inner)
            of = [source]
        left_out = {each.name.lower() for each in argument(star, "except") or ()}
        replaced = {each.alias.lower(): each.this for each in star.args.get("replace") or ()}
        renamed = {each.this.name.lower(): each.alias for each in star.args.get("rename") or ()}
        for clause, value in star.args.items():
            if value and clause.strip("_") not in ("except", "replace", "rename"):
                self._reader.refuse(star, f"* with {clause.strip('_').upper()} is not supported: name the columns")
        for _, column, path in self._starred(of, alone=star is not inner):
            key = column.lower()
            if key in left_out:
                continue
            if key in replaced:
                self._add(replaced[key], column, inner)
            else:
                self._add(path, renamed.get(key), inner, column)

    def _starred(self, of: list[Source], *, alone: bool) -> Iterator[tuple[Source, str, str]]:
        merged = {
            column.lower(): (source, path)
            for source in ([] if alone else of)
            for column, path in source.names.items()
            if not source.alias
        }
        done: set[str] = set()
        for source in [*(each for each in of if self._keys_first and not each.alias), *(s for s in of if s.alias)]:
            for column, path in source.names.items():
                key = column.lower()
                if key not in merged or (source.alias and column not in source.hidden):
                    yield source, column, path
                elif key not in done:
                    done.add(key)
                    yield merged[key][0], column, merged[key][1]

    # Names

    def _resolved(self, node: Node) -> tuple[Source, str] | None:
        """The table of a name and the column or field there; None for what is left to the engine."""
        reader = self._reader
        names = reader.names(node)
        for reader.sources in (self._sources, [*self._sources, *self._gone]):
            if found := reader.found(names):
                break
        else:
            return None
        if len(found) > 1:
            raise reader.no_column(node, names, found)
        if found[0][0] in self._gone:
            self._gone_error(node)
        return found[0]

    def _gone_error(self, node: Node) -> None:
        self._reader.refuse(node, "a semi or anti join has the columns of the left side alone")

    def _visit(
        self, node: Any, shadows: list[tuple[set[str], set[str] | None]], first: set[str], later: set[str]
    ) -> None:
        """Finds the columns of the joins in an expression.

        `shadows` are the aliases and columns of inner queries, None where they are not known; `first` are names of the
        result that go before columns, `later` those that go behind.
        """
        if isinstance(node, exp.Columns):
            self._reader.refuse(node, f"{told(node)} over a join is not supported: name the columns")
        if isinstance(node, exp.Column):
            self._name(node, shadows, first, later)
            return
        if isinstance(node, exp.Select):
            shadows = [*shadows, self._local(node)]
            first = later = set()
        for value in list(node.args.values()) if isinstance(node, exp.Expression) else ():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, exp.Expression):
                    self._visit(each, shadows, first, later)

    def _name(self, node: Node, shadows: list[Any], first: set[str], later: set[str]) -> None:
        if node.meta.get("ours"):
            return
        if isinstance(node.this, exp.Star):
            if not shadows:
                self._reader.refuse(node, f"{told(node)} is for columns of the result")
            return
        parts = [part.name.lower() for part in node.parts]
        for aliases, columns in shadows:
            if parts[0] in aliases if len(parts) > 1 else columns is None or parts[0] in columns:
                return
        if len(parts) == 1 and parts[0] in first:
            return
        found = self._resolved(node)
        if found is not None:
            path = found[1]
            root = self._root(path)
            self.used[root] = None
            self._found.append((node, root, path[len(root) :]))
        elif parts[0] not in later and self._outermost and not shadows and not self._more:
            names = self._reader.names(node)
            raise self._reader.no_column(node, names, [])

    def _local(self, select: Node) -> tuple[set[str], set[str] | None]:
        """The tables of an inner query, and their columns where all are known."""
        source = argument(select, "from")
        tables = [*([source.this] if source is not None else []), *(j.this for j in argument(select, "joins") or ())]
        aliases, columns = set(), set()
        every = True
        for table in tables:
            aliases.add(table.alias_or_name.lower())
            names = self._inner(table)
            every = every and names is not None
            columns |= {name.lower() for name in names or ()}
        return aliases, columns if every else None


def inner_columns(scope: dict[str, Any], columns: Callable[[Any], Iterable[str]]) -> Callable[[Node], list[str] | None]:
    """What `Outputs` asks of the tables of inner queries."""

    def names(table: Node) -> list[str] | None:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return None
        name = known(table.name, scope, table.this.quoted)
        return None if name is None else list(columns(scope[name]))

    return names
