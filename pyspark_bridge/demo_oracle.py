"""The result of a join once more, in SQL by DuckDB, and what a given result lacks or has too many."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.host.errors import UnsupportedError
from muntin.host.predicates import AllOf, AnyOf, Band, Compare
from muntin.host.spec import JoinSpec

#: The column that gives the order of arrival over both streams, different in every row.
ARRIVAL = "arrival"


@dataclass(frozen=True)
class Verdict:
    """How a result compares with the oracle's.

    Attributes
    ----------
    rows : int
        Rows that the oracle finds.
    missing, extra : int
        Rows of the oracle that the result lacks, and of the result that the oracle lacks; a row twice where
        it belongs once counts as extra.
    examples : list of str
        Some of either.
    """

    rows: int
    missing: int
    extra: int
    examples: list[str]


def check_result(
    spec: JoinSpec, left: Path, right: Path, result: Path, schemas: tuple[pa.Schema, pa.Schema], scratch: Path
) -> Verdict:
    """Join again with DuckDB and compare all columns of all rows.

    Shares no code with the operator: windows are conditions on row numbers and times, the band a comparison
    of columns.

    Parameters
    ----------
    spec : JoinSpec
        The join; `form="rows"`, no watermark.
    left, right, result : Path
        Folders of parquet files: both inputs, each with the column `ARRIVAL`, and the join's result.
    schemas : tuple of pyarrow.Schema
        Of the left and right files.
    scratch : Path
        Folder for what does not fit into memory.
    """
    import duckdb

    names = spec.output_schema(*schemas).names
    width = len(schemas[0])
    columns = [f"l.{_quote(name)} AS {_quote(out)}" for name, out in zip(schemas[0].names, names, strict=False)]
    columns += [f"r.{_quote(name)} AS {_quote(out)}" for name, out in zip(schemas[1].names, names[width:], strict=True)]
    with duckdb.connect(config={"temp_directory": str(scratch)}) as connection:
        for side, folder, schema in (("l", left, schemas[0]), ("r", right, schemas[1])):
            listed = ", ".join(_quote(name) for name in schema.names)
            connection.execute(
                f"CREATE TABLE {side}_rows AS SELECT {listed}, row_number() OVER (ORDER BY "
                f"{_quote(ARRIVAL)}) AS "
                f"muntin_number FROM read_parquet('{folder}/*.parquet')"
            )
        for side, other in (("l", "r"), ("r", "l")):
            # How many rows of the other stream had arrived before each row.
            connection.execute(
                f"CREATE TABLE {side} AS SELECT s.*, coalesce(o.muntin_number, 0) AS muntin_seen FROM "
                f"{side}_rows s "
                f"ASOF LEFT JOIN {other}_rows o ON s.{_quote(ARRIVAL)} > o.{_quote(ARRIVAL)}"
            )
        condition = _predicate(spec.on, *schemas)
        source = _candidates(spec.on, *schemas)
        parts = [
            f"SELECT {', '.join(columns)} FROM {source} WHERE {condition} AND {window}"
            for window in _windows(spec, *schemas)
        ]
        connection.execute(f"CREATE TABLE wanted AS {' UNION ALL '.join(parts)}")
        listed = ", ".join(_quote(name) for name in names)
        connection.execute(f"CREATE VIEW found AS SELECT {listed} FROM read_parquet('{result}/*.parquet')")
        rows = _one(connection, "SELECT count(*) FROM wanted")
        if rows == 0 and not list(result.glob("*.parquet")):
            return Verdict(0, 0, 0, [])
        counts = []
        examples = []
        for word, one, other in (("missing", "wanted", "found"), ("extra", "found", "wanted")):
            connection.execute(f"CREATE TABLE {word} AS SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}")
            counts.append(_one(connection, f"SELECT count(*) FROM {word}"))
            examples += [f"{word}: {row}" for row in connection.execute(f"SELECT * FROM {word} LIMIT 3").fetchall()]
    return Verdict(rows, counts[0], counts[1], examples)


def _one(connection: Any, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])


def _windows(spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> list[str]:
    """The window as SQL; for count windows one part for each side that may arrive later."""
    if spec.within is not None:
        within = spec.within
        of_left = _number("l", within.left_time, left)
        of_right = _number("r", within.right_time, right)
        low, high = _bound(within.low), _bound(within.high)
        return [f"{of_right} >= {of_left} + {low} AND {of_right} <= {of_left} + {high}"]
    return [
        f"l.muntin_number <= r.muntin_seen AND l.muntin_number > r.muntin_seen - {spec.left.count}",
        f"r.muntin_number <= l.muntin_seen AND r.muntin_number > l.muntin_seen - {spec.right.count}",
    ]


def _predicate(on: Any, left: pa.Schema, right: pa.Schema) -> str:
    if isinstance(on, AnyOf):
        return "(" + " OR ".join(_predicate(each, left, right) for each in on.parts) + ")"
    if isinstance(on, AllOf):
        return "(" + " AND ".join(_predicate(each, left, right) for each in on.parts) + ")"
    of_left, of_right = _number("l", on.left, left), _number("r", on.right, right)
    terms = [f"{of_left} IS NOT NULL", f"{of_right} IS NOT NULL"]
    for number, kind in zip((of_left, of_right), _kinds(on, left, right), strict=True):
        if pa.types.is_floating(kind):
            terms.append(f"NOT isnan({number})")  # to DuckDB NaN equals itself, and is the greatest
    if isinstance(on, Compare) and not on.null_safe:
        terms.append(f"{of_left} {'=' if on.op == '==' else on.op} {of_right}")
    elif isinstance(on, Band) and not on.sum and on.closed == "both":
        for compare, bound in ((">=", on.low), ("<=", on.high)):
            if bound is not None:
                terms.append(f"{of_right} {compare} {of_left} + {_bound(bound)}")
    else:
        raise UnsupportedError(f"the demo has no oracle for {on!r}")
    return f"({' AND '.join(terms)})"


def _candidates(on: Any, left: pa.Schema, right: pa.Schema) -> str:
    """The FROM clause: all pairs, or those whose keys lie in the same bucket where the condition has two
    ends.

    DuckDB alone compares every pair for a band with a window. Any two keys that match share a bucket, since a
    bucket is as wide as the band and the left row stands in those of both its ends; what a bucket brings
    together and the condition does not is left to the condition.
    """
    if isinstance(on, AllOf):
        # Of one part with two ends, which all pairs satisfy.
        on = next((part for part in on.parts if _ends(part) is not None), on.parts[0])
    bounds = _ends(on)
    if bounds is None:
        return "l, r"
    low, high = bounds
    of_left, of_right = _number("l", on.left, left), _number("r", on.right, right)
    if all(pa.types.is_integer(kind) or pa.types.is_temporal(kind) for kind in _kinds(on, left, right)):
        width = f"({high} - {low} + 1)"
        low_end, high_end, bucket = (
            f"({key}) // {width}" for key in (f"{of_left} + {low}", f"{of_left} + {high}", of_right)
        )
    else:
        # Twice as wide, so that rounding cannot put the two ends more than one bucket apart.
        width = f"coalesce(nullif(2 * ({high} - {low}), 0), 1)::DOUBLE"
        low_end, high_end, bucket = (
            f"floor(({key})::DOUBLE / {width})" for key in (f"{of_left} + {low}", f"{of_left} + {high}", of_right)
        )
    return (
        f"(SELECT *, unnest(list_distinct([{low_end}, {high_end}])) AS muntin_bucket FROM l) l "
        f"JOIN (SELECT *, {bucket} AS muntin_bucket FROM r) r ON l.muntin_bucket = r.muntin_bucket"
    )


def _ends(on: Any) -> tuple[str, str] | None:
    """The least and greatest difference that a condition allows, as SQL; None where either is open."""
    if isinstance(on, AnyOf):
        ends = [_ends(each) for each in on.parts]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return None
        lows, highs = zip(*known, strict=True)
        return f"least({', '.join(lows)})", f"greatest({', '.join(highs)})"
    if isinstance(on, Compare):
        return ("0", "0") if on.op in ("=", "==") else None
    if on.low is None or on.high is None:
        return None
    return _bound(on.low), _bound(on.high)


def _kinds(on: Any, left: pa.Schema, right: pa.Schema) -> tuple[pa.DataType, pa.DataType]:
    return left.field(on.left).type, right.field(on.right).type


def _number(table: str, name: str, schema: pa.Schema) -> str:
    """A key or time column as a number wide enough not to wrap: times are microseconds."""
    kind = schema.field(name).type
    column = f"{table}.{_quote(name)}"
    if pa.types.is_floating(kind):
        return f"{column}::DOUBLE"
    if pa.types.is_decimal(kind):
        return column
    if pa.types.is_temporal(kind):
        return f"epoch_us({column})::HUGEINT"
    return f"{column}::HUGEINT"


def _bound(bound: Any) -> str:
    if isinstance(bound, str):
        return f"epoch_us(INTERVAL '{bound}')"
    if isinstance(bound, float):
        return f"CAST('{bound!r}' AS DOUBLE)"
    if isinstance(bound, Decimal):
        return f"CAST('{bound}' AS DECIMAL(38, {max(0, -int(bound.as_tuple().exponent))}))"
    return f"CAST('{bound}' AS HUGEINT)"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
