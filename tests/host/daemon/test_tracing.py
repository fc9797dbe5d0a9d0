"""Spans: which there are, and which is above which, in one process and over the wire."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from muntin import WindowJoin
from muntin.host import tracing
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.errors import ReplayError, UnsupportedError
from tests.collector import Seen, collecting, ended, paths
from tests.host.daemon.conftest import SPEC, TOKEN, batch, open_query, process
from tests.host.daemon.test_replay import wait_until
from tests.host.daemon.test_stage import TIMED, fetch, send, tasks_of

JOINED = {"join", "join/engine", "join/materialize"}
WRITTEN = {"join/write state", "join/write state/sync", "join/wait for the state"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the spans of this process go, which are on."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    return kept


@pytest.fixture(params=["unix", "flight"])
def client(request: pytest.FixtureRequest, directory: Path) -> Iterator[DaemonClient]:
    """A client of a daemon in this process that keeps state, over each front end in turn."""
    flight = FlightOptions("127.0.0.1", 0, TOKEN)
    daemon = Daemon("cpu", directory / "s", flight=flight, state=str(directory / "state"))
    address, token = (daemon.addresses[0], None) if request.param == "unix" else (daemon.addresses[1], TOKEN)
    with DaemonClient(address, token, timeout=120) as client:
        yield client
    daemon.stop()


def finished(exporter: InMemorySpanExporter, daemon: int | None = None) -> list[Seen]:
    """The spans so far, once those of the daemon have ended too: as many as requests, or so many."""

    def complete() -> bool:
        names = [span.name.partition(" ")[0] for span in exporter.get_finished_spans()]
        described = sum(span.name == "daemon describe" for span in exporter.get_finished_spans())  # of Flight's own
        return names.count("daemon") - described == (names.count("request") if daemon is None else daemon)

    wait_until(complete)
    return ended(exporter.get_finished_spans())


def below(path: str, names: set[str]) -> set[str]:
    return {path, *(f"{path}/{name}" for name in names)}


def test_one_trace_from_the_client_to_the_device(client: DaemonClient, exporter: InMemorySpanExporter) -> None:
    with tracing.span("task"):
        open_query(client)
        process(client, 0)
    spans = finished(exporter)
    assert len({span.trace for span in spans}) == 1
    served = {"receive", "wait for the query", "send", *JOINED, *WRITTEN}
    wanted = {"task", *below("task/request open", {"daemon open"})}
    wanted |= {"task/request process", *below("task/request process/daemon process", served)}
    found = paths(spans)
    assert wanted <= found
    assert all(path.startswith(("task/request describe", "task/request process", "task/request open")) or path == "task"
               for path in found)  # fmt: skip
    (joined,) = (span for span in spans if span.name == "join")
    assert joined.attributes == {
        "muntin.batch": 0, "muntin.device": "cpu", "muntin.left_rows": 40, "muntin.right_rows": 40,
    }  # fmt: skip
    assert sum(span.name == "sync" for span in spans) == 2  # rows and commit
    assert not any(span.failed for span in spans)


def test_parts_and_what_fails(client: DaemonClient, exporter: InMemorySpanExporter) -> None:
    with tracing.span("send"):
        keys = [send(client, TIMED, 0, *task) for task in tasks_of(0, 2)]
    with tracing.span("fetch"):
        fetch(client, 0, keys)
    found = paths(finished(exporter))
    assert "send/request stage/daemon stage/receive" in found
    assert below("fetch/request fetch/daemon fetch", {"wait for the query", *JOINED, *WRITTEN}) <= found
    exporter.clear()
    open_query(client)
    process(client, 0)
    process(client, 2)
    with pytest.raises(ReplayError):
        process(client, 1)
    spans = finished(exporter)
    failed = {span.name for span in spans if span.failed}
    assert failed == {"daemon process", "request process"}


def test_a_join_in_one_process(exporter: InMemorySpanExporter) -> None:
    with WindowJoin.from_spec(SPEC, device="numpy") as join:
        rows = dict(batch(0))
        join.process(rows["left"], rows["right"])
        blocks = join.process_blocks(rows["left"], rows["right"], block_bytes=1)
        next(blocks)
        assert sum(span.name == "join" for span in exporter.get_finished_spans()) == 1  # the second one has not ended
        blocks.close()
    spans = ended(exporter.get_finished_spans())
    assert paths(spans) == JOINED
    assert sum(span.name == "join" for span in spans) == 2
    assert tracing._trace_id.get() is None


def test_nothing_where_it_is_off(client: DaemonClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_named", pytest.fail)  # of every span's attributes
    open_query(client)
    process(client, 0)


@pytest.mark.parametrize("given", [5, "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_context_that_is_none(client: DaemonClient, exporter: InMemorySpanExporter, given: object) -> None:
    client._transport.call({"op": "ping", "traceparent": given})
    assert paths(finished(exporter, 1)) == {"daemon ping"}


def test_over_the_wire(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The daemon's spans come from its own process; those of the client are above them."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        with start_private("numpy", tracing=True, state=str(tmp_path)) as daemon:
            with DaemonClient(daemon.address, timeout=120) as client, tracing.span("task"):
                open_query(client)
                process(client, 0)
            assert ended(exporter.get_finished_spans())
    spans = [*ended(exporter.get_finished_spans()), *collector.spans]
    assert len({span.trace for span in spans}) == 1
    served = {"receive", "wait for the query", "send", *JOINED, *WRITTEN}
    assert below("task/request process/daemon process", served) <= paths(spans)


def test_start_tracing_without_the_package() -> None:
    script = "import sys; sys.modules['opentelemetry'] = None; import muntin; muntin.start_tracing()"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert "UnsupportedError" in told
    assert "pip install 'muntin[tracing]'" in told


def test_start_tracing_takes_the_processs_own_provider() -> None:
    script = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import muntin
from muntin.host import tracing
kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
muntin.start_tracing()
with trace.get_tracer("mine").start_as_current_span("mine"), tracing.span("ours"):
    pass
print([span.name for span in kept.get_finished_spans()])
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == (
        "['ours', 'mine']\n"
    )


def test_an_exporter_that_there_is_not() -> None:
    script = "import muntin; muntin.start_tracing()"
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "zipkin"}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert (
        f"{UnsupportedError.__name__}: OTEL_TRACES_EXPORTER must be otlp, console or none, not 'zipkin'" in told.stderr
    )
