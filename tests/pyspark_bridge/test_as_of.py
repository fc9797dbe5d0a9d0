"""As-of joins of streams and of batch DataFrames, against pandas."""

import pandas as pd
import pyarrow as pa
import pytest

from muntin import AsOf, Where
from muntin.host.errors import UnsupportedError
from muntin.pyspark_bridge import window_join
from tests.pyspark_bridge.data import bids_and_asks

ON = AsOf("ts", "ts", by=[("limit", "price")], tolerance="10 seconds")


@pytest.fixture(scope="module")
def daemon():
    from muntin.host.daemon import start_private

    with start_private("cpu") as running:
        yield running


def nearest(bids, asks):
    left, right = (pa.concat_tables(tables).to_pandas() for tables in (bids, asks))
    left, right = left.dropna(subset=["ts", "limit"]), right.dropna(subset=["ts", "price"])
    found = pd.merge_asof(
        left.sort_values("ts", kind="stable"),
        right.sort_values("ts", kind="stable"),
        on="ts",
        left_by="limit",
        right_by="price",
        tolerance=pd.Timedelta(10, "s"),
        suffixes=("", "_right"),
    ).dropna(subset=["id_right"])
    return {(int(a), int(b)) for a, b in zip(found["id"], found["id_right"], strict=True)}


def later(table, seconds):
    """Its first row with a time, so many seconds later."""
    row = table.filter(table["ts"].is_valid()).slice(0, 1)
    moved = pa.array([row["ts"][0].as_py() + pd.Timedelta(seconds, "s")], row.schema.field("ts").type)
    return row.set_column(row.schema.names.index("ts"), "ts", moved)


def test_streams_answer_rows_that_the_watermark_has_passed(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=4, spread=10)
    wanted = nearest(bids, asks)
    assert wanted
    ends = [[later(table, 1000 + at) for at in range(3)] for table in (bids[0], asks[0])]
    left, right = (
        runner.stream(name, tables + end).withWatermark("ts", "60 seconds")
        for name, tables, end in zip(("bids", "asks"), (bids, asks), ends, strict=True)
    )
    joined = window_join(left, right, on=ON, daemon=daemon.address, select=["id", "id_right"], state=None)
    found = [(row.id, row.id_right) for row in runner.run(joined)]
    assert len(set(found)) == len(found)
    assert set(found) >= wanted
    assert len(found) - len(wanted) <= 2, "no rows but those of the last micro-batches"


def test_batches_answer_all_rows(spark, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=2, spread=10)
    frames = [spark.createDataFrame(pa.concat_tables(tables)) for tables in (bids, asks)]
    found = window_join(*frames, on=ON, daemon=daemon.address, select=["id", "id_right"], state=None).collect()
    assert {(row.id, row.id_right) for row in found} == nearest(bids, asks)


def test_streams_without_a_watermark_are_refused(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=1)
    with pytest.raises(UnsupportedError, match="watermark"):
        window_join(runner.stream("bids", bids), runner.stream("asks", asks), on=ON, daemon=daemon.address, state=None)


def test_parts_about_one_side_decide_who_takes_part(spark, daemon):
    left = spark.createDataFrame([(1, 10, "a"), (2, 20, None)], "l int, t long, s string")
    right = spark.createDataFrame([(1, 8, True), (2, 9, False), (3, 19, True)], "r int, t long, ok boolean")
    on = AsOf("t", "t", where=[Where("right", "ok", "=", True), Where("left", "s", "is distinct from", None)])
    joined = window_join(left, right, on=on, how="left", daemon=daemon.address, select=["l", "r"], state=None)
    assert sorted(map(tuple, joined.collect())) == [(1, 1), (2, None)]
