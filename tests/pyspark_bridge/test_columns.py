"""Conditions as Spark's users write them, Columns and names, against Spark's own join of the same."""

import functools
import operator
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from sqlglot import exp

from muntin import AllOf, Compare, Rows, Where, Within, join
from muntin.errors import PredicateError, SchemaError, SqlError
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.conditions import read_sides
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from muntin.pyspark_bridge.watermarks import MULTIPLE_CONF, delayed_columns
from tests.host.test_sql import DUCK, TYPED, rows_of, texts
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.conftest import CONNECT
from tests.pyspark_bridge.data import START, bids_and_asks, seconds

C = F.col
CONDITIONS = {
    "band": lambda: C("a.price").between(C("b.limit") - 2, C("b.limit") + 1),
    "time": lambda: (C("b.limit") == C("a.price")) & C("a.ts").between(
        C("b.ts") - F.expr("INTERVAL 9 SECONDS"), C("b.ts") + F.expr("INTERVAL 1 MINUTE")),
    "function": lambda: (F.abs(C("a.price")) % 3 == C("b.limit") % 3) & (C("a.id") - C("b.id") > 8),
    "product": lambda: (C("b.limit") * 2 < C("a.price")) & (C("a.id") + C("a.seq") == C("b.id")),
    "one side": lambda: (C("b.limit") == C("a.price")) & C("a.id").isin(1, 2, 3, 5, 8, 13) & C("b.limit").isNotNull(),
    "distance": lambda: (F.abs(C("a.price") - C("b.limit")) <= 1) & ~(C("a.id") == C("b.id")),
    "cast": lambda: C("a.price").cast("string") == C("b.limit").cast("string"),
    "text": lambda: F.expr("a.price BETWEEN b.limit - 1 AND b.limit OR a.price > b.limit + 9"),
    "spellings": lambda: F.expr(
        "nvl(a.price, 0) % 3 <=> `B`.limit % 3 AND NOT (a.id <> b.ID AND (a.id - b.id) <= 8L)"
        " AND a.id != 4 AND -a.id < 0"),
    "distance in time": lambda: (C("a.ts") - C("b.ts")).between(
        F.expr("INTERVAL '-0 00:00:02' DAY TO SECOND"), F.lit(timedelta(seconds=1))) & (C("b.limit") <= C("a.price")),
}  # fmt: skip


@pytest.fixture(scope="module")
def frames(spark, seed):
    bids, asks = (spark.createDataFrame(side[0].slice(0, 60)) for side in bids_and_asks(seed, rows=60, spread=15))
    return bids, asks


def counted(frame):
    return Counter(map(tuple, frame.collect()))


@pytest.mark.parametrize(
    ("condition", "how"), [*((name, "full") for name in CONDITIONS), ("one side", "left_anti"), ("product", "inner")]
)
def test_columns_mean_what_they_mean_in_sparks_join(frames, daemon, condition, how):
    bids, asks = (frame.alias(name) for frame, name in zip(frames, "ba", strict=True))
    ours = window_join(bids, asks, CONDITIONS[condition](), how, daemon=daemon.address)
    assert "_on0" not in ours.columns
    wanted = counted(bids.join(asks, CONDITIONS[condition](), how))
    assert counted(ours) == wanted
    assert how == "left_anti" or sum(None not in row for row in wanted) > 3


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
@pytest.mark.parametrize("names", ["limit", ["limit", "id"]])
def test_names_give_one_column_each(frames, daemon, names, how):
    bids, asks = frames
    asks = asks.withColumnRenamed("price", "limit").drop("ts")
    ours, theirs = window_join(bids, asks, names, how, daemon=daemon.address), bids.join(asks, names, how)
    assert [name.removesuffix("_right") for name in ours.columns] == theirs.columns
    assert counted(ours) == counted(theirs)
    chosen = window_join(bids, asks, names, how, daemon=daemon.address, select=["seq", "limit"])
    assert chosen.columns == ["seq", "limit"]
    assert counted(chosen) == counted(ours.select("seq", "limit"))


@pytest.mark.main
def test_a_frame_with_two_aliases_is_a_self_join(frames, daemon):
    bids, _ = frames
    one, two = bids.alias("one"), bids.alias("two")
    condition = (F.upper(C("one.limit").cast("string")) == F.upper(C("two.limit").cast("string"))) & (
        C("one.id") <= C("two.id")
    )
    sides = read_sides(one, two, condition, None, counted=False)
    assert sides.left is sides.right
    assert counted(window_join(one, two, condition, daemon=daemon.address)) == counted(one.join(two, condition))
    with pytest.raises(PredicateError, match="aliases"):
        window_join(bids, bids, bids.id == bids.id, daemon=daemon.address)


