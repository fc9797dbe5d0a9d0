"""Each match once, whatever Spark does twice."""

from pathlib import Path

import pytest

from muntin import Band, Rows
from muntin.host.daemon.daemon import Daemon
from muntin.host.devices.numpy_device import NumpyDevice
from muntin.host.errors import CapacityError
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.spark_versions import spark_version
from tests.host.daemon.test_check import one_board
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.newest_query import newest_query
from tests.pyspark_bridge.test_streaming import expected, pairs

OPTIONS = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}


def wanted(bids, asks):
    return expected(NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq"), bids, asks)


def join(runner, daemon, bids, asks):
    """A new DataFrame over the same streams, as a restarted program makes it."""
    return window_join(
        runner.stream("bids", bids), runner.stream("asks", asks), **OPTIONS, daemon=daemon.address, state=None
    )


@pytest.mark.main
def test_restart_from_the_checkpoint(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=6)
    runner.run(join(runner, daemon, bids[:3], asks[:3]))
    assert pairs(runner) == wanted(bids[:3], asks[:3])
    runner.run(join(runner, daemon, bids, asks))
    assert pairs(runner) == wanted(bids, asks)


def test_replay_of_a_batch_that_was_not_committed(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=4)
    query = runner.start(join(runner, daemon, bids, asks), "query", fail={2})
    with pytest.raises(Exception, match="the sink fails after micro-batch 2"):
        query.awaitTermination(600)
    before = list(runner.results["query"])
    assert {batch for batch, _ in before} <= {0, 1, 2}
    runner.run(join(runner, daemon, bids, asks))
    assert pairs(runner) == wanted(bids, asks)


@pytest.mark.parametrize("device", ["memory of one", "board of one"])
def test_restart_on_a_device_that_holds_one_join(runner, tmp_path_factory, seed, device):
    """The call that makes the join again takes nothing beside the live one; a join that could never fit is refused."""
    if device == "memory of one":
        made = NumpyDevice(memory_bytes=300_000)
        options = {**OPTIONS, "left": Rows(10), "right": Rows(5)}
    else:
        made = one_board()
        options = {**OPTIONS, "left": Rows(50), "right": Rows(50)}
    rows = (options["left"].count, options["right"].count)
    bids, asks = bids_and_asks(seed, batches=4)
    served = Daemon(made, tmp_path_factory.mktemp("d") / "sock")
    try:
        for batches in (2, 4):
            sides = runner.stream("bids", bids[:batches]), runner.stream("asks", asks[:batches])
            runner.run(window_join(*sides, **options, daemon=served.addresses[0], state=None))
            if device == "memory of one":
                assert 2 * made.used_bytes > made.memory_bytes
        with pytest.raises(CapacityError):
            window_join(*sides, **{**options, "left": Rows(40_000)}, daemon=served.addresses[0], state=None)
    finally:
        served.stop()
    loop = NestedLoop(("band", -2, 2), "limit", "price", rows=rows, sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)


def fail_first_attempt(batches, marker: str, rows_before: int):
    """For mapInArrow: raise in the first attempt at each micro-batch, after `rows_before` rows."""
    from pyspark import TaskContext

    context = TaskContext.get()
    passed = 0
    for batch in batches:
        cut = max(0, min(batch.num_rows, rows_before - passed))
        passed += batch.num_rows
        if context.attemptNumber() == 0 and passed > rows_before:
            if cut:
                yield batch.slice(0, cut)
            Path(f"{marker}-{context.getLocalProperty('streaming.sql.batchId')}").touch()
            raise RuntimeError("this attempt fails")
        yield batch


def failing(marker, rows_before):
    def function(batches):
        yield from fail_first_attempt(batches, marker, rows_before)

    return function


def test_task_that_fails_before_the_join(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=3)
    left, right = runner.stream("bids", bids), runner.stream("asks", asks)
    # The left side goes through whole, the right side breaks off: the daemon has staged rows of the first
    # attempt.
    broken = right.mapInArrow(failing(str(runner.folder / "failed"), 10), right.schema)
    runner.run(window_join(left, broken, **OPTIONS, daemon=daemon.address, state=None))
    assert len(list(runner.folder.glob("failed-*"))) >= 2
    if spark_version() >= (4, 0):  # before, the few rows of the attempt wait in Spark's buffers, and go with it
        assert newest_query(daemon)["discarded"] >= 2
    assert pairs(runner) == wanted(bids, asks)


def test_task_that_fails_after_the_daemon_answered(runner, daemon, seed):
    bids, asks = bids_and_asks(seed, batches=3)
    joined = join(runner, daemon, bids, asks)
    runner.run(joined.mapInArrow(failing(str(runner.folder / "failed"), 5), joined.schema))
    assert len(list(runner.folder.glob("failed-*"))) >= 2
    assert newest_query(daemon)["repeats"] >= 2
    assert pairs(runner) == wanted(bids, asks)
