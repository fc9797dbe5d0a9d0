"""A stream and a table, held to Spark's own join of them."""

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from muntin.spark import window_join

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def _rows(seed: int, count: int, names: tuple[str, str, str]) -> pa.Table:
    """A key, a number and a time, each NULL now and then."""
    rng = np.random.default_rng(seed)
    key, value, time = names
    none = rng.random((3, count)) < 0.1
    times = [START + dt.timedelta(seconds=int(at)) for at in rng.integers(0, 600, count)]
    return pa.table(
        {
            key: pa.array(
                [None if gone else int(k) for k, gone in zip(rng.integers(0, 6, count), none[0], strict=True)]
            ),
            value: pa.array(
                [None if gone else int(v) for v, gone in zip(rng.integers(0, 50, count), none[1], strict=True)]
            ),
            time: pa.array(
                [None if gone else t for t, gone in zip(times, none[2], strict=True)], pa.timestamp("us", "UTC")
            ),
        }
    )


SALES = [_rows(seed, 30, ("shop", "price", "at")) for seed in (1, 2, 3)]
OFFERS = _rows(9, 40, ("branch", "limit", "since"))


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(("side", "how"), [
    ("right", "inner"), ("right", "left"), ("right", "left_semi"), ("right", "left_anti"),
    ("left", "inner"), ("left", "right"),
])  # fmt: skip
def test_a_row_of_the_stream_meets_the_whole_table(spark, runner, side, how, stages):
    from pyspark.sql import functions as F

    def sides(sales):
        table = spark.createDataFrame(OFFERS)
        return (sales, table) if side == "right" else (table, sales)

    def condition():
        return (
            (F.col("shop") == F.col("branch"))
            & F.col("limit").between(F.col("price") - 9, F.col("price") + 9)
            & (F.col("at") >= F.col("since"))
            & (F.col("at") <= F.col("since") + F.expr("INTERVAL 5 MINUTES"))
        )

    stream = runner.stream("sales", SALES)
    partitions = 3 if stages == 2 else 1
    result = window_join(*sides(stream), condition(), how, stages=stages, partitions=partitions)
    got = runner.run(result)
    left, right = sides(spark.createDataFrame(pa.concat_tables(SALES)))
    assert result.columns == left.join(right, condition(), how).columns
    assert Counter(map(tuple, got)) == Counter(map(tuple, left.join(right, condition(), how).collect()))
    if stages == 1:  # and micro-batch for micro-batch
        runner.run(
            stream.join(sides(stream)[1], condition(), how)
            if side == "right"
            else sides(stream)[0].join(stream, condition(), how),
            "spark",
        )
        ours, theirs = (Counter((n, tuple(row)) for n, row in runner.results[q]) for q in ("query", "spark"))
        assert ours == theirs
