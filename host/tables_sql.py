"""SQL over tables of this process: the joins by `WindowJoin`, what is around them by DuckDB."""

from __future__ import annotations

import functools
import itertools
import os
import re
import uuid
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
from muntin.host.keys.kept_types import in_types, kept_type, plain_type, returned, types_in
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

        held = {name: _held(connection, frame, reader) for name, frame in frames.items()}
        try:
            for name, frame in held.items():
                connection.register(name, frame)
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            for frame in held.values():
                _check_values(connection, frame, reader)
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
    import duckdb

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
        handed = _handed(kind)
        if any(pa.types.is_fixed_size_list(part) and not part.list_size for part in types_in(handed)):
            refuse(name, f"of type {kind} has lists of size 0, of which DuckDB has none: leave it out")
        if pa.types.is_nested(handed) or isinstance(handed, pa.BaseExtensionType):
            try:
                connection.from_arrow(pa.table({"x": pa.chunked_array([], handed)})).to_arrow_table()
            except duckdb.Error as error:
                reason = _said(error)
                refuse(name, f"of type {kind} is none that DuckDB has ({reason}): cast it, or leave it out")
        if handed != kind:
            one = pa.table([frame.column(at)], names=[name])
            frame = frame.set_column(at, name, in_types(one, pa.schema([(name, handed)])).column(0))
    return frame


def _check_values(connection: Any, frame: pa.Table, reader: Reader) -> None:
    """Raises SqlError where DuckDB cannot hold the values of a nested column, such as a map with a key twice."""
    import duckdb

    for field in frame.schema:
        if not pa.types.is_nested(field.type):  # `_held` has looked at the values of others
            continue
        try:
            connection.from_arrow(frame.select([field.name])).to_arrow_table()
        except duckdb.Error as error:
            raise reader.error(
                reader.place([field.name]),
                f"column {field.name!r} has values that DuckDB cannot hold ({_said(error)}): leave it out",
            ) from error


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types that values of a type have within them, or it."""
    for part in types_in(kind):
        if pa.types.is_dictionary(part):
            yield from _leaves(part.value_type)
        elif not pa.types.is_nested(part) and not isinstance(part, pa.BaseExtensionType):
            yield part


def _handed(kind: pa.DataType) -> pa.DataType:
    """The type in which DuckDB is given a column: no half floats, and nothing but values and lists in those that are
    nested."""
    plain = plain_type(kind, lambda each: kept_type(_wide(each)), bare=True, extensions=False)
    if pa.types.is_nested(plain) or pa.types.is_run_end_encoded(kind):
        return plain
    if isinstance(kind, pa.BaseExtensionType):  # DuckDB knows some
        return plain if any(map(pa.types.is_float16, types_in(kind))) else kind
    return _wide(kind)


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.float32() if pa.types.is_float16(kind) else kind


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
    """Rows of a column that DuckDB gave in the type that it had, with its dictionary. Raises ArrowException."""
    kind = given.type
    if pa.types.is_duration(kind) and pa.types.is_interval(column.type):
        made = [pa.array([], pa.duration("ns"))]
        for chunk in filter(len, column.chunks):
            nulls = chunk.is_null().to_numpy(zero_copy_only=False)
            made.append(pa.array(_intervals(chunk)["nanoseconds"], pa.duration("ns"), mask=nulls))
        return pa.chunked_array(made).cast(kind)
    if pa.types.is_dictionary(kind):
        kept = kept_type(kind)
        values = [chunk.dictionary.cast(kept.value_type).drop_null() for chunk in given.chunks]
        values = pc.unique(pa.chunked_array(values, kept.value_type))
        indices = pc.index_in(column.cast(kept.value_type), values).cast(kept.index_type)
        made = [pa.DictionaryArray.from_arrays(chunk, values, ordered=kind.ordered) for chunk in indices.chunks]
        if not len(column):  # cast, they would have no values
            values = values.cast(kind.value_type)
            made = [pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), values, ordered=kind.ordered)]
            return pa.chunked_array(made, kind)
        return returned(pa.chunked_array(made, kept), kind)
    if getattr(kind, "extension_name", "") == "arrow.uuid" and not isinstance(column.type, pa.BaseExtensionType):
        texts = column.to_pylist()  # as which DuckDB gives them
        storage = pa.array([text and uuid.UUID(text).bytes for text in texts], kind.storage_type)
        return pa.chunked_array([kind.wrap_array(storage)])
    one = pa.table([column], names=["x"])
    return in_types(one, pa.schema([("x", kind)])).column(0)


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


def _said(error: Exception, *, lines: bool = False) -> str:
    """What DuckDB's error says, in a line unless it is asked for as it is, without addresses in its library."""
    text = str(error).partition("\n\nStack Trace")[0]
    return text if lines else " ".join(text.split())


def _refused(error: Exception, reader: Reader) -> SqlError:
    """DuckDB's error, at the place in our text of the word that it is about."""
    told, _, shown = _said(error, lines=True).partition("\n\nLINE ")
    lines = f"LINE {shown}".split("\n")
    words = re.findall(r"(?:name |[\"'])(\w+)", told)
    if len(lines) > 1 and "^" in lines[1]:
        words = [*re.findall(r"\w+", lines[0][lines[1].index("^") :])[:1], *words]
    return reader.error(reader.place(words), f"DuckDB: {' '.join(told.split())}")
