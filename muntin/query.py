"""`sql`: a join as a SQL text, over tables in this process or Spark DataFrames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.host.errors import PredicateError, SchemaError
from muntin.host.frames import answer, as_schema, as_table, is_frame, is_spark
from muntin.host.spec import JoinSpec
from muntin.host.window_join import WindowJoin
from muntin.host.windows import Rows, Watermark

_OF_OPERATOR = ("device", "state")


def sql(
    text: str,
    *,
    rows: tuple[int | Rows, int | Rows] | None = None,
    times: tuple[str, str] | None = None,
    watermark: Watermark | None = None,
    suffix: str = "_right",
    **tables: Any,
) -> Any:
    """Joins two tables as a SQL text says.

    ``SELECT`` ``*`` or columns by name, ``FROM a [INNER | LEFT | RIGHT | FULL | LEFT SEMI | LEFT ANTI] JOIN b ON`` a
    condition, or ``a CROSS JOIN b`` and ``a, b``; behind inner joins a ``WHERE``, which is part of the condition.
    Conditions are comparisons (``= <=> < <= > >= !=``, ``BETWEEN``, ``IN``, ``IS [NOT] NULL``, ``IS [NOT] DISTINCT
    FROM``) of a column of each side, or of a column and a constant, joined by ``AND``; constants added to and
    subtracted from columns, ``a + b <= c``, ``abs(a - b) <= c``, ``INTERVAL``; ``OR`` over one pair of columns;
    ``TRUE``, ``FALSE``.

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
    **tables
        The tables by the names that the text has for them: Arrow tables, record batches or readers, or what gives Arrow
        data (frames of pandas and Polars, relations of DuckDB), or iterators of it; or Spark DataFrames. And any other
        parameter of `JoinSpec` and `device=`, or of `muntin.spark.window_join`.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyspark.sql.DataFrame
        The rows, all of them for tables; for streams what `window_join` gives. A frame of pandas or Polars where both
        tables are of that kind, else an Arrow table: of relations too, as DuckDB reads it by its name.

    Raises
    ------
    SqlError
        What the text has and a join here has not, with its line and column.
    WindowError
        If `times` names columns whose difference the text does not bound at both ends.
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
    >>> sql("SELECT * FROM bids b JOIN asks a ON a.price BETWEEN b.limit - 5 AND b.limit + 5", bids=bids, asks=asks)
    """
    given = {name: value for name, value in tables.items() if is_frame(value)}
    options = {name: value for name, value in tables.items() if name not in given}
    frames = [name for name, value in given.items() if is_spark(value)]
    if frames:
        if len(frames) < len(given):
            other = next(name for name in given if name not in frames)
            raise SchemaError(f"{frames[0]!r} is a Spark DataFrame and {other!r} is not: give tables of one kind")
        if watermark is not None:
            raise PredicateError("watermark= is for tables in this process: in Spark, withWatermark gives it")
        from muntin.pyspark_bridge.sql import sql_frames

        return sql_frames(text, given, rows=rows, times=times, suffix=suffix, **options)
    return _in_process(text, given, rows=rows, times=times, watermark=watermark, suffix=suffix, **options)


def _in_process(text: str, given: dict[str, Any], **options: Any) -> Any:
    from muntin.host.sql import parse_join

    tables = {name: as_table(f"the table {name!r}", value) for name, value in given.items()}
    operator = {name: options.pop(name) for name in _OF_OPERATOR if name in options}
    bounded = {name: len(table) for name, table in tables.items()}
    schemas = {name: table.schema.remove_metadata() for name, table in tables.items()}
    join = parse_join(text, schemas, bounded=bounded, **options)
    left, right = tables[join.left], tables[join.right]
    with WindowJoin.from_spec(join.spec, **operator) as running:
        result = pa.concat_tables([running.process(left, right), running.finish()])
    frames = {"left": given[join.left], "right": given[join.right]}
    if join.spec.form != "rows":
        return answer(result, frames.values(), {})
    made = join.spec.output_columns(left.schema, right.schema)
    source = {name: (frames[side], column) for side, column, name in made}
    result = result.select([name for name, _ in join.columns]).rename_columns([name for _, name in join.columns])
    return answer(result, frames.values(), {given: source[name] for name, given in join.columns})


def sql_spec(text: str, **tables: Any) -> JoinSpec:
    """The specification that `sql` makes of a text: what its ``explain`` tells of.

    Parameters
    ----------
    text, **tables
        As of `sql`; schemas will do for tables.

    Raises
    ------
    SqlError, WindowError, MuntinError
        As `sql`.
    """
    from muntin.host.sql import parse_join

    given = {name: value for name, value in tables.items() if _is_schema(value) or is_frame(value)}
    options = {name: value for name, value in tables.items() if name not in given and name not in _OF_OPERATOR}
    schemas, bounded = {}, {}
    for name, value in given.items():
        table = None if _is_schema(value) else as_table(f"the table {name!r}", value)
        schemas[name] = as_schema(f"the table {name!r}", value if table is None else table)
        bounded[name] = 0 if table is None else len(table)
    return parse_join(text, schemas, bounded=None if 0 in bounded.values() else bounded, **options).spec


def _is_schema(value: Any) -> bool:
    return hasattr(value, "__arrow_c_schema__") and not is_frame(value)
