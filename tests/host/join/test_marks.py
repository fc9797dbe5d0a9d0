"""Partitions of a time window in joins of their own, which know of each other by marks: as one join."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host import Compare, Watermark, WindowJoin, Within
from host.errors import ReplayError

COUNT = 3


def table(rng: np.random.Generator, call: int, rows: int) -> pa.Table:
    mask = rng.random(rows) < 0.1
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 9, rows), pa.int64()),
            "t": pa.array(call * 20 + rng.integers(-40, 40, rows), pa.int64(), mask=mask),
        }
    )


def stream(seed: int, calls: int) -> list[list[pa.Table]]:
    """Some calls have rows of one side alone."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, (calls, 2)) * (rng.random((calls, 2)) < 0.7)
    return [[table(rng, call, int(size)) for size in sides] for call, sides in enumerate(sizes)]


def part(rows: pa.Table, number: int) -> pa.Table:
    return rows.filter(pa.array(rows["k"].to_numpy() % COUNT == number))


def content(*tables: pa.Table) -> list[str]:
    return sorted(str(row) for each in tables for row in each.to_pylist())


def options(
    how: str, policy: str, delays: tuple[int | None, int | None], lag: int, idle: int | None = None
) -> dict[str, Any]:
    return {
        "on": Compare("k", "=", "k"),
        "within": Within("t", "t", -15, 25),
        "watermark": Watermark(left=delays[0], right=delays[1], policy=policy, lag=lag, initial=0, idle_after=idle),
        "how": how,
        "left_schema": stream(0, 1)[0][0].schema,
        "right_schema": stream(0, 1)[0][0].schema,
    }


@settings(max_examples=12)
@given(
    how=st.sampled_from(["inner", "full", "left_anti"]),
    policy=st.sampled_from(["min", "max"]),
    delays=st.sampled_from([(5, 10), (0, 0), (30, 2)]),
    lag=st.sampled_from([1, 2]),
    idle=st.sampled_from([None, 15]),
    deaths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, COUNT)), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_as_one_join(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[tuple[int, int]], seed: int, **given: Any
) -> None:
    """Each partition goes on from its state in another process, some with the batch joined and some without."""
    calls = stream(seed, 5)
    whole = WindowJoin(**options(**given))
    folder = tmp_path_factory.mktemp("state")

    def opened() -> list[WindowJoin]:
        return [WindowJoin(**options(**given), state=folder / str(number)) for number in range(COUNT)]

    joins = opened()
    for batch, tables in enumerate(calls):
        due = content(whole.process(*tables, batch=2 * batch))
        found: list[pa.Table] = []
        for number in range(COUNT):
            if (batch, number) in deaths:
                joins = opened()
                for again in range(number):  # they are asked for the same batch
                    found[again] = joins[again].repeat()
            marks = [mark for other in joins if other is not joins[number] and (mark := other.mark) is not None]
            own = [part(each, number) for each in tables]
            found.append(joins[number].process(*own, batch=2 * batch, marks=marks))
        assert content(*found) == due
    if not deaths:
        assert sum(join.stats.late_left for join in joins) == whole.stats.late_left


def test_a_batch_that_others_have_passed_is_refused() -> None:
    joins = [WindowJoin(**options("inner", "min", (5, 5), 1)) for _ in range(2)]
    assert joins[0].mark is None
    joins[0].process(*stream(1, 1)[0], batch=4)
    mark = joins[0].mark
    assert mark is not None
    assert mark.batch == 4
    with pytest.raises(ReplayError, match="batch 3 comes after batch 4, which another partition has joined"):
        joins[1].process(*stream(1, 1)[0], batch=3, marks=[mark])
