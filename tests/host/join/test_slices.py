"""Slices of a join's window: their length in each kind of window, and what they tell."""

import dataclasses
import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from muntin.host.devices import cpu_device, open_device
from muntin.host.engines import Steps
from muntin.host.errors import UnsupportedError, WindowError
from muntin.host.index import BurstTrie, CsbTree, Judy, PimTree, Slices
from muntin.host.join import WindowJoin
from muntin.host.predicates import Band
from muntin.host.spec import JoinSpec
from muntin.host.windows import Rows, Watermark, Within

START = dt.datetime(2026, 1, 1)


def minutes_of(seed: int, minute: int, rows: int = 200) -> pa.Table:
    rng = np.random.default_rng([seed, minute])
    times = [START + dt.timedelta(minutes=minute, milliseconds=int(at)) for at in rng.integers(0, 60_000, rows)]
    return pa.table({"key": rng.integers(0, 500, rows), "time": pa.array(times, pa.timestamp("us"))})


def test_slices_of_time_go_whole(seed) -> None:
    spec = JoinSpec(
        on=Band("key", "key", -1, 1),
        within=Within("time", "time", "-5 minutes", "0 seconds"),
        watermark=Watermark(left="10 seconds", right="10 seconds", lag=0),
        form="pairs",
        index=Slices(of=BurstTrie(container_rows=4), stride="1 minute"),
    )
    assert JoinSpec.from_json(spec.to_json()) == spec
    slices, plain = (
        WindowJoin.from_spec(spec),
        WindowJoin.from_spec(dataclasses.replace(spec, index="auto"), device="numpy"),
    )
    with slices, plain:
        for minute in range(12):
            batches = minutes_of(seed, minute), minutes_of(seed + 1, minute)
            found, expected = (pa.table(join.process(*batches)).to_pylist() for join in (slices, plain))
            assert sorted(map(str, found)) == sorted(map(str, expected))
            assert found
        # Right rows meet later left ones: they stay for five minutes, left ones until the watermark.
        for side, most in (("left", 2), ("right", 8)):
            figures = slices.stats.index[side]
            assert figures["slices"] <= most
            assert figures["slices"] + figures["slices_dropped"] in (12, 13)  # the first row's time is where they begin


def test_slices_of_a_count_window_are_of_arrival_numbers(seed) -> None:
    rng = np.random.default_rng(seed)
    with WindowJoin(on=Band("k", "k", 0, 0), left=Rows(100), right=Rows(100), index=Slices(stride=10)) as join:
        for _ in range(10):
            rows = pa.table({"k": rng.integers(0, 9, 25)})
            join.process(rows, rows)
        figures = join.stats.index["left"]
    assert figures["rows_of_slices"] == [10] * 10
    assert figures["slices_dropped"] == 15


def test_slices_of_trees_that_merge(seed) -> None:
    rng = np.random.default_rng(seed)
    options = {"left": Rows(3000), "right": Rows(3000), "form": "pairs"}
    index = Slices(of=PimTree(merge_ratio=0.5, insertion_depth=1), stride=1000)
    with (
        WindowJoin(on=Band("k", "k", -5, 5), **options, index=index) as sliced,
        WindowJoin(on=Band("k", "k", -5, 5), **options, device="numpy") as plain,
    ):
        for _ in range(9):
            left, right = (pa.table({"k": rng.integers(0, 40_000, 700)}) for _ in range(2))
            found, expected = (pa.table(join.process(left, right)).to_pylist() for join in (sliced, plain))
            assert sorted(map(str, found)) == sorted(map(str, expected))
        figures = sliced.stats.index["left"]
    assert figures["rows_of_slices"] == [1000, 1000, 1000, 300]
    assert figures["newest.mutable_rows"] == 300  # merged at half of a slice
    assert figures["newest.insertion_depth"] == 0


@pytest.mark.parametrize(("stride", "window"), [(60, "time"), ("1 minute", "count")])
def test_a_stride_of_another_unit_is_refused(stride, window) -> None:
    options = {"left": Rows(9), "right": Rows(9)}
    if window == "time":
        options = {"within": Within("time", "time", "-1 minute", "0 seconds")}
    join = WindowJoin(on=Band("key", "key", 0, 0), index=Slices(stride=stride), **options)
    with pytest.raises(WindowError, match="stride"):
        join.process(minutes_of(0, 0), minutes_of(0, 0))


@pytest.mark.parametrize("index", ["judy", Slices(of=Judy())])
def test_judy_is_refused_with_its_package_where_it_is_not(index, monkeypatch) -> None:
    device = open_device("cpu")
    monkeypatch.setitem(cpu_device.INDEXES, "judy", dataclasses.replace(cpu_device.INDEXES["judy"], built=False))
    with pytest.raises(UnsupportedError, match="libjudy-dev"):
        device.index(index, Steps())


def test_a_device_without_trees_refuses_them() -> None:
    with pytest.raises(UnsupportedError, match="csb_tree"):
        open_device("numpy").index(CsbTree(), Steps())
