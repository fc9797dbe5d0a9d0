"""Joins in several tasks, each with a window of its own: as in one."""

import os
import signal

import pytest

from host import AllOf, Band, Compare, Rows, Within
from host.daemon import start_private
from host.errors import UnsupportedError, WindowError
from pyspark_bridge import window_join
from tests.pyspark_bridge.data import bids_and_asks

OPTIONS = {
    "on": AllOf(Compare("limit", "=", "price"), Band("id", "id", -90, 90)),
    "within": Within("ts", "ts", "-12 seconds", "9 seconds"),
    "name": "parts",
}


def streams(runner, bids, asks):
    sides = []
    for name, tables, delay in (("bids", bids, 3), ("asks", asks, 5)):
        sides.append(runner.stream(name, tables).withWatermark("ts", f"{delay} seconds"))
    return sides


def rows(runner, query):
    return sorted((batch, str(row.asDict())) for batch, row in runner.results[query])


@pytest.fixture
def two_daemons(tmp_path):
    daemons = [start_private("cpu", state=str(tmp_path / f"state{number}")) for number in range(2)]
    yield daemons
    for daemon in daemons:
        daemon.close()


def test_full_outer_join_over_two_daemons(runner, daemon, two_daemons, seed, tmp_path):
    """Late rows and unmatched rows as in one window, with a daemon that is killed and a sink that fails."""
    bids, asks = bids_and_asks(seed, batches=5, spread=12, late=9)
    bids[2], asks[2] = bids[2].slice(0, 0), asks[2].slice(0, 0)
    runner.run(window_join(*streams(runner, bids, asks), **OPTIONS, how="full", daemon=daemon.address), "one")
    addresses = [each.address for each in two_daemons]
    split = window_join(*streams(runner, bids[:3], asks[:3]), **OPTIONS, how="full", daemon=addresses, partitions=3)
    query = runner.start(split, "split", fail={1})
    with pytest.raises(Exception, match="the sink fails after micro-batch 1"):
        query.awaitTermination(120)
    os.kill(two_daemons[1].process.pid, signal.SIGKILL)
    with start_private("cpu", state=str(tmp_path / "state1")) as third:
        addresses[1] = third.address
        split = window_join(*streams(runner, bids, asks), **OPTIONS, how="full", daemon=addresses, partitions=3)
        runner.run(split, "split")
    assert rows(runner, "split") == rows(runner, "one")
    assert any(row["id"] is None for _, row in runner.results["one"])


def test_tables_and_types(runner, daemon, spark):
    left = spark.sql("SELECT CAST(id % 5 AS INT) k, CAST(id % 3 AS FLOAT) f, id t, -0.0D z FROM range(40)")
    right = spark.sql("SELECT id % 5 k, CAST(id % 3 AS DOUBLE) f, id t, 0.0D z FROM range(40)")
    on = AllOf(Compare("k", "=", "k"), Compare("f", "=", "f"), Compare("z", "=", "z"))
    options = {"on": on, "within": Within("t", "t", -20, 20), "daemon": daemon.address, "how": "full"}
    found = [window_join(left, right, **options, partitions=count).collect() for count in (1, 4)]
    assert len(found[0]) > 60
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": Band("k", "k", 0, 1)}, UnsupportedError, "compares none"),
        ({"on": Compare("k", "=", "d")}, UnsupportedError, r"'k' \(bigint\).*'d' \(decimal\(4,1\)\)"),
        ({"within": None, "left": Rows(3), "right": Rows(3)}, UnsupportedError, "is for time windows"),
        ({"stages": 2}, UnsupportedError, "stages=2 is for streams"),
        ({"stages": 3}, WindowError, "stages must be 1 or 2"),
        ({"form": "pairs"}, UnsupportedError, "form='pairs'"),
        ({"order": "inner"}, UnsupportedError, "order='inner'"),
        ({"partitions": 0}, WindowError, "from 1 to 256"),
        ({"daemons": 3}, UnsupportedError, "3 daemons for 2 partitions"),
    ],
)
def test_refusals(spark, daemon, options, error, message):
    options = {"on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 1), "partitions": 2, **options}
    address = [daemon.address] * options.pop("daemons", 1)
    left, right = (spark.sql("SELECT id k, id t, CAST(id AS DECIMAL(4,1)) d FROM range(3)") for _ in range(2))
    with pytest.raises(error, match=message):
        window_join(left, right, **options, daemon=address)