def test_a_frame_names_its_columns(frames, daemon):
    bids, asks = frames
    condition = (bids["limit"] < asks["price"]) & (bids["id"] == asks["id"])
    assert counted(window_join(bids, asks, condition, daemon=daemon.address)) == counted(bids.join(asks, condition))
    left, right = bids.where("limit > 1"), asks.withColumn("price", C("price") + 1)
    condition = (bids["limit"] < right["price"]) & (left["id"] == asks["id"])
    assert counted(window_join(left, right, condition, daemon=daemon.address)) == counted(left.join(right, condition))


def test_fields_and_aliases_of_one_name(spark, daemon):
    """An alias goes before a column of its name, whose fields have the name of a column."""
    row = "id", "struct(id % 3 AS v, struct(id AS W) AS deep) AS l"
    left = spark.range(9).selectExpr(*row, "id % 4 AS v").alias("l").where("id > 1")
    right = spark.range(5).selectExpr(*row, "id % 2 AS r").alias("r")
    for condition in (
        C("l.v") == C("r.l.v"),
        (C("l.l.deep.w") <= C("r.id")) & (C("r.l")["v"] == C("l.l").getField("v")),
        F.expr("l.l.deep.w <= r.id AND upper(l.v) = upper(r.r)"),
    ):
        wanted = counted(left.join(right, condition, "full"))
        assert counted(window_join(left, right, condition, "full", daemon=daemon.address)) == wanted
        assert len(wanted) > 5


def test_names_in_quotes(spark, daemon):
    left = spark.range(9).select(C("id").alias('right."id" = right."id" OR left."x'), (C("id") % 3).alias("a.b"))
    right = spark.range(5).select(C("id").alias("x#1"), (C("id") % 2).alias("a`b"))
    name = '`right."id" = right."id" OR left."x`'
    text = f"{name} = `x#1` AND `a.b` <= `a``b` AND (`a.b` = 0 OR 'x AND `y`' <> \"`\")"
    for condition in ((C(name) == C("`x#1`")) & (C("`a.b`") <= C("`a``b`")), F.expr(text)):
        wanted = counted(left.join(right, condition))
        assert counted(window_join(left, right, condition, daemon=daemon.address)) == wanted
        assert wanted


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda: C("b.limit") * C("a.price") > 9, r"\(b.limit \* a.price\)"),
        (lambda: (C("a.id") == C("b.id")) & (F.concat("a.id", "b.id") == "11"), "concat"),
        (lambda: (C("a.id") == C("b.id")) & (F.rand() < 0.5), "(?i)deterministic"),
        (lambda: C("a.id").cast("string") == C("b.id"), "cast one side yourself"),
        (lambda: C("a.ts") < F.expr("b.ts + INTERVAL 1 MONTH") - (C("a.ts") - C("b.ts")), "none of a window join's"),
        (lambda: C("a.nosuch") == C("b.id"), "nosuch"),
        (lambda: C("a.price") * C("a.id") * C("a.seq") == C("b.id"), "38 digits"),
        (lambda: F.sqrt(C("a.id")) == C("b.limit").cast("double"), "a.id from bigint to double"),
        (lambda: F.expr("a.price / 2 = CAST(b.limit AS DOUBLE)"), "a.price from bigint to double"),
        (lambda: C("a.price") * 0.5 == C("b.id").cast("double"), "a.price from bigint to double"),
        (lambda: F.expr("a.id + a.note = b.id"), "a.(note from string|id from bigint to double)"),
        (lambda: F.expr("substring(a.note, a.id) = b.note"), "a.id from bigint to int"),
        (lambda: F.transform(F.array("a.id"), lambda v: v + 1)[0] == C("b.id"), "its own way"),
        (lambda: F.expr("transform(array(a.id), v -> v + 1)[0] = b.id"), "its own way"),
    ],
)
def test_what_is_no_join_of_ours(frames, condition, message):
    bids, asks = (frame.alias(name) for frame, name in zip(frames, "ba", strict=True))
    with pytest.raises(PredicateError, match=message):
        window_join(bids, asks, condition(), daemon="unix:/nowhere")


