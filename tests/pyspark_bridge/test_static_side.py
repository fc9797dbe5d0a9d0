"""A stream and a table, held to Spark's own join of them."""

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from muntin import AsOf, Compare, WindowJoin, sql
from muntin.host.daemon import start_private
from muntin.host.daemon.socket_file import SocketFile
from muntin.host.errors import ConnectionLostError
from muntin.host.spec import JoinSpec
from muntin.host.state.tables import KeptTable
from muntin.pyspark_bridge.join_task import JoinTask
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


def _sides(side: str, stream: object, table: object) -> tuple[object, object]:
    return (stream, table) if side == "right" else (table, stream)


def _condition():
    return (
        (F.col("shop") == F.col("branch"))
        & F.col("limit").between(F.col("price") - 9, F.col("price") + 9)
        & (F.col("at") >= F.col("since"))
        & (F.col("at") <= F.col("since") + F.expr("INTERVAL 5 MINUTES"))
    )


@pytest.mark.parametrize(
    ("side", "how", "partitions"),
    [
        ("right", "inner", 1),
        pytest.param("right", "left", 1, marks=pytest.mark.full),
        ("right", "left", 3),
        pytest.param("right", "left_semi", 1, marks=pytest.mark.full),
        ("right", "left_anti", 1),
        pytest.param("left", "right", 1, marks=pytest.mark.full),
        ("left", "right", 2),
    ],
)
def test_as_in_sparks_own_join(spark, runner, side, how, partitions):
    table = spark.createDataFrame(OFFERS)
    sides = _sides(side, runner.stream("sales", SALES), table)
    result = window_join(*sides, _condition(), how, partitions=partitions)
    theirs = sides[0].join(sides[1], _condition(), how)
    assert result.columns == theirs.columns
    runner.run(result)
    if how == "left":  # the same micro-batches too
        runner.run(theirs, "theirs")
        rows = [Counter((batch, tuple(row)) for batch, row in runner.results[query]) for query in ("query", "theirs")]
    else:
        bounded = _sides(side, spark.createDataFrame(pa.concat_tables(SALES)), table)
        found = bounded[0].join(bounded[1], _condition(), how).collect()
        rows = [Counter(map(tuple, found)), Counter(tuple(row) for _, row in runner.results["query"])]
    assert rows[0] == rows[1]
    assert rows[0]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_of_a_table_that_cannot_match_are_not_kept(spark, runner, tmp_path, how):
    """Those that fail a part about the table; a part about the stream removes none of its rows."""
    condition = "shop = branch AND limit > 25 AND branch % 2 = 0 AND price < 40"
    stream, table = runner.stream("sales", SALES), spark.createDataFrame(OFFERS)
    runner.run(window_join(stream, table, F.expr(condition), how, state=str(tmp_path)))
    (digest,) = (file.stem for file in (tmp_path / "tables").glob("*.table"))
    due = [row for row in OFFERS.to_pylist() if (row["limit"] or 0) > 25 and row["branch"] in (0, 2, 4)]
    assert KeptTable(str(tmp_path / "tables"), digest).rows().num_rows == len(due) < len(OFFERS) // 2
    bounded = spark.createDataFrame(pa.concat_tables(SALES))
    wanted = Counter(map(tuple, bounded.join(table, F.expr(condition), how).collect()))
    assert Counter(tuple(row) for _, row in runner.results["query"]) == wanted
    assert Counter(map(tuple, window_join(bounded, table, F.expr(condition), how).collect())) == wanted  # two tables


def _matches(sales: pa.Table, offers: pa.Table) -> Counter:
    """Prices and limits of a shop and a branch of one number."""
    return Counter(
        (sale["price"], offer["limit"])
        for sale in sales.to_pylist()
        for offer in offers.to_pylist()
        if sale["shop"] is not None and sale["shop"] == offer["branch"]
    )


def _found(runner: object, batch: int) -> Counter:
    return Counter((row["price"], row["limit"]) for number, row in runner.results["query"] if number == batch)


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_replayed_batch_meets_the_table_of_its_commit(spark, runner, tmp_path, partitions):
    def joined(offers: pa.Table) -> object:
        return window_join(
            runner.stream("sales"), spark.createDataFrame(offers), "shop = branch", name="sales",
            state=str(tmp_path / "state"), partitions=partitions,
        )  # fmt: skip

    before, after = OFFERS[:20], OFFERS[20:]
    for number, sales in enumerate(SALES[:2]):
        runner.write("sales", number, sales)
    with pytest.raises(StreamingQueryException):
        runner.run(joined(before), fail={1})
    runner.write("sales", 2, SALES[2])
    runner.run(joined(after))
    assert [_found(runner, n) for n in range(3)] == [
        _matches(sales, table) for sales, table in zip(SALES, (before, before, after), strict=True)
    ]


