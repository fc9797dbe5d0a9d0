"""Random joins of Spark DataFrames that are no streams."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from muntin import errors
from tests.random_joins import values
from tests.random_joins.case import Case, Way
from tests.random_joins.shell import whole

#: The session, and the address of a daemon; set by who runs such joins.
session: Any = None
daemon: str | None = None


def over_frames(case: Case) -> Case | None:
    """The join of a case over DataFrames: columns get the types that Spark has for their values, rows a sequence
    without ties, as Spark promises no order; None where Spark has not the like."""
    options = {name: value for name, value in case.options.items() if name not in ("engine", "capacity", "index")}
    if case.self_join or options["form"] == "ranges":
        return None
    sequence = options.setdefault("sequence", "q")
    sides = []
    for side, schema in enumerate(case.schemas):
        kinds = {field.name: _in_spark(field.type) for field in schema}
        payload = {name for name in schema.names if name[0] in "pv" and kinds[name] is None}  # which nothing compares
        aggregates = options.get("aggregates", ())
        options |= {"aggregates": tuple(a for a in aggregates if a.column not in payload)} if aggregates else {}
        kept = [name for name in schema.names if name not in payload and name != sequence]
        table = whole([push[side] for call in case.calls for push in call if push[side] is not None], schema)
        if sequence in schema.names:
            table = values.sorted_by(table, sequence)
        if any(kinds[name] is None for name in kept):
            return None
        keys = pa.array([2 * row + side for row in range(len(table))], pa.int64())
        try:
            table = table.select(kept).cast(pa.schema([(name, kinds[name]) for name in kept]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        columns = [*(table[name].combine_chunks() for name in kept), keys]
        sides.append(pa.table(columns, names=[*kept, sequence]))
    if options["form"] == "aggregate" and not options["aggregates"]:
        return None
    partitions = case.partitions if isinstance(case.partitions, int) and options["form"] == "rows" else 1
    changed = {"options": options, "schemas": (sides[0].schema, sides[1].schema), "calls": (((sides[0], sides[1]),),)}
    changed |= {"delays": None, "watermark": {}, "device": "cpu", "partitions": partitions, "way": Way("spark")}
    return dataclasses.replace(case, **changed)  # type: ignore[arg-type]


def _in_spark(kind: pa.DataType) -> pa.DataType | None:
    """The type with which a column of this type goes into Spark and comes out of it; None where there is none."""
    types = pa.types
    if types.is_dictionary(kind):
        return _in_spark(kind.value_type)
    if types.is_struct(kind):
        fields = [(field.name, _in_spark(field.type)) for field in kind]
        return None if not fields or any(each is None for _, each in fields) else pa.struct(fields)
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(kind.bit_width)
    if types.is_date(kind):
        return pa.date32()
    if types.is_duration(kind):
        return pa.duration("us")
    if values.is_text(kind):
        return pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind):
        return pa.binary()
    plain = types.is_integer(kind) or types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind)
    if plain or (types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision):
        return kind
    return None


def results(case: Case) -> Iterator[tuple[str, list[pa.Table]]]:
    """What `window_join` gives."""
    from pyspark.errors import PythonException
    from pyspark.sql.pandas.types import from_arrow_schema

    from muntin.spark import window_join

    ((tables,),) = case.calls
    frames = [
        session.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True)) for table in tables
    ]
    partitions = {"partitions": case.partitions} if case.within is not None else {}
    joined = window_join(*frames, **case.arguments(), daemon=daemon, **partitions)
    try:
        found = joined.toArrow()
    except PythonException as error:  # of a value, which a task refused
        kind, text = re.search(r"muntin\.errors\.(\w+): (.*)", str(error)).groups()  # type: ignore[union-attr]
        raise getattr(errors, kind)(text) from error
    due = {name: kind for schema in case.schemas[::-1] for name, kind in zip(schema.names, schema.types, strict=True)}
    suffix = case.options.get("suffix", "_right")
    due |= {f"{name}{suffix}": kind for name, kind in zip(case.schemas[1].names, case.schemas[1].types, strict=True)}
    fields = [
        field.with_type(due[field.name]) if _only_zone(field.type, due.get(field.name)) else field
        for field in found.schema
    ]
    yield "all", [found.cast(pa.schema(fields))]


def _only_zone(kind: pa.DataType, due: pa.DataType | None) -> bool:
    """Whether types differ in the zone that times are shown in."""
    return due is not None and "tz=" in str(kind) and "tz=" in str(due)
