"""The papers' clusters: PanJoin's manager and workers, and SPO-Join's processing elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, Rows, WindowJoin, Within
from muntin.host.engines import Elements
from muntin.host.errors import SchemaError, UnsupportedError, WindowError
from muntin.host.index import SpoJoin
from muntin.host.join.manager import Manager

SCHEMA = pa.schema([("k", pa.int32()), ("a", pa.int32()), ("s", pa.int64())])
BOTH = AllOf(Compare("k", "<", "k"), Compare("a", ">", "a"))


def pushes(seed: int, count: int = 30) -> list[tuple[pa.Table, pa.Table]]:
    rng = np.random.default_rng(seed)

    def rows(call: int) -> pa.Table:
        n = int(rng.integers(0, 40))
        columns = [rng.integers(0, 100, n, np.int32), rng.integers(0, 100, n, np.int32)]
        return pa.table([*columns, np.sort(rng.integers(0, 50, n)) + 100 * call], schema=SCHEMA)

    return [(rows(call), rows(call)) for call in range(count)]


def content(*tables: pa.Table) -> list[str]:
    return sorted(str(row) for each in tables for row in each.to_pylist())


@pytest.mark.parametrize("form", ["rows", "pairs", "ranges"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_manager_joins_as_one_window(form: str, workers: int, seed: int) -> None:
    options: dict[str, Any] = {"on": Band("k", "k", -3, 3), "left": Rows(150), "right": Rows(90)}
    if form == "ranges":
        options["sequence"] = "s"
    with WindowJoin(**options, form="pairs" if form == "ranges" else form) as join:
        due = content(*(join.process(*each) for each in pushes(seed)))
    with Manager(workers, SCHEMA, SCHEMA, subwindow_rows=20, max_rows=100, form=form, **options) as manager:
        found = [table for each in pushes(seed) for table in manager.push(*each)]
        found += manager.flush()
        assert manager.flush() == []
        if workers > 1:
            parts = manager.workers
            assert sum(part["rows_left"] for part in parts) == sum(len(left) for left, _ in pushes(seed))
            assert all(part["found_bytes"] > 0 for part in parts)
    assert content(*found) == due
    assert len(found) > 5


def test_what_a_worker_raises_comes_out() -> None:
    with Manager(2, SCHEMA, SCHEMA, max_rows=2, on=Band("k", "k", 0, 1), left=Rows(9), right=Rows(9)) as manager:
        manager.push(pa.table({"k": pa.array([1], pa.int32())}))
        with pytest.raises(SchemaError, match="lacks the column"):
            manager.flush()
        assert manager.flush() == []


@pytest.mark.parametrize("in_step", ["replaced", "counts", "cache"])
@pytest.mark.parametrize("elements", [2, 5])
def test_elements_join_as_one_window(in_step: str, elements: int, seed: int) -> None:
    options: dict[str, Any] = {"on": BOTH, "left": Rows(200), "right": Rows(120), "form": "pairs"}
    with WindowJoin(**options, device="numpy") as join:
        due = [content(join.process(*each)) for each in pushes(seed)]
    given = Elements(elements, in_step=in_step, interval=30)
    with WindowJoin(**options, index=SpoJoin(slide=50), partitions=given) as join:
        for each, expected in zip(pushes(seed), due, strict=True):
            assert content(join.process(*each)) == expected
            report = join.stats.engine
        assert (report["messages"] > 0) == (in_step != "replaced")
        held = sum(part["stored_left"] for part in report["partitions"])
        assert 200 <= held <= 200 + 50 * (elements + 2)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"index": "sorted_runs"}, UnsupportedError),
        ({"left": None, "right": None, "within": Within("s", "s", 0, 9)}, UnsupportedError),
        ({"index": SpoJoin(slide=2)}, UnsupportedError),
        ({"index": SpoJoin()}, UnsupportedError),
    ],
)
def test_elements_refuse(options: dict[str, Any], error: type[Exception]) -> None:
    given = {"left": Rows(9), "right": Rows(9), "index": SpoJoin(slide=6), **options}
    with pytest.raises(error, match=r"SpoJoin\(slide="):
        WindowJoin(on=BOTH, partitions=Elements(3), **given)


@pytest.mark.parametrize("wrong", [{"in_step": "luck"}, {"interval": 0}, {"by": "ranges"}])
def test_elements_say_what_they_take(wrong: dict[str, Any]) -> None:
    with pytest.raises(WindowError):
        Elements(2, **wrong)
