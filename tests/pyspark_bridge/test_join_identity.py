"""Which windows a join continues: its own after any restart, and never those of another join."""

import itertools

import pytest
from pyspark.sql import functions as F

from muntin import Band, JoinSpec, Rows
from muntin.host import errors
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.join_identity import join_identity
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from muntin.pyspark_bridge.spark_versions import spark_version
from muntin.pyspark_bridge.tagged_union import tagged_union
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.test_streaming import expected, pairs

OPTIONS = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}


def wanted(bids, asks):
    return expected(NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq"), bids, asks)


def wide(frame):
    return frame.select("*", *[(F.col("value") + i).alias(f"c{i}") for i in range(40)])


#: Ways to make a stream of `value`, from a stream that may itself be made in different ways.
STREAMS = {
    "plain": lambda frame: frame,
    "watermark": lambda frame: frame.withWatermark("timestamp", "10 seconds"),
    "lambda": lambda frame: frame.withColumn("x", F.transform(F.array("value"), lambda x: x + 1)),
    "random": lambda frame: frame.withColumn("x", F.rand()).withColumn("y", F.expr("uuid()")).sample(0.5),
    "now": lambda frame: frame.withColumn("x", F.current_timestamp()),
    "function": lambda frame: frame.filter(F.udf(lambda value: value > 1, "boolean")("value")),
    "wide": wide,
}


def rate(spark, **options):
    return spark.readStream.format("rate").options(**options).load()


def name_of(left, right, on=None):
    spec = JoinSpec(on=Band("value", "value", 0, 1) if on is None else on, left=Rows(9), right=Rows(9))
    schemas = arrow_schema_of(left, "left"), arrow_schema_of(right, "right")
    return join_identity(spec, *schemas, tagged_union(left, right))


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())
def test_name_stays(spark, make):
    """Whatever was made before, and whatever options of the sources have changed."""
    first = name_of(make(rate(spark)), make(rate(spark)))
    name_of(rate(spark), rate(spark), Band("value", "value", 0, 2))
    assert name_of(make(rate(spark, rowsPerSecond=5)), make(rate(spark, rampUpTime=3, numPartitions=2))) == first


def test_name_tells_apart(spark, tmp_path):
    frames = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        frames.append(spark.readStream.schema("value long").parquet(str(tmp_path / folder)))
    a, b = frames
    sides = [(a, a), (a, b), (b, a), (b, b), (a, a.filter("value > 3")), (a, a.filter("value > 4"))]
    names = {name_of(*pair) for pair in sides} | {name_of(a, a, Band("value", "value", 0, 2))}
    assert len(names) == len(sides) + 1


def test_joins_made_in_another_order_after_a_restart(runner, daemon, seed):
    """Each continues its own windows, whatever else was made and in which order."""
    streams = {name: bids_and_asks(seed + number, batches=4) for number, name in enumerate(("one", "two", "more"))}

    def program(names, batches):
        made = {}
        for name in names:
            bids, asks = streams[name]
            made[name] = window_join(
                runner.stream(f"{name} bids", bids[:batches]),
                runner.stream(f"{name} asks", asks[:batches]),
                **OPTIONS,
                daemon=daemon.address,
                state=None,
            )
        return made["one"].unionAll(made["two"])

    runner.run(program(["one", "two"], 2))
    runner.run(program(["two", "more", "one"], 4))
    due = sorted(itertools.chain.from_iterable(wanted(*streams[name]) for name in ("one", "two")))
    assert pairs(runner) == due


def halves(runner, bids, asks, names, daemon):
    """Two joins that differ in the code of a Python function alone."""
    joins = []
    for half, name in enumerate(names):
        mine = F.udf(lambda number, half=half: number % 2 == half, "boolean")
        left, right = (runner.stream(side, tables) for side, tables in (("bids", bids), ("asks", asks)))
        joins.append(
            window_join(
                left.filter(mine("id")),
                right.filter(mine("id")),
                **OPTIONS,
                daemon=daemon.address,
                name=name,
                state=None,
            )
        )
    return joins


def half_of(table, half):
    return table.filter([number % 2 == half for number in table["id"].to_pylist()])


