"""SQL over tables of this process: the joins by `WindowJoin`, what is around them by DuckDB."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from muntin.host.errors import SchemaError, SqlError, UnsupportedError
from muntin.host.join import WindowJoin
from muntin.host.sides import Side, Sides
from muntin.host.spec import JoinSpec
from muntin.host.sql.condition import Reader, sides_of
from muntin.host.sql.joins import Step
from muntin.host.sql.query import Computed, SqlEngine
from muntin.host.sql.terms import Node
from muntin.host.sql.text import ConditionText, DuckText, leaves


class TablesSql(SqlEngine):
    """Arrow tables.

    Parameters
    ----------
    rows : mapping of int to int, optional
        Nothing is joined: tables are there for their columns alone, and have so many rows, by their id.
    **options
        Of `WindowJoin`.
    """

    name = "DuckDB"
    reads, writes = DuckText(), DuckDB()
    keys_first = lazy = False
    of_one = ("state",)

    def __init__(self, rows: Mapping[int, int] | None = None, **options: Any):
        self._rows = rows
        self.options = options
        self._own: Any = None

    def schema(self, frame: pa.Table, name: str) -> pa.Schema:
        twice = next((name for name, count in Counter(frame.column_names).items() if count > 1), None)
        if twice is not None:
            raise SchemaError(f"the table {name!r} has several columns {twice!r}: rename all but one")
        return frame.schema.remove_metadata()

    def bounded(self, frame: pa.Table) -> int | None:
        return len(frame) if self._rows is None else self._rows.get(id(frame))

    def renamed(self, frame: pa.Table, names: Iterable[tuple[str, str]]) -> pa.Table:
        names = list(names)
        return frame.select([old for old, _ in names]).rename_columns([new for _, new in names])

    def either(self, frame: pa.Table, columns: list[tuple[str, str, str]]) -> pa.Table:
        for name, one, other in columns:
            frame = frame.append_column(name, pc.coalesce(frame[one], frame[other]))
        return frame

    def numbered(self, frame: pa.Table, name: str) -> pa.Table:
        return frame.append_column(name, pa.array(range(len(frame)), pa.int64()))

    def joined(self, left: pa.Table, right: pa.Table, spec: JoinSpec) -> pa.Table:
        if self._rows is not None:
            return spec.output_schema(left.schema, right.schema).empty_table()
        with WindowJoin.from_spec(spec, **self.options) as running:
            return pa.concat_tables([running.process(left, right), running.finish()])

    def computed(self, reader: Reader, step: Step, left: pa.Table, right: pa.Table) -> Computed:
        self._connection()
        condition = _Computing(self, {"left": left, "right": right}, reader)
        parts = [condition.part(*leaf) for node in step.written(reader) for leaf in leaves(node, True, exp.And)]
        text = " AND ".join(f"({part})" for part in parts) or "TRUE"
        return Computed(condition.sides["left"], condition.sides["right"], text, condition.texts)

    def query(self, tree: Node, frames: Mapping[str, pa.Table], reader: Reader) -> pa.Table:
        return self._run(self.text(tree), frames, reader)

    def _run(self, text: str, frames: Mapping[str, pa.Table], reader: Reader) -> pa.Table:
        connection = self._connection()
        import duckdb

        try:
            for name, frame in frames.items():
                connection.register(name, _held(connection, frame, reader))
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise _refused(error, reader) from error
        finally:
            for name in frames:
                connection.unregister(name)

    def column(self, table: pa.Table, side: Side, node: Node, reader: Reader) -> pa.ChunkedArray:
        """What an expression over one side is. An error over rows, and not over their types, is the `final` one."""
        node, names = node.copy(), dict[str, str]()
        for each in node.find_all(exp.Column):  # in DuckDB two names that differ in case alone are one
            if each.name not in names:
                names[each.name] = _other_than(each.name, names.values())
            each.set("this", exp.to_identifier(names[each.name], quoted=True))
        given = table.select(list(names)).rename_columns(list(names.values()))
        try:
            return self._run(f'SELECT {self.text(node)} FROM "{side}"', {side: given}, reader).column(0)
        except SqlError as error:
            reader.final = error if len(table) else reader.final
            raise

    def _connection(self) -> Any:
        """A DuckDB of our own. Raises UnsupportedError."""
        if self._own is None:
            self._own = _database(os.getpid()).cursor()
        return self._own


@functools.cache
def _database(process: int) -> Any:
    """The DuckDB of a process: to open one takes longer than most texts, and threads do not follow a fork."""
    try:
        import duckdb
    except ImportError as error:
        raise UnsupportedError("DuckDB runs what is around a join: pip install 'muntin[sql]'") from error
    # What a text does not get as a table is not there: no variables of the caller.
    return duckdb.connect(config={"python_enable_replacements": False})


def _held(connection: Any, frame: pa.Table, reader: Reader) -> pa.Table:
    """A table as DuckDB holds it: all of its columns, with each value. Raises SqlError where it would not."""

    def refuse(name: str, what: str) -> NoReturn:
        raise reader.error(reader.place([name]), f"column {name!r} {what}")

    alike: dict[str, str] = {}
    for at, field in enumerate(frame.schema):
        name, kind = field.name, field.type
        if (other := alike.get(name.lower())) is not None:
            refuse(name, f"is for DuckDB the same as {other!r}, as cases do not differ there: rename one of them")
        alike[name.lower()] = name
        if pa.types.is_decimal256(kind):
            refuse(name, f"of type {kind} is none that DuckDB has: cast it to decimal128 or double")
        if pa.types.is_float16(kind):
            frame = frame.set_column(at, name, frame.column(at).cast(pa.float32()))
        if inner := next((leaf for leaf in _leaves(kind) if leaf != kind and _loses(connection, leaf)), None):
            refuse(
                name, f"of type {kind} has {inner} within it, of which DuckDB keeps microseconds: make a column of it"
            )
        if pa.types.is_interval(kind) and any(
            (_intervals(chunk)["nanoseconds"] % 1000).any() for chunk in filter(len, frame[name].chunks)
        ):
            refuse(
                name, f"of type {kind} has a value that DuckDB would change to microseconds: round it, or leave it out"
            )
        for least in _min_units(connection, kind):
            try:
                frame.column(at).cast(least)
            except pa.ArrowInvalid as error:
                refuse(
                    name, f"of type {kind} has a value that DuckDB would change ({error}): round it, or leave it out"
                )
    return frame


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types that values of a type have within them, or it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not pa.types.is_nested(kind):
        yield kind
    for at in range(kind.num_fields):
        yield from _leaves(kind.field(at).type)


def _loses(connection: Any, kind: pa.DataType) -> bool:
    """Whether there are values of a type that DuckDB would change."""
    return pa.types.is_interval(kind) or bool(_min_units(connection, kind))


def _intervals(array: pa.Array) -> np.ndarray:
    """The months, days and nanoseconds of intervals, shape (n,); those of NULL are 0."""
    layout = np.dtype([("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
    values = np.frombuffer(array.buffers()[1], layout)[array.offset : array.offset + len(array)].copy()
    values[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return values


def _min_units(connection: Any, kind: pa.DataType) -> list[pa.DataType]:
    """The types that hold what DuckDB keeps of one of times."""
    if pa.types.is_duration(kind):  # it comes back in nanoseconds
        return [pa.duration("us"), pa.duration("ns")]
    zone = pa.types.is_timestamp(kind) and kind.tz is not None
    if not (zone or pa.types.is_time(kind)) or kind.unit != "ns":
        return []
    given = connection.from_arrow(pa.table({"x": pa.nulls(0, kind)})).to_arrow_table().schema.field("x").type
    return [] if given.unit == "ns" else [pa.timestamp("us", kind.tz) if zone else pa.time64("us")]


def as_given(column: pa.ChunkedArray, given: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows of a column in the type in which DuckDB was given it, with its dictionary.

    Raises ArrowNotImplementedError where there is no way back.
    """
    kind = given.type
    if pa.types.is_duration(kind) and pa.types.is_interval(column.type):
        made = [pa.array([], pa.duration("ns"))]
        for chunk in filter(len, column.chunks):
            nulls = chunk.is_null().to_numpy(zero_copy_only=False)
            made.append(pa.array(_intervals(chunk)["nanoseconds"], pa.duration("ns"), mask=nulls))
        return pa.chunked_array(made).cast(kind)
    if pa.types.is_dictionary(kind):
        chunks = given.unify_dictionaries().chunks
        values = chunks[0].dictionary if chunks else pa.array([], kind.value_type)
        found = column.cast(kind.value_type).chunks or [pa.array([], kind.value_type)]
        made = [pc.index_in(chunk, values).cast(kind.index_type) for chunk in found]
        made = [pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered) for indices in made]
        return pa.chunked_array(made, kind)
    return column.cast(kind)


