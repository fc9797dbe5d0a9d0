"""What a call gives of what an engine finds, by exact values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AsOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.engine.row_log import RowLog
from muntin.host.errors import ResultTooLargeError
from muntin.host.join.materializer import _numbers, check_room, check_rows, max_pairs, slices

COUNTED: dict[str, Any] = {"on": Compare("k", "=", "k"), "left": Rows(5), "right": Rows(5)}


def keys(*values: int | None, **columns: list[Any]) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64()), **columns})


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_counts_and_aggregates_of_each_row() -> None:
    left, right = keys(1, 2, 1), keys(1, None, 2, 1)
    due = [("left", row, 0) for row in range(3)] + [("right", row, n) for row, n in enumerate([2, 0, 1, 2])]
    for form in ({"form": "counts"}, {"form": "aggregate", "aggregates": ["count(*)"]}):
        with WindowJoin(**COUNTED, **form) as join:
            assert tuples(join.process(left, right)) == due
            assert join.stats.matches == 5
            blocks = list(join.process_blocks(right.slice(0, 1), None, block_bytes=1))
            assert [tuples(block) for block in blocks] == [[("left", 3, 2)]]
            assert join.stats.matches == 7
    own = WindowJoin(on=Band("k", "k", 0, 1), left=Rows(5), right=Rows(5), form="counts", self_join=True, itself=True)
    # Left 1 meets right 1 and 2, left 2 meets right 2; a row itself counts for its right role.
    found = own.process(keys(1, 2, 1))
    assert sorted(tuples(found)) == [
        ("left", 0, 0),
        ("left", 1, 0),
        ("left", 2, 2),
        ("right", 0, 1),
        ("right", 1, 2),
        ("right", 2, 2),
    ]
    assert own.stats.matches == 7


@pytest.mark.parametrize("order", ["none", "inner", "outer"])
@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_pairs_in_tables_of_a_size(order: str, device: str) -> None:
    """Sixteen bytes a pair: 40 pairs, of which a call's last table has what is left."""
    with WindowJoin(**COUNTED, form="pairs", order=order, device=device) as join:
        join.process(keys(), keys(7, 7, 7, 7, 7))
        tables = list(join.process_blocks(keys(*[7] * 8), None, block_bytes=16 * 6 + 15))
        sizes = [len(each) for each in tables if len(each)]
        assert (sum(sizes), max(sizes), join.stats.matches) == (40, 6, 40)
        found = [pair for each in tables for pair in tuples(each)]
        assert sorted(found) == [(left, right) for left in range(8) for right in range(5)]
        assert order == "none" or found == sorted(found)
        assert {len(each) for each in join.process_blocks(None, None, block_bytes=99)} == {0}


def test_left_rows_of_an_as_of_join_that_meet_none() -> None:
    options: dict[str, Any] = {"on": AsOf("t", "t"), "watermark": Watermark(left=0, right=0, lag=0)}
    left, right = keys(1, 2, 3, 4, t=[5, 10, None, 30]), keys(8, 9, t=[7, 20])
    for how, due in (("left", [[(2, 8), (1, None), (3, None)], [(4, 9)]]), ("inner", [[(2, 8)], [(4, 9)]])):
        with WindowJoin(**options, how=how) as join:
            found = [join.process(left, right), join.finish()]
            assert [[(row["k"], row["k_right"]) for row in each.to_pylist()] for each in found] == due
            assert join.stats.matches == 2


def test_rows_that_have_not_matched_by_place() -> None:
    """Of both sides in the order of arrival, those that can match nothing among them."""
    window = {"within": Within("t", "t", -1, 1), "watermark": Watermark(left=0, right=0, lag=0)}
    with WindowJoin(on=Compare("k", "=", "k"), **window, how="full", order="inner", form="pairs") as join:
        first = join.process(keys(1, None, 3, t=[1, 2, 3]), keys(1, 2, None, t=[1, 9, 9]))
        assert tuples(first) == [(0, 0), (1, None), (None, 2)]
        second = join.process(keys(9, t=[20]), None)
        assert tuples(second) == [(2, None)]
        assert tuples(join.finish()) == [(None, 1), (3, None)]


def test_numbers_of_which_some_are_null() -> None:
    for values in ([], [0, 5], [-1], [3, -1, 0, -1, 9, 9, 9, 9, 9, -1]):
        found = _numbers(np.array(values, np.int64))
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (pa.int64(), [None if value < 0 else value for value in values])


def test_tables_cut_to_a_size() -> None:
    table = pa.table({"x": np.arange(10)})
    for block_bytes, sizes in ((80, [10]), (79, [9, 1]), (24, [3, 3, 3, 1]), (8, [1] * 10), (1, [1] * 10)):
        parts = list(slices(table, block_bytes))
        assert [len(part) for part in parts] == sizes
        assert pa.concat_tables(parts) == table
    assert [len(part) for part in slices(table.slice(0, 0), 8)] == [0]
    assert [max_pairs(size) for size in (1, 16, 31, 32)] == [1, 1, 1, 2]


def test_results_that_do_not_fit() -> None:
    memory: Any = SimpleNamespace(room=100)
    check_room(memory, 5, 100)
    with pytest.raises(
        ResultTooLargeError, match="has 5 rows, which take 101 bytes of the 100 that are free"
    ) as raised:
        check_room(memory, 5, 101)
    assert (raised.value.needed, raised.value.available) == (101, 100)
    fixed, text = RowLog("left", pa.schema([("x", pa.int64())])), RowLog("right", pa.schema([("s", pa.string())]))
    fixed.append(0, pa.table({"x": [1, 2, 3]}))
    text.append(0, pa.table({"s": ["a" * 100, "b", "c"]}))
    logs: Any = {"left": fixed, "right": text}
    width = fixed.row_bytes(np.arange(3))
    assert isinstance(width, int)
    sizes = text.row_bytes(np.arange(3))
    assert not isinstance(sizes, int)
    for room, fits in ((2 * width + int(sizes[1:].sum()), True), (2 * width + int(sizes[1:].sum()) - 1, False)):
        own: Any = SimpleNamespace(room=room)
        parts: Any = {"left": [np.array([0]), np.array([2])], "right": [np.array([1, 2])]}
        if fits:
            check_rows(own, logs, parts)
            continue
        with pytest.raises(ResultTooLargeError, match=f"has 2 rows, which take {room + 1} bytes of the {room}"):
            check_rows(own, logs, parts)
    check_rows(SimpleNamespace(room=2 * fixed.max_row_bytes), logs, {"left": [np.arange(2)]})  # type: ignore[arg-type]
