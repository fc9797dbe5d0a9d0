"""Windows that outlive their daemon."""

import pytest
from click.testing import CliRunner

import muntin.pyspark_bridge.private_daemon as private_daemon_module
from muntin import Band, Compare, Rows
from muntin.host.cli import main
from muntin.host.daemon import AwaitedDaemon, start_private
from muntin.host.errors import StateError
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.test_partitions import rows
from tests.pyspark_bridge.test_streaming import expected, pairs

BAND, EQUAL = Band("limit", "price", -2, 2), Compare("limit", "=", "price")
OPTIONS = {"on": BAND, "left": Rows(50), "right": Rows(50), "sequence": "seq"}


def wanted(bids, asks):
    return expected(NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq"), bids, asks)


@pytest.fixture
def started(monkeypatch):
    """The private daemons that a test starts."""
    daemons = []

    def start(device, **options):
        daemons.append(AwaitedDaemon(device, **options))
        return daemons[-1]

    monkeypatch.setattr(private_daemon_module, "AwaitedDaemon", start)
    yield daemons
    for daemon in daemons:
        daemon.close()


def test_private_daemons_end_and_are_killed(runner, seed, started, tmp_path):
    """Each start of the query has a daemon of its own; the second one's is killed while a batch is at its sink."""
    bids, asks = bids_and_asks(seed, batches=6)

    def join(batches):
        sides = runner.stream("bids", bids[:batches]), runner.stream("asks", asks[:batches])
        return window_join(*sides, **OPTIONS, state=str(tmp_path / "state"))

    runner.run(join(2))
    assert pairs(runner) == wanted(bids[:2], asks[:2])
    query = runner.start(join(4), "query", fail={2})
    with pytest.raises(Exception, match="the sink fails after micro-batch 2"):
        query.awaitTermination(600)
    started[1].daemon.process.kill()  # if it has not ended with its query
    runner.run(join(6))
    assert pairs(runner) == wanted(bids, asks)
    assert len(started) == 3


def test_a_daemon_that_keeps_state_is_killed_between_batches(runner, seed, tmp_path):
    bids, asks = bids_and_asks(seed, batches=4)
    state = str(tmp_path / "state")
    first = start_private(state=state)
    query = None
    try:
        sides = runner.stream("bids", bids[:2]), runner.stream("asks", asks[:2])
        query = runner.start(window_join(*sides, **OPTIONS, daemon=first.address), "query", available_now=False)
        query.processAllAvailable()
        first.process.kill()
        runner.write("bids", 2, bids[2])
        runner.write("asks", 2, asks[2])
        with pytest.raises(Exception, match=r"no daemon answers|ConnectionLost|connection"):
            query.awaitTermination(600)
    finally:
        first.close()
    with start_private(state=state) as second:
        sides = runner.stream("bids", bids), runner.stream("asks", asks)
        runner.run(window_join(*sides, **OPTIONS, daemon=second.address))
    assert pairs(runner) == wanted(bids, asks)


@pytest.mark.main
@pytest.mark.parametrize(
    ("stopped", "on", "how"),
    [
        (False, BAND, "left"),
        pytest.param(True, EQUAL, "inner", marks=pytest.mark.full),
        pytest.param(True, BAND, "left", marks=pytest.mark.full),
        pytest.param(False, EQUAL, "inner", marks=pytest.mark.full),
    ],
    ids=["failed ranges", "stopped equality", "stopped ranges", "failed equality"],
)
def test_other_partitions_after_a_restart(runner, daemon, seed, tmp_path, on, how, stopped):
    """A query is rescaled after a micro-batch that is final, or whose sink has failed."""
    bids, asks = bids_and_asks(seed, batches=6)
    windows = {**OPTIONS, "on": on, "how": how}

    def join(batches, **options):
        sides = runner.stream("bids", bids[:batches]), runner.stream("asks", asks[:batches])
        return window_join(*sides, **windows, **options)

    state = str(tmp_path / "state")
    query = runner.start(join(3, state=state, partitions=2), "query", fail=set() if stopped else {2})
    if stopped:
        query.awaitTermination(600)
    else:
        with pytest.raises(Exception, match="the sink fails after micro-batch 2"):
            query.awaitTermination(600)
    with pytest.raises(Exception, match="windows of 2 partitions are there: see `muntin rescale"):
        runner.run(join(4, state=state, partitions=3))
    for batches, partitions in ((5, 3), (6, 1 if how == "inner" else 2)):
        told = CliRunner().invoke(main, ["rescale", state, "--partitions", str(partitions), "--delete-old"])
        assert told.exit_code == 0, told.output
        runner.run(join(batches, state=state, partitions=partitions, stages=2))
    runner.run(join(6, daemon=daemon.address, state=None), "one")
    assert rows(runner, "query") == rows(runner, "one")


def test_streams_say_where_their_windows_are_kept(spark, runner, seed, daemon, tmp_path):
    bids, asks = bids_and_asks(seed, batches=1)
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    for address in (daemon.address, None):
        with pytest.raises(
            StateError, match=r"state='/shared/folder' .* restarts from its checkpoint; state=None keeps"
        ):
            window_join(*sides, **OPTIONS, daemon=address)
    for state in (None, str(tmp_path)):
        assert window_join(*sides, **OPTIONS, daemon=daemon.address, state=state).isStreaming
    with start_private(state=str(tmp_path / "kept")) as keeps:
        assert window_join(*sides, **OPTIONS, daemon=keeps.address).isStreaming
        with pytest.raises(StateError, match="state=None"):
            window_join(*sides, **OPTIONS, daemon=[keeps.address, daemon.address], partitions=2)
    tables = [spark.createDataFrame(each[0]) for each in (bids, asks)]
    assert not window_join(*tables, **OPTIONS, daemon=daemon.address).isStreaming