def test_joins_that_nothing_tells_apart(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=4)
    one, other = halves(runner, bids[:2], asks[:2], [None, None], daemon)
    for _ in range(2):  # a restart does not help
        with pytest.raises(Exception, match=r"QueryError.*two joins of one streaming query.*name="):
            runner.run(one.unionAll(other))
        one, other = halves(runner, bids[:2], asks[:2], [None, None], daemon)
    # The first micro-batch was not committed, so names still come in time; and then they hold, in any order.
    one, other = halves(runner, bids[:2], asks[:2], ["even", "odd"], daemon)
    runner.run(one.unionAll(other))
    one, other = halves(runner, bids, asks, ["even", "odd"], daemon)
    runner.run(other.unionAll(one))
    due = []
    for half in (0, 1):
        found = wanted(*([half_of(table, half) for table in side] for side in (bids, asks)))
        due += [(batch, 2 * left + half, 2 * right + half) for batch, left, right in found]
    assert pairs(runner) == sorted(due)


@pytest.mark.skipif(spark_version() < (4, 2), reason="before 4.2 no task runs of a join whose sources have no rows")
def test_joins_that_have_rows_in_different_runs(runner, daemon, seed):
    """Two that nothing tells apart meet in the first micro-batch, even if one of them has no rows in the whole run."""
    bids, asks = bids_and_asks(seed, batches=2)
    for side, tables in (("bids", bids), ("asks", asks)):
        runner.stream(side, tables)

    def join(pattern):
        sides = []
        for side in ("bids", "asks"):
            path = str(runner.folder / side)
            schema = runner.spark.read.parquet(path).schema
            reader = runner.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            sides.append(reader.option("pathGlobFilter", pattern).parquet(path))
        return window_join(*sides, **OPTIONS, daemon=daemon.address, state=None)

    with pytest.raises(Exception, match=r"QueryError.*name="):
        runner.run(join("*.parquet").unionAll(join("nothing of this name")))


def test_a_join_made_again(runner, daemon, seed):
    """A notebook's cell that is run again, without and with the cells that make its streams."""
    bids, asks = bids_and_asks(seed, batches=6)

    def join(streams):
        return window_join(*streams, **OPTIONS, daemon=daemon.address, state=None)

    streams = [runner.stream("bids", bids[:2]), runner.stream("asks", asks[:2])]
    joined = join(streams)
    runner.run(joined)
    runner.stream("bids", bids[:4]), runner.stream("asks", asks[:4])
    again = join(streams)
    runner.run(again)
    streams = [runner.stream("bids", bids), runner.stream("asks", asks)]
    join(streams)
    runner.run(join(streams))
    assert pairs(runner) == wanted(bids, asks)


@pytest.mark.skipif(spark_version() < (4, 0), reason="Spark 3.5 tells tasks of their run by the job group alone")
def test_a_job_group_of_the_callers_own(runner, daemon, seed):
    """What `foreachBatch` sets for its jobs does not make two runs look like one, nor one like two."""
    bids, asks = bids_and_asks(seed, batches=4)
    found = []

    def collect(rows, batch):
        runner.spark.sparkContext.setJobGroup("the caller's", "the same in each run")
        runner.spark.sparkContext.addJobTag("spark-session")
        found.extend((batch, row["id"], row["id_right"]) for row in rows.collect())
        assert rows.count() == len([entry for entry in found if entry[0] == batch])

    for batches in (2, 4):
        joined = window_join(
            runner.stream("bids", bids[:batches]),
            runner.stream("asks", asks[:batches]),
            **OPTIONS,
            daemon=daemon.address,
            state=None,
        )
        writer = joined.writeStream.option("checkpointLocation", str(runner.folder / "checkpoint"))
        query = writer.foreachBatch(collect).trigger(availableNow=True).start()
        runner.queries.append(query)
        assert query.awaitTermination(600)
    assert sorted(found) == wanted(bids, asks)


def test_changed_inputs_say_what_a_name_is_for(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=2)

    def join(condition, batches, name):
        left, right = runner.stream("bids", bids[:batches]), runner.stream("asks", asks[:batches])
        return window_join(left.filter(condition), right, **OPTIONS, daemon=daemon.address, name=name, state=None)

    runner.run(join("id >= 0", 1, None), "unnamed")
    runner.run(join("id >= 0", 1, "mine"), "named")
    with pytest.raises(Exception, match=r"StateLostError.*name=\.\.\.\) keeps its name"):
        runner.run(join("id > -1", 2, None), "unnamed")
    runner.run(join("id > -1", 2, "mine"), "named")
    assert pairs(runner, "named") == wanted(bids, asks)


@pytest.mark.parametrize("name", ["", "x" * 201, 7])
def test_names(runner, daemon, seed, name):
    bids, asks = bids_and_asks(seed, batches=1)
    with pytest.raises(errors.QueryError, match="1 to 200 printable characters"):
        window_join(
            runner.stream("bids", bids),
            runner.stream("asks", asks),
            **OPTIONS,
            daemon=daemon.address,
            name=name,
            state=None,
        )
