import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.host.devices import open_device
from muntin.host.engines import Steps
from muntin.host.errors import UnsupportedError, WindowError
from muntin.host.index import (
    Auto,
    BChain,
    BiSort,
    BPlusTree,
    BurstTrie,
    CsbTree,
    IbChain,
    ImTree,
    Judy,
    NestedLoop,
    PimTree,
    RadixTree,
    RapTable,
    Slices,
    SortedArray,
    SortedRuns,
    SpoJoin,
    TimeKeyed,
    WibTree,
    index_from_dict,
    open_index,
)
from muntin.host.join.window_join import WindowJoin
from muntin.host.predicates import Band, Compare


def play(policy, batches):
    """Lengths of the runs after each batch, and rows moved by merges."""
    runs, moved = [], 0
    for rows in batches:
        runs.append(rows)
        for _ in range(policy.merges(runs) - 1):
            newer, older = runs.pop(), runs.pop()
            runs.append(older + newer)
            moved += older + newer
    return runs, moved


def test_bisort_buffers_small_batches_and_merges_large_ones():
    policy = BiSort(buffer_rows=1000)
    assert play(policy, [5000])[0] == [5000]
    assert play(policy, [5000, 400])[0] == [5000, 400]
    assert play(policy, [5000, 400, 400])[0] == [5000, 800]
    assert play(policy, [5000, 400, 400, 400])[0] == [6200]
    assert play(policy, [5000, 1000])[0] == [6000]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200))
def test_sorted_runs_have_one_run_per_size_class(batches):
    policy = SortedRuns(growth=8, base_rows=16)
    runs, _ = play(policy, batches)
    assert sum(runs) == sum(batches)
    classes = [policy.size_class(length) for length in runs]
    assert classes == sorted(set(classes), reverse=True)


def test_sorted_runs_move_far_fewer_rows_than_bisort():
    batches = [4096] * 1024
    runs, bisort = play(SortedRuns(), batches)[1], play(BiSort(), batches)[1]
    assert bisort > 20 * runs


def test_an_index_by_name_or_as_it_is():
    assert open_index("bisort") == BiSort()
    assert open_index(SortedRuns(growth=4)) == SortedRuns(growth=4)
    for wrong in ("tree", "", None, 3):
        with pytest.raises(WindowError, match="sorted_runs, bisort, sorted_array, nested_loop, rap_table, wib_tree"):
            open_index(wrong)


INDEXES = [
    SortedRuns(),
    SortedRuns(2, 1),
    BiSort(7),
    BiSort(7, 64, 4096),
    SortedArray(),
    NestedLoop(),
    CsbTree(),
    BurstTrie(9),
    Judy(),
    RadixTree(),
    Slices(),
    Slices(of="bisort", stride=60),
    Slices(of=BurstTrie(3), stride="1 minute"),
    Slices(of=PimTree(insertion_depth=1), stride=60),
    TimeKeyed(of=Judy()),
    BPlusTree(),
    BChain(3),
    IbChain(),
    ImTree(1),
    PimTree(insertion_depth=3, merge_ratio=1 / 4),
    RapTable(),
    RapTable(64, 1.5, 4096),
    WibTree(leaf_rows=32),
    SpoJoin(),
    SpoJoin(9, 3, "hash", "css_hash"),
    Auto(),
    Auto(border_rows=7),
]


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_an_index_is_made_of_its_parameters(index):
    assert index_from_dict(json.loads(json.dumps(index.to_dict()))) == index
    with pytest.raises(WindowError, match=f"{index.name}.*colour"):
        index_from_dict(index.to_dict() | {"colour": 1})


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (SortedRuns, {"growth": 1}),
        (SortedRuns, {"growth": 2.5}),
        (SortedRuns, {"base_rows": 0}),
        (BiSort, {"buffer_rows": True}),
        (BiSort, {"partitions": 0}),
        (BiSort, {"subwindow_rows": 0.5}),
        (BurstTrie, {"container_rows": 0}),
        (Slices, {"stride": 0}),
        (Slices, {"stride": 1.5}),
        (Slices, {"stride": "-1 minute"}),
        (RapTable, {"partitions": 0}),
        (RapTable, {"sigma": 1.0}),
        (RapTable, {"sigma": "1.2"}),
        (RapTable, {"late_rows": None}),
        (WibTree, {"leaf_rows": 1}),
        (Auto, {"border_rows": 0}),
        (WibTree, {"subwindow_rows": 0.5}),
        (SpoJoin, {"slide": 0}),
        (SpoJoin, {"sub_intervals": 1.5}),
        (SpoJoin, {"mutable": "trees"}),
        (SpoJoin, {"immutable": "hash"}),
        (BChain, {"length": 1}),
        (ImTree, {"merge_ratio": 0}),
        (ImTree, {"merge_ratio": float("nan")}),
        (PimTree, {"merge_ratio": 1.5}),
        (PimTree, {"merge_ratio": True}),
        (PimTree, {"insertion_depth": 0}),
    ],
)
def test_parameters_are_checked(kind, parameters):
    with pytest.raises(WindowError, match=next(iter(parameters))):
        kind(**parameters)


def test_an_index_within_another_one():
    assert Slices(of="csb_tree", stride=dt.timedelta(minutes=1)) == Slices(stride="60000000000 nanoseconds")
    assert Slices(of="burst_trie").of == BurstTrie()
    for kind, wrong in (
        (Slices, "slices"),
        (Slices, "nested_loop"),
        (Slices, "spo_join"),
        (TimeKeyed, "sorted_runs"),
        (Slices, "tree"),
    ):
        with pytest.raises(WindowError, match=wrong):
            kind(of=wrong)


@pytest.mark.parametrize("options", [{"partitions": 8}, {"subwindow_rows": 100}])
def test_bisort_with_subwindows_of_its_own_is_of_cpu(options) -> None:
    index = BiSort(**options)
    assert open_device("cpu").index(index, Steps()) == index
    with pytest.raises(UnsupportedError, match="for 'cpu' alone"):
        open_device("numpy").index(index, Steps())


def test_ranges_of_bisort_are_of_its_subwindows_and_of_no_index_array() -> None:
    keys = pa.table({"a": pa.array(range(100), pa.int32())})
    options: dict[str, Any] = {"on": Band("a", "a", 0, 1), "left": 1000, "right": 1000, "form": "ranges"}
    with WindowJoin(**options, index=BiSort(buffer_rows=10, subwindow_rows=250)) as join:
        for _ in range(10):
            join.process(keys, keys)
        assert join.stats.index["left"]["lengths"] == [300, 300, 300, 100]  # each ends with the step that fills it
    with pytest.raises(UnsupportedError, match="form='ranges'"):
        WindowJoin(**options, index=BiSort(partitions=8), left_schema=keys.schema, right_schema=keys.schema)


def test_bisorts_index_array_has_the_partitions_that_are_set() -> None:
    keys = pa.table({"a": pa.array(range(1000), pa.int32())})
    index = BiSort(buffer_rows=10, partitions=50, subwindow_rows=400)
    with WindowJoin(on=Compare("a", "=", "a"), left=1000, right=1000, index=index, form="counts") as join:
        join.process(keys, keys)
        figures = join.stats.index["left"]
    assert figures["rows"] == [400, 400, 200]
    assert (figures["main"], figures["partitions"]) == (200, 25)  # an entry for each 400 / 50 rows
