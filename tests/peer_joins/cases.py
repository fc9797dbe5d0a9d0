"""Joins from the suites of DuckDB, pandas, Polars and ClickHouse (`../shared/peer-joins`), as objects and as texts."""

from __future__ import annotations

import functools
import importlib.util
import re
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from muntin import AllOf, AsOf, Band, Compare, WindowJoin, sql

FOLDER = Path(__file__).parents[2] / ".." / "shared" / "peer-joins"
SOURCES = [("clickhouse", "asof"), ("clickhouse", "range"), ("duckdb", "asof"), ("duckdb", "range"),
           ("pandas", "asof"), ("polars", "asof"), ("polars", "range")]  # fmt: skip
HOW = {"semi": "left_semi", "anti": "left_anti"}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@functools.cache
def oracle() -> ModuleType:
    """The program that lies beside the cases and reads them."""
    if not FOLDER.exists():
        pytest.skip("no ../shared/peer-joins here")
    spec = importlib.util.spec_from_file_location("peer_joins_oracle", FOLDER / "oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def cases() -> list[Any]:
    """All of them."""
    return oracle().load()


def tolerance(case: Any) -> Any:
    """The tolerance of an as-of case as `AsOf` takes it."""
    kind, ticks = case.types[case.condition["left_on"]], case.condition["tolerance"]
    if ticks is None:
        return None
    if pa.types.is_date32(kind):
        return f"{ticks} days"
    if pa.types.is_temporal(kind):
        return f"{ticks * NANOSECONDS[kind.unit]} ns"
    return Decimal(ticks) if pa.types.is_decimal(kind) else ticks


def condition(case: Any) -> Any:
    """The condition in objects; None for a text that is no conjunction of comparisons."""
    if case.kind == "asof":
        c = case.condition
        by = [tuple(pair) for pair in c["by"]]
        on = AsOf(c["left_on"], c["right_on"], c["direction"], tolerance(case), by, c["allow_exact_matches"])
        return AllOf(on) if c.get("residual") or c.get("by_null_safe") else on  # with what AsOf has no word for
    if "predicates" not in case.d:
        return None
    parts: list[Any] = []
    for left, op, right, *added in case.d["predicates"]:
        if not added:
            parts.append(Compare(left, op, right))
        else:  # left OP right + added, of integers
            least = {"<": 1 - added[0], "<=": -added[0], ">=": None}[op]
            parts.append(Band(left, right, least, -added[0] if op == ">=" else None))
    return parts[0] if len(parts) == 1 else AllOf(*parts)


def query(case: Any) -> str | None:
    """The case as a SELECT; None for the nearest in time, for which SQL has no word."""

    def name(side: str, column: str) -> str:
        return f'{side}."{column}"'

    columns = ", ".join(name("l" if column in case.left else "r", column) for column in case.out)
    if case.kind == "range":
        return f"SELECT {columns} FROM l {case.how.upper()} JOIN r ON {case.condition}"
    c = case.condition
    if c["direction"] == "nearest":
        return None
    back = c["direction"] == "backward"
    left, right = name("l", c["left_on"]), name("r", c["right_on"])
    same = "IS NOT DISTINCT FROM" if c.get("by_null_safe") else "="
    parts = [f"{name('l', a)} {same} {name('r', b)}" for a, b in c["by"]]
    parts.append(f"{left} {'>' if back else '<'}{'=' * c['allow_exact_matches']} {right}")
    if (most := tolerance(case)) is not None:
        most = f"INTERVAL '{most}'" if isinstance(most, str) else most
        parts.append(f"{left} <= {right} + {most}" if back else f"{left} >= {right} - {most}")
    if c.get("residual"):
        parts.append(f"({c['residual']})")
    return f"SELECT {columns} FROM l ASOF {case.how.upper()} JOIN r ON {' AND '.join(parts)}"


def joined(case: Any, on: Any, **options: Any) -> pa.Table:
    """The case by an operator, in two calls and the end of the input."""
    left, right = case.arrow("left"), case.arrow("right")
    a, b = len(left) // 2, len(right) // 3
    schemas = {"left_schema": left.schema, "right_schema": right.schema}
    with WindowJoin(on=on, how=HOW.get(case.how, case.how), **schemas, **options) as join:
        first = join.process(left.slice(0, a), right.slice(0, b))
        return pa.concat_tables([first, join.process(left.slice(a), right.slice(b)), join.finish()])


def by_objects(case: Any, device: str) -> pa.Table | None:
    """The result of the condition in objects; None where there are none."""
    on = condition(case)
    return None if on is None else joined(case, on, device=device)


def by_query(case: Any, device: str) -> pa.Table | None:
    """The result of `muntin.sql`; None where there is no text."""
    text = query(case)
    return None if text is None else sql(text, l=case.arrow("left"), r=case.arrow("right"), device=device)


def by_text(case: Any, device: str) -> pa.Table:
    """The result of ``on="..."`` for a range case."""
    sides = {"l": "left.", "r": "right."}
    return joined(case, re.sub(r"\b([lr])\.", lambda found: sides[found[1]], case.condition), device=device)


WAYS = {"objects": by_objects, "query": by_query, "text": by_text}


def rows_of(case: Any, result: pa.Table) -> list[tuple]:
    """The rows of a result as the oracle's plain values."""
    return list(zip(*(oracle().plain_of(result[name].cast(case.types[name])) for name in case.out), strict=True))
