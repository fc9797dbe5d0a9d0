"""What the values of messages are: JSON, Avro, Arrow."""

from __future__ import annotations

import abc
import datetime as dt
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from muntin.host.aggregates.values import MAX_DIGITS
from muntin.host.errors import KafkaError, SchemaError
from muntin.host.public import public

BLOCK_BYTES = 1 << 19
"""Of a table whose rows become messages; half of what a broker takes in one by default."""

REASON_LENGTH = 400


class BadValueError(ValueError):
    """Values of messages among which one cannot be read. `field` is the column at fault, where one is."""

    def __init__(self, reason: str, field: str | None = None):
        super().__init__(cut(reason))
        self.field = field


def cut(reason: str) -> str:
    """Why a message is none; it may quote the value, and is written with it: both have to be one message."""
    return reason if len(reason) <= REASON_LENGTH else f"{reason[:REASON_LENGTH]}..."


@public("muntin.kafka")
class Format(abc.ABC):
    """What the value of a message is. `Json`, `Avro` and `Arrow` are those there are.

    Examples
    --------
    >>> from muntin.kafka import Arrow, Avro, Format, Json
    >>> [issubclass(kind, Format) for kind in (Arrow, Avro, Json)]
    [True, True, True]
    """

    @property
    def schema(self) -> pa.Schema | None:
        """The columns, where the format knows them."""
        return None

    @abc.abstractmethod
    def check(self, schema: pa.Schema, topic: str, *, writing: bool = False) -> None:
        """Raises SchemaError where messages cannot have these columns, or where they need others to be written."""

    @abc.abstractmethod
    def decode(self, values: Sequence[bytes | None], schema: pa.Schema) -> pa.Table:
        """The rows of some messages. Raises BadValueError where one of them cannot be read."""

    @abc.abstractmethod
    def encode(self, table: pa.Table) -> Iterator[bytes]:
        """The values of the messages that rows become."""

    def rows_of(self, values: Sequence[bytes]) -> list[int]:
        """How many rows each of some messages has, which can be read."""
        return [1] * len(values)

    def decode_some(
        self, values: Sequence[bytes | None], schema: pa.Schema
    ) -> tuple[list[pa.Table], list[tuple[int, BadValueError]]]:
        """The rows of the messages that can be read, in order; and which others there are, with their errors."""
        try:
            return [self.decode(values, schema)], []
        except BadValueError as error:
            if len(values) == 1:
                return [], [(0, error)]
        half = len(values) // 2  # halves are read until the message is alone: few are bad
        tables, bad = self.decode_some(values[:half], schema)
        more, others = self.decode_some(values[half:], schema)
        return tables + more, bad + [(half + place, error) for place, error in others]


#: Types that Arrow's reader of JSON has not, and what they are there; they are cast.
_TEXT = (pa.types.is_date, pa.types.is_time, pa.types.is_dictionary)


