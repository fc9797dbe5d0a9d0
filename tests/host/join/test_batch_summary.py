"""Partitions in joins of their own, each told of the whole call: as one join."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, Band, Compare, JoinSpec, Rows, Watermark, WindowJoin, Within
from muntin.host.errors import OrderError, UnsupportedError
from muntin.host.join.batch_summary import BatchSummary, summary_of
from muntin.host.join.join_part import JoinPart
from muntin.host.join.summary_part import SummaryPart

COUNT = 3
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.int64()), ("n", pa.int64())])
ON = AllOf(Compare("k", "=", "k"), Band("t", "t", -60, 60))
WINDOWS: dict[str, dict[str, Any]] = {
    "time": {"within": Within("t", "t", -15, 25), "watermark": Watermark(left=5, right=10, lag=1, initial=0)},
    "time, another column's watermark": {
        "within": Within("t", "t", -15, 25),
        "watermark": Watermark(left=5, right=10, lag=0, initial=0, idle_after=30, left_column="s", right_column="t"),
    },
    "count": {"left": Rows(40), "right": Rows(25), "sequence": "s"},
    "count without sequence": {"left": Rows(40), "right": Rows(25)},
}


def calls_of(seed: int, count: int) -> list[list[pa.Table]]:
    """Rows of both sides, their sequence values rising from call to call, with ties."""
    rng = np.random.default_rng(seed)
    calls, at = [], 0
    for call in range(count):
        sides = []
        for _ in range(2):
            rows = int(rng.integers(0, 40)) * int(rng.random() < 0.9)
            mask = rng.random(rows) < 0.1
            columns = [
                pa.array(rng.integers(0, 5, rows), pa.int64(), mask=rng.random(rows) < 0.1),
                pa.array(call * 20 + rng.integers(-40, 40, rows), pa.int64(), mask=mask),
                pa.array(call * 30 + rng.integers(0, 30, rows), pa.int64()),
                pa.array(np.arange(at, at + rows)),
            ]
            at += rows
            sides.append(pa.table(columns, schema=SCHEMA))
        calls.append(sides)
    return calls


def numbers(rows: pa.Table) -> np.ndarray:
    return np.asarray(rows["k"].fill_null(0).to_numpy() % COUNT)


def part(rows: pa.Table, number: int) -> pa.Table:
    return rows.filter(pa.array(numbers(rows) == number))


def split(
    spec: JoinSpec, tables: list[pa.Table], rng: np.random.Generator, count: int = COUNT
) -> list[tuple[list[pa.Table], BatchSummary]]:
    """What each partition is given of a call that some senders have, in an order of their own."""
    senders = int(rng.integers(1, 4))
    shuffled = [rows.take(pa.array(rng.permutation(len(rows)))) for rows in tables]
    parts, places, own = [], [], [[[], []] for _ in range(count)]
    for sender in range(senders):
        gathered = SummaryPart(spec, SCHEMA, SCHEMA, count)
        for at, (side, rows) in enumerate(zip(("left", "right"), shuffled, strict=not spec.self_join)):
            for batch in rows.slice(sender * len(rows) // senders).to_batches():
                rest = (sender + 1) * len(rows) // senders - sender * len(rows) // senders
                sent = batch.slice(0, rest)
                place = gathered.add(side, sent, numbers(pa.Table.from_batches([sent])))
                if place is not None:
                    places.append(place)
                for number in range(count):
                    own[number][at].append(part(pa.Table.from_batches([sent]), number))
        parts.append(json.loads(json.dumps(gathered.to_wire())))
    given = []
    for number in range(count):
        rows = [pa.concat_tables([SCHEMA.empty_table(), *pieces]) for pieces in own[number]]
        given.append((rows, summary_of(parts, places, number, placed=spec.counted)))
    return given


def content(*tables: pa.Table) -> list[str]:
    return sorted(str(row) for each in tables for row in each.to_pylist())


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=6, deadline=None)
@given(
    how=st.sampled_from(["inner", "full", "left_anti", "left_semi"]),
    deaths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, COUNT - 1)), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_as_one_join(
    tmp_path_factory: pytest.TempPathFactory,
    window: str,
    how: str,
    deaths: list[tuple[int, int]],
    seed: int,
) -> None:
    """Some go on from their state in another process, where the rows of the batch are split otherwise."""
    spec = JoinSpec(on=ON, **WINDOWS[window], how=how)
    calls = calls_of(seed, 5)
    rng = np.random.default_rng(seed)
    one = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    folder = tmp_path_factory.mktemp("state")

    def opened(number: int) -> JoinPart:
        return JoinPart.from_spec(
            spec, left_schema=SCHEMA, right_schema=SCHEMA, state=folder / str(number) if deaths else None
        )

    joins = [opened(number) for number in range(COUNT)]
    for batch, tables in enumerate(calls):
        # Equal sequence values: in the order of hashes, as all partitions together have it.
        ordered = [
            rows.take(pa.array(np.argsort(numbers_of)))
            for rows, numbers_of in zip(tables, ranks(spec, tables), strict=True)
        ]
        due = content(one.process(*ordered, batch=2 * batch))
        found = []
        for number, (rows, whole) in enumerate(split(spec, tables, rng)):
            found.append(joins[number].process(*rows, batch=2 * batch, whole=whole))
            if (batch, number) in deaths:
                joins[number] = opened(number)
                again = split(spec, tables, rng)[number][0]
                assert content(joins[number].repeat(*again)) == content(found[-1])
        assert content(*found) == due
    for number, join in enumerate(joins):
        if spec.counted:
            assert join.stats.rows_left == one.stats.rows_left, number
        elif not deaths:
            assert sum(each.stats.late_left for each in joins) == one.stats.late_left


def ranks(spec: JoinSpec, tables: list[pa.Table]) -> list[np.ndarray]:
    """The place of each row in its side, as one partition alone would have it."""
    gathered = SummaryPart(spec, SCHEMA, SCHEMA, 2)
    places = []
    for side, rows in zip(("left", "right"), tables, strict=True):
        batch = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]
        places.append(gathered.add(side, batch[0], np.zeros(len(rows), np.int64)))
    if not spec.counted:
        return [np.arange(len(rows)) for rows in tables]
    whole = summary_of([gathered.to_wire()], places, 0, placed=True)
    return [whole.rows["left"], whole.rows["right"]]


def test_self_join(seed: int) -> None:
    spec = JoinSpec(on=ON, left=Rows(30), right=Rows(30), sequence="s", self_join=True, itself=True)
    rng = np.random.default_rng(seed)
    one = WindowJoin.from_spec(spec, left_schema=SCHEMA)
    joins = [JoinPart.from_spec(spec, left_schema=SCHEMA) for _ in range(COUNT)]
    for tables in calls_of(seed, 4):
        sequence = one.stats.rows_left + rng.permutation(len(tables[0]))
        rows = tables[0].set_column(2, "s", pa.array(sequence))
        due = one.process(rows)
        found = [
            join.process(given[0], whole=whole)
            for join, (given, whole) in zip(joins, split(spec, [rows], rng), strict=True)
        ]
        assert content(*found) == content(due)


def test_sequence_goes_back_and_forms_of_one_window() -> None:
    spec = JoinSpec(on=ON, left=Rows(5), right=Rows(5), sequence="s")
    join = JoinPart.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    (rows, whole), *_ = split(spec, calls_of(3, 2)[1], np.random.default_rng(1))
    join.process(*rows, whole=whole)
    (rows, whole), *_ = split(spec, calls_of(3, 2)[0], np.random.default_rng(1))
    with pytest.raises(OrderError, match="comes after"):
        join.process(*[each.slice(0, 0) for each in rows], whole=whole)
    counts = JoinSpec(on=ON, left=Rows(5), right=Rows(5), sequence="s", form="counts")
    with pytest.raises(UnsupportedError, match="form='counts'"):
        JoinPart.from_spec(counts, left_schema=SCHEMA, right_schema=SCHEMA).process(*rows, whole=whole)
