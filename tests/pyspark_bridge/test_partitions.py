"""Joins in several tasks, each with a window of its own: as in one."""

import os
import signal

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, AsOf, Band, Compare, Rows, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.engines import Partitions
from muntin.host.errors import UnsupportedError, WindowError
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds
from tests.pyspark_bridge.test_as_of import later
from tests.pyspark_bridge.test_two_stages import failing

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
    runner.run(
        window_join(*streams(runner, bids, asks), **OPTIONS, how="full", daemon=daemon.address, state=None), "one"
    )
    addresses = [each.address for each in two_daemons]
    split = window_join(
        *streams(runner, bids[:3], asks[:3]), **OPTIONS, how="full", daemon=addresses, partitions=3, state=None
    )
    query = runner.start(split, "split", fail={1})
    with pytest.raises(Exception, match="the sink fails after micro-batch 1"):
        query.awaitTermination(600)
    os.kill(two_daemons[1].process.pid, signal.SIGKILL)
    with start_private("cpu", state=str(tmp_path / "state1")) as third:
        addresses[1] = third.address
        split = window_join(
            *streams(runner, bids, asks), **OPTIONS, how="full", daemon=addresses, partitions=3, state=None
        )
        runner.run(split, "split")
    assert rows(runner, "split") == rows(runner, "one")
    assert any(row["id"] is None for _, row in runner.results["one"])


def test_tables_and_types(runner, daemon, spark):
    left = spark.sql("SELECT CAST(id % 5 AS INT) k, CAST(id % 3 AS FLOAT) f, id t, -0.0D z FROM range(40)")
    right = spark.sql("SELECT id % 5 k, CAST(id % 3 AS DOUBLE) f, id t, 0.0D z FROM range(40)")
    on = AllOf(Compare("k", "=", "k"), Compare("f", "=", "f"), Compare("z", "=", "z"))
    options = {"on": on, "within": Within("t", "t", -20, 20), "daemon": daemon.address, "how": "full"}
    found = [window_join(left, right, **options, partitions=count, state=None).collect() for count in (1, 4)]
    assert len(found[0]) > 60
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))


BAND = (Band("limit", "price", -2, 2), ("band", -2, 2))
EQUAL = (Compare("limit", "=", "price"), ("compare", "="))
BELOW = (Compare("limit", "<", "price"), ("compare", "<"))
TIMES = {"within": Within("ts", "ts", "-4 seconds", "3 seconds")}
COUNTS = {"left": Rows(70), "right": Rows(60), "sequence": "seq"}


def oracle(predicate, options, how, bids, asks):
    """(micro-batch, left id, right id) of each row that is due."""
    timed = "within" in options
    loop = NestedLoop(
        predicate, "limit", "price", how=how, sequence=options.get("sequence"), lag=1,
        rows=None if timed else (70, 60),
        within=("ts", "ts", seconds(-4), seconds(3)) if timed else None,
        delays=(seconds(3), seconds(5)) if timed else (None, None),
    )  # fmt: skip
    found, names = [], [[], []]
    for batch, sides in enumerate(zip(bids, asks, strict=True)):
        for known, table in zip(names, sides, strict=True):
            known += table["id"].to_pylist()
        pairs = loop.results(loop.process(*sides))
        found += [
            (batch, *(None if at is None else of[at] for of, at in zip(names, pair, strict=True))) for pair in pairs
        ]
    return sorted(found, key=str)


def ids(runner, query="query"):
    found = [(batch, row.asDict()) for batch, row in runner.results[query]]
    return sorted(((batch, row["id"], row.get("id_right")) for batch, row in found), key=str)


@pytest.mark.parametrize(
    ("condition", "options", "how", "partitions"),
    [
        (BAND, TIMES, "left", Partitions(4, width=5)),
        pytest.param(BELOW, COUNTS, "right", 4, marks=pytest.mark.full),
        pytest.param(BAND, COUNTS, "inner", 4, marks=pytest.mark.full),
        pytest.param(
            BELOW, TIMES, "left_anti", Partitions(4, by="subwindows", width="2 seconds"), marks=pytest.mark.full
        ),
        pytest.param(BAND, COUNTS, "left_semi", Partitions(3, by="subwindows"), marks=pytest.mark.full),
        (BAND, COUNTS, "full", Partitions(2, width=5)),
        pytest.param(BELOW, TIMES, "full", 3, marks=pytest.mark.full),
    ],
    ids=[
        "ranges time left",
        "rows count right",
        "ranges count",
        "subwindows time anti",
        "rows count semi",
        "ranges count full",
        "rows time full",
    ],
)
def test_without_equality(runner, two_daemons, seed, tmp_path, condition, options, how, partitions):
    """Each row is due once, in its micro-batch: with tasks that fail at first, a sink that fails, a micro-batch that is
    replayed, and a daemon that is killed."""
    on, predicate = condition
    bids, asks = bids_and_asks(seed, batches=4, late=9)
    bids[2], asks[3] = bids[2].slice(0, 0), asks[3].slice(0, 0)
    addresses = [each.address for each in two_daemons]

    def join(count):
        left, right = runner.stream("bids", bids[:count]), runner.stream("asks", asks[:count])
        right = right.mapInArrow(failing(f"{tmp_path}/failed", 10), right.schema)
        if "within" in options:
            left, right = left.withWatermark("ts", "3 seconds"), right.withWatermark("ts", "5 seconds")
        more = {"how": how, "name": "parts", "daemon": addresses, "partitions": partitions}
        return window_join(left, right, on=on, **options, **more, state=None)

    query = runner.start(join(3), "query", fail={1})
    with pytest.raises(Exception, match="the sink fails after micro-batch 1"):
        query.awaitTermination(600)
    os.kill(two_daemons[1].process.pid, signal.SIGKILL)
    with start_private("cpu", state=str(tmp_path / "state1")) as third:
        addresses[1] = third.address
        runner.run(join(4))
        with DaemonClient(third.address) as client:
            names = [name for name in client.status()["queries"] if name.startswith(f"{runner.queries[-1].id}/")]
    due = oracle(predicate, options, how, bids, asks)
    assert ids(runner) == due
    assert len(due) > 10
    windows = (partitions.count if isinstance(partitions, Partitions) else partitions) * (2 if how == "full" else 1)
    assert len(names) == windows // 2
    assert list(tmp_path.glob("failed-*"))


