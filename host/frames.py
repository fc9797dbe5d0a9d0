"""Rows as callers have them: Arrow data of any library as tables, without a copy, and results in the caller's kind of
frame."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.errors import KeyTypeError, SchemaError


class ArrowStream(Protocol):
    """Rows, or a column, that can be read as a stream of Arrow batches: tables, readers, frames, relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class ArrowArray(Protocol):
    """Rows, or a column, in one piece: record batches and struct arrays."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> object: ...


class ArrowSchema(Protocol):
    """Names and types of columns."""

    def __arrow_c_schema__(self) -> object: ...


class Frame(Protocol):
    """A DataFrame of pandas or Polars, by methods that both have and Arrow's tables and DuckDB's relations have not."""

    def explode(self, *args: Any, **kwargs: Any) -> Any: ...

    def sample(self, *args: Any, **kwargs: Any) -> Any: ...


class SparkFrame(Protocol):
    """A DataFrame of Spark."""

    def withWatermark(self, eventTime: str, delayThreshold: str) -> Any: ...


ArrowRows: TypeAlias = ArrowStream | ArrowArray | Iterable[ArrowStream | ArrowArray]
"""What `as_table` takes."""

ArrowColumns: TypeAlias = ArrowSchema | ArrowStream
"""What `as_schema` takes."""

TAKEN = (
    "an Arrow table, record batch or RecordBatchReader, whatever has __arrow_c_stream__ or __arrow_c_array__ (frames "
    "of pandas and Polars, relations of DuckDB), or an iterable of them"
)


#: What libraries raise for rows that are no Arrow data; OverflowError for integers of more than 64 bits in objects.
_UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


#: Readers and iterators that were read, which give their rows once.
_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def as_table(what: str, given: Any, schema: pa.Schema | None = None) -> pa.Table:
    """Rows in any form as a table over the same memory; readers and iterators are read to their end.

    Named levels of a pandas index are columns, in front of the others. An index of row numbers without a name is none.

    Parameters
    ----------
    what : str
        What it is, for errors, such as "the left batch".
    given : Any
        What `TAKEN` says.
    schema : pyarrow.Schema, optional
        The columns of an iterable without items.

    Raises
    ------
    SchemaError
        If it is none of these, cannot be read as Arrow data, was read to its end before, or has an index that no column
        can be made of.
    """
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if is_spark(given):
        raise SchemaError(
            f"{what} is a Spark DataFrame: join it by muntin.spark.window_join, or give its rows by toArrow()"
        )
    if isinstance(given, (pa.RecordBatchReader, Iterator)):
        _read_once(what, given)
    try:
        if is_pandas(given):
            return _of_pandas(what, given)
        if isinstance(given, pa.RecordBatchReader):
            return given.read_all()
        if hasattr(given, "__arrow_c_stream__"):
            return pa.table(given)
        if hasattr(given, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(given)])
    except SchemaError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(what, given, error) from error
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)):
        tables = [as_table(f"an item of {what}", each) for each in given]  # its own errors stay what they are
        if not tables:
            if schema is not None:
                return schema.empty_table()
            raise SchemaError(f"{what} is an iterable without items, which has no columns: give an empty table")
        try:
            return pa.concat_tables(tables)
        except pa.ArrowException as error:
            raise _unreadable(what, given, error) from error
    hint = ": collect() it" if hasattr(given, "collect") else ""
    raise SchemaError(f"{what} must be {TAKEN}, not {_name(given)}{hint}")


def as_tables(given: Mapping[str, Any], schemas: Mapping[str, pa.Schema] | None = None) -> dict[str, pa.Table]:
    """Several rows as of `as_table`, by what each is; an object that is there twice, such as a reader, is read once."""
    tables: dict[str, pa.Table] = {}
    for what, rows in given.items():
        same = next((other for other in tables if given[other] is rows), None)
        tables[what] = as_table(what, rows, (schemas or {}).get(what)) if same is None else tables[same]
    return tables


def _read_once(what: str, given: Any) -> None:
    """Takes note of a reader or iterator that is read now. Raises SchemaError where it has no rows any more; of
    iterators that cannot be noted, such as of `map`, it is not known."""
    try:
        used = given in _READ
        _READ.add(given)
    except TypeError:
        return
    if used or (inspect.isgenerator(given) and inspect.getgeneratorstate(given) == inspect.GEN_CLOSED):
        raise SchemaError(
            f"{what} is a {_name(given)} that was read to its end before, and gives its rows once: make it again, or "
            "read it into a table first"
        )


def _unreadable(what: str, given: Any, error: Exception) -> SchemaError:
    return SchemaError(f"{what}, of type {_name(given)}, cannot be read as Arrow data: {error}")


def as_schema(what: str, given: Any) -> pa.Schema:
    """Columns in any form as a schema: that of `__arrow_c_schema__`, or of rows, of which none are read.

    Raises
    ------
    SchemaError
        If it is none.
    """
    if isinstance(given, pa.Schema):
        return given
    try:
        if isinstance(given, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
            return given.schema
        if is_pandas(given):
            return _of_pandas(what, given).schema
        if hasattr(given, "__arrow_c_schema__"):
            return pa.schema(given)
        if hasattr(given, "__arrow_c_stream__") and not is_spark(given):
            from_stream = getattr(pa.RecordBatchReader, "from_stream", None)  # pyarrow 15
            return pa.table(given).schema if from_stream is None else from_stream(given).schema
    except _UNREADABLE as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(f"{what}, of type {_name(given)}, cannot be read as an Arrow schema: {error}") from error
    raise SchemaError(
        f"{what} must be an Arrow schema, whatever has __arrow_c_schema__ (a schema of Polars), or a table, reader or "
        f"frame of these columns, not {_name(given)}"
    )


def as_array(what: str, given: Any) -> Any:
    """A column that gives Arrow data, or a table of one column, as a NumPy array, without a copy where it is one chunk;
    anything else as it is.

    Raises
    ------
    KeyTypeError
        If it has NULL, or is a table of several columns.
    """
    try:
        if hasattr(given, "__arrow_c_stream__"):
            column = pa.chunked_array(given)
        elif hasattr(given, "__arrow_c_array__"):
            column = pa.chunked_array([pa.array(given)])
        else:
            return given
    except _UNREADABLE as error:
        raise KeyTypeError(
            f"the {what}s, of type {_name(given)}, cannot be read as one Arrow column: {error}"
        ) from error
    if pa.types.is_struct(column.type):
        if column.type.num_fields != 1:
            raise KeyTypeError(f"the {what}s are one column, not {column.type.num_fields}: select one")
        column = pa.chunked_array([pc.struct_field(chunk, [0]) for chunk in column.chunks], column.type.field(0).type)
    if column.null_count:
        raise KeyTypeError(f"a {what} is NULL: leave such rows out")
    return column.chunk(0).to_numpy(zero_copy_only=False) if column.num_chunks == 1 else column.to_numpy()


def answer(result: pa.Table, given: Iterable[Any], source: Mapping[str, tuple[Any, str]]) -> Any:
    """A result in the caller's kind of frame: pandas' or Polars' if all frames given are, else an Arrow table.

    In pandas a column has the dtype that it had, or its own: integers and truth values with NULL are pandas' nullable
    ones, as floats would round them.

    Parameters
    ----------
    result : pyarrow.Table
    given : iterable
        What the caller gave for each side.
    source : mapping of str to (frame, str)
        Of columns of the result, what was given for their side and their name there.
    """
    frames = list(given)
    if all(map(is_pandas, frames)):
        return _to_pandas(result, source)
    if all(map(_is_polars, frames)):
        import polars

        return polars.from_arrow(result)
    return result


def dtype_of(frame: Any, column: str) -> Any:
    """The dtype of a column, or of a level of the index, of a DataFrame of pandas, by its name as text; None of
    others."""
    if not is_pandas(frame):
        return None
    for at, name in enumerate(frame.columns):
        if str(name) == column:
            return frame.dtypes.iloc[at]
    levels = [level for level, name in enumerate(frame.index.names) if str(name) == column]
    return frame.index.get_level_values(levels[0]).dtype if levels else None


def is_pandas(given: Any) -> bool:
    """Whether it is a DataFrame of pandas, which is not loaded for that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame)