@public("muntin.kafka")
class Json(Format):
    """A JSON object a message, a row each.

    Fields that are no columns are skipped; a field that is not there is NULL. Timestamps, dates and times are text in
    ISO 8601, in UTC where it names no zone, decimals text or numbers, durations whole numbers of their unit; written,
    NaN and infinities are text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin.kafka import Json
    >>> schema = pa.schema({"id": pa.int64(), "t": pa.timestamp("ms")})
    >>> rows = Json().decode([b'{"id": 1, "t": "2026-01-31T09:00:00", "of": "others"}', b'{"id": 2}'], schema)
    >>> list(Json().encode(rows))
    [b'{"id":1,"t":"2026-01-31T09:00:00.000"}', b'{"id":2,"t":null}']
    """

    def check(self, schema: pa.Schema, topic: str, *, writing: bool = False) -> None:
        for field in schema:
            if _binary(field.type) or not (writing or self._reads(field)):
                raise SchemaError(
                    f"column {field.name!r} of topic {topic!r} has type {field.type}, which JSON has not: use the "
                    "format Arrow() or Avro(), or text"
                )

    def _reads(self, field: pa.Field) -> bool:
        """Whether there may be a message with such a column: else each would be one that cannot be read."""
        if _as_text_inside(field.type):
            return False
        try:
            self._read([b"{}"], pa.schema([field.with_nullable(True)]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return False
        return True

    def decode(self, values: Sequence[bytes | None], schema: pa.Schema) -> pa.Table:
        objects = []
        for value in values:
            if value is None:
                raise BadValueError("it has no value")
            if value[:1] != b"{" or value[-1:] != b"}":
                value = value.strip(b" \t\r\n")
                if value[:1] != b"{" or value[-1:] != b"}":
                    raise BadValueError("its value is no JSON object")
            objects.append(value)
        if not objects:
            return schema.empty_table()
        try:
            return self._read(objects, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadValueError(str(error), self._field_at_fault(objects, schema)) from error

    def _read(self, objects: list[bytes], schema: pa.Schema) -> pa.Table:
        data = b"\n".join(objects)
        # Each begins with a brace and ends with one: if all can be read, none has begun in one and ended in another.
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(block_size=max(1 << 20, len(max(objects, key=len)) + 1)),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([field.with_type(_read_as(field.type)) for field in schema]),
                unexpected_field_behavior="ignore",
                newlines_in_values=True,
            ),
        )
        if len(table) != len(objects):
            raise pa.ArrowInvalid("its value is several JSON objects")
        table.validate(full=True)  # text is UTF-8
        return pa.table([_cast(table.column(field.name), field.type) for field in schema], schema=schema)

    def _field_at_fault(self, objects: list[bytes], schema: pa.Schema) -> str | None:
        if len(objects) > 1:
            return None  # it is asked for each alone
        try:
            self._read(objects, pa.schema([]))
        except pa.ArrowInvalid:
            return None
        for field in schema:
            try:
                self._read(objects, pa.schema([field]))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return field.name
        return None

    def encode(self, table: pa.Table) -> Iterator[bytes]:
        if not table.num_rows:
            return
        # Names of result columns are unique; a dict is the same for each row but for the values.
        pieces: list[Any] = []
        for place, name in enumerate(table.column_names):
            pieces += [("," if place else "{") + json.dumps(name) + ":", _json_text(table.column(name))]
        rows = pc.binary_join_element_wise(*pieces, "}", "")
        for chunk in rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]:
            yield from chunk.cast(pa.binary()).to_pylist()


def _read_as(kind: pa.DataType) -> pa.DataType:
    if any(is_kind(kind) for is_kind in _TEXT):
        return pa.string()
    return pa.int64() if pa.types.is_duration(kind) else kind


def _as_text_inside(kind: pa.DataType) -> bool:
    """Whether there are values inside of others that would have to be read as text and cast, as is done of whole
    columns alone."""
    if pa.types.is_dictionary(kind):
        return not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))
    inside = [kind.field(place).type for place in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(any(is_kind(each) for is_kind in _TEXT) or _as_text_inside(each) for each in inside)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """What was read as another type."""
    if pa.types.is_time(kind):  # Arrow reads it as a part of a timestamp alone
        column = pc.binary_join_element_wise("1970-01-01T", column, "").cast(pa.timestamp(kind.unit))
    return column.cast(kind)


def _binary(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_binary(kind.field(place).type) for place in range(kind.num_fields))
    if pa.types.is_dictionary(kind):
        return _binary(kind.value_type)
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_kind(kind) for is_kind in kinds)


def _json_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column as JSON."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        text = column.cast(pa.string())
    elif pa.types.is_duration(kind):
        text = column.cast(pa.int64()).cast(pa.string())
    elif pa.types.is_floating(kind):
        text = column.cast(pa.float64() if kind == pa.float16() else kind).cast(pa.string())
        text = pc.if_else(pc.is_finite(column.cast(pa.float64())), text, _quoted(text))
    elif pa.types.is_timestamp(kind):
        if kind.tz is not None:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        text = _quoted(pc.replace_substring(_dated(column), " ", "T", max_replacements=1))
    elif pa.types.is_date(kind):
        text = _quoted(_dated(column))
    elif pa.types.is_time(kind) or pa.types.is_decimal(kind):
        text = _quoted(column.cast(pa.string()))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = column.cast(pa.string())
        if pc.any(pc.match_substring_regex(text, r'[\x00-\x1f"\\]'), min_count=0).as_py():
            text = pa.chunked_array([[None if each is None else json.dumps(each) for each in text.to_pylist()]])
            text = text.cast(pa.string())
        else:
            text = _quoted(text)
    else:
        found = [None if each is None else json.dumps(_plain(each)) for each in column.to_pylist()]
        text = pa.chunked_array([pa.array(found, pa.string())])
    return pc.fill_null(text, "null")


