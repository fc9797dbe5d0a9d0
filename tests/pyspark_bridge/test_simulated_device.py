"""Spark, a daemon and the hardware's simulation, end to end."""

from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from muntin import Band, Rows
from muntin.host.daemon import DaemonClient, start_private
from muntin.pyspark_bridge import demo, window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.simulated import simulated


@pytest.mark.parametrize("device", ["sim:bisort-fast", "sim:splitjoin-model"])
def test_a_stream_through_a_daemon(runner, seed, device):
    """`muntin serve --device` with a simulated one, and a query that names the daemon."""
    bids, asks = bids_and_asks(seed, batches=3)
    with start_private(simulated(device, 64)) as daemon, DaemonClient(daemon.address) as client:
        joined = window_join(
            runner.stream("bids", bids),
            runner.stream("asks", asks),
            on=Band("limit", "price", -2, 1),
            left=Rows(50),
            right=Rows(30),
            sequence="seq",
            daemon=daemon.address,
            state=None,
        )
        runner.run(joined.select("id", "id_right", "note", "note_right"))
        assert client.ping()["device"] == device
    loop = NestedLoop(("band", -2, 1), "limit", "price", rows=(50, 30), sequence="seq")
    due = [
        (pair.call, pair.left, pair.right) for batch in zip(bids, asks, strict=True) for pair in loop.process(*batch)
    ]
    assert len(due) > 100
    found = [(batch, row["id"], row["id_right"]) for batch, row in runner.results["query"]]
    assert sorted(found) == sorted(due)


def test_the_demo(spark, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(demo, "_session", lambda folder, master: nullcontext(spark))
    device = simulated("sim:bisort-fast", 64)
    arguments = ["--device", device, "--rows", "400", "--batch-rows", "200", "--seed", str(seed % 1000)]
    told = CliRunner().invoke(demo.main, [*arguments, "--keep", str(tmp_path / "kept")])
    assert told.exit_code == 0, told.output
    assert "sim:bisort-fast" in told.output
    assert "correct: all" in told.output