@pytest.mark.parametrize(
    ("condition", "options", "how", "partitions"),
    [
        (EQUAL, COUNTS, "inner", Partitions(3)),
        pytest.param(EQUAL, TIMES, "right", Partitions(3), marks=pytest.mark.full),
        pytest.param(BAND, COUNTS, "left", Partitions(2, width=5), marks=pytest.mark.full),
    ],
    ids=["equality count", "equality time right", "ranges count left"],
)
def test_a_key_with_half_of_the_rows(runner, two_daemons, seed, tmp_path, condition, options, how, partitions):
    """Its rows are spread once rows of before have left the window, also over a daemon that is killed on the way."""
    on, predicate = condition
    bids, asks = bids_and_asks(seed, batches=10, rows=300, spread=1000, late=4, step=9)
    for tables, key in ((bids, "limit"), (asks, "price")):
        for at, table in enumerate(tables):
            heavy = pa.array(np.random.default_rng(at).random(len(table)) < 0.5)
            keys = pa.compute.if_else(heavy, pa.scalar(77, pa.int64()), table[key])
            tables[at] = table.set_column(table.schema.get_field_index(key), key, keys)
    addresses = [each.address for each in two_daemons]

    def join(count):
        left, right = runner.stream("bids", bids[:count]), runner.stream("asks", asks[:count])
        if "within" in options:
            left, right = left.withWatermark("ts", "3 seconds"), right.withWatermark("ts", "5 seconds")
        more = {"how": how, "name": "parts", "daemon": addresses, "partitions": partitions}
        return window_join(left, right, on=on, **options, **more, state=None)

    query = runner.start(join(5), "query", fail={4})
    with pytest.raises(Exception, match="the sink fails after micro-batch 4"):
        query.awaitTermination(600)
    os.kill(two_daemons[0].process.pid, signal.SIGKILL)
    with start_private("cpu", state=str(tmp_path / "state0")) as first:
        addresses[0] = first.address
        runner.run(join(10))
        with DaemonClient(first.address) as client:
            routes = [(each["routes_epoch"], each["routes_spread"]) for each in client.status()["queries"].values()]
    due = oracle(predicate, options, how, bids, asks)
    assert ids(runner) == due
    assert len(due) > 1000
    assert len(routes) == (partitions.count + 1) // 2
    assert routes == [(routes[0][0], 1)] * len(routes)


@pytest.mark.full
def test_other_cells_are_other_windows(runner, two_daemons, seed):
    """Rows would not meet those that went by other cells: the query is told, and goes on with the cells it had."""
    bids, asks = bids_and_asks(seed, batches=3)

    def join(count, width):
        sides = runner.stream("bids", bids[:count]), runner.stream("asks", asks[:count])
        options = {"name": "cells", "daemon": two_daemons[0].address, "partitions": Partitions(2, width=width)}
        return window_join(*sides, on=BAND[0], **COUNTS, **options, state=None)

    runner.run(join(2, 8))
    with pytest.raises(Exception, match=r"StateLostError.*ranges-9-bins/"):
        runner.start(join(3, 9), "query").awaitTermination(600)
    runner.run(join(3, 8))
    assert ids(runner) == oracle(BAND[1], COUNTS, "inner", bids, asks)


@pytest.mark.full
def test_one_stream_in_both_roles(runner, daemon, seed):
    bids, _ = bids_and_asks(seed, batches=3, spread=20)
    stream = runner.stream("bids", bids)
    options = {"on": Band("limit", "limit", 0, 1), "within": Within("ts", "ts", "-2 seconds", "2 seconds")}
    for count in (1, 3):
        runner.run(
            window_join(stream, stream, **options, daemon=daemon.address, partitions=count, state=None), str(count)
        )
    assert rows(runner, "1") == rows(runner, "3")
    assert len(rows(runner, "1")) > 50
    with pytest.raises(UnsupportedError, match="a self join with count windows"):
        window_join(stream, stream, on=BELOW_ITSELF, **COUNTS, daemon=daemon.address, partitions=2, state=None)


