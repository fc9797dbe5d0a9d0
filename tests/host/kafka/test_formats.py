"""What the values of messages are: what is written is read again, and what cannot be read is named."""

from __future__ import annotations

import datetime as dt
import decimal
import doctest
import inspect
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin.kafka
from muntin.errors import SchemaError
from muntin.host.kafka.formats import BadValueError, Format
from muntin.kafka import Arrow, Avro, Json

TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(lambda t: t.replace(microsecond=0))
#: Values of each type that all formats have, by the type in Avro.
TYPES: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": ("boolean", pa.bool_(), st.booleans()),
    "int": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": ("double", pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "float": ("float", pa.float32(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    "text": ("string", pa.string(), st.text(max_size=6)),
    "time": (
        {"type": "long", "logicalType": "timestamp-millis"},
        pa.timestamp("ms", "UTC"),
        TIMES.map(lambda t: t.replace(tzinfo=dt.UTC)),
    ),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us"), TIMES),
    "date": ({"type": "int", "logicalType": "date"}, pa.date32(), st.dates()),
    "clock": ({"type": "long", "logicalType": "time-micros"}, pa.time64("us"), st.times()),
    "money": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.decimal128(9, 2),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: decimal.Decimal(cents).scaleb(-2)),
    ),
    "list": ({"type": "array", "items": "long"}, pa.list_(pa.field("item", pa.int64(), False)), st.just([1, 2])),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, dict[str, Any]]:
    """Some rows, and their Avro schema."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(1, 5))
    columns, fields, schema = [], [], []
    for name in names:
        avro, kind, values = TYPES[name]
        nullable = draw(st.booleans())
        each = st.none() | values if nullable else values
        columns.append(pa.array(draw(st.lists(each, min_size=rows, max_size=rows)), kind))
        fields.append(pa.field(name, kind, nullable))
        schema.append({"name": name, "type": ["null", avro] if nullable else avro})
    return pa.table(columns, schema=pa.schema(fields)), {"type": "record", "name": "row", "fields": schema}


@settings(max_examples=60)
@given(drawn=tables(), schema_id=st.none() | st.integers(0, 2**32 - 1))
def test_what_is_written_is_read(drawn: tuple[pa.Table, dict[str, Any]], schema_id: int | None) -> None:
    table, schema = drawn
    avro = Avro(json.dumps(schema), schema_id=schema_id)
    assert avro.schema == table.schema
    for format in (Json(), Arrow(), avro):
        format.check(table.schema, "topic", writing=True)
        values = list(format.encode(table))
        assert len(values) == (1 if isinstance(format, Arrow) else len(table))
        assert format.decode(values, table.schema).equals(table)
        if isinstance(format, Json):
            assert [set(json.loads(value)) for value in values] == [set(table.column_names)] * len(table)


def test_types_that_json_alone_reads_and_writes() -> None:
    schema = pa.schema(
        {
            "span": pa.duration("ms"),
            "word": pa.dictionary(pa.int32(), pa.string()),
            "day": pa.date64(),
            "big": pa.large_string(),
            "zone": pa.timestamp("s", "Europe/Berlin"),
            "point": pa.struct({"x": pa.int64()}),
            "ratio": pa.float64(),
            "plain": pa.timestamp("ms"),
        }
    )
    value = b""" {"span": 5, "word": "a", "day": "2026-01-31", "big": "b\\n\\"", "zone": "2026-01-31T00:00:00Z",
                 "more": {}, "point": {"x": 1}, "ratio": 0.1, "plain": "2026-01-31 01:02:03.004"}\r\n"""
    read = Json().decode([value, b"{}"], schema)
    assert read.schema == schema
    assert read.to_pylist()[1] == dict.fromkeys(schema.names)
    written = list(Json().encode(read))
    assert json.loads(written[0])["zone"] == "2026-01-31T00:00:00Z"
    assert json.loads(written[0])["plain"] == "2026-01-31T01:02:03.004"
    assert Json().decode(written, schema).equals(read)
    odd = pa.table({"x": [math.nan, math.inf, -math.inf, 1.0]})
    assert [json.loads(value)["x"] for value in Json().encode(odd)] == ["nan", "inf", "-inf", 1]
    inside = {"x": [math.nan, 1.5, None], "t": dt.datetime(2026, 1, 31, 9), "d": decimal.Decimal("1.50"), "ok": True}
    (value,) = Json().encode(pa.table({"of": [inside]}))
    assert json.loads(value, parse_constant=pytest.fail) == {
        "of": {"x": ["nan", 1.5, None], "t": "2026-01-31T09:00:00", "d": "1.50", "ok": True}
    }
    assert list(Json().encode(odd.slice(0, 0))) == list(Arrow().encode(odd.slice(0, 0))) == []
    assert Json().decode([], schema).equals(schema.empty_table())


COLUMNS = pa.schema([pa.field("id", pa.int64(), False), pa.field("t", pa.timestamp("ms"))])
GOOD = pa.table([[1], [5]], schema=COLUMNS)
RECORD = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]},
    ],
}
BAD: dict[str, tuple[Format, bytes | None, str, str | None]] = {
    "no value": (Json(), None, "no value", None),
    "no object": (Json(), b"[1]", "no JSON object", None),
    "open": (Json(), b'{"id": 1', "no JSON object", None),
    "broken": (Json(), b'{"id": 1 "t": 2}', "JSON parse error", None),
    "two": (Json(), b'{"id": 1}\n{"id": 2}', "several JSON objects", None),
    "half": (Json(), b'{"id": 1, "x": [{}', "JSON parse error", None),
    "missing": (Json(), b'{"t": null}', "required field was absent", "id"),
    "text": (Json(), b'{"id": "one"}', "from number to string", "id"),
    "fraction": (Json(), b'{"id": 1.5}', "couldn't parse:1.5", "id"),
    "no time": (Json(), b'{"id": 1, "t": "noon"}', "couldn't parse:noon", "t"),
    "twice": (Json(), b'{"id": 1, "id": 2}', "twice", "id"),
    "no Arrow value": (Arrow(), None, "no value", None),
    "no stream": (Arrow(), b"id", "no Arrow IPC stream", None),
    "no UTF-8": (Arrow(), b"".join(Arrow().encode(GOOD)).replace(b"id", b"i\xff"), "no Arrow IPC stream", None),
    "no column": (Arrow(), next(Arrow().encode(GOOD.select(["id"]))), "it has the columns id", "t"),
    "other type": (Arrow(), next(Arrow().encode(GOOD.set_column(1, "t", [[5]]))), "type int64, not timestamp", "t"),
    "NULL": (Arrow(), next(Arrow().encode(pa.table({"id": pa.nulls(1, pa.int64()), "t": GOOD["t"]}))), "NULL", "id"),
    "no record": (Avro(RECORD), b"", "no record of the Avro schema", None),
    "no Avro value": (Avro(RECORD), None, "no value", None),
    "longer": (Avro(RECORD), next(Avro(RECORD).encode(GOOD)) + b"x", "longer than a record", None),
    "no number": (Avro(RECORD, schema_id=7), next(Avro(RECORD).encode(GOOD)), "schema 7 of a registry", None),
    "other number": (
        Avro(RECORD, schema_id=7),
        next(Avro(RECORD, schema_id=8).encode(GOOD)),
        "schema 7 of a registry",
        None,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_named(name: str) -> None:
    format, value, reason, field = BAD[name]
    with pytest.raises(BadValueError, match=reason) as caught:
        format.decode([value], COLUMNS)
    assert caught.value.field == field
    (good,) = format.encode(GOOD)
    for place in range(6):  # among others, once and twice
        values: list[bytes | None] = [good] * 5
        values.insert(place, value)
        tables, bad = format.decode_some([*values, value], COLUMNS)
        assert pa.concat_tables(tables).equals(pa.concat_tables([GOOD] * 5))
        assert [(at, error.field) for at, error in bad] == [(place, field), (6, field)]
        assert all(reason in str(error) for _, error in bad)


def test_text_that_is_not_utf_8_is_bad() -> None:
    with pytest.raises(BadValueError, match=r"[Ii]nvalid UTF"):
        Json().decode([b'{"x": "\xff"}'], pa.schema({"x": pa.string()}))


def test_what_is_told_of_a_value_is_short() -> None:
    with pytest.raises(BadValueError, match=r"couldn't parse:x{300,400}\.\.\.$"):
        Json().decode([b'{"id": 1, "t": "%s"}' % (b"x" * 900_000)], COLUMNS)


def test_objects_do_not_run_into_each_other() -> None:
    halves = [b'{"id": 1, "x": {"y": [{}', b'{}]}, "id2": 1}', b'{"id": 2}\n{"id": 3}']
    tables, bad = Json().decode_some([*halves, b'{"id": 4, "x":\n {"y": [{},\n{}]\n}}'], COLUMNS)
    assert pa.concat_tables(tables)["id"].to_pylist() == [4]
    assert [place for place, _ in bad] == [0, 1, 2]


def test_columns_that_a_format_does_not_have_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"column 'raw' of topic 'in' has type fixed_size_binary.*JSON has not"):
        Json().check(pa.schema({"raw": pa.binary(3)}), "in")
    with pytest.raises(SchemaError, match="column 'raw'"):
        Json().check(pa.schema({"raw": pa.list_(pa.binary())}), "in")
    inside = pa.list_(pa.date32()), pa.struct({"at": pa.time32("s")}), pa.list_(pa.dictionary(pa.int8(), pa.string()))
    for kind in (
        *inside,
        pa.binary_view(),
        pa.float16(),
        pa.map_(pa.string(), pa.int64()),
        pa.dictionary(pa.int8(), pa.int64()),
    ):
        with pytest.raises(SchemaError, match=r"column 'x' of topic 'in' has type .*, which JSON has not"):
            Json().check(pa.schema([pa.field("x", kind, nullable=False)]), "in")
    Json().check(pa.schema({"x": pa.float16(), "y": pa.list_(pa.date32())}), "out", writing=True)
    with pytest.raises(SchemaError, match="topic 'in' has no field 'price': it has id, t"):
        Avro(RECORD).check(pa.schema({"price": pa.int64()}), "in")
    with pytest.raises(SchemaError, match="field 'id' of the Avro schema of topic 'in' is int64, not int32"):
        Avro(RECORD).check(pa.schema({"id": pa.int32()}), "in")
    with pytest.raises(SchemaError, match="topic 'out' has a field 't', which the result has not"):
        Avro(RECORD).check(pa.schema({"id": pa.int64()}), "out", writing=True)
    for schema, said in (
        ("{", "no Avro schema"),
        ({"type": "recrod"}, "no Avro schema"),
        ("string", "no Avro schema"),
        ({"type": "array", "items": "long"}, "that of a record"),
    ):
        with pytest.raises(SchemaError, match=said):
            Avro(schema)
    many: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 50}
    for kind in (["long", "string"], many):
        with pytest.raises(SchemaError, match=r"field 'x' of the Avro schema is .*which no column is here"):
            _ = Avro({"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}).schema
    with pytest.raises(SchemaError, match="schema_id=-1 is no number of a schema registry"):
        Avro(RECORD, schema_id=-1)


def test_what_cannot_be_written_is_refused() -> None:
    avro = Avro({"type": "record", "name": "row", "fields": [{"name": "hit", "type": "boolean"}]})
    with pytest.raises(SchemaError, match=r"column 'hit' of the result has NULL, .* the type \[\"null\", \.\.\.\]"):
        list(avro.encode(pa.table({"hit": [True, None]})))
    far = pa.table([[1], pa.array([10**17], pa.timestamp("ms"))], schema=COLUMNS)
    days = far.set_column(1, "t", pa.array([2**31 - 1], pa.date32()))
    for format, table in ((Json(), far), (Json(), days), (Avro(RECORD), far)):
        with pytest.raises(SchemaError, match=r"a result has a (t|date)"):
            list(format.encode(table))


def test_examples_of_docstrings_run() -> None:
    for name in muntin.kafka.__all__:
        text = inspect.getdoc(getattr(muntin.kafka, name)) or ""
        example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
        assert example.examples
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