def test_a_daemon_that_is_lost_and_one_that_is_not(spark, runner, tmp_path):
    """Without state: another daemon goes on with the query, and a query that is started again meets the table of that
    start, in the daemon that it had."""
    path = tmp_path / "socket"
    path.mkdir(mode=0o700)

    def start() -> object:
        return start_private("numpy", file=SocketFile(path / "daemon.sock"))

    runner.write("sales", 0, SALES[0])
    running = start()

    def joined(offers: pa.Table) -> object:
        stream, table = runner.stream("sales"), spark.createDataFrame(offers)
        return window_join(stream, table, "shop = branch", name="sales", daemon=running.address)

    query = runner.start(joined(OFFERS), "query", available_now=False)
    query.processAllAvailable()
    running.process.kill()
    running.process.wait()
    running.close()
    with start() as running:
        runner.write("sales", 1, SALES[1])
        query.processAllAvailable()
        query.stop()
        runner.write("sales", 2, SALES[2])
        runner.run(joined(OFFERS[:7]))
        assert [_found(runner, n) for n in range(3)] == [
            _matches(sales, table) for sales, table in zip(SALES, (OFFERS, OFFERS, OFFERS[:7]), strict=True)
        ]


@pytest.mark.parametrize(
    ("state", "options", "said"),
    [
        (
            None,
            {},
            "nothing but a table was in the daemon .* from its checkpoint; a micro-batch that comes again",
        ),
        ("/state", {}, r"nothing but a table was in the daemon .* from its checkpoint\.\)$"),
        (None, {"form": "pairs"}, "The windows of this query were in the daemon .* use a new checkpoint"),
        ("/state", {"form": "pairs"}, "The windows of this query .* in its state too: .* from its checkpoint"),
    ],
)
def test_what_is_lost_with_a_private_daemon(state, options, said):
    """A query that has nothing but a table goes on from its checkpoint."""
    schemas = [table.schema.serialize().to_pybytes() for table in (SALES[0], OFFERS)]
    spec = JoinSpec(on=Compare("shop", "=", "branch"), static="right", **options).to_json()
    given = {"address": "unix:/gone", "token": None, "tls_ca": None, "private": True, "join": "j", "named": False}
    task = JoinTask(
        **given, instance="1", spec=spec, left_schema=schemas[0], right_schema=schemas[1], streaming=True, state=state
    )
    with pytest.raises(ConnectionLostError, match=f"it is gone .*{said}"), task._told():
        raise ConnectionLostError("it is gone")


def test_two_like_tables_of_one_query_need_names(spark, runner, tmp_path, caplog):
    """To the state they are one. Without state each join has a daemon of its own."""
    stream, tables = runner.stream("sales", SALES[:1]), [spark.createDataFrame(rows) for rows in (OFFERS, OFFERS[:7])]
    window_join(stream, tables[0], "shop = branch", state=None).union(
        window_join(stream, tables[1], "shop = branch", state=None)
    )
    assert not caplog.records
    like = [window_join(stream, table, "shop = branch", state=str(tmp_path)) for table in tables]
    assert "made before with another table" in caplog.text
    with pytest.raises(StreamingQueryException, match=r"give each a name of its own, window_join\(\.\.\., name="):
        runner.run(like[0].union(like[1]))


@pytest.mark.parametrize("partitions", [1, 2])
def test_as_of_looks_ahead_at_once(spark, runner, partitions):
    on = AsOf("at", "since", "forward", tolerance="1 minute", by=[("shop", "branch")])
    stream, table = runner.stream("sales", SALES), spark.createDataFrame(OFFERS)
    runner.run(window_join(stream, table, on, "left", partitions=partitions, observe="figures"))
    for batch, sales in enumerate(SALES):
        with WindowJoin(on=on, how="left", left_schema=SALES[0].schema, right_table=OFFERS) as join:
            found = join.process(sales).to_pylist()
        rows = [row for number, row in runner.results["query"] if number == batch]
        # Of offers of one time any may be the first in the table.
        assert Counter((row["shop"], row["price"], row["since"]) for row in rows) == Counter(
            (row["shop"], row["price"], row["since"] and row["since"].astimezone().replace(tzinfo=None))
            for row in found
        )


def test_the_streams_watermark_stands_in_the_result(spark, runner):
    def counts(joined: object) -> object:
        return joined.groupBy(F.window("at", "1 minute")).count()

    def stream() -> object:
        return runner.stream("sales", SALES).withWatermark("at", "1 minute")

    table = spark.createDataFrame(OFFERS)
    runner.run(counts(window_join(stream(), table, "shop = branch")))
    runner.run(counts(stream().join(table, F.col("shop") == F.col("branch"))), "theirs")
    ours, theirs = (
        Counter((batch, row["window"]["start"], row["count"]) for batch, row in runner.results[query])
        for query in ("query", "theirs")
    )
    assert ours == theirs
    assert ours


def test_sql(spark, runner):
    frames = {"sales": runner.stream("sales", SALES), "offers": spark.createDataFrame(OFFERS)}
    text = (
        "SELECT price, limit FROM sales LEFT JOIN offers ON sales.shop = offers.branch AND offers.limit > sales.price"
    )
    runner.run(sql(text, **frames))
    frames["sales"] = spark.createDataFrame(pa.concat_tables(SALES))
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    rows = [row for _, row in runner.results["query"]]
    assert Counter(map(tuple, rows)) == Counter(map(tuple, spark.sql(text).collect()))