def is_spark(given: Any) -> bool:
    """Whether it is a DataFrame of Spark, which is not loaded for that."""
    return type(given).__module__.startswith("pyspark.")


def is_frame(given: Any) -> bool:
    """Whether it is rows, rather than a parameter: a frame of any library, what gives Arrow data, an iterator of it."""
    return (
        is_pandas(given)
        or is_spark(given)
        or isinstance(given, (pa.RecordBatch, pa.RecordBatchReader))
        or hasattr(given, "__arrow_c_stream__")
        or hasattr(given, "__arrow_c_array__")
        or isinstance(given, Iterator)
    )


def _is_polars(given: Any) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(given, polars.DataFrame)


def _name(given: Any) -> str:
    kind = type(given)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _of_pandas(what: str, frame: Any) -> pa.Table:
    """A DataFrame with the named levels of its index as columns."""
    names = list(frame.index.names)
    if names == [None] and (not len(frame) or frame.index.dtype.kind in "iu"):
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if None in names:
        kind = frame.index.dtype if len(names) == 1 else f"{len(names)} levels"
        raise SchemaError(
            f"the pandas index of {what} ({kind}) has no name for level {names.index(None)}, and is no row numbers: "
            "name its levels by rename_axis(), which makes columns of them, or leave it out by reset_index(drop=True)"
        )
    twice = [name for name in names if name in frame.columns or names.count(name) > 1]
    if twice:
        raise SchemaError(
            f"the pandas index of {what} has a level {twice[0]!r}, and there is a column of that name: rename one, or "
            "leave the index out by reset_index(drop=True)"
        )
    table = pa.Table.from_pandas(frame, preserve_index=True).replace_schema_metadata(None)
    of_index = table.column_names[-len(names) :]
    return table.select([*of_index, *table.column_names[: -len(names)]])


def _to_pandas(result: pa.Table, source: Mapping[str, tuple[Any, str]]) -> Any:
    import pandas as pd

    nullable = {
        **{pa.from_numpy_dtype(name.lower()): pd.api.types.pandas_dtype(name) for name in _INTEGERS},
        pa.bool_(): pd.BooleanDtype(),
    }
    columns = []
    for name, column in zip(result.column_names, result.columns, strict=True):
        dtype = dtype_of(*source[name]) if name in source else None
        if not hasattr(dtype, "__from_arrow__") and column.null_count:
            dtype = nullable.get(column.type)
        from_arrow = getattr(dtype, "__from_arrow__", None)
        columns.append(column.to_pandas() if from_arrow is None else pd.Series(from_arrow(column)))
    made = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(len(result)), copy=False)
    made.columns = pd.Index(result.column_names)
    return made


_INTEGERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
