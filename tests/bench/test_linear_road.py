"""The Linear Road generator, and its two queries on each index against DuckDB over all reports."""

import itertools

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from bench.linear_road import SEGMENTS, Road, distinct_keys, linear_road
from muntin.host.index import BPlusTree, BurstTrie, CsbTree, Judy, RadixTree, Slices, TimeKeyed
from muntin.host.join.range_index import open_window_index
from muntin.host.native import INDEXES

TREES = [BPlusTree(), CsbTree(), BurstTrie(), RadixTree(), *([Judy()] if INDEXES["judy"].built else [])]
INDEXES = [kind for tree in TREES for kind in (Slices(of=tree, stride=60), TimeKeyed(of=tree))]


def minutes(seed: int, count: int, **parameters):
    return list(itertools.islice(linear_road(seed, **parameters), count))


def test_reports_are_of_vehicles_that_drive(seed) -> None:
    reports = minutes(seed, 12, expressways=3, arrivals=40)
    again = minutes(seed, 12, expressways=3, arrivals=40)
    for one, other in zip(reports, again, strict=True):
        np.testing.assert_array_equal(one.key, other.key)
    columns = ("time", "expressway", "direction", "segment", "vehicle", "speed")
    time, expressway, direction, segment, vehicle, speed = (
        np.concatenate([getattr(minute, name) for minute in reports]) for name in columns
    )
    assert (np.diff(time) >= 0).all()
    assert [minute.time[0] // 60 for minute in reports] == list(range(12))
    assert set(expressway) == {0, 1, 2}
    assert set(direction) == {0, 1}
    assert segment.min() >= 0
    assert segment.max() < SEGMENTS
    assert len(reports[-1]) > len(reports[0])  # more enter as time goes on
    for one in np.unique(vehicle)[:50]:
        own = vehicle == one
        assert (np.diff(time[own]) == 30).all()
        assert len(set(zip(expressway[own], direction[own], strict=True))) == 1
        ahead = np.diff(segment[own]) * np.where(direction[own][1:] == 0, 1, -1)
        assert ((ahead >= 0) & (ahead <= 1)).all()  # at most 100 miles an hour for half a minute
        assert ((speed[own] >= 1) & (speed[own] <= 100)).all()
    with pytest.raises(ValueError, match="expressways"):
        minutes(seed, 1, expressways=17)


def test_keys_are_those_of_the_first_reports(seed) -> None:
    keys = distinct_keys(seed, 3000, expressways=2)
    assert len(np.unique(keys)) == 3000
    everything = np.concatenate([minute.key for minute in minutes(seed, 30, expressways=2, arrivals=50)])
    _, first = np.unique(everything, return_index=True)
    np.testing.assert_array_equal(keys, everything[np.sort(first)][:3000])


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_the_queries_on_each_index(index, seed) -> None:
    rng = np.random.default_rng(seed)
    road = Road(open_window_index(index, span=300, key_type="uint32", values="float64"))
    seen = []
    for minute, reports in enumerate(minutes(seed, 9, expressways=2, arrivals=30)):
        road.insert(reports)
        names = ("time", "expressway", "direction", "segment", "vehicle", "speed")
        seen.append(pa.table({name: getattr(reports, name) for name in names}))
        if minute < 6:
            continue
        reported = pa.concat_tables(seen)  # noqa: F841 - DuckDB reads it by its name
        last = duckdb.sql(
            f"select expressway, direction, segment, vehicle, arg_max(speed, time) from reported "
            f"where time > {road.now - 60} group by all"
        ).fetchall()
        for at in rng.integers(0, len(last), 30):
            assert road.speed_of(*last[at][:4]) == last[at][4]
        averages = duckdb.sql(
            "select expressway, direction, segment, avg(speed) from reported "
            f"where time > {road.now - 300} group by all"
        ).fetchall()
        for expressway, direction, segment, average in averages[:60]:
            assert road.average_speed(expressway, direction, segment) == pytest.approx(average)
        assert road.speed_of(5, 0, 0, 0) is None
        assert road.average_speed(5, 0, 0) is None
    figures = road.index.figures()
    assert figures["slices_dropped"] >= 3 if isinstance(index, Slices) else figures["erased"] > 0
