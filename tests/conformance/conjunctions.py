"""Conjunctions of the contract over the columns of `with_columns`, for the operator and for the nested loop."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa

from muntin import AllOf, AnyOf, Band, Compare, Where
from tests.conformance.streams import Streams

WINDOW = pa.struct({"start": pa.timestamp("us"), "end": pa.timestamp("us")})
COLUMNS = {
    "name": pa.string(), "raw": pa.binary(), "flag": pa.bool_(), "narrow": pa.int32(), "wide": pa.int64(),
    "single": pa.float32(), "double": pa.float64(), "span": WINDOW, "day": pa.date32(), "stamp": pa.timestamp("s"),
}  # fmt: skip
NAMES = list(COLUMNS)


def _pair(column: str, predicate: tuple, other: str | None = None) -> tuple:
    return ("pair", NAMES.index(column), NAMES.index(other or column), predicate)


def _where(side: str, column: str, test: object) -> tuple:
    return ("where", side, NAMES.index(column), test)


EQUAL = ("compare", "=")
SHAPES: dict[str, tuple[AllOf | Compare, list[tuple]]] = {
    "text-alone": (Compare("name", "=", "name"), [_pair("name", EQUAL)]),
    "text+narrow": (
        AllOf(Compare("name", "=", "name"), Band("narrow", "narrow", -3, 5)),
        [_pair("name", EQUAL), _pair("narrow", ("band", -3, 5))],
    ),
    "wide=+narrow<": (
        AllOf(Compare("narrow", "<", "narrow"), Compare("wide", "=", "wide")),
        [_pair("narrow", ("compare", "<")), _pair("wide", EQUAL)],
    ),
    "wide=+single": (
        AllOf(Compare("wide", "=", "wide"), Band("single", "single", -0.5, 0.25)),
        [_pair("wide", EQUAL), _pair("single", ("band", -0.5, 0.25))],
    ),
    "wide=+double": (
        AllOf(Compare("wide", "=", "wide"), Band("double", "double", -0.5, 0.25)),
        [_pair("wide", EQUAL), _pair("double", ("band", -0.5, 0.25))],
    ),
    "ranges": (
        AllOf(Band("wide", "wide", None, 2), Band("double", "double", -0.5, 0.75)),
        [_pair("wide", ("band", None, 2)), _pair("double", ("band", -0.5, 0.75))],
    ),
    "crossed-columns": (
        AllOf(Compare("narrow", "<=", "wide"), Compare("wide", ">=", "narrow"), Compare("day", "!=", "day")),
        [
            _pair("narrow", ("compare", "<="), "wide"),
            _pair("wide", ("compare", ">="), "narrow"),
            _pair("day", ("compare", "!=")),
        ],
    ),
    "union": (
        AllOf(
            AnyOf(Band("narrow", "narrow", -9, -4), Band("narrow", "narrow", 0, 2), Band("narrow", "narrow", 9, None)),
            Compare("flag", "=", "flag"),
        ),
        [_pair("narrow", ("any", [("band", -9, -4), ("band", 0, 2), ("band", 9, None)])), _pair("flag", EQUAL)],
    ),
    "null-safe": (
        AllOf(Compare("name", "<=>", "name"), Compare("wide", "<=>", "narrow"), Compare("day", "!=", "day")),
        [
            ("same", NAMES.index("name"), NAMES.index("name")),
            ("same", NAMES.index("wide"), NAMES.index("narrow")),
            _pair("day", ("compare", "!=")),
        ],
    ),
    "union-null-safe": (
        AllOf(
            AnyOf(Compare("narrow", "<=>", "narrow"), Band("narrow", "narrow", 3, None)),
            AnyOf(Band("day", "stamp", "-36 hours", "0"), Compare("day", "<=>", "stamp")),
        ),
        [
            ("same-or", NAMES.index("narrow"), NAMES.index("narrow"), ("band", 3, None)),
            ("same-or", NAMES.index("day"), NAMES.index("stamp"), ("band", dt.timedelta(hours=-36), 0)),
        ],
    ),
    "structs": (
        AllOf(Compare("span", "=", "span"), Band("narrow", "narrow", -20, 20)),
        [_pair("span", EQUAL), _pair("narrow", ("band", -20, 20))],
    ),
    "structs-null-safe": (
        AllOf(Compare("span", "<=>", "span"), Band("double", "double", -2, 2)),
        [("same", NAMES.index("span"), NAMES.index("span")), _pair("double", ("band", -2, 2))],
    ),
    "many-equal": (
        AllOf(Compare("raw", "=", "raw"), Compare("flag", "<=>", "flag"), Compare("double", "=", "single")),
        [
            _pair("raw", EQUAL),
            ("same", NAMES.index("flag"), NAMES.index("flag")),
            _pair("double", EQUAL, "single"),
        ],
    ),
    "one-sided": (
        AllOf(
            Where("left", "double", ">", 0.25),
            Band("day", "day", "-3 days", "2 days"),
            AnyOf(Where("right", "name", "=", "b"), Where("right", "name", ">", "c")),
            Where("right", "span.end", "<", dt.datetime(1970, 1, 1, 0, 0, 0, 3)),
        ),
        [
            _where("left", "double", lambda v: v > 0.25),
            _pair("day", ("band", dt.timedelta(days=-3), dt.timedelta(days=2))),
            _where("right", "name", lambda v: v == "b" or v > "c"),
            _where("right", "span", lambda v: v[1] is not None and v[1] < 3000),
        ],
    ),
    "unequal": (Compare("name", "!=", "name"), [_pair("name", ("compare", "!="))]),
    "sums": (
        AllOf(
            AnyOf(Band("narrow", "wide", None, -6, sum=True), Band("narrow", "wide", -2, 7, sum=True)),
            Band("narrow", "narrow", -15, 9, sum=True),
            Compare("raw", "!=", "raw"),
            Compare("flag", "is distinct from", "flag"),
            Compare("double", "is distinct from", "single"),
        ),
        [
            _pair("narrow", ("any", [("sum", None, -6), ("sum", -2, 7)]), "wide"),
            _pair("narrow", ("sum", -15, 9)),
            _pair("raw", ("compare", "!=")),
            ("distinct", NAMES.index("flag"), NAMES.index("flag")),
            ("distinct", NAMES.index("double"), NAMES.index("single")),
        ],
    ),
    "equal+sum": (
        AllOf(Compare("flag", "=", "flag"), Band("narrow", "narrow", -1, 4, sum=True)),
        [_pair("flag", EQUAL), _pair("narrow", ("sum", -1, 4))],
    ),
    "where-alone": (
        AllOf(Where("left", "narrow", ">", 2), Where("right", "name", "is distinct from", "a")),
        [_where("left", "narrow", lambda v: v > 2), ("where-null", "right", NAMES.index("name"), lambda v: v != "a")],
    ),
    "always": (AllOf(), []),
    "never": (AllOf(AnyOf()), [("never",)]),
    "never+narrow": (AllOf(Band("narrow", "narrow", -3, 5), AnyOf()), [_pair("narrow", ("band", -3, 5)), ("never",)]),
}


def random_columns(count: int, rng: np.random.Generator, *, nan: bool) -> pa.Table:
    """Columns of `COLUMNS` with few different values, and NULLs; NaN, where asked for, in the floats."""

    def column(values: list, kind: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < 0.06 else value for value in values], kind)

    floats = [math.nan if nan and rng.random() < 0.05 else int(v) / 4 for v in rng.integers(-4, 5, count)]
    ends = [None if rng.random() < 0.1 else int(v) for v in rng.integers(0, 5, count)]
    spans = [{"start": int(v), "end": end} for v, end in zip(rng.integers(0, 2, count), ends, strict=True)]
    return pa.table(
        {
            "name": column(["abcd"[v] for v in rng.integers(0, 4, count)], pa.string()),
            "raw": column([b"xy"[v : v + 1] for v in rng.integers(0, 2, count)], pa.binary()),
            "flag": column(rng.integers(0, 2, count).astype(bool).tolist(), pa.bool_()),
            "narrow": column(rng.integers(-12, 12, count).tolist(), pa.int32()),
            "wide": column((rng.integers(-3, 4, count)).tolist(), pa.int64()),
            "single": column(floats, pa.float32()),
            "double": column(
                [v + int(d) / 4 for v, d in zip(floats, rng.integers(0, 2, count), strict=True)], pa.float64()
            ),
            "span": column(spans, WINDOW),
            "day": column(rng.integers(0, 9, count).tolist(), pa.date32()),
            "stamp": column((rng.integers(0, 18, count) * 43_200).tolist(), pa.timestamp("s")),
        }
    )


def with_columns(streams: Streams, rng: np.random.Generator, *, nan: bool) -> Streams:
    """The same streams with the columns of `COLUMNS` too."""
    more = {
        "lid": random_columns(streams.left.num_rows, rng, nan=nan),
        "rid": random_columns(streams.right.num_rows, rng, nan=nan),
    }

    def widened(batch: pa.Table | pa.RecordBatch | None, name: str) -> pa.Table | None:
        if batch is None:
            return None
        batch = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        for column, values in zip(NAMES, more[name].take(batch[name].combine_chunks()).columns, strict=True):
            batch = batch.append_column(column, values)
        return batch

    return Streams(
        [(widened(left, "lid"), widened(right, "rid")) for left, right in streams.calls],
        widened(streams.left, "lid"),
        widened(streams.right, "rid"),
    )