BELOW_ITSELF = Compare("limit", "<", "limit")


@pytest.mark.full
def test_aggregates_of_closed_windows(runner, seed):
    bids, asks = bids_and_asks(seed, batches=5, spread=6)
    options = {"form": "aggregate", "at": "close"}
    options["aggregates"] = [
        "count(*)", "max(id)", "count(note)", "last(note) as newest", "collect(id) as ids", "var(id) as spread",
        "collect(note) as notes",
        "arg_min(note, id) within (-1 second, 1 second) as least",
    ]  # fmt: skip
    with start_private("cpu") as daemon:
        for count in (1, 3):
            sides = streams(runner, bids, asks)
            more = {**TIMES, **options, "daemon": daemon.address, "partitions": count}
            runner.run(
                window_join(*sides, on=AllOf(EQUAL[0], Compare("id", "!=", "id")), **more, state=None), str(count)
            )
    assert rows(runner, "1") == rows(runner, "3")
    assert len(rows(runner, "1")) > 50


@pytest.mark.full
def test_as_of_join(runner, seed):
    """Left rows are spread; right rows are in each partition."""
    bids, asks = bids_and_asks(seed, batches=3, spread=10)
    bids, asks = ([*tables, later(tables[0], 1000)] for tables in (bids, asks))
    with start_private("cpu") as daemon:
        for count in (1, 3):
            sides = streams(runner, bids, asks)
            on = AsOf("ts", "ts", by=[("limit", "price")], tolerance="10 seconds")
            options = {"how": "left", "daemon": daemon.address, "partitions": count}
            runner.run(window_join(*sides, on=on, **options, state=None), str(count))
    assert rows(runner, "1") == rows(runner, "3")
    assert len(rows(runner, "1")) > 50


@pytest.mark.parametrize(
    ("partitions", "how"),
    [
        (4, "full"),
        pytest.param(Partitions(3, by="subwindows"), "left", marks=pytest.mark.full),
        pytest.param(Partitions(3, by="subwindows", width=9), "full", marks=pytest.mark.full),
    ],
)
def test_tables_without_equality(daemon, spark, partitions, how):
    left = spark.sql("SELECT id % 50 k, id % 31 t, id n, CAST(id AS STRING) s FROM range(300)")
    right = spark.sql("SELECT id % 41 k, id % 30 t, id n, current_timestamp() at FROM range(200)")
    options = {"on": Band("k", "k", -1, 1), "within": Within("t", "t", -2, 2), "daemon": daemon.address, "how": how}
    chosen = {"select": ["n", "s", "n_right"]}
    found = [
        window_join(left, right, **options, **chosen, partitions=each, state=None).collect() for each in (1, partitions)
    ]
    assert len(found[0]) > 300
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"partitions": Partitions(2, by="ranges"), "on": Compare("k", "<", "k")}, UnsupportedError, "use by='subwind"),
        ({"partitions": Partitions(2, "equality"), "on": Compare("k", "<", "k")}, UnsupportedError, "compares none"),
        ({"partitions": Partitions(2, width=5)}, UnsupportedError, "width=5 is for partitions by ranges"),
        ({"partitions": Partitions(2, subwindow_rows=5)}, UnsupportedError, "is for one process"),
        ({"on": Compare("k", "=", "d")}, UnsupportedError, r"'k' \(bigint\).*'d' \(decimal\(4,1\)\)"),
        ({"within": None, "left": Rows(3), "right": Rows(3)}, UnsupportedError, "is for time windows"),
        ({"stages": 2}, UnsupportedError, "stages=2 is for streams"),
        ({"stages": 3}, WindowError, "stages must be 1 or 2"),
        ({"form": "pairs"}, UnsupportedError, "form='pairs'"),
        ({"order": "inner"}, UnsupportedError, "order='inner'"),
        (
            {
                **{"form": "aggregate", "at": "close", "aggregates": "count(*) include prevailing as n"},
                "partitions": Partitions(2, by="subwindows"),
            },
            UnsupportedError,
            "prevailing=True needs the rows of a value in one partition.* go by subwindows: leave by= and width= out",
        ),
        ({"partitions": 0}, WindowError, "from 1 to 256"),
        ({"daemons": 3}, UnsupportedError, "3 daemons for 2 partitions"),
    ],
)
def test_refusals(spark, daemon, options, error, message):
    options = {"on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 1), "partitions": 2, **options}
    address = [daemon.address] * options.pop("daemons", 1)
    left, right = (spark.sql("SELECT id k, id t, CAST(id AS DECIMAL(4,1)) d FROM range(3)") for _ in range(2))
    with pytest.raises(error, match=message):
        window_join(left, right, **options, daemon=address, state=None)
