"""Smaller cases that fail as a given one does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.random_joins.case import Case, Way
from tests.random_joins.check import Outcome, run

SECONDS = 20.0  # that one case is shrunk for


def shrink(case: Case, outcome: Outcome, seconds: float = SECONDS) -> tuple[Case, Outcome]:
    """A case as small as can be found in the time, with its outcome, of the kind of the given one."""
    end, smaller = time.monotonic() + seconds, True
    while smaller:
        smaller = False
        for other in _smaller(case):
            if time.monotonic() > end:
                return case, outcome
            found = run(other)
            if (found.verdict, found.kind) == (outcome.verdict, outcome.kind):
                case, outcome, smaller = other, found, True
                break
    return case, outcome


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with one thing less, the largest steps first."""
    change = dataclasses.replace
    for size in (4, 2, 1):
        for first in range(0, len(case.calls), size) if len(case.calls) > size else ():
            calls = case.calls[:first] + case.calls[first + size :]
            reopened = tuple((at, *more) for at, *more in case.way.reopened if at <= len(calls))
            yield change(case, calls=calls, way=change(case.way, reopened=reopened))  # type: ignore[arg-type]
    for share in (2, 4, 8, 64):
        yield from _fewer_rows(case, share)
    if case.way != Way():
        yield change(case, way=Way())
        for at in range(len(case.way.reopened)):
            reopened = case.way.reopened[:at] + case.way.reopened[at + 1 :]
            yield change(case, way=change(case.way, reopened=reopened))
    for at in range(len(case.parts)):
        if len(case.parts) > 1:
            yield change(case, parts=case.parts[:at] + case.parts[at + 1 :])
        part = case.parts[at]
        for inner in part.parts:
            yield change(case, parts=(*case.parts[:at], inner, *case.parts[at + 1 :]))
    if case.partitions != 1:
        yield change(case, partitions=1)
    if case.device != "cpu":
        yield change(case, device="cpu")
    if case.delays is not None:
        yield change(case, delays=None, watermark={})
    if case.within is not None:
        yield change(case, within=None, delays=None, watermark={})
    if case.rows is not None:
        yield change(case, rows=None)
    plain = {"form": "pairs", "how": "inner"}
    for name, value in case.options.items():
        if name not in plain:
            yield change(case, options={key: each for key, each in case.options.items() if key != name})
        elif value != plain[name] and case.options["form"] != "aggregate":
            yield change(case, options=case.options | {name: plain[name]})
    aggregates = case.options.get("aggregates", ())
    for at in range(len(aggregates)):
        if len(aggregates) > 1:
            yield change(case, options=case.options | {"aggregates": aggregates[:at] + aggregates[at + 1 :]})
    for side in (0, 1):
        for name in case.schemas[side].names:
            if name != "id":
                yield _without(case, side, name)


def _without(case: Case, side: int, name: str) -> Case:
    """A case without a column of a side, which may be needed: then it is refused."""

    def cut(table: pa.Table | None) -> pa.Table | None:
        return table if table is None else table.drop_columns([name])

    sides = (0, 1) if case.self_join else (side,)
    schemas = tuple(
        schema.remove(schema.get_field_index(name)) if at in sides else schema for at, schema in enumerate(case.schemas)
    )
    calls = tuple(
        tuple((cut(push[0]) if 0 in sides else push[0], cut(push[1]) if 1 in sides else push[1]) for push in call)
        for call in case.calls
    )
    return dataclasses.replace(case, schemas=schemas, calls=calls)


def _fewer_rows(case: Case, share: int) -> Iterator[Case]:
    """Cases without a share of the rows of one table."""
    for number, call in enumerate(case.calls):
        for at, push in enumerate(call):
            for side, table in enumerate(push):
                if table is None or not table.num_rows:
                    continue
                size = max(table.num_rows // share, 1)
                if size * share > 2 * table.num_rows:
                    continue
                for first in range(0, table.num_rows, size):
                    rows = [row for row in range(table.num_rows) if not first <= row < first + size]
                    fewer: list[Any] = list(push)
                    fewer[side] = _taken(table, rows)
                    pushes = (*call[:at], (fewer[0], fewer[1]), *call[at + 1 :])
                    calls = (*case.calls[:number], pushes, *case.calls[number + 1 :])
                    yield dataclasses.replace(case, calls=calls)


def _taken(table: pa.Table, rows: list[int]) -> pa.Table:
    """Some rows; by slices, which every type has."""
    pieces = [table.slice(row, 1) for row in rows]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)
