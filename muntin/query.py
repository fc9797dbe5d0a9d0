"""Joins of bounded tables in one call: `join`, and `sql` as a text, which takes Spark DataFrames too."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import pyarrow as pa

from muntin.host.aggregates import Aggregate
from muntin.host.devices import Device
from muntin.host.engines import EngineKind, Inner, Outer, Partitions
from muntin.host.errors import PredicateError, SchemaError, UnsupportedError
from muntin.host.frames import (
    ArrowRows,
    Frame,
    SparkFrame,
    answer,
    as_schema,
    as_table,
    as_tables,
    dtype_of,
    is_frame,
    is_spark,
)
from muntin.host.index import Index
from muntin.host.join import WindowJoin
from muntin.host.predicates import AllOf, AsOf, Predicate, Where
from muntin.host.public import public
from muntin.host.sides import Sides
from muntin.host.spec import JoinSpec
from muntin.host.windows import Rows, Watermark, Within
from muntin.host.windows.rows import of_sides

_OF_OPERATOR = ("device", "state", "partitions")

_Frame = TypeVar("_Frame", bound=Frame)
_SparkFrame = TypeVar("_SparkFrame", bound=SparkFrame)


@overload
def join(
    left: _Frame,
    right: _Frame,
    on: Predicate | AllOf | AsOf | Where | str | Sequence[str],
    how: str = ...,
    *,
    within: Within | tuple[str, str, Any, Any] | None = ...,
    rows: tuple[int | Rows, int | Rows] | None = ...,
    sequence: str | None = ...,
    form: Literal["rows", "pairs", "counts", "aggregate"] = ...,
    aggregates: Aggregate | str | Sequence[Aggregate | str] = ...,
    at: Literal["close", "arrival"] = ...,
    order: Literal["none", "outer", "inner"] = ...,
    select: Sequence[str] | None = ...,
    suffix: str = ...,
    index: str | Index = ...,
    engine: str | EngineKind = ...,
    device: str | Device = ...,
    threads: int | None = ...,
    partitions: int | Partitions = ...,
) -> _Frame: ...


@overload
def join(
    left: ArrowRows,
    right: ArrowRows,
    on: Predicate | AllOf | AsOf | Where | str | Sequence[str],
    how: str = ...,
    *,
    within: Within | tuple[str, str, Any, Any] | None = ...,
    rows: tuple[int | Rows, int | Rows] | None = ...,
    sequence: str | None = ...,
    form: Literal["rows", "pairs", "counts", "aggregate"] = ...,
    aggregates: Aggregate | str | Sequence[Aggregate | str] = ...,
    at: Literal["close", "arrival"] = ...,
    order: Literal["none", "outer", "inner"] = ...,
    select: Sequence[str] | None = ...,
    suffix: str = ...,
    index: str | Index = ...,
    engine: str | EngineKind = ...,
    device: str | Device = ...,
    threads: int | None = ...,
    partitions: int | Partitions = ...,
) -> pa.Table: ...


@public("muntin")
def join(
    left: Any,
    right: Any,
    on: Predicate | AllOf | AsOf | Where | str | Sequence[str],
    how: str = "inner",
    *,
    within: Within | tuple[str, str, Any, Any] | None = None,
    rows: tuple[int | Rows, int | Rows] | None = None,
    sequence: str | None = None,
    form: Literal["rows", "pairs", "counts", "aggregate"] = "rows",
    aggregates: Aggregate | str | Sequence[Aggregate | str] = (),
    at: Literal["close", "arrival"] = "close",
    order: Literal["none", "outer", "inner"] = "none",
    select: Sequence[str] | None = None,
    suffix: str = "_right",
    index: str | Index = "auto",
    engine: str | EngineKind = "auto",
    device: str | Device = "cpu",
    threads: int | None = None,
    partitions: int | Partitions = 1,
) -> Any:
    """Joins two tables that are there as a whole: one call of a `WindowJoin`, and its `finish`.

    Parameters
    ----------
    left, right : frames
        Of pandas or Polars, relations of DuckDB, Arrow tables, batches and readers, iterables of them: what
        `WindowJoin.process` takes. One object in both roles is joined with itself, each row with itself too.
    on : Band, Compare, AnyOf, AllOf, AsOf, Where, str or sequence of str
        The condition; as text, such as ``"right.price BETWEEN left.limit - 5 AND left.limit + 5"``; or the name or
        names of columns that are equal, of which the result has one each, in front.
    how : str
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` or ``"left_anti"``.
    within : Within or tuple, optional
        A time window, ``(left_time, right_time, low, high)``: ``low <= right_time - left_time <= high``.
    rows : (left, right), optional
        Count windows: a row meets the last rows of the other side that arrived before it, by `sequence`, else all
        left rows before all right rows. Without these and `within` every row meets every row of the other side.
    at : str
        For ``form="aggregate"``: ``"close"``: the columns of the left side and the aggregates, for each left row of all
        its matches; ``"arrival"``, as of `JoinSpec`, for each row of both sides of those that arrived before it.
    sequence, form, aggregates, order, select, suffix, index, engine
        As of `JoinSpec`.
    device, threads, partitions
        As of `WindowJoin`.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The whole result, in the kind of frame that both sides are; of relations, readers and different kinds an Arrow
        table, which DuckDB reads by the name of its variable.

    Raises
    ------
    SchemaError
        If a side is no rows, or columns are missing.
    UnsupportedError
        If the sides are Spark DataFrames, which `muntin.spark.window_join` takes.
    MuntinError
        What `WindowJoin` and `WindowJoin.process` raise.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Band, join
    >>> bids = pa.table({"bid": [1, 2, 3], "limit": [100, 105, 120]})
    >>> asks = pa.table({"ask": [7, 8], "price": [103, 119]})
    >>> join(bids, asks, Band("limit", "price", -5, 5)).select(["bid", "ask"]).to_pylist()
    [{'bid': 1, 'ask': 7}, {'bid': 2, 'ask': 7}, {'bid': 3, 'ask': 8}]
    """
    if is_spark(left) or is_spark(right):
        raise UnsupportedError("Spark DataFrames are joined by muntin.spark.window_join, with the same parameters")
    if form == "ranges":
        raise UnsupportedError("form='ranges' is read beside a join that goes on: use WindowJoin")
    if isinstance(within, tuple):
        within = Within(*within)
    tables: Sides[pa.Table] = {"left": as_table("the left side", left)}
    itself = right is left and not isinstance(on, AsOf) and (within is None or within.left_time == within.right_time)
    tables["right"] = tables["left"] if right is left else as_table("the right side", right)
    left_rows, right_rows = of_sides(rows)
    closing = form == "aggregate" and at == "close"
    if closing and rows is None and within is None and not isinstance(on, AsOf):
        if sequence is not None:
            raise UnsupportedError(
                f"aggregates of all matches take no sequence={sequence!r}: give within= or at='arrival', or sort the "
                "right side by it and leave it out"
            )
        result = _of_all_matches(
            tables, on=on, how=how, aggregates=aggregates, sequence=sequence, order=order, select=select, index=index,
            engine=engine, device=device, threads=threads, partitions=partitions,
        )  # fmt: skip
        return answer(result, (left, right), {name: (left, name) for name in tables["left"].column_names})
    with WindowJoin(
        on=on, how=how, within=within, left=left_rows, right=right_rows, sequence=sequence, form=form,
        aggregates=aggregates, at="close" if closing else "arrival", order=order, select=select, suffix=suffix,
        index=index, engine=engine, self_join=itself, itself=itself, device=device, threads=threads,
        partitions=partitions,
        left_schema=tables["left"].schema, right_schema=tables["right"].schema,
    ) as running:  # fmt: skip
        found = running.process(tables["left"], None if itself else tables["right"])
        result = pa.concat_tables([found, running.finish()])
        spec = running.spec
    frames: Sides[Any] = {"left": left, "right": right}
    return answer(result, frames.values(), _source(spec, frames, tables))


def _of_all_matches(tables: Sides[pa.Table], **options: Any) -> pa.Table:
    """Aggregates of all right rows that each left row matches: those of a stream that meets a table."""
    left = tables["left"]
    with WindowJoin(right_table=tables["right"], left_schema=left.schema, form="aggregate", **options) as running:
        found = running.process(left).drop_columns(["side", "row"])
    for name in found.column_names:
        if name in left.column_names:
            raise SchemaError(f"the result would have two columns {name!r}: give the aggregate a name=")
    return pa.table([*left.columns, *found.columns], names=[*left.column_names, *found.column_names])


def _source(spec: JoinSpec, frames: Sides[Any], tables: Sides[pa.Table]) -> dict[str, tuple[Any, str]]:
    """Of the columns of a result of rows, the frame that each comes from and its name there."""
    if spec.form != "rows" and not spec.closing:
        return {}
    made = spec.output_columns(tables["left"].schema, tables["right"].schema)
    alike = {
        name for side, name, _ in made if side == "both" and len({dtype_of(f, name) for f in frames.values()}) == 1
    }
    return {
        name: (frames["left" if side == "both" else side], column)
        for side, column, name in made
        if side != "both" or column in alike
    }


@overload
def sql(
    text: str,
    /,
    *,
    rows: tuple[int | Rows, int | Rows] | None = ...,
    times: tuple[str, str] | None = ...,
    watermark: Watermark | None = ...,
    suffix: str = ...,
    sequence: str | None = ...,
    form: str = ...,
    aggregates: Aggregate | str | Sequence[Aggregate | str] = ...,
    at: str = ...,
    order: str | Outer | Inner = ...,
    index: str | Index = ...,
    engine: str | EngineKind = ...,
    capacity: int | None = ...,
    device: str | Device = ...,
    partitions: int | Partitions = ...,
    state: str | Path | None = ...,
    tables: Mapping[str, _Frame] = ...,
    **named: _Frame,
) -> _Frame: ...


@overload
def sql(
    text: str,
    /,
    *,
    rows: tuple[int | Rows, int | Rows] | None = ...,
    times: tuple[str, str] | None = ...,
    watermark: Watermark | None = ...,
    suffix: str = ...,
    sequence: str | None = ...,
    form: str = ...,
    aggregates: Aggregate | str | Sequence[Aggregate | str] = ...,
    at: str = ...,
    order: str | Outer | Inner = ...,
    index: str | Index = ...,
    engine: str | EngineKind = ...,
    capacity: int | None = ...,
    device: str | Device = ...,
    partitions: int | Partitions = ...,
    state: str | Path | None = ...,
    tables: Mapping[str, ArrowRows] = ...,
    **named: ArrowRows,
) -> pa.Table: ...


@overload
def sql(
    text: str,
    /,
    *,
    rows: tuple[int | Rows, int | Rows] | None = ...,
    times: tuple[str, str] | None = ...,
    watermark: None = ...,
    suffix: str = ...,
    sequence: str | None = ...,
    form: str = ...,
    aggregates: Aggregate | str | Sequence[Aggregate | str] = ...,
    at: str = ...,
    order: str | Outer | Inner = ...,
    index: str | Index = ...,
    engine: str | EngineKind = ...,
    capacity: int | None = ...,
    device: str | None = ...,
    daemon: str | Sequence[str] | None = ...,
    token: str | None = ...,
    tls_ca: str | None = ...,
    tls: bool | tuple[str, str] = ...,
    name: str | None = ...,
    state: str | None = ...,
    partitions: int | Partitions = ...,
    stages: int | None = ...,
    lag: int = ...,
    idle_after: Any = ...,
    no_data_batches: bool | None = ...,
    result_watermark: str | None = ...,
    observe: str | None = ...,
    tracing: bool | None = ...,
    late: str = ...,
    tables: Mapping[str, _SparkFrame] = ...,
    **named: _SparkFrame,
) -> _SparkFrame: ...


@public("muntin")
def sql(
    text: str,
    /,
    *,
    rows: tuple[int | Rows, int | Rows] | None = None,
    times: tuple[str, str] | None = None,
    watermark: Watermark | None = None,
    suffix: str = "_right",
    tables: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Joins tables as a SQL text says: a SELECT over one or several joins, with whatever is around them.

    The joins run here, one after the other: ``[INNER | LEFT | RIGHT | FULL | LEFT SEMI | LEFT ANTI | ASOF] JOIN b``
    with ``ON``, ``USING`` or ``NATURAL``; ``CROSS JOIN``, commas. What is around them (expressions, ``WHERE`` of outer
    joins, ``GROUP BY``, ``ORDER BY``, ``WITH``, subqueries) runs in DuckDB, in this process, or where the tables are
    Spark's, in Spark; `sql_explain` tells what runs where.

    Conditions are comparisons (``= <=> < <= > >= !=``, ``BETWEEN``, ``IN``, ``IS [NOT] NULL``, ``IS [NOT] DISTINCT
    FROM``) of a column of each side, or of a column and a constant, joined by ``AND``; constants added to and
    subtracted from columns, ``a + b <= c``, ``abs(a - b) <= c``, ``INTERVAL``; ``OR`` over one pair of columns;
    ``TRUE``, ``FALSE``. Other expressions over one side (casts, functions, products) are computed before the join, by
    DuckDB or Spark.

    Parameters
    ----------
    text : str
    rows : (left, right), optional
        Count windows: how many rows of each side are kept. Bounds on times are then parts of the condition.
    times : (str, str), optional
        The event-time columns of the left and the right side. By default the first pair of timestamps whose difference
        the text bounds at both ends, in Spark those with a watermark before others. These bounds are the time window.
    watermark : Watermark, optional
        For a time window, of tables in this process; in Spark it is that of the DataFrames.
    suffix : str
        Appended to the name of a right column that a left column of the result has too.
    tables : mapping of str to table, optional
        The tables by the names that the text has for them: Arrow tables, record batches or readers, or what gives Arrow
        data (frames of pandas and Polars, relations of DuckDB), or iterators of it; or Spark DataFrames.
    **named
        More tables, and any other parameter of `JoinSpec` and `device=`, or of `muntin.spark.window_join`.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyspark.sql.DataFrame
        The rows, all of them for tables; for streams what `window_join` gives. A frame of pandas or Polars where both
        tables are of that kind, else an Arrow table: of relations too, as DuckDB reads it by its name.

    Raises
    ------
    SqlError
        What the text has and a join here has not, or the engine of what is around it; with its line and column.
    WindowError
        If `times` names columns whose difference the text does not bound at both ends.
    UnsupportedError
        A text that needs DuckDB, which is not installed; a parameter that there is not.
    MuntinError
        What `JoinSpec`, `WindowJoin` and `window_join` raise, for streams without a window too.

    Notes
    -----
    Without bounds on a pair of times and without `rows` there is no window: every row meets every other. Of streams,
    inner and semi joins alone take that.

    On floating-point columns the arithmetic of the text decides each pair: it is taken as ``left + constant`` compared
    with ``right``, and refused in every form that is rounded otherwise, such as ``abs(a - b) <= 0.2``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import sql
    >>> text = "SELECT * FROM bids b JOIN asks a ON a.price BETWEEN b.limit - 5 AND b.limit + 5"
    >>> sql(text, bids=bids, asks=asks).to_pylist()
    [{'limit': 10, 'price': 11}, {'limit': 10, 'price': 12}]
    """
    given, options = _tables(tables, {"rows": rows, "times": times, "watermark": watermark, "suffix": suffix, **named})
    frames = [name for name, value in given.items() if is_spark(value)]
    if frames:
        if len(frames) < len(given):
            other = next(name for name in given if name not in frames)
            raise SchemaError(f"{frames[0]!r} is a Spark DataFrame and {other!r} is not: give tables of one kind")
        if options.pop("watermark", None) is not None:
            raise PredicateError("watermark= is for tables in this process: in Spark, withWatermark gives it")
        from muntin.pyspark_bridge.sql import sql_frames

        return sql_frames(text, given, **options).frame
    return _in_process(text, given, **options)


#: The parameters of a text over tables in this process, and of one over Spark's.
_OF_TEXT = ("rows", "times", "suffix", "sequence", "form", "aggregates", "at", "order", "index", "engine", "capacity")
_HERE = (*_OF_TEXT, "watermark", *_OF_OPERATOR)
_IN_SPARK = (
    *_OF_TEXT, "device", "daemon", "token", "tls_ca", "tls", "name", "state", "partitions", "stages", "lag",
    "idle_after", "no_data_batches", "result_watermark", "observe", "tracing", "late",
)  # fmt: skip


def _tables(tables: Any, named: dict[str, Any], *, schemas: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables of a call, and its parameters. A parameter that is a table is one of that name.

    Raises
    ------
    SchemaError
        If a table is given twice, or something else as one.
    UnsupportedError
        If there is no parameter of a name.
    """

    def is_table(value: Any) -> bool:
        return is_frame(value) or (schemas and _is_schema(value))

    if tables is not None and not isinstance(tables, Mapping):
        raise SchemaError(f"tables must be a mapping of names to tables, not {type(tables).__name__}")
    given = dict(tables or {})
    options = {}
    for name, value in named.items():
        if not is_table(value):
            options[name] = value
        elif name in given:
            raise SchemaError(f"the table {name!r} is given twice, in tables= and by its name")
        else:
            given[name] = value
    known = _IN_SPARK if any(map(is_spark, given.values())) else _HERE
    for name, value in list(options.items()):
        if value is None and name in ("rows", "times", "watermark"):
            del options[name]
        elif name not in known and name != "watermark":
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; there is {near[0]}=" if near else ""
            raise UnsupportedError(
                f"{name}={value!r} is no table (Arrow data, a frame of pandas, Polars or Spark), and sql has no "
                f"parameter of this name{hint}"
            )
    return given, options


def _in_process(text: str, given: dict[str, Any], **options: Any) -> Any:
    from muntin.host.sql.query import Query
    from muntin.host.tables_sql import TablesSql, as_given

    read = as_tables({f"the table {name!r}": value for name, value in given.items()})
    tables = dict(zip(given, read.values(), strict=True))
    operator = {name: options.pop(name) for name in _OF_OPERATOR if name in options}
    found = Query(text, TablesSql(**operator), tables, **options).run()
    result, sources = found.frame, {}
    for name, (table, column) in found.sources.items():
        sources[name] = given[table], column
        before, at = tables[table].column(column), result.schema.get_field_index(name)
        made = result.schema.field(at).type
        if str(made) != str(before.type):  # DuckDB has fewer types, and names of its own for the values of lists
            try:
                result = result.set_column(at, name, as_given(result.column(at), before))
            except pa.ArrowException as error:
                raise SchemaError(
                    f"column {name!r} of type {before.type} comes back from DuckDB as {made}, of which pyarrow "
                    f"{pa.__version__} cannot make it again ({error}): cast it in the text, or leave it out"
                ) from error
    return answer(result, given.values(), sources)


@public("muntin")
def sql_spec(text: str, /, *, tables: Mapping[str, Any] | None = None, **named: Any) -> JoinSpec:
    """The specification that `sql` makes of the join in a text.

    Parameters
    ----------
    text, tables, **named
        As of `sql`; schemas will do for tables. Readers are taken as their schemas, and keep their rows; iterators are
        read to their end.

    Raises
    ------
    UnsupportedError
        If the text has several joins.
    SqlError, WindowError, MuntinError
        As `sql`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import sql_spec
    >>> spec = sql_spec("SELECT * FROM bids b JOIN asks a ON a.price < b.limit", bids=bids, asks=asks)
    >>> spec.on
    Compare(left='limit', op='>', right='price')
    """
    found = _planned(text, tables, named).spec
    if found is None:
        raise UnsupportedError("the text has several joins, each with a specification: sql_explain tells of them")
    return found


@public("muntin")
def sql_explain(text: str, /, *, tables: Mapping[str, Any] | None = None, **named: Any) -> str:
    """What `sql` does with a text: its joins, which run here, and the texts that DuckDB or Spark is given.

    Parameters
    ----------
    text, tables, **named
        As of `sql_spec`; Spark DataFrames too. Nothing is joined.

    Raises
    ------
    SqlError, WindowError, MuntinError
        As `sql`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import sql_explain
    >>> text = "SELECT count(*) AS n FROM bids b JOIN asks a ON a.price < b.limit"
    >>> print(sql_explain(text, bids=bids, asks=asks))
    join 1, here: bids with asks, inner
      condition: left.limit > right.price
      window:    the last 2 left and 3 right rows
      driver:    left.limit > right.price
    DuckDB runs: SELECT COUNT(*) AS "n" FROM "joined" AS "joined"
    """
    return _planned(text, tables, named).explain()


def _planned(text: str, tables: Any, named: dict[str, Any]) -> Any:
    from muntin.host.sql.query import Query
    from muntin.host.tables_sql import TablesSql

    given, options = _tables(tables, named, schemas=True)
    if any(map(is_spark, given.values())):
        from muntin.pyspark_bridge.sql import sql_frames

        return sql_frames(text, given, dry=True, **options)
    read, rows = {}, {}
    for name, value in given.items():
        table = None if _is_schema(value) else as_table(f"the table {name!r}", value)
        read[name] = as_schema(f"the table {name!r}", value if table is None else table).empty_table()
        if table is not None:
            rows[id(read[name])] = len(table)
    options = {name: value for name, value in options.items() if name not in _OF_OPERATOR}
    return Query(text, TablesSql(rows), read, **options).run()


def _is_schema(value: Any) -> bool:
    """Whether it is columns, or a reader, whose rows are not to be read for them."""
    schema = hasattr(value, "__arrow_c_schema__") and not is_frame(value)
    return schema or isinstance(value, pa.RecordBatchReader)
