"""Joins in partitions: the same result as in one window, and each partition its share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host import AllOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from host.errors import UnsupportedError, WindowError
from host.join.partitioned_engine import partition_numbers

EQUAL = Compare("k", "=", "k")
CONDITIONS = {
    "integers": EQUAL,
    "units": Compare("k", "=", "small"),
    "decimals": Compare("dollars", "=", "cents"),
    "floats": Compare("f", "=", "half"),
    "text": Compare("x", "=", "x"),
    "null_safe": Compare("x", "<=>", "x"),
    "composite": AllOf(EQUAL, Band("a", "a", -20, 20)),
    "residual": AllOf(EQUAL, Band("f", "f", -1.0, 1.0), Compare("a", "!=", "a")),
}
WINDOWS: dict[str, dict[str, Any]] = {
    "count": {"left": Rows(70), "right": Rows(50)},
    "time": {"within": Within("t", "t", -40, 30), "watermark": Watermark(left=20, right=30, lag=1)},
    "sequence": {"left": Rows(30), "right": Rows(90), "sequence": "s"},
}


def table(rng: np.random.Generator, call: int, rows: int) -> pa.Table:
    k = rng.integers(-4, 4, rows)
    return pa.table(
        {
            "k": pa.array(k, pa.int64(), mask=rng.random(rows) < 0.1),
            "small": pa.array(k, pa.int16()),
            "dollars": pa.array([int(v) for v in k], pa.decimal128(9, 0)),
            "cents": pa.array([int(v) for v in k], pa.decimal128(9, 0)).cast(pa.decimal128(12, 2)),
            "f": pa.array(np.where(k == 0, -0.0, k), pa.float64()),
            "half": pa.array(k, pa.float32()),
            "x": pa.array([f"x{v}" for v in k], pa.string(), mask=rng.random(rows) < 0.1),
            "a": pa.array(rng.integers(0, 99, rows), pa.int32()),
            "t": call * 15 + rng.integers(-30, 30, rows),
            "s": np.sort(call * 1000 + rng.integers(0, 1000, rows)),
        }
    )


def stream(seed: int, calls: int = 6) -> list[tuple[pa.Table, pa.Table]]:
    rng = np.random.default_rng(seed)
    return [tuple(table(rng, call, int(rng.integers(0, 50))) for _ in range(2)) for call in range(calls)]  # type: ignore[misc]


def results(calls: list[tuple[pa.Table, pa.Table]], *, ordered: bool = False, **options: Any) -> list[list[str]]:
    """What each call gives, and the end."""
    with WindowJoin(**options) as join:
        found = [join.process(*(tables[:1] if join.spec.self_join else tables)) for tables in calls]
        rows = [[str(row) for row in part.to_pylist()] for part in (*found, join.finish())]
        return rows if ordered else [sorted(part) for part in rows]


@pytest.mark.parametrize(("condition", "window"), list(zip(CONDITIONS, 3 * list(WINDOWS), strict=False)))
def test_as_in_one_window(condition: str, window: str, seed: int) -> None:
    options = {"on": CONDITIONS[condition], **WINDOWS[window]}
    calls = stream(seed)
    due = results(calls, **options, device="numpy")
    assert sum(map(len, due)) > 50
    for partitions, device in ((3, "cpu"), (2, "numpy")):
        assert results(calls, **options, partitions=partitions, device=device) == due


@settings(max_examples=10)
@given(
    condition=st.sampled_from(sorted(CONDITIONS)),
    window=st.sampled_from(["count", "sequence", "time"]),
    how=st.sampled_from(["inner", "left", "full", "left_semi", "left_anti"]),
    form=st.sampled_from(["rows", "pairs"]),
    partitions=st.integers(2, 7),
    seed=st.integers(0, 2**32),
)
def test_every_kind_of_join(seed: int, partitions: int, **options: Any) -> None:
    condition, window = options.pop("condition"), options.pop("window")
    options |= {"on": CONDITIONS[condition], **WINDOWS[window]}
    calls = stream(seed, 4)
    assert results(calls, **options, partitions=partitions) == results(calls, **options)
    options["order"] = "inner"
    assert results(calls, **options, partitions=partitions, ordered=True) == results(calls, **options, ordered=True)


@pytest.mark.parametrize("on", [EQUAL, Compare("k", "=", "small"), CONDITIONS["composite"]])
def test_self_joins(on: Any, seed: int) -> None:
    options = {"on": on, "left": Rows(30), "right": Rows(20), "self_join": True, "itself": True}
    calls = stream(seed)
    assert results(calls, **options, partitions=3) == results(calls, **options)


def test_counts(seed: int) -> None:
    options = {"on": EQUAL, **WINDOWS["time"], "form": "counts"}
    assert results(stream(seed), **options, partitions=4) == results(stream(seed), **options)


def test_another_number_after_a_restart(tmp_path: Path, seed: int) -> None:
    options = {"on": CONDITIONS["composite"], **WINDOWS["time"], "how": "full"}
    calls = stream(seed)
    due = results(calls, **options)
    for number, tables in enumerate(calls):
        with WindowJoin(**options, state=tmp_path, partitions=1 + number % 3) as join:
            if number:
                assert sorted(map(str, join.repeat().to_pylist())) == due[number - 1]
            assert sorted(map(str, join.process(*tables).to_pylist())) == due[number]


def test_work_is_even() -> None:
    rows = 40_000
    rng = np.random.default_rng(1)
    keys = {"dense": np.arange(rows), "strided": np.arange(rows) * 4096, "random": rng.integers(0, 1 << 60, rows)}
    for values in keys.values():
        with WindowJoin(on=EQUAL, left=Rows(rows), right=Rows(rows), partitions=4) as join:
            join.process(pa.table({"k": values}), pa.table({"k": values[::-1]}))
            parts = join.stats.engine["partitions"]
            assert join.stats.matches == rows
        assert sum(part["rows_left"] for part in parts) == sum(part["stored_left"] for part in parts) == rows
        assert max(part["rows_left"] + part["rows_right"] for part in parts) < 1.2 * 2 * rows / 4


def test_numbers_of_partitions() -> None:
    found = partition_numbers(np.arange(1000, dtype=np.uint64), 5)
    assert set(found) == set(range(5))
    assert partition_numbers(np.zeros(0, np.uint64), 5).shape == (0,)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": Band("k", "k", -1, 1)}, UnsupportedError, "compares none"),
        ({"partitions": 0}, WindowError, "from 1 to 256, not 0"),
        ({"partitions": True}, WindowError, "from 1 to 256, not True"),
        ({"engine": "shared"}, UnsupportedError, "engine='shared'"),
        ({"form": "ranges"}, UnsupportedError, "form='ranges'"),
        (
            {"left": None, "right": None, "within": Within("t", "t", 0, 1), "capacity": 9},
            UnsupportedError,
            "capacity=9",
        ),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        WindowJoin(**{"on": EQUAL, "left": Rows(9), "right": Rows(9), "partitions": 2, **options})