def _dated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The text of times. Raises SchemaError where a year has none."""
    text = column.cast(pa.string())
    if pc.any(pc.starts_with(text, "<"), min_count=0).as_py():
        raise SchemaError(
            f"a result has a {column.type} whose year is beyond what can be written as JSON: choose another "
            "output_format=, or leave the column out by select="
        )
    return text


def _plain(value: Any) -> Any:
    """A value inside of another one, as columns of its type are written."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _quoted(text: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise('"', text, '"', "")


@public("muntin.kafka")
class Arrow(Format):
    """A message is an Arrow IPC stream of any number of rows. Columns that are none of the join's are skipped.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin.kafka import Arrow
    >>> rows = pa.table({"id": [1, 2]})
    >>> Arrow().decode(list(Arrow().encode(rows)), rows.schema).equals(rows)
    True
    """

    def check(self, schema: pa.Schema, topic: str, *, writing: bool = False) -> None:
        pass

    def decode(self, values: Sequence[bytes | None], schema: pa.Schema) -> pa.Table:
        tables = []
        for value in values:
            if value is None:
                raise BadValueError("it has no value")
            try:
                with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
                    table = reader.read_all()
                table.validate(full=True)
                _ = table.column_names
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise BadValueError(f"its value is no Arrow IPC stream: {error}") from error
            tables.append(_conform(table, schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def rows_of(self, values: Sequence[bytes]) -> list[int]:
        return [pa.ipc.open_stream(value).read_all().num_rows for value in values]

    def encode(self, table: pa.Table) -> Iterator[bytes]:
        if not table.num_rows:
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield sink.getvalue().to_pybytes()


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema among those of a message. Raises BadValueError."""
    columns = []
    for field in schema:
        if table.schema.names.count(field.name) != 1:
            raise BadValueError(f"it has the columns {', '.join(table.schema.names)}", field.name)
        column = table.column(field.name)
        if column.type != field.type:
            raise BadValueError(f"it has type {column.type}, not {field.type}", field.name)
        if column.null_count and not field.nullable:
            raise BadValueError("it is NULL, and not null by the columns of the join", field.name)
        columns.append(column)
    return pa.table(columns, schema=schema)


@public("muntin.kafka")
class Avro(Format):
    """An Avro record a message, a row each. Needs ``pip install 'muntin[kafka]'``.

    Parameters
    ----------
    schema : str or dict
        Of the records, as JSON text or as `json.loads` gives it. Messages have this schema: no registry is asked.
    schema_id : int, optional
        The number of this schema in a schema registry, which its clients write in front of each record: messages of
        another one are refused. By default a message is the record alone.

    Raises
    ------
    SchemaError
        If that is no Avro schema, or none of a record.
    KafkaError
        If fastavro is not installed.

    Examples
    --------
    >>> from muntin.kafka import Avro
    >>> order = Avro({"type": "record", "name": "order", "fields": [
    ...     {"name": "id", "type": "long"},
    ...     {"name": "limit", "type": ["null", "double"]},
    ... ]}, schema_id=7)
    >>> print(order.schema)
    id: int64 not null
    limit: double
    """

    def __init__(self, schema: str | dict[str, Any], *, schema_id: int | None = None):
        try:
            import fastavro
        except ImportError as error:
            raise KafkaError("Avro needs the package fastavro: pip install 'muntin[kafka]'") from error
        self._fastavro = fastavro
        try:
            given: Any = json.loads(schema) if isinstance(schema, str) else schema
            self._parsed = fastavro.parse_schema(given)
        except Exception as error:  # fastavro has many classes of its own
            raise SchemaError(f"this is no Avro schema: {error}") from error
        if not isinstance(given, dict) or given.get("type") != "record":
            raise SchemaError("an Avro schema of messages is that of a record")
        self._fields = {field["name"]: field["type"] for field in given["fields"]}
        if schema_id is not None and not 0 <= schema_id < 1 << 32:
            raise SchemaError(f"schema_id={schema_id} is no number of a schema registry: they have 32 bits")
        self._head = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
        self._schema_id = schema_id

    @property
    def schema(self) -> pa.Schema:
        """The columns; SchemaError where a field has a type that no column has."""
        return pa.schema([_field_of(name, kind) for name, kind in self._fields.items()])

    def check(self, schema: pa.Schema, topic: str, *, writing: bool = False) -> None:
        for field in schema:
            if field.name not in self._fields:
                raise SchemaError(
                    f"the Avro schema of topic {topic!r} has no field {field.name!r}: it has {', '.join(self._fields)}"
                )
        missing = [name for name in self._fields if name not in schema.names]
        if writing and missing:
            raise SchemaError(
                f"the Avro schema of topic {topic!r} has a field {missing[0]!r}, which the result has not"
            )
        for name, kind in self._fields.items():
            if name in schema.names and (own := _field_of(name, kind)).type != schema.field(name).type:
                raise SchemaError(
                    f"field {name!r} of the Avro schema of topic {topic!r} is {own.type}, not {schema.field(name).type}"
                )

    def decode(self, values: Sequence[bytes | None], schema: pa.Schema) -> pa.Table:
        rows: list[Any] = []
        for value in values:
            if value is None:
                raise BadValueError("it has no value")
            if not value.startswith(self._head):
                raise BadValueError(f"its value does not begin with schema {self._schema_id} of a registry")
            data = io.BytesIO(value)
            data.seek(len(self._head))
            try:
                rows.append(self._fastavro.schemaless_reader(data, self._parsed, None))
            except Exception as error:  # whatever the bytes make of the reader
                reason = f"its value is no record of the Avro schema: {type(error).__name__} {error}".rstrip()
                raise BadValueError(reason) from error
            if data.tell() != len(value):
                raise BadValueError("its value is longer than a record of the Avro schema")
        columns = []
        for field in schema:
            try:
                column = pa.array([row[field.name] for row in rows], field.type)
            except (pa.ArrowException, OverflowError) as error:
                raise BadValueError(str(error), field.name) from error
            if column.null_count and not field.nullable:
                raise BadValueError("it is NULL, and not null by the columns of the join", field.name)
            columns.append(column)
        return pa.table(columns, schema=schema)

    def encode(self, table: pa.Table) -> Iterator[bytes]:
        for name, kind in self._fields.items():
            if table.column(name).null_count and not _field_of(name, kind).nullable:
                raise SchemaError(
                    f"column {name!r} of the result has NULL, which the field of the Avro schema cannot be: give it "
                    'the type ["null", ...]'
                )
        try:
            rows = table.to_pylist()
        except OverflowError as error:  # Python has the years from 1 to 9999 alone
            raise SchemaError(f"a result has a time that fastavro does not write: {error}") from error
        for row in rows:
            data = io.BytesIO()
            data.write(self._head)
            self._fastavro.schemaless_writer(data, self._parsed, row)
            yield data.getvalue()


_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def _field_of(name: str, kind: Any) -> pa.Field:
    """The column that a field of an Avro schema is. Raises SchemaError."""
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) == 1:
            return _field_of(name, others[0]).with_nullable("null" in kind)
    found: pa.DataType | None = None
    if isinstance(kind, str):
        found = _PRIMITIVES.get(kind)
    elif isinstance(kind, dict):
        found = _LOGICAL.get(kind.get("logicalType", ""))
        if kind.get("logicalType") == "decimal" and kind["precision"] <= MAX_DIGITS:
            found = pa.decimal128(kind["precision"], kind.get("scale", 0))
        elif kind["type"] == "array":
            found = pa.list_(_field_of("item", kind["items"]))
        elif kind["type"] == "enum":
            found = pa.string()
        elif found is None and "logicalType" not in kind and isinstance(kind["type"], str | list):
            return _field_of(name, kind["type"])
    if found is None:
        raise SchemaError(f"field {name!r} of the Avro schema is {json.dumps(kind)}, which no column is here")
    return pa.field(name, found, nullable=False)
