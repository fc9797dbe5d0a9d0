"""Whole SELECTs over Spark DataFrames, against Spark's own reading of the text."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings

from muntin import sql, sql_explain
from muntin.errors import SqlError, UnsupportedError, WindowError
from tests.host.test_sql import TYPED
from tests.host.test_sql_query import selects
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks, seconds

JOINED = "{bids} b JOIN {asks} a ON a.price BETWEEN b.limit - 1 AND b.limit + 1"
TEXTS = [
    "SELECT b.id % 3 AS k, count(*) AS n, max(a.price) / 2 AS most, CASE WHEN count(*) > 9 THEN 'many' END AS t "
    f"FROM {JOINED} WHERE b.id + a.id > 5 GROUP BY b.id % 3 HAVING count(*) > 1 ORDER BY n DESC, k NULLS FIRST LIMIT 7",
    "SELECT DISTINCT b.limit, a.price FROM {bids} b LEFT JOIN {asks} a ON a.price = b.limit AND a.id < 20 WHERE "
    "a.id IS NULL OR a.id > 3",
    "SELECT * FROM (SELECT id, limit FROM {bids}) b FULL JOIN (SELECT price, id FROM {asks} WHERE id < 30) a "
    "USING (id)",
    "WITH few AS (SELECT id, price FROM {asks} WHERE id < 30) SELECT b.id, f.price, a.id AS o FROM {bids} b JOIN few f "
    "ON f.price = b.limit LEFT JOIN {asks} a ON a.id = f.id + b.id WHERE EXISTS (SELECT 1 FROM {bids} c WHERE c.id = "
    "b.id + 1)",
    "SELECT b.id, a.id AS o FROM {bids} b JOIN {asks} a ON CAST(a.price AS STRING) = CAST(b.limit AS STRING) AND "
    "a.id * 2 < b.id + 30",
    f"SELECT /*+ BROADCAST(a) */ b.id, e.x, '{{{{}}}} it\\'s' AS t FROM {JOINED} LATERAL VIEW "
    "explode(array(a.id, 5)) e AS x",
    f"SELECT b.id, row_number() OVER (PARTITION BY b.limit ORDER BY b.id, a.id) AS r FROM {JOINED}",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_selects_as_spark_reads_them(spark, daemon, seed, text):
    bids, asks = (spark.createDataFrame(side[0].slice(0, 60)) for side in bids_and_asks(seed, spread=15))
    theirs = spark.sql(text, bids=bids, asks=asks)
    ours = sql(text.format(bids="bids", asks="asks"), bids=bids, asks=asks, daemon=daemon.address)
    assert ours.columns == theirs.columns
    wanted = [tuple(row) for row in theirs.collect()]
    found = [tuple(row) for row in ours.collect()]
    assert Counter(found) == Counter(wanted)
    assert "ORDER BY n" not in text or found == wanted
    assert len(wanted) > 2


WINDOW = "a.ts BETWEEN b.ts - INTERVAL 5 SECONDS AND b.ts + INTERVAL 3 SECONDS"


def streamed(runner, seed):
    bids, asks = bids_and_asks(seed, batches=4, rows=30, spread=15)
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds")
    return bids, asks, {"bids": left, "asks": runner.stream("asks", asks).withWatermark("ts", "5 seconds")}


def pairs(bids, asks, lag=1, late=False):
    """Of the band and `WINDOW`, with the micro-batch; with `late`, the side of late rows, None of pairs."""
    loop = NestedLoop(
        ("band", -1, 1), "limit", "price", within=("ts", "ts", seconds(-5), seconds(3)),
        delays=(seconds(2), seconds(5)), initial=0, lag=lag,
    )  # fmt: skip
    found, first = [], {"left": 0, "right": 0}
    for n, sides in enumerate(zip(bids, asks, strict=True)):
        found += [(n, *pair, *([None] if late else [])) for pair in loop.results(loop.process(*sides))]
        for side, stream in loop.streams.items() if late else ():
            numbers = [row.number for row in stream.rows[first[side] :] if row.late]
            found += [(n, *((at, None) if side == "left" else (None, at)), side) for at in numbers]
            first[side] = len(stream.rows)
    return found


def test_late_rows_of_a_join_alone(spark, runner, daemon, seed):
    bids, asks, frames = streamed(runner, seed)
    text = f"SELECT b.id AS bid, a.id AS ask FROM {JOINED.format(bids='bids', asks='asks')} AND {WINDOW}"
    runner.run(sql(text, **frames, late="keep", daemon=daemon.address, state=None))
    wanted = Counter(pairs(bids, asks, late=True))
    assert Counter((n, row["bid"], row["ask"], row["_late"]) for n, row in runner.results["query"]) == wanted
    assert {side for *_, side in wanted} == {None, "left", "right"}
    for around in (f"SELECT count(*) AS n FROM ({text})", f"{text} ORDER BY bid"):
        with pytest.raises(UnsupportedError, match="late='keep' gives late rows among those of a join"):
            sql(around, **frames, late="keep", daemon=daemon.address, state=None)
    with pytest.raises(WindowError, match="late='keep' is for one join"):
        sql(f"{text} JOIN asks c ON c.price = a.price", **frames, late="keep", state=None)


def test_streams_with_what_is_around_them(runner, daemon, seed):
    bids, asks, frames = streamed(runner, seed)
    text = (
        f"SELECT b.id + 1 AS n, upper(a.note) AS note FROM {JOINED.format(bids='bids', asks='asks')} AND {WINDOW} "
        "WHERE b.id % 2 + a.id % 2 > 0"
    )
    runner.run(sql(text, **frames, daemon=daemon.address, state=None))
    wanted = Counter((n, b + 1, f"PRICE {a}") for n, b, a in pairs(bids, asks) if b % 2 + a % 2)
    assert Counter((n, row["n"], row["note"]) for n, row in runner.results["query"]) == wanted
    assert len(wanted) > 20


def test_streams_joined_one_after_the_other(runner, daemon, seed):
    """The second join meets what the first one gives in the same micro-batch."""
    bids, asks, frames = streamed(runner, seed)
    text = (
        f"SELECT b.id, a.id AS ask, c.id AS other FROM {JOINED.format(bids='bids', asks='asks')} AND {WINDOW} "
        "JOIN bids c ON c.id - b.id IN (1, 2) AND c.ts BETWEEN b.ts - INTERVAL 30 SECONDS AND b.ts"
    )
    runner.run(sql(text, **frames, daemon=daemon.address, state=None))
    every = pa.concat_tables(batch.select(["id", "ts"]) for batch in bids)
    loop = NestedLoop(
        ("band", 1, 2), "id", "id", within=("ts", "ts", seconds(-30), seconds(0)), delays=(None, seconds(2)), initial=0,
        lag=1,
    )  # fmt: skip
    first = pairs(bids, asks)
    wanted = Counter()
    for number, batch in enumerate(bids):
        made = every.take(pa.array([b for n, b, _ in first if n == number], pa.int64()))
        found = loop.results(loop.process(made, batch))
        wanted.update((number, *first[left][1:], right) for left, right in found)
    assert Counter((n, row["id"], row["ask"], row["other"]) for n, row in runner.results["query"]) == wanted
    assert len(wanted) > 20


def test_groups_of_a_stream_behind_its_watermark(spark, runner, daemon, seed, monkeypatch):
    conf = "spark.sql.streaming.statefulOperator.allowMultiple"
    before = spark.conf.get(conf)
    spark.conf.set(conf, "false")
    try:
        bids, asks, frames = streamed(runner, seed)
        text = (
            f"SELECT window(b.ts, '5 seconds').start AS start, count(*) AS n FROM "
            f"{JOINED.format(bids='bids', asks='asks')} AND {WINDOW} GROUP BY window(b.ts, '5 seconds')"
        )
        options = {"result_watermark": "ts", "lag": 0, "no_data_batches": False}
        runner.run(sql(text, **frames, daemon=daemon.address, state=None, **options))
    finally:
        spark.conf.set(conf, before)
    found = {row["start"].timestamp(): row["n"] for row in (row for _, row in runner.results["query"])}
    times = [time for batch in bids for time in batch["ts"].to_pylist()]
    wanted = Counter(int(times[b].timestamp()) // 5 * 5 for _, b, _ in pairs(bids, asks, lag=0))
    assert len(found) > 2
    assert found == {start: wanted[start] for start in found}


def test_refusals_name_the_place(spark):
    bids = spark.range(3).selectExpr("id", "id AS x")
    frames = {"bids": bids, "asks": bids.limit(2)}
    for text, column, said in (
        ("SELECT nosuch(b.id) FROM bids b JOIN asks a ON a.id = b.id", 8, "nosuch"),
        ("SELECT b.id FROM bids b JOIN asks a ON a.id = b.id WHERE a.x + nosuch > 1", 64, "'nosuch'"),
        ("SELECT b.id FROM bids b JOIN asks a ON a.id = b.id AND rand() < 0.5", 56, "no two calls of it"),
        ("WITH r AS (SELECT id * rand(3) AS x FROM bids) SELECT a.x FROM r a JOIN r b USING (x)", 24, "read more than"),
    ):
        with pytest.raises(SqlError, match=said) as error:
            sql(text, **frames)
        assert error.value.column == column
    with pytest.raises(UnsupportedError, match="no parameter of this name; there is daemon="):
        sql("SELECT * FROM bids b JOIN asks a USING (id)", **frames, demon="unix:/nowhere")


def test_explain_shows_the_cut(spark):
    bids = spark.range(3).selectExpr("id", "id AS x", "string(id) AS t")
    text = (
        "SELECT b.id, count(*) AS n FROM bids b JOIN asks a ON int(a.t) + 1 = b.x JOIN bids c ON c.id = b.id GROUP BY "
    )
    text += "b.id"
    told = sql_explain(text, bids=bids, asks=bids.limit(2)).splitlines()
    assert told[0] == "join 1, here: bids with asks, inner"
    assert told[1] == "  computed:  _on0 = CAST(`right side`.a_t AS INT)"
    assert "join 2, here: the result of join 1 with bids, inner" in told
    assert told[-1] == (
        "Spark runs: SELECT `joined`.`b_id` AS `id`, COUNT(*) AS `n` FROM `joined` AS `joined` GROUP BY `joined`.`b_id`"
    )


def test_what_duckdb_and_spark_compute_differently(spark, daemon):
    """As docs/sql.md lists it."""
    tables = {name: pa.table({"l": [[1, 2], None], "k": [1, 2], "v": [1, None]}) for name in "ab"}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    listed = (
        ("7 / 2", 3.5, 3.5), ("7 // 2", 3, 3), ("CAST(2.7 AS BIGINT)", 3, 2), ("concat('a', NULL)", "a", None),
        ("greatest(1, NULL)", 1, 1), ("a.l[1]", 1, 2),
    )  # fmt: skip
    for order, of_duckdb, of_spark in (("", [1, None], [None, 1]), ("DESC", [1, None], [1, None])):
        columns = ", ".join(f"{each[0]} AS c{at}" for at, each in enumerate(listed))
        text = f"SELECT a.v, {columns} FROM a JOIN b USING (k) ORDER BY v {order}"
        rows = sql(text, **tables).to_pylist(), sql(text, **frames, daemon=daemon.address).collect()
        assert [[row["v"] for row in each] for each in rows] == [of_duckdb, of_spark]
        found = [next(row for row in each if row["v"] == 1) for each in rows]
        for at, (expression, *values) in enumerate(listed):
            assert [row[f"c{at}"] for row in found] == values, expression
    text = "SELECT * FROM (SELECT l, k FROM a) a JOIN b USING (k)"
    assert sql(text, **tables).column_names == ["l", "k", "l_right", "v"]
    assert sql(text, **frames, daemon=daemon.address).columns == ["k", "l", "l_right", "v"]


def test_random_selects_as_spark_reads_them(spark, daemon, request):
    frames = {name: spark.createDataFrame(table) for name, table in TYPED.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)

    @settings(max_examples=40 if request.config.getoption("--full") else 6, deadline=None)
    @given(text=selects(both=("",)))
    def check(text):
        ours, theirs = sql(text, **frames, daemon=daemon.address), spark.sql(text)
        assert ours.columns == theirs.columns
        assert Counter(map(tuple, ours.collect())) == Counter(map(tuple, theirs.collect()))

    check()