def _other_than(name: str, taken: Iterable[str]) -> str:
    """A name that is none of these in any case."""
    there = {each.lower() for each in taken}
    while name.lower() in there:
        name += "_"
    return name


class _Computing:
    """Makes a condition one that a join here takes, by columns that DuckDB computes.

    Attributes
    ----------
    sides : dict of str to pyarrow.Table
        With the columns that were computed.
    texts : dict of str to str
        What was, by their names.
    """

    def __init__(self, engine: TablesSql, sides: Sides[pa.Table], reader: Reader):
        self._engine, self._reader = engine, reader
        self.sides = sides
        self.texts: dict[str, str] = {}

    def part(self, node: Node, positive: bool) -> str:
        """The text of a part that holds. Raises SqlError where no columns help."""
        node = node.copy() if positive else exp.Not(this=exp.Paren(this=node.copy()))
        failed: SqlError | None = None
        for every in (None, False, True):  # as it is; but for columns plus or minus constants; all but plain columns
            holder = exp.Paren(this=node.copy())
            wanted: dict[str, tuple[Side, Node]] = {}
            if every is not None:
                self._replace(holder.this, every, wanted, alone=True)
            tables = {side: table.slice(0, 0) for side, table in self.sides.items()}
            for name, (side, each) in wanted.items():
                tables[side] = tables[side].append_column(
                    name, self._engine.column(tables[side], side, each, self._reader)
                )
            reader = Reader("")
            schemas = {side: table.schema for side, table in tables.items()}
            reader.know(sides_of(schemas["left"], schemas["right"]), schemas)
            try:
                reader.conjunction((holder.this, True))
            except SqlError as error:
                failed = failed or error
                continue
            for name, (side, each) in wanted.items():
                column = self._engine.column(self.sides[side], side, each, self._reader)
                self.sides[side] = self.sides[side].append_column(name, column)
                self.texts[name] = self._engine.text(each)
            return str(ConditionText().generate(holder.this, copy=True))
        assert failed is not None
        raise failed

    def _replace(self, node: Node, every: bool, wanted: dict[str, tuple[Side, Node]], *, alone: bool) -> None:
        """Puts columns in the place of what is about one side; `alone` where an expression is no operand."""
        sides = {column.table for column in node.find_all(exp.Column)}
        inner = node.unnest()
        if len(sides) == 1 and not isinstance(inner, (exp.Column, exp.Dot)) and (alone or every or not _linear(inner)):
            (side,) = sides
            taken = {*self.sides["left"].column_names, *self.sides["right"].column_names, *wanted}
            name = next(name for name in (f"_on{number}" for number in itertools.count()) if name not in taken)
            wanted[name] = side, inner.copy()
            column = exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(side, quoted=True))
            node.replace(exp.EQ(this=column, expression=exp.true()) if alone else column)
            return
        if not isinstance(inner, _TAKEN):
            return
        for value in list(inner.args.values()):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, exp.Expression):
                    self._replace(each, every, wanted, alone=isinstance(inner, (exp.And, exp.Or, exp.Not)))


_TAKEN = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Between, exp.In, exp.Is, exp.Abs, exp.Add, exp.Sub, exp.Neg, exp.Paren,
)  # fmt: skip


def _linear(node: Node) -> bool:
    """Whether it is a column plus or minus constants."""
    while isinstance(node := node.unnest(), (exp.Add, exp.Sub)):
        if node.right.find(exp.Column) is not None:
            return False
        node = node.left
    return isinstance(node, (exp.Column, exp.Dot))


def _refused(error: Exception, reader: Reader) -> SqlError:
    """DuckDB's error, at the place in our text of the word that it is about."""
    told, _, shown = str(error).partition("\n\nLINE ")
    lines = f"LINE {shown}".split("\n")
    words = re.findall(r"(?:name |[\"'])(\w+)", told)
    if len(lines) > 1 and "^" in lines[1]:
        words = [*re.findall(r"\w+", lines[0][lines[1].index("^") :])[:1], *words]
    return reader.error(reader.place(words), f"DuckDB: {' '.join(told.split())}")
