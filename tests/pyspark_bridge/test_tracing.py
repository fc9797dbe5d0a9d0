"""Spans from Spark's tasks on."""

import sys
import time

import pytest

from muntin import AllOf, Band, Compare, Rows
from muntin.host import tracing
from muntin.host.errors import UnsupportedError
from muntin.pyspark_bridge import window_join
from tests.collector import collecting, paths
from tests.pyspark_bridge.data import bids_and_asks

pytest.importorskip("opentelemetry.sdk", reason="spans need OpenTelemetry: pip install 'muntin[tracing]'")

WINDOWS = {"left": Rows(50), "right": Rows(50), "sequence": "seq", "device": "numpy", "tracing": True}


def below(path, *names):
    return {path, *(f"{path}/{name}" for name in names)}


@pytest.fixture(scope="module")
def collector():
    with collecting() as listening, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.address)
        yield listening


def traces(collector, task, joins):
    """Two traces that have such a task, once each has its joins: the daemon sends its spans when it ends."""

    def there():
        found = {span.trace for span in collector.spans if span.name == task}
        have = [sum(span.name == "join" and span.trace == trace for span in collector.spans) for trace in found]
        return found if have == [joins, joins] else None

    until = time.monotonic() + 30
    while (found := there()) is None:
        assert time.monotonic() < until, paths(collector.spans)
        time.sleep(0.05)
    return found


def test_one_stage(runner, seed, collector):
    """Each micro-batch is a trace, from Spark's task to the join in the daemon's process."""
    bids, asks = bids_and_asks(seed, batches=2)
    joined = window_join(
        runner.stream("bids", bids),
        runner.stream("asks", asks),
        on=Band("limit", "price", -2, 2),
        **WINDOWS,
        state=None,
    )
    runner.run(joined)
    for trace in traces(collector, "spark run", joins=1):
        found = paths(span for span in collector.spans if span.trace == trace)
        served = "spark run/request process/daemon process"
        assert (
            below(served, "receive", "wait for the query", "join", "join/engine", "join/materialize", "send") <= found
        )
        assert all(path.startswith("spark run") for path in found)


def test_two_stages_and_partitions(runner, seed, collector):
    bids, asks = bids_and_asks(seed, batches=2)
    on = AllOf(Compare("limit", "=", "price"), Band("id", "id", -90, 90))
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    runner.run(window_join(*sides, on=on, partitions=2, **WINDOWS, state=None))
    for trace in traces(collector, "spark fetch", joins=2):
        spans = [span for span in collector.spans if span.trace == trace]
        assert {"spark send/request stage/daemon stage", "spark fetch/request fetch/daemon fetch/join"} <= paths(spans)
        assert {span.name for span in spans if span.parent is None} == {"spark send", "spark fetch"}


def test_the_package_is_missed_before_the_query_starts(spark, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    frame = spark.range(3)
    with pytest.raises(UnsupportedError, match=r"pip install 'muntin\[tracing\]'"):
        window_join(frame, frame, on=Band("id", "id", 0, 0), tracing=True, state=None)


def test_the_environment_asks_for_spans(monkeypatch):
    assert not tracing.tracing_wanted()
    monkeypatch.setenv("MUNTIN_TRACING", "1")
    assert tracing.tracing_wanted()