@pytest.mark.parametrize("how", ["inner", "full"])
def test_names_in_any_case(spark, frames, daemon, how):
    bids, asks = frames
    asks = asks.select(C("price").alias("LIMIT"), "id", "note")
    ours, theirs = (
        window_join(bids, asks, ["Limit", "ID"], how, daemon=daemon.address),
        bids.join(asks, ["Limit", "ID"], how),
    )
    assert [name.removesuffix("_right") for name in ours.columns] == theirs.columns
    assert counted(ours) == counted(theirs)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(SchemaError, match="'ID'"):
            window_join(bids, asks, ["ID"], how, daemon=daemon.address)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(SchemaError, match="'Id', which the left side"):  # two are spelled so
        window_join(bids.select("id", C("id").alias("ID")), asks, ["Id"], daemon=daemon.address)


def test_names_that_a_side_does_not_have(frames):
    with pytest.raises(SchemaError, match="'price'"):
        window_join(*frames, ["id", "price"])


def window_of(left, right, on, **options):
    return read_sides(left, right, on, None, counted=False, **options).within


@pytest.mark.main
def test_one_rule_for_the_time_window(spark, caplog):
    """The condition of Spark's guide, and pairs of times with watermarks before others."""
    rate = spark.readStream.format("rate").load()
    ads = rate.selectExpr("value AS impressionAdId", "timestamp AS impressionTime", "timestamp AS seen")
    clicks = rate.selectExpr("value AS clickAdId", "timestamp AS clickTime", "timestamp AS noted")
    guide = (
        "clickAdId = impressionAdId AND clickTime >= impressionTime AND clickTime <= impressionTime + interval 1 hour"
    )
    hour = Within("impressionTime", "clickTime", "0 seconds", "1 hours")
    for on in (guide, F.expr(guide)):
        found = window_of(ads, clicks, on)
        assert (found.left_time, found.right_time) == ("impressionTime", "clickTime")
        assert repr(found) == repr(hour) or found.high in ("1 hours", "1 hour", "3600 seconds")
    both = "seen = noted AND " + guide
    assert window_of(ads, clicks, both).left_time == "seen"
    late = ads.withWatermark("impressionTime", "1 minute")
    assert window_of(late, clicks, both).left_time == "impressionTime"
    assert window_of(ads, clicks, "clickAdId = impressionAdId AND clickTime >= impressionTime") is None
    assert not caplog.records
    window_of(ads, clicks, "clickTime BETWEEN impressionTime AND impressionTime + INTERVAL 1 DAY")
    assert "24 hours" in caplog.text
    windows = [
        frame.select(F.window(time, "1 hour")) for frame, time in ((ads, "impressionTime"), (clicks, "clickTime"))
    ]
    assert window_of(*windows, "left.window = right.window").left_time == "window.end"
    sides = read_sides(ads, clicks, guide, None, counted=True)
    assert sides.within is None


@pytest.mark.main
@pytest.mark.skipif(CONNECT, reason="foreachBatch of Spark Connect runs elsewhere; connect_script.py has such a stream")
def test_streams_by_columns(runner, daemon, seed):
    """Bounded by their condition: unmatched rows come out, which a join without a window refuses."""
    bids, asks = bids_and_asks(seed, batches=4, rows=30, spread=25)
    left = runner.stream("bids", bids).withWatermark("ts", "2 seconds")
    right = runner.stream("asks", asks).withWatermark("ts", "5 seconds")
    times = C("a.ts").between(C("b.ts") - F.expr("INTERVAL 5 SECONDS"), C("b.ts") + F.expr("INTERVAL 3 SECONDS"))
    condition = (C("a.price") % 3 == C("b.limit") % 3) & (C("b.limit") > 2) & times
    joined = window_join(left.alias("b"), right.alias("a"), condition, "left", daemon=daemon.address, state=None)
    plain = window_join(
        left.withColumn("k", C("limit") % 3), right.withColumn("k", C("price") % 3),
        "left.k = right.k AND left.limit > 2", "left", daemon=daemon.address, state=None,
        within=("ts", "ts", "-5 seconds", "3 seconds"),
    )  # fmt: skip
    runner.run(joined.select("id", "id_right"))
    found = Counter((batch, *row) for batch, row in runner.results["query"])
    runner.run(plain.select("id", "id_right"), query="plain")
    assert found == Counter((batch, *row) for batch, row in runner.results["plain"])
    assert len(found) > 20


