"""The daemon that is started where none is named."""

import subprocess
import sys
import time

import pytest

import muntin.pyspark_bridge.private_daemon as private_daemon_module
from muntin import Band, Rows
from muntin.host.daemon import AwaitedDaemon
from muntin.pyspark_bridge import window_join
from tests.pyspark_bridge.data import bids_and_asks

OPTIONS = {
    "on": Band("limit", "price", -2, 2),
    "left": Rows(50),
    "right": Rows(50),
    "sequence": "seq",
    "device": "numpy",
}


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


def ended(daemon, seconds=20.0):
    """Whether the daemon's process, which was started, ends within some time."""
    process = daemon.daemon.process
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    return process.poll() is not None


def test_none_is_started_for_a_query_that_is_not(runner, seed, started):
    """The first one's query never starts, and outlives that of the second, which ends."""
    bids, asks = bids_and_asks(seed, batches=2)
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    window_join(*sides, **OPTIONS, state=None)
    joined = window_join(*sides, **OPTIONS, state=None)
    assert [daemon.daemon for daemon in started] == [None, None]
    runner.run(joined)
    assert ended(started[1])
    assert started[0].daemon is None


def test_ends_with_its_query_and_a_restart_says_so(runner, seed, started):
    bids, asks = bids_and_asks(seed, batches=2)
    joined = window_join(runner.stream("bids", bids), runner.stream("asks", asks), **OPTIONS, state=None)
    assert runner.run(joined)
    (daemon,) = started
    assert ended(daemon)
    before = list(runner.results["query"])
    runner.write("bids", 10, bids[1])
    with pytest.raises(Exception, match=r"no daemon answers.*muntin serve"):
        runner.start(joined, "query").awaitTermination(600)
    # The same program in a new process: another daemon, which knows that it lacks the window.
    again = window_join(runner.stream("bids"), runner.stream("asks"), **OPTIONS, state=None)
    with pytest.raises(Exception, match=r"StateLostError.*muntin serve"):
        runner.start(again, "query").awaitTermination(600)
    assert runner.results["query"] == before
    assert ended(started[1])


def test_serves_two_queries_until_the_second_ends(runner, seed, started):
    bids, asks = bids_and_asks(seed, batches=2)
    joined = window_join(runner.stream("bids", bids), runner.stream("asks", asks), **OPTIONS, state=None)
    second = runner.start(joined, "second", available_now=False)
    runner.run(joined, "first")
    second.processAllAvailable()
    assert not ended(started[0], 1.0)
    assert sorted(row for _, row in runner.results["first"]) == sorted(row for _, row in runner.results["second"])
    second.stop()
    assert ended(started[0])


def test_batches_share_one_that_ends_with_the_process(spark, started, monkeypatch):
    monkeypatch.setattr(private_daemon_module, "_of_batches", {})
    frame = spark.range(30).withColumnRenamed("id", "k")
    for _ in range(2):
        joined = window_join(
            frame, frame, on=Band("k", "k", 0, 0), left=Rows(9), right=Rows(9), device="numpy", state=None
        )
        assert joined.count() == 30  # a self join, in which each row meets itself
    assert len(started) == 1
    assert started[0].daemon.process.poll() is None


def test_ends_with_a_process_that_is_killed(tmp_path):
    script = (
        "import os, signal\n"
        "from muntin.host.daemon import start_private\n"
        "daemon = start_private('numpy')\n"
        "print(daemon.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    pid = int(killed.stdout)
    until = time.monotonic() + 20
    while time.monotonic() < until and _alive(pid):
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