@pytest.mark.skipif(CONNECT, reason="connect_script.py has streams of Spark Connect")
def test_the_first_query_of_the_readme(runner, spark, tmp_path, seed):
    """It runs, and goes on from its checkpoint."""
    text = (Path(__file__).parents[2] / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert "col(" in text
    assert text.count('"/shared/muntin"') == 1
    bids, asks = bids_and_asks(seed, batches=4, rows=20, spread=15)
    names = {"out": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint")}
    for batches in (slice(0, 2), slice(2, 4)):
        for side, tables in (("bids", bids), ("asks", asks)):
            for number in range(4)[batches]:
                runner.write(side, number, tables[number])
            names[side] = runner.stream(side).withColumn("venue", C("id") % 3)
        exec(text.replace("/shared/muntin", str(tmp_path / "state")), names)
        (query,) = (query for query in spark.streams.active if query.lastProgress or query.isActive)
        query.processAllAvailable()
        query.stop()
    left, right = (
        spark.read.parquet(str(tmp_path / side)).withColumn("venue", C("id") % 3) for side in ("bids", "asks")
    )
    near = C("asks.price").between(C("bids.limit") - 5, C("bids.limit") + 5)
    wanted = counted(left.alias("bids").join(right.alias("asks"), (C("bids.venue") == C("asks.venue")) & near))
    assert counted(spark.read.parquet(names["out"])) == wanted
    assert len(wanted) > 100


@pytest.mark.skipif(CONNECT, reason="foreachBatch of Spark Connect runs elsewhere")
def test_names_with_partitions_columns_and_a_suffix(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=2, rows=30, spread=15)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks).withColumnRenamed("price", "limit")
    options = {"daemon": daemon.address, "state": None, "within": ("ts", "ts", "-1 hour", "1 hour"), "suffix": "_ask"}
    joined = window_join(left, right, ["limit"], partitions=2, select=["id_ask", "limit", "id"], **options)
    assert joined.columns == ["id_ask", "limit", "id"]
    plain = [runner.spark.read.parquet(str(runner.folder / side)) for side in ("bids", "asks")]
    other = plain[1].where("ts IS NOT NULL").select(C("id").alias("id_ask"), C("price").alias("limit"))
    wanted = counted(plain[0].where("ts IS NOT NULL").join(other, "limit").select("id_ask", "limit", "id"))
    assert Counter(map(tuple, runner.run(joined))) == wanted
    assert len(wanted) > 20
    anti = window_join(
        plain[0], plain[1].withColumnRenamed("price", "limit"), "limit", "right_anti", daemon=daemon.address
    )
    missing = plain[1].withColumnRenamed("price", "limit").join(plain[0], "limit", "left_anti")
    assert counted(anti.select("limit", "id_right")) == counted(missing.select("limit", "id"))


@pytest.mark.skipif(CONNECT, reason="foreachBatch of Spark Connect runs elsewhere")
@pytest.mark.parametrize("how", [pytest.param("left", marks=pytest.mark.full), "right"])
def test_an_event_time_by_name_is_the_window(runner, daemon, seed, how):
    """As in Spark, unmatched rows come out once the watermark is at their time, with the key that is there."""
    bids, asks = bids_and_asks(seed, batches=3, rows=40, spread=25, late=1, key_nulls=0)
    for number, sides in enumerate(zip(bids, asks, strict=True)):
        for side, table in zip(("bids", "asks"), sides, strict=True):
            whole = pc.floor_temporal(table["ts"], unit="second")
            there = table.set_column(2, "ts", whole).drop_columns("seq").filter(pc.is_valid(table["ts"]))
            runner.write(side, number, there.rename_columns(["id" if side == "bids" else "ask", "key", "ts", side]))
    left, right = (runner.stream(side).withWatermark("ts", "3 seconds") for side in ("bids", "asks"))
    ours = window_join(left, right, ["key", "ts"], how, daemon=daemon.address, lag=0, state=None)
    theirs = left.join(right, ["key", "ts"], how)
    assert ours.columns == theirs.columns == ["key", "ts", "id", "bids", "ask", "asks"]
    found = Counter(map(tuple, runner.run(ours, "ours")))
    assert found == Counter(map(tuple, runner.run(theirs, "theirs")))
    assert 3 < sum(None in row for row in found) < len(found)


def test_names_have_the_options_of_other_conditions(spark, frames, daemon):
    """Count windows, partitions, one frame in both roles, and a watermark of the result."""
    bids, asks = frames
    asks = asks.withColumnRenamed("price", "limit")
    windows = {"left": Rows(5), "right": Rows(9), "sequence": "seq", "daemon": daemon.address}
    named = window_join(bids, asks, ["limit"], "full", **windows)
    plain = window_join(bids, asks, "left.limit = right.limit", "full", **windows)
    key = F.coalesce("limit", "limit_right").alias("limit")
    assert counted(named) == counted(plain.select(key, *(name for name in plain.columns if "limit" not in name)))
    within = {"within": ("ts", "ts", "-9 seconds", "5 seconds"), "partitions": 3, "daemon": daemon.address}
    named = window_join(bids, asks, "limit", "full", **within, suffix="_ask", select=["id_ask", "limit", "ts"])
    near = "l.limit = r.limit AND r.ts BETWEEN l.ts - INTERVAL 9 SECONDS AND l.ts + INTERVAL 5 SECONDS"
    wanted = bids.alias("l").join(asks.alias("r"), F.expr(near), "full")
    assert counted(named) == counted(wanted.selectExpr("r.id", "coalesce(l.limit, r.limit)", "l.ts"))
    assert counted(window_join(bids, bids, "limit", daemon=daemon.address)) == counted(
        bids.join(bids.alias("b"), "limit")
    )
    rate = spark.readStream.format("rate").load().withWatermark("timestamp", "3 seconds")
    before = spark.conf.get(MULTIPLE_CONF)
    spark.conf.set(MULTIPLE_CONF, "false")
    try:
        options = {"lag": 0, "result_watermark": "timestamp", "daemon": daemon.address, "state": None}
        behind = window_join(rate, rate.select("value", "timestamp"), ["timestamp", "value"], **options)
        assert behind.columns == ["timestamp", "value"]
        assert delayed_columns(behind) == {"timestamp": "3000 milliseconds"}
        span = ("timestamp", "timestamp", "-1 second", "4 seconds")
        behind = window_join(rate, rate.where("value > 1"), "value", within=span, **options)
        assert delayed_columns(behind) == {"timestamp": "8000 milliseconds"}
    finally:
        spark.conf.set(MULTIPLE_CONF, before)


def test_parts_about_one_side_keep_their_rows_places(frames, daemon, seed):
    """In count windows: pairs are those without the parts, of which the parts take some."""
    bids, asks = (frame.alias(name) for frame, name in zip(frames, "ba", strict=True))
    key, one, other = C("b.limit") == C("a.price"), F.length("b.note") % 2 == 0, C("a.id") * 3 % 2 == 0
    windows = {"left": Rows(9), "right": Rows(9), "sequence": "seq", "daemon": daemon.address}
    ours = window_join(bids, asks, key & one & other, select=["id", "id_right"], **windows)
    loop = NestedLoop(("compare", "="), "limit", "price", rows=(9, 9), sequence="seq")
    tables = [side[0].slice(0, 60) for side in bids_and_asks(seed, rows=60, spread=15)]
    notes = tables[0]["note"].to_pylist()
    pairs = [pair for pair in loop.process(*tables) if len(notes[pair.left]) % 2 == 0 and pair.right % 2 == 0]
    assert counted(ours) == Counter((pair.left, pair.right) for pair in pairs)


@pytest.mark.skipif(CONNECT, reason="foreachBatch of Spark Connect runs elsewhere")
def test_parts_about_one_side_keep_their_rows_and_times(runner, daemon):
    """Rows that fail one are emitted unmatched, at once, and move the watermark: rows behind it are late."""

    def rows(*given):
        ids, times = zip(*given, strict=True)
        times = pa.array([START + seconds(each) for each in times], pa.timestamp("us", tz="UTC"))
        return pa.table({"id": pa.array(ids, pa.int64()), "ts": times})

    left = runner.stream("left", [rows((0, 0), (1, 60)), rows((2, 1), (4, 61))]).withWatermark("ts", "0 seconds")
    right = runner.stream("right", [rows((0, 90)), rows((1, 1), (2, 62))]).withWatermark("ts", "0 seconds")
    near = C("r.ts").between(C("l.ts") - F.expr("INTERVAL 2 SECONDS"), C("l.ts") + F.expr("INTERVAL 2 SECONDS"))
    condition = (C("l.id") * C("l.id") % 2 == 0) & near
    joined = window_join(
        left.alias("l"), right.alias("r"), condition, "left", daemon=daemon.address, lag=0, state=None,
        no_data_batches=False,
    )  # fmt: skip
    runner.run(joined.select("id", "id_right"))
    assert [(batch, *row) for batch, row in runner.results["query"]][:2] == [(0, 0, None), (0, 1, None)]
    assert [(batch, *row) for batch, row in runner.results["query"]][2:] == [(1, 4, 2)]


def test_counts_keep_their_windows(frames, daemon):
    bids, asks = (frame.alias(name) for frame, name in zip(frames, "ba", strict=True))
    condition = (C("b.ts") == C("a.ts")) & (C("b.limit") >= C("a.price"))
    ours = window_join(bids, asks, condition, left=Rows(5), right=Rows(5), sequence="seq", daemon=daemon.address)
    theirs = window_join(
        frames[0], frames[1], "left.ts = right.ts AND left.limit >= right.price", left=Rows(5), right=Rows(5),
        sequence="seq", daemon=daemon.address,
    )  # fmt: skip
    assert counted(ours) == counted(theirs)


def test_drawn_values_of_every_comparison(spark, daemon, seed):
    import numpy as np

    draw = np.random.default_rng(seed)
    tables = [
        pa.table({
            "i": pa.array([None if x == 3 else int(x) for x in draw.integers(-4, 5, 40)], pa.int32()),
            "b": pa.array([None if x == 3 else int(x) << 60 for x in draw.integers(-4, 5, 40)], pa.int64()),
            "f": pa.array([None if x == 3 else float(x) / 2 for x in draw.integers(-4, 5, 40)], pa.float64()),
        })
        for _ in range(2)
    ]  # fmt: skip
    left, right = (spark.createDataFrame(table).alias(name) for table, name in zip(tables, "lr", strict=True))
    for column in "ibf":
        one, two = C(f"l.{column}"), C(f"r.{column}")
        for condition in (
            one == two,
            one < two,
            one >= two,
            one != two,
            one.eqNullSafe(two),
            (two == one) | (two > one),
        ):
            ours = window_join(left, right, condition, daemon=daemon.address)
            assert counted(ours) == counted(left.join(right, condition)), (column, condition)


def spelled(node):
    """A part of a SQL text as Columns."""
    node = node.unnest()
    one, other = (node.args.get(each) for each in ("this", "expression"))
    if isinstance(node, exp.Column):
        return C(node.sql())
    if isinstance(node, exp.Not):
        return ~spelled(one)
    if isinstance(node, exp.Abs):
        return F.abs(spelled(one))
    if isinstance(node, exp.Between):
        return spelled(one).between(spelled(node.args["low"]), spelled(node.args["high"]))
    if isinstance(node, exp.In):
        return spelled(one).isin(*map(spelled, node.expressions))
    if isinstance(node, exp.Is):
        return F.isnull(spelled(one)) if isinstance(other, exp.Null) else spelled(one).eqNullSafe(spelled(other))
    if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        same = spelled(one).eqNullSafe(spelled(other))
        return same if isinstance(node, exp.NullSafeEQ) else ~same
    for kind, made in SPELLED.items():
        if isinstance(node, kind):
            return made(spelled(one), spelled(other))
    return F.expr(node.sql("spark"))


SPELLED = {
    exp.And: operator.and_, exp.Or: operator.or_, exp.Add: operator.add, exp.Sub: operator.sub, exp.EQ: operator.eq,
    exp.NEQ: operator.ne, exp.LT: operator.lt, exp.LTE: operator.le, exp.GT: operator.gt, exp.GTE: operator.ge,
}  # fmt: skip


def with_computed(frame, side, names, table):
    """A table with the columns of a frame that Spark has computed."""
    names = [name for name in names if name in frame.columns]
    if not names:
        return table
    rows = {row["id"]: row for row in frame.select("id", *names).collect()}
    schema = arrow_schema_of(frame, side)
    for name in names:
        column = [rows[number][name] for number in table["id"].to_pylist()]
        table = table.append_column(name, pa.array(column, schema.field(name).type))
    return table


def test_random_conditions_as_duckdb_reads_them(spark, request):
    """As Columns and as SQL in one: DuckDB's rows, or refused; most are taken."""
    frames = {name: spark.createDataFrame(table).alias(name) for name, table in TYPED.items()}
    taken = Counter()

    @settings(max_examples=150 if request.config.getoption("--full") else 20, deadline=None)
    @given(text=texts(), how=st.sampled_from(["left", "full", "left_anti"]), columns=st.booleans())
    def check(text, how, columns):
        on = spelled(sqlglot.parse_one(text, dialect="spark")) if columns else F.expr(text)
        try:
            sides = read_sides(frames["l"], frames["r"], on, None, counted=True)
        except PredicateError:
            taken[False] += 1
            return
        taken[True] += 1
        left = with_computed(sides.left, "left", sides.computed, TYPED["l"])
        right = with_computed(sides.right, "right", sides.computed, TYPED["r"])
        ours = join(left, right, sides.on, how, select=["id"] if how == "left_anti" else ["id", "id_right"])
        found = "l.id" if how == "left_anti" else "l.id, r.id AS other"
        kind = {"left": "LEFT", "full": "FULL", "left_anti": "ANTI"}[how]
        assert rows_of(ours) == rows_of(DUCK.sql(f"SELECT {found} FROM l {kind} JOIN r ON {text}").to_arrow_table())

    check()
    assert taken[True] > 2 * taken[False]


#: What Spark computes of one side, as Columns or SQL, and what it is.
COMPUTED = [
    (lambda: C("a.x") + C("a.y") * 2, lambda r: r.x + r.y * 2),
    (lambda: F.expr("a.x * a.y * 2 - a.t"), lambda r: r.x * r.y * 2 - r.t),
    (lambda: C("a.z") * 2 + C("a.z"), lambda r: r.z * 3),
    (lambda: F.abs(C("a.z")), lambda r: abs(r.z)),
    (lambda: F.expr("-a.z - a.x"), lambda r: -r.z - r.x),
    (lambda: C("a.z") * C("a.z") % 1_000_003, lambda r: r.z * r.z % 1_000_003),
    (lambda: F.expr("a.d * a.d + a.x"), lambda r: r.d * r.d + r.x),
    (lambda: (C("a.x") + C("a.y")).cast("string"), lambda r: str(r.x + r.y)),
    (lambda: F.expr("CASE WHEN a.f < a.x THEN a.z - a.t ELSE 5 END"), lambda r: r.z - r.t if r.f < r.x else 5),
    (lambda: F.coalesce(C("a.t") + C("a.x") % 2, F.lit(3)), lambda r: r.t + r.x % 2 * (1 if r.x > 0 else -1)),
    (lambda: F.expr("a.f + a.x + a.t"), lambda r: r.f + r.x + r.t),
    (lambda: (C("a.x") + C("a.y")).isNull().cast("string"), lambda r: "false"),
    (lambda: -(C("a.z") * C("a.z")) % 1_000_003, lambda r: -(r.z * r.z % 1_000_003)),  # negatives of 38 digits
    (lambda: F.abs(-(C("a.z") * C("a.z"))) % 1_000_003, lambda r: r.z * r.z % 1_000_003),
]


def test_sums_of_one_side_are_exact(spark):
    """At the ends of the types, where Spark's own wrap or fail."""
    schema = "x INT, y INT, z BIGINT, t TINYINT, d DECIMAL(9,2), f DOUBLE, s STRING"
    ends = (1 << 31) - 1, (1 << 63) - 1
    rows = [
        (ends[0], ends[0], ends[1], 127, Decimal("9999999.99"), 1.5, "a"),
        (-ends[0] - 1, ends[0], -ends[1] - 1, -128, Decimal("-0.01"), 1e9, "b"),
        (-ends[0] - 1, -ends[0] - 1, 1, 0, Decimal("1.25"), float("nan"), "c"),
    ]
    frame = spark.createDataFrame(rows, schema)
    one, two = frame.alias("a"), spark.createDataFrame(rows, schema).alias("b")
    made = [make() for make, _ in COMPUTED]
    parts = [
        each == (C("b.s") if at in (7, 11) else C("b.f") if at == 10 else C("b.z")) for at, each in enumerate(made)
    ]
    sides = read_sides(one, two, functools.reduce(operator.and_, parts), None, counted=False)
    assert len(sides.computed) == len(COMPUTED)
    for row in sides.left.collect():
        for name, (_, value) in zip(sides.computed, COMPUTED, strict=True):
            assert row[name] == value(row) or (row[name] != row[name] and row.f != row.f), name


def test_texts_with_parts_that_spark_computes(spark):
    """As Columns; what neither reads is refused at its place in the text."""
    schema = "x INT, `it's` INT, s STRING"
    left = spark.createDataFrame([((1 << 31) - 1, 5, "It's")], schema)
    right = left.withColumnRenamed("x", "z")
    text = """ "left"."x" + left."it's" * 2 < z AND upper(left.s) = 'IT''S' AND right.s = Left.s """
    sides = read_sides(left, right, text, None, counted=False)
    same = Compare("_on0", "<", "z"), Where("left", "_on1", "=", "IT'S"), Compare("s", "=", "s")
    assert sides.on == AllOf(*same)
    assert [tuple(row) for row in sides.left.select("_on0", "_on1").collect()] == [((1 << 31) + 9, "IT'S")]
    itself = read_sides(left, left, "left.x * 2 = right.x + right.x", None, counted=False)
    assert itself.left is itself.right
    with pytest.raises(SqlError, match=r"line 1, column 1: .*left\.s"):
        read_sides(left, right, "left.s || right.s = 'ab'", None, counted=False)


def test_terms_of_both_sides_are_summed_apart(spark):
    schema = "x INT, y INT, z BIGINT"
    one, two = (spark.createDataFrame([(2_000_000_000, 2_000_000_000, 1 << 62)], schema).alias(name) for name in "ab")
    for condition, plain in (
        (lambda: C("a.x") + C("a.y") - C("b.z") < C("b.x") - 3, "(left._on0 < right._on1)"),
        (lambda: F.abs(C("a.x") - (C("b.x") - C("a.y")) - C("b.y")) <= 3, "abs(left._on0 - right._on1) <= 3"),
        (lambda: 5 - C("a.x") - C("a.y") != -C("b.x"), "left._on0 != -right.x - 5"),
    ):
        sides = read_sides(one, two, condition(), None, counted=False)
        assert sides.on == read_sides(sides.left, sides.right, plain, None, counted=False).on
    # NULL <=> NULL is true, whatever other terms are: none may cross.
    sides = read_sides(one, two, (C("a.x") + C("a.y")).eqNullSafe(C("b.x") + C("b.y")), None, counted=False)
    assert sides.on == Compare("_on0", "<=>", "_on1")
    with pytest.raises(PredicateError, match="none of a window join's"):
        read_sides(one, two, (C("a.x") + C("b.x")).eqNullSafe(C("a.y")), None, counted=False)


def test_comparisons_that_spark_computes(spark):
    """NaN is as NULL is; equal floats are compared as they are."""
    nan = float("nan")
    frame = spark.createDataFrame([(1.0, nan), (nan, nan), (1.0, 1.0), (None, None), (nan, None)], "f DOUBLE, g FLOAT")
    one, two = frame.alias("a"), spark.createDataFrame([(1.0,)], "h DOUBLE").alias("b")
    for condition, wanted in (
        (C("a.f") < C("a.g"), [None, None, False, None, None]),
        (~(C("a.f") > C("a.g")), [None, None, True, None, None]),
        (C("a.f").eqNullSafe(C("a.g")), [False, False, True, True, False]),
        (~C("a.f").eqNullSafe(C("a.g")), [True, True, False, False, True]),
        (F.when(C("a.f") >= C("a.g"), True).otherwise(False), [False, False, True, False, False]),
        (C("a.f").isin(nan, 2.0) | (C("a.f") > C("a.g")), [None] * 5),
    ):
        sides = read_sides(one, two, condition & (C("a.f") == C("b.h")), None, counted=False)
        assert [row["_on0"] for row in sides.left.select("_on0").collect()] == wanted


def test_partitions_by_a_sum(frames, daemon):
    """A decimal with the bits of an integer goes to its partition."""
    bids, asks = (frame.alias(name) for frame, name in zip(frames, "ba", strict=True))
    condition = C("a.id") + C("a.price") == C("b.seq")
    ours = window_join(
        bids, asks, condition, daemon=daemon.address, partitions=3, within=("ts", "ts", "-1 hour", "1 hour")
    )
    wanted = counted(bids.join(asks, condition & C("a.ts").isNotNull() & C("b.ts").isNotNull()))
    assert counted(ours) == wanted
    assert len(wanted) > 5


def test_sums_that_a_function_cannot_take_fail(spark):
    row = spark.createDataFrame([((1 << 31) - 1,)], "x INT")
    on = F.hash(C("a.x") + 1) == C("b.x")
    sides = read_sides(row.alias("a"), row.alias("b"), on, None, counted=False)
    with pytest.raises(Exception, match=r"a\.x \+ 1.* does not fit int"):
        sides.left.collect()
